//! Blobs over HTTP, on both stores: uploaded in pieces, read in ranges, and gone with the last item
//! that refers to them.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod server;

use std::io::Write as _;
use std::time::Duration;

use serde_json::json;
use windrow_testkit::servers::postgres::{Durability, Postgres, Version};
use windrow_testkit::servers::process::until;

use server::{Data, Reply, Server, bytes, sha256, windrow};

const PATIENCE: Duration = Duration::from_secs(60);

fn database() -> (Postgres, [String; 2]) {
    let server = Postgres::start(Version::V15, Durability::Real).unwrap();
    server.create_database("queue").unwrap();
    let place = ["--store".into(), server.url("queue")];
    (server, place)
}

/// Runs a test on a directory and on a database.
fn on_both(test: &str, check: impl Fn(&[String])) {
    let data = Data::new(test);
    check(&data.place().map(str::to_owned));
    let (_running, place) = database();
    check(&place);
}

#[test]
fn a_blob_is_uploaded_in_pieces_and_read_in_ranges() {
    on_both("pieces", |place| {
        let server = Server::start(place);
        let all = bytes(700_000);
        let hash = sha256(&all);
        let upload = server.begin(all.len(), Some(&hash));
        let reply = server.patch(&upload, 0, &all[..100_000]);
        assert_eq!((reply.status, &reply.json()["offset"]), (200, &json!(100_000)));
        assert_eq!(reply.header("upload-offset").as_deref(), Some("100000"));
        // Bytes that are here already, or come too early, change nothing.
        server.patch(&upload, 0, &all[..10]).is(409, "offset_mismatch");
        server.patch(&upload, 100_001, &all[..10]).is(409, "offset_mismatch");
        server.send("PATCH", &upload, &[], &all[..10]).is(400, "malformed");
        server.patch(&upload, 100_000, &bytes(600_001)).is(413, "too_large");
        let head = server.send("HEAD", &upload, &[], b"");
        assert_eq!((head.status, head.header("upload-offset").unwrap().as_str()), (200, "100000"));
        assert_eq!(head.header("upload-length").as_deref(), Some("700000"));
        assert_eq!(server.patch(&upload, 100_000, &all[100_000..100_003]).status, 200);
        let last = server.patch(&upload, 100_003, &all[100_003..]).json();
        assert_eq!(last["payload_ref"], json!({"sha256": hash, "length": 700_000}));
        server.get(&upload).is(404, "not_found");

        let blob = format!("/blobs/{hash}");
        let whole = server.get(&blob);
        assert_eq!((whole.status, &whole.body), (200, &all));
        let tag = whole.header("etag").unwrap();
        let ask = |headers: &[&str]| server.send("GET", &blob, headers, b"");
        let part = ask(&["range: bytes=262100-524400"]);
        assert_eq!((part.status, &part.body[..]), (206, &all[262_100..=524_400]));
        assert_eq!(part.header("content-range").unwrap(), "bytes 262100-524400/700000");
        assert_eq!(ask(&["range: bytes=-5"]).body, all[699_995..]);
        assert_eq!(ask(&["range: bytes=0-0", "if-range: \"other\""]).status, 200);
        let none = ask(&["range: bytes=700000-"]);
        none.is(416, "range_not_satisfiable");
        assert_eq!(none.header("content-range").unwrap(), "bytes */700000");
        let same = ask(&[&format!("if-none-match: {tag}")]);
        assert_eq!((same.status, same.body.len()), (304, 0));
        let head = server.send("HEAD", &blob, &[], b"");
        assert_eq!(
            (head.header("content-length").unwrap().as_str(), head.body.len()),
            ("700000", 0)
        );
        server.get(&format!("{blob}?tenant=other")).is(404, "not_found");
        server.get("/blobs/77").is(422, "invalid");
    });
}

