//! What a real graph database makes of it.

use serde_json::{Value, json};
use windrow_pipelines::adapters::graph::bolt::{Bolt, Options};
use windrow_pipelines::adapters::graph::{Graph as _, GraphError};
use windrow_pipelines::catalog::{Called, EntityId, Scope};
use windrow_testkit::servers::ArcadeDb;

use crate::bed::{Bed, counts, graph, origin, put, said, shared, transient};

shared![
    what_a_chunk_says_is_there_letter_by_letter,
    saying_it_again_changes_nothing,
    what_is_said_takes_the_place_of_what_was_said,
    a_chunk_that_says_nothing_any_more_is_gone,
    tenants_and_collections_do_not_see_each_other,
    a_generation_goes_alone_and_does_not_come_back,
    a_writer_and_a_remover_that_meet_leave_nothing,
    a_document_goes_with_all_its_generations,
    what_nobody_mentions_any_more_goes_with_the_last_chunk,
    writers_that_meet_do_not_lose_anything,
    one_that_is_dropped_halfway_leaves_nothing_behind,
    a_wrong_password_is_named_and_not_shown,
    a_database_that_is_not_there_is_named,
];

async fn what_a_chunk_says_is_there_letter_by_letter(bed: &Bed<'_>) {
    let odd = "O'Brien \"\\ ') MATCH (n) DETACH DELETE n // {$chunk} 漢字 🌾";
    let mut all = said(&[odd, "Bob"]);
    all.entities[0].description = "x".repeat(70_000);
    all.relationships[0].keywords = vec![odd.into(), "second".into()];
    let (graph, origin) = (bed.graph(), bed.origin(1, 1, 0));
    graph.put(&origin, &all).await.unwrap();
    assert_eq!(bed.counts(&graph).await, counts(1, 2, 2, 1));

    let id = EntityId::of(&bed.scope(), &Called::new("person", odd));
    let entity = format!(
        "MATCH (c:WindrowChunk)-[m:MENTIONS]->(e:WindrowEntity {{id: '{id}'}})-[r:RELATED]->(o) \
         RETURN e.name AS name, e.kind AS kind, e.tenant AS tenant, m.score AS score, \
         size(m.description) AS length, r.keywords AS keywords, r.kind AS relation, \
         r.weight AS weight, o.normalised AS other, c.id AS chunk, c.document AS document, \
         c.generation AS generation"
    );
    let found = bed.server.asked(&entity).unwrap();
    assert_eq!(
        found,
        json!([{
            "name": odd, "kind": "person", "tenant": bed.tenant, "score": 80, "length": 70_000,
            "keywords": [odd, "second"], "relation": odd, "weight": 5, "other": "bob",
            "chunk": origin.chunk.to_string(), "document": origin.at.document.to_string(),
            "generation": 1,
        }])
    );
}

async fn saying_it_again_changes_nothing(bed: &Bed<'_>) {
    let (first, second) = (bed.graph(), bed.graph());
    for graph in [&first, &first, &second] {
        put(graph, &bed.origin(1, 1, 0), &["Ada", "Bob", "Carl"]).await;
        assert_eq!(bed.counts(&first).await, counts(1, 3, 3, 2));
    }
}

async fn what_is_said_takes_the_place_of_what_was_said(bed: &Bed<'_>) {
    let graph = bed.graph();
    put(&graph, &bed.origin(1, 1, 0), &["Ada", "Bob", "Carl"]).await;
    put(&graph, &bed.origin(1, 1, 1), &["Bob", "Dora"]).await;
    assert_eq!(bed.counts(&graph).await, counts(2, 4, 5, 3));
    // Ada and Carl are mentioned nowhere else; Bob is, and what the other chunk says of him stays.
    put(&graph, &bed.origin(1, 1, 0), &["Bob", "Eve"]).await;
    assert_eq!(bed.counts(&graph).await, counts(2, 3, 4, 2));
    let names = format!(
        "MATCH (e:WindrowEntity {{tenant: '{}'}}) RETURN e.name AS name ORDER BY name",
        bed.tenant
    );
    let names = bed.server.asked(&names).unwrap();
    assert_eq!(names, json!([{"name": "Bob"}, {"name": "Dora"}, {"name": "Eve"}]));
}

