//! Tokens: made, kept, taken back; what they were used for; and a server without any.

use std::io::{Read as _, Write as _};
use std::path::Path;

use serde_json::json;
use windrow_testkit::servers::postgres::{Durability, Postgres, Version};

use crate::rig::{Data, Reply, Server, create, id, said, store_in, windrow};

const STATS: &str = "/api/v1/queue/stats";

fn secret(token: &str) -> &str {
    token.split('_').nth(2).unwrap()
}

#[test]
fn a_server_on_its_own_machine_is_open_until_there_is_a_token() {
    let data = Data::new("open");
    let server = Server::start(&store_in(&data));
    assert_eq!(server.get(STATS, None).status, 200);
    assert_eq!(server.get("/api/v1/tokens", None).json(), json!([]));
    let mut waiting = server.open(
        "POST",
        "/api/v1/claims",
        None,
        &json!({"worker": "w", "wait_ms": 50_000}).to_string(),
    );
    while server.get("/api/v1/workers", None).json()[0]["waiting"] != 1 {}
    // Whoever made another first would have locked everybody out.
    for role in [json!({"role": "worker"}), json!({"role": "admin", "tenant": "acme"})] {
        let refused = server.post("/api/v1/tokens", None, &role);
        refused.is(422, "invalid");
        assert!(refused.text.contains("--role admin"), "{}", refused.text);
    }
    assert_eq!(server.get(STATS, None).status, 200);
    let admin = server.token(None, &json!({"role": "admin", "name": "first"}));
    // Whoever waits without one waits no longer.
    Reply::read(&mut waiting).is(401, "unauthorized");
    let none = server.get(STATS, None);
    none.is(401, "unauthorized");
    assert!(none.text.contains("none came"), "{}", none.text);
    // What is wrong with a token is not said, so that nobody learns which ids there are.
    let unknown = format!("wr_{}_{}", "0".repeat(16), secret(&admin));
    let wrong = format!("wr_{}_{}", id(&admin), "0".repeat(64));
    let told = ["nonsense", &unknown, &wrong].map(|token| {
        let reply = server.get(STATS, Some(token));
        reply.is(401, "unauthorized");
        reply.json()["detail"].as_str().unwrap().to_owned()
    });
    assert!(told[0].contains("not known here") && told.iter().all(|all| *all == told[0]));
    assert_eq!(server.get(STATS, Some(&admin)).status, 200);
    // The last token that is revoked does not open the server again, nor does a restart.
    let url = format!("/api/v1/tokens/{}", id(&admin));
    assert_eq!(server.send("DELETE", &url, Some(&admin), "").status, 200);
    server.get(STATS, Some(&admin)).is(401, "unauthorized");
    server.get(STATS, None).is(401, "unauthorized");
    server.stop();
    let server = Server::start(&store_in(&data));
    server.get(STATS, None).is(401, "unauthorized");
    server.stop();
    let all = windrow(&["token", "revoke", "--all"]).args(store_in(&data)).output().unwrap();
    assert!(all.status.success(), "{}", said(&all));
    assert_eq!(Server::start(&store_in(&data)).get(STATS, None).status, 200);
}

