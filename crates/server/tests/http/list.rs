//! Lists over HTTP: items by filter and text, and queues.

use serde_json::{Value, json};

use crate::{Data, Server};

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

/// Everything that a question finds, page by page.
fn walk(server: &Server, question: &str) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/api/v1/queue?{question}&cursor={cursor}")).json();
        all.extend(ids(&page).into_iter().map(str::to_owned));
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => return all,
        }
    }
}

#[test]
fn items_are_listed_by_filter_page_by_page_without_their_bodies() {
    let data = Data::new("list");
    let server = Server::start(&data.0);
    let empty = server.get("/api/v1/queue").json();
    assert_eq!(empty, json!({"items": [], "next": null, "partial": false}));
    let mut made: Vec<String> = (0..7)
        .map(|no| server.enqueue(json!({"payload": {"secret": no}, "key": format!("k{no}")})))
        .collect();
    made.reverse();
    let page = server.get("/api/v1/queue?limit=3").json();
    assert_eq!(
        (ids(&page), &page["partial"]),
        (made[..3].iter().map(|id| &**id).collect(), &json!(false))
    );
    assert_eq!(page["next"], json!(made[2]));
    assert!(!page.to_string().contains("secret"), "bodies are left out");
    assert_eq!(walk(&server, "limit=3"), made);
    let last = server.get(&format!("/api/v1/queue?limit=3&cursor={}", made[3])).json();
    assert_eq!((ids(&last).len(), &last["next"]), (3, &Value::Null), "it ends with its last item");
    // The other address, the seeds' words, and a tenant by its other name.
    assert_eq!(
        server.get("/api/queue?status=QUEUED,done").json()["items"].as_array().unwrap().len(),
        7
    );
    assert_eq!(walk(&server, "user_id=default&queue=q&stage=work&kind=item"), made);
    for nothing in ["status=failed", "queue=z", "tenant=z", "kind=z", "collection=z", "branch=z"] {
        assert_eq!(walk(&server, nothing), [""; 0], "{nothing}");
    }
}

#[test]
fn a_filter_can_be_one_text_and_its_faults_are_named_without_repeating_them() {
    let data = Data::new("filter");
    let server = Server::start(&data.0);
    let id = server.enqueue(json!({"key": "no space", "kind": "page", "tenant": "my tenant"}));
    server.enqueue(json!({"key": "other"}));
    for text in ["kind:page", "status:pending,failed%20no%20space", "tenant:%22my%20tenant%22"] {
        assert_eq!(walk(&server, &format!("filter={text}")), [id.as_str()], "{text}");
    }
    assert_eq!(walk(&server, "filter=").len(), 2);
    for (question, why) in [
        ("filter=quuee:secret", "filter: word 1: "),
        ("filter=kind:page&queue=q", "leave the other fields out"),
        ("filter=status:secret", "it is no status"),
    ] {
        let reply = server.get(&format!("/api/v1/queue?{question}"));
        assert_eq!(reply.status, 422, "{}", reply.text);
        assert!(reply.text.contains(why) && !reply.text.contains("secret"), "{}", reply.text);
    }
}

#[test]
fn a_row_shows_what_became_of_an_item_and_a_text_finds_it() {
    let data = Data::new("row");
    let server = Server::start(&data.0);
    let id = server.enqueue(json!({"key": "Order 7", "source_type": "email",
        "source_info": "ann@mail.example", "collection": "c", "branch": "b", "kind": "mail"}));
    let other = server.enqueue(json!({}));
    let grant = server.claim(json!({"worker": "w"}));
    let lease = grant["lease"].as_str().unwrap();
    let progress = json!({"items": [{"id": id, "current": 1, "total": 4, "message": "reading"}]});
    server.post(&format!("/api/v1/leases/{lease}/progress"), &progress);
    let row = &server.get("/api/v1/queue?status=processing").json()["items"][0];
    assert_eq!((&row["progress"]["total"], &row["lease"]), (&json!(4), &json!(lease)), "{row}");
    let fail = json!({"items": [{"id": id, "outcome": "fail", "error": "The disk is full"}]});
    server.post(&format!("/api/v1/leases/{lease}/settle"), &fail);
    for question in [
        "status=failed",
        "q=order%207",
        "q=MAIL",
        "q=ann@",
        "q=disk+is+FULL",
        "collection=c",
        "branch=b&q=order",
        "source_type=email",
        &format!("q={}", &id),
        &format!("q={}", &id[..23]),
    ] {
        let page = server.get(&format!("/api/v1/queue?{question}")).json();
        assert_eq!(ids(&page), [&*id], "{question}");
    }
    let row = &server.get("/api/v1/queue?status=failed").json()["items"][0];
    assert_eq!(row["error"]["message"], "The disk is full");
    assert_eq!(
        (&row["attempts"], &row["level"], &row["key"]),
        (&json!(1), &json!(0), &json!("Order 7"))
    );
    assert!(row["updated_at"].as_str() >= row["created_at"].as_str(), "{row}");
    assert_eq!(row["finished_at"], row["updated_at"]);
    // A whole id with a status that it has not.
    assert_eq!(walk(&server, &format!("status=failed&q={other}")), [""; 0]);
}

