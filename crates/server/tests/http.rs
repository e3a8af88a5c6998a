//! The server over HTTP, as a program in any language meets it: the real binary on a real socket.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use windrow_testkit::servers::listening::{Data, Listening};

#[path = "http/bulk.rs"]
mod bulk;
#[path = "http/drains.rs"]
mod drains;
#[path = "http/lately.rs"]
mod lately;
#[path = "http/list.rs"]
mod list;
#[path = "http/queues.rs"]
mod queues;
#[path = "http/stopping.rs"]
mod stopping;

/// A running server.
struct Server {
    process: Listening,
    address: String,
}

impl Server {
    fn start(data: &Path) -> Server {
        Server::start_with(data, &[])
    }

    fn start_with(data: &Path, variables: &[(&str, &str)]) -> Server {
        let mut command = windrow(&["serve", "--listen", "127.0.0.1:0"]);
        command.envs(variables.iter().copied()).arg("--data-dir").arg(data);
        let process = Listening::start(&mut command).unwrap();
        let address = process.address.clone();
        Server { process, address }
    }

    fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
        Reply::read(&mut self.open(method, path, headers, body))
    }

    /// Sends a request and leaves its answer to be read.
    fn open(&self, method: &str, path: &str, headers: &[&str], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}\
             content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "")
    }

    fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &["content-type: application/json"], &body.to_string())
    }

    fn enqueue(&self, item: Value) -> String {
        let reply = self.post("/api/v1/queues/q/items", &item);
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    fn claim(&self, claim: Value) -> Value {
        let reply = self.post("/api/v1/claims", &claim);
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    }

    /// Sends a signal, and waits until it has stopped.
    fn stop(mut self, signal: &str) -> bool {
        self.signal(signal);
        self.process.child.wait().unwrap().success()
    }

    fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }
}

struct Reply {
    status: u16,
    headers: String,
    text: String,
}

impl Reply {
    fn read(stream: &mut TcpStream) -> Reply {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let all = String::from_utf8(all).unwrap();
        let (head, text) = all.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{all:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, headers: head.to_ascii_lowercase(), text: text.to_owned() }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// A problem with this status and code.
    fn is(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        assert!(self.headers.contains("application/problem+json"), "{}", self.headers);
        let problem = self.json();
        assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(status)));
        let page = problem["type"].as_str().unwrap();
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&page[1..]);
        assert!(page.is_file(), "{} is not there", page.display());
    }
}

fn windrow(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.args(arguments).stdin(Stdio::null());
    command
}

