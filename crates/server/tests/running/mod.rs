//! The real binary, running for a test, and what it answers byte by byte.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
pub(crate) use windrow_testkit::servers::listening::Data;
use windrow_testkit::servers::listening::Listening;

/// How long the server may take before it is said to hang.
pub(crate) const HANGS_AFTER: Duration = Duration::from_secs(10);

/// A running server with a data directory of its own.
pub(crate) struct Server {
    pub(crate) process: Listening,
    pub(crate) address: String,
    _data: Data,
}

impl Server {
    pub(crate) fn start(test: &str) -> Server {
        Server::with(test, &[])
    }

    /// With variables of its environment.
    pub(crate) fn with(test: &str, variables: &[(&str, &str)]) -> Server {
        let data = Data::new(test);
        let place = data.0.to_str().unwrap().to_owned();
        Server::at(&["--data-dir", &place], variables, data)
    }

    /// With its store somewhere else than in the directory that goes with it.
    pub(crate) fn at(place: &[&str], variables: &[(&str, &str)], data: Data) -> Server {
        Server::on("127.0.0.1:0", place, variables, data)
    }

    /// At an address, such as the one that another had.
    pub(crate) fn on(
        listen: &str,
        place: &[&str],
        variables: &[(&str, &str)],
        data: Data,
    ) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
        command.args(["serve", "--listen", listen]).args(place);
        if !place.contains(&"--rpc-listen") {
            // Not the port beside it, which a test at the same time may have got.
            command.args(["--rpc-listen", "127.0.0.1:0"]);
        }
        let process = Listening::start(command.envs(variables.iter().copied())).unwrap();
        let address = process.address.clone();
        Server { process, address, _data: data }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.child.try_wait().unwrap().is_none()
    }

    /// A request that nothing is wrong with.
    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Reply {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: \
             application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let mut replies = exchange(&self.address, request.as_bytes(), false);
        assert_eq!(replies.len(), 1, "{method} {path}");
        replies.remove(0)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &Value::Null)
    }
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// In lower case, without the status line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    }
}

/// Sends bytes, closes its side if asked to, and reads every answer until the server closes.
pub(crate) fn exchange(address: &str, bytes: &[u8], close: bool) -> Vec<Reply> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANGS_AFTER)).unwrap();
    // A server that has seen enough does not take the rest.
    let _refused = stream.write_all(bytes);
    if close {
        let _gone = stream.shutdown(Shutdown::Write);
    }
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            panic!("the server hangs after {:?}", String::from_utf8_lossy(bytes))
        }
        // Reset after its answer, because there was more to read.
        Err(_) => {}
    }
    replies(&all)
}

/// Takes apart what came back.
fn replies(mut bytes: &[u8]) -> Vec<Reply> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let end = find(bytes, b"\r\n\r\n").unwrap_or_else(|| panic!("half an answer: {text:?}"));
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let (first, head) = head.split_once("\r\n").unwrap_or((&head, ""));
        let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
        let mut reply = Reply {
            status: status.unwrap_or_else(|| panic!("no status: {text:?}")),
            head: head.replace("\r\n", "\n"),
            body: Vec::new(),
        };
        bytes = &bytes[end + 4..];
        if reply.status == 100 {
            continue;
        }
        let length = reply.header("content-length").and_then(|text| text.parse().ok());
        let length: usize = length.unwrap_or(0).min(bytes.len());
        reply.body = bytes[..length].to_vec();
        bytes = &bytes[length..];
        replies.push(reply);
    }
    replies
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