#[test]
fn a_server_that_others_reach_needs_a_token_to_start() {
    let data = Data::new("exposed");
    let store = store_in(&data);
    let serve = || windrow(&["serve", "--listen", "0.0.0.0:0"]).args(&store).output().unwrap();
    let refused = said(&serve());
    assert!(refused.contains("windrow token create --role admin"), "{refused}");
    for (test, text) in [("short", "only this long"), ("empty", "\n"), ("spaced", &"a ".repeat(30))]
    {
        let file = data.0.join(test);
        std::fs::write(&file, text).unwrap();
        let mut serve = windrow(&["serve", "--listen", "0.0.0.0:0"]);
        let refused = serve.args(&store).env("WINDROW_AUTH__TOKEN_FILE", &file).output().unwrap();
        assert!(!refused.status.success(), "{test}");
        assert!(said(&refused).contains("auth.token_file"), "{}", said(&refused));
        assert!(!said(&refused).contains("only this long"), "{}", said(&refused));
    }
    let given = "a-token-from-a-secret-manager-0123456789";
    let file = data.0.join("token");
    std::fs::write(&file, format!("{given}\n")).unwrap();
    let flags = ["--listen", "0.0.0.0:0"];
    let environment = [("WINDROW_AUTH__TOKEN_FILE", file.to_str().unwrap())];
    let server = Server::start_with(&store, &flags, &environment);
    server.get(STATS, None).is(401, "unauthorized");
    server.get(STATS, Some(&given[1..])).is(401, "unauthorized");
    assert_eq!(server.get("/api/v1/tokens", Some(given)).json(), json!([]));
    server.stop();
    // One of its own will do as well, and a server that is reached is never open.
    let admin = create(&store, &["--role", "admin"]);
    let server = Server::start_with(&store, &flags, &[]);
    assert_eq!(server.get(STATS, Some(&admin)).status, 200);
    let url = format!("/api/v1/tokens/{}", id(&admin));
    assert_eq!(server.send("DELETE", &url, Some(&admin), "").status, 200);
    server.get(STATS, None).is(401, "unauthorized");
}

/// A slip of the pen made a store of its own, without a word.
#[test]
fn looking_for_tokens_where_no_store_is_makes_none() {
    let data = Data::new("typo");
    let typo = data.0.join("not-here");
    let place = ["--data-dir", typo.to_str().unwrap()];
    for look in [&["list"][..], &["revoke", "0011223344556677"], &["revoke", "--all"]] {
        let looked = windrow(&["token"]).args(look).args(place).output().unwrap();
        let told = said(&looked);
        assert!(
            !looked.status.success() && told.contains("there is no queue in"),
            "{look:?}: {told}"
        );
        assert!(!typo.exists(), "{look:?}");
    }
    std::fs::create_dir(&typo).unwrap();
    let looked = windrow(&["token", "list"]).args(place).output().unwrap();
    assert!(said(&looked).contains("there is no queue in"), "{}", said(&looked));
    assert_eq!(std::fs::read_dir(&typo).unwrap().count(), 0);
}

#[test]
fn when_a_token_was_last_used_is_known_after_a_stop() {
    let data = Data::new("last-used");
    let store = store_in(&data);
    let admin = create(&store, &["--role", "admin"]);
    for _ in 0..2 {
        let server = Server::start(&store);
        assert_eq!(server.get(STATS, Some(&admin)).status, 200);
        server.stop();
    }
    let listed = windrow(&["token", "list", "--json"]).args(&store).output().unwrap();
    let listed = said(&listed);
    assert!(listed.contains("\"last_used_at\":\"20"), "{listed}");
}

