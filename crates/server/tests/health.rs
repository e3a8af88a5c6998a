//! Health tells the truth: situations that go wrong, on the real server.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod rig;

use std::sync::Arc;

use rig::{Data, Server};
use serde_json::{Value, json};
use windrow_core::Timestamp;
use windrow_core::command::{Command, NewItem};
use windrow_core::settings::Settings;
use windrow_engine::{Clock as _, Engine, Limits, SystemClock};
use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::{Embedded, Options};
use windrow_testkit::servers::postgres::{Durability, Postgres, Version};

fn start(data: &Data) -> Server {
    Server::start(&data.place(), &[("WINDROW_HEALTH__STALLED_S", "1")])
}

#[track_caller]
fn says(line: &Value, status: &str, of: &str, words: &str) {
    assert_eq!((&line["status"], &line["of"]), (&json!(status), &json!(of)), "{line}");
    assert!(line["says"].as_str().unwrap().contains(words), "{line}");
    assert!(!line["remedy"].as_str().unwrap().is_empty(), "{line}");
}

#[test]
fn work_that_nobody_takes_is_a_stall_until_somebody_does() {
    let data = Data::new("stalled");
    let server = start(&data);
    // The disk that the tests run on may be nearly full; everything else is well.
    let quiet = server.get("/api/v1/health").json();
    let mut checks = quiet["checks"].as_array().unwrap().iter();
    assert!(checks.all(|c| c["status"] == "green" || c["check"] == "space"), "{quiet}");
    server.enqueue("mail", &json!([{}, {}]));
    says(&server.until("stalled", "red"), "red", "mail", "no worker asks for it");
    assert_eq!(server.get("/api/v1/health").json()["status"], "red");
    // It is alive and ready all the same: starting it again would not help.
    assert_eq!((server.get("/healthz").status, server.get("/readyz").status), (200, 200));
    let (lease, ids) = server.claim("mail", 1);
    assert_eq!(server.until("stalled", "green")["of"], Value::Null, "one is being worked on");
    server.settle(&lease, &ids, &json!({"outcome": "complete"}));
    // The other one still waits, and its worker is gone.
    says(&server.until("stalled", "red"), "red", "mail", "ask for nothing any more");
    let (lease, ids) = server.claim("mail", 1);
    server.settle(&lease, &ids, &json!({"outcome": "complete"}));
    server.until("stalled", "green");
}

/// Nobody heard of it as long as any stage of the queue was worked on.
#[test]
fn a_stage_that_nobody_takes_is_a_stall_while_another_is_worked_on() {
    let data = Data::new("stages");
    let server = start(&data);
    let item = json!({"route": ["fetch", "ocr"]});
    server.enqueue("scans", &json!([item, item]));
    let claim = json!({"queues": ["scans"], "stages": ["fetch"], "worker": "f"});
    let fetch = || server.post("/api/v1/claims", &claim).json();
    let granted = fetch();
    let (lease, id) = (granted["lease"].as_str().unwrap(), &granted["items"][0]["id"]);
    server.settle(lease, &[id.as_str().unwrap().to_owned()], &json!({"outcome": "complete"}));
    assert_eq!(fetch()["items"][0]["stage"], "fetch", "it is being worked on");
    let line = server.until("stalled", "red");
    says(&line, "red", "scans", "work waits in stage ocr");
    says(&line, "red", "scans", "none of them takes this stage");
}

#[test]
fn a_queue_in_which_everything_fails_is_red_until_work_goes_well_again() {
    let data = Data::new("failing");
    let server = start(&data);
    server.enqueue("mail", &Value::Array(vec![json!({}); 5]));
    let (lease, ids) = server.claim("mail", 5);
    server.settle(&lease, &ids[..4], &json!({"outcome": "fail", "error": "no"}));
    server.until("failing", "green");
    server.settle(&lease, &ids[4..], &json!({"outcome": "fail", "error": "no"}));
    says(&server.until("failing", "red"), "red", "mail", "all of 5 attempts");
    server.enqueue("mail", &Value::Array(vec![json!({}); 5]));
    let (lease, ids) = server.claim("mail", 5);
    server.settle(&lease, &ids[..2], &json!({"outcome": "complete"}));
    says(&server.until("failing", "yellow"), "yellow", "mail", "5 of 7 attempts");
    server.settle(&lease, &ids[2..], &json!({"outcome": "complete"}));
    server.until("failing", "green");
}

/// A directory in which a queue waits for a resource that is closed for an hour.
fn with_closed_resource(data: &Data) {
    let disk = RealDisk::open(&data.0).unwrap();
    let running = Embedded::open(Arc::new(disk), Options::default()).unwrap().run().unwrap();
    let clock = SystemClock::new(running.latest());
    let closed_until = Timestamp(clock.now().0 + 3_600_000);
    let engine = Engine::new((*running).clone(), clock, Limits::default(), usize::MAX);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut settings = Settings::default();
        settings.defaults.resource = Some("llm".into());
        engine.configure("mail", settings).await.unwrap();
        engine.submit(Command::Gate { resource: "llm".into(), closed_until }).await.unwrap();
        let body = windrow_core::Body::new("default", "mail");
        engine.enqueue(vec![NewItem::new(body)], None).await.unwrap();
    });
}

#[test]
fn a_closed_resource_is_named_and_its_work_is_held_and_not_stalled() {
    let data = Data::new("closed");
    with_closed_resource(&data);
    let server = start(&data);
    says(&server.until("resource", "yellow"), "yellow", "llm", "closed for another 59 min");
    says(&server.until("held", "yellow"), "yellow", "mail", "closed resource");
    // Held for longer than a stall takes: somebody wants it so.
    server.enqueue("other", &json!({}));
    says(&server.until("stalled", "red"), "red", "other", "no worker");
    assert_eq!(server.health("stalled").len(), 1);
}

#[test]
fn servers_of_one_database_say_who_leads_and_see_what_is_set_aside() {
    let postgres = Postgres::start(Version::V15, Durability::Real).unwrap();
    postgres.create_database("queue").unwrap();
    let url = format!("postgres://postgres@127.0.0.1:{}/queue", postgres.port());
    let flags = ["--store", &url];
    let (a, b) = (Server::start(&flags, &[]), Server::start(&flags, &[]));
    let roles = || {
        let mut roles = [&a, &b].map(|server| {
            let line = server.until("tick", "green");
            line["says"].as_str().unwrap().split(" does").next().unwrap().to_owned()
        });
        roles.sort();
        roles
    };
    while roles() != ["another server", "this server"] {}
    a.enqueue("mail", &json!({}));
    assert_eq!(a.until("quarantined", "green")["of"], Value::Null);
    postgres.psql("queue", "update windrow.items set marks = marks | 4").unwrap();
    let line = b.until("quarantined", "red");
    assert!(line["says"].as_str().unwrap().starts_with("1 item set aside"), "{line}");
    assert_eq!((b.get("/readyz").status, b.get("/healthz").status), (200, 200));
    drop(postgres);
    b.until("store", "red");
    assert_eq!((b.get("/readyz").status, b.get("/healthz").status), (503, 200));
}
