//! Sources: a folder is watched by a real server, and what is in it becomes documents.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod folder;
#[path = "../rig/mod.rs"]
mod rig;

use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use folder::Watched;

#[test]
fn a_new_a_changed_and_a_deleted_file_become_what_they_should() {
    let watched = Watched::new("sources-life", &json!({"on_missing": "remove"}));
    watched.write("a.md", "# Apples\n\nThey keep in a cool cellar until spring.");
    watched.write("deep/b.md", "# Bees\n\nThey fly from twelve degrees on.");
    let source = watched.until("two files", |source| source["since_start"]["added"] == 2);
    assert_eq!(source["collection"], "inbox");
    assert_ne!(source["host"], "", "{source}");
    let found = watched.until_found("cellar", "a.md");
    assert_eq!(found["source"], watched.path("a.md"), "it is found by where it is");
    watched.until_found("degrees", "b.md");

    watched.write("a.md", "# Apples\n\nThis year they went into the press at once.");
    watched.until("the change", |source| source["since_start"]["changed"] == 1);
    watched.until_found("press", "a.md");
    let apples = watched.document("a.md").unwrap();
    assert_eq!((&apples["generation"], &apples["live_generation"]), (&json!(2), &json!(2)));

    // Touched, and the same: no work.
    watched.write("a.md", "# Apples\n\nThis year they went into the press at once.");
    let scans = watched.source()["since_start"]["scans"].as_u64().unwrap();
    let source = watched.until("two more looks", |source| {
        source["since_start"]["scans"].as_u64().unwrap() >= scans + 3
            && source["scan"]["unchanged"] == 2
    });
    assert_eq!(source["since_start"]["changed"], 1);

    fs::remove_file(watched.file("a.md")).unwrap();
    watched.until("the removal", |source| source["since_start"]["removed"] == 1);
    watched.until_it("it is gone", || watched.document("a.md").is_none());
    assert!(watched.document("b.md").is_some());
}

