//! Many at once, in one catalog and in one that is opened twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windrow_pipelines::catalog::{Added, Catalog, CatalogError, GenerationState, Published};

use super::vectors::Follower;
use crate::bed::{Bed, cases, key, page, scope};

/// Runs all of them at once, and gives what each gave.
async fn all<T: Send + 'static>(
    tasks: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    let mut results = Vec::new();
    for one in running {
        results.push(one.await.expect("no task panics"));
    }
    results
}

cases![
    of_many_that_bring_one_document_one_makes_it,
    pages_of_one_document_are_written_at_once,
    entities_come_and_go_while_others_use_them,
    a_follower_misses_nothing_of_many_writers,
    whoever_writes_to_what_becomes_old_is_told,
    what_one_wrote_is_there_for_another_that_opens_it
];

async fn of_many_that_bring_one_document_one_makes_it(bed: &Bed) {
    let brought = all((0..16).map(|_| {
        let (catalog, new, now) =
            (Arc::clone(&bed.catalog), bed.new_document("a.md", "x"), bed.now());
        async move { catalog.add_document(new, now).await.unwrap() }
    }))
    .await;
    let new: Vec<&Added> = brought.iter().filter(|one| matches!(one, Added::New(_))).collect();
    assert_eq!(new.len(), 1, "{brought:?}");
    let at = key(new[0]);
    let unchanged = Added::Unchanged(at, GenerationState::Building);
    assert_eq!(brought.iter().filter(|one| **one == unchanged).count(), 15);
    let changed = all((0..16).map(|n| {
        let new = bed.new_document("a.md", &format!("content {n}"));
        let (catalog, now) = (Arc::clone(&bed.catalog), bed.now());
        async move { key(&catalog.add_document(new, now).await.unwrap()).generation }
    }))
    .await;
    let mut numbers = changed;
    numbers.sort_unstable();
    assert_eq!(numbers, (2..18).collect::<Vec<u32>>());
}

async fn pages_of_one_document_are_written_at_once(bed: &Bed) {
    let at = bed.building("a.md", "x", 64).await;
    let bed = Arc::new(Bed::over(Arc::clone(&bed.catalog), Arc::clone(&bed.base)));
    all((1..=64).map(|number| {
        let bed = Arc::clone(&bed);
        async move {
            // Ada and Everybody are on each page, in another order.
            let text = if number % 2 == 0 { "Ada, Bob, Everybody" } else { "Everybody, Bob, Ada" };
            let markdown = format!("{text} on Page{number}.\n\nMore of Page{number}.");
            for _ in 0..2 {
                let ids = bed.read(page(at, number), &markdown).await;
                bed.enrich("t", &ids).await.unwrap();
            }
        }
    }))
    .await;
    bed.publish(at).await;
    let progress = bed.catalog.progress("t", at).await.unwrap().unwrap();
    assert_eq!(
        (progress.pages_chunked, progress.chunks_embedded, progress.chunks_linked),
        (64, 128, 128)
    );
    let counts = bed.base.counts().unwrap();
    assert_eq!((counts["chunks"], counts["vectors"]), (128, 128), "{counts:?}");
    // Ada, Bob, Everybody, More, and one for each page.
    assert_eq!((counts["entities"], counts["mentions"]), (68, 64 * 6), "{counts:?}");
}

