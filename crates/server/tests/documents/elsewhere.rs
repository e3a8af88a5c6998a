//! Stages that a server leaves to others, done by `windrow worker` in another process: it makes
//! the same, loses nothing when it is killed, and says what does not fit before it begins.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};
use windrow_testkit::servers::{Durability, Postgres, Version};

use crate::file::{chronicle, pdf};
use crate::killed::fingerprint;
use crate::model::Model;
use crate::running::{Data, Server};
use crate::{PATIENCE, add, first, get, in_state, until};

/// What a server leaves to others in most of these tests.
const WITHOUT_OCR_AND_VECTOR: (&str, &str) =
    ("WINDROW_DOCUMENTS__STAGES", "pages,chunk,graph,publish");
/// So that what a killed worker held comes back soon.
const SOON: [(&str, &str); 2] =
    [("WINDROW_QUEUE__PAGE_LEASE_S", "3"), ("WINDROW_WORKERS__HEARTBEAT_S", "1")];

/// A server whose store stays in a directory of the test.
fn server_at(store: &Path, variables: &[(&str, &str)]) -> Server {
    let flags = ["--data-dir", store.to_str().unwrap()];
    Server::at(&flags, variables, Data::new("elsewhere-server"))
}

/// A worker on another machine, which is a directory here.
struct Elsewhere {
    child: Child,
    said: Arc<Said>,
    _data: Data,
}

/// What a worker said, and whether that is all.
#[derive(Default)]
struct Said {
    text: Mutex<(String, bool)>,
    more: Condvar,
}

