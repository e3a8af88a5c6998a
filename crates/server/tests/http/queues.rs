//! What is said of queues and resources, and what is answered.

use super::*;

const SETTINGS: &str = "/api/v1/queues/q/settings";

fn put(server: &Server, settings: Value) -> u16 {
    let json = ["content-type: application/json"];
    server.send("PUT", SETTINGS, &json, &settings.to_string()).status
}

#[test]
fn settings_show_what_is_in_force_and_keep_what_the_server_was_told() {
    let data = Data::new("settings");
    let told = [("WINDROW_QUEUE__MAX_ATTEMPTS", "7"), ("WINDROW_QUEUE__PAGE_LEASE_S", "90")];
    let server = Server::start_with(&data.0, &told);
    let seen = || server.get(SETTINGS).json();
    let of_pages = |settings: &Value| {
        let kinds = settings["kinds"].as_array().unwrap().iter();
        let page = kinds.clone().find(|of| of["kind"] == "page");
        page.map(|of| of["lease_ms"].as_u64().unwrap())
    };
    assert_eq!((&seen()["max_attempts"], of_pages(&seen())), (&json!(7), Some(90_000)));
    // What is left out is as the server was told, and once not at all.
    assert_eq!(put(&server, json!({"lease_ms": 9_000})), 200);
    assert_eq!((&seen()["max_attempts"], &seen()["lease_ms"]), (&json!(7), &json!(9_000)));
    assert_eq!(of_pages(&seen()), Some(90_000));
    assert_eq!(put(&server, json!({"max_attempts": 2, "kinds": []})), 200);
    assert_eq!((&seen()["max_attempts"], of_pages(&seen())), (&json!(2), Some(120_000)));
    // What is shown can be sent back.
    let shown = seen();
    assert_eq!(put(&server, shown.clone()), 200);
    assert_eq!(seen(), shown);
    // The pages' lease that is shown is the one that is granted.
    server.enqueue(json!({"kind": "page"}));
    let grant = server.claim(json!({"queues": ["q"], "worker": "w"}));
    let work = server.get("/api/v1/queue?queue=q").json()["items"][0].clone();
    let lasts = ms(&grant["expires_at"]) - ms(&work["updated_at"]);
    assert_eq!(lasts, 120_000, "{grant} {work}");

    let reset = server.send("DELETE", SETTINGS, &[], "");
    assert_eq!((reset.status, &reset.json()["max_attempts"]), (200, &json!(7)), "{}", reset.text);
    assert_eq!((seen(), of_pages(&seen())), (reset.json(), Some(90_000)));
}

/// The milliseconds of a time within its day.
fn ms(time: &Value) -> i64 {
    let clock = time.as_str().unwrap().split('T').nth(1).unwrap().trim_end_matches('Z');
    let parts: Vec<f64> = clock.split(':').map(|part| part.parse().unwrap()).collect();
    ((parts[0] * 3_600.0 + parts[1] * 60.0 + parts[2]) * 1_000.0).round() as i64
}

#[test]
fn whoever_pauses_or_resumes_is_told_what_is_paused_still() {
    let data = Data::new("paused");
    let server = Server::start(&data.0);
    server.enqueue(json!({}));
    let ask = |verb: &str, scope: Value| {
        let reply = server.post(&format!("/api/v1/queues/q/{verb}"), &scope);
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()["paused"].clone()
    };
    let (stage, tenant) = (json!({"stage": "work"}), json!({"tenant": "acme"}));
    let whole = json!({"stage": null, "tenant": null});
    let of_stage = json!({"stage": "work", "tenant": null});
    let of_tenant = json!({"stage": null, "tenant": "acme"});
    assert_eq!(ask("pause", stage.clone()), json!([of_stage]));
    ask("pause", json!({}));
    let all = ask("pause", tenant.clone());
    assert_eq!(all.as_array().unwrap().len(), 3, "{all}");
    assert!(all.as_array().unwrap().contains(&whole), "{all}");
    // Once the whole queue is resumed, parts of it still are not.
    let left = ask("resume", json!({}));
    assert_eq!(left.as_array().unwrap().len(), 2, "{left}");
    assert_eq!(ask("resume", stage), json!([of_tenant]));
    assert_eq!(ask("resume", tenant), json!([]));
}