#[test]
fn a_file_that_is_still_being_written_is_not_taken() {
    let watched = Watched::new("sources-half", &json!({}));
    let mut file = fs::File::create(watched.file("long.txt")).unwrap();
    let (end, ended) = mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        // A line every few milliseconds, as a slow download has it.
        let mut lines = 0;
        while ended.recv_timeout(Duration::from_millis(5)).is_err() {
            writeln!(file, "line {lines} of a file that somebody is writing").unwrap();
            lines += 1;
        }
        lines
    });
    let source = watched
        .until("several looks", |source| source["since_start"]["scans"].as_u64().unwrap() >= 4);
    assert_eq!(
        (&source["scan"]["unsettled"], &source["since_start"]["added"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(watched.document("long.txt"), None);
    end.send(()).unwrap();
    assert!(writer.join().unwrap() > 10);
    watched.until("it is whole", |source| source["since_start"]["added"] == 1);
    let document = watched.document("long.txt").unwrap();
    assert_eq!(document["bytes"], fs::metadata(watched.file("long.txt")).unwrap().len());
    assert_eq!(document["generation"], 1, "it was taken once");
}

#[test]
fn nothing_is_removed_while_the_folder_itself_is_gone() {
    let watched = Watched::new("sources-gone", &json!({"on_missing": "remove"}));
    watched.write("a.md", "It stays.");
    watched.until_found("stays", "a.md");
    let away = watched.folder.with_extension("away");
    fs::rename(&watched.folder, &away).unwrap();
    let source = watched.until("the failure", |source| source["state"] == "failed");
    let error = source["last_error"].as_str().unwrap();
    assert!(error.contains("inbox") && error.contains("not there"), "{error}");
    assert_eq!(source["since_start"]["removed"], 0);
    assert_eq!(watched.document("a.md").unwrap()["state"], "live");
    fs::rename(&away, &watched.folder).unwrap();
    let source = watched.until("it is back", |source| source["state"] == "watching");
    assert_eq!(
        (&source["last_error"], &source["since_start"]["removed"]),
        (&Value::Null, &json!(0))
    );
}

/// A server that began before its folder was mounted saw the empty folder below, and let
/// everything go.
#[test]
fn nothing_is_removed_where_another_folder_or_no_file_is() {
    let mut watched = Watched::new("sources-other", &json!({"on_missing": "remove"}));
    watched.write("a.md", "It stays.");
    watched.until_found("stays", "a.md");
    let away = watched.folder.with_extension("away");
    fs::rename(&watched.folder, &away).unwrap();
    watched.write("other.md", "Of another folder.");
    let is_refused = |source: &Value| {
        let error = source["last_error"].as_str().unwrap_or_default();
        source["state"] == "failed" && error.contains("not mounted") && error.contains("PUT")
    };
    watched.until("it is another", is_refused);
    watched.restart();
    let source = watched.until("it still is", is_refused);
    assert_eq!(source["since_start"]["removed"], 0);
    assert_eq!(watched.documents().len(), 1, "nothing was taken in either");

    // Whoever means this folder says so.
    fs::remove_file(watched.file("other.md")).unwrap();
    let says = json!({"path": watched.folder, "on_missing": "remove"});
    assert_eq!(watched.put("inbox", &says).status, 200);
    let source = watched.until("several looks", |source| {
        source["state"] == "watching" && source["since_start"]["scans"].as_u64().unwrap() >= 3
    });
    let reason = source["scan"]["problems"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("no file at all"), "{source}");
    assert_eq!(watched.document("a.md").unwrap()["state"], "live");
    watched.write("other.md", "Of another folder.");
    watched.until("the removal", |source| source["since_start"]["removed"] == 1);
}

#[test]
fn one_file_that_cannot_be_taken_holds_up_no_other() {
    let watched = Watched::new("sources-odd", &json!({"ignore": [".bak", "drafts"]}));
    fs::File::create(watched.file("large.pdf")).unwrap().set_len(65 << 20).unwrap();
    let name = std::ffi::OsStr::from_bytes(b"\xff\xfe.txt");
    fs::write(watched.folder.join(name), "no UTF-8").unwrap();
    watched.write("good.md", "This one is well.");
    for left_out in ["empty.md", ".hidden.md", "old.bak", "drafts/one.md"] {
        let text = if left_out == "empty.md" { "" } else { "not wanted" };
        watched.write(left_out, text);
    }
    watched.until_found("well", "good.md");
    let source = watched.source();
    let left_out = json!({"empty": 1, "hidden": 1, "ignored": 2});
    assert_eq!(source["scan"]["left_out"], left_out, "{source}");
    assert_eq!((&source["scan"]["files"], &source["scan"]["not_taken"]), (&json!(7), &json!(2)));
    let problems = source["scan"]["problems"].as_array().unwrap();
    let reason = |ending: &str| {
        let of = |problem: &&Value| problem["path"].as_str().unwrap().ends_with(ending);
        problems.iter().find(of).unwrap()["reason"].as_str().unwrap()
    };
    assert!(reason("large.pdf").contains("65 MiB"), "{problems:?}");
    assert!(reason(".txt").contains("UTF-8"), "{problems:?}");
    let documents = watched.documents();
    assert_eq!(documents.len(), 1, "{documents:?}");
}

#[test]
fn a_paused_source_takes_nothing_and_a_restarted_server_does_nothing_twice() {
    let mut watched = Watched::new("sources-paused", &json!({}));
    watched.write("a.md", "First.");
    watched.until_found("first", "a.md");
    let paused = watched.post("pause");
    assert_eq!(paused["state"], "paused");
    watched.write("b.md", "Second.");
    watched.restart();
    // Another source begins later and is through with its file: so long nobody looked at this one.
    let other = watched.folder.with_extension("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("c.md"), "Third.").unwrap();
    assert_eq!(watched.put("other", &json!({"path": other})).status, 200);
    watched.until_found("third", "c.md");
    assert_eq!(watched.source()["state"], "paused", "it stays so");
    assert_eq!(watched.document("b.md"), None);
    watched.server().send("DELETE", "/api/v1/sources/other", &[], "");
    watched.post("resume");
    let source = watched.until("both are seen", |source| {
        source["since_start"]["added"] == 1 && source["scan"]["unsettled"] == 0
    });
    assert_eq!(source["scan"]["unchanged"], 1, "the first is known: {source}");
    watched.until_found("second", "b.md");
    let before = watched.items();
    watched.restart();
    let source = watched.until("everything is hashed", |source| source["scan"]["unchanged"] == 2);
    assert_eq!(source["since_start"]["added"], 0);
    let again = watched.post("rescan");
    assert_eq!(again["name"], "inbox");
    watched.until("once more", |source| {
        source["scan"]["unchanged"] == 2 && source["scan"]["unsettled"] == 0
    });
    assert_eq!(watched.items(), before, "nobody worked on anything");
    assert_eq!(watched.document("a.md").unwrap()["generation"], 1);

    let reply = watched.server().send("DELETE", "/api/v1/sources/inbox", &[], "");
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(watched.server().get("/api/v1/sources").json(), json!([]));
    assert!(watched.document("a.md").is_some(), "its documents stay");
}

#[test]
fn a_folder_that_has_the_store_in_it_is_read_without_the_store() {
    let watched = Watched::around_its_store("sources-own");
    watched.write("a.md", "Beside the store.");
    watched.until_found("beside", "a.md");
    let source = watched.until("a calm look", |source| source["scan"]["unchanged"] == 1);
    assert_eq!(source["scan"]["left_out"], json!({"the queue's own": 1}), "{source}");
    assert_eq!(watched.documents().len(), 1);
    let inside = json!({"path": watched.data_dir()});
    let reply = watched.put("inside", &inside);
    assert_eq!(reply.status, 422, "{}", reply.text);
    assert!(reply.text.contains("keeps its own files"), "{}", reply.text);
}

#[test]
fn what_is_no_folder_is_refused_and_nothing_is_kept_of_it() {
    let watched = Watched::new("sources-refused", &json!({}));
    for (path, why) in [
        ("/nowhere/at/all", "cannot be read here"),
        ("inbox", "must begin with a slash"),
        ("/dev/null", "neither a folder nor a file"),
        ("/", "the whole machine"),
    ] {
        let reply = watched.put("wrong", &json!({"path": path}));
        assert_eq!(reply.status, 422, "{}", reply.text);
        assert!(reply.text.contains(why), "{path}: {}", reply.text);
    }
    let all = watched.server().get("/api/v1/sources").json();
    assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
    assert_eq!(watched.server().get("/api/v1/sources/wrong").status, 404);
    let reply = watched.server().post("/api/v1/sources/wrong/rescan", &json!({}));
    assert_eq!(reply.status, 404, "{}", reply.text);
}
