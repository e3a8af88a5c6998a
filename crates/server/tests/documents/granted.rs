//! Documents in a database where the servers' role may change rows and no schema.

use std::process::Command;

use windrow_testkit::servers::{Durability, Postgres, Version};

use crate::running::{Data, Server};
use crate::{add, first, in_state};

/// What the page has whoever owns the schema run.
fn grants() -> &'static str {
    let page = include_str!("../../../../docs/operating/postgres.md");
    let (_, block) = page.split_once("```sql\n").unwrap();
    block.split_once("```").unwrap().0
}

fn said(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_windrow")).args(words).output().unwrap();
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// The line of doctor about the catalog.
fn catalog(url: &str) -> String {
    let all = said(&["doctor", "--store", url]);
    let line = all.lines().find(|line| line.split_whitespace().nth(1) == Some("catalog"));
    line.unwrap_or_else(|| panic!("{all}")).to_owned()
}

/// Only the queue worked: the catalog was not made by `windrow migrate`, and is not the role's.
#[test]
fn a_role_with_the_grants_of_the_page_has_documents_too() {
    let database = Postgres::start(Version::V15, Durability::Real).unwrap();
    database.create_database("docs").unwrap();
    let psql = |sql: &str| database.psql("docs", sql).unwrap();
    psql("create role windrow login");
    let owner = database.url("docs");
    let url = owner.replace("postgres@", "windrow@");
    assert_ne!(owner, url);
    said(&["migrate", "--store", &owner]);
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["list"]] {
        let refused = said(&[command, &["--store", &url]].concat());
        let mend = "run `windrow migrate` and give this role the grants that stand in docs/";
        assert!(refused.contains("permission denied") && refused.contains(mend), "{refused}");
    }
    psql("alter schema windrow_catalog rename to later");
    psql(&grants().replace(", windrow_catalog", ""));
    let none = catalog(&url);
    assert!(none.contains("the role windrow may not make one"), "{none}");
    assert!(none.starts_with("warn") && none.contains("`windrow migrate` as the owner"), "{none}");
    psql("alter schema later rename to windrow_catalog");
    let lacks = catalog(&url);
    assert!(lacks.starts_with("problem") && lacks.contains("documents are refused"), "{lacks}");
    assert!(lacks.contains("grant usage on schema windrow_catalog to windrow"), "{lacks}");

    psql(grants());
    let well = catalog(&url);
    assert!(well.starts_with("ok") && well.contains("may use the catalog"), "{well}");
    let server = Server::at(&["--store", &url], &[], Data::new("granted"));
    let queues = || said(&["queues", "--store", &owner]);
    assert!(!queues().contains("documents"), "nothing is worked on before the first: {}", queues());
    let added = add(&server, "?name=a.md", "text/markdown", b"# A\n\nA lighthouse.\n");
    in_state(&server, &added, "live");
    assert_eq!(first(&server, "lighthouse"), Some(("a.md".to_owned(), 1)));

    // To another role PostgreSQL does not show what the server is called.
    psql("create role other login");
    psql(&grants().replace("to windrow;", "to other;"));
    let other = owner.replace("postgres@", "other@");
    let all = said(&["token", "revoke", "--all", "--store", &other]);
    assert!(all.contains("servers are at work on"), "{all}");
}
