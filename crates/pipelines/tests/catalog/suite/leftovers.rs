//! What was removed and may lie elsewhere all the same.

use windrow_pipelines::catalog::{CatalogError, ChunkId, Removed, embedder};

use crate::bed::{Bed, cases, chunks, page};

cases![
    what_is_removed_is_noted_until_somebody_forgets_it,
    a_chunk_that_is_there_again_is_not_left_over,
    a_chunk_of_an_old_generation_is_not_marked
];

/// What is left over, without taking it for good.
async fn left(bed: &Bed) -> Vec<Removed> {
    let last = bed.catalog.last_leftover().await.unwrap();
    let all = bed.catalog.take_leftovers(last, 1_000).await.unwrap();
    all.iter().map(|one| one.of).collect()
}

async fn what_is_removed_is_noted_until_somebody_forgets_it(bed: &Bed) {
    let first = bed.ingest("a.md", &["One.\n\nTwo.", "Three."]).await;
    assert_eq!(left(bed).await, [], "nothing is gone yet");
    let cut: Vec<ChunkId> =
        bed.catalog.chunks("t", page(first, 1)).await.unwrap().iter().map(|one| one.id).collect();
    assert_eq!(cut.len(), 2);
    bed.catalog.put_chunks(page(first, 1), chunks("One.")).await.unwrap();
    let gone = Removed::Chunk(cut[1]);
    let last = bed.catalog.last_leftover().await.unwrap();
    let second = bed.ingest("a.md", &["Four."]).await;
    bed.catalog.remove_generation(first).await.unwrap();
    let old = bed.catalog.take_leftovers(last, 10).await.unwrap();
    assert_eq!(old.iter().map(|one| one.of).collect::<Vec<_>>(), [gone], "up to that number");
    let id = first.document;
    assert_eq!(bed.catalog.begin_delete("t", id, Vec::new(), bed.now()).await, Ok(true));
    bed.catalog.delete_document(id).await.unwrap();
    let all = [
        gone,
        Removed::Generation(first),
        Removed::Generation(second),
        Removed::Document(first.document),
    ];
    for _ in 0..2 {
        assert_eq!(left(bed).await, all, "taken again, should somebody have died over it");
    }
    bed.catalog.forget_leftovers(vec![old[0].number]).await.unwrap();
    assert_eq!(left(bed).await, all[1..]);
    bed.forget_leftovers().await;
    assert_eq!(left(bed).await, []);
    // Numbers are not used again: who remembers one takes nothing that came later.
    bed.ingest("b.md", &["One."]).await;
    let at = bed.ingest("b.md", &["Two."]).await;
    let old = bed.catalog.old_generations(10).await.unwrap();
    bed.catalog.remove_generation(old[0].at).await.unwrap();
    assert_eq!(old[0].at.document, at.document);
    assert_eq!(bed.catalog.take_leftovers(last, 10).await.unwrap(), []);
}

async fn a_chunk_that_is_there_again_is_not_left_over(bed: &Bed) {
    let at = bed.building("a.md", "a", 1).await;
    bed.read(page(at, 1), "One.").await;
    bed.catalog.put_chunks(page(at, 1), chunks("Two.")).await.unwrap();
    assert_eq!(bed.catalog.put_chunks(page(at, 1), chunks("One.")).await.unwrap().len(), 1);
    let two = left(bed).await;
    assert_eq!(two.len(), 1, "only the second is: {two:?}");
    // It is being removed elsewhere just now.
    let refused = bed.catalog.put_chunks(page(at, 1), chunks("Two.")).await;
    assert!(matches!(refused, Err(CatalogError::Transient { .. })), "{refused:?}");
    assert_eq!(bed.catalog.chunks("t", page(at, 1)).await.unwrap().len(), 1, "all or nothing");
    bed.forget_leftovers().await;
    bed.catalog.put_chunks(page(at, 1), chunks("Two.")).await.unwrap();
}

async fn a_chunk_of_an_old_generation_is_not_marked(bed: &Bed) {
    let first = bed.ingest("a.md", &["One."]).await;
    let ids: Vec<ChunkId> =
        bed.catalog.chunks("t", page(first, 1)).await.unwrap().iter().map(|one| one.id).collect();
    let by = embedder("test", "2");
    assert_eq!(bed.catalog.mark_embedded(ids.clone(), &by).await, Ok(1));
    bed.ingest("a.md", &["Two."]).await;
    assert_eq!(bed.catalog.mark_embedded(ids.clone(), &by).await, Ok(0), "it is old");
    bed.catalog.remove_generation(first).await.unwrap();
    assert_eq!(bed.catalog.mark_embedded(ids, &by).await, Ok(0), "it is gone");
}