impl Elsewhere {
    fn start(test: &str, address: &str, flags: &[&str], variables: &[(&str, &str)]) -> Elsewhere {
        let data = Data::new(test);
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
        command.args(["worker", "--server", &format!("http://{address}")]).args(flags);
        command.env("HOME", &data.0).env("XDG_CACHE_HOME", data.0.join("cache"));
        command.envs(variables.iter().copied()).current_dir(&data.0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::<Said>::default();
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                heard.text.lock().unwrap().0 += &(line + "\n");
                heard.more.notify_all();
            }
            heard.text.lock().unwrap().1 = true;
            heard.more.notify_all();
        });
        Elsewhere { child, said, _data: data }
    }

    /// Waits until it says something, and gives all that it has said.
    fn says(&self, words: &str) -> String {
        let mut text = self.said.text.lock().unwrap();
        while !text.0.contains(words) {
            assert!(!text.1, "it does not say {words:?}: {}", text.0);
            let (more, late) = self.said.more.wait_timeout(text, PATIENCE).unwrap();
            assert!(!late.timed_out(), "it does not say {words:?}: {}", more.0);
            text = more;
        }
        text.0.clone()
    }

    /// Waits until it ends, and gives its exit code and all that it said.
    fn ends(&mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        let text = self.said.text.lock().unwrap();
        let text = self.said.more.wait_while(text, |text| !text.1).unwrap();
        (code, text.0.clone())
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // It may have ended already.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Does stages until there is nothing left, and must do so well.
fn does(server: &Server, stages: &str, variables: &[(&str, &str)]) -> String {
    let flags = ["--stages", stages, "--until-empty"];
    let mut worker = Elsewhere::start("elsewhere-does", &server.address, &flags, variables);
    let (code, said) = worker.ends();
    assert_eq!(code, Some(0), "{said}");
    said
}

/// What a server alone makes of a chronicle.
fn made_alone(pages: usize) -> windrow_pipelines::catalog::Hash {
    let data = Data::new("elsewhere-alone");
    let mut server = server_at(&data.0.join("store"), &[]);
    let added = add(&server, "?name=towns.pdf", "application/pdf", &pdf(pages, chronicle));
    in_state(&server, &added, "live");
    server.process.stop();
    fingerprint(&data.0.join("store"))
}

fn add_towns(server: &Server, pages: usize) -> Value {
    add(server, "?name=towns.pdf", "application/pdf", &pdf(pages, chronicle))
}

/// The pages of a document, as items.
fn pages(server: &Server, added: &Value) -> Vec<Value> {
    let item = added["item"].as_str().unwrap();
    get(server, &format!("/queue/{item}/tree?limit=200"))["children"].as_array().unwrap().clone()
}

/// A `pdftotext` that never ends, before the others on the path.
fn hanging_tool(data: &Data) -> String {
    let bin = data.0.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let slow = bin.join("pdftotext");
    std::fs::write(&slow, "#!/bin/sh\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

#[test]
fn what_a_server_leaves_to_others_is_done_elsewhere_and_is_the_same() {
    let data = Data::new("elsewhere-same");
    let store = data.0.join("store");
    let mut server = server_at(&store, &[WITHOUT_OCR_AND_VECTOR]);
    let added = add_towns(&server, 12);
    let said = does(&server, "ocr,vector", &[]);
    assert!(said.contains("the documents pipeline does ocr with"), "{said}");
    assert!(said.contains("the documents pipeline does vector with"), "{said}");
    assert!(said.contains("ocr: completed 12"), "{said}");
    in_state(&server, &added, "live");
    assert_eq!(first(&server, "town number 7"), Some(("towns.pdf".to_owned(), 7)));
    for page in pages(&server, &added) {
        let page = get(&server, &format!("/queue/{}", page["id"].as_str().unwrap()));
        let by = |stage: usize| page["stages"][stage]["worker"].as_str().unwrap().to_owned();
        assert!(by(0).ends_with("/ocr") && by(1).ends_with("/chunk"), "{page}");
        assert_ne!(by(0).trim_end_matches("/ocr"), by(1).trim_end_matches("/chunk"), "{page}");
    }
    server.process.stop();
    assert_eq!(fingerprint(&store), made_alone(12), "texts, vectors or graph differ");
}

#[test]
fn every_stage_can_be_done_elsewhere_and_a_document_let_go() {
    let data = Data::new("elsewhere-all");
    let store = data.0.join("store");
    // Pages and chunks wait for each other, so that every stage there is comes up.
    for (gate, name) in [("item", "one"), ("document", "two")] {
        let variables =
            [("WINDROW_DOCUMENTS__ENABLED", "false"), ("WINDROW_DOCUMENTS__GATE", gate)];
        let server = server_at(&store, &variables);
        let here = get(&server, "/documents/stages");
        assert_eq!(here["stages"], json!([]), "{here}");
        let query = format!("?name={name}.pdf");
        let added = add(&server, &query, "application/pdf", &pdf(5, chronicle));
        does(&server, "pages,ocr,chunk,vector,graph,publish", &[]);
        in_state(&server, &added, "live");
        let id = added["id"].as_str().unwrap();
        let gone = server.send("DELETE", &format!("/api/v1/documents/{id}"), &Value::Null);
        assert_eq!(gone.status, 202);
        does(&server, "pages,publish", &[]);
        assert_eq!(server.get(&format!("/api/v1/documents/{id}")).status, 404);
        assert_eq!(first(&server, "town number 3"), None);
    }
}

#[test]
fn a_worker_that_is_killed_on_the_way_loses_nothing() {
    let data = Data::new("elsewhere-killed");
    let store = data.0.join("store");
    let variables = [&SOON[..], &[WITHOUT_OCR_AND_VECTOR]].concat();
    let mut server = server_at(&store, &variables);
    let added = add_towns(&server, 40);
    let flags = ["--stages", "ocr,vector", "--concurrency", "2"];
    for done in [5, 20] {
        let mut worker = Elsewhere::start("elsewhere-killed-w", &server.address, &flags, &SOON);
        until(&server, "pages that are read", || {
            let path = format!("/documents/{}/progress", added["id"].as_str().unwrap());
            let read = get(&server, &path)["ocr_completed_pages"].as_u64()?;
            (read >= done).then_some(())
        });
        worker.signal("-KILL");
        assert_eq!(worker.ends().0, None);
    }
    does(&server, "ocr,vector", &SOON);
    in_state(&server, &added, "live");
    for page in pages(&server, &added) {
        assert_eq!(page["status"], "completed", "{page}");
    }
    server.process.stop();
    assert_eq!(fingerprint(&store), made_alone(40), "texts, vectors or graph differ");
}

#[test]
fn a_worker_that_is_told_to_stop_hands_back_what_it_has_at_no_cost() {
    let data = Data::new("elsewhere-stopped");
    let server = server_at(&data.0.join("store"), &[WITHOUT_OCR_AND_VECTOR]);
    let added = add_towns(&server, 1);
    let path = hanging_tool(&data);
    let flags = ["--stages", "ocr"];
    let variables = [("PATH", path.as_str())];
    let mut worker = Elsewhere::start("elsewhere-stopped-w", &server.address, &flags, &variables);
    let page = until(&server, "a page in work", || {
        let page = pages(&server, &added).first()?.clone();
        (page["status"] == "processing").then_some(page)
    });
    worker.signal("-INT");
    let (code, said) = worker.ends();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("what is in hand is handed back"), "{said}");
    let page = get(&server, &format!("/queue/{}", page["id"].as_str().unwrap()));
    assert_eq!((&page["status"], &page["stages"][0]["attempts"]), (&json!("pending"), &json!(0)));
    does(&server, "ocr,vector", &[]);
    in_state(&server, &added, "live");
}

#[test]
fn a_server_that_is_away_is_waited_for_with_words() {
    let data = Data::new("elsewhere-away");
    let store = data.0.join("store");
    let serve = |listen: &str| {
        let place = ["--data-dir", store.to_str().unwrap()];
        Server::on(listen, &place, &[WITHOUT_OCR_AND_VECTOR], Data::new("elsewhere-away-s"))
    };
    let mut server = serve("127.0.0.1:0");
    let address = server.address.clone();
    let flags = ["--stages", "ocr,vector"];
    let mut worker = Elsewhere::start("elsewhere-away-w", &address, &flags, &[]);
    let added = add_towns(&server, 1);
    in_state(&server, &added, "live");
    server.process.kill();
    worker.says("the queue does not answer");
    let server = serve(&address);
    worker.says("the queue answers again");
    let added = add(&server, "?name=more.pdf", "application/pdf", &pdf(2, chronicle));
    in_state(&server, &added, "live");
    worker.signal("-INT");
    let (code, said) = worker.ends();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("does not answer").count(), 1, "it is said once: {said}");
}

#[test]
fn another_embedder_than_the_servers_is_refused_before_anything_is_claimed() {
    let data = Data::new("elsewhere-embedder");
    let server = server_at(&data.0.join("store"), &[WITHOUT_OCR_AND_VECTOR]);
    let added = add_towns(&server, 1);
    let model = Model::start();
    let flags = ["--stages", "ocr,vector", "--until-empty"];
    let variables = model.variables();
    let mut worker = Elsewhere::start("elsewhere-other", &server.address, &flags, &variables);
    let (code, said) = worker.ends();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("the server searches with") && said.contains("counting"), "{said}");
    assert!(said.contains("nothing was claimed"), "{said}");
    let page = until(&server, "a page", || pages(&server, &added).first().cloned());
    assert_eq!((&page["status"], &page["attempts"]), (&json!("pending"), &json!(0)), "{page}");
    // Who makes no vectors need not agree.
    does(&server, "ocr", &variables);
    does(&server, "vector", &[]);
    in_state(&server, &added, "live");

    // One that gets past the question, because the server was another one then, is refused too.
    let call = json!({"tenant": "default", "call": {"write": {"put_vectors": {
        "by": "counting@1", "vectors": [{"chunk": "0".repeat(32), "vector": "AACAPw=="}],
    }}}});
    let reply = server.send("POST", "/api/v1/documents/stage-calls?version=1", &call);
    assert_eq!(
        (reply.status, &reply.json()["code"]),
        (409, &json!("changed")),
        "{:?}",
        reply.json()
    );
}

#[test]
fn a_missing_tool_is_said_at_the_start_with_its_package() {
    let data = Data::new("elsewhere-missing");
    let server = server_at(&data.0.join("store"), &[WITHOUT_OCR_AND_VECTOR]);
    let nothing = data.0.to_str().unwrap();
    let said = does(&server, "ocr", &[("PATH", nothing)]);
    assert!(said.contains("install tesseract-ocr"), "{said}");
    assert!(said.contains("install poppler-utils"), "{said}");
}

#[test]
fn stages_are_done_elsewhere_for_servers_on_a_database_too() {
    let database = Postgres::start(Version::V15, Durability::Real).unwrap();
    database.create_database("docs").unwrap();
    let url = database.url("docs");
    let server = Server::at(&["--store", &url], &[WITHOUT_OCR_AND_VECTOR], Data::new("else-pg"));
    let added = add_towns(&server, 6);
    does(&server, "ocr,vector", &[]);
    in_state(&server, &added, "live");
    assert_eq!(first(&server, "town number 5"), Some(("towns.pdf".to_owned(), 5)));
}