#[test]
fn questions_that_cannot_be_answered_are_refused_and_say_why() {
    let data = Data::new("ask");
    let server = Server::start(&data.0);
    for (question, status, code, why) in [
        ("stauts=failed", 400, "malformed", "`status` is meant, perhaps"),
        ("colour=red", 400, "malformed", "unknown field `colour`"),
        ("cursor=nonsense", 422, "invalid", "take `next` of the page before"),
        ("limit=many", 400, "malformed", "limit"),
        ("limit=0", 422, "invalid", "between 1 and 200"),
        ("limit=201", 422, "invalid", "between 1 and 200"),
        ("queue=a&queue=b", 400, "malformed", "duplicate field"),
        ("status=broken", 422, "invalid", "is no status; the statuses are"),
        ("q=%00", 422, "invalid", "NUL"),
        ("queue=%00", 422, "invalid", "NUL"),
        (&format!("q={}", "x".repeat(1_025)), 422, "invalid", "at most 1024"),
    ] {
        let reply = server.get(&format!("/api/v1/queue?{question}"));
        assert!(reply.text.contains(why), "{question}: {}", reply.text);
        reply.is(status, code);
    }
    for question in ["limit=1", "limit=200", "q=", "status=&queue=&cursor=", "q=%25_%27%22"] {
        assert_eq!(server.get(&format!("/api/v1/queue?{question}")).status, 200, "{question}");
    }
}

#[test]
fn queues_are_shown_with_counts_settings_and_pauses() {
    let data = Data::new("queues");
    let server = Server::start(&data.0);
    assert_eq!(server.get("/api/v1/queues").json(), json!([]));
    let plain = server.get("/api/v1/queues/q/settings").json();
    assert_eq!((&plain["max_attempts"], &plain["lease_ms"]), (&json!(3), &json!(300_000)));
    server.enqueue(json!({}));
    let set = json!({"max_attempts": 9, "retention": {"max_age_ms": 5}}).to_string();
    assert_eq!(server.send("PUT", "/api/v1/queues/set/settings", &[], &set).status, 200);
    let settings = server.get("/api/v1/queues/set/settings").json();
    assert_eq!(
        (&settings["max_attempts"], &settings["retention"]["max_age_ms"]),
        (&json!(9), &json!(5))
    );
    server.post("/api/v1/queues/still/pause", &json!({"stage": "work"}));
    let queues = server.get("/api/v1/queues").json();
    let names: Vec<&str> =
        queues.as_array().unwrap().iter().map(|one| one["queue"].as_str().unwrap()).collect();
    assert_eq!(names, ["q", "set", "still"]);
    assert_eq!((&queues[0]["queued"], &queues[0]["settings"]), (&json!(1), &plain));
    assert_eq!((&queues[1]["settings"], &queues[1]["pending"]), (&settings, &json!(0)));
    assert_eq!(queues[2]["paused"], json!([{"stage": "work", "tenant": null}]));
    // What is shown can be sent back.
    let again = server.send("PUT", "/api/v1/queues/set/settings", &[], &settings.to_string());
    assert_eq!(again.status, 200, "{}", again.text);
    assert_eq!(server.get("/api/v1/queues/set/settings").json(), settings);
    assert_eq!(server.get("/api/v1/queue/stats").json()["queued"], 1);
}
