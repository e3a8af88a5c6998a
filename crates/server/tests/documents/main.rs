//! Documents on a running server: taken in, read by the real tools, shown, searched, done again and
//! let go; and all of it again after the server was killed in the middle.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod backup;
mod elsewhere;
mod file;
mod flow;
mod gap;
mod granted;
mod killed;
mod live;
mod looked_at;
mod model;
mod moved;
mod outside;
#[path = "../running/mod.rs"]
mod running;
mod shared;
mod stranger;

use std::time::{Duration, Instant};

use running::{Server, exchange};
use serde_json::{Value, json};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends a file as the body of a request.
fn add(server: &Server, query: &str, kind: &str, file: &[u8]) -> Value {
    let mut request = format!(
        "POST /api/v1/documents{query} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: \
         {kind}\r\ncontent-length: {}\r\n\r\n",
        server.address,
        file.len()
    )
    .into_bytes();
    request.extend_from_slice(file);
    let reply = exchange(&server.address, &request, false).remove(0);
    let said = reply.json();
    assert!((200..300).contains(&reply.status), "{}: {said}", reply.status);
    said
}

/// What a path answers.
fn get(server: &Server, path: &str) -> Value {
    let reply = server.get(&format!("/api/v1{path}"));
    assert_eq!(reply.status, 200, "{path}: {}", String::from_utf8_lossy(&reply.body));
    reply.json()
}

/// Waits until something is so. A claim where nothing ever comes is a clock that the server has.
fn until<T>(server: &Server, what: &str, look: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} does not come");
        let claim = json!({"queues": ["nowhere"], "worker": "clock", "wait_ms": 50});
        server.send("POST", "/api/v1/claims", &claim);
    }
}

/// Waits until a document is in a state, and gives it.
fn in_state(server: &Server, added: &Value, state: &str) -> Value {
    let id = added["id"].as_str().unwrap();
    until(server, state, || {
        let shown = get(server, &format!("/documents/{id}"));
        (shown["state"] == state).then_some(shown)
    })
}

/// The name and the page of what a search finds first.
fn first(server: &Server, words: &str) -> Option<(String, u64)> {
    let words = words.replace(' ', "+");
    let found = get(server, &format!("/search?q={words}&limit=5"));
    assert_eq!(found.get("missing"), None, "{found}");
    let hit = found["hits"].as_array().unwrap().first()?;
    Some((hit["name"].as_str().unwrap().to_owned(), hit["page"].as_u64().unwrap()))
}
