//! The fingerprint: the same for the same, another for anything else.

use std::sync::Arc;

use anyhow::ensure;
use windrow_pipelines::catalog::{Called, NewEntity, NewGraph, NewVector, PageOutcome};

use crate::bases::Base;
use crate::bed::{Bed, cases, page, scope};

const PAGES: [&str; 2] = ["Ada knows Bob.\n\n| a | b |", "Cid knows Ünal."];

async fn print(bed: &Bed) -> [u8; 32] {
    bed.catalog.fingerprint(&scope()).await.expect("a fingerprint")
}

/// One collection, with a page that has no text and a chunk without a vector.
async fn fill(bed: &Bed, sources: &[&str]) {
    for source in sources {
        let at = bed.ingest(source, &PAGES).await;
        let without = PageOutcome::Without { reason: "blank".into() };
        bed.catalog.put_page(page(at, 2), without).await.expect("a page");
        bed.read(page(at, 1), "Ada knows Bob.\n\nno vector").await;
    }
}

/// In one database as in the other.
pub(crate) fn is_the_same(one: Arc<dyn Base>, other: Arc<dyn Base>) -> anyhow::Result<()> {
    let (one, other) = (Bed::new(one)?, Bed::new(other)?);
    let prints = one.base.runtime().block_on(async {
        let empty = (print(&one).await, print(&other).await);
        fill(&one, &["a.md", "ä.md", "B.md"]).await;
        fill(&other, &["B.md", "a.md", "ä.md"]).await;
        (empty, print(&one).await, print(&other).await)
    });
    ensure!(prints.0.0 == prints.0.1 && prints.1 == prints.2, "{prints:?}");
    ensure!(prints.0.0 != prints.1);
    Ok(())
}

cases![it_follows_every_part_of_what_is_live, it_does_not_follow_ids_order_or_what_is_not_live];

async fn it_follows_every_part_of_what_is_live(bed: &Bed) {
    let mut prints = vec![print(bed).await];
    let at = bed.ingest("a.md", &PAGES).await;
    prints.push(print(bed).await);
    let chunk = bed.catalog.chunks("t", page(at, 1)).await.unwrap()[0].id;
    let vector = NewVector { chunk, vector: vec![9.0, 9.0, 9.0] };
    bed.catalog.put_vectors(vec![vector]).await.unwrap();
    prints.push(print(bed).await);
    let entity =
        |score| NewEntity { called: Called::new("name", "Zoe"), description: "z".into(), score };
    let graph = |score| NewGraph { entities: vec![entity(score)], relationships: Vec::new() };
    bed.catalog.put_graph(chunk, graph(1.0)).await.unwrap();
    prints.push(print(bed).await);
    bed.catalog.put_graph(chunk, graph(1.5)).await.unwrap();
    prints.push(print(bed).await);
    bed.catalog.mark_embedded(vec![chunk], "other@1").await.unwrap();
    prints.push(print(bed).await);
    bed.read(page(at, 2), "Another text.").await;
    prints.push(print(bed).await);
    let without = PageOutcome::Without { reason: "blank".into() };
    bed.catalog.put_page(page(at, 2), without).await.unwrap();
    prints.push(print(bed).await);
    let all = prints.len();
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(prints.len(), all, "each change made another one");
}

async fn it_does_not_follow_ids_order_or_what_is_not_live(bed: &Bed) {
    fill(bed, &["a.md", "b.md"]).await;
    let before = print(bed).await;
    let building = bed.built_in(&scope(), "c.md", &PAGES).await;
    assert_eq!(print(bed).await, before, "not yet live");
    bed.publish(building).await;
    assert_ne!(print(bed).await, before);
    for source in ["a.md", "b.md", "c.md"] {
        let document = key_of(bed, source).await;
        bed.catalog.begin_delete("t", document, vec![], bed.now()).await.unwrap();
        bed.catalog.delete_document(document).await.unwrap();
    }
    bed.skip(1_000);
    fill(bed, &["b.md", "a.md"]).await;
    assert_eq!(print(bed).await, before, "the same again, with other ids");
}

async fn key_of(bed: &Bed, source: &str) -> uuid::Uuid {
    let filter = windrow_pipelines::catalog::DocumentFilter::of("t");
    let all = bed.catalog.documents(filter, None, 100).await.expect("documents");
    all.iter().find(|one| one.source == source).expect("the document").id
}
