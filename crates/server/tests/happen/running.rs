//! A running server, and how a test talks to it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
pub(crate) use windrow_testkit::servers::listening::Data;
use windrow_testkit::servers::listening::Listening;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    process: Listening,
    address: String,
}

impl Server {
    pub(crate) fn start(store: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(store);
        command.env("WINDROW_WEBHOOKS__ALLOW", "127.0.0.1");
        command.env("WINDROW_WEBHOOKS__TIMEOUT_MS", "2000");
        let process = Listening::start(&mut command).unwrap();
        let address = process.address.clone();
        Server { process, address }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request and leaves its answer to be read.
    pub(crate) fn open(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}\
             content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, Value) {
        let mut all = String::new();
        self.open(method, path, headers, body).read_to_string(&mut all).unwrap();
        let (head, text) = all.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{all:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {all}")))
    }

    /// What a path shows.
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, shown) = self.send("GET", path, "", "");
        assert_eq!(status, 200, "{path}: {shown}");
        shown
    }

    /// Something that works.
    pub(crate) fn done(&self, method: &str, path: &str, body: &Value) -> Value {
        let json = "content-type: application/json\r\n";
        let (status, said) = self.send(method, path, json, &body.to_string());
        assert!((200..300).contains(&status), "{method} {path}: {status} {said}");
        said
    }

    /// Something that is refused, with its code.
    pub(crate) fn refused(&self, method: &str, path: &str, headers: &str, body: &Value) -> String {
        let (status, said) = self.send(method, path, headers, &body.to_string());
        assert!((400..500).contains(&status), "{method} {path}: {status} {said}");
        said["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn enqueue(&self, queue: &str, item: &Value) -> String {
        let said = self.done("POST", &format!("/queues/{queue}/items"), item);
        said["id"].as_str().unwrap().to_owned()
    }

    /// Takes the next item of a queue and completes it.
    pub(crate) fn complete(&self, queue: &str) -> String {
        let claim = serde_json::json!({"queues": [queue], "worker": "w", "wait_ms": 30_000});
        let grant = self.done("POST", "/claims", &claim);
        let id = grant["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{grant}")).to_owned();
        let lease = grant["lease"].as_str().unwrap();
        let done = serde_json::json!({"items": [{"id": id, "outcome": "complete"}]});
        self.done("POST", &format!("/leases/{lease}/settle"), &done);
        id
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) fn stop(&mut self) {
        self.process.stop();
    }

    /// Dies without a word.
    pub(crate) fn kill(mut self) {
        self.process.kill();
    }
}

/// Asks again until there is an answer.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
