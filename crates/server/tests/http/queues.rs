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
