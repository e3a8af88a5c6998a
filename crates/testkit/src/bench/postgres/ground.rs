//! The ground: one PostgreSQL server for everybody, with its default durability.

use std::sync::OnceLock;

use anyhow::{Context as _, ensure};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use super::{Asked, peers};
use crate::servers::{Durability, Postgres, Version};

/// For everybody. Durability stays as PostgreSQL ships it.
const SETTINGS: [&str; 3] = ["shared_buffers=1GB", "max_wal_size=4GB", "max_connections=200"];
/// What makes an acknowledgement mean that it is on the disk.
const DURABLE: [&str; 3] = ["fsync", "synchronous_commit", "full_page_writes"];

#[derive(Debug)]
pub(super) struct Ground {
    pub(super) runtime: Runtime,
    pub(super) quick: bool,
    pub(super) pinned_minutes: f64,
    /// Submits that an engine has under way at once.
    pub(super) width: usize,
    /// Without them, their rows lack figures and their bars are missed.
    pub(super) has_peers: bool,
    /// How the bare loop claims, once that was tried.
    pub(super) bare_claims: OnceLock<[usize; 2]>,
    server: Postgres,
}

impl Ground {
    pub(super) fn new(asked: &Asked) -> anyhow::Result<Ground> {
        let version = match asked.version {
            Some(version) => version,
            None if Version::V18.is_here() => Version::V18,
            None => Version::V15,
        };
        let server = Postgres::start_with(version, Durability::Real, &SETTINGS)?;
        for setting in DURABLE {
            let is = server.psql("postgres", &format!("show {setting}"))?;
            ensure!(is == "on", "{setting} is {is}");
        }
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(threads).enable_all().build()?;
        let bare_claims = OnceLock::new();
        let missing = if asked.peers { peers::missing() } else { Some("not asked for".into()) };
        if let Some(why) = &missing {
            eprintln!("PEERS SKIPPED: {why}; their checks are not met");
        }
        Ok(Ground {
            runtime,
            quick: asked.common.quick,
            pinned_minutes: asked.pinned_minutes,
            width: asked.width,
            has_peers: missing.is_none(),
            bare_claims,
            server,
        })
    }

    pub(super) fn url(&self, database: &str) -> String {
        self.server.url(database)
    }

    /// A new, empty database; whatever had its name is gone.
    pub(super) fn fresh(&self, database: &str) -> anyhow::Result<()> {
        self.server
            .psql("postgres", &format!("drop database if exists {database} with (force)"))?;
        self.server.create_database(database)
    }

    /// One statement, outside of any transaction; its rows as lines.
    pub(super) fn sql(&self, database: &str, statement: &str) -> anyhow::Result<String> {
        self.server.psql(database, statement)
    }

    /// A number that a statement gives.
    pub(super) fn count(&self, database: &str, statement: &str) -> anyhow::Result<u64> {
        let text = self.sql(database, statement)?;
        text.parse().with_context(|| format!("`{text}` is no number"))
    }

    /// After loading: what the planner wants to know is known, and nothing is left to write.
    pub(super) fn settle_down(&self, database: &str) -> anyhow::Result<()> {
        self.sql(database, "vacuum (analyze)")?;
        self.sql(database, "checkpoint")?;
        Ok(())
    }

    pub(super) async fn connect(url: &str) -> anyhow::Result<Client> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(async move {
            // Whoever uses it is told the same by its next query.
            let _ended = connection.await;
        });
        Ok(client)
    }

    pub(super) fn rounds(&self) -> usize {
        if self.quick { 3 } else { 7 }
    }

    /// How long one round lasts.
    pub(super) fn seconds(&self) -> f64 {
        if self.quick { 0.5 } else { 1.0 }
    }

    /// A number of items, a tenth of it if somebody is in a hurry.
    pub(super) fn items(&self, items: u64) -> u64 {
        if self.quick { items / 10 } else { items }
    }

    /// Tells whoever watches what is going on.
    pub(super) fn say(&self, what: &str) {
        eprintln!("  {what}");
    }
}
