//! Pages: what came of each.

use windrow_pipelines::catalog::{
    GenerationKey, ManifestOutcome, PAGES_MAX, PageChunks, PageKey, PageOutcome, Progress,
};

use crate::bed::{Bed, cases, is_bad, is_gone, key, outcome, page};

cases![
    a_page_waits_until_it_is_read_or_it_is_said_why_not,
    the_number_of_pages_is_said_once,
    what_is_written_to_an_old_generation_is_gone,
    a_page_that_loses_its_text_loses_its_chunks,
    progress_counts_pages_and_chunks_by_phase,
    the_chunks_of_some_pages_are_counted,
    the_manifest_has_every_page_of_ten_thousand
];

async fn a_page_waits_until_it_is_read_or_it_is_said_why_not(bed: &Bed) {
    let at = bed.building("a.md", "x", 3).await;
    let first = bed.catalog.page("t", page(at, 1)).await.unwrap().unwrap();
    assert_eq!((first.outcome, first.chunks), (PageOutcome::Waiting, None));
    let read = outcome("# Ü\n\nText with \u{1f980}.");
    let without = PageOutcome::Without { reason: "the scan is blank".into() };
    for _ in 0..2 {
        bed.catalog.put_page(page(at, 1), read.clone()).await.unwrap();
        bed.catalog.put_page(page(at, 2), without.clone()).await.unwrap();
    }
    let found = |number| async move {
        bed.catalog.page("t", page(at, number)).await.unwrap().unwrap().outcome
    };
    assert_eq!(found(1).await, read);
    assert_eq!(found(2).await, without);
    assert_eq!(found(3).await, PageOutcome::Waiting);
    assert_eq!(bed.catalog.page("t", page(at, 4)).await.unwrap(), None);
    bed.catalog.put_page(page(at, 1), PageOutcome::Waiting).await.unwrap();
    assert_eq!(found(1).await, PageOutcome::Waiting, "it can be read again");
}

async fn the_number_of_pages_is_said_once(bed: &Bed) {
    let at = bed.building("a.md", "x", 3).await;
    bed.catalog.begin_pages(at, 3).await.unwrap();
    is_bad(bed.catalog.begin_pages(at, 4).await, "has 3 pages, not 4");
    assert_eq!(bed.base.counts().unwrap()["pages"], 3);
    is_bad(bed.catalog.put_page(page(at, 4), outcome("x")).await, "there is no page 4");
    is_bad(bed.catalog.put_chunks(page(at, 4), Vec::new()).await, "there is no page 4");
    is_bad(bed.catalog.begin_pages(at, PAGES_MAX + 1).await, "at once");
    let none = bed.building("empty.md", "", 0).await;
    let progress = bed.catalog.progress("t", none).await.unwrap().unwrap();
    assert_eq!(progress, Progress { pages: Some(0), ..Progress::default() });
}

async fn what_is_written_to_an_old_generation_is_gone(bed: &Bed) {
    let first = bed.ingest("a.md", &["One."]).await;
    let chunk = bed.catalog.chunks("t", page(first, 1)).await.unwrap()[0].id;
    let second = bed.building("a.md", "two", 1).await;
    bed.publish(second).await;
    is_gone(bed.catalog.put_page(page(first, 1), outcome("late")).await);
    is_gone(bed.catalog.put_chunks(page(first, 1), Vec::new()).await);
    is_gone(bed.catalog.begin_pages(first, 1).await);
    is_gone(bed.catalog.put_graph(chunk, Default::default()).await);
    let vector = windrow_pipelines::catalog::NewVector { chunk, vector: vec![9.0] };
    assert_eq!(bed.catalog.put_vectors(vec![vector]).await, Ok(0));
    let nowhere = PageKey { document: uuid::Uuid::nil(), generation: 1, number: 1 };
    is_gone(bed.catalog.put_page(nowhere, outcome("x")).await);
    // A live one can be mended.
    bed.catalog.put_page(page(second, 1), outcome("mended")).await.unwrap();
}

