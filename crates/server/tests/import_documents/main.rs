//! `windrow import documents`, from a real PostgreSQL with the older tables of seed 001.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "../rig/mod.rs"]
mod rig;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windrow_testkit::servers::postgres::{Durability, Postgres, Version};

use rig::{Data, Server};

const OLDER: &str = include_str!("older.sql");
const PATIENCE: Duration = Duration::from_secs(60);

/// The older pipeline's database, and a folder with what its tables name.
struct Older {
    server: Postgres,
    home: Data,
}

impl Older {
    fn new(test: &str) -> Older {
        let server = Postgres::start(Version::V15, Durability::Real).unwrap();
        server.create_database("dots_ocr").unwrap();
        server.psql("dots_ocr", OLDER).unwrap();
        let home = Data::new(test);
        let pages = home.0.join("files/contract");
        std::fs::create_dir_all(&pages).unwrap();
        let text = "The deposit is two barrels of perry.";
        std::fs::write(pages.join("contract_page_1_nohf.md"), text).unwrap();
        Older { server, home }
    }

    fn sql(&self, sql: &str) -> String {
        self.server.psql("dots_ocr", sql).unwrap()
    }

    fn store(&self) -> String {
        self.home.0.join("store").to_str().unwrap().to_owned()
    }

    /// Runs the import with more words; its exit code, and what it said on both channels.
    fn import(&self, words: &[&str]) -> (i32, String, String) {
        let url = self.server.url("dots_ocr");
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
        command.args(["import", "documents", "--from", &url, "--files", "files"]).args(words);
        command.current_dir(&self.home.0).env("HOME", &self.home.0).stdin(Stdio::null());
        for name in ["WINDROW_TOKEN", "WINDROW_SERVER", "PGPASSWORD"] {
            command.env_remove(name);
        }
        let run = command.output().unwrap();
        let said = |bytes| String::from_utf8(bytes).unwrap();
        (run.status.code().unwrap(), said(run.stdout), said(run.stderr))
    }
}

fn get(server: &Server, path: &str) -> Value {
    let reply = server.get(&format!("/api/v1{path}"));
    assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    reply.json()
}

/// A document by its name.
fn document(server: &Server, name: &str) -> Value {
    let found = get(server, &format!("/documents?name={name}"));
    found["documents"][0].clone()
}

fn progress(server: &Server, name: &str) -> Value {
    let document = document(server, name);
    let id = document["id"].as_str().unwrap_or_else(|| panic!("{name} is not here"));
    get(server, &format!("/documents/{id}/progress"))
}

/// How a document stands in its three phases.
fn statuses(progress: &Value) -> [&str; 3] {
    ["ocr_status", "vector_index_status", "graphrag_index_status"]
        .map(|name| progress[name].as_str().unwrap())
}

fn until<T>(server: &Server, what: &str, look: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} does not come");
        // A claim where nothing ever comes is a clock that the server has.
        let claim = json!({"queues": ["nowhere"], "worker": "clock", "wait_ms": 50});
        server.post("/api/v1/claims", &claim);
    }
}

