//! One document's life over HTTP.

use std::cell::RefCell;
use std::io::Write as _;
use std::net::TcpStream;

use serde_json::json;

use crate::file::{chronicle, pdf};
use crate::running::{Data, Server, exchange};
use crate::{add, first, get, in_state, until};

#[test]
fn a_document_is_added_in_three_ways_read_shown_and_found() {
    let server = Server::start("documents-flow");
    assert_eq!(get(&server, "/documents")["documents"], json!([]));
    assert_eq!(get(&server, "/search?q=anything")["hits"], json!([]));
    // As the body.
    let file = pdf(3, chronicle);
    let query = "?name=towns.pdf&collection=books";
    let added = add(&server, query, "application/pdf", &file);
    assert_eq!(added["outcome"], "created", "{added}");
    let shown = in_state(&server, &added, "live");
    assert_eq!((&shown["pages"], &shown["collection"]), (&json!(3), &json!("books")), "{shown}");
    assert_eq!(first(&server, "town number 2"), Some(("towns.pdf".to_owned(), 2)));
    // In a form, and the same again.
    let form = b"--x\r\nContent-Disposition: form-data; name=\"collection\"\r\n\r\nbooks\r\n\
        --x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"bees.md\"\r\n\r\n\
        # Bees\n\nBees fly at nine degrees and above.\r\n--x--\r\n";
    let bees = add(&server, "", "multipart/form-data; boundary=x", form);
    in_state(&server, &bees, "live");
    let again = add(&server, "", "multipart/form-data; boundary=x", form);
    assert_eq!((&again["id"], &again["outcome"]), (&bees["id"], &json!("unchanged")), "{again}");
    assert_eq!(first(&server, "when do bees fly"), Some(("bees.md".to_owned(), 1)));
    // As a blob that was uploaded before: here it is the file of the first.
    let sha256 = shown["sha256"].as_str().unwrap();
    let blob = json!({"name": "copy.pdf", "sha256": sha256, "collection": "copies"});
    let copy = server.send("POST", "/api/v1/documents", &blob);
    assert_eq!(copy.status, 201, "{:?}", copy.json());
    in_state(&server, &copy.json(), "live");
    // Its pages were read before. What is text already is not remembered.
    until(&server, "what was saved", || {
        let memo = get(&server, "/documents/memo");
        let pages = memo.as_array().unwrap().iter().find(|memo| memo["phase"] == "ocr")?;
        (pages["hits"] == 3 && pages["misses"] == 4 && pages["entries"] == 3).then_some(())
    });
    let missing = json!({"name": "no.pdf", "sha256": "ab".repeat(32)});
    let refused = server.send("POST", "/api/v1/documents", &missing);
    assert_eq!((refused.status, &refused.json()["code"]), (409, &json!("blob_missing")));
    let untyped = json!({"name": "copy.pdf", "sha256": sha256, "media_type": "null"});
    let refused = server.send("POST", "/api/v1/documents", &untyped);
    assert_eq!((refused.status, &refused.json()["code"]), (422, &json!("invalid")));
    // Listed, by what they are.
    let books = get(&server, "/documents?collection=books&limit=1");
    assert_eq!(books["documents"][0]["name"], "bees.md", "{books}");
    let next = books["next"].as_str().unwrap();
    let rest = get(&server, &format!("/documents?collection=books&limit=1&cursor={next}"));
    assert_eq!(rest["documents"][0]["name"], "towns.pdf", "{rest}");
    assert_eq!(rest["next"], json!(null));
}

#[test]
fn a_page_is_shown_with_its_text_its_chunks_and_its_picture() {
    let server = Server::start("documents-page");
    let file = pdf(2, chronicle);
    let added = add(&server, "?name=towns.pdf", "application/pdf", &file);
    in_state(&server, &added, "live");
    let id = added["id"].as_str().unwrap();
    let page = get(&server, &format!("/documents/{id}/pages/2"));
    assert_eq!((&page["outcome"], &page["how"]), (&json!("read"), &json!("text_layer")), "{page}");
    assert!(page["markdown"].as_str().unwrap().contains("town number 2"), "{page}");
    let chunk = &page["chunks"][0];
    assert!(chunk["embedded_by"].is_string() && chunk["is_linked"] == true, "{chunk}");
    let manifest = get(&server, &format!("/documents/{id}/manifest?limit=1"));
    assert_eq!((&manifest["pages"][0]["number"], &manifest["next"]), (&json!(1), &json!(1)));
    let image = server.get(&format!("/api/v1/documents/{id}/pages/1/image"));
    assert_eq!((image.status, image.header("content-type")), (200, Some("image/png")));
    assert!(image.body.starts_with(b"\x89PNG"));
    let whole = server.get(&format!("/api/v1/documents/{id}/file"));
    assert_eq!((whole.status, &whole.body), (200, &file));
    assert_eq!(whole.header("content-type"), Some("application/pdf"));
    // What somebody uploaded never runs as a page of ours.
    assert_eq!(whole.header("content-security-policy"), Some("sandbox"));
    assert_eq!(whole.header("x-content-type-options"), Some("nosniff"));
    for absent in [format!("/{id}/pages/3"), format!("/{id}/pages/0"), "/nonsense".to_owned()] {
        let reply = server.get(&format!("/api/v1/documents{absent}"));
        assert_eq!(reply.status, 404, "{absent}");
    }
}