async fn a_chunk_that_says_nothing_any_more_is_gone(bed: &Bed<'_>) {
    let graph = bed.graph();
    put(&graph, &bed.origin(1, 1, 0), &["Ada", "Bob"]).await;
    put(&graph, &bed.origin(1, 1, 0), &[]).await;
    put(&graph, &bed.origin(1, 1, 1), &[]).await;
    assert_eq!(bed.counts(&graph).await, counts(0, 0, 0, 0));
}

async fn tenants_and_collections_do_not_see_each_other(bed: &Bed<'_>) {
    let graph = bed.graph();
    let other_tenant = Scope::new(format!("{} too", bed.tenant), "papers");
    let other_papers = Scope::new(bed.tenant, "other papers");
    let scopes = [bed.scope(), other_tenant, other_papers];
    for (nth, scope) in scopes.iter().enumerate() {
        put(&graph, &origin(scope, nth as u128, 1, 0), &["Ada", "Bob"]).await;
    }
    for scope in &scopes {
        assert_eq!(graph.counts(scope).await.unwrap(), counts(1, 2, 2, 1));
    }
    graph.remove_document(bed.origin(0, 1, 0).at.document).await.unwrap();
    assert_eq!(graph.counts(&scopes[0]).await.unwrap(), counts(0, 0, 0, 0));
    for scope in &scopes[1..] {
        assert_eq!(graph.counts(scope).await.unwrap(), counts(1, 2, 2, 1));
    }
}

async fn a_generation_goes_alone_and_does_not_come_back(bed: &Bed<'_>) {
    let graph = bed.graph();
    for generation in 1..=2 {
        for chunk in 0..3 {
            put(&graph, &bed.origin(1, generation, chunk), &["Ada", "Bob"]).await;
        }
    }
    put(&graph, &bed.origin(1, 1, 3), &["Ada", "Only Once"]).await;
    let old = bed.origin(1, 1, 0);
    for _ in 0..2 {
        graph.remove_generation(old.at).await.unwrap();
        assert_eq!(bed.counts(&graph).await, counts(3, 2, 6, 3));
    }
    // A worker that was away for a long time, in another process.
    let late = bed.graph().put(&old, &said(&["Ada", "Late"])).await;
    assert!(matches!(&late, Err(GraphError::Gone { what }) if what.contains("generation 1")));
    assert_eq!(bed.counts(&graph).await, counts(3, 2, 6, 3));
    // A later generation may go before an earlier one.
    graph.remove_generation(bed.origin(1, 4, 0).at).await.unwrap();
    put(&graph, &bed.origin(1, 3, 0), &["Ada"]).await;
    let late = graph.put(&bed.origin(1, 4, 0), &said(&["Ada"])).await;
    assert!(matches!(late, Err(GraphError::Gone { .. })), "{late:?}");
    assert_eq!(bed.counts(&graph).await, counts(4, 2, 7, 3));
}

