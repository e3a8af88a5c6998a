//! The real binary on a real socket, and bytes that are sent to it.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
pub(crate) use windrow_testkit::servers::listening::Data;
use windrow_testkit::servers::listening::Listening;

/// A running server.
pub(crate) struct Server {
    process: Listening,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(place: &[impl AsRef<OsStr>]) -> Server {
        let mut command = windrow(&["serve", "--listen", "127.0.0.1:0"]);
        let process = Listening::start(command.args(place)).unwrap();
        let address = process.address.clone();
        Server { process, address }
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Reply {
        let mut stream = self.open(method, path, headers, body.len());
        stream.write_all(body).unwrap();
        Reply::read(&mut stream)
    }

    /// Sends the beginning of a request that announces so many bytes.
    pub(crate) fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        length: usize,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let request = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}\
             content-length: {length}\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        let body = body.to_string();
        self.send("POST", path, &["content-type: application/json"], body.as_bytes())
    }

    pub(crate) fn begin(&self, bytes: usize, sha256: Option<&str>) -> String {
        let reply = self.post("/blobs", &json!({"length": bytes, "sha256": sha256}));
        assert_eq!(reply.status, 201, "{}", reply.text());
        let upload = reply.json()["upload"].as_str().unwrap().to_owned();
        let path = format!("/blobs/uploads/{upload}");
        assert_eq!(reply.header("location"), Some(format!("/api/v1{path}")));
        path
    }

    pub(crate) fn patch(&self, upload: &str, offset: usize, bytes: &[u8]) -> Reply {
        self.send("PATCH", upload, &[&format!("upload-offset: {offset}")], bytes)
    }

    pub(crate) fn enqueue(&self, item: &Value) -> String {
        let reply = self.post("/queues/q/items", item);
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn claim(&self) -> (String, Value) {
        let reply = self.post("/claims", &json!({"queues": ["q"], "worker": "w"}));
        assert_eq!(reply.status, 200, "{}", reply.text());
        let grant = reply.json();
        let lease = grant["lease"].as_str().unwrap_or_else(|| panic!("no work")).to_owned();
        (lease, grant["items"][0].clone())
    }

    pub(crate) fn complete(&self, lease: &str, id: &str) {
        let done = json!({"items": [{"id": id, "outcome": "complete"}]});
        let reply = self.post(&format!("/leases/{lease}/settle"), &done);
        assert_eq!(reply.json()[0]["ending"], "completed", "{}", reply.text());
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(mut self) {
        self.process.kill();
    }
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn read(stream: &mut TcpStream) -> Reply {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let end = all.windows(4).position(|at| at == b"\r\n\r\n").expect("an answer");
        let head = String::from_utf8(all[..end].to_vec()).unwrap().to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head, body: all.split_off(end + 4) }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let begins = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&begins)).map(str::to_owned)
    }

    /// A problem with this status and code.
    #[track_caller]
    pub(crate) fn is(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.json()["code"], code, "{}", self.text());
    }
}

pub(crate) fn windrow(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Bytes that do not repeat soon.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    let mut state = 7_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(next).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
