//! Empty PostgreSQL stores for tests, one database per thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::runtime::Runtime;
use windrow_store::postgres::{Options, Postgres as Store};

use super::postgres::{Durability, Postgres, Version};

/// A server, and the runtime in which connections to it live.
#[derive(Debug)]
pub struct Stores {
    server: Postgres,
    runtime: Runtime,
    version: Version,
    databases: AtomicU32,
}

thread_local! {
    /// The database of this thread on each version.
    static DATABASES: RefCell<HashMap<String, String>> = RefCell::default();
}

impl Stores {
    pub fn start(version: Version) -> anyhow::Result<Stores> {
        let server = Postgres::start(version, Durability::Off)?;
        let runtime = Runtime::new()?;
        Ok(Stores { server, runtime, version, databases: AtomicU32::new(0) })
    }

    /// An empty store. The one that this thread had before is gone.
    pub fn open(&self) -> anyhow::Result<Store> {
        self.psql("drop schema if exists windrow cascade")?;
        self.open_again()
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
        let mut options = Options::new(self.url()?);
        options.accept_no_fsync = true;
        options.keeps_time = false;
        Ok(options)
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
        self.server.psql(database, sql)
    }

    /// The name of the database of this thread.
    pub fn database(&self) -> anyhow::Result<String> {
        let version = self.version.to_string();
        let known = DATABASES.with_borrow(|known| known.get(&version).cloned());
        if let Some(name) = known {
            return Ok(name);
        }
        let name = format!("store_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.server.create_database(&name)?;
        DATABASES.with_borrow_mut(|known| known.insert(version, name.clone()));
        Ok(name)
    }
}