#[test]
fn a_resource_that_is_closed_for_ever_shows_no_time() {
    let data = Data::new("for-ever");
    let server = Server::start(&data.0);
    let closed = || server.get("/api/v1/resources/llm").json();
    assert_eq!(server.post("/api/v1/resources/llm/close", &json!({})).status, 200);
    let shown = closed();
    assert_eq!((&shown["state"], &shown["closed_until"]), (&json!("closed"), &Value::Null));
    assert_eq!(shown["unblocked_by"], "POST …/open");
    assert_eq!(put(&server, json!({"resource": "llm"})), 200);
    let id = server.enqueue(json!({}));
    let why = server.get(&format!("/api/v1/queue/{id}/explain")).text;
    assert!(why.contains("somebody opening its resource"), "{why}");
    server.post("/api/v1/resources/llm/close", &json!({"for_ms": 60_000}));
    assert!(closed()["closed_until"].is_string(), "{}", closed());
    server.post("/api/v1/resources/llm/open", &json!({}));
    assert_eq!((&closed()["state"], &closed()["closed_until"]), (&json!("open"), &Value::Null));
}

#[test]
fn small_answers_say_what_is_so() {
    let data = Data::new("small");
    let server = Server::start(&data.0);
    // A worker that does not say who it is.
    let id = server.enqueue(json!({}));
    let grant = server.claim(json!({"queues": ["q"]}));
    assert_eq!(server.get(&format!("/api/v1/queue/{id}")).json()["worker"], "unnamed");
    let lease = grant["lease"].as_str().unwrap();
    let fail = json!({"items": [{"id": id, "outcome": "fail", "error": "no"}]});
    server.post(&format!("/api/v1/leases/{lease}/settle"), &fail);
    // A clone resets nothing.
    let retry = format!("/api/v1/queue/{id}/retry");
    let clone = server.post(&retry, &json!({})).json();
    assert_eq!((&clone["cloned"], &clone["reset"]), (&json!(true), &json!(0)));
    assert_ne!(clone["id"], json!(id));
    let reset = server.post(&retry, &json!({"mode": "reset"})).json();
    assert_eq!((&reset["cloned"], &reset["reset"]), (&json!(false), &json!(1)));
    assert_eq!(reset["id"], json!(id));
    // A child knows its number.
    let (stage, kind) = (json!(["cut", "join"]), "document");
    let whole = server.enqueue(json!({"route": stage, "kind": kind}));
    let grant = server.claim(json!({"queues": ["q"], "kinds": [kind], "worker": "w"}));
    let lease = grant["lease"].as_str().unwrap();
    let children = json!([{"ordinal": 7, "kind": "page"}]);
    let split = json!({"items": [{"id": whole, "outcome": "split", "children": children}]});
    server.post(&format!("/api/v1/leases/{lease}/settle"), &split);
    let page = server.claim(json!({"queues": ["q"], "kinds": ["page"], "worker": "w"}));
    let page = &page["items"][0];
    assert_eq!((&page["parent"], &page["ordinal"]), (&json!(whole), &json!(7)), "{page}");
    // A line is named once, by its number in the body.
    let lines = "{}\n{}\n\n{\"key\":7}\n";
    let headers = ["content-type: application/x-ndjson"];
    let refused = server.send("POST", "/api/v1/queues/q/items", &headers, lines);
    refused.is(400, "malformed");
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("line 4: key: ") && !detail.contains("line 1"), "{detail}");
    assert!(detail.contains("at column 8"), "{detail}");
}
