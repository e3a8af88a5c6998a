//! beanstalkd: it has no batches, so its commands are sent in one write and answered in one read.

use std::io::Write as _;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(super) struct Beanstalkd {
    stream: BufReader<TcpStream>,
    out: Vec<u8>,
    held: Vec<u64>,
}

impl Beanstalkd {
    pub(super) async fn connect(port: u16, tube: &str) -> anyhow::Result<Beanstalkd> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let stream = BufReader::with_capacity(1 << 16, stream);
        let mut client = Beanstalkd { stream, out: Vec::new(), held: Vec::new() };
        write!(client.out, "use {tube}\r\nwatch {tube}\r\nignore default\r\n")?;
        client.send().await?;
        for want in ["USING", "WATCHING", "WATCHING"] {
            let said = client.line().await?;
            ensure!(said.starts_with(want), "beanstalkd says {said}");
        }
        Ok(client)
    }

    pub(super) async fn enqueue(&mut self, payloads: &[Vec<u8>]) -> anyhow::Result<()> {
        for payload in payloads {
            write!(self.out, "put 5 0 300 {}\r\n", payload.len())?;
            self.out.extend_from_slice(payload);
            self.out.extend_from_slice(b"\r\n");
        }
        self.send().await?;
        for _ in payloads {
            let said = self.line().await?;
            ensure!(said.starts_with("INSERTED "), "beanstalkd says {said}");
        }
        Ok(())
    }

    pub(super) async fn take(&mut self, max: usize) -> anyhow::Result<usize> {
        for _ in 0..max {
            self.out.extend_from_slice(b"reserve-with-timeout 0\r\n");
        }
        self.send().await?;
        for _ in 0..max {
            let said = self.line().await?;
            if said == "TIMED_OUT" {
                continue;
            }
            let mut words = said.split(' ');
            let (word, id, bytes) = (words.next(), words.next(), words.next());
            ensure!(word == Some("RESERVED"), "beanstalkd says {said}");
            self.held.push(id.context("a job has an id")?.parse()?);
            let bytes: usize = bytes.context("a job has a length")?.parse()?;
            self.stream.read_exact(&mut vec![0; bytes + 2]).await?;
        }
        Ok(self.held.len())
    }

    pub(super) async fn settle(&mut self) -> anyhow::Result<usize> {
        let held = std::mem::take(&mut self.held);
        for id in &held {
            write!(self.out, "delete {id}\r\n")?;
        }
        self.send().await?;
        for _ in &held {
            let said = self.line().await?;
            ensure!(said == "DELETED", "beanstalkd says {said}");
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
}
