//! Hostile and mistaken HTTP: every class of the table, in thousands of seeded variants, sent byte
//! by byte to the real binary. None is answered with an error of ours, none hangs or ends the
//! server, each is refused with the problem that the table names, and nothing that it asked for
//! has happened.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "../running/mod.rs"]
mod running;
mod table;

use std::path::Path;

use serde_json::{Value, json};

use running::{Reply, Server, exchange};
use table::{Bed, Class, Draw, Wants, all};

/// Variants of each class.
const VARIANTS: u64 = 14;

fn bed(server: &Server) -> Bed {
    let enqueue = |queue: &str| {
        let reply = server.send("POST", &format!("/api/v1/queues/{queue}/items"), &json!({}));
        assert_eq!(reply.status, 201);
        reply.json()["id"].as_str().unwrap().to_owned()
    };
    let claim = |queue: &str| {
        let claim = json!({"queues": [queue], "worker": "w", "lease_ms": 43_200_000});
        let reply = server.send("POST", "/api/v1/claims", &claim).json();
        reply["lease"].as_str().unwrap().to_owned()
    };
    let (waiting, held, failed) = (enqueue("waiting"), enqueue("held"), enqueue("failed"));
    let (lease, other) = (claim("held"), claim("failed"));
    let fail = json!({"items": [{"id": failed, "outcome": "fail", "error": "e"}]});
    assert_eq!(server.send("POST", &format!("/api/v1/leases/{other}/settle"), &fail).status, 200);
    Bed { host: server.address.clone(), waiting, held, lease, failed }
}

/// Whatever a refused request must not have changed.
fn state(server: &Server, bed: &Bed) -> (Value, Vec<Value>) {
    let items = [&bed.waiting, &bed.held, &bed.failed];
    let items = items.map(|id| server.get(&format!("/api/v1/queue/{id}")).json());
    (server.get("/api/v1/queue/stats").json(), items.into())
}

/// Why an answer is not what the table wants; nothing if it is.
fn wrong(class: &Class, replies: &[Reply]) -> Option<String> {
    let found = replies.iter().find_map(not_ours);
    if found.is_some() {
        return found;
    }
    let Some(last) = replies.last() else {
        return (class.wants != Wants::Nothing).then(|| "no answer".to_owned());
    };
    let (body, text) = (last.json(), String::from_utf8_lossy(&last.body));
    let said = format!("{} {text}", last.status);
    let is_as_wanted = match class.wants {
        Wants::Problem(status, code) => last.status == status && body["code"] == code,
        Wants::Each(code) => last.status == 200 && each_refused(&body, code),
        Wants::Accepted(status, _) => last.status == status,
        Wants::Nothing => last.status == 400,
    };
    (!is_as_wanted || !details(&body).all(|detail| detail.contains(class.says))).then_some(said)
}

/// What is said of a problem, or of each entry that was refused.
fn details(body: &Value) -> impl Iterator<Item = &str> {
    let each = body.as_array().map_or(std::slice::from_ref(body), Vec::as_slice);
    each.iter().filter_map(|entry| entry["detail"].as_str())
}

fn each_refused(body: &Value, code: &str) -> bool {
    let refused = |(at, entry): (usize, &Value)| entry["error"] == code && entry["index"] == at;
    body.as_array().is_some_and(|each| !each.is_empty() && each.iter().enumerate().all(refused))
}

/// What is wrong with any answer, whatever it answers.
fn not_ours(reply: &Reply) -> Option<String> {
    let text = String::from_utf8_lossy(&reply.body);
    let said = |what: &str| Some(format!("{what}: {} {} {text}", reply.status, reply.head));
    if reply.status >= 500 {
        return said("an error of the server");
    }
    if reply.status < 400 {
        return None;
    }
    let problem = reply.json();
    if reply.header("content-type") != Some("application/problem+json") {
        return said("not a problem");
    }
    if problem["status"] != reply.status || problem["detail"].as_str().is_none_or(str::is_empty) {
        return said("half a problem");
    }
    let page = problem["type"].as_str().unwrap_or("nothing");
    if !Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(page.trim_start_matches('/'))
        .is_file()
    {
        return said("a problem without a page");
    }
    match reply.status {
        405 if reply.header("allow").is_none_or(str::is_empty) => said("no Allow"),
        429 if reply.header("retry-after").is_none() => said("no Retry-After"),
        _ => None,
    }
}

