//! Removing generations and deleting documents: nothing stays behind.

use windrow_pipelines::catalog::{Added, Deleted, DocumentState, GenerationKey, TextQuery};

use crate::bed::{Bed, cases, is_bad, is_gone, key, outcome, page};

/// More than one slice of everything.
fn long() -> Vec<String> {
    let paragraph = |page: u32, n: u32| format!("Ada{page} met Bob{n} and Everybody.");
    let page = |page| (0..30).map(|n| paragraph(page, n)).collect::<Vec<_>>().join("\n\n");
    (0..20).map(page).collect()
}

cases![
    a_removed_generation_leaves_nothing_of_itself,
    a_deleted_document_leaves_nothing,
    a_document_is_deleted_only_after_it_was_marked,
    a_removal_that_was_interrupted_goes_on
];

async fn a_removed_generation_leaves_nothing_of_itself(bed: &Bed) {
    bed.ingest("other.md", &["Ada0 and Everybody stay."]).await;
    let before = bed.base.counts().unwrap();
    let pages = long();
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let first = bed.ingest("a.md", &pages).await;
    let second = bed.ingest("a.md", &["Short."]).await;
    is_bad(bed.catalog.remove_generation(second).await, "is live, not old");
    for _ in 0..2 {
        bed.catalog.remove_generation(first).await.unwrap();
    }
    assert!(bed.catalog.old_generations(10).await.unwrap().is_empty());
    assert_eq!(bed.catalog.generation("t", first).await.unwrap(), None);
    assert_eq!(bed.found("short").await, ["a.md:1"]);
    bed.forget_leftovers().await;
    // What is left: the other document, one small generation, and the news of the removal.
    let mut left = bed.base.counts().unwrap();
    let one_more = |table: &str| (table.to_owned(), 1);
    let more = ["documents", "generations", "pages", "chunks", "vectors", "dimensions"];
    let more = more.into_iter().chain(["mentions", "entities"]).map(one_more);
    for (table, rows) in more {
        *left.get_mut(&table).unwrap() -= rows;
    }
    // What only one of the databases has for each chunk.
    for table in ["words_docsize", "graphs"] {
        if let Some(rows) = left.get_mut(table) {
            *rows -= 1;
        }
    }
    // One live and one removed.
    *left.get_mut("changes").unwrap() -= 2;
    assert_eq!(left, before);
    let number = bed.add("a.md", "a third").await;
    assert_eq!(key(&number).generation, 3, "numbers are not used again");
}

async fn a_deleted_document_leaves_nothing(bed: &Bed) {
    let pages = long();
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let at = bed.ingest("a.md", &pages).await;
    let next = bed.building("a.md", "a newer one", 2).await;
    bed.read(page(next, 1), "Cid is being read.").await;
    let id = at.document;
    let sinks = || vec!["vectors".to_owned(), "graph".to_owned()];
    for _ in 0..2 {
        assert_eq!(bed.catalog.begin_delete("t", id, sinks(), bed.now()).await, Ok(true));
    }
    let marked = bed.catalog.document("t", id).await.unwrap().unwrap();
    assert_eq!((marked.state, marked.live), (DocumentState::Deleting, None));
    assert!(bed.found("everybody").await.is_empty(), "search does not see it any more");
    is_gone(bed.catalog.put_page(page(next, 2), outcome("late")).await);
    is_gone(bed.catalog.publish(next, bed.now()).await);
    is_gone(bed.catalog.fail_generation(next, None).await);
    assert_eq!(bed.add("a.md", "again").await, Added::Deleting(id));
    let waiting = |sinks: &[&str]| Deleted::Waiting {
        sinks: sinks.iter().map(|sink| (*sink).to_owned()).collect(),
    };
    assert_eq!(bed.catalog.delete_document(id).await, Ok(waiting(&["graph", "vectors"])));
    bed.catalog.confirm_delete(id, "graph").await.unwrap();
    bed.catalog.confirm_delete(id, "nobody").await.unwrap();
    assert_eq!(bed.catalog.delete_document(id).await, Ok(waiting(&["vectors"])));
    assert_eq!(bed.catalog.begin_delete("t", id, sinks(), bed.now()).await, Ok(true));
    assert_eq!(bed.catalog.delete_document(id).await, Ok(waiting(&["vectors"])), "graph is done");
    bed.catalog.confirm_delete(id, "vectors").await.unwrap();
    for _ in 0..2 {
        assert_eq!(bed.catalog.delete_document(id).await, Ok(Deleted::Gone));
    }
    assert_eq!(bed.catalog.document("t", id).await.unwrap(), None);
    assert_eq!(bed.catalog.begin_delete("t", id, sinks(), bed.now()).await, Ok(false));
    bed.catalog.confirm_delete(id, "vectors").await.unwrap();
    bed.forget_leftovers().await;
    // Only the news of it, which indexes elsewhere may not have heard; then nothing.
    let counts = bed.base.counts().unwrap();
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["changes"], "{counts:?}");
    assert!(bed.catalog.sweep_changes(u64::MAX, 1_000).await.unwrap() >= 2);
    assert_eq!(bed.base.counts().unwrap().len(), 0);
    assert!(matches!(bed.add("a.md", "again").await, Added::New(_)));
}

async fn a_document_is_deleted_only_after_it_was_marked(bed: &Bed) {
    let at = bed.ingest("a.md", &["One."]).await;
    is_bad(bed.catalog.delete_document(at.document).await, "is live, not marked");
    bed.catalog.confirm_delete(at.document, "graph").await.unwrap();
    is_bad(bed.catalog.delete_document(at.document).await, "is live, not marked");
    assert_eq!(bed.found("one").await, ["a.md:1"]);
}

async fn a_removal_that_was_interrupted_goes_on(bed: &Bed) {
    let pages = long();
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let first = bed.ingest("a.md", &pages).await;
    bed.ingest("a.md", &["Short."]).await;
    {
        // Dropped after it has begun: as if the process had gone.
        let removing = bed.catalog.remove_generation(first);
        let soon = std::time::Duration::from_micros(1);
        let _given_up = tokio::time::timeout(soon, removing).await;
    }
    let old = bed.catalog.old_generations(10).await.unwrap();
    for one in old {
        bed.catalog.remove_generation(one.at).await.unwrap();
    }
    let counts = bed.base.counts().unwrap();
    assert_eq!((counts["chunks"], counts["pages"], counts["generations"]), (1, 1, 1), "{counts:?}");
    assert_eq!(bed.found_by(TextQuery::of("t", "short")).await, ["a.md:1"]);
    assert_eq!(bed.catalog.chunks("t", page(first, 1)).await.unwrap(), []);
    let nowhere = GenerationKey { generation: 9, ..first };
    bed.catalog.remove_generation(nowhere).await.unwrap();
}
