//! What somebody who looks on is shown, on both stores: documents as bars, pages, and the graph.

use serde_json::{Value, json};
use windrow_testkit::servers::{Durability, Postgres, Version};

use crate::running::{Data, Server};
use crate::{add, get, in_state, until};

const PEOPLE: &[u8] = b"Ada Lovelace met Charles Babbage in London. Charles Babbage admired Ada \
    Lovelace.\x0cLater Ada Lovelace wrote to Mary Somerville, and Mary Somerville answered Ada \
    Lovelace.\x0cAda Lovelace left London.";

/// Does it on a store in a directory, and on one in a database.
fn on_both(test: &str, check: impl Fn(&Server)) {
    check(&Server::start(test));
    let database = Postgres::start(Version::V15, Durability::Real).unwrap();
    database.create_database("docs").unwrap();
    let url = database.url("docs");
    check(&Server::at(&["--store", &url], &[], Data::new(test)));
}

fn named<'a>(picture: &'a Value, name: &str) -> &'a Value {
    let entities = picture["entities"].as_array().unwrap();
    let found = entities.iter().find(|entity| entity["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {picture}"))
}

#[test]
fn a_picture_of_the_graph_is_drawn_around_whoever_is_chosen() {
    on_both("looked-graph", |server| {
        let empty = get(server, "/documents/graph");
        assert_eq!((&empty["centre"], &empty["entities"]), (&json!(null), &json!([])), "{empty}");
        let added = add(server, "?name=people.txt&collection=books", "text/plain", PEOPLE);
        in_state(server, &added, "live");
        let picture = get(server, "/documents/graph");
        let ada = named(&picture, "Ada Lovelace");
        assert_eq!((&ada["id"], &ada["distance"]), (&picture["centre"], &json!(0)), "{picture}");
        assert!(ada["mentions"].as_u64().unwrap() >= 2, "{picture}");
        assert_eq!(picture["is_cut"], false, "{picture}");
        let mary = named(&picture, "Mary Somerville");
        assert_eq!(mary["distance"], 1, "{picture}");
        let relationships = picture["relationships"].as_array().unwrap();
        let is_of = |one: &&Value| one["from"] == mary["id"] || one["to"] == mary["id"];
        let place = &relationships.iter().find(is_of).unwrap()["chunks"][0];
        assert_eq!((&place["page"], &place["document"]), (&json!(2), &added["id"]), "{place}");
        assert_eq!(place["name"], "people.txt");
        let kind = ada["type"].as_str().unwrap();
        let types = picture["types"].as_array().unwrap();
        assert!(types.iter().any(|one| one["type"] == kind), "{picture}");
        // Around another, with room for few; by name; of another collection.
        let id = mary["id"].as_str().unwrap();
        let around = get(server, &format!("/documents/graph?entity={id}&limit=1"));
        assert_eq!((&around["centre"], &around["is_cut"]), (&mary["id"], &json!(true)));
        let found = get(server, "/documents/graph?q=some");
        assert_eq!((&found["centre"], &found["relationships"]), (&json!(null), &json!([])));
        let mary_found = named(&found, "Mary Somerville");
        assert_eq!((&mary_found["id"], &mary_found["distance"]), (&mary["id"], &json!(null)));
        let other = get(server, "/documents/graph?collection=other");
        assert_eq!((&other["centre"], &other["types"]), (&json!(null), &json!([])), "{other}");
        let nobody = server.get(&format!("/api/v1/documents/graph?entity={}", "0".repeat(32)));
        assert_eq!(nobody.status, 404);
        let theirs = server.get(&format!("/api/v1/documents/graph?entity={id}&tenant=rival"));
        assert_eq!(theirs.status, 404, "another tenant's");
        let odd = server.get("/api/v1/documents/graph?limit=151");
        assert_eq!((odd.status, &odd.json()["code"]), (422, &json!("invalid")));

        // Where one is mentioned.
        let mentioned = get(server, &format!("/documents/graph/entities/{id}"));
        assert_eq!((&mentioned["name"], &mentioned["next"]), (&mary["name"], &json!(null)));
        let passages = mentioned["chunks"].as_array().unwrap();
        assert_eq!((passages.len(), &passages[0]["page"]), (1, &json!(2)), "{mentioned}");
        let snippet = &passages[0]["snippet"];
        assert!(snippet["text"].as_str().unwrap().contains("Mary Somerville"), "{snippet}");
        assert!(!snippet["marks"].as_array().unwrap().is_empty(), "{snippet}");
        let wrong = format!("/api/v1/documents/graph/entities/{id}?cursor=wrong");
        assert_eq!(server.get(&wrong).status, 422);
        assert_eq!(server.get("/api/v1/documents/graph/entities/nonsense").status, 404);
    });
}