#[test]
fn every_class_is_refused_as_the_table_says_and_nothing_happens() {
    let mut server = Server::start("malformed");
    let bed = bed(&server);
    let (mut failures, mut sent) = (Vec::new(), 0);
    for (at, class) in all().enumerate() {
        let before = state(&server, &bed);
        for variant in 0..VARIANTS {
            let seed = (at as u64) << 32 | variant;
            let bytes = (class.make)(&Draw::new(seed, &bed));
            let replies = exchange(&server.address, &bytes, class.wants == Wants::Nothing);
            sent += 1;
            if let Some(what) = wrong(class, &replies) {
                let start = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
                failures.push(format!("{} ({variant}): {what}\n    of {start:?}", class.name));
            }
        }
        assert!(server.is_running(), "{}: the server is gone", class.name);
        let mut after = state(&server, &bed);
        if let Wants::Accepted(_, adds) = class.wants {
            let added =
                after.0["pending"].as_u64().unwrap() - before.0["pending"].as_u64().unwrap();
            assert_eq!(added, adds * VARIANTS, "{}", class.name);
            after.0 = before.0.clone();
        }
        if after != before {
            failures.push(format!("{}: something happened: {after:?}", class.name));
        }
        let claim = json!({"queues": ["none"], "worker": "w"});
        assert_eq!(server.send("POST", "/api/v1/claims", &claim).status, 200, "{}", class.name);
    }
    assert!(failures.is_empty(), "{} of {sent}:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_table_is_as_large_as_we_say_and_no_class_is_there_twice() {
    let mut names: Vec<&str> = all().map(|class| class.name).collect();
    assert!(names.len() >= 60 && names.len() as u64 * VARIANTS >= 2_000, "{}", names.len());
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all().count());
}

#[test]
fn a_class_draws_the_same_bytes_from_the_same_seed() {
    let text = |text: &str| text.to_owned();
    let bed = Bed {
        host: text("localhost"),
        waiting: text("1"),
        held: text("2"),
        lease: text("3"),
        failed: text("4"),
    };
    for class in all() {
        let made = || (class.make)(&Draw::new(7, &bed));
        assert_eq!(made(), made(), "{}", class.name);
    }
}

/// The checker must notice each of these, or it proves nothing.
#[test]
fn an_answer_that_is_not_as_the_table_says_is_noticed() {
    let class = |wants| table::class("x", wants, "detail", |_| Vec::new());
    let wants = Wants::Problem(400, "malformed");
    let reply = |status: u16, kind: &str, body: Value| Reply {
        status,
        head: format!("content-type: {kind}"),
        body: body.to_string().into_bytes(),
    };
    let problem = "application/problem+json";
    let page = "/docs/errors/malformed.md";
    let good = json!({"status": 400, "code": "malformed", "detail": "detail", "type": page});
    assert_eq!(wrong(&class(wants), &[reply(400, problem, good.clone())]), None);
    let but = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        [reply(400, problem, body)]
    };
    let plain = |status: u16| [reply(status, problem, json!({"detail": "detail"}))];
    for (what, replies) in [
        ("an error of ours", plain(500)),
        ("taken for good", plain(200)),
        ("another type", [reply(400, "text/plain", good.clone())]),
        ("another code", but("code", json!("invalid"))),
        ("another status in the body", but("status", json!(422))),
        ("a page that is not there", but("type", json!("/docs/errors/none.md"))),
        ("no detail", but("detail", json!(""))),
        ("a detail that does not help", but("detail", json!("wrong"))),
    ] {
        assert!(wrong(&class(wants), &replies).is_some(), "{what} went unnoticed");
    }
    assert!(wrong(&class(wants), &[]).is_some(), "no answer went unnoticed");
    let each = |entry: Value| [reply(200, "application/json", json!([entry]))];
    let refused = json!({"error": "invalid", "index": 0, "detail": "detail"});
    assert_eq!(wrong(&class(Wants::Each("invalid")), &each(refused)), None);
    let done = json!({"ending": "completed", "detail": ""});
    assert!(wrong(&class(Wants::Each("invalid")), &each(done)).is_some());
}