#[test]
fn what_is_not_as_announced_is_thrown_away() {
    on_both("wrong", |place| {
        let server = Server::start(place);
        let (right, wrong) = (bytes(5_000), vec![7; 5_000]);
        let hash = sha256(&right);
        let upload = server.begin(5_000, Some(&hash));
        server.patch(&upload, 0, &wrong).is(422, "hash_mismatch");
        server.get(&upload).is(404, "not_found");
        let blob = format!("/blobs/{hash}");
        server.send("PUT", &blob, &[], &wrong).is(422, "hash_mismatch");
        server.get(&blob).is(404, "not_found");
        let named = json!({"payload_ref": {"sha256": hash, "length": 5_000}});
        server.post("/queues/q/items", &named).is(409, "blob_missing");
        let stored = server.send("PUT", &blob, &[], &right);
        assert_eq!((stored.status, stored.json()), (201, json!({"sha256": hash, "length": 5_000})));
        assert_eq!(server.send("PUT", &blob, &[], &right).status, 201, "twice is once");
        assert_eq!(server.get(&blob).body, right);
        server.enqueue(&named);
        let foreign = json!({"payload_ref": {"sha256": hash, "length": 5_000}, "tenant": "other"});
        server.post("/queues/q/items", &foreign).is(409, "blob_missing");
        server.post("/blobs", &json!({"length": 64 * 1024 * 1024 + 1})).is(413, "too_large");
        server.post("/blobs", &json!({"length": 0})).is(422, "invalid");
        server.post("/blobs", &json!({"length": 1, "tenant": "a\u{0}b"})).is(422, "invalid");
        server.post("/blobs", &json!({"length": 1, "sha256": "zz"})).is(422, "invalid");
        let upload = server.begin(5, None);
        assert_eq!(server.send("DELETE", &upload, &[], b"").status, 200);
        server.patch(&upload, 0, b"12345").is(404, "not_found");
    });
}

#[test]
fn an_upload_goes_on_after_the_server_was_killed_in_the_middle_of_it() {
    on_both("killed", |place| {
        let all = bytes(3 * 1024 * 1024 + 17);
        let server = Server::start(place);
        let upload = server.begin(all.len(), None);
        let headers = ["upload-offset: 0"];
        let mut stream = server.open("PATCH", &upload, &headers, all.len());
        stream.write_all(&all[..2_500_000]).unwrap();
        // Part of what was sent is durable before the request has ended.
        let offset = |server: &Server| -> usize {
            server.send("HEAD", &upload, &[], b"").header("upload-offset").unwrap().parse().unwrap()
        };
        assert!(until(PATIENCE, || offset(&server) >= 1024 * 1024));
        server.kill();
        let server = Server::start(place);
        let reached = offset(&server);
        assert!((1024 * 1024..=2_500_000).contains(&reached), "{reached}");
        let last = server.patch(&upload, reached, &all[reached..]);
        assert_eq!(last.json()["payload_ref"]["sha256"], sha256(&all), "{}", last.text());
        assert_eq!(server.get(&format!("/blobs/{}", sha256(&all))).body, all);
    });
}

#[test]
fn a_large_payload_is_kept_apart_and_handed_to_whoever_holds_its_lease() {
    on_both("large", |place| {
        let server = Server::start(place);
        let payload = json!({"text": "x".repeat(100_000)});
        let id = server.enqueue(&json!({"payload": payload}));
        let (lease, item) = server.claim();
        let text = payload.to_string();
        let hash = sha256(text.as_bytes());
        assert_eq!(item["payload_ref"], json!({"sha256": hash, "length": text.len()}));
        assert_eq!(item["content_type"], "application/json");
        let path = format!("/leases/{lease}/items/{id}/payload");
        let read = server.get(&path);
        assert_eq!((read.status, read.json()), (200, payload.clone()));
        assert_eq!(read.header("content-type").as_deref(), Some("application/json"));
        let part = server.send("GET", &path, &["range: bytes=0-7"], b"");
        assert_eq!((part.status, part.text().as_str()), (206, "{\"text\":"));
        let other = "01a1e554-9c99-7001-b210-29840971dd42";
        server.get(&format!("/leases/{other}/items/{id}/payload")).is(409, "lease_lost");
        server.complete(&lease, &id);
        server.get(&path).is(409, "lease_lost");
        // What would be refused is not stored.
        let bad = json!({"payload": "y".repeat(50_000), "priority": 99});
        server.post("/queues/q/items", &bad).is(422, "invalid");
        let bad = sha256(format!("\"{}\"", "y".repeat(50_000)).as_bytes());
        server.get(&format!("/blobs/{bad}")).is(404, "not_found");
        let small = server.enqueue(&json!({"payload": [1, 2]}));
        let (lease, _) = server.claim();
        assert_eq!(server.get(&format!("/leases/{lease}/items/{small}/payload")).text(), "[1,2]");
    });
}

