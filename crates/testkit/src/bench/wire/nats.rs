//! NATS JetStream: a work queue with a pull consumer. A batch is published atomically, as its newer
//! servers have it, and answered once; a claim pulls many; acknowledgements have no batch and are
//! sent in one write, each confirmed.

use std::io::Write as _;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

const CONSUMER: &str = "workers";

#[derive(Debug)]
pub(super) struct Nats {
    stream: BufReader<TcpStream>,
    queue: String,
    /// Where its answers arrive.
    inbox: String,
    batches: u64,
    out: Vec<u8>,
    held: Vec<String>,
}

/// What arrived.
struct Message {
    reply: String,
    /// The status of a message without content, such as 404 for nothing to pull.
    status: Option<u16>,
    body: Vec<u8>,
}

impl Nats {
    pub(super) async fn connect(port: u16, queue: &str, worker: usize) -> anyhow::Result<Nats> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let mut client = Nats {
            stream: BufReader::with_capacity(1 << 16, stream),
            queue: queue.to_owned(),
            inbox: format!("_INBOX.{queue}.{worker}"),
            batches: 0,
            out: Vec::new(),
            held: Vec::new(),
        };
        let said = client.line().await?;
        ensure!(said.starts_with("INFO "), "NATS says {said}");
        let options = json!({ "verbose": false, "pedantic": false, "headers": true,
            "no_responders": true, "lang": "rust", "version": "0" });
        write!(client.out, "CONNECT {options}\r\nSUB {} 1\r\nPING\r\n", client.inbox)?;
        client.send().await?;
        let said = client.line().await?;
        ensure!(said == "PONG", "NATS says {said}");
        Ok(client)
    }

    /// Makes the stream and its consumer.
    pub(super) async fn prepare(&mut self) -> anyhow::Result<()> {
        let queue = self.queue.clone();
        let stream = json!({ "name": queue, "subjects": [queue], "retention": "workqueue",
            "storage": "file", "allow_atomic": true, "discard": "new" });
        self.ask(&format!("$JS.API.STREAM.CREATE.{queue}"), &stream).await?;
        let config = json!({ "durable_name": CONSUMER, "ack_policy": "explicit",
            "ack_wait": 300_000_000_000_u64, "max_ack_pending": 100_000 });
        let consumer = json!({ "stream_name": queue, "config": config });
        let subject = format!("$JS.API.CONSUMER.DURABLE.CREATE.{queue}.{CONSUMER}");
        self.ask(&subject, &consumer).await.map(drop)
    }

    async fn ask(&mut self, subject: &str, body: &Value) -> anyhow::Result<Value> {
        let body = body.to_string();
        write!(self.out, "PUB {subject} {} {}\r\n{body}\r\n", self.inbox, body.len())?;
        self.send().await?;
        answer(&self.message().await?)
    }

    pub(super) async fn enqueue(&mut self, payloads: &[Vec<u8>]) -> anyhow::Result<()> {
        if let [payload] = payloads {
            write!(self.out, "PUB {} {} {}\r\n", self.queue, self.inbox, payload.len())?;
            self.out.extend_from_slice(payload);
            self.out.extend_from_slice(b"\r\n");
            self.send().await?;
            return answer(&self.message().await?).map(drop);
        }
        self.batches += 1;
        let id = format!("{}.{}", self.inbox, self.batches);
        for (at, payload) in payloads.iter().enumerate() {
            let is_last = at + 1 == payloads.len();
            let (reply, commit) = match is_last {
                true => (format!("{} ", self.inbox), "Nats-Batch-Commit: 1\r\n"),
                false => (String::new(), ""),
            };
            let head = format!(
                "NATS/1.0\r\nNats-Batch-Id: {id}\r\nNats-Batch-Sequence: {}\r\n{commit}\r\n",
                at + 1
            );
            let all = head.len() + payload.len();
            write!(self.out, "HPUB {} {reply}{} {all}\r\n{head}", self.queue, head.len())?;
            self.out.extend_from_slice(payload);
            self.out.extend_from_slice(b"\r\n");
        }
        self.send().await?;
        let told = answer(&self.message().await?)?;
        ensure!(told["count"] == payloads.len(), "NATS took {told}");
        Ok(())
    }

    pub(super) async fn take(&mut self, max: usize) -> anyhow::Result<usize> {
        let body = json!({ "batch": max, "no_wait": true }).to_string();
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{CONSUMER}", self.queue);
        write!(self.out, "PUB {subject} {} {}\r\n{body}\r\n", self.inbox, body.len())?;
        self.send().await?;
        while self.held.len() < max {
            let message = self.message().await?;
            match message.status {
                None => self.held.push(message.reply),
                // Nothing, or nothing more, is there.
                Some(404 | 408) => break,
                Some(status) => bail!("NATS says {status}"),
            }
        }
        Ok(self.held.len())
    }

    pub(super) async fn settle(&mut self) -> anyhow::Result<usize> {
        let held = std::mem::take(&mut self.held);
        for ack in &held {
            write!(self.out, "PUB {ack} {} 4\r\n+ACK\r\n", self.inbox)?;
        }
        self.send().await?;
        for _ in &held {
            ensure!(self.message().await?.status.is_none(), "an acknowledgement was not taken");
        }
        Ok(held.len())
    }

    async fn send(&mut self) -> anyhow::Result<()> {
        self.stream.get_mut().write_all(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        let mut line = Vec::new();
        ensure!(self.stream.read_until(b'\n', &mut line).await? > 0, "the connection ended");
        Ok(std::str::from_utf8(&line)?.trim_end().to_owned())
    }

    /// The next message; pings on the way are answered.
    async fn message(&mut self) -> anyhow::Result<Message> {
        loop {
            let line = self.line().await?;
            let words: Vec<&str> = line.split(' ').collect();
            let (head_bytes, bytes, reply) = match words[..] {
                ["PING"] => {
                    self.stream.get_mut().write_all(b"PONG\r\n").await?;
                    continue;
                }
                ["MSG", _, _, bytes] => (0, bytes, ""),
                ["MSG", _, _, reply, bytes] => (0, bytes, reply),
                ["HMSG", _, _, head, bytes] => (head.parse()?, bytes, ""),
                ["HMSG", _, _, reply, head, bytes] => (head.parse()?, bytes, reply),
                _ => bail!("NATS says {line}"),
            };
            let mut body = vec![0; bytes.parse::<usize>()? + 2];
            self.stream.read_exact(&mut body).await?;
            body.truncate(body.len() - 2);
            let content = body.split_off(head_bytes);
            let status = std::str::from_utf8(&body)?.strip_prefix("NATS/1.0 ");
            let status = status.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            return Ok(Message { reply: reply.to_owned(), status, body: content });
        }
    }
}

/// What the JetStream API says, if it is no error.
fn answer(message: &Message) -> anyhow::Result<Value> {
    ensure!(message.status.is_none(), "NATS says {:?}", message.status);
    let said: Value = serde_json::from_slice(&message.body).context("an answer in JSON")?;
    ensure!(said.get("error").is_none(), "NATS says {said}");
    Ok(said)
}
