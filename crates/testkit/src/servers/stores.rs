//! Empty PostgreSQL stores for tests, one database per thread.
//!
//! The schema is made once on each server, in a database that nobody else uses. A store is a copy
//! of that, which is new and empty all the same and costs the server less than half as much.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use tokio::runtime::Runtime;
use windrow_store::postgres::{Options, Postgres as Store};

use super::postgres::{Durability, Postgres, Version};
use super::session::Session;

/// A server, and the runtime in which connections to it live.
#[derive(Debug)]
pub struct Stores {
    server: Postgres,
    runtime: Runtime,
    version: Version,
    databases: AtomicU32,
    /// Whether there is a database to copy.
    has_pattern: Mutex<bool>,
}

/// The database that is copied.
const PATTERN: &str = "pattern";
/// Where one is while databases come and go.
const OUTSIDE: &str = "postgres";

thread_local! {
    /// The database of this thread on each version.
    static DATABASES: RefCell<HashMap<String, String>> = RefCell::default();
    /// The sessions of this thread, by their address.
    static SESSIONS: RefCell<HashMap<String, Session>> = RefCell::default();
}

impl Stores {
    pub fn start(version: Version) -> anyhow::Result<Stores> {
        let server = Postgres::start(version, Durability::Off)?;
        let runtime = Runtime::new()?;
        let (databases, has_pattern) = (AtomicU32::new(0), Mutex::new(false));
        Ok(Stores { server, runtime, version, databases, has_pattern })
    }

    /// An empty store. The one that this thread had before is gone.
    pub fn open(&self) -> anyhow::Result<Store> {
        self.ensure_pattern()?;
        let name = self.name();
        self.psql_in(OUTSIDE, &format!("drop database if exists {name} with (force)"))?;
        let copy = format!("create database {name} template {PATTERN} strategy file_copy");
        self.psql_in(OUTSIDE, &copy)?;
        self.remember(name);
        self.open_again()
    }

    fn ensure_pattern(&self) -> anyhow::Result<()> {
        let mut has_pattern = self.has_pattern.lock();
        if !*has_pattern {
            self.server.create_database(PATTERN)?;
            let options = Self::options_of(self.server.url(PATTERN));
            self.runtime.block_on(Store::migrate(&options))?;
            *has_pattern = true;
        }
        Ok(())
    }

    /// One more server on the store that this thread opened.
    pub fn open_again(&self) -> anyhow::Result<Store> {
        Ok(self.runtime.block_on(Store::open(self.options()?))?)
    }

    /// The store that this thread opened, as a move opens it.
    pub fn open_to_move(&self) -> anyhow::Result<Store> {
        Ok(self.runtime.block_on(Store::open_to_move(self.options()?))?)
    }

    /// How the database of this thread is reached.
    pub fn options(&self) -> anyhow::Result<Options> {
        Ok(Self::options_of(self.url()?))
    }

    fn options_of(url: String) -> Options {
        let mut options = Options::new(url);
        options.accept_no_fsync = true;
        options.keeps_time = false;
        options
    }

    /// The server itself.
    pub fn server(&self) -> &Postgres {
        &self.server
    }

    /// The address of this thread's database.
    pub fn url(&self) -> anyhow::Result<String> {
        Ok(self.server.url(&self.database()?))
    }

    /// Where its connections live.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// What the database of this thread says to a statement.
    pub fn psql(&self, sql: &str) -> anyhow::Result<String> {
        self.psql_in(&self.database()?, sql)
    }

    /// The same from any thread.
    pub fn psql_in(&self, database: &str, sql: &str) -> anyhow::Result<String> {
        let url = self.server.url(database);
        let known = SESSIONS.with_borrow_mut(|sessions| sessions.remove(&url));
        let session = match known.filter(|session| !session.is_over()) {
            Some(session) => session,
            None => Session::open(self.runtime.handle(), &url)?,
        };
        let answer = session.ask(sql);
        SESSIONS.with_borrow_mut(|sessions| sessions.insert(url, session));
        answer
    }

    /// The name of the database of this thread.
    pub fn database(&self) -> anyhow::Result<String> {
        let name = self.name();
        if self.known().is_none() {
            self.server.create_database(&name)?;
            self.remember(name.clone());
        }
        Ok(name)
    }

    fn known(&self) -> Option<String> {
        DATABASES.with_borrow(|known| known.get(&self.version.to_string()).cloned())
    }

    /// The name that the database of this thread has, or will have.
    fn name(&self) -> String {
        let next = || format!("store_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.known().unwrap_or_else(next)
    }

    fn remember(&self, name: String) {
        DATABASES.with_borrow_mut(|known| known.insert(self.version.to_string(), name));
    }
}
