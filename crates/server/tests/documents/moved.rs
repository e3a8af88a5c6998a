//! A store with documents moves into a database and back, and nothing of them is another.

use std::path::Path;

use serde_json::Value;
use windrow_pipelines::catalog::postgres::{Connect, Options};
use windrow_pipelines::catalog::{Catalog as _, Hash, Postgres, Scope};
use windrow_testkit::servers::{Durability, Postgres as Database, Version};

use crate::backup::{refused, serve, text, windrow};
use crate::file::{chronicle, pdf};
use crate::killed::fingerprint;
use crate::running::{Data, Server};
use crate::{add, first, in_state};

fn in_database(url: &str) -> Hash {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = Options::new(Connect::plain(url).unwrap());
        let catalog = Postgres::open(options).await.unwrap();
        catalog.fingerprint(&Scope::new("default", "default")).await.unwrap()
    })
}

fn moves(from: &str, to: &str) -> String {
    let said = windrow(&["move", "--from", from, "--to", to]);
    let line = said.lines().find(|line| line.contains("of the catalog")).unwrap_or_else(|| {
        panic!("nothing is said of a catalog: {said}");
    });
    line.to_owned()
}

/// A store with two documents that are live, one of which has no item any more, and one that waits.
fn filled(store: &Path) -> [Value; 3] {
    let mut server = serve(store, &[]);
    let towns = pdf(3, chronicle);
    let one = add(&server, "?name=towns.pdf", "application/pdf", &towns);
    let two = add(&server, "?name=a.md", "text/markdown", b"# A\n\nA lighthouse stands there.\n");
    [&one, &two].iter().for_each(|added| drop(in_state(&server, added, "live")));
    let item = format!("/api/v1/queue/{}", one["item"].as_str().unwrap());
    assert_eq!(server.send("DELETE", &item, &Value::Null).status, 200);
    server.process.stop();
    let mut server = serve(store, &[("WINDROW_DOCUMENTS__ENABLED", "false")]);
    let three = add(&server, "?name=b.md", "text/markdown", b"# B\n\nA harbour lies there.\n");
    server.process.stop();
    [one, two, three]
}

#[test]
fn documents_move_into_a_database_and_back_and_are_the_same() {
    let (place, database) = (Data::new("moved"), database());
    let (store, back, url) = (place.0.join("store"), place.0.join("back"), database.url("docs"));
    let [one, _, three] = filled(&store);
    let before = fingerprint(&store);
    let said = moves(text(&store), &url);
    assert!(said.starts_with("moved 3 documents, "), "{said}");
    assert_eq!(in_database(&url), before);
    let mut server = Server::at(&["--store", &url], &[], Data::new("moved-server"));
    in_state(&server, &three, "live");
    assert_eq!(first(&server, "harbour"), Some(("b.md".to_owned(), 1)));
    assert_eq!(first(&server, "town number 3"), Some(("towns.pdf".to_owned(), 3)));
    let picture = format!("/api/v1/documents/{}/pages/1/image", one["id"].as_str().unwrap());
    assert_eq!(server.get(&picture).status, 200, "its file came along without an item");
    server.process.stop();
    let there = in_database(&url);
    assert_ne!(there, before, "one more is live");
    moves(&url, text(&back));
    assert_eq!(fingerprint(&back), there);
    let server = serve(&back, &[]);
    assert_eq!(first(&server, "lighthouse"), Some(("a.md".to_owned(), 1)));
    assert_eq!(server.get(&picture).status, 200);
}

#[test]
fn a_catalog_is_not_moved_into_one_that_holds_something() {
    let (place, database) = (Data::new("moved-onto"), database());
    let (store, other, url) = (place.0.join("store"), place.0.join("other"), database.url("docs"));
    filled(&store);
    moves(text(&store), &url);
    // The queue is gone, and what pipelines know is left.
    database.psql("docs", "drop schema windrow cascade").unwrap();
    let count = "select count(*) from windrow_catalog.documents";
    let before = database.psql("docs", count).unwrap();
    let mut server = serve(&other, &[]);
    let added = add(&server, "?name=c.md", "text/markdown", b"# C\n\nAn anchor.\n");
    in_state(&server, &added, "live");
    server.process.stop();
    let said = refused(&["move", "--from", text(&other), "--to", &url]);
    assert!(
        said.contains("the catalog of documents in") && said.contains("is not empty"),
        "{said}"
    );
    assert_eq!(database.psql("docs", count).unwrap(), before);
}

fn database() -> Database {
    let database = Database::start(Version::V15, Durability::Real).unwrap();
    database.create_database("docs").unwrap();
    database
}
