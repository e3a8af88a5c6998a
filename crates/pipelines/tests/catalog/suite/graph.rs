//! The graph: who is mentioned where, and what relates them.

use windrow_pipelines::catalog::{
    Called, ChunkId, EntityId, NewEntity, NewGraph, NewRelationship, Scope,
};

use crate::bed::{Bed, cases, is_bad, is_gone, page, scope};

fn id(name: &str) -> EntityId {
    EntityId::of(&scope(), &Called::new("name", name))
}

cases![
    one_entity_is_one_in_all_documents_of_a_collection,
    neighbours_come_by_weight_with_what_relates_them,
    what_a_chunk_says_replaces_what_it_said,
    only_what_is_live_is_seen,
    a_graph_of_nothing_is_refused
];

async fn one_entity_is_one_in_all_documents_of_a_collection(bed: &Bed) {
    bed.ingest("a.md", &["Ada knows Bob.\n\nADA again."]).await;
    bed.ingest("b.md", &["Ada, and Ada alone."]).await;
    bed.ingest_in(&Scope::new("t", "other"), "c.md", &["Ada elsewhere."]).await;
    let ada = bed.catalog.entity("t", id("ada")).await.unwrap().unwrap();
    assert_eq!((ada.name.as_str(), ada.kind.as_str(), ada.mentions), ("Ada", "name", 3));
    assert_eq!(ada.scope, scope());
    let called = bed.catalog.entities_called(&scope(), " aDa! ").await.unwrap();
    assert_eq!(called, [ada]);
    assert!(bed.catalog.entities_called(&scope(), "nobody").await.unwrap().is_empty());
    assert_eq!(bed.base.counts().unwrap()["entities"], 3, "ada, bob and the other ada");
}

async fn neighbours_come_by_weight_with_what_relates_them(bed: &Bed) {
    bed.ingest("a.md", &["Ada then Bob.\n\nAda then Bob once more.\n\nCid then Ada."]).await;
    let around = bed.catalog.neighbours("t", id("ada"), 10).await.unwrap();
    let names: Vec<&str> = around.iter().map(|one| one.entity.name.as_str()).collect();
    assert_eq!(names, ["Bob", "Cid"]);
    let (bob, cid) = (&around[0], &around[1]);
    assert_eq!((bob.weight, bob.by.len()), (2.0, 1));
    assert_eq!(
        (bob.by[0].kind.as_str(), bob.by[0].chunks, bob.by[0].is_outgoing),
        ("before", 2, true)
    );
    assert_eq!(bob.by[0].description, "Ada then Bob once more.");
    assert!(!cid.by[0].is_outgoing);
    assert_eq!(bed.catalog.neighbours("t", id("ada"), 1).await.unwrap().len(), 1);
    assert!(bed.catalog.neighbours("t", id("nobody"), 10).await.unwrap().is_empty());
}

async fn what_a_chunk_says_replaces_what_it_said(bed: &Bed) {
    let at = bed.ingest("a.md", &["Ada then Bob."]).await;
    let chunk = bed.catalog.chunks("t", page(at, 1)).await.unwrap()[0].id;
    let said = NewGraph {
        entities: vec![
            NewEntity {
                called: Called::new("name", "Bob"),
                description: "the second".into(),
                score: 0.5,
            },
            NewEntity {
                called: Called::new("Place", "Rome"),
                description: String::new(),
                score: 0.25,
            },
        ],
        relationships: vec![NewRelationship {
            source: Called::new("NAME", "bob"),
            target: Called::new("place", "ROME"),
            kind: "lives in".into(),
            description: "he does".into(),
            weight: 7.5,
        }],
    };
    for _ in 0..2 {
        bed.catalog.put_graph(chunk, said.clone()).await.unwrap();
    }
    assert_eq!(bed.catalog.entity("t", id("ada")).await.unwrap(), None);
    let bob = bed.catalog.entity("t", id("bob")).await.unwrap().unwrap();
    assert_eq!((bob.mentions, bob.description.as_str()), (1, "the second"));
    let around = bed.catalog.neighbours("t", id("bob"), 10).await.unwrap();
    assert_eq!((around.len(), around[0].entity.kind.as_str()), (1, "place"));
    assert_eq!((around[0].weight, around[0].by[0].kind.as_str()), (7.5, "lives in"));
    let mentions = bed.catalog.mentions("t", vec![ChunkId([7; 16]), chunk]).await.unwrap();
    let mut names: Vec<&str> = mentions.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["Bob", "Rome"]);
    let counts = bed.base.counts().unwrap();
    assert_eq!((counts["entities"], counts["mentions"]), (2, 2));
    bed.catalog.put_graph(chunk, NewGraph::default()).await.unwrap();
    let counts = bed.base.counts().unwrap();
    assert!(!counts.contains_key("entities") && !counts.contains_key("mentions"), "{counts:?}");
}

async fn only_what_is_live_is_seen(bed: &Bed) {
    let at = bed.built_in(&scope(), "a.md", &["Ada then Bob."]).await;
    assert_eq!(bed.catalog.entity("t", id("ada")).await.unwrap(), None);
    assert!(bed.catalog.entities_called(&scope(), "ada").await.unwrap().is_empty());
    assert!(bed.catalog.neighbours("t", id("ada"), 10).await.unwrap().is_empty());
    let chunk = bed.catalog.chunks("t", page(at, 1)).await.unwrap()[0].id;
    assert!(bed.catalog.mentions("t", vec![chunk]).await.unwrap().is_empty());
    bed.publish(at).await;
    assert_eq!(bed.catalog.entity("t", id("ada")).await.unwrap().unwrap().mentions, 1);
    assert_eq!(bed.catalog.mentions("t", vec![chunk]).await.unwrap().len(), 2);
    bed.ingest("a.md", &["Ada alone."]).await;
    let ada = bed.catalog.entity("t", id("ada")).await.unwrap().unwrap();
    assert_eq!(ada.mentions, 1, "the old one does not count");
    assert!(bed.catalog.neighbours("t", id("ada"), 10).await.unwrap().is_empty());
    assert_eq!(bed.catalog.entity("t", id("bob")).await.unwrap(), None);
}

async fn a_graph_of_nothing_is_refused(bed: &Bed) {
    is_gone(bed.catalog.put_graph(ChunkId([7; 16]), NewGraph::default()).await);
    let at = bed.building("a.md", "x", 1).await;
    let chunk = bed.read(page(at, 1), "One.").await[0];
    let entity =
        NewEntity { called: Called::new("name", "a\0b"), description: String::new(), score: 1.0 };
    let graph = NewGraph { entities: vec![entity], relationships: Vec::new() };
    is_bad(bed.catalog.put_graph(chunk, graph).await, "NUL");
    assert!(!bed.catalog.chunks("t", page(at, 1)).await.unwrap()[0].is_linked);
}
