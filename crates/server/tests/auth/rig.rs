//! A real server on a real socket, and tokens for it.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
pub(crate) use windrow_testkit::servers::listening::Data;
use windrow_testkit::servers::listening::Listening;

/// Where a store in a directory is, as flags.
pub(crate) fn store_in(data: &Data) -> [String; 2] {
    ["--data-dir".into(), data.0.join("store").to_str().unwrap().into()]
}

pub(crate) fn windrow(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.args(arguments).stdin(Stdio::null());
    command.env_remove("WINDROW_TOKEN").env_remove("WINDROW_AUTH__TOKEN_FILE");
    command
}

pub(crate) fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Makes a token in the store itself, which no server has open, and gives its text.
#[track_caller]
pub(crate) fn create(store: &[String], arguments: &[&str]) -> String {
    let mut command = windrow(&["token", "create"]);
    let output = command.args(store).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let token = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert!(token.starts_with("wr_"), "{token}");
    token
}

pub(crate) fn id(token: &str) -> &str {
    token.split('_').nth(1).unwrap()
}

/// A running server.
pub(crate) struct Server {
    process: Listening,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(store: &[String]) -> Server {
        Server::start_with(store, &["--listen", "127.0.0.1:0"], &[])
    }

    pub(crate) fn start_with(
        store: &[String],
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Server {
        let mut command = windrow(&["serve"]);
        command.args(flags).args(store).envs(environment.iter().copied());
        let process = Listening::start(&mut command).unwrap();
        let address = process.address.clone();
        Server { process, address }
    }

    pub(crate) fn open(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> TcpStream {
        let token =
            token.map_or(String::new(), |token| format!("authorization: Bearer {token}\r\n"));
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{token}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    pub(crate) fn send(&self, method: &str, path: &str, token: Option<&str>, body: &str) -> Reply {
        Reply::read(&mut self.open(method, path, token, body))
    }

    pub(crate) fn get(&self, path: &str, token: Option<&str>) -> Reply {
        self.send("GET", path, token, "")
    }

    pub(crate) fn post(&self, path: &str, token: Option<&str>, body: &Value) -> Reply {
        self.send("POST", path, token, &body.to_string())
    }

    /// Makes a token over the API.
    #[track_caller]
    pub(crate) fn token(&self, by: Option<&str>, wanted: &Value) -> String {
        let reply = self.post("/api/v1/tokens", by, wanted);
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["token"].as_str().unwrap().to_owned()
    }

    /// Enqueues an item for a tenant, and gives its id.
    #[track_caller]
    pub(crate) fn enqueue(&self, token: &str, tenant: &str) -> String {
        let item = json!({"tenant": tenant, "payload": "a secret of the tenant"});
        let reply = self.post("/api/v1/queues/q/items", Some(token), &item);
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    pub(crate) fn stop(mut self) {
        self.process.stop();
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn read(stream: &mut impl std::io::Read) -> Reply {
        let (mut all, mut some) = (Vec::new(), [0; 65_536]);
        while let Ok(count @ 1..) = stream.read(&mut some) {
            all.extend_from_slice(&some[..count]);
            // What goes on for ever has said enough once it began; the document only names it.
            const ENDLESS: &[u8] = b"content-type: text/event-stream";
            if all.windows(ENDLESS.len()).any(|part| part == ENDLESS) {
                break;
            }
        }
        let all = String::from_utf8(all).unwrap();
        let (head, text) = all.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{all:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, headers: head.to_ascii_lowercase(), text: text.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// A problem with this status and code, which has a page.
    #[track_caller]
    pub(crate) fn is(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        assert!(self.headers.contains("application/problem+json"), "{}", self.headers);
        assert_eq!(self.json()["code"], code);
        let asks = self.headers.contains("www-authenticate: bearer");
        assert_eq!(asks, status == 401, "{}", self.headers);
        let page = format!("{}/../../docs/errors/{code}.md", env!("CARGO_MANIFEST_DIR"));
        assert!(Path::new(&page).is_file(), "{page} is not there");
    }
}