async fn a_page_that_loses_its_text_loses_its_chunks(bed: &Bed) {
    let at = bed.ingest("a.md", &["Ada and Bob.\n\nMore.", "Another page."]).await;
    assert_eq!(bed.found("ada").await, ["a.md:1"]);
    let without = PageOutcome::Without { reason: "it was the wrong page".into() };
    bed.catalog.put_page(page(at, 1), without).await.unwrap();
    assert!(bed.found("ada").await.is_empty());
    let left = bed.catalog.page("t", page(at, 1)).await.unwrap().unwrap();
    assert_eq!(left.chunks, None);
    let counts = bed.base.counts().unwrap();
    assert_eq!((counts["chunks"], counts["vectors"]), (1, 1), "{counts:?}");
    assert_eq!(counts["entities"], 1, "{counts:?}");
    assert_eq!(bed.found("another").await, ["a.md:2"]);
}

async fn progress_counts_pages_and_chunks_by_phase(bed: &Bed) {
    let at = key(&bed.add("a.md", "x").await);
    let progress = || async { bed.catalog.progress("t", at).await.unwrap().unwrap() };
    assert_eq!(progress().await, Progress::default());
    bed.catalog.begin_pages(at, 4).await.unwrap();
    let ids = bed.read(page(at, 1), "One.\n\nTwo.\n\nThree.").await;
    bed.catalog.put_page(page(at, 2), outcome("Not cut yet.")).await.unwrap();
    let without = PageOutcome::Without { reason: "blank".into() };
    bed.catalog.put_page(page(at, 3), without).await.unwrap();
    bed.catalog.mark_embedded(ids[..2].to_vec(), "test@1").await.unwrap();
    bed.catalog.put_graph(ids[0], Default::default()).await.unwrap();
    let want = Progress {
        pages: Some(4),
        pages_read: 2,
        pages_without: 1,
        pages_chunked: 1,
        chunks: 3,
        chunks_embedded: 2,
        chunks_linked: 1,
    };
    assert_eq!(progress().await, want);
    let nowhere = GenerationKey { generation: 9, ..at };
    assert_eq!(bed.catalog.progress("t", nowhere).await.unwrap(), None);
    let empty = bed.building("b.md", "", 0).await;
    let all = bed.catalog.progress_of("t", vec![nowhere, empty, at]).await.unwrap();
    let none = Progress { pages: Some(0), ..Progress::default() };
    assert_eq!(all, [None, Some(none), Some(want)], "in their order");
    assert_eq!(bed.catalog.progress_of("u", vec![at]).await.unwrap(), [None]);
}

async fn the_chunks_of_some_pages_are_counted(bed: &Bed) {
    let at = bed.building("a.md", "x", 5).await;
    let ids = bed.read(page(at, 2), "One.\n\nTwo.\n\nThree.").await;
    bed.read(page(at, 4), "Four.").await;
    bed.catalog.mark_embedded(ids[..2].to_vec(), "test@1").await.unwrap();
    bed.catalog.put_graph(ids[0], Default::default()).await.unwrap();
    let counted = bed.catalog.page_chunks("t", at, vec![4, 1, 2, 9]).await.unwrap();
    let of = |total, embedded, linked| PageChunks { total, embedded, linked };
    assert_eq!(counted, [of(1, 0, 0), of(0, 0, 0), of(3, 2, 1), of(0, 0, 0)]);
    let theirs = bed.catalog.page_chunks("u", at, vec![2]).await.unwrap();
    assert_eq!(theirs, [of(0, 0, 0)]);
}

async fn the_manifest_has_every_page_of_ten_thousand(bed: &Bed) {
    let at = bed.building("a.pdf", "x", 10_000).await;
    bed.catalog.put_page(page(at, 7), outcome("seven")).await.unwrap();
    bed.catalog.put_chunks(page(at, 7), Vec::new()).await.unwrap();
    let without = PageOutcome::Without { reason: "unreadable".into() };
    bed.catalog.put_page(page(at, 9_999), without).await.unwrap();
    let (mut lines, mut after) = (Vec::new(), 0);
    loop {
        let some = bed.catalog.manifest("t", at, after, 1_000).await.unwrap();
        let Some(last) = some.last() else { break };
        after = last.number;
        lines.extend(some);
    }
    assert_eq!(
        lines.iter().map(|line| line.number).collect::<Vec<_>>(),
        (1..=10_000).collect::<Vec<u32>>()
    );
    let read = ManifestOutcome::Read { how: "text_layer".into(), bytes: 5 };
    assert_eq!((&lines[6].outcome, lines[6].chunks), (&read, Some(0)));
    assert_eq!(lines[9_998].outcome, ManifestOutcome::Without { reason: "unreadable".into() });
    let rest = lines.iter().filter(|line| line.outcome == ManifestOutcome::Waiting).count();
    assert_eq!(rest, 9_998);
}