#[test]
fn an_item_is_worked_on_over_http() {
    let data = Data::new("work");
    let server = Server::start(&data.0);
    let big = "12345678901234567890123";
    let body = format!(r#"{{"key":"k","payload":{{"n":{big}}},"route":["ocr","index"]}}"#);
    let headers = ["content-type: application/json"];
    let reply = server.send("POST", "/api/v1/queues/q/items", &headers, &body);
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    assert_eq!((reply.status, &reply.json()["outcome"]), (201, &json!("created")));

    let grant = server.claim(json!({"queues": ["q"], "worker": "w", "max": 10}));
    let lease = grant["lease"].as_str().unwrap();
    let work = &grant["items"][0];
    assert_eq!(
        (&work["id"], &work["stage"], &work["attempt"]),
        (&json!(id), &json!("ocr"), &json!(1))
    );
    let seen = server.get(&format!("/api/v1/queue/{id}"));
    assert!(seen.text.contains(big), "numbers stay exact");
    let stage = &seen.json()["stages"][0];
    assert_eq!((&stage["status"], &stage["attempts"]), (&json!("processing"), &json!(1)));
    assert_eq!((&stage["worker"], &seen.json()["worker"]), (&json!("w"), &json!("w")));
    assert_eq!(seen.json()["expires_at"], grant["expires_at"]);
    let row = server.get("/api/v1/queue?queue=q").json()["items"][0].clone();
    assert_eq!(row["updated_at"], stage["started_at"], "claimed after it was created: {row}");
    let renewed =
        server.post(&format!("/api/v1/leases/{lease}/renew"), &json!({"lease_ms": 60_000}));
    assert_eq!(renewed.json()["held"], json!([id]));
    let told = json!({"items": [{"id": id, "current": 1, "total": 2, "message": "half"}]});
    assert_eq!(server.post(&format!("/api/v1/leases/{lease}/progress"), &told).status, 200);
    assert_eq!(server.get(&format!("/api/queue/{id}")).json()["progress"]["message"], "half");

    let done = json!({"items": [{"id": id, "outcome": "complete", "output": [1]}]});
    let settled = server.post(&format!("/api/v1/leases/{lease}/settle"), &done);
    assert_eq!(settled.json()[0]["ending"], "completed");
    let grant = server.claim(json!({"worker": "w"}));
    assert_eq!(
        (&grant["items"][0]["stage"], &grant["items"][0]["input"]),
        (&json!("index"), &json!([1]))
    );
    let lease = grant["lease"].as_str().unwrap();
    let done = json!({"items": [{"id": id, "outcome": "complete", "result": {"ok": true}}]});
    server.post(&format!("/api/v1/leases/{lease}/settle"), &done);
    let item = server.get(&format!("/api/v1/queue/{id}")).json();
    assert_eq!((&item["status"], &item["result"]), (&json!("completed"), &json!({"ok": true})));
    let stats = server.get("/api/v1/queue/stats?queue=q").json();
    assert_eq!((&stats["completed"], &stats["queued"]), (&json!(1), &json!(0)));
    assert_eq!(server.get("/api/v1/workers").json()[0]["name"], "w");
}

#[test]
fn a_request_that_is_repeated_is_done_once() {
    let data = Data::new("repeat");
    let server = Server::start(&data.0);
    let headers = ["content-type: application/json", "idempotency-key: order 17"];
    let send = |body: &str| server.send("POST", "/api/v1/queues/q/items", &headers, body);
    let first = send(r#"[{"payload":1},{"priority":99}]"#);
    assert_eq!(first.status, 200, "{}", first.text);
    assert_eq!(first.json()[1]["error"], "invalid");
    assert_eq!(send(r#"[{"payload":1},{"priority":99}]"#).json(), first.json());
    send(r#"{"payload":2}"#).is(409, "request_reused");
    assert_eq!(server.get("/api/v1/queue/stats").json()["pending"], 1);
    let bytes = json!({"payload_base64": "MTIz", "key": "bytes"});
    let added = server.post("/api/v1/queues/q/items", &bytes);
    assert_eq!(added.status, 201);
    let id = added.json()["id"].as_str().unwrap().to_owned();
    let item = server.get(&format!("/api/v1/queue/{id}")).json();
    assert_eq!((&item["payload_base64"], &item["payload"]), (&json!("MTIz"), &Value::Null));
    assert_eq!(server.post("/api/v1/queues/q/items", &bytes).status, 200, "nothing was created");
    let lines = "{\"payload\":1}\n\n{\"payload\":2}\n";
    let headers = ["content-type: application/x-ndjson"];
    let reply = server.send("POST", "/api/v1/queues/q/items", &headers, lines);
    assert_eq!(reply.json().as_array().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_done_is_said_with_a_code() {
    let data = Data::new("codes");
    let server = Server::start(&data.0);
    let id = server.enqueue(json!({}));
    let explained = server.get(&format!("/api/v1/queue/{id}/explain")).json();
    assert_eq!(explained["reasons"][0]["code"], "no_worker");
    let absent = "01a1e554-9c99-7001-b210-29840971dd42";
    let json = ["content-type: application/json"];
    let items = "/api/v1/queues/q/items";
    server.send("POST", items, &json, "{").is(400, "malformed");
    server.send("POST", items, &json, r#"{"paylod":1}"#).is(400, "malformed");
    server.send("POST", items, &["content-type: text/csv"], "a,b").is(415, "unsupported_type");
    server.post(items, &json!({"priority": 11})).is(422, "invalid");
    server.post(items, &json!({"payload_base64": "AA==", "payload": 1})).is(422, "invalid");
    let large = format!("\"{}\"", "x".repeat(17 * 1024 * 1024));
    server.send("POST", items, &json, &large).is(413, "too_large");
    server
        .send("GET", "/healthz", &["origin: https://example.com"], "")
        .is(421, "misdirected_host");
    // A list is not read as the fields of an object.
    server.post(items, &json!([["q", "key"]])).is(400, "malformed");
    server.post("/api/v1/claims", &json!([])).is(400, "malformed");
    server.get("/api/v1/queue/stats?queu=q").is(400, "malformed");
    server.get("/api/v1/queues/a%ff/pause").is(405, "method_not_allowed");
    server.send("POST", "/api/v1/queues/a%ff/pause", &[], "").is(400, "malformed");
    server.send("PUT", "/api/v1/queues/q/settings", &[], "").is(400, "malformed");
    server.get("/api/v1/nothing").is(404, "not_found");
    server.get("/api/v1/claims").is(405, "method_not_allowed");
    server.get("/api/v1/queue/nonsense").is(404, "not_found");
    server.get(&format!("/api/v1/queue/{absent}")).is(404, "not_found");
    server.get(&format!("/api/v1/queue/{absent}/explain")).is(404, "not_found");
    server.post(&format!("/api/v1/leases/{absent}/renew"), &json!({})).is(409, "lease_lost");
    server.send("DELETE", &format!("/api/v1/queue/{id}"), &[], "").is(409, "still_live");
    server
        .post(&format!("/api/v1/queue/{id}/retry"), &json!({"mode": "reset"}))
        .is(409, "still_live");
    server.post("/api/v1/claims", &json!({"max": 5_000, "worker": "w"})).is(422, "invalid");
}

#[test]
fn an_item_is_cancelled_retried_and_removed() {
    let data = Data::new("change");
    let server = Server::start(&data.0);
    let id = server.enqueue(json!({"payload": 7}));
    assert_eq!(server.post(&format!("/api/v1/queue/{id}/cancel"), &json!({})).status, 200);
    let item = server.get(&format!("/api/v1/queue/{id}")).json();
    assert_eq!(item["status"], "cancelled");
    let clone = server.post(&format!("/api/v1/queue/{id}/retry"), &json!({})).json();
    let clone = clone["id"].as_str().unwrap();
    let item = server.get(&format!("/api/v1/queue/{clone}")).json();
    assert_eq!((&item["cloned_from"], &item["payload"]), (&json!(id), &json!(7)));
    let removed = server.send("DELETE", &format!("/api/v1/queue/{id}"), &[], "");
    assert_eq!(removed.json()["removed"], 1);
    server.get(&format!("/api/v1/queue/{id}")).is(404, "not_found");

    let stages = json!({"stages": [{"stage": "work", "max_attempts": 1}]});
    let put = server.send("PUT", "/api/v1/queues/q/settings", &[], &stages.to_string());
    assert_eq!(put.status, 200, "{}", put.text);
    assert_eq!(server.post("/api/v1/queues/q/pause", &json!({})).status, 200);
    assert_eq!(server.claim(json!({"worker": "w"}))["lease"], Value::Null);
    assert_eq!(server.post("/api/v1/queues/q/resume", &json!({})).status, 200);
    let grant = server.claim(json!({"worker": "w"}));
    let lease = grant["lease"].as_str().unwrap();
    let pages = json!([{"ordinal": 0, "kind": "page"}, {"ordinal": 1, "kind": "page"}]);
    let split = json!({"items": [{"id": clone, "outcome": "split", "children": pages}]});
    server.post(&format!("/api/v1/leases/{lease}/settle"), &split);
    let tree = server.get(&format!("/api/v1/queue/{clone}/tree?limit=1")).json();
    assert_eq!(tree["item"]["children"]["pending"], 2, "{tree}");
    assert_eq!((tree["children"].as_array().unwrap().len(), &tree["next"]), (1, &json!(1)));
}

#[test]
fn a_claim_that_waits_is_woken_and_one_that_waits_at_the_end_is_let_go() {
    let data = Data::new("wait");
    let server = Server::start(&data.0);
    let json = ["content-type: application/json"];
    let wait = json!({"queues": ["q"], "worker": "w", "wait_ms": 50_000}).to_string();
    let mut waiting = server.open("POST", "/api/v1/claims", &json, &wait);
    let id = server.enqueue(json!({}));
    assert_eq!(Reply::read(&mut waiting).json()["items"][0]["id"], json!(id));

    let mut waiting = server.open("POST", "/api/v1/claims", &json, &wait);
    // It waits for certain once it is seen to.
    while server.get("/api/v1/workers").json()[0]["waiting"] != 1 {}
    server.signal("-TERM");
    let reply = Reply::read(&mut waiting);
    assert_eq!((reply.status, &reply.json()["lease"]), (200, &Value::Null));
    let mut server = server;
    assert!(server.process.child.wait().unwrap().success());

    // Nothing was lost: the lease is still there, and its item.
    let server = Server::start(&data.0);
    assert_eq!(server.get("/api/v1/queue/stats").json()["processing"], 1);
    assert!(server.stop("-INT"));
}

#[test]
fn the_api_is_described_and_the_server_says_whether_it_is_ready() {
    let data = Data::new("docs");
    let server = Server::start(&data.0);
    let document = server.get("/api/v1/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let page = server.get("/docs");
    for path in document["paths"].as_object().unwrap().keys() {
        assert!(page.text.contains(&format!("<code>{path}</code>")), "{path} is not at /docs");
    }
    assert!(!page.text.contains("src=") && !page.text.contains("http://"), "nothing from outside");
    assert!(server.get("/").text.contains("<h1>Overview</h1>"), "the console is at the root");
    // A problem leads to a page about it.
    let lost = server.get("/api/v1/queue/none").json();
    let page = server.get(lost["type"].as_str().unwrap());
    assert!(page.status == 200 && page.headers.contains("text/html"), "{}", page.headers);
    assert!(page.text.contains("<h1>not_found</h1>") && !page.text.contains("src="));
    assert!(server.get("/docs/errors").text.contains("/docs/errors/not_found.md"));
    server.get("/docs/errors/none.md").is(404, "not_found");
    assert_eq!((server.get("/healthz").status, server.get("/readyz").status), (200, 200));
}

#[test]
fn a_server_that_others_could_reach_is_not_started() {
    let data = Data::new("reach");
    let mut serve = windrow(&["serve", "--listen", "0.0.0.0:0", "--data-dir"]);
    let refused = serve.arg(&data.0).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("from other machines"), "{said}");
    assert!(said.contains("windrow token create --role admin"), "{said}");
}
