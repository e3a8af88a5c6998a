//! Schedules: an item is enqueued by the clock, once, whoever is there.

use serde_json::{Value, json};
use windrow_testkit::servers::postgres::{Durability, Postgres, Version};

use crate::running::{Data, Server, until};

/// Every second.
fn every_second(queue: &str) -> Value {
    json!({"cron": "* * * * * *", "item": {"queue": queue, "payload": {"n": 1}}})
}

fn pending(server: &Server, queue: &str) -> u64 {
    server.get(&format!("/queue/stats?queue={queue}"))["pending"].as_u64().unwrap()
}

/// The runs whose items exist: each item says by which run it was enqueued.
fn runs(server: &Server, queue: &str, count: u64) -> Vec<String> {
    let claim = json!({"queues": [queue], "worker": "w", "max": count});
    let grant = server.done("POST", "/claims", &claim);
    let items = grant["items"].as_array().unwrap_or_else(|| panic!("{grant}"));
    let of = |item: &Value| {
        let id = item["id"].as_str().unwrap();
        server.get(&format!("/queue/{id}"))["source_info"].as_str().unwrap().to_owned()
    };
    items.iter().map(of).collect()
}

#[test]
fn a_schedule_is_written_shown_run_and_taken_away() {
    let data = Data::new("written");
    let server = Server::start(&data.place());
    let daily = json!({
        "cron": "30 2 * * *", "time_zone": "Europe/Berlin", "overlap": "skip",
        "item": {"queue": "reports", "payload": {"big": 1}},
    });
    let put = server.done("PUT", "/schedules/daily", &daily);
    assert_eq!(put["next_runs"].as_array().unwrap().len(), 5, "{put}");
    assert_eq!((&put["enabled"], &put["missed"]), (&json!(true), &json!("skip")));
    let preview = server.get("/schedules/daily/preview?count=800");
    assert_eq!(preview["next_runs"].as_array().unwrap().len(), 800);
    assert_eq!(preview["next_runs"][0], put["next_runs"][0]);

    let ran = server.done("POST", "/schedules/daily/run", &json!({}));
    assert_eq!(ran["outcome"], "enqueued", "{ran}");
    let again = server.done("POST", "/schedules/daily/run", &json!({}));
    assert_eq!((&again["outcome"], &again["item"]), (&json!("skipped"), &ran["item"]));
    assert_eq!(server.complete("reports"), ran["item"].as_str().unwrap());
    let shown = server.get("/schedules/daily");
    assert_eq!(shown["last_run"]["status"], "completed", "{shown}");
    assert_eq!(shown["next_runs"], put["next_runs"]);
    assert_eq!(server.done("POST", "/schedules/daily/run", &json!({}))["outcome"], "enqueued");

    let tag = format!("if-match: \"{}\"\r\n", put["revision"]);
    let off = json!({"cron": "@daily", "enabled": false, "item": {"queue": "reports"}});
    let (status, now) = server.send("PUT", "/schedules/daily", &tag, &off.to_string());
    assert_eq!((status, &now["next_runs"]), (200, &json!([])), "{now}");
    assert_eq!(server.refused("PUT", "/schedules/daily", &tag, &off), "changed");
    assert_eq!(server.refused("DELETE", "/schedules/daily", &tag, &json!({})), "changed");
    // Tenants have names of their own.
    server.done("PUT", "/schedules/daily?tenant=other", &daily);
    assert_eq!(server.get("/schedules").as_array().unwrap().len(), 2);
    assert_eq!(server.get("/schedules?tenant=other")[0]["cron"], "30 2 * * *");
    server.done("DELETE", "/schedules/daily", &json!({}));
    assert_eq!(server.refused("DELETE", "/schedules/daily", "", &json!({})), "not_found");
    assert_eq!(server.get("/schedules").as_array().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_a_schedule_is_refused() {
    let data = Data::new("refused");
    let server = Server::start(&data.place());
    let item = json!({"queue": "q"});
    for (wrong, code) in [
        (json!({"cron": "0 0 30 2 *", "item": item}), "invalid"),
        (json!({"cron": "61 * * * *", "item": item}), "invalid"),
        (json!({"cron": "@daily", "time_zone": "Mars/Base", "item": item}), "invalid"),
        (json!({"cron": "@daily", "item": {}}), "invalid"),
        (json!({"cron": "@daily", "item": {"queue": "q", "tenant": "x"}}), "invalid"),
        (json!({"cron": "@daily", "item": {"queue": "q", "priority": 99}}), "invalid"),
        (json!({"cron": "@daily", "item": item, "overlap": "maybe"}), "malformed"),
        (json!({"cron": "@daily", "item": item, "zone": "UTC"}), "malformed"),
        (json!({"item": item}), "malformed"),
    ] {
        assert_eq!(server.refused("PUT", "/schedules/s", "", &wrong), code, "{wrong}");
    }
    let good = json!({"cron": "@daily", "item": item});
    assert_eq!(server.refused("PUT", "/schedules/a%20b", "", &good), "invalid");
    assert_eq!(server.refused("PUT", "/schedules/s", "if-match: x\r\n", &good), "malformed");
    assert_eq!(server.refused("GET", "/schedules/s", "", &json!({})), "not_found");
    assert_eq!(server.get("/schedules"), json!([]), "nothing was written");
}

#[test]
fn a_schedule_runs_by_itself_and_goes_on_after_a_kill() {
    let data = Data::new("runs");
    let server = Server::start(&data.place());
    server.done("PUT", "/schedules/tick", &every_second("q"));
    until("two runs", || (pending(&server, "q") >= 2).then_some(()));
    server.kill();
    let server = Server::start(&data.place());
    let before = pending(&server, "q");
    assert!(before >= 2, "nothing was lost");
    until("runs go on", || (pending(&server, "q") >= before + 2).then_some(()));
    server.done("DELETE", "/schedules/tick", &json!({}));
    let count = pending(&server, "q");
    let mut all = runs(&server, "q", count);
    all.sort();
    let unique = all.windows(2).all(|two| two[0] != two[1]);
    assert!(unique, "a run came twice: {all:?}");
}

#[test]
fn a_run_that_replaces_ends_the_one_before() {
    let data = Data::new("replaces");
    let server = Server::start(&data.place());
    let says = json!({"cron": "@yearly", "overlap": "replace", "item": {"queue": "q"}});
    server.done("PUT", "/schedules/s", &says);
    let first = server.done("POST", "/schedules/s/run", &json!({}));
    let asked = "idempotency-key: once\r\n";
    let (_, second) = server.send("POST", "/schedules/s/run", asked, "");
    let (_, again) = server.send("POST", "/schedules/s/run", asked, "");
    assert_eq!(again, second, "a repeat does nothing, not to itself either");
    assert_ne!(first["item"], second["item"]);
    let status = |ran: &Value| {
        let id = ran["item"].as_str().unwrap();
        server.get(&format!("/queue/{id}"))["status"].clone()
    };
    assert_eq!((status(&first), status(&second)), (json!("cancelled"), json!("pending")));
}

#[test]
fn of_two_servers_on_one_database_each_run_comes_once() {
    let database = Postgres::start(Version::V15, Durability::Real).unwrap();
    database.create_database("queue").unwrap();
    let url = format!("postgres://postgres@127.0.0.1:{}/queue", database.port());
    let (a, b) = (Server::start(&["--store", &url]), Server::start(&["--store", &url]));
    b.done("PUT", "/schedules/tick", &every_second("q"));
    until("three runs", || (pending(&a, "q") >= 3).then_some(()));
    // The one that leads goes without a word; the other takes over and misses nothing.
    a.kill();
    let before = pending(&b, "q");
    until("runs go on", || (pending(&b, "q") >= before + 6).then_some(()));
    b.done("DELETE", "/schedules/tick", &json!({}));
    let count = pending(&b, "q");
    let mut all = runs(&b, "q", count);
    all.sort();
    let seconds: Vec<u64> = all.iter().map(|run| second_of(run)).collect();
    let in_a_row = seconds.windows(2).all(|two| (two[0] + 1) % 3_600 == two[1]);
    assert!(in_a_row, "each second comes once: {all:?}");
}

/// The second and minute of "tick at 2026-11-16T08:30:07.000Z", as seconds.
fn second_of(run: &str) -> u64 {
    let time = run.split('T').nth(1).unwrap();
    let part = |at: usize| time[at..at + 2].parse::<u64>().unwrap();
    part(3) * 60 + part(6)
}
