//! Documents of several servers on one database.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;
use windrow_testkit::servers::listening::Listening;
use windrow_testkit::servers::{Durability, Postgres, Version};

use crate::file::{chronicle, pdf};
use crate::running::{Data, Server};
use crate::{add, first, get, in_state, until};

#[test]
fn one_server_takes_a_document_in_another_works_on_it_and_a_third_shows_it() {
    let database = Postgres::start(Version::V15, Durability::Real).unwrap();
    database.create_database("docs").unwrap();
    let url = database.url("docs");
    let server = |name: &str, works: bool| {
        let works = if works { "true" } else { "false" };
        let variables = [("WINDROW_DOCUMENTS__ENABLED", works)];
        Server::at(&["--store", &url], &variables, Data::new(name))
    };
    let takes = server("shared-a", false);
    let (_works, shows) = (server("shared-b", true), server("shared-c", false));
    let added = add(&takes, "?name=towns.pdf", "application/pdf", &pdf(4, chronicle));
    in_state(&shows, &added, "live");
    assert_eq!(first(&shows, "town number 3"), Some(("towns.pdf".to_owned(), 3)));
    let id = added["id"].as_str().unwrap();
    let image = shows.get(&format!("/api/v1/documents/{id}/pages/1/image"));
    assert_eq!(image.status, 200, "the file is read where it was not taken in");
    let page = get(&takes, &format!("/documents/{id}/pages/4"));
    assert!(page["markdown"].as_str().unwrap().contains("town number 4"), "{page}");
}

/// Containers that are made alike have the same name and port; whichever started handed back what
/// the other was working on.
#[test]
fn a_server_that_starts_leaves_alone_what_another_of_its_name_works_on() {
    let database = Postgres::start(Version::V15, Durability::Real).unwrap();
    database.create_database("docs").unwrap();
    let (url, data) = (database.url("docs"), Data::new("shared-tools"));
    // A tool that never ends.
    let slow = data.0.join("pdftotext");
    std::fs::write(&slow, "#!/bin/sh\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", data.0.display(), std::env::var("PATH").unwrap());
    let variables = [("PATH", path.as_str()), ("WINDROW_DOCUMENTS__PAGES_AT_ONCE", "1")];
    let slow = Server::at(&["--store", &url], &variables, Data::new("shared-slow"));
    let added = add(&slow, "?name=towns.pdf", "application/pdf", &pdf(1, chronicle));
    let item = added["item"].as_str().unwrap();
    let page = || get(&slow, &format!("/queue/{item}/tree"))["children"][0].clone();
    let held: Value = until(&slow, "a page in work", || {
        let page = page();
        page["lease"].is_string().then_some(page)
    });
    let port = slow.address.rsplit(':').next().unwrap();
    let mut other = Command::new(env!("CARGO_BIN_EXE_windrow"));
    other.args(["serve", "--store", &url, "--listen", &format!("127.0.0.2:{port}")]);
    let _other = Listening::start(other.env("WINDROW_SERVER__RPC_LISTEN", "off")).unwrap();
    // The first one has room for one more page in its hands; the other reads the rest.
    let more: Vec<Value> = (2..6)
        .map(|pages| {
            let query = format!("?name=more-{pages}.pdf");
            add(&slow, &query, "application/pdf", &pdf(pages, chronicle))
        })
        .collect();
    until(&slow, "a document of the other", || {
        let is_live = |added: &Value| {
            let id = added["id"].as_str().unwrap();
            get(&slow, &format!("/documents/{id}"))["state"] == "live"
        };
        more.iter().any(is_live).then_some(())
    });
    assert_eq!(page()["lease"], held["lease"], "{}", page());
}
