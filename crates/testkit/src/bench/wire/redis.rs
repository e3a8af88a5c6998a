//! Redis Streams: pipelined XADD, XREADGROUP with COUNT, XACK and XDEL of many in one write.

use std::fmt::Write as _;

use anyhow::{Context as _, bail, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

const GROUP: &str = "workers";

/// A connection. It reads its answers to the end before it asks again.
#[derive(Debug)]
pub(super) struct Redis {
    stream: BufReader<TcpStream>,
    queue: String,
    worker: String,
    out: Vec<u8>,
    held: Vec<String>,
}

/// An answer.
#[derive(Debug)]
enum Value {
    Text(Vec<u8>),
    Number(i64),
    Nothing,
    List(Vec<Value>),
}

impl Redis {
    pub(super) async fn connect(port: u16, queue: &str, worker: usize) -> anyhow::Result<Redis> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let (stream, out, held) = (BufReader::with_capacity(1 << 16, stream), vec![], vec![]);
        let (queue, worker) = (queue.to_owned(), format!("w{worker}"));
        Ok(Redis { stream, queue, worker, out, held })
    }

    /// Makes the stream and its group of workers.
    pub(super) async fn prepare(&mut self) -> anyhow::Result<()> {
        let queue = self.queue.clone();
        self.say(&[b"XGROUP", b"CREATE", queue.as_bytes(), GROUP.as_bytes(), b"0", b"MKSTREAM"]);
        self.send().await?;
        self.read().await.map(drop)
    }

    pub(super) async fn enqueue(&mut self, payloads: &[Vec<u8>]) -> anyhow::Result<()> {
        let queue = self.queue.clone();
        for payload in payloads {
            self.say(&[b"XADD", queue.as_bytes(), b"*", b"d", payload]);
        }
        self.send().await?;
        for _ in payloads {
            ensure!(matches!(self.read().await?, Value::Text(_)), "XADD gave no id");
        }
        Ok(())
    }

    pub(super) async fn take(&mut self, max: usize) -> anyhow::Result<usize> {
        let (queue, worker, count) = (self.queue.clone(), self.worker.clone(), max.to_string());
        let read = [&b"XREADGROUP"[..], b"GROUP", GROUP.as_bytes(), worker.as_bytes(), b"COUNT"];
        let from = [count.as_bytes(), b"STREAMS", queue.as_bytes(), b">"];
        self.say(&[&read[..], &from[..]].concat());
        self.send().await?;
        let Value::List(mut streams) = self.read().await? else { return Ok(0) };
        let Some(Value::List(mut stream)) = streams.pop() else { bail!("an odd answer") };
        let Some(Value::List(entries)) = stream.pop() else { bail!("an odd answer") };
        for entry in entries {
            let Value::List(entry) = entry else { bail!("an odd entry") };
            let Some(Value::Text(id)) = entry.into_iter().next() else { bail!("an odd entry") };
            self.held.push(String::from_utf8(id)?);
        }
        Ok(self.held.len())
    }

    pub(super) async fn settle(&mut self) -> anyhow::Result<usize> {
        let (queue, held) = (self.queue.clone(), std::mem::take(&mut self.held));
        let ids = held.iter().map(String::as_bytes);
        let acked = [&b"XACK"[..], queue.as_bytes(), GROUP.as_bytes()].into_iter();
        self.say(&acked.chain(ids.clone()).collect::<Vec<_>>());
        let deleted = [&b"XDEL"[..], queue.as_bytes()].into_iter();
        self.say(&deleted.chain(ids).collect::<Vec<_>>());
        self.send().await?;
        for _ in 0..2 {
            let Value::Number(count) = self.read().await? else { bail!("an odd answer") };
            ensure!(count == held.len() as i64, "{count} of {} were settled", held.len());
        }
        Ok(held.len())
    }

    fn say(&mut self, words: &[&[u8]]) {
        let mut head = String::new();
        let _infallible = write!(head, "*{}\r\n", words.len());
        self.out.extend_from_slice(head.as_bytes());
        for word in words {
            head.clear();
            let _infallible = write!(head, "${}\r\n", word.len());
            self.out.extend_from_slice(head.as_bytes());
            self.out.extend_from_slice(word);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    async fn send(&mut self) -> anyhow::Result<()> {
        self.stream.get_mut().write_all(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    async fn read(&mut self) -> anyhow::Result<Value> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).await?;
        let line = std::str::from_utf8(&line)?.trim_end();
        let (kind, rest) = line.split_at_checked(1).context("the connection ended")?;
        Ok(match kind {
            "+" => Value::Text(rest.as_bytes().to_vec()),
            ":" => Value::Number(rest.parse()?),
            "$" if rest == "-1" => Value::Nothing,
            "*" if rest == "-1" => Value::Nothing,
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>()? + 2];
                self.stream.read_exact(&mut bytes).await?;
                bytes.truncate(bytes.len() - 2);
                Value::Text(bytes)
            }
            "*" => {
                let mut list = Vec::new();
                for _ in 0..rest.parse()? {
                    list.push(Box::pin(self.read()).await?);
                }
                Value::List(list)
            }
            _ => bail!("Redis says {line}"),
        })
    }
}
