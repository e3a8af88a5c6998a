//! Somebody who is no worker of documents settles what waits in their queue.

use serde_json::{Value, json};

use crate::running::{Data, Server};
use crate::{add, first, get, in_state, until};

/// What is claimed, by whoever names these queues.
fn claim(server: &Server, queues: &Value) -> Value {
    let asked = json!({"queues": queues, "worker": "stranger", "max": 10});
    server.send("POST", "/api/v1/claims", &asked).json()
}

/// Completes one stage after the other of whatever waits, so many times at most.
fn complete(server: &Server, times: usize) {
    for _ in 0..times {
        let granted = claim(server, &json!(["documents"]));
        let Some(lease) = granted["lease"].as_str() else { return };
        let items = granted["items"].as_array().unwrap().iter();
        let items: Vec<Value> =
            items.map(|item| json!({"id": item["id"], "outcome": "complete"})).collect();
        let path = format!("/api/v1/leases/{lease}/settle");
        let settled = server.send("POST", &path, &json!({"items": items}));
        assert_eq!(settled.status, 200, "{}", settled.json());
    }
}

#[test]
fn what_a_stranger_completed_is_read_all_the_same_and_nothing_empty_is_seen() {
    let data = Data::new("documents-stranger");
    let store = data.0.join("store");
    let start = |reads: &str| {
        let flags = ["--data-dir", store.to_str().unwrap()];
        let variables = [("WINDROW_DOCUMENTS__ENABLED", reads)];
        Server::at(&flags, &variables, Data::new("documents-stranger-server"))
    };
    let text = |server: &Server, name: &str, words: &str| {
        add(server, &format!("?name={name}"), "text/plain", words.as_bytes())
    };
    let mut server = start("false");
    let whole = text(&server, "whole.txt", "The lighthouse of Skagen.");
    assert_eq!(claim(&server, &json!([]))["lease"], Value::Null, "nobody gets it unasked");
    complete(&server, 20);
    let item = get(&server, &format!("/queue/{}", whole["item"].as_str().unwrap()));
    assert_eq!(item["status"], "completed", "{item}");
    let begun = text(&server, "begun.txt", "The windmill of Sønderho.");
    complete(&server, 1);
    server.process.kill();
    let server = start("true");
    // Nobody was left to build the one.
    in_state(&server, &whole, "live");
    assert_eq!(first(&server, "lighthouse"), Some(("whole.txt".to_owned(), 1)));
    // Of the other nothing is there to be seen, and that is said; to add it again mends it.
    let shown = in_state(&server, &begun, "failed");
    assert!(shown.to_string().contains("nobody split it into pages"), "{shown}");
    until(&server, "the end of its item", || {
        let item = get(&server, &format!("/queue/{}", begun["item"].as_str().unwrap()));
        (item["status"] == "completed").then_some(())
    });
    text(&server, "begun.txt", "The windmill of Sønderho.");
    in_state(&server, &begun, "live");
    assert_eq!(first(&server, "windmill"), Some(("begun.txt".to_owned(), 1)));
}