#[test]
fn a_list_has_the_phases_of_each_document_with_and_without_its_item() {
    on_both("looked-list", |server| {
        let counts = get(server, "/documents/counts");
        assert_eq!(counts.as_array().map(Vec::len), Some(5), "{counts}");
        let people = add(server, "?name=people.txt", "text/plain", PEOPLE);
        in_state(server, &people, "live");
        let torn = add(server, "?name=Torn.pdf", "application/pdf", b"%PDF-1.4 torn");
        in_state(server, &torn, "failed");
        let plain = get(server, "/documents");
        assert_eq!(plain["documents"][0].get("phases"), None, "{plain}");
        let progress = format!("/documents/{}/progress", people["id"].as_str().unwrap());
        let (listed, alone) = until(server, "all phases", || {
            let listed = get(server, "/documents?with=progress&state=live");
            let alone = get(server, &progress);
            (alone["graphrag_index_status"] == "completed").then_some((listed, alone))
        });
        assert_eq!(listed["documents"].as_array().map(Vec::len), Some(1));
        assert_eq!(listed["documents"][0]["phases"], alone["phases"], "{listed}");
        assert_eq!(alone["phases"][0]["completed"], 3);
        let found = get(server, "/documents?with=progress&q=tORN");
        assert_eq!(found["documents"][0]["id"], torn["id"], "{found}");
        assert_eq!(found["documents"][0]["phases"][0]["status"], "failed");
        let count = |state: &str| {
            let counts = get(server, "/documents/counts");
            let found = counts.as_array().unwrap().iter().find(|one| one["state"] == state);
            found.unwrap()["documents"].clone()
        };
        assert_eq!(["live", "failed", "building"].map(count), [json!(1), json!(1), json!(0)]);
        // The catalog knows when the item is gone.
        let item = people["item"].as_str().unwrap();
        let gone = server.send("DELETE", &format!("/api/v1/queue/{item}"), &json!({}));
        assert_eq!(gone.status, 200, "{:?}", gone.json());
        let listed = get(server, "/documents?with=progress&q=people");
        let ocr = &listed["documents"][0]["phases"][0];
        assert_eq!((&ocr["completed"], &ocr["status"]), (&json!(3), &json!("completed")));
        let odd = server.get("/api/v1/documents?with=everything");
        assert_eq!((odd.status, &odd.json()["code"]), (422, &json!("invalid")));
    });
}

#[test]
fn a_manifest_says_how_far_each_page_is_and_begins_anywhere() {
    on_both("looked-pages", |server| {
        let added = add(server, "?name=people.txt", "text/plain", PEOPLE);
        in_state(server, &added, "live");
        let id = added["id"].as_str().unwrap();
        let manifest = get(server, &format!("/documents/{id}/manifest?from=2&limit=1"));
        let page = &manifest["pages"][0];
        assert_eq!((&page["number"], &manifest["next"]), (&json!(2), &json!(2)), "{manifest}");
        let whole = json!({"total": 1, "done": 1});
        assert_eq!((&page["vector"], &page["graph"]), (&whole, &whole), "{page}");
        assert_eq!(
            (&page["item"]["status"], &page["item"]["attempts"]),
            (&json!("completed"), &json!(1))
        );
        let item = page["item"]["id"].as_str().unwrap();
        assert_eq!(get(server, &format!("/queue/{item}"))["id"], item);
        assert_eq!(manifest["failure"], json!(null));
        let none = get(server, &format!("/documents/{id}/manifest?only=failed"));
        assert_eq!((&none["pages"], &none["next"]), (&json!([]), &json!(null)), "{none}");
        for odd in ["only=all", "from=1&after=1", "after=x"] {
            let reply = server.get(&format!("/api/v1/documents/{id}/manifest?{odd}"));
            assert_eq!(reply.status, 422, "{odd}");
        }
        // Why a document failed stands where its pages would.
        let torn = add(server, "?name=torn.pdf", "application/pdf", b"%PDF-1.4 torn");
        let why = in_state(server, &torn, "failed")["failure"].clone();
        let id = torn["id"].as_str().unwrap();
        assert_eq!(get(server, &format!("/documents/{id}/manifest"))["failure"], why);
        let page = server.get(&format!("/api/v1/documents/{id}/pages/1"));
        let detail = page.json()["detail"].as_str().unwrap().to_owned();
        assert!(page.status == 404 && detail.contains(why.as_str().unwrap()), "{detail}");
    });
}
