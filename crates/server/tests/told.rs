//! What a server is told and what it says about it: configuration, places that are none, and how
//! soon it stops.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod running;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use windrow_testkit::servers::postgres::{Durability, Postgres, Version};

use running::{Data, Server};

/// What a command says, on both streams, and whether it went well.
fn said(arguments: &[&str], variables: &[(&str, &str)], place: &Data) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.args(arguments).envs(variables.iter().copied()).current_dir(&place.0);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let both = [output.stderr, output.stdout].concat();
    (output.status.success(), String::from_utf8(both).unwrap())
}

#[test]
fn what_a_server_would_be_told_is_shown_with_everybody_who_said_it() {
    let data = Data::new("told-config");
    std::fs::write(data.0.join("windrow.toml"), "[server]\nlisten = \"127.0.0.1:1\"\n").unwrap();
    let state = data.0.to_str().unwrap();
    let variables = [("WINDROW_SERVER__LISTEN", "127.0.0.1:2"), ("XDG_STATE_HOME", state)];
    let (ok, text) = said(&["config", "show", "--origin"], &variables, &data);
    assert!(ok, "{text}");
    let listen = "server.listen = \"127.0.0.1:2\"  # from WINDROW_SERVER__LISTEN, \
                  not \"127.0.0.1:1\" from windrow.toml\n";
    assert!(text.contains(listen), "{text}");
    assert!(text.contains("server.drain_ms = 25000  # by default\n"), "{text}");
    assert!(text.contains(&format!("store.data_dir = \"{state}/windrow\"")), "{text}");
    let flags = ["config", "show", "--origin", "--listen", "localhost:3", "--data-dir", "here"];
    let (ok, text) = said(&flags, &variables, &data);
    assert!(ok && text.contains("server.listen = \"localhost:3\"  # from --listen"), "{text}");
    assert!(text.contains("store.data_dir = \"here\"  # from --data-dir"), "{text}");
    let slip = [("WINDROW_SERVER_LISTEN", "127.0.0.1:2"), ("XDG_STATE_HOME", state)];
    let (ok, text) = said(&["config", "show"], &slip, &data);
    assert!(ok && text.contains("WINDROW_SERVER__LISTEN is meant"), "{text}");
}

#[test]
fn a_place_that_cannot_hold_a_store_is_refused_with_a_sentence() {
    let data = Data::new("told-places");
    std::fs::create_dir(data.0.join("photos")).unwrap();
    std::fs::write(data.0.join("photos/cat.jpg"), "a cat").unwrap();
    std::fs::write(data.0.join("file"), "").unwrap();
    for (dir, why) in [
        ("photos", "photos holds other files (cat.jpg) and no store"),
        ("file", "file is a file; a store needs a directory"),
        ("", "store.data_dir (from --data-dir) is empty"),
    ] {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", dir];
        let (ok, text) = said(&serve, &[], &data);
        assert!(!ok && text.contains(why), "{dir:?}: {text}");
    }
    assert_eq!(std::fs::read_dir(data.0.join("photos")).unwrap().count(), 1, "it was left alone");
    // Nobody listens there, so that it ends; what it would use was said before.
    let store = "postgres://windrow@127.0.0.1:1?connect_timeout=1";
    let (ok, text) = said(&["serve", "--listen", "127.0.0.1:0", "--store", store], &[], &data);
    let why = "names no database, so it is the user's: 127.0.0.1:1/windrow";
    assert!(!ok && text.contains(why), "{text}");
}

#[test]
fn an_idle_server_stops_at_once_whoever_is_connected() {
    let server = Server::start("told-stop");
    let open = |text: &str| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let _silent = open("");
    let _slow = open("GET /healthz HTTP/1.1\r\n");
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
    let mut idle = open(&request);
    assert!(idle.read(&mut [0; 1024]).unwrap() > 0);
    stops_soon(server);
}

#[test]
fn an_idle_server_on_a_database_stops_at_once_too() {
    let postgres = Postgres::start(Version::V15, Durability::Real).unwrap();
    postgres.create_database("queue").unwrap();
    let store = format!("postgres://postgres@127.0.0.1:{}/queue", postgres.port());
    let server = Server::at(&["--store", &store], &[], Data::new("told-stop-database"));
    let item = server.send("POST", "/api/v1/queues/q/items", &json!({}));
    assert_eq!(item.status, 201);
    stops_soon(server);
}

fn stops_soon(mut server: Server) {
    let begun = Instant::now();
    server.process.stop();
    let took = begun.elapsed();
    eprintln!("stopped after {took:?}");
    // Typically 10 ms. A machine that is busy with other things may take its time.
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn a_key_is_not_used_up_by_what_was_refused() {
    let server = Server::start("told-key");
    let send = |body: &str| {
        let request = format!(
            "POST /api/v1/queues/q/items HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             idempotency-key: order 17\r\ncontent-length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        running::exchange(&server.address, request.as_bytes(), false).remove(0)
    };
    for wrong in ["{", r#"{"priority":11}"#, r#"{"payload":1,"payload_base64":"AA=="}"#] {
        assert!(send(wrong).status >= 400, "{wrong}");
    }
    let first = send(r#"{"delay_ms":5000}"#);
    assert_eq!(first.status, 201);
    // The same again is the same, although its delay would end later by now.
    assert_eq!(send(r#"{"delay_ms":5000}"#).json(), first.json());
    assert_eq!(server.get("/api/v1/queue/stats").json()["pending"], 1);
}

#[test]
fn a_failed_item_is_explained_and_a_settle_stands() {
    let server = Server::start("told-failed");
    let post = |path: &str, body| server.send("POST", &format!("/api/v1/{path}"), &body).json();
    let id = post("queues/q/items", json!({"key": "k"}))["id"].clone();
    let lease = post("claims", json!({"worker": "w"}))["lease"].as_str().unwrap().to_owned();
    let settle = |outcome| post(&format!("leases/{lease}/settle"), json!({"items": [outcome]}));
    let fail = json!({"id": id, "outcome": "fail", "error": "no such page", "class": "gone"});
    assert_eq!(settle(fail.clone())[0]["ending"], "failed");
    assert_eq!(settle(fail)[0]["ending"], "failed", "the same again is answered as before");
    let other = settle(json!({"id": id, "outcome": "complete"}));
    assert_eq!((&other[0]["error"], &other[0]["id"]), (&json!("invalid"), &id));
    assert!(other[0]["detail"].as_str().unwrap().contains("as failed; that stands"), "{other}");
    let path = format!("/api/v1/queue/{}/explain", id.as_str().unwrap());
    let explained = server.get(&path).json();
    let error = json!({"class": "gone", "message": "no such page"});
    assert_eq!((&explained["status"], &explained["error"]), (&json!("failed"), &error));
    let batch = post("queues/q/items", json!([{"key": "a"}, {"key": "b", "priority": 99}]));
    assert_eq!((&batch[1]["index"], &batch[1]["key"]), (&json!(1), &json!("b")));
}