#[test]
fn a_blob_stays_until_the_last_item_that_refers_to_it_is_deleted() {
    on_both("counted", |place| {
        let server = Server::start(place);
        let all = bytes(20_000);
        let path = format!("/blobs/{}", sha256(&all));
        assert_eq!(server.send("PUT", &path, &[], &all).status, 201);
        let item = json!({"payload_ref": {"sha256": sha256(&all), "length": all.len()}});
        let ids = [server.enqueue(&item), server.enqueue(&item)];
        let end = |id: &str| {
            assert_eq!(server.post(&format!("/queue/{id}/cancel"), &json!({})).status, 200);
            assert_eq!(server.send("DELETE", &format!("/queue/{id}"), &[], b"").status, 200);
        };
        end(&ids[0]);
        assert_eq!(server.get(&path).body, all);
        end(&ids[1]);
        assert!(until(PATIENCE, || server.get(&path).status == 404));
        server.post("/queues/q/items", &item).is(409, "blob_missing");
        assert_eq!(server.send("PUT", &path, &[], &all).status, 201, "it may come back");
        server.enqueue(&item);
        assert_eq!(server.get(&path).body, all);
    });
}

#[test]
fn what_one_server_received_another_processes_and_a_third_reads() {
    let (_running, place) = database();
    let [a, b, c] = [(); 3].map(|()| Server::start(&place));
    let all = bytes(900_000);
    let upload = a.begin(all.len(), None);
    assert_eq!(a.patch(&upload, 0, &all[..300_000]).status, 200);
    // Even the upload may go on elsewhere.
    let whole = b.patch(&upload, 300_000, &all[300_000..]).json();
    let id = a.enqueue(&json!({"payload_ref": whole["payload_ref"]}));
    let (lease, item) = b.claim();
    assert_eq!(item["payload_ref"], whole["payload_ref"]);
    let payload = format!("/leases/{lease}/items/{id}/payload");
    assert_eq!(b.get(&payload).body, all);
    assert_eq!(c.get(&payload).body, all);
    b.complete(&lease, &id);
    let blob = format!("/blobs/{}", sha256(&all));
    assert_eq!(c.get(&blob).body, all);
    assert_eq!(a.send("DELETE", &format!("/queue/{id}"), &[], b"").status, 200);
    assert!(until(PATIENCE, || c.get(&blob).status == 404));
}