async fn a_writer_and_a_remover_that_meet_leave_nothing(bed: &Bed<'_>) {
    let (writer, remover) = (bed.graph(), bed.graph());
    put(&writer, &bed.origin(0, 1, 0), &["Ada"]).await;
    bed.counts(&remover).await;
    for round in 0..20 {
        let (origin, all) = (bed.origin(1, round + 1, 0), said(&["Ada", "Bob"]));
        let remove = async {
            // A little later each time, so that the two meet at every point.
            for _ in 0..round * 40 {
                tokio::task::yield_now().await;
            }
            while let Err(error) = remover.remove_generation(origin.at).await {
                assert!(matches!(error, GraphError::Transient { .. }), "{error:?}");
            }
        };
        let write = async {
            loop {
                match writer.put(&origin, &all).await {
                    Ok(()) | Err(GraphError::Gone { .. }) => break,
                    Err(GraphError::Transient { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        };
        futures_util::future::join(write, remove).await;
        assert_eq!(bed.counts(&writer).await, counts(1, 1, 1, 0), "round {round}");
    }
}

async fn a_document_goes_with_all_its_generations(bed: &Bed<'_>) {
    let graph = bed.graph();
    // More chunks than go in one transaction.
    for chunk in 0..130 {
        put(&graph, &bed.origin(1, 1 + chunk % 2, chunk), &["Ada", "Bob"]).await;
    }
    put(&graph, &bed.origin(2, 1, 0), &["Ada"]).await;
    assert_eq!(bed.counts(&graph).await, counts(131, 2, 261, 130));
    graph.remove_generation(bed.origin(1, 1, 0).at).await.unwrap();
    assert_eq!(bed.counts(&graph).await, counts(66, 2, 131, 65));
    for _ in 0..2 {
        graph.remove_document(bed.origin(1, 1, 0).at.document).await.unwrap();
        assert_eq!(bed.counts(&graph).await, counts(1, 1, 1, 0));
    }
    for generation in 1..4 {
        let late = graph.put(&bed.origin(1, generation, 0), &said(&["Ada"])).await;
        assert!(matches!(late, Err(GraphError::Gone { .. })), "{late:?}");
    }
    assert_eq!(bed.counts(&graph).await, counts(1, 1, 1, 0));
}

async fn what_nobody_mentions_any_more_goes_with_the_last_chunk(bed: &Bed<'_>) {
    let graph = bed.graph();
    for document in 1..=3 {
        put(&graph, &bed.origin(document, 1, 0), &["Ada", "Bob"]).await;
    }
    for left in (0..3).rev() {
        graph.remove_generation(bed.origin(3 - u128::from(left), 1, 0).at).await.unwrap();
        let entities = if left == 0 { 0 } else { 2 };
        assert_eq!(bed.counts(&graph).await, counts(left, entities, 2 * left, left));
    }
}

async fn writers_that_meet_do_not_lose_anything(bed: &Bed<'_>) {
    let hub = ["Ada", "Bob", "Carl", "Dora"];
    let write = async |process: u32| {
        let graph = bed.graph();
        for chunk in 0..8 {
            let origin = bed.origin(1, 1, process * 100 + chunk);
            let mut tries = 0;
            // Whoever is told to try again does so, as the queue would.
            while let Err(error) = graph.put(&origin, &said(&hub)).await {
                assert!(matches!(error, GraphError::Transient { .. }), "{error:?}");
                tries += 1;
                assert!(tries < 20, "{error:?}");
            }
        }
    };
    futures_util::future::join_all([write(1), write(2), write(3)]).await;
    assert_eq!(bed.counts(&bed.graph()).await, counts(24, 4, 96, 72));
}

async fn one_that_is_dropped_halfway_leaves_nothing_behind(bed: &Bed<'_>) {
    let graph = bed.graph();
    put(&graph, &bed.origin(1, 1, 0), &["Ada"]).await;
    for micros in [0, 50, 200, 800, 3_000] {
        let (origin, all) = (bed.origin(1, 1, 1), said(&["Bob", "Carl"]));
        let short = std::time::Duration::from_micros(micros);
        let _dropped = tokio::time::timeout(short, graph.put(&origin, &all)).await;
        // The next one is neither answered with the last one's answer nor in its transaction.
        put(&graph, &bed.origin(1, 1, 0), &["Ada"]).await;
    }
    put(&graph, &bed.origin(1, 1, 1), &["Bob", "Carl"]).await;
    assert_eq!(bed.counts(&graph).await, counts(2, 3, 3, 1));
}

async fn a_wrong_password_is_named_and_not_shown(bed: &Bed<'_>) {
    let graph = Bolt::new(&bed.server.url(), Options::new(ArcadeDb::USER, "wrong-secret")).unwrap();
    let why = transient(graph.put(&bed.origin(1, 1, 0), &said(&["Ada"])).await);
    assert!(why.contains("refuses our user or password"), "{why}");
    assert!(why.contains(&bed.server.url()), "{why}");
    assert!(!format!("{why} {graph:?}").contains("secret"), "{why} {graph:?}");
}

async fn a_database_that_is_not_there_is_named(bed: &Bed<'_>) {
    let mut options = Options::new(ArcadeDb::USER, ArcadeDb::PASSWORD);
    options.database = Some("nowhere".to_owned());
    let lost = Bolt::new(&bed.server.url(), options).unwrap();
    let why = transient(lost.counts(&bed.scope()).await);
    assert!(why.contains("has no such database") && why.contains("nowhere"), "{why}");
    let there = graph(bed.server);
    assert_eq!(bed.counts(&there).await, counts(0, 0, 0, 0));
    assert!(matches!(bed.server.asked("RETURN 1 AS one").unwrap(), Value::Array(_)));
}
