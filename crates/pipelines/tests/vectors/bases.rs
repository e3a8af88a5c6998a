//! Where vectors are, for tests: in memory, in a database, or in a Qdrant that somebody runs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::future::BoxFuture;
use tokio::runtime::{Handle, Runtime};
use windrow_pipelines::adapters::vectors::Vectors;
use windrow_pipelines::adapters::vectors::built_in::BuiltIn;
use windrow_pipelines::adapters::vectors::pgvector::{Options, PgVector};
use windrow_pipelines::adapters::vectors::qdrant::{self, Qdrant};
use windrow_pipelines::postgres::Connect;
use windrow_testkit::servers::{Durability, Postgres as Process, Version};

/// A place for one store.
pub(crate) trait Base: Send + Sync {
    /// Opens the store, also a second time, as another server would.
    fn open(&self) -> BoxFuture<'_, anyhow::Result<Arc<dyn Vectors>>>;
}

/// Where everything of a store lives.
pub(crate) fn runtime() -> Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime")).handle().clone()
}

/// One store in memory, which all who open it share.
#[derive(Default)]
pub(crate) struct Memory {
    store: Arc<BuiltIn>,
}

impl Base for Memory {
    fn open(&self) -> BoxFuture<'_, anyhow::Result<Arc<dyn Vectors>>> {
        Box::pin(async { Ok(Arc::clone(&self.store) as _) })
    }
}

/// A server that starts when the first case needs it.
#[derive(Default)]
pub(crate) struct Server {
    process: Mutex<Option<Arc<Process>>>,
    databases: AtomicU32,
}

impl Server {
    pub(crate) fn process(&self) -> anyhow::Result<Arc<Process>> {
        let mut process = self.process.lock().expect("nobody panicked with it");
        if let Some(process) = &*process {
            return Ok(Arc::clone(process));
        }
        let settings = ["max_connections=300"];
        let started = Arc::new(Process::start_with(Version::V18, Durability::Off, &settings)?);
        Ok(Arc::clone(process.insert(started)))
    }

    /// An empty database.
    pub(crate) fn database(&self) -> anyhow::Result<Database> {
        let process = self.process()?;
        let name = format!("vectors_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        process.create_database(&name)?;
        Ok(Database { process, name })
    }
}

/// A database of the server.
pub(crate) struct Database {
    pub(crate) process: Arc<Process>,
    pub(crate) name: String,
}

impl Database {
    pub(crate) fn psql(&self, sql: &str) -> anyhow::Result<String> {
        Ok(self.process.psql(&self.name, sql)?.trim().to_owned())
    }

    pub(crate) fn url(&self) -> String {
        self.process.url(&self.name)
    }
}

pub(crate) fn options(url: &str) -> anyhow::Result<Options> {
    let mut options = Options::new(Connect::plain(url)?);
    options.database.connections = 12;
    Ok(options)
}

impl Base for Database {
    fn open(&self) -> BoxFuture<'_, anyhow::Result<Arc<dyn Vectors>>> {
        Box::pin(async { Ok(Arc::new(PgVector::open(options(&self.url())?).await?) as _) })
    }
}

/// A Qdrant that runs somewhere.
pub(crate) struct Running {
    url: String,
    cases: AtomicU32,
}

impl Running {
    const VARIABLE: &str = "WINDROW_TEST_QDRANT_URL";
    pub(crate) const MISSING: &str =
        "set WINDROW_TEST_QDRANT_URL to one whose contents are worth nothing";

    /// The one that the environment names.
    pub(crate) fn named() -> Option<Running> {
        let url = std::env::var(Running::VARIABLE).ok()?;
        Some(Running { url, cases: AtomicU32::new(0) })
    }

    /// Names that no other case uses. What is called so stays behind.
    pub(crate) fn collections(&self) -> Collections {
        let case = self.cases.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("windrow-test-{}-{case}", std::process::id());
        Collections { url: self.url.clone(), prefix }
    }
}

/// Collections of a Qdrant.
pub(crate) struct Collections {
    url: String,
    prefix: String,
}

impl Base for Collections {
    fn open(&self) -> BoxFuture<'_, anyhow::Result<Arc<dyn Vectors>>> {
        Box::pin(async {
            let mut options = qdrant::Options::new(self.url.clone(), "test@1");
            options.prefix = self.prefix.clone();
            Ok(Arc::new(Qdrant::new(options)?) as _)
        })
    }
}