fn said(arguments: &[&str]) -> (bool, String) {
    let output = windrow(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn blobs_move_with_their_store_and_are_checked() {
    let (data, back) = (Data::new("move"), Data::new("back"));
    let (running, place) = database();
    let all = bytes(600_000);
    let item = json!({"payload_ref": {"sha256": sha256(&all), "length": all.len()}});
    let path = format!("/blobs/{}", sha256(&all));
    let server = Server::start(&data.place());
    assert_eq!(server.send("PUT", &path, &[], &all).status, 201);
    let id = server.enqueue(&item);
    drop(server);
    let (dir, other) = (data.0.to_str().unwrap(), back.0.to_str().unwrap());
    let (moved, why) = said(&["move", "--from", dir, "--to", &place[1]]);
    assert!(moved, "{why}");
    let server = Server::start(&place);
    let (lease, _) = server.claim();
    assert_eq!(server.get(&format!("/leases/{lease}/items/{id}/payload")).body, all);
    drop(server);
    let (well, why) = said(&["check", "--blobs", "--store", &place[1]]);
    assert!(well && why.contains("1 blob: every hash is right"), "{why}");
    let (moved, why) = said(&["move", "--from", &place[1], "--to", other]);
    assert!(moved, "{why}");
    let server = Server::start(&back.place());
    assert_eq!(server.get(&path).body, all);
    drop(server);

    // A byte that rots is found, on both.
    running.psql("queue", "update windrow.pieces set piece = set_byte(piece, 9, 255)").unwrap();
    let (well, why) = said(&["check", "--blobs", "--store", &place[1]]);
    assert!(!well && why.contains("its bytes hash to"), "{why}");
    let blobs = back.0.join("blobs");
    let file = std::fs::read_dir(blobs).unwrap().next().unwrap().unwrap().path();
    let mut content = std::fs::read(&file).unwrap();
    content[9_000] ^= 1;
    std::fs::write(&file, content).unwrap();
    let (well, why) = said(&["check", "--blobs", other]);
    assert!(!well && why.contains("its bytes hash to"), "{why}");
    assert!(said(&["check", other]).0, "the queue itself is well");
    std::fs::remove_file(&file).unwrap();
    let (well, why) = said(&["check", "--blobs", other]);
    assert!(!well && why.contains("its bytes are missing"), "{why}");
}

#[test]
fn a_body_that_breaks_off_leaves_nothing_under_its_hash() {
    let data = Data::new("breaks");
    let server = Server::start(&data.place());
    let all = bytes(300_000);
    let path = format!("/blobs/{}", sha256(&all));
    let mut stream = server.open("PUT", &path, &[], all.len());
    stream.write_all(&all[..200_000]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let _its_answer_may_not_arrive = std::panic::catch_unwind(move || Reply::read(&mut stream));
    server.get(&path).is(404, "not_found");
    let left = || std::fs::read_dir(data.0.join("blobs")).unwrap().count();
    assert!(until(PATIENCE, || left() == 0));
}

#[test]
fn one_workers_429_closes_a_resource_for_all_servers() {
    on_both("resource", |place| {
        let first = Server::start(place);
        // On a database the second worker is at another server.
        let other = place[0].contains("store").then(|| Server::start(place));
        let second = other.as_ref().unwrap_or(&first);
        let stages = json!({"stages": [{"stage": "work", "resource": "llm", "max_attempts": 1}]});
        let put = |path: &str, body: &serde_json::Value| {
            first.send("PUT", path, &[], body.to_string().as_bytes())
        };
        assert_eq!(put("/queues/q/settings", &stages).status, 200);
        let ids: Vec<String> = (0..4).map(|n| first.enqueue(&json!({"payload": n}))).collect();
        let (lease, item) = first.claim();
        let id = item["id"].as_str().unwrap();
        let busy = json!({"items": [{"id": id, "outcome": "retry", "error": "429",
            "class": "rate_limit", "delay_ms": 3_600_000}]});
        let settled = first.post(&format!("/leases/{lease}/settle"), &busy);
        assert_eq!(settled.json()[0]["ending"], "released", "{}", settled.text());
        let none = second.post("/claims", &json!({"queues": ["q"], "worker": "w2"}));
        assert_eq!(none.json()["lease"], serde_json::Value::Null);
        let why = second.get(&format!("/queue/{}/explain", ids[3])).json();
        assert_eq!(why["reasons"][0]["code"], "resource_closed", "{why}");
        let known = second.get("/resources/llm").json();
        assert_eq!(known["state"], "resting", "{known}");
        assert!(known["unblocked_by"].as_str().unwrap().contains("one item"), "{known}");
        assert_eq!(second.get("/resources").json().as_array().unwrap().len(), 1);
        second.get("/resources/none").is(404, "not_found");

        // Whoever waits for work is told when an operator opens it, at any server.
        let claim = json!({"queues": ["q"], "worker": "w2", "wait_ms": 50_000}).to_string();
        let headers = ["content-type: application/json"];
        let mut waiting = second.open("POST", "/claims", &headers, claim.len());
        waiting.write_all(claim.as_bytes()).unwrap();
        let workers = || second.get("/workers").json().as_array().unwrap().clone();
        let waits = || workers().iter().any(|worker| worker["waiting"] == 1);
        assert!(until(PATIENCE, waits));
        assert_eq!(first.post("/resources/llm/open", &json!({})).status, 200);
        let grant = Reply::read(&mut waiting).json();
        assert_eq!(grant["items"][0]["attempt"], 1, "{grant}");

        // A rate holds for all servers together.
        let rate = json!({"rate": {"count": 1, "per_ms": 3_600_000}});
        assert_eq!(put("/resources/llm", &rate).status, 200);
        first.claim();
        let none = second.post("/claims", &json!({"queues": ["q"], "worker": "w2"}));
        assert_eq!(none.json()["lease"], serde_json::Value::Null);
        assert_eq!(second.get("/resources/llm").json()["state"], "closed");
        put("/resources/llm", &json!({"rest_ms": 0})).is(422, "invalid");
        put("/resources/llm", &json!({"rates": 1})).is(400, "malformed");
        first.post("/resources/llm/close", &json!({"until": 1, "for_ms": 1})).is(422, "invalid");
        assert_eq!(first.send("DELETE", "/resources/llm", &[], b"").status, 200);
        second.claim();
        // It opens by itself, too, and then tells who waits.
        first.enqueue(&json!({}));
        assert_eq!(first.post("/resources/llm/close", &json!({"for_ms": 2_500})).status, 200);
        let reply = second.post("/claims", &serde_json::from_str(&claim).unwrap()).json();
        assert_eq!(reply["items"].as_array().map(Vec::len), Some(1), "{reply}");
    });
}