/// Everything that was taken over is here as it stood there.
fn stands_as_it_did(server: &Server) {
    let contract = progress(server, "contract.pdf");
    assert_eq!(statuses(&contract), ["completed"; 3], "{contract}");
    let counts = ["total_pages", "ocr_completed_pages", "total_chunks", "vector_completed_chunks"];
    assert_eq!(counts.map(|name| contract[name].as_u64().unwrap()), [2, 2, 3, 3]);
    assert_eq!(statuses(&progress(server, "notes.pdf")), ["completed"; 3], "it was done here");
    assert_eq!(statuses(&progress(server, "waiting.txt")), ["pending"; 3]);
    let broken = progress(server, "broken.pdf");
    assert_eq!(statuses(&broken), ["failed", "pending", "pending"]);
    let failure = document(server, "broken.pdf")["failure"].clone();
    assert_eq!(failure, "it failed elsewhere: its convert_status is failed");
    let scan = progress(server, "scan.txt");
    assert_eq!(statuses(&scan), ["failed"; 3]);
    let reasons: Vec<&str> = scan["gaps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gap| gap["reason"].as_str().unwrap())
        .collect();
    let wanted =
        ["it failed elsewhere: Embedding timeout", "it failed elsewhere: OCR inference timeout"];
    assert!(wanted.iter().all(|why| reasons.contains(why)) && reasons.len() == 2, "{reasons:?}");
    assert_eq!(scan["vector_completed_chunks"], 1);
    for done in ["odd.pdf", "bare.pdf"] {
        assert_eq!(statuses(&progress(server, done)), ["completed"; 3], "{done}");
    }
    for absent in ["archived.pdf", "gone.pdf"] {
        assert_eq!(document(server, absent), Value::Null, "{absent}");
    }
}

/// The views of the seed have a row for every page and chunk.
fn views_have_rows(server: &Server) {
    let rows = |view: &str, column: &str| {
        let shown = get(server, &format!("/views/{view}?limit=100"));
        let rows = shown["rows"].as_array().unwrap_or_else(|| panic!("{shown}")).clone();
        let mut each: Vec<String> =
            rows.iter().map(|row| row[column].as_str().unwrap().to_owned()).collect();
        each.sort();
        each
    };
    let pages = rows("task_queue_page", "ocr_status");
    assert_eq!(pages, ["completed", "completed", "completed", "completed", "failed"]);
    let chunks = rows("task_queue_chunk", "vector_status");
    assert_eq!(chunks.iter().filter(|status| *status == "failed").count(), 1, "{chunks:?}");
    assert_eq!(chunks.iter().filter(|status| *status == "completed").count(), 5, "{chunks:?}");
}

fn search(server: &Server, words: &str) -> Value {
    get(server, &format!("/search?q={}&limit=3", words.replace(' ', "+")))
}

fn finds(server: &Server, words: &str, name: &str) {
    let found = search(server, words);
    assert_eq!(found["hits"][0]["name"], name, "{words}: {found}");
}

/// What every import of these tables says.
fn problems_are_told(said: &str) {
    for told in [
        "odd.pdf (00000000-0000-0000-0000-000000000006): ocr_details: there are no pages in it",
        "archived.pdf (00000000-0000-0000-0000-000000000008): its convert_status \"archived\"",
        "waiting.txt (00000000-0000-0000-0000-000000000003): its file is not at hand",
        "bare.pdf (00000000-0000-0000-0000-000000000007): nothing is known of its pages",
        "left out: 1 deleted there",
    ] {
        assert!(said.contains(told), "{told}\n\n{said}");
    }
}

#[test]
fn older_tables_come_into_a_data_directory_and_stay_as_they_are() {
    let older = Older::new("import-embedded");
    let (before, store) = (older.server.dump("dots_ocr").unwrap(), older.store());
    let into = ["--data-dir", &store];
    let (code, said, told) = older.import(&["--dry-run"]);
    assert_eq!(code, 7, "{told}");
    assert!(said.contains("documents, ocr") && told.contains("7 planned"), "{said}{told}");
    assert!(!older.home.0.join("store").exists(), "nothing is written");

    let (code, _, told) = older.import(&into);
    assert!(code == 3 && told.contains("there is no queue in"), "{told}");
    let (code, _, told) = older.import(&["--create", "--data-dir", &store]);
    assert_eq!(code, 7, "{told}");
    problems_are_told(&told);
    assert!(told.contains("8 documents: 7 created, 1 refused; 2 not understood"), "{told}");
    assert_eq!(older.server.dump("dots_ocr").unwrap(), before, "the source is as it was");

    let (code, _, told) = older.import(&into);
    assert_eq!(code, 7, "{told}");
    assert!(told.contains("8 documents: 1 refused, 7 unchanged;"), "{told}");

    let server = Server::start(&into, &[]);
    stands_as_it_did(&server);
    views_have_rows(&server);
    finds(&server, "cider press harvest", "contract.pdf");
    finds(&server, "barrels of perry", "contract.pdf");
    finds(&server, "varroa mites sticky board", "notes.pdf");
    finds(&server, "lighthouse keeper", "scan.txt");

    // Over the server that has the directory open now.
    let (code, _, told) = older.import(&into);
    assert!(code == 7 && told.contains("7 unchanged"), "{told}");
    let dumped = older.server.dump("dots_ocr").unwrap();
    assert_eq!(dumped, before, "the source is as it was");
}

#[test]
fn older_tables_come_into_a_database() {
    let older = Older::new("import-database");
    older.server.create_database("queue").unwrap();
    let before = older.server.dump("dots_ocr").unwrap();
    let url = older.server.url("queue");
    let into = ["--store", &url];
    let (code, _, told) = older.import(&["--create", "--store", &url]);
    assert_eq!(code, 7, "{told}");
    problems_are_told(&told);
    let (code, _, told) = older.import(&into);
    assert!(code == 7 && told.contains("1 refused, 7 unchanged;"), "{told}");
    let server = Server::start(&into, &[]);
    stands_as_it_did(&server);
    views_have_rows(&server);
    finds(&server, "barrels of perry", "contract.pdf");
    assert_eq!(older.server.dump("dots_ocr").unwrap(), before, "the source is as it was");
}

#[test]
fn what_failed_or_waited_is_done_when_it_is_recovered_or_its_file_comes() {
    let older = Older::new("import-recovered");
    let (store, files) = (older.store(), older.home.0.join("files"));
    let into = ["--data-dir", &store];
    let server = Server::start(&into, &[]);
    older.import(&into);
    let recover = |name: &str| {
        let id = document(&server, name)["id"].as_str().unwrap().to_owned();
        let reply = server.post(&format!("/api/v1/documents/{id}/recover-failed"), &json!({}));
        assert_eq!(reply.status, 202, "{}", reply.text);
    };
    recover("scan.txt");
    let reason = until(&server, "the chunk", || {
        let scan = progress(&server, "scan.txt");
        let gaps = scan["gaps"].as_array().unwrap();
        let is_over = scan["vector_completed_chunks"] == 2 && gaps.len() == 1;
        is_over.then(|| gaps[0]["reason"].as_str().unwrap().to_owned())
    });
    assert!(reason.contains("its file is not at hand"), "{reason}");
    finds(&server, "lamp burns paraffin", "scan.txt");

    std::fs::write(files.join("scan.txt"), "one\u{c}The second page tells of fog.").unwrap();
    std::fs::write(files.join("waiting.txt"), "A kestrel nests in the tower.").unwrap();
    let (code, _, told) = older.import(&into);
    assert!(code == 7 && told.contains("2 changed, 1 refused, 5 unchanged"), "{told}");
    assert_eq!(statuses(&progress(&server, "waiting.txt")), ["completed"; 3]);
    finds(&server, "kestrel tower", "waiting.txt");
    recover("scan.txt");
    until(&server, "the page", || {
        let scan = progress(&server, "scan.txt");
        // What was read is found once its vectors are there and it is published again.
        let is_read = statuses(&scan)[0] == "completed" && scan["gaps"] == json!([]);
        let found = search(&server, "second page fog");
        (is_read && found["hits"][0]["name"] == "scan.txt").then_some(())
    });
}

#[test]
fn an_import_that_was_interrupted_goes_on() {
    let older = Older::new("import-interrupted");
    let store = older.store();
    let into = ["--data-dir", &store];
    // Nothing of it is done, as if it had been killed when everything was sent.
    let (code, _, told) = older.import(&["--detach", "--create", "--data-dir", &store]);
    assert!(code == 7 && told.contains("7 created"), "{told}");
    let (code, _, told) = older.import(&into);
    assert!(code == 7 && told.contains("7 unchanged"), "{told}");
    stands_as_it_did(&Server::start(&into, &[]));
}

/// Changes of a status, a page, a chunk and a row; how each is undone, and what names it.
fn changes() -> [(String, String, String); 4] {
    let id = |at: char| format!("(00000000-0000-0000-0000-00000000000{at})");
    let page = "{page_ocr,pages,page_1,status}";
    let chunk = "{vector_indexing,chunks,chunk-d}";
    let contract =
        |set: String| format!("update documents set {set} where filename = 'contract.pdf'");
    let status = |word: &str| {
        contract(format!("ocr_details = jsonb_set(ocr_details, '{page}', '\"{word}\"')"))
    };
    let broken = |word: &str| {
        format!("update documents set convert_status = '{word}' where filename = 'broken.pdf'")
    };
    let new = "00000000-0000-0000-0000-00000000000b";
    [
        (
            broken("pending"),
            broken("failed"),
            format!("broken.pdf {}: it is not as it was", id('4')),
        ),
        (
            status("failed"),
            status("success"),
            format!("contract.pdf {}: it is not as it was", id('1')),
        ),
        (
            contract(format!(
                "indexing_details = jsonb_set(indexing_details, '{chunk}', \
                 '{{\"status\": \"success\", \"page\": 1}}')"
            )),
            contract(format!("indexing_details = indexing_details #- '{chunk}'")),
            "vector: 4 there, 3 here".to_owned(),
        ),
        (
            format!("insert into documents (id, filename) values ('{new}', 'new.pdf')"),
            "delete from documents where filename = 'new.pdf'".to_owned(),
            format!("new.pdf {}: it is not here", id('b')),
        ),
    ]
}

#[test]
fn verify_holds_and_names_what_was_changed_on_either_side() {
    let older = Older::new("import-verified");
    // What is never taken over would differ for ever.
    older.sql("delete from documents where filename = 'archived.pdf'");
    let (before, store) = (older.server.dump("dots_ocr").unwrap(), older.store());
    let into = ["--data-dir", &store];
    let check = ["--verify", "--data-dir", &store];
    let (code, _, told) = older.import(&check);
    assert!(code == 3 && told.contains("there is no queue in"), "{code}: {told}");
    older.import(&["--create", "--data-dir", &store]);
    let (code, said, told) = older.import(&check);
    assert_eq!(code, 0, "{said}{told}");
    for row in ["documents, ocr       completed  4", "documents, ocr       pending    1"] {
        assert!(said.contains(row), "{row}\n{said}");
    }
    assert!(told.contains("of 1 document more is done here"), "notes.pdf was pending: {told}");
    let json = older.import(&["--json", "--verify", "--data-dir", &store]).1;
    for (what, status, count) in [
        ("pages, ocr", "completed", 4),
        ("pages, ocr", "failed", 1),
        ("chunks, vector", "completed", 4),
        ("chunks, vector", "failed", 1),
        ("chunks, graphrag", "completed", 4),
        ("chunks, graphrag", "pending", 1),
    ] {
        let line = json!({"what": what, "status": status, "there": count, "here": count});
        let is_line = |found: &str| serde_json::from_str::<Value>(found).unwrap() == line;
        assert!(json.lines().any(is_line), "{line}\n{json}");
    }
    assert_eq!(older.server.dump("dots_ocr").unwrap(), before, "the source is as it was");

    // The negative controls.
    for (change, undo, names) in changes() {
        older.sql(&change);
        let (code, _, told) = older.import(&check);
        assert!(code == 1 && told.contains(&names), "{change}\n{code}: {told}");
        assert!(
            told.contains("1 document not the same there and here; nothing was written"),
            "{told}"
        );
        older.sql(&undo);
        assert_eq!(older.import(&check).0, 0, "{undo}");
    }
    // And on this side.
    let server = Server::start(&into, &[]);
    let id = document(&server, "bare.pdf")["id"].as_str().unwrap().to_owned();
    server.send("DELETE", &format!("/api/v1/documents/{id}"), &[], "");
    until(&server, "its end", || (document(&server, "bare.pdf") == Value::Null).then_some(()));
    let (code, _, told) = older.import(&check);
    assert!(code == 1 && told.contains("bare.pdf") && told.contains("it is not here"), "{told}");
}

#[test]
fn another_table_and_no_table_are_refused_and_leave_no_store() {
    let older = Older::new("import-refused");
    let store = older.store();
    let into = ["--create", "--data-dir", &store];
    older.sql("alter table documents drop column index_status");
    let (code, _, told) = older.import(&into);
    assert!(code == 3 && told.contains("has no index_status;"), "{told}");
    older.sql("alter table documents rename to papers");
    let (code, _, told) = older.import(&into);
    assert!(code == 3 && told.contains("there is no table `documents`"), "{told}");
    assert!(!older.home.0.join("store").exists());
}

#[test]
fn a_table_with_the_needed_columns_alone_is_enough() {
    let older = Older::new("import-least");
    older.sql(
        "drop table task_queue, documents; create table documents (id int, filename text, \
         convert_status text, index_status text); insert into documents values (1, 'a.pdf', \
         'converted', 'indexed'), (2, 'b.pdf', 'failed', 'pending'), (3, 'c.pdf', null, null)",
    );
    let store = older.store();
    let (code, said, told) = older.import(&["--json", "--create", "--data-dir", &store]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("the table has no original_filename, file_path, total_pages"), "{told}");
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[0]["id"], &lines[0]["outcome"]), (&json!("1"), &json!("created")));
    assert_eq!(older.import(&["--verify", "--data-dir", &store]).0, 0);
}
