//! A running server, and how a test talks to it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A data directory that goes with the test.
pub(crate) struct Data(PathBuf);

impl Data {
    pub(crate) fn new(test: &str) -> Data {
        let name = format!("windrow-happen-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Data(path)
    }

    pub(crate) fn start(&self) -> Server {
        Server::start(&["--data-dir", self.0.to_str().unwrap()])
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        // What is left in the temporary directory is not this test's failure.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) struct Server {
    child: Child,
    address: String,
}

impl Server {
    pub(crate) fn start(store: &[&str]) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_windrow"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(store)
            .env("WINDROW_WEBHOOKS__ALLOW", "127.0.0.1")
            .env("WINDROW_WEBHOOKS__TIMEOUT_MS", "2000")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("http://") {
            let read = stderr.read_line(&mut said).unwrap();
            assert!(read > 0, "it said {said:?}");
        }
        // Whatever else it says goes where the test's own words go.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::stderr()));
        let address = said.split("http://").nth(1).and_then(|rest| rest.split(',').next());
        Server { child, address: address.unwrap().to_owned() }
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
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }

    /// Dies without a word.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have stopped already.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
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
