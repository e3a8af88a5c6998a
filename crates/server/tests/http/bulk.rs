//! Bulk work over HTTP: one verb on everything that a filter admits.

use serde_json::{Value, json};

use crate::{Data, Server};

/// Enqueues so many items in one request each thousand.
fn fill(server: &Server, queue: &str, count: usize) {
    for first in (0..count).step_by(1_000) {
        let some: Vec<Value> = (first..count.min(first + 1_000))
            .map(|no| json!({"key": format!("{queue}-{no}"), "payload": no}))
            .collect();
        let reply = server.post(&format!("/api/v1/queues/{queue}/items"), &json!(some));
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
}

/// Fails everything that waits in a queue.
fn fail_all(server: &Server, queue: &str) {
    loop {
        let grant = server.claim(json!({"queues": [queue], "worker": "w", "max": 500}));
        let Some(lease) = grant["lease"].as_str() else { return };
        let failed: Vec<Value> = grant["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| json!({"id": item["id"], "outcome": "fail", "error": "broken"}))
            .collect();
        server.post(&format!("/api/v1/leases/{lease}/settle"), &json!({"items": failed}));
    }
}

fn begin(server: &Server, wanted: &Value) -> String {
    let reply = server.post("/api/v1/operations", wanted);
    assert_eq!(reply.status, 202, "{}", reply.text);
    reply.json()["id"].as_str().unwrap().to_owned()
}

/// Waits until an operation has ended.
fn ended(server: &Server, id: &str) -> Value {
    loop {
        let shown = server.get(&format!("/api/v1/operations/{id}")).json();
        if !["running", "cancelling"].contains(&shown["state"].as_str().unwrap()) {
            return shown;
        }
    }
}

fn done(server: &Server, wanted: &Value) -> Value {
    let shown = ended(server, &begin(server, wanted));
    assert_eq!(shown["state"], "done", "{shown}");
    shown
}

fn figures(shown: &Value) -> [u64; 3] {
    ["matched", "done", "refused"].map(|field| shown[field].as_u64().unwrap())
}

fn stats(server: &Server, status: &str) -> u64 {
    server.get("/api/v1/queue/stats").json()[status].as_u64().unwrap()
}

#[test]
fn everything_that_a_filter_admits_is_retried_prioritised_cancelled_and_deleted() {
    let data = Data::new("bulk");
    let server = Server::start(&data.0);
    fill(&server, "a", 250);
    fill(&server, "b", 30);
    fail_all(&server, "a");
    let failed = json!({"status": "failed"});
    let counted = done(&server, &json!({"verb": "retry", "filter": failed, "dry_run": true}));
    assert_eq!((figures(&counted), stats(&server, "failed")), ([250, 0, 0], 250));
    let retried = done(&server, &json!({"verb": "retry", "filter": failed}));
    assert_eq!((figures(&retried), stats(&server, "pending")), ([250, 250, 0], 280));
    assert!(retried["ended_at"].as_str() >= retried["started_at"].as_str(), "{retried}");

    let raised = json!({"verb": "prioritise", "priority": 9, "filter": "queue:b"});
    assert_eq!(figures(&done(&server, &raised)), [30, 30, 0]);
    let page = server.get("/api/v1/queue?queue=b&limit=200").json();
    assert!(page["items"].as_array().unwrap().iter().all(|item| item["priority"] == 9));

    let cancelled = done(&server, &json!({"verb": "cancel", "filter": {"q": "A-24"}}));
    assert_eq!((figures(&cancelled), stats(&server, "cancelled")), ([11, 11, 0], 11));
    // What still lives cannot be deleted: it is passed over, and refused if it was named.
    for is_counted in [true, false] {
        let live = json!({"verb": "delete", "filter": "status:pending", "dry_run": is_counted});
        let live = done(&server, &live);
        assert_eq!((figures(&live), stats(&server, "pending")), ([269, 0, 269], 269));
        assert_eq!(live["refusals"], json!({"still_live": 269}));
    }
    let all = |dry_run| json!({"verb": "delete", "all": true, "dry_run": dry_run});
    assert_eq!(figures(&done(&server, &all(true))), [11, 0, 0]);
    let deleted = done(&server, &all(false));
    assert_eq!(figures(&deleted), [11, 11, 0]);
    assert_eq!((stats(&server, "cancelled"), stats(&server, "pending")), (0, 269));
    let all = server.get("/api/v1/operations").json();
    assert_eq!(all.as_array().unwrap().len(), 8);
    assert_eq!(all[0]["id"], deleted["id"], "newest first");
}

#[test]
fn without_a_status_a_verb_is_about_what_it_can_be_done_to() {
    let data = Data::new("bulk-able");
    let server = Server::start(&data.0);
    fill(&server, "a", 4);
    fail_all(&server, "a");
    fill(&server, "b", 3);
    let late = json!([{"key": "late", "delay_ms": 3_600_000}]);
    assert_eq!(server.post("/api/v1/queues/b/items", &late).status, 200);
    let grant = server.claim(json!({"queues": ["b"], "worker": "w", "max": 1}));
    let done_one = json!({"items": [{"id": grant["items"][0]["id"], "outcome": "complete"}]});
    let url = format!("/api/v1/leases/{}/settle", grant["lease"].as_str().unwrap());
    assert_eq!(server.post(&url, &done_one).status, 200);
    // Four that failed, two that wait, one that waits for its time, and one that completed.
    for (wanted, count) in [
        (json!({"verb": "cancel"}), 3),
        (json!({"verb": "prioritise", "priority": 3}), 3),
        (json!({"verb": "delete"}), 5),
        (json!({"verb": "retry"}), 5),
        (json!({"verb": "retry", "mode": "clone"}), 5),
        (json!({"verb": "retry", "from_stage": "work"}), 5),
    ] {
        let mut wanted = wanted;
        wanted["all"] = json!(true);
        wanted["dry_run"] = json!(true);
        assert_eq!(figures(&done(&server, &wanted)), [count, 0, 0], "{wanted}");
    }
    // Whose status is named is refused, and counted as that before.
    for (verb, status, refused) in [
        ("cancel", "failed", json!({"already_done": 4})),
        ("retry", "completed", json!({"not_resettable": 1})),
        ("delete", "pending", json!({"still_live": 3})),
        ("retry", "pending", json!({"still_live": 2})),
    ] {
        for is_counted in [true, false] {
            let filter = json!({"status": status});
            let wanted = json!({"verb": verb, "filter": filter, "dry_run": is_counted});
            assert_eq!(done(&server, &wanted)["refusals"], refused, "{wanted}");
        }
    }
}

/// A document of so many pages; its id.
fn split(server: &Server, pages: usize, route: &[&str]) -> String {
    split_item(server, pages, json!({"kind": "document", "route": route}))
}

fn split_item(server: &Server, pages: usize, document: Value) -> String {
    server.enqueue(document);
    let grant = server.claim(json!({"kinds": ["document"], "worker": "w"}));
    let page = |no| json!({"ordinal": no, "kind": "page"});
    let children: Vec<Value> = (0..pages).map(page).collect();
    let id = grant["items"][0]["id"].as_str().unwrap();
    let split = json!({"items": [{"id": id, "outcome": "split", "children": children}]});
    let url = format!("/api/v1/leases/{}/settle", grant["lease"].as_str().unwrap());
    assert_eq!(server.post(&url, &split).json()[0]["ending"], "split");
    id.to_owned()
}

/// Ends so many pages that wait.
fn settle_pages(server: &Server, count: usize, outcome: &Value) {
    let grant = server.claim(json!({"kinds": ["page"], "worker": "w", "max": count}));
    let items = grant["items"].as_array().unwrap();
    assert_eq!(items.len(), count, "{grant}");
    let each = items.iter().map(|item| {
        let mut one = outcome.clone();
        one["id"] = item["id"].clone();
        one
    });
    let url = format!("/api/v1/leases/{}/settle", grant["lease"].as_str().unwrap());
    let ended = json!({"items": each.collect::<Vec<Value>>()});
    assert_eq!(server.post(&url, &ended).status, 200);
}

fn waiting_pages(server: &Server) -> usize {
    let grant = server.claim(json!({"kinds": ["page"], "worker": "w", "max": 1_000}));
    grant["items"].as_array().map_or(0, Vec::len)
}

/// Counts first, then does it; both see the same items, and nothing is refused.
fn done_as_counted(server: &Server, wanted: &Value) -> u64 {
    let mut counted = wanted.clone();
    counted["dry_run"] = json!(true);
    let [counted, ..] = figures(&done(server, &counted));
    let shown = done(server, wanted);
    assert_eq!(figures(&shown)[1..], [counted, 0], "{shown}");
    counted
}

#[test]
fn what_failed_in_trees_is_retried_with_them_and_nothing_is_refused() {
    let fail = json!({"outcome": "fail", "error": "broken"});
    // More than one slice of pages; trees that ended, and one in which some are still to come.
    for (pages, failed) in [(5, 5), (5, 2), (250, 250), (250, 120)] {
        let data = Data::new("bulk-tree");
        let server = Server::start(&data.0);
        split(&server, pages, &["split"]);
        settle_pages(&server, failed, &fail);
        done_as_counted(&server, &json!({"verb": "retry", "all": true}));
        assert_eq!(stats(&server, "failed"), 0, "{failed} of {pages}");
        assert_eq!(waiting_pages(&server), pages, "{failed} of {pages}");
    }
}

#[test]
fn a_tree_is_retried_also_if_only_its_root_is_meant() {
    let data = Data::new("bulk-root");
    let server = Server::start(&data.0);
    for complete in [2, 3] {
        split(&server, 4, &["split"]);
        settle_pages(&server, complete, &json!({"outcome": "complete"}));
        let rest = 4 - complete;
        settle_pages(&server, rest, &json!({"outcome": "fail", "error": "broken"}));
    }
    let documents = json!({"verb": "retry", "filter": "kind:document"});
    assert_eq!(done_as_counted(&server, &documents), 2);
    assert_eq!(waiting_pages(&server), 3);
    // They are under way: there is nothing more to retry.
    assert_eq!(done_as_counted(&server, &documents), 0);
}

/// Cancels everything, and waits until a tree of so many items has ended.
fn cancel_tree(server: &Server, root: &str, items: u64) {
    let all = json!({"verb": "cancel", "all": true});
    assert_eq!(done(server, &all)["refused"], 0);
    let has_ended = || server.get(&format!("/api/v1/queue/{root}")).json()["status"] == "cancelled";
    while !has_ended() || stats(server, "cancelled") < items {
        std::thread::yield_now();
    }
}

/// They were counted as done, though their root stayed as it was.
#[test]
fn what_is_below_a_root_that_does_not_come_back_is_refused_as_it_is() {
    let data = Data::new("bulk-away");
    let server = Server::start(&data.0);
    let document = json!({"kind": "document", "key": "k"});
    let root = split_item(&server, 120, document.clone());
    cancel_tree(&server, &root, 121);
    server.enqueue(document);
    let shown = done(&server, &json!({"verb": "retry", "all": true}));
    assert_eq!(figures(&shown), [121, 0, 121], "{shown}");
    assert_eq!(shown["refusals"], json!({"key_in_use": 121}));
}

/// They were counted as done, though they stay cancelled.
#[test]
fn a_tree_that_begins_again_with_a_stage_leaves_behind_what_was_cancelled_with_it() {
    let data = Data::new("bulk-behind");
    let server = Server::start(&data.0);
    let root = split_item(&server, 3, json!({"kind": "document"}));
    cancel_tree(&server, &root, 4);
    let retry = json!({"verb": "retry", "all": true, "from_stage": "work"});
    assert_eq!(done_as_counted(&server, &retry), 1);
    assert_eq!((stats(&server, "cancelled"), stats(&server, "pending")), (3, 1));
}

#[test]
fn a_tree_that_was_cancelled_comes_back_whole() {
    let data = Data::new("bulk-back");
    let server = Server::start(&data.0);
    let root = split(&server, 120, &["split"]);
    cancel_tree(&server, &root, 121);
    // Its pages alone stay with it.
    let pages = done(&server, &json!({"verb": "retry", "filter": "kind:page", "dry_run": true}));
    assert_eq!(pages["refusals"], json!({"under_cancelled": 120}));
    assert_eq!(done_as_counted(&server, &json!({"verb": "retry", "all": true})), 121);
    assert_eq!(waiting_pages(&server), 120);
}

#[test]
fn a_tree_is_cloned_by_its_root_alone() {
    let data = Data::new("bulk-clone");
    let server = Server::start(&data.0);
    split(&server, 3, &["split"]);
    settle_pages(&server, 2, &json!({"outcome": "fail", "error": "broken"}));
    settle_pages(&server, 1, &json!({"outcome": "complete"}));
    let clone = json!({"verb": "retry", "mode": "clone", "all": true});
    assert_eq!(done_as_counted(&server, &clone), 1);
    assert_eq!((stats(&server, "failed"), stats(&server, "pending")), (2, 1));
    // What never had a stage is not about it.
    let staged = |stage: &str| json!({"verb": "retry", "all": true, "from_stage": stage});
    assert_eq!(done_as_counted(&server, &staged("join")), 0);
    let named = json!({"verb": "retry", "filter": "status:failed", "from_stage": "join"});
    assert_eq!(done(&server, &named)["refusals"], json!({"no_such_stage": 2}));
}

#[test]
fn what_is_below_a_root_is_deleted_with_it_or_refused_as_it_is() {
    let data = Data::new("trees");
    let server = Server::start(&data.0);
    for _ in 0..2 {
        server.enqueue(json!({"kind": "document"}));
        let grant = server.claim(json!({"kinds": ["document"], "worker": "w"}));
        let children = json!([{"ordinal": 0, "kind": "page"}, {"ordinal": 1, "kind": "page"}]);
        let id = &grant["items"][0]["id"];
        let split = json!({"items": [{"id": id, "outcome": "split", "children": children}]});
        let url = format!("/api/v1/leases/{}/settle", grant["lease"].as_str().unwrap());
        assert_eq!(server.post(&url, &split).json()[0]["ending"], "split");
    }
    // Of one tree all has ended, and of the other only one page.
    let pages = server.claim(json!({"kinds": ["page"], "worker": "w", "max": 3}));
    let ended: Vec<Value> = pages["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| json!({"id": item["id"], "outcome": "complete"}))
        .collect();
    let url = format!("/api/v1/leases/{}/settle", pages["lease"].as_str().unwrap());
    assert_eq!(server.post(&url, &json!({"items": ended})).status, 200);
    let pages = done(&server, &json!({"verb": "delete", "filter": "kind:page status:completed"}));
    assert_eq!(figures(&pages), [3, 0, 3]);
    assert_eq!(pages["refusals"], json!({"not_a_root": 3}), "their roots are not asked for");
    let counted = done(&server, &json!({"verb": "delete", "all": true, "dry_run": true}));
    assert_eq!(figures(&counted), [3, 0, 0]);
    let all = done(&server, &json!({"verb": "delete", "all": true}));
    assert_eq!(figures(&all), [3, 3, 0]);
    let left = ["completed", "pending", "processing"].map(|status| stats(&server, status));
    assert_eq!(left, [1, 1, 1]);
}

#[test]
fn a_tree_that_is_cancelled_by_filter_does_not_go_on_to_its_next_stage() {
    let data = Data::new("stops");
    let server = Server::start(&data.0);
    for (queue, filter) in [("a", "queue:a"), ("b", "queue:b status:pending")] {
        let new = json!({"kind": "document", "route": ["split", "join"]});
        server.post(&format!("/api/v1/queues/{queue}/items"), &new);
        let grant = server.claim(json!({"queues": [queue], "worker": "w"}));
        let page = |no| json!({"ordinal": no, "kind": "page"});
        let children: Vec<Value> = (0..250).map(page).collect();
        let id = grant["items"][0]["id"].as_str().unwrap();
        let split = json!({"items": [{"id": id, "outcome": "split", "children": children}]});
        let url = format!("/api/v1/leases/{}/settle", grant["lease"].as_str().unwrap());
        assert_eq!(server.post(&url, &split).json()[0]["ending"], "split");
        let cancelled = done(&server, &json!({"verb": "cancel", "filter": filter}));
        assert_eq!(cancelled["refused"], 0, "{cancelled}");
        // The rest of it ends within a moment.
        let root = loop {
            let root = server.get(&format!("/api/v1/queue/{id}")).json();
            if root["status"] != "pending" && root["status"] != "processing" {
                break root;
            }
        };
        assert_eq!((&root["status"], &root["stage"]), (&json!("cancelled"), &json!("split")));
        let joins = server.claim(json!({"queues": [queue], "stages": ["join"], "worker": "w"}));
        assert_eq!(joins["items"], json!([]));
    }
}

#[test]
fn an_operation_that_makes_no_sense_is_refused() {
    let data = Data::new("bulk-refused");
    let server = Server::start(&data.0);
    for (wanted, status, code, why) in [
        (json!({"verb": "delete"}), 422, "invalid", "says nothing"),
        (json!({"verb": "delete", "filter": {}}), 422, "invalid", "says nothing"),
        (json!({"verb": "explode", "all": true}), 400, "malformed", "`prioritise`"),
        (json!({"verb": "cancel", "filter": {"stauts": "failed"}}), 400, "malformed", "stauts"),
        (json!({"verb": "cancel", "filter": {"status": "odd"}}), 422, "invalid", "no status"),
        (json!({"verb": "cancel", "filter": [1]}), 400, "malformed", "object"),
        (json!({"verb": "prioritise", "all": true}), 422, "invalid", "0 to 10"),
        (json!({"verb": "prioritise", "all": true, "priority": 11}), 422, "invalid", "0 to 10"),
        (json!({"verb": "retry", "all": true, "priority": 1}), 422, "invalid", "only for"),
        (json!({"verb": "cancel", "all": true, "mode": "clone"}), 422, "invalid", "only for"),
    ] {
        let reply = server.post("/api/v1/operations", &wanted);
        assert!(reply.text.contains(why), "{wanted}: {}", reply.text);
        reply.is(status, code);
    }
    let absent = "01a1e54e-ab99-70c0-8368-704973772be1";
    server.get(&format!("/api/v1/operations/{absent}")).is(404, "not_found");
    server.get("/api/v1/operations/7").is(404, "not_found");
    server.post(&format!("/api/v1/operations/{absent}/cancel"), &json!({})).is(404, "not_found");
    assert_eq!(server.get("/api/v1/operations").json(), json!([]));
}

#[test]
fn an_operation_is_begun_once_and_survives_the_death_of_its_server() {
    let data = Data::new("bulk-killed");
    let mut server = Server::start(&data.0);
    fill(&server, "a", 3_000);
    fail_all(&server, "a");
    let wanted = json!({"verb": "retry", "mode": "clone", "filter": {"status": "failed"}});
    let headers = ["content-type: application/json", "idempotency-key: once"];
    let begun = server.send("POST", "/api/v1/operations", &headers, &wanted.to_string());
    assert_eq!(begun.status, 202, "{}", begun.text);
    let id = begun.json()["id"].as_str().unwrap().to_owned();
    // It dies in the middle of it, again and again.
    let (mut before, mut deaths) = (0, 0);
    while deaths < 3 {
        let shown = server.get(&format!("/api/v1/operations/{id}")).json();
        if shown["state"] != "running" {
            break;
        }
        if shown["done"].as_u64().unwrap() > before {
            before = shown["done"].as_u64().unwrap();
            deaths += 1;
            drop(server);
            server = Server::start(&data.0);
        }
    }
    assert!(deaths > 0, "it was too fast to be interrupted");
    let shown = ended(&server, &id);
    assert_eq!((&shown["state"], figures(&shown)), (&json!("done"), [3_000, 3_000, 0]), "{shown}");
    // No item was cloned twice, although some were asked for twice.
    assert_eq!((stats(&server, "pending"), stats(&server, "failed")), (3_000, 3_000));
    let again = server.send("POST", "/api/v1/operations", &headers, &wanted.to_string());
    assert_eq!((again.status, &again.json()["id"]), (202, &json!(id)));
    assert_eq!(again.json()["state"], "done");
    let other = json!({"verb": "cancel", "all": true}).to_string();
    server.send("POST", "/api/v1/operations", &headers, &other).is(409, "request_reused");
}

#[test]
fn an_operation_that_is_cancelled_stops_and_what_it_did_stays_done() {
    let data = Data::new("bulk-stopped");
    let server = Server::start(&data.0);
    fill(&server, "a", 5_000);
    let id = begin(&server, &json!({"verb": "cancel", "filter": {"queue": "a"}}));
    let told = server.post(&format!("/api/v1/operations/{id}/cancel"), &json!({})).json();
    assert_eq!(told["state"], "cancelling", "{told}");
    let shown = ended(&server, &id);
    let [matched, done, refused] = figures(&shown);
    assert_eq!(shown["state"], "cancelled", "{shown}");
    assert!(done < 5_000 && matched == done && refused == 0, "{shown}");
    assert_eq!((stats(&server, "cancelled"), stats(&server, "pending")), (done, 5_000 - done));
    let again = server.post(&format!("/api/v1/operations/{id}/cancel"), &json!({})).json();
    assert_eq!(again["state"], "cancelled");
}

#[test]
fn a_forecast_says_what_the_verb_would_say_and_changes_nothing() {
    let data = Data::new("forecast");
    let server = Server::start(&data.0);
    fill(&server, "q", 1);
    let id = server.get("/api/v1/queue?queue=q").json()["items"][0]["id"].clone();
    let id = id.as_str().unwrap();
    let before = server.get(&format!("/api/v1/queue/{id}")).json()["priority"].clone();
    let forecast = |what: Value| server.post(&format!("/api/v1/queue/{id}/forecast"), &what);
    for verb in ["retry", "delete"] {
        forecast(json!({"verb": verb})).is(409, "still_live");
    }
    for verb in [json!({"verb": "cancel"}), json!({"verb": "prioritise", "priority": 10})] {
        assert_eq!(forecast(verb).status, 200);
    }
    forecast(json!({"verb": "prioritise"})).is(422, "invalid");
    forecast(json!({"verb": "prioritise", "priority": 11})).is(422, "invalid");
    forecast(json!({"verb": "retry", "from_stage": "nosuch"})).is(409, "still_live");
    let shown = server.get(&format!("/api/v1/queue/{id}")).json();
    assert_eq!((&shown["status"], &shown["priority"]), (&json!("pending"), &before), "{shown}");
    // It stood there as if it had been done.
    let audit = server.get("/api/v1/audit").json();
    assert_eq!(audit["entries"], json!([]), "{audit}");
}

#[test]
fn a_forecast_of_a_retry_means_what_the_retry_does() {
    let data = Data::new("forecast-mode");
    let server = Server::start(&data.0);
    fill(&server, "q", 1);
    let id = server.get("/api/v1/queue?queue=q").json()["items"][0]["id"].clone();
    let id = id.as_str().unwrap();
    let claimed = server.claim(json!({"queues": ["q"], "worker": "w"}));
    let settle = json!({"items": [{"id": id, "outcome": "complete"}]});
    let lease = claimed["lease"].as_str().unwrap();
    assert_eq!(server.post(&format!("/api/v1/leases/{lease}/settle"), &settle).status, 200);
    let forecast = |what: Value| server.post(&format!("/api/v1/queue/{id}/forecast"), &what);
    forecast(json!({"verb": "retry", "mode": "reset"})).is(409, "not_resettable");
    assert_eq!(forecast(json!({"verb": "retry"})).status, 200);
    let retried = server.post(&format!("/api/v1/queue/{id}/retry"), &json!({})).json();
    assert_eq!(retried["cloned"], json!(true), "{retried}");
}