#[test]
fn the_command_line_gives_lists_and_takes_tokens_in_the_store_and_through_a_server() {
    let data = Data::new("cli");
    let store = store_in(&data);
    let admin = create(&store, &["--role", "admin", "--name", "the boss"]);
    let worker = create(&store, &["--role", "worker", "--tenant", "a", "--expires", "30d"]);
    let list = windrow(&["token", "list"]).args(&store).output().unwrap();
    let listed = said(&list);
    assert!(listed.contains(id(&admin)) && listed.contains("the boss"), "{listed}");
    assert!(listed.contains(id(&worker)) && listed.contains("expires 20"), "{listed}");
    assert!(!listed.contains(secret(&admin)), "{listed}");

    let server = Server::start(&store);
    let busy = windrow(&["token", "list"]).args(&store).output().unwrap();
    let busy = said(&busy);
    // Its server is found by itself, and wants a token.
    assert!(busy.contains("WINDROW_TOKEN"), "{busy}");
    let url = format!("http://{}", server.address);
    let ask = |words: &[&str], token: Option<&str>| {
        let mut command = windrow(&["token"]);
        command.args(words).args(["--server", &url]);
        token.map(|token| command.env("WINDROW_TOKEN", token));
        let output = command.output().unwrap();
        (output.status.success(), said(&output))
    };
    let (done, told) = ask(&["list"], None);
    assert!(!done && told.contains("WINDROW_TOKEN"), "{told}");
    let (done, told) = ask(&["list"], Some(&worker));
    assert!(!done && told.contains("needs the role admin"), "{told}");
    let (done, made) = ask(&["create", "--role", "viewer", "--name", "v"], Some(&admin));
    assert!(done, "{made}");
    let viewer = made.split_whitespace().find(|word| word.starts_with("wr_")).unwrap();
    assert_eq!(server.get(STATS, Some(viewer)).status, 200);
    let (done, told) = ask(&["revoke", id(viewer)], Some(&admin));
    assert!(done, "{told}");
    server.get(STATS, Some(viewer)).is(401, "unauthorized");
    let (done, told) = ask(&["revoke", id(viewer)], Some(&admin));
    assert!(!done && told.contains("it is revoked"), "{told}");
    let (done, told) = ask(&["revoke", "../queue"], Some(&admin));
    assert!(!done && told.contains("is not the id of a token"), "{told}");
    let shown = server.get("/api/v1/tokens", Some(&admin)).json();
    let shown = shown.as_array().unwrap().iter().find(|token| token["id"] == id(viewer));
    assert!(shown.unwrap()["revoked_at"].is_string() && shown.unwrap()["last_used_at"].is_string());
    for wrong in [
        json!({"role": "king"}),
        json!({"role": "viewer", "secret": "x"}),
        json!({"role": "viewer", "name": ""}),
        json!({"role": "viewer", "expires_at": "2020-01-01T00:00:00Z"}),
        json!({"role": "viewer", "expires_at": 1, "expires_in_ms": 1}),
    ] {
        let reply = server.post("/api/v1/tokens", Some(&admin), &wrong);
        assert!([400, 422].contains(&reply.status), "{wrong}: {}", reply.text);
    }
}

#[test]
fn a_claim_that_waits_ends_when_its_token_is_revoked() {
    let data = Data::new("waits");
    let store = store_in(&data);
    let admin = create(&store, &["--role", "admin"]);
    let worker = create(&store, &["--role", "worker"]);
    let server = Server::start(&store);
    let wait = json!({"worker": "w", "wait_ms": 50_000}).to_string();
    let mut waiting = server.open("POST", "/api/v1/claims", Some(&worker), &wait);
    while server.get("/api/v1/workers", Some(&admin)).json()[0]["waiting"] != 1 {}
    let url = format!("/api/v1/tokens/{}", id(&worker));
    assert_eq!(server.send("DELETE", &url, Some(&admin), "").status, 200);
    Reply::read(&mut waiting).is(401, "unauthorized");
    // What comes now is not handed to it.
    server.enqueue(&admin, "a");
    assert_eq!(server.get(STATS, Some(&admin)).json()["pending"], 1);
}

