//! The real binary on a real socket, with everything that it says.
#![allow(dead_code, reason = "no test uses all of it")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
pub(crate) use windrow_testkit::servers::listening::Data;
use windrow_testkit::servers::listening::Listening;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
pub(crate) struct Server {
    process: Listening,
    pub(crate) address: String,
}

impl Server {
    /// Starts with these flags; `settings` are environment variables.
    pub(crate) fn start(flags: &[&str], settings: &[(&str, &str)]) -> Server {
        Server::start_at("127.0.0.1:0", flags, settings)
    }

    /// The same at an address.
    pub(crate) fn start_at(listen: &str, flags: &[&str], settings: &[(&str, &str)]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
        command.args(["serve", "--listen", listen]).args(flags);
        let process = Listening::start(command.envs(settings.iter().copied())).unwrap();
        let address = process.address.clone();
        Server { process, address }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Ends it at once.
    pub(crate) fn kill(mut self) {
        self.process.kill();
    }

    /// Waits until it says something.
    pub(crate) fn says(&self, words: &str) {
        self.process.hears(|line| line.contains(words).then_some(())).unwrap();
    }

    /// Stops it, and gives everything that it said.
    pub(crate) fn stop(mut self) -> String {
        self.process.stop()
    }

    /// An answer, or as much of it as came in time.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}\
             content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut all = Vec::new();
        let mut some = [0; 65_536];
        while let Ok(count @ 1..) = stream.read(&mut some) {
            all.extend_from_slice(&some[..count]);
            // What goes on for ever has said enough once it began.
            const ENDLESS: &[u8] = b"content-type: text/event-stream";
            if all.windows(ENDLESS.len()).any(|part| part == ENDLESS) {
                break;
            }
        }
        let all = String::from_utf8_lossy(&all);
        let (head, text) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("{method} {path}: {all:?}"));
        Reply { status, text: text.to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &["content-type: application/json"], &body.to_string())
    }

    pub(crate) fn enqueue(&self, queue: &str, items: &Value) -> Value {
        let reply = self.post(&format!("/api/v1/queues/{queue}/items"), items);
        assert!(reply.status < 300, "{}", reply.text);
        reply.json()
    }

    /// Takes up to so many items of a queue: the lease, and their ids.
    pub(crate) fn claim(&self, queue: &str, max: usize) -> (String, Vec<String>) {
        let claim = json!({"queues": [queue], "worker": "w", "max": max});
        let grant = self.post("/api/v1/claims", &claim).json();
        let items = grant["items"].as_array().unwrap();
        let ids = items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect();
        (grant["lease"].as_str().unwrap().to_owned(), ids)
    }

    /// Ends attempts, all alike.
    pub(crate) fn settle(&self, lease: &str, ids: &[String], outcome: &Value) {
        let item = |id: &String| {
            let mut item = outcome.clone();
            item["id"] = json!(id);
            item
        };
        let items: Vec<Value> = ids.iter().map(item).collect();
        let path = format!("/api/v1/leases/{lease}/settle");
        let reply = self.post(&path, &json!({ "items": items }));
        assert_eq!(reply.status, 200, "{}", reply.text);
    }

    /// The lines of a check.
    pub(crate) fn health(&self, check: &str) -> Vec<Value> {
        let health = self.get("/api/v1/health").json();
        let checks = health["checks"].as_array().unwrap();
        checks.iter().filter(|line| line["check"] == check).cloned().collect()
    }

    /// Waits until a check has a colour, and gives its first line.
    pub(crate) fn until(&self, check: &str, status: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self.health(check).remove(0);
            if line["status"] == status {
                return line;
            }
            assert!(Instant::now() < end, "{line} does not turn {status}");
            // A claim where nothing ever comes is a clock that the server has anyway.
            let claim = json!({"queues": ["nowhere"], "worker": "clock", "wait_ms": 100});
            self.post("/api/v1/claims", &claim);
        }
    }
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Reply {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}
