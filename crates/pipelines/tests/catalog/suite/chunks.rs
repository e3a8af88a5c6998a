//! Chunks: what pages are cut into.

use windrow_pipelines::catalog::{BATCH_MAX, ChunkId, ChunkPlace, NewVector, content_hash};

use crate::bed::{Bed, cases, chunks, is_bad, page};

cases![
    chunks_come_back_as_they_were_put,
    cutting_again_keeps_what_is_known_of_chunks_that_stay,
    places_come_in_the_order_of_the_document_in_pages,
    texts_come_in_the_order_asked_for,
    only_chunks_that_are_there_are_marked,
    what_is_no_chunk_is_refused_whole
];

async fn chunks_come_back_as_they_were_put(bed: &Bed) {
    let at = bed.building("a.md", "x", 1).await;
    let markdown = "Ünïcode \u{1f980}.\n\n| a | b |";
    let ids = bed.read(page(at, 1), markdown).await;
    let found = bed.catalog.chunks("t", page(at, 1)).await.unwrap();
    for (index, (new, chunk)) in chunks(markdown).iter().zip(&found).enumerate() {
        assert_eq!(chunk.id, ids[index]);
        let id = ChunkId::of(&page(at, 1), index as u32, &content_hash(&new.text));
        assert_eq!(chunk.id, id, "the id follows from place and content");
        assert_eq!((&chunk.text, &chunk.kind), (&new.text, &new.kind));
        assert_eq!(chunk.hash, content_hash(&new.text));
        assert_eq!((chunk.tokens, chunk.begins, chunk.ends), (new.tokens, new.begins, new.ends));
        assert_eq!(chunk.metadata, new.metadata);
        assert_eq!((&chunk.embedded_by, chunk.is_linked), (&None, false));
    }
    assert_eq!(found.len(), 2);
    let page = bed.catalog.page("t", page(at, 1)).await.unwrap().unwrap();
    assert_eq!(page.chunks, Some(2));
}

async fn cutting_again_keeps_what_is_known_of_chunks_that_stay(bed: &Bed) {
    let at = bed.building("a.md", "x", 2).await;
    let before = bed.read(page(at, 1), "Ada stays.\n\nBob goes.").await;
    let other = bed.read(page(at, 2), "Cid is elsewhere.").await;
    bed.enrich("t", &before).await.unwrap();
    bed.enrich("t", &other).await.unwrap();
    let counts = bed.base.counts().unwrap();
    assert_eq!(bed.read(page(at, 1), "Ada stays.\n\nBob goes.").await, before);
    assert_eq!(bed.base.counts().unwrap(), counts, "a repeat changes nothing");
    let after = bed.read(page(at, 1), "Ada stays.\n\nDan comes.\n\nEve too.").await;
    assert_eq!(after[0], before[0]);
    let found = bed.catalog.chunks("t", page(at, 1)).await.unwrap();
    let texts: Vec<&str> = found.iter().map(|chunk| chunk.text.as_str()).collect();
    assert_eq!(texts, ["Ada stays.", "Dan comes.", "Eve too."]);
    assert_eq!(found[0].embedded_by.as_deref(), Some("test@1"));
    assert!(found[0].is_linked && !found[1].is_linked);
    let counts = bed.base.counts().unwrap();
    assert_eq!((counts["chunks"], counts["vectors"], counts["mentions"]), (4, 2, 2), "{counts:?}");
    assert_eq!(counts["entities"], 2, "bob is gone: {counts:?}");
}

