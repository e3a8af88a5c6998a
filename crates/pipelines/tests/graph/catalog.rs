//! The graph in a catalog.

use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;
use windrow_core::Timestamp;
use windrow_pipelines::adapters::graph::in_catalog::InCatalog;
use windrow_pipelines::adapters::graph::{Graph, GraphError, Origin};
use windrow_pipelines::catalog::{
    Added, Catalog, Content, NewChunk, NewDocument, PageKey, PageOutcome, Scope, Sqlite,
    content_hash,
};
use windrow_testkit::servers::listening::Data;

use crate::bed::{alone, said};

alone![
    what_a_chunk_says_is_found_in_the_catalog,
    what_is_said_of_an_old_generation_is_refused_as_gone,
    what_no_catalog_takes_is_bad,
];

const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// A catalog with a document of one chunk, published.
async fn with_a_chunk(data: &Data) -> (Arc<dyn Catalog>, Origin) {
    let catalog: Arc<dyn Catalog> = Arc::new(Sqlite::open(&data.0.join("catalog.db")).unwrap());
    let origin = add(&catalog, "first").await;
    (catalog, origin)
}

async fn add(catalog: &Arc<dyn Catalog>, content: &str) -> Origin {
    let scope = Scope::new("t", "c");
    let new = NewDocument {
        id: Uuid::from_u128(7),
        scope: scope.clone(),
        source: "paper.md".into(),
        name: "paper".into(),
        content: Content {
            hash: content_hash(content),
            media_type: "text/markdown".into(),
            bytes: 5,
            place: "here".into(),
        },
        again: false,
    };
    let (Added::New(at) | Added::Changed(at)) = catalog.add_document(new, NOW).await.unwrap()
    else {
        panic!("it is new");
    };
    let page = PageKey { document: at.document, generation: at.generation, number: 1 };
    catalog.begin_pages(at, 1).await.unwrap();
    let markdown = content.to_owned();
    let read =
        PageOutcome::Read { markdown, how: "text_layer".into(), hash: content_hash(content) };
    catalog.put_page(page, read).await.unwrap();
    let chunk = NewChunk {
        index: 0,
        kind: "text".into(),
        text: content.into(),
        tokens: 1,
        begins: 0,
        ends: content.len() as u32,
        metadata: json!({}),
    };
    let chunks = catalog.put_chunks(page, vec![chunk]).await.unwrap();
    Origin { chunk: chunks[0], at, scope }
}

async fn what_a_chunk_says_is_found_in_the_catalog() {
    let data = Data::new("graph-in-catalog");
    let (catalog, origin) = with_a_chunk(&data).await;
    let graph = InCatalog::new(catalog.clone());
    for names in [&["Ada", "Bob", "Carl"][..], &["Ada", "Bob"], &["Ada", "Bob"]] {
        graph.put(&origin, &said(names)).await.unwrap();
    }
    catalog.publish(origin.at, NOW).await.unwrap();
    let mentions = catalog.mentions("t", vec![origin.chunk]).await.unwrap();
    assert_eq!(mentions.len(), 2);
    assert!(mentions.iter().all(|one| one.score == 80.0));
    let ada = catalog.entities_called(&origin.scope, "ada").await.unwrap();
    let around = catalog.neighbours("t", ada[0].id, 10).await.unwrap();
    assert_eq!(around.len(), 1);
    assert_eq!((&*around[0].entity.name, &*around[0].by[0].kind), ("Bob", "knows"));
    // The generation is the catalog's to remove, and its graph is still there.
    graph.remove_generation(origin.at).await.unwrap();
    graph.remove_document(origin.at.document).await.unwrap();
    assert_eq!(catalog.mentions("t", vec![origin.chunk]).await.unwrap().len(), 2);
}

async fn what_is_said_of_an_old_generation_is_refused_as_gone() {
    let data = Data::new("graph-gone");
    let (catalog, origin) = with_a_chunk(&data).await;
    let graph = InCatalog::new(catalog.clone());
    graph.put(&origin, &said(&["Ada"])).await.unwrap();
    catalog.publish(origin.at, NOW).await.unwrap();
    let newer = add(&catalog, "second").await;
    graph.put(&newer, &said(&["Bob"])).await.unwrap();
    catalog.publish(newer.at, NOW).await.unwrap();
    catalog.remove_generation(origin.at).await.unwrap();
    let late = graph.put(&origin, &said(&["Ada"])).await;
    assert!(matches!(late, Err(GraphError::Gone { .. })), "{late:?}");
    assert!(catalog.entities_called(&newer.scope, "Ada").await.unwrap().is_empty());
    assert_eq!(catalog.entities_called(&newer.scope, "Bob").await.unwrap().len(), 1);
}

async fn what_no_catalog_takes_is_bad() {
    let data = Data::new("graph-bad");
    let (catalog, origin) = with_a_chunk(&data).await;
    let graph: Arc<dyn Graph> = Arc::new(InCatalog::new(catalog));
    assert_eq!(graph.name(), "catalog");
    let mut odd = said(&["Ada", "Bob"]);
    odd.entities[0].description = "a\0b".into();
    let bad = graph.put(&origin, &odd).await;
    assert!(matches!(&bad, Err(GraphError::Bad { why }) if why.contains("NUL")), "{bad:?}");
    let mut odd = said(&["Ada", "Bob"]);
    odd.entities.pop();
    let bad = graph.put(&origin, &odd).await;
    assert!(matches!(&bad, Err(GraphError::Bad { why }) if why.contains("Bob")), "{bad:?}");
}