#[test]
fn what_an_operator_did_is_written_down_once_and_what_was_refused_is_not() {
    let data = Data::new("audit");
    let store = store_in(&data);
    let admin = create(&store, &["--role", "admin", "--name", "boss"]);
    let operator = create(&store, &["--role", "operator", "--name", "olga"]);
    let server = Server::start(&store);
    let item = server.enqueue(&admin, "a");
    let cancel = format!("/api/v1/queue/{item}/cancel");
    assert_eq!(server.post(&cancel, Some(&operator), &json!({})).status, 200);
    server.post(&cancel, Some(&operator), &json!({})).is(409, "already_done");
    let scope = json!({"tenant": "a"});
    assert_eq!(server.post("/api/queues/q/pause", Some(&operator), &scope).status, 200);
    assert_eq!(server.get(&format!("/api/v1/queue/{item}"), Some(&operator)).status, 200);
    let made = server.token(Some(&admin), &json!({"role": "viewer"}));

    // It is part of the item's life; who it was is for admins.
    let events = format!("/api/v1/queue/{item}/events");
    let by = |token: &str| {
        let life = server.get(&events, Some(token)).json();
        let deed = life.as_array().unwrap().iter().find(|moment| moment["event"] == "cancel");
        deed.unwrap()["by"].clone()
    };
    assert_eq!((by(&admin), by(&operator), by(&made)), (json!("olga"), json!(null), json!(null)));

    let audit = |query: &str| {
        let reply = server.get(&format!("/api/v1/audit{query}"), Some(&admin));
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert!(!reply.text.contains(secret(&made)) && !reply.text.contains("a secret of"));
        reply.json()
    };
    let all = audit("");
    let told: Vec<_> = all["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let text = |field: &str| entry[field].as_str().unwrap().to_owned();
            (text("caller"), text("operation"), entry["targets"].clone(), text("outcome"))
        })
        .collect();
    let entry = |caller: &str, operation: &str, targets| {
        (caller.to_owned(), operation.to_owned(), targets, "done".to_owned())
    };
    assert_eq!(
        told,
        [
            entry("boss", "POST /tokens", json!([id(&made)])),
            entry("olga", "POST /queues/{queue}/pause", json!(["q", "tenant=a"])),
            entry("olga", "POST /queue/{id}/cancel", json!([item])),
            entry("(command line)", "POST /tokens", json!([id(&operator)])),
            entry("(command line)", "POST /tokens", json!([id(&admin)])),
        ]
    );
    assert_eq!(all["entries"][1]["token"], id(&operator));
    assert_eq!(all["next"], json!(null));
    assert_eq!(audit("?caller=olga")["entries"].as_array().unwrap().len(), 2);
    assert_eq!(audit(&format!("?target={item}"))["entries"].as_array().unwrap().len(), 1);
    let first = audit("?limit=2");
    let rest = audit(&format!("?limit=200&before={}", first["next"].as_str().unwrap()));
    assert_eq!(first["entries"].as_array().unwrap()[..], all["entries"].as_array().unwrap()[..2]);
    assert_eq!(rest["entries"].as_array().unwrap()[..], all["entries"].as_array().unwrap()[2..]);
    server.get("/api/v1/audit?befor=1", Some(&admin)).is(400, "malformed");
    server.get("/api/v1/audit?limit=0", Some(&admin)).is(422, "invalid");
}

/// Whoever hangs up before the answer has done it all the same.
#[test]
fn an_operator_who_hangs_up_is_written_down_too() {
    let data = Data::new("hangs-up");
    let store = store_in(&data);
    let admin = create(&store, &["--role", "admin"]);
    let server = Server::start(&store);
    let mut cancelled = Vec::new();
    for _ in 0..20 {
        let item = server.enqueue(&admin, "a");
        let path = format!("/api/v1/queue/{item}/cancel");
        drop(server.open("POST", &path, Some(&admin), ""));
        cancelled.push(item);
    }
    let mut done = 0;
    for item in &cancelled {
        // It was cancelled, or the server saw the end before the beginning.
        let path = format!("/api/v1/queue/{item}");
        let status = server.get(&path, Some(&admin)).json()["status"].clone();
        let path = format!("/api/v1/audit?target={item}");
        let entries =
            || server.get(&path, Some(&admin)).json()["entries"].as_array().unwrap().len();
        let began = std::time::Instant::now();
        while status == "cancelled" && entries() == 0 {
            assert!(
                began.elapsed().as_secs() < 10,
                "{item} was cancelled and nobody wrote it down"
            );
        }
        done += usize::from(status == "cancelled");
    }
    assert!(done > 0, "nothing was cancelled, so that nothing was tested");
}

