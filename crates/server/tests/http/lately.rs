//! What happened lately, over HTTP: minute by minute, and what failed alike.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Data, Server};

/// Takes one item, and says how it ended.
fn work(server: &Server, outcome: Value) -> String {
    let grant = server.claim(json!({"worker": "w"}));
    let id = grant["items"][0]["id"].as_str().unwrap();
    let mut settle = outcome;
    settle["id"] = json!(id);
    let url = format!("/api/v1/leases/{}/settle", grant["lease"].as_str().unwrap());
    let settled = server.post(&url, &json!({"items": [settle]}));
    assert_eq!(settled.status, 200, "{}", settled.text);
    id.to_owned()
}

fn fail(server: &Server, error: &str) -> String {
    work(server, json!({"outcome": "fail", "error": error}))
}

fn sum(line: &Value) -> u64 {
    line.as_array().unwrap().iter().map(|value| value.as_u64().unwrap_or(0)).sum()
}

/// The flow, once it is so far: what happened is counted beside the answer, and not before it.
fn flow_once(server: &Server, is_so_far: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let flow = server.get("/api/v1/flow").json();
        if is_so_far(&flow["all"]) || Instant::now() > deadline {
            return flow;
        }
    }
}

#[test]
fn the_flow_of_the_last_hour_is_told_by_minute_queue_and_stage() {
    let data = Data::new("flow");
    let server = Server::start(&data.0);
    let empty = server.get("/api/v1/flow").json();
    assert_eq!((&empty["minutes"], &empty["queues"]), (&json!(60), &json!([])));
    assert_eq!(empty["at"].as_array().unwrap().len(), 60);
    assert_eq!(empty["all"]["wait_ms"], json!(vec![Value::Null; 60]));

    server.enqueue(json!({"route": ["read", "write"]}));
    server.enqueue(json!({"route": ["read", "write"]}));
    work(&server, json!({"outcome": "complete"}));
    fail(&server, "no space");
    fail(&server, "no space");
    let flow = flow_once(&server, |all| sum(&all["failed"]) == 2);
    let queue = &flow["queues"][0];
    assert_eq!((&queue["queue"], flow["queues"].as_array().unwrap().len()), (&json!("q"), 1));
    for (line, count) in [("enqueued", 2), ("claimed", 3), ("went_well", 1), ("failed", 2)] {
        assert_eq!(queue[line].as_array().unwrap().len(), 60, "{line}");
        assert_eq!((sum(&queue[line]), sum(&flow["all"][line])), (count, count), "{line}");
    }
    let last = |line: &Value| line[59].as_u64().or(line[58].as_u64());
    assert!(last(&queue["wait_ms"]).is_some() && last(&queue["run_ms"]).is_some(), "{queue}");
    let stages = queue["stages"].as_array().unwrap();
    let shown: Vec<_> = stages
        .iter()
        .map(|of| (of["stage"].as_str().unwrap(), sum(&of["went_well"]), sum(&of["failed"])))
        .collect();
    // Whichever was first in line after the first had moved on.
    assert_eq!(shown.iter().map(|(_, well, _)| well).sum::<u64>(), 1, "{shown:?}");
    assert_eq!(shown.iter().map(|(_, _, failed)| failed).sum::<u64>(), 2, "{shown:?}");
    assert_eq!((shown[0].0, shown[0].1), ("read", 1), "it is counted where it was done");
    let at: Vec<&str> = flow["at"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(at.is_sorted() && at.iter().all(|at| at.contains(":00")), "{at:?}");
}

#[test]
fn stages_say_what_waits_and_runs_in_them_and_who_takes_it() {
    let data = Data::new("stages");
    let server = Server::start(&data.0);
    assert_eq!(server.get("/api/v1/stages").json(), json!([]));
    for _ in 0..3 {
        server.enqueue(json!({"route": ["read", "write"]}));
    }
    server.claim(json!({"worker": "w", "stages": ["read"]}));
    let stages = server.get("/api/v1/stages?queue=q").json();
    let stage = &stages[0];
    assert_eq!((&stage["queue"], &stage["stage"]), (&json!("q"), &json!("read")), "{stages}");
    let counts = ["waiting", "running", "workers"].map(|field| stage[field].as_u64().unwrap());
    assert_eq!((counts, &stage["capped"]), ([2, 1, 1], &json!(false)));
    assert!(stage["waiting_since"].is_string(), "{stage}");
    assert_eq!(server.get("/api/v1/stages?queue=other").json(), json!([]));
}

#[test]
fn what_failed_alike_is_one_group_with_a_filter_that_finds_it() {
    let data = Data::new("failures");
    let server = Server::start(&data.0);
    let none = server.get("/api/v1/failures").json();
    assert_eq!(none, json!({"groups": [], "looked_at": 0, "partial": false}));
    for _ in 0..4 {
        server.enqueue(json!({"kind": "a \"b\": c"}));
    }
    let mut alike = vec![
        fail(&server, "cannot open '/in/1.pdf': it is \"locked\" since 12:00"),
        fail(&server, "cannot open '/in/my 2.pdf': it is \"gone\" since 7:30"),
    ];
    fail(&server, "no space");
    work(&server, json!({"outcome": "complete"}));
    let told = server.get("/api/v1/failures").json();
    assert_eq!((&told["looked_at"], &told["partial"]), (&json!(3), &json!(false)));
    let groups = told["groups"].as_array().unwrap();
    assert_eq!(groups.iter().map(|of| of["items"].clone()).collect::<Vec<_>>(), [2, 1]);
    let group = &groups[0];
    let names = ["queue", "stage", "kind", "code"].map(|name| group[name].as_str().unwrap());
    assert_eq!(names, ["q", "work", "a \"b\": c", "other"]);
    assert!(group["says"].as_str().unwrap().contains("my 2.pdf"), "the newest: {group}");
    assert_eq!(group["example"], json!(alike[1]));
    assert!(group["first_at"].as_str() <= group["last_at"].as_str(), "{group}");
    // The filter, in an address.
    let filter: String =
        group["filter"].as_str().unwrap().bytes().map(|byte| format!("%{byte:02x}")).collect();
    let found = server.get(&format!("/api/v1/queue?filter={filter}")).json();
    let mut found: Vec<_> = found["items"].as_array().unwrap().iter().collect();
    found.sort_by_key(|item| item["id"].as_str());
    alike.sort();
    assert_eq!(found.iter().map(|item| item["id"].clone()).collect::<Vec<_>>(), alike);
    assert_eq!(server.get("/api/v1/failures?queue=other").json()["looked_at"], 0);
    server.get("/api/v1/failures?quuee=q").is(400, "malformed");
}
