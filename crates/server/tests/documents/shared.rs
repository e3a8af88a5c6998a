//! Documents of several servers on one database.

use windrow_testkit::servers::{Durability, Postgres, Version};

use crate::file::{chronicle, pdf};
use crate::running::{Data, Server};
use crate::{add, first, get, in_state};

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
