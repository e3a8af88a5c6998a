//! Documents that were read elsewhere: they stand here as they stood there, and what failed there
//! can be done here. With both gates, because chunks are made in two places.

use windrow_core::ItemId;
use windrow_core::command::RetryMode;
use windrow_core::item::Status;
use windrow_core::queue::Queue as _;
use windrow_pipelines::catalog::{DocumentState, GenerationKey, ManifestOutcome};
use windrow_pipelines::documents::elsewhere::{Chunk, Elsewhere, MEDIA_TYPE, Page, Stood, written};
use windrow_pipelines::documents::{Gate, TextFiles};

use crate::place::{Place, enqueued};

fn failed(why: &str) -> Stood {
    Stood::Failed { why: why.to_owned() }
}

/// Two pages that were read, one that failed, one without its text; a chunk that failed.
fn report() -> Elsewhere {
    let chunk = |id: &str, vector: Stood| Chunk { id: Some(id.into()), vector, ..Chunk::default() };
    let text = "Barley is sown in March.\n\nOats follow in April, when frost is over.";
    let read = Page {
        text: Some(text.to_owned()),
        chunks: Some(vec![chunk("a", Stood::Completed), chunk("b", failed("no answer"))]),
        ..Page::default()
    };
    let torn = Page { ocr: failed("too dark"), ..Page::default() };
    let lost = Page { chunks: Some(vec![chunk("c", Stood::Completed)]), ..Page::default() };
    let plain = Page { text: Some("Hops are dried in a kiln.".into()), ..Page::default() };
    Elsewhere { pages: vec![read, torn, lost, plain], ..Elsewhere::default() }
}

async fn add(place: &Place, document: &Elsewhere) -> (GenerationKey, ItemId) {
    let file = written(document).unwrap();
    enqueued(place.add_as("report.txt", MEDIA_TYPE, &file).await)
}

/// Has everything done again that failed, and waits for it.
async fn recovered(place: &Place, item: ItemId) {
    place.queue.retry(item, RetryMode::Reset, None, None).await.unwrap();
    place.ended(item).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_done_is_taken_over_and_what_failed_fails_once() {
    for gate in [Gate::Item, Gate::Document] {
        let mut place = Place::new(&format!("elsewhere-{gate:?}"));
        place.gate = gate;
        let workers = place.start(std::sync::Arc::new(TextFiles)).await;
        let (at, item) = add(&place, &report()).await;
        place.ended(item).await;
        let known = place.catalog.progress("acme", at).await.unwrap().unwrap();
        assert_eq!((known.pages, known.pages_read, known.pages_without), (Some(4), 3, 1));
        // As many as there were, and one of the page whose chunks were not known.
        assert_eq!((known.chunks, known.chunks_embedded), (4, 2), "{gate:?}");
        assert_eq!(place.found("barley sown").await[0], ("report.txt".to_owned(), 1));
        assert_eq!(place.found("hops kiln").await[0], ("report.txt".to_owned(), 4));
        let manifest = place.catalog.manifest("acme", at, 0, 10).await.unwrap();
        let ManifestOutcome::Without { reason } = &manifest[1].outcome else { panic!() };
        assert_eq!(reason, "it failed elsewhere: too dark");
        let ManifestOutcome::Read { how, bytes: 0 } = &manifest[2].outcome else { panic!() };
        assert_eq!(how, "elsewhere_without_text");

        recovered(&place, item).await;
        let known = place.catalog.progress("acme", at).await.unwrap().unwrap();
        assert_eq!((known.chunks, known.chunks_embedded), (4, 3), "{gate:?}");
        assert_eq!(place.found("oats frost").await[0], ("report.txt".to_owned(), 1));
        let manifest = place.catalog.manifest("acme", at, 0, 10).await.unwrap();
        let ManifestOutcome::Without { reason } = &manifest[1].outcome else { panic!() };
        assert!(reason.contains("its file is not at hand"), "{reason}");
        workers.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_that_came_along_is_read_where_nothing_else_is_known() {
    let place = Place::new("elsewhere-original");
    let workers = place.start(std::sync::Arc::new(TextFiles)).await;
    let text = b"Barley.\x0cRye stands in the second field.\x0cWheat is in the third.".to_vec();
    let original = Some(("text/plain".to_owned(), text));
    let (at, item) = add(&place, &Elsewhere { original: original.clone(), ..report() }).await;
    place.ended(item).await;
    assert_eq!(place.found("wheat third").await[0], ("report.txt".to_owned(), 3), "it had no text");
    assert!(place.found("rye field").await.iter().all(|(_, page)| *page != 2), "it failed there");
    recovered(&place, item).await;
    assert_eq!(place.found("rye field").await[0], ("report.txt".to_owned(), 2));

    // One that nobody began with is a new version, and all of it is read.
    let pending = Elsewhere { stood: Stood::Pending, pages: Vec::new(), original };
    let (newer, item) = add(&place, &pending).await;
    assert_eq!((newer.document, newer.generation), (at.document, 2));
    assert_eq!(place.ended(item).await, Status::Completed);
    assert_eq!(place.found("rye field").await[0], ("report.txt".to_owned(), 2));
    workers.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_pages_a_document_is_done_or_failed_or_waits_as_a_whole() {
    let place = Place::new("elsewhere-whole");
    let workers = place.start(std::sync::Arc::new(TextFiles)).await;
    let whole = |stood: Stood| Elsewhere { stood, ..Elsewhere::default() };
    let state = async |at: GenerationKey| {
        place.catalog.document("acme", at.document).await.unwrap().unwrap().state
    };
    let (at, item) = add(&place, &whole(failed("no such file"))).await;
    assert_eq!(place.ended(item).await, Status::Failed);
    assert_eq!(state(at).await, DocumentState::Failed);
    let (at, item) = add(&place, &whole(Stood::Completed)).await;
    assert_eq!(place.ended(item).await, Status::Completed);
    assert_eq!(state(at).await, DocumentState::Live);
    let (_, item) = add(&place, &whole(Stood::Pending)).await;
    loop {
        let seen = place.queue.inspect(item).await.unwrap().unwrap();
        assert!(matches!(seen.status, Status::Pending | Status::Processing), "{seen:?}");
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let weeks = since.as_millis() as u64 + 14 * 24 * 3_600_000;
        if seen.not_before.is_some_and(|until| until.0 > weeks) {
            break;
        }
        place.moment().await;
    }
    workers.stop().await.unwrap();
}