/// Whether a text is anywhere in the files of a directory.
fn is_in_files(dir: &Path, text: &str) -> bool {
    let mut entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.any(|path| {
        if path.is_dir() {
            return is_in_files(&path, text);
        }
        let mut bytes = Vec::new();
        std::fs::File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[test]
fn a_secret_is_not_in_the_store_and_not_in_what_the_server_says() {
    let data = Data::new("rest");
    let store = store_in(&data);
    let admin = create(&store, &["--role", "admin", "--name", "a-canary-name"]);
    let server = Server::start(&store);
    let worker = server.token(Some(&admin), &json!({"role": "worker"}));
    for token in [&admin, &worker] {
        assert_eq!(server.get(STATS, Some(token)).status, 200);
    }
    server.stop();
    // So that the test could fail: what is not secret is found.
    assert!(is_in_files(&data.0, "a-canary-name") && is_in_files(&data.0, id(&worker)));
    for token in [&admin, &worker] {
        assert!(!is_in_files(&data.0, secret(token)), "{token}");
    }
    let dump = windrow(&["dump"]).args(&store).output().unwrap();
    assert!(!said(&dump).contains(secret(&admin)));
}

#[test]
fn a_token_is_revoked_on_every_server_of_a_database() {
    let database = Postgres::start(Version::V15, Durability::Real).unwrap();
    database.create_database("queue").unwrap();
    let url = format!("postgres://postgres@127.0.0.1:{}/queue", database.port());
    let store = ["--store".to_owned(), url];
    let admin = create(&store, &["--role", "admin"]);
    let (one, other) = (Server::start(&store), Server::start(&store));
    let worker = one.token(Some(&admin), &json!({"role": "worker", "tenant": "a"}));
    let began = std::time::Instant::now();
    while other.get(STATS, Some(&worker)).status != 200 {
        assert!(began.elapsed().as_secs() < 30, "the other server does not know of it");
    }
    // A server on its own machine without a token would be open.
    let all = windrow(&["token", "revoke", "--all"]).args(&store).output().unwrap();
    let told = said(&all);
    assert!(!all.status.success() && told.contains("stop the servers"), "{told}");
    assert!(told.contains("nothing was taken away"), "{told}");
    // A lease that one server gave is good on the other, for the same tenant and no other.
    let item = one.enqueue(&admin, "a");
    let grant = one.post("/api/v1/claims", Some(&worker), &json!({"worker": "w"})).json();
    let lease = grant["lease"].as_str().unwrap().to_owned();
    let renew = format!("/api/v1/leases/{lease}/renew");
    assert_eq!(other.post(&renew, Some(&worker), &json!({})).json()["held"], json!([item]));
    other.post(&renew, Some(&admin), &json!({})).is(409, "lease_lost");

    let wait = json!({"worker": "w", "wait_ms": 50_000}).to_string();
    let mut waiting = other.open("POST", "/api/v1/claims", Some(&worker), &wait);
    while other.get("/api/v1/workers", Some(&admin)).json()[0]["waiting"] != 1 {}
    let path = format!("/api/v1/tokens/{}", id(&worker));
    assert_eq!(one.send("DELETE", &path, Some(&admin), "").status, 200);
    let revoked = std::time::Instant::now();
    one.get(STATS, Some(&worker)).is(401, "unauthorized");
    while other.get(STATS, Some(&worker)).status != 401 {
        assert!(revoked.elapsed().as_millis() < 3_000, "it must be known within a second or so");
    }
    let within = revoked.elapsed();
    Reply::read(&mut waiting).is(401, "unauthorized");
    let _shown = writeln!(std::io::stderr(), "revoked on the other server within {within:?}");

    drop((one, other));
    let tokens = "select count(*) from windrow.notes where shelf = 'tokens'";
    assert_eq!(database.psql("queue", tokens).unwrap(), "2");

    let dump = database.psql("queue", "select encode(body, 'escape') from windrow.notes").unwrap();
    assert!(dump.contains(id(&worker)) || dump.contains("sha256"), "{dump}");
    for token in [&admin, &worker] {
        assert!(!dump.contains(secret(token)), "the table holds a secret");
    }
    let all = windrow(&["token", "revoke", "--all"]).args(&store).output().unwrap();
    assert!(said(&all).contains("2 tokens taken away"), "{}", said(&all));
}
