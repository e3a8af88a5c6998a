//! The inbox on real servers: the queue and the catalog in PostgreSQL, vectors in pgvector, the
//! graph behind Bolt.

use serde_json::Value;
use windrow_testkit::servers::{ArcadeDb, Durability, Postgres, Version};

use crate::running::{Data, Server};
use crate::{add, get, until};

/// What the ten questions find: how many of them have their page among the first five.
fn found(server: &Server) -> usize {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/inbox-questions.json");
    let questions: Value = serde_json::from_slice(&std::fs::read(root).unwrap()).unwrap();
    let questions = questions.as_array().unwrap();
    assert_eq!(questions.len(), 10);
    let is_found = |question: &&Value| {
        let asked = question["question"].as_str().unwrap();
        let asked: String = asked
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect();
        let found = get(server, &format!("/search?q={asked}&limit=5"));
        let hits = found["hits"].as_array().unwrap().iter();
        let is_it =
            |hit: &Value| hit["name"] == question["file"] && hit["page"] == question["page"];
        hits.clone().any(is_it)
    };
    questions.iter().filter(is_found).count()
}

#[test]
fn the_inbox_is_read_into_postgresql_pgvector_and_a_bolt_server_and_found_again() {
    let database = Postgres::start(Version::V18, Durability::Real).unwrap();
    database.create_database("inbox").unwrap();
    let graph = ArcadeDb::start().unwrap();
    let url = graph.url();
    let variables = [
        ("WINDROW_DOCUMENTS__VECTORS", "pgvector"),
        ("WINDROW_DOCUMENTS__GRAPH", "bolt"),
        ("WINDROW_DOCUMENTS__GRAPH_URL", url.as_str()),
        ("WINDROW_DOCUMENTS__GRAPH_USER", ArcadeDb::USER),
        ("WINDROW_DOCUMENTS__GRAPH_DATABASE", ArcadeDb::DATABASE),
        ("WINDROW_DOCUMENTS__GRAPH_PASSWORD", ArcadeDb::PASSWORD),
    ];
    let flags = ["--store", &database.url("inbox")];
    let server = Server::at(&flags, &variables, Data::new("documents-outside"));
    let inbox = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/inbox");
    let mut files = 0;
    for file in std::fs::read_dir(inbox).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        add(&server, &format!("?name={name}"), "application/octet-stream", &bytes);
        files += 1;
    }
    let ended = until(&server, "the end of the inbox", || {
        let listed = get(&server, "/documents?limit=200");
        let listed = listed["documents"].as_array().unwrap().clone();
        let is_over = |one: &Value| one["state"] == "live" || one["state"] == "failed";
        listed.iter().all(is_over).then_some(listed)
    });
    assert_eq!(ended.len(), files);
    let failed: Vec<&Value> = ended.iter().filter(|one| one["state"] == "failed").collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0]["name"], "corrupt-ledger.pdf");
    assert!(failed[0]["failure"].as_str().is_some_and(|why| !why.is_empty()), "{failed:?}");
    assert!(found(&server) >= 9);
    let count = |sql: &str| database.psql("inbox", sql).unwrap().trim().parse::<u64>().unwrap();
    let chunks = count("select count(*) from windrow_catalog.chunks");
    assert!(chunks > 10, "{chunks}");
    let kept = count("select count(*) from windrow_catalog.vectors");
    assert_eq!(kept, 0, "vectors are in pgvector, not in the catalog");
    let entities = graph.asked("MATCH (e:WindrowEntity) RETURN count(e) AS count").unwrap();
    assert!(entities[0]["count"].as_u64().is_some_and(|count| count > 5), "{entities}");
}