#[test]
fn what_cannot_be_read_is_failed_with_its_reason() {
    let server = Server::start("documents-broken");
    let added = add(&server, "?name=torn.pdf", "application/pdf", b"%PDF-1.4 torn");
    let shown = in_state(&server, &added, "failed");
    assert!(shown["failure"].as_str().is_some_and(|why| !why.is_empty()), "{shown}");
}

#[test]
fn the_file_of_a_document_outlives_its_item_and_goes_with_the_document() {
    let server = Server::start("documents-kept");
    let added =
        add(&server, "?name=bees.md", "text/markdown", b"# Bees\n\nThey fly at nine degrees.");
    let shown = in_state(&server, &added, "live");
    let (id, item) = (added["id"].as_str().unwrap(), added["item"].as_str().unwrap());
    let gone = server.send("DELETE", &format!("/api/v1/queue/{item}"), &json!({}));
    assert_eq!(gone.status, 200, "{:?}", gone.json());
    // Whoever collects what nobody needs comes by every second.
    let claim = json!({"queues": ["nowhere"], "worker": "clock", "wait_ms": 2500});
    server.send("POST", "/api/v1/claims", &claim);
    let again = server.send("POST", &format!("/api/v1/documents/{id}/reindex"), &json!({}));
    assert_eq!((again.status, &again.json()["generation"]), (202, &json!(2)));
    until(&server, "the second version", || {
        (get(&server, &format!("/documents/{id}"))["live_generation"] == 2).then_some(())
    });
    assert_eq!(first(&server, "bees"), Some(("bees.md".to_owned(), 1)));
    let gone = server.send("DELETE", &format!("/api/v1/documents/{id}"), &json!({}));
    assert_eq!(gone.status, 202, "{:?}", gone.json());
    assert_eq!(first(&server, "bees"), None, "at once");
    until(&server, "the end of the document", || {
        (server.get(&format!("/api/v1/documents/{id}")).status == 404).then_some(())
    });
    // Its items are what refers to the file now; without them it goes.
    let listed = get(&server, "/queue?queue=documents&limit=200");
    for item in listed["items"].as_array().unwrap() {
        let id = item["id"].as_str().unwrap();
        server.send("DELETE", &format!("/api/v1/queue/{id}"), &json!({}));
    }
    let sha256 = shown["sha256"].as_str().unwrap();
    until(&server, "the end of its file", || {
        (server.get(&format!("/api/v1/blobs/{sha256}")).status == 404).then_some(())
    });
}

#[test]
fn a_server_that_only_queues_has_no_catalog_and_no_workers() {
    let data = Data::new("documents-none");
    let place = data.0.join("store");
    let flags = ["--data-dir", place.to_str().unwrap()];
    let server = Server::at(&flags, &[], data);
    assert_eq!(get(&server, "/documents")["documents"], json!([]));
    assert_eq!(get(&server, "/workers"), json!([]));
    assert!(!place.join("catalog.db").exists());
    add(&server, "?name=a.md", "text/markdown", b"some words");
    assert!(place.join("catalog.db").exists());
}

/// A form with a text of a field, up to the middle of the file.
fn form_with(source: &str) -> String {
    format!(
        "--x\r\nContent-Disposition: form-data; name=\"source\"\r\n\r\n{source}\r\n\
         --x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"hives.md\"\r\n\r\n\
         # Hives\n\nThere are"
    )
}

/// Whoever came after four slow ones waited for ever.
#[test]
fn slow_forms_hold_up_no_other_upload_and_an_empty_field_is_none() {
    let server = Server::start("documents-forms");
    let rest = " nine.\r\n--x--\r\n";
    let kind = "multipart/form-data; boundary=x";
    let head = |len: usize| {
        format!(
            "POST /api/v1/documents HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: \
             {kind}\r\ncontent-length: {len}\r\n\r\n",
            server.address
        )
    };
    let begun = form_with("");
    let whole = [&begun[..], rest].concat();
    let added = add(&server, "", kind, whole.as_bytes());
    let shown = in_state(&server, &added, "live");
    assert_eq!(shown["source"], "hives.md", "{shown}");

    let slow = || {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.write_all((head(whole.len()) + &begun).as_bytes()).unwrap();
        stream
    };
    // Each try holds one more: one that lost its place to a whole form does not come back.
    let held = RefCell::new(Vec::<TcpStream>::new());
    let send =
        || exchange(&server.address, (head(whole.len()) + &whole).as_bytes(), false).remove(0);
    let refused = until(&server, "no room for a form", || {
        held.borrow_mut().push(slow());
        let reply = send();
        (reply.status == 429).then_some(reply)
    });
    let said = refused.json();
    assert!(said["detail"].as_str().unwrap().contains("?name="), "{said}");
    assert_eq!(said["retry_after_ms"], 1_000, "{said}");
    add(&server, "?name=body.md", "text/markdown", b"# Body\n\nNot held.");
    drop(held);
    until(&server, "room for a form", || (send().status < 300).then_some(()));
}
