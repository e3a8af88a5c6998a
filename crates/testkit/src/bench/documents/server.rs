//! The server, as a bench asks it.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use super::super::http::Line;

/// How often a server is asked whether it is done.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A server by its address.
pub(super) struct Server {
    line: RefCell<Line>,
    /// Files that were added, each of which becomes a document.
    added: Cell<usize>,
}

impl Server {
    pub(super) fn at(url: &str) -> anyhow::Result<Server> {
        Ok(Server { line: RefCell::new(Line::to(url)?), added: Cell::new(0) })
    }

    /// Uploads a file under its name.
    pub(super) fn add(&self, file: &Path) -> anyhow::Result<()> {
        let name = file.file_name().and_then(|name| name.to_str()).context("no name")?;
        self.add_text(name, &std::fs::read(file)?)
    }

    pub(super) fn add_text(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = format!("/api/v1/documents?name={name}");
        let said = self.ask("POST", &path, "application/octet-stream", bytes)?;
        anyhow::ensure!(said["outcome"] == "created", "{name}: {said}");
        self.added.set(self.added.get() + 1);
        Ok(())
    }

    /// Whether every document is live.
    pub(super) fn is_done(&self) -> anyhow::Result<bool> {
        let stats = self.get("/api/v1/queue/stats?queue=documents")?;
        let waiting = |name: &str| stats[name].as_u64().unwrap_or(0);
        anyhow::ensure!(waiting("failed") == 0, "something failed: {stats}");
        Ok(waiting("pending") + waiting("processing") == 0)
    }

    /// Waits until every document is live. Says how many pages there are in all.
    pub(super) fn until_done(&self) -> anyhow::Result<usize> {
        while !self.is_done()? {
            std::thread::sleep(LOOK_EVERY);
        }
        self.pages()
    }

    fn pages(&self) -> anyhow::Result<usize> {
        let (mut pages, mut documents, mut cursor) = (0, 0, String::new());
        loop {
            let path = format!("/api/v1/documents?state=live&limit=200&cursor={cursor}");
            let listed = self.get(&path)?;
            for document in listed["documents"].as_array().context("no documents")? {
                documents += 1;
                pages += document["pages"].as_u64().unwrap_or(0) as usize;
            }
            match listed["next"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
        }
        anyhow::ensure!(documents == self.added.get(), "only {documents} documents are live");
        Ok(pages)
    }

    /// Chunks that there are, and how many of them are embedded.
    pub(super) fn chunks(&self) -> anyhow::Result<(usize, usize)> {
        let stats = self.get("/api/v1/documents/stats")?;
        let rows = stats.as_array().context("no stats")?;
        let of_vectors = rows.iter().filter(|row| row["task_type"] == "vector_chunks");
        let count = |row: &Value| row["count"].as_u64().unwrap_or(0) as usize;
        let all = of_vectors.clone().map(count).sum();
        let done = of_vectors.filter(|row| row["status"] == "completed").map(count).sum();
        Ok((all, done))
    }

    /// Asks a question. Says how many passages were found.
    pub(super) fn search(&self, question: &str) -> anyhow::Result<usize> {
        let found = self.get(&format!("/api/v1/search?q={}", question.replace(' ', "+")))?;
        anyhow::ensure!(found.get("missing").is_none(), "{}", found["missing"]);
        Ok(found["hits"].as_array().map_or(0, Vec::len))
    }

    fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask("GET", path, "application/json", b"")
    }

    fn ask(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> anyhow::Result<Value> {
        let answer = self.line.borrow_mut().ask(method, path, kind, body)?;
        let said = String::from_utf8_lossy(&answer.body);
        let is_well = (200..300).contains(&answer.status);
        anyhow::ensure!(is_well, "{method} {path}: {}: {said}", answer.status);
        serde_json::from_slice(&answer.body).with_context(|| format!("{method} {path}"))
    }
}
