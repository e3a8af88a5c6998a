//! Documents watched while they go on: by server-sent events, and by the WebSocket.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};

use crate::file::{chronicle, pdf};
use crate::running::{HANGS_AFTER, Server};
use crate::{add, get, in_state};

/// A WebSocket of a client.
struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn connect(server: &Server) -> Client {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(6 * HANGS_AFTER)).unwrap();
        let request = format!(
            "GET /ws/document-status HTTP/1.1\r\nhost: {}\r\nconnection: Upgrade\r\nupgrade: \
             websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: \
             dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            server.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).unwrap() > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        Client { stream }
    }

    fn send(&mut self, said: &Value) {
        let said = said.to_string();
        let mut frame = vec![0x81, 0x80 | said.len() as u8, 0, 0, 0, 0];
        frame.extend(said.bytes());
        self.stream.get_mut().write_all(&frame).unwrap();
    }

    /// The next text; what keeps the connection alive is passed over.
    fn hear(&mut self) -> Value {
        loop {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head).unwrap();
            let mut len = usize::from(head[1]);
            if len == 126 {
                let mut more = [0; 2];
                self.stream.read_exact(&mut more).unwrap();
                len = usize::from(u16::from_be_bytes(more));
            }
            let mut payload = vec![0; len];
            self.stream.read_exact(&mut payload).unwrap();
            if head[0] == 0x81 {
                return serde_json::from_slice(&payload).unwrap();
            }
        }
    }

    /// Everything up to an event.
    fn until(&mut self, event: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            all.push(self.hear());
            if all.last().unwrap()["event"] == event {
                return all;
            }
        }
    }
}

#[test]
fn whoever_subscribes_hears_of_every_phase_of_that_document_and_of_its_end() {
    let server = Server::start("documents-socket");
    let (mut all, mut one) = (Client::connect(&server), Client::connect(&server));
    for client in [&mut all, &mut one] {
        assert_eq!(client.hear(), json!({"event": "connected"}));
    }
    one.send(&json!({"action": "ping"}));
    assert_eq!(one.hear(), json!({"event": "pong"}));
    one.send(&json!({"action": "dance"}));
    assert_eq!(one.hear()["event"], "error");
    let other = add(&server, "?name=other.md", "text/markdown", b"# Other\n\nSomething else.");
    in_state(&server, &other, "live");
    let ended = all.until("indexing_completed");
    assert_eq!(ended.last().unwrap()["document_id"], other["id"], "without a wish, all is told");
    let added = add(&server, "?name=towns.pdf", "application/pdf", &pdf(40, chronicle));
    one.send(&json!({"action": "subscribe", "document_id": added["id"]}));
    let subscribed = one.until("subscribed");
    assert_eq!(subscribed.last().unwrap()["document_id"], added["id"]);
    let told = one.until("indexing_completed");
    let events: Vec<&str> = told.iter().filter_map(|told| told["event"].as_str()).collect();
    for phase in ["ocr_completed", "vector_completed", "graphrag_completed"] {
        assert!(events.contains(&phase), "{phase} is not among {events:?}");
    }
    assert!(told.iter().all(|told| told["document_id"] == added["id"]), "{told:?}");
}

#[test]
fn progress_is_streamed_until_the_document_is_live_and_never_falls() {
    let server = Server::start("documents-stream");
    let added = add(&server, "?name=towns.pdf", "application/pdf", &pdf(60, chronicle));
    let id = added["id"].as_str().unwrap();
    let stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(6 * HANGS_AFTER)).unwrap();
    let request = format!(
        "GET /api/v1/documents/{id}/progress HTTP/1.1\r\nhost: {}\r\naccept: \
         text/event-stream\r\n\r\n",
        server.address
    );
    (&stream).write_all(request.as_bytes()).unwrap();
    let mut percents = Vec::new();
    for line in BufReader::new(&stream).lines().map(Result::unwrap) {
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let progress: Value = serde_json::from_str(data).unwrap();
        percents.push(progress["percent"].as_f64().unwrap());
        if progress["state"] == "live" {
            break;
        }
    }
    assert!(percents.is_sorted(), "{percents:?}");
    assert_eq!(percents.last(), Some(&100.0));
    assert_eq!(get(&server, &format!("/documents/{id}/progress"))["percent"], 100.0);
}

/// After the last unsubscribe everything was told that had ended long before.
#[test]
fn whoever_unsubscribes_hears_of_what_happens_from_then_on() {
    let server = Server::start("documents-unsubscribe");
    let old = add(&server, "?name=old.md", "text/markdown", b"# Old\n\nIt is long since.");
    in_state(&server, &old, "live");
    let mut client = Client::connect(&server);
    for (one, all) in [(&old["id"], false), (&old["id"], true)] {
        client.send(&json!({"action": "subscribe", "document_id": one}));
        client.until("indexing_completed");
        match all {
            true => client.send(&json!({"action": "unsubscribe"})),
            false => client.send(&json!({"action": "unsubscribe", "document_id": one})),
        }
        client.until("unsubscribed");
        let query = format!("?name=new-{all}.md");
        let new = add(&server, &query, "text/markdown", b"# New\n\nIt was today.");
        let told = client.until("indexing_completed");
        assert!(told.iter().all(|told| told["document_id"] == new["id"]), "{told:?}");
    }
}

/// Only the last two hundred were looked at.
#[test]
fn whoever_connects_hears_of_everything_that_is_being_built() {
    let server = Server::start("documents-many");
    let paused = server.send("POST", "/api/v1/queues/documents/pause", &json!({}));
    assert_eq!(paused.status, 200, "{}", String::from_utf8_lossy(&paused.body));
    let mut all: BTreeSet<String> = (0..205)
        .map(|number| {
            let text = format!("The note number {number} of many.");
            let query = format!("?name={number}.txt");
            let added = add(&server, &query, "text/plain", text.as_bytes());
            added["id"].as_str().unwrap().to_owned()
        })
        .collect();
    let mut client = Client::connect(&server);
    client.send(&json!({"action": "ping"}));
    client.until("pong");
    let resumed = server.send("POST", "/api/v1/queues/documents/resume", &json!({}));
    assert_eq!(resumed.status, 200);
    while !all.is_empty() {
        let told = client.until("indexing_completed");
        let id = told.last().unwrap()["document_id"].as_str().unwrap();
        assert!(all.remove(id), "{id} is told twice");
    }
}

/// It went on for ever, with a beat every few seconds.
#[test]
fn the_stream_of_a_document_ends_when_that_is_gone() {
    let server = Server::start("documents-gone");
    let added = add(&server, "?name=a.md", "text/markdown", b"# Apples\n\nThey keep.");
    in_state(&server, &added, "live");
    let path = format!("/api/v1/documents/{}", added["id"].as_str().unwrap());
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(6 * HANGS_AFTER)).unwrap();
    let request = format!(
        "GET {path}/progress HTTP/1.1\r\nhost: {}\r\nconnection: close\r\naccept: \
         text/event-stream\r\n\r\n",
        server.address
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut heard = String::new();
    while !heard.contains("event: progress") {
        assert!(stream.read_line(&mut heard).unwrap() > 0, "{heard}");
    }
    let deleted = server.send("DELETE", &path, &Value::Null);
    assert!((200..300).contains(&deleted.status), "{}", deleted.status);
    let begun = Instant::now();
    stream.read_to_string(&mut heard).unwrap();
    assert_eq!(heard.matches("event: gone").count(), 1, "{heard}");
    assert!(begun.elapsed() < 6 * HANGS_AFTER, "{heard}");
}
