//! A server over HTTP/1.1, asked by a thread of a bench: one connection that is kept.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use anyhow::Context as _;
use serde_json::Value;

/// A connection.
pub(super) struct Line {
    address: String,
    reader: BufReader<TcpStream>,
}

/// What was answered.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Line {
    pub(super) fn to(url: &str) -> anyhow::Result<Line> {
        let address = url.strip_prefix("http://").context("no http")?.to_owned();
        let stream = TcpStream::connect(&address)?;
        stream.set_nodelay(true)?;
        Ok(Line { address, reader: BufReader::new(stream) })
    }

    /// Sends a request and reads the whole answer.
    pub(super) fn ask(
        &mut self,
        method: &str,
        path: &str,
        kind: &str,
        body: &[u8],
    ) -> anyhow::Result<Answer> {
        let (status, length) = self.begin(method, path, kind, body)?;
        let mut answered = vec![0; length.context("an answer without its length")?];
        self.reader.read_exact(&mut answered)?;
        Ok(Answer { status, body: answered })
    }

    /// Sends a request and reads the head of the answer: its status, and how long the rest is.
    pub(super) fn begin(
        &mut self,
        method: &str,
        path: &str,
        kind: &str,
        body: &[u8],
    ) -> anyhow::Result<(u16, Option<usize>)> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        let stream = self.reader.get_mut();
        stream.write_all(&[head.as_bytes(), body].concat())?;
        let (mut status, mut length) = (0, None);
        loop {
            let mut line = String::new();
            anyhow::ensure!(self.reader.read_line(&mut line)? > 0, "{method} {path}: no answer");
            let line = line.trim_end();
            if line.is_empty() {
                return Ok((status, length));
            }
            match line.split_once(": ") {
                None => status = line.split(' ').nth(1).context("no status")?.parse()?,
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = Some(value.parse()?);
                }
                Some(_) => {}
            }
        }
    }

    /// Sends JSON to the API and reads JSON; anything but success is an error.
    pub(super) fn call(&mut self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        let answer = self.ask(method, &format!("/api/v1{path}"), "application/json", &bytes)?;
        let said = String::from_utf8_lossy(&answer.body);
        anyhow::ensure!(
            (200..300).contains(&answer.status),
            "{method} {path}: {}: {said}",
            answer.status
        );
        if answer.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer.body).with_context(|| format!("{method} {path}"))
    }

    /// Reads on for as long as there is something, and throws it away.
    pub(super) fn drain(mut self) -> u64 {
        std::io::copy(&mut self.reader, &mut std::io::sink()).unwrap_or_default()
    }

    /// Another hand on the connection, to end it while somebody reads.
    pub(super) fn hand(&self) -> anyhow::Result<TcpStream> {
        Ok(self.reader.get_ref().try_clone()?)
    }
}
