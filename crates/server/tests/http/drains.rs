//! Workers over HTTP: what they run, and how one is drained and resumed.

use serde_json::{Value, json};

use crate::{Data, Reply, Server};

const VM: &str = "/api/v1/workers/vm%2Focr";

fn worker(server: &Server, name: &str) -> Value {
    let all = server.get("/api/v1/workers").json();
    let found = all.as_array().unwrap().iter().find(|worker| worker["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {all}")).clone()
}

#[test]
fn a_worker_shows_what_it_runs() {
    let data = Data::new("runs");
    let server = Server::start(&data.0);
    let ids: Vec<String> = (0..25).map(|_| server.enqueue(json!({"kind": "page"}))).collect();
    let grant = server.claim(json!({"worker": "vm/ocr", "max": 25}));
    let shown = worker(&server, "vm/ocr");
    assert_eq!((&shown["drained"], &shown["leases"]), (&json!(false), &json!(1)));
    let runs = shown["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 20, "some of them");
    let run = &runs[0];
    assert!(ids.iter().any(|id| run["item"] == *id.as_str()), "{run}");
    let names = ["queue", "stage", "kind"].map(|name| run[name].as_str().unwrap());
    assert_eq!(names, ["q", "work", "page"]);
    assert_eq!(run["lease_expires_at"], grant["expires_at"]);
    assert!(run["since"].as_str() < run["lease_expires_at"].as_str(), "{run}");
    let done: Vec<Value> = ids.iter().map(|id| json!({"id": id, "outcome": "complete"})).collect();
    let url = format!("/api/v1/leases/{}/settle", grant["lease"].as_str().unwrap());
    assert_eq!(server.post(&url, &json!({ "items": done })).status, 200);
    assert_eq!(worker(&server, "vm/ocr")["runs"], json!([]));
}

#[test]
fn a_drained_worker_finishes_what_it_has_and_gets_nothing_new() {
    let data = Data::new("drain");
    let server = Server::start(&data.0);
    server.enqueue(json!({}));
    let grant = server.claim(json!({"worker": "vm/ocr"}));
    let claim = json!({"worker": "vm/ocr", "wait_ms": 30_000}).to_string();
    let headers = ["content-type: application/json"];
    let mut waiting = server.open("POST", "/api/v1/claims", &headers, &claim);
    // Whether it waits already or comes later makes no difference.
    let drained = server.post(&format!("{VM}/drain"), &json!({}));
    assert_eq!((drained.status, drained.json()), (200, json!({"done": true})));
    let id = server.enqueue(json!({"priority": 9}));
    assert_eq!(server.claim(json!({"worker": "vm/ocr"}))["items"], json!([]));
    let shown = worker(&server, "vm/ocr");
    assert_eq!((&shown["drained"], shown["runs"].as_array().unwrap().len()), (&json!(true), 1));
    let held = &grant["items"][0]["id"];
    let done = json!({"items": [{"id": held, "outcome": "complete"}]});
    let url = format!("/api/v1/leases/{}/settle", grant["lease"].as_str().unwrap());
    assert_eq!(server.post(&url, &done).json()[0]["ending"], "completed");
    let explained = server.get(&format!("/api/v1/queue/{id}/explain"));
    let why = &explained.json()["reasons"][0];
    let resume = "resuming worker \"vm/ocr\", which is drained, or a worker that claims";
    assert_eq!(why["code"], "no_worker");
    assert!(why["unblocked_by"].as_str().unwrap().starts_with(resume), "{why}");

    let resumed = server.post(&format!("{VM}/resume"), &json!({})).json();
    assert_eq!(resumed, json!({"done": true}));
    let got = Reply::read(&mut waiting);
    assert_eq!((got.status, &got.json()["items"][0]["id"]), (200, &json!(id)), "{}", got.text);
    assert_eq!(worker(&server, "vm/ocr")["drained"], false);
    let again = server.post(&format!("{VM}/resume"), &json!({})).json();
    assert!(again["note"].as_str().unwrap().contains("no worker \"vm/ocr\" was drained"));
    let audit = server.get("/api/v1/audit").json();
    let deeds: Vec<_> = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|deed| {
            (deed["operation"].as_str().unwrap(), deed["targets"][0].as_str().unwrap_or_default())
        })
        .collect();
    assert!(deeds.contains(&("POST /workers/{name}/drain", "vm/ocr")), "{audit}");
}

#[test]
fn a_server_that_is_started_again_lists_who_holds_something() {
    let data = Data::new("holders");
    let server = Server::start(&data.0);
    let id = server.enqueue(json!({}));
    let grant = server.claim(json!({"worker": "vm/ocr"}));
    assert!(!server.stop("-KILL"), "it was killed");
    let server = Server::start(&data.0);
    let shown = worker(&server, "vm/ocr");
    let told = ["leases", "waiting", "asked", "drained"].map(|field| &shown[field]);
    assert_eq!(told, [&json!(1), &json!(0), &json!(false), &json!(false)], "{shown}");
    assert_eq!((&shown["runs"][0]["item"], shown["last_seen"].is_null()), (&json!(id), false));
    let done = json!({"items": [{"id": id, "outcome": "complete"}]});
    let url = format!("/api/v1/leases/{}/settle", grant["lease"].as_str().unwrap());
    assert_eq!(server.post(&url, &done).json()[0]["ending"], "completed");
    assert_eq!(server.get("/api/v1/workers").json(), json!([]), "it holds nothing any more");
}

#[test]
fn who_is_drained_stays_so_over_a_restart_and_is_shown_while_away() {
    let data = Data::new("drained");
    let server = Server::start(&data.0);
    let note = server.post(&format!("{VM}/drain"), &json!({})).json();
    assert!(note["note"].as_str().unwrap().contains("is present"), "{note}");
    assert!(server.stop("-TERM"));
    let server = Server::start(&data.0);
    let shown = worker(&server, "vm/ocr");
    assert_eq!((&shown["drained"], &shown["last_seen"]), (&json!(true), &Value::Null));
    server.enqueue(json!({}));
    assert_eq!(server.claim(json!({"worker": "vm/ocr"}))["items"], json!([]));
    assert_eq!(server.claim(json!({"worker": "another"}))["items"].as_array().unwrap().len(), 1);
    server.post("/api/v1/workers/%00/drain", &json!({})).is(422, "invalid");
}
