//! Anybody may enqueue an item. None of them does anything to a document of somebody else, or to
//! one of its own that nobody asked for.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use windrow_core::ItemId;
use windrow_core::command::NewItem;
use windrow_core::item::{Body, Status};
use windrow_core::route::Route;
use windrow_pipelines::catalog::{DocumentState, GenerationKey, PageKey, PageOutcome};
use windrow_pipelines::documents::{QUEUE, TextFiles};

use crate::place::{Place, enqueued};

const BEES: &str = "The bees of the northern hives fly at nine degrees and above.";

/// An item of a tenant that says it is about a generation.
async fn forge(
    place: &Place,
    (tenant, kind, op, stage): (&str, &str, &str, &str),
    at: GenerationKey,
    file: &str,
) -> ItemId {
    let metadata = serde_json::json!({
        "document": at.document, "generation": at.generation, "filename": "bees.txt",
        "media_type": "text/plain", "file": file, "bytes": BEES.len(), "page": 1,
    });
    let body = Body {
        kind: kind.into(),
        op: op.into(),
        route: Route::of(&[stage]),
        metadata: Some(metadata.to_string()),
        ..Body::new(tenant, QUEUE)
    };
    place.queue.enqueue(vec![NewItem::new(body)], None).await.unwrap().remove(0).unwrap().id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_item_changes_nothing() {
    let place = Place::new("forged");
    let workers = place.start(Arc::new(TextFiles)).await;
    let (at, item) = enqueued(place.add("bees.txt", BEES).await);
    assert_eq!(place.ended(item).await, Status::Completed);
    let (other, item) = enqueued(place.add("wasps.txt", "Wasps build nests of paper.").await);
    assert_eq!(place.ended(item).await, Status::Completed);
    let hash = |text: &str| {
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let (bees, wasps) = (hash(BEES), hash("Wasps build nests of paper."));
    let next = GenerationKey { generation: u32::MAX, ..at };
    for (tenant, kind, op, stage, at, file) in [
        // Of another tenant.
        ("rival", "document", "delete", "pages", at, &bees),
        ("rival", "document", "delete", "pages", next, &bees),
        ("rival", "document", "ingest", "publish", at, &bees),
        ("rival", "document", "ingest", "pages", at, &bees),
        ("rival", "page", "ingest", "ocr", at, &bees),
        ("rival", "page", "ingest", "chunk", at, &bees),
        // Of its own, with the file of another document, or without anybody who asked.
        ("acme", "page", "ingest", "ocr", at, &wasps),
        ("acme", "document", "delete", "pages", at, &bees),
    ] {
        let forged = forge(&place, (tenant, kind, op, stage), at, file).await;
        let ended = place.ended(forged).await;
        let is_nothing = matches!(ended, Status::Failed | Status::Skipped)
            || (ended == Status::Completed && op == "delete" && tenant == "rival");
        assert!(is_nothing, "{tenant} {op} {stage}: {ended:?}");
    }
    // It ended as if it had been done.
    let unknown = GenerationKey { document: uuid::Uuid::from_u128(7), generation: 1 };
    let forged = forge(&place, ("acme", "document", "ingest", "pages"), unknown, &bees).await;
    assert_eq!(place.ended(forged).await, Status::Skipped);
    for at in [at, other] {
        let document = place.catalog.document("acme", at.document).await.unwrap().unwrap();
        assert_eq!(document.state, DocumentState::Live);
    }
    let page = PageKey { document: at.document, generation: 1, number: 1 };
    let page = place.catalog.page("acme", page).await.unwrap().unwrap();
    assert!(
        matches!(&page.outcome, PageOutcome::Read { markdown, .. } if markdown.contains("bees"))
    );
    assert_eq!(place.found("nine degrees").await[0].0, "bees.txt");
    workers.stop().await.unwrap();
}