async fn places_come_in_the_order_of_the_document_in_pages(bed: &Bed) {
    let at = bed.building("a.md", "x", 3).await;
    let third = bed.read(page(at, 3), "Eve.").await;
    let first = bed.read(page(at, 1), "Ada.\n\nBob.\n\nCid.").await;
    bed.building("b.md", "y", 1).await;
    bed.enrich("t", &first[..1]).await.unwrap();
    bed.catalog.mark_embedded(vec![first[1]], "test@1").await.unwrap();
    let all = bed.catalog.chunk_places("t", at, (0, 0), 10).await.unwrap();
    let ids: Vec<ChunkId> = all.iter().map(|place| place.id).collect();
    assert_eq!(ids, [first, third].concat());
    let known = |place: &ChunkPlace| (place.page, place.index, place.is_embedded, place.is_linked);
    let wanted =
        [(1, 0, true, true), (1, 1, true, false), (1, 2, false, false), (3, 0, false, false)];
    assert_eq!(all.iter().map(known).collect::<Vec<_>>(), wanted);
    assert_eq!(all[3].hash, content_hash("Eve."));
    let (mut paged, mut after) = (Vec::new(), (0, 0));
    while let [place] = bed.catalog.chunk_places("t", at, after, 1).await.unwrap()[..] {
        after = (place.page, place.index);
        paged.push(place);
    }
    assert_eq!(paged, all);
}

async fn texts_come_in_the_order_asked_for(bed: &Bed) {
    let at = bed.building("a.md", "x", 1).await;
    let ids = bed.read(page(at, 1), "One.\n\nTwo.\n\nThree.").await;
    let asked = vec![ids[2], ChunkId([7; 16]), ids[0], ids[2]];
    let found = bed.catalog.chunk_texts("t", asked.clone()).await.unwrap();
    let texts: Vec<&str> = found.iter().map(|text| text.text.as_str()).collect();
    assert_eq!(texts, ["Three.", "One.", "Three."]);
    assert_eq!((found[0].source.as_str(), found[0].index, found[0].is_live), ("a.md", 2, false));
    assert_eq!((found[0].page, found[0].collection.as_str()), (page(at, 1), "c"));
    // Whoever links a chunk needs no more of the catalog than this.
    let kept = &bed.catalog.chunks("t", page(at, 1)).await.unwrap()[2];
    assert_eq!((found[0].hash, &found[0].metadata), (kept.hash, &kept.metadata));
    assert_eq!((kept.hash, &kept.metadata), (content_hash("Three."), &chunks("x")[0].metadata));
    bed.publish(at).await;
    assert!(bed.catalog.chunk_texts("t", asked).await.unwrap()[0].is_live);
    let many = vec![ids[0]; BATCH_MAX + 1];
    is_bad(bed.catalog.chunk_texts("t", many).await, "at most");
}

async fn only_chunks_that_are_there_are_marked(bed: &Bed) {
    let at = bed.building("a.md", "x", 1).await;
    let ids = bed.read(page(at, 1), "One.\n\nTwo.").await;
    let asked = vec![ids[0], ChunkId([7; 16])];
    assert_eq!(bed.catalog.mark_embedded(asked.clone(), "test@1").await, Ok(1));
    assert_eq!(bed.catalog.mark_embedded(asked, "test@1").await, Ok(1));
    let vectors = ids.iter().chain([&ChunkId([7; 16])]);
    let vectors = vectors.map(|chunk| NewVector { chunk: *chunk, vector: vec![1.0] });
    assert_eq!(bed.catalog.put_vectors(vectors.collect()).await, Ok(2));
    assert_eq!(bed.base.counts().unwrap()["vectors"], 2);
}

async fn what_is_no_chunk_is_refused_whole(bed: &Bed) {
    let at = bed.building("a.md", "x", 1).await;
    let put = |change: fn(&mut Vec<windrow_pipelines::catalog::NewChunk>)| {
        let mut new = chunks("One.\n\nTwo.");
        change(&mut new);
        bed.catalog.put_chunks(page(at, 1), new)
    };
    is_bad(put(|new| new[1].text = "a\0b".into()).await, "NUL");
    is_bad(put(|new| new[1].index = 0).await, "two chunks 0");
    is_bad(put(|new| new[1].begins = 99).await, "wrong place");
    is_bad(put(|new| new[1].text = "x".repeat(300_000)).await, "300000 bytes");
    is_bad(put(|new| new[0].kind = String::new()).await, "kind of a chunk is empty");
    is_bad(put(|new| new[0].metadata = "x".repeat(20_000).into()).await, "metadata");
    assert!(!bed.base.counts().unwrap().contains_key("chunks"));
}