async fn entities_come_and_go_while_others_use_them(bed: &Bed) {
    let bed = Arc::new(Bed::over(bed.base.open().await.unwrap(), Arc::clone(&bed.base)));
    all((0..8).map(|n| {
        let bed = Arc::clone(&bed);
        async move {
            for round in 0..6 {
                // Everybody mentions these, forgets them, and goes.
                let text = format!("Zoe, Ada and Max, round {round} of {n}.");
                let at = bed.ingest(&format!("{n}.md"), &[text.as_str()]).await;
                let ids = bed.read(page(at, 1), "nobody").await;
                bed.enrich("t", &ids).await.unwrap();
                bed.read(page(at, 1), &text).await;
                let ids = bed.catalog.chunks("t", page(at, 1)).await.unwrap();
                bed.enrich("t", &[ids[0].id]).await.unwrap();
                for old in bed.catalog.old_generations(100).await.unwrap() {
                    bed.catalog.remove_generation(old.at).await.unwrap();
                }
            }
        }
    }))
    .await;
    let counts = bed.base.counts().unwrap();
    assert_eq!(
        (counts["entities"], counts["mentions"], counts["chunks"]),
        (3, 24, 8),
        "{counts:?}"
    );
    let called = bed.catalog.entities_called(&scope(), "zoe").await.unwrap();
    assert_eq!(called[0].mentions, 8);
}

async fn a_follower_misses_nothing_of_many_writers(bed: &Bed) {
    let bed = Arc::new(Bed::over(Arc::clone(&bed.catalog), Arc::clone(&bed.base)));
    let is_over = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn({
        let (bed, is_over) = (Arc::clone(&bed), Arc::clone(&is_over));
        async move {
            let mut follower = Follower::default();
            loop {
                let is_last = is_over.load(Ordering::SeqCst);
                follower.follow(&*bed.catalog, 7).await;
                if is_last {
                    return follower;
                }
                tokio::task::yield_now().await;
            }
        }
    });
    all((0..8).map(|n| {
        let bed = Arc::clone(&bed);
        async move {
            for round in 0..5 {
                let text = format!("Text {round} of {n}.\n\nAnd more.");
                bed.ingest(&format!("{n}.md"), &[text.as_str(), "A second page."]).await;
            }
        }
    }))
    .await;
    is_over.store(true, Ordering::SeqCst);
    let follower = watching.await.unwrap();
    let mut fresh = Follower::default();
    fresh.follow(&*bed.catalog, 1_000).await;
    assert_eq!((&follower.points, &follower.live), (&fresh.points, &fresh.live));
    assert_eq!(follower.seen().len(), 8 * 3);
}

async fn whoever_writes_to_what_becomes_old_is_told(bed: &Bed) {
    for round in 0..10 {
        let first = bed.building("a.md", &format!("first {round}"), 8).await;
        let second = key(&bed.add("a.md", &format!("second {round}")).await);
        let bed = Arc::new(Bed::over(Arc::clone(&bed.catalog), Arc::clone(&bed.base)));
        let writing = (1..=8).map(|number| {
            let bed = Arc::clone(&bed);
            tokio::spawn(async move { bed.try_read(page(first, number), "Late text.").await })
        });
        let writing: Vec<_> = writing.collect();
        assert!(matches!(bed.publish(second).await, Published::Live { .. }));
        bed.catalog.remove_generation(first).await.unwrap();
        for one in writing {
            let result = one.await.unwrap();
            let is_told = matches!(result, Ok(_) | Err(CatalogError::Gone { .. }));
            assert!(is_told, "{result:?}");
        }
        let counts = bed.base.counts().unwrap();
        assert!(!counts.contains_key("chunks") && !counts.contains_key("pages"), "{counts:?}");
    }
}

async fn what_one_wrote_is_there_for_another_that_opens_it(bed: &Bed) {
    let at = bed.ingest("a.md", &["Ada is writing."]).await;
    let other: Arc<dyn Catalog> = bed.base.open().await.unwrap();
    let other = Bed::over(other, Arc::clone(&bed.base));
    other.skip(1_000);
    assert_eq!(other.found("ada").await, ["a.md:1"]);
    let second = other.ingest("a.md", &["Bob is writing."]).await;
    assert_eq!((second.document, second.generation), (at.document, 2));
    assert_eq!(bed.found("writing").await, ["a.md:1"]);
    assert!(bed.found("ada").await.is_empty());
    let of_both = bed.catalog.fingerprint(&scope()).await;
    assert_eq!(of_both, other.catalog.fingerprint(&scope()).await);
}
