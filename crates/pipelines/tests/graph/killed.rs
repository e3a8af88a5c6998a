//! A server that is killed, and comes back.

use windrow_pipelines::adapters::graph::Graph as _;
use windrow_testkit::servers::ArcadeDb;

use crate::bed::{Bed, alone, counts, put, said, transient};

alone![what_was_answered_is_there_when_the_server_is_back];

async fn what_was_answered_is_there_when_the_server_is_back() {
    let mut server = ArcadeDb::start().unwrap();
    let graph = Bed { server: &server, tenant: "t" }.graph();
    let origin = |chunk| Bed { server: &server, tenant: "t" }.origin(1, 1, chunk);
    let origins = [origin(0), origin(1), origin(2)];
    put(&graph, &origins[0], &["Ada", "Bob"]).await;
    put(&graph, &origins[1], &["Bob", "Carl"]).await;

    server.kill().unwrap();
    let why = transient(graph.put(&origins[2], &said(&["Dora"])).await);
    assert!(why.contains("connection"), "{why}");
    let why = transient(graph.remove_generation(origins[0].at).await);
    assert!(why.contains("no connection"), "{why}");

    server.start_again().unwrap();
    // The same graph finds its server again by itself.
    let bed = Bed { server: &server, tenant: "t" };
    assert_eq!(bed.counts(&graph).await, counts(2, 3, 4, 2));
    put(&graph, &origins[2], &["Dora"]).await;
    put(&graph, &origins[1], &["Bob", "Carl"]).await;
    assert_eq!(bed.counts(&graph).await, counts(3, 4, 5, 2));

    // Killed while the connection is idle and back before anybody notices: nobody ever does.
    server.kill().unwrap();
    server.start_again().unwrap();
    put(&graph, &origins[0], &["Ada", "Bob"]).await;
    let bed = Bed { server: &server, tenant: "t" };
    assert_eq!(bed.counts(&graph).await, counts(3, 4, 5, 2));
}
