//! Where a catalog is, for tests: a file, or a database.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::{Context as _, ensure};
use futures_util::future::BoxFuture;
use libtest_mimic::Trial;
use rusqlite::Connection;
use tokio::runtime::{Handle, Runtime};
use windrow_pipelines::catalog::moving::Moving;
use windrow_pipelines::catalog::postgres::{Connect, Options, is_begun};
use windrow_pipelines::catalog::{Catalog, CatalogError, DocumentFilter, Postgres, Sqlite};
use windrow_testkit::servers::{Durability, Postgres as Process, Stop, Version};

use crate::bed::Bed;

/// A place for one catalog.
pub(crate) trait Base: Send + Sync {
    /// Opens the catalog, also a second time.
    fn open(&self) -> BoxFuture<'_, anyhow::Result<Arc<dyn Catalog>>>;
    /// How many rows each table has, the empty ones and the schema's own left out.
    fn counts(&self) -> anyhow::Result<BTreeMap<String, i64>>;
    /// Where the catalog lives.
    fn runtime(&self) -> Handle;
}

fn runtime() -> Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime")).handle().clone()
}

/// A file in a folder that goes with it.
pub(crate) struct SqliteBase {
    folder: PathBuf,
}

impl SqliteBase {
    pub(crate) fn shared(name: &str) -> Arc<dyn Base> {
        Arc::new(SqliteBase::folder(name))
    }

    pub(crate) fn folder(name: &str) -> SqliteBase {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = name.replace("::", "-");
        let name = format!("windrow-catalog-{}-{next}-{name}", std::process::id());
        SqliteBase { folder: std::env::temp_dir().join(name) }
    }

    /// The catalog in it, to be moved.
    pub(crate) fn moving(&self) -> anyhow::Result<Arc<dyn Moving>> {
        Ok(Arc::new(Sqlite::open(&self.file())?))
    }

    pub(crate) fn handle(&self) -> Handle {
        runtime()
    }

    /// Makes the folder only now: a child that is killed would leave one that it never used.
    pub(crate) fn file(&self) -> PathBuf {
        std::fs::create_dir_all(&self.folder).expect("a folder");
        self.folder.join("catalog.db")
    }
}

impl Drop for SqliteBase {
    fn drop(&mut self) {
        let _left_behind_at_worst = std::fs::remove_dir_all(&self.folder);
    }
}

impl Base for SqliteBase {
    fn open(&self) -> BoxFuture<'_, anyhow::Result<Arc<dyn Catalog>>> {
        Box::pin(async { Ok(Arc::new(Sqlite::open(&self.file())?) as _) })
    }

    fn counts(&self) -> anyhow::Result<BTreeMap<String, i64>> {
        let db = Connection::open(self.file())?;
        // Of what full-text search keeps, one row for each text that it knows.
        let sql = "select name from sqlite_schema where type = 'table' \
             and name not in ('words', 'words_data', 'words_idx', 'words_config', 'counters', \
             'sqlite_sequence')";
        let mut tables = db.prepare(sql)?;
        let tables: Result<Vec<String>, _> = tables.query_map([], |row| row.get(0))?.collect();
        let mut counts = BTreeMap::new();
        for table in tables? {
            let sql = format!("select count(*) from {table}");
            let rows: i64 = db.query_row(&sql, [], |row| row.get(0))?;
            if rows > 0 {
                counts.insert(table, rows);
            }
        }
        Ok(counts)
    }

    fn runtime(&self) -> Handle {
        runtime()
    }
}

/// A server that starts when the first case needs it.
#[derive(Default)]
pub(crate) struct Server {
    process: Mutex<Option<Arc<Process>>>,
    databases: AtomicU32,
}

impl Server {
    fn process(&self) -> anyhow::Result<Arc<Process>> {
        let mut process = self.process.lock().expect("nobody panicked with it");
        if let Some(process) = &*process {
            return Ok(Arc::clone(process));
        }
        let settings = ["max_connections=300"];
        let started = Arc::new(Process::start_with(Version::V15, Durability::Off, &settings)?);
        Ok(Arc::clone(process.insert(started)))
    }

    /// An empty database.
    pub(crate) fn database(&self) -> anyhow::Result<Arc<dyn Base>> {
        Ok(Arc::new(self.named()?))
    }

    /// A catalog in an empty database, to be moved.
    pub(crate) fn moving(&self) -> anyhow::Result<Arc<dyn Moving>> {
        let base = self.named()?;
        let options = options(&base.process.url(&base.name))?;
        Ok(Arc::new(runtime().block_on(Postgres::open(options))?))
    }

    fn named(&self) -> anyhow::Result<PostgresBase> {
        let process = self.process()?;
        let name = format!("catalog_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        process.create_database(&name)?;
        Ok(PostgresBase { process, name })
    }
}

struct PostgresBase {
    process: Arc<Process>,
    name: String,
}

impl PostgresBase {
    fn psql(&self, sql: &str) -> anyhow::Result<String> {
        self.process.psql(&self.name, sql)
    }
}

fn options(url: &str) -> anyhow::Result<Options> {
    Ok(Options { connections: 12, ..Options::new(Connect::plain(url)?) })
}

impl Base for PostgresBase {
    fn open(&self) -> BoxFuture<'_, anyhow::Result<Arc<dyn Catalog>>> {
        Box::pin(async {
            let options = options(&self.process.url(&self.name))?;
            Ok(Arc::new(Postgres::open(options).await?) as _)
        })
    }

    fn counts(&self) -> anyhow::Result<BTreeMap<String, i64>> {
        let sql = "select relname from pg_class \
             where relnamespace = 'windrow_catalog'::regnamespace and relkind = 'r' \
             and relname not in ('migrations', 'counters') order by relname";
        let mut counts = BTreeMap::new();
        for table in self.psql(sql)?.lines() {
            let rows = self.psql(&format!("select count(*) from windrow_catalog.{table}"))?;
            let rows: i64 = rows.trim().parse().context(rows)?;
            if rows > 0 {
                counts.insert(table.to_owned(), rows);
            }
        }
        Ok(counts)
    }

    fn runtime(&self) -> Handle {
        runtime()
    }
}

/// What is special to PostgreSQL.
pub(crate) fn trials(server: &Arc<Server>) -> Vec<Trial> {
    let trial = |name: &str, test: fn(&Server) -> anyhow::Result<()>| {
        let server = Arc::clone(server);
        Trial::test(format!("postgres::{name}"), move || crate::finished(|| test(&server)))
    };
    vec![
        trial("servers_that_start_at_once_migrate_in_turn", start_at_once),
        trial("a_newer_schema_is_refused", newer),
        trial("a_changed_step_is_refused", changed),
        trial("a_server_that_dies_is_transient_and_what_was_answered_is_there", dies),
        trial("what_is_only_left_over_makes_a_catalog_that_is_begun", begun),
        trial("plans_of_the_queue_do_not_keep_words_from_their_index", foreign_plans),
    ]
}

fn start_at_once(server: &Server) -> anyhow::Result<()> {
    let base = server.named()?;
    let url = base.process.url(&base.name);
    runtime().block_on(async {
        let mut starting = Vec::new();
        for _ in 0..8 {
            starting.push(tokio::spawn(Postgres::open(options(&url)?)));
        }
        for started in starting {
            started.await??;
        }
        anyhow::Ok(())
    })?;
    let steps = base.psql("select count(*) from windrow_catalog.migrations")?;
    ensure!(steps.trim() == "1", "{steps}");
    Ok(())
}

fn refused(base: &PostgresBase) -> anyhow::Result<String> {
    let options = options(&base.process.url(&base.name))?;
    match runtime().block_on(Postgres::open(options)) {
        Err(CatalogError::Bad { why }) => Ok(why),
        other => anyhow::bail!("{other:?}"),
    }
}

fn newer(server: &Server) -> anyhow::Result<()> {
    let base = server.named()?;
    runtime().block_on(base.open())?;
    base.psql(
        "insert into windrow_catalog.migrations (number, name, checksum) values (99, 'later', 'x')",
    )?;
    let why = refused(&base)?;
    ensure!(why.contains("step 99 (later)") && why.contains("use a newer one"), "{why}");
    Ok(())
}

fn changed(server: &Server) -> anyhow::Result<()> {
    let base = server.named()?;
    runtime().block_on(base.open())?;
    base.psql("update windrow_catalog.migrations set checksum = 'other'")?;
    let why = refused(&base)?;
    ensure!(why.contains("is not this program's"), "{why}");
    Ok(())
}

/// Nobody removed it from the stores outside.
fn begun(server: &Server) -> anyhow::Result<()> {
    let base = server.named()?;
    runtime().block_on(base.open())?;
    let is_begun = || {
        runtime().block_on(async {
            let url = base.process.url(&base.name);
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            anyhow::Ok(is_begun(&client).await?)
        })
    };
    ensure!(!is_begun()?, "an empty one");
    base.psql(
        "insert into windrow_catalog.leftovers (document, taken) values (gen_random_uuid(), false)",
    )?;
    ensure!(is_begun()?);
    Ok(())
}

/// On a server of its own, which keeps what it acknowledged.
fn dies(_: &Server) -> anyhow::Result<()> {
    let mut process = Process::start(Version::V15, Durability::Real)?;
    process.create_database("dies")?;
    let url = process.url("dies");
    let catalog = runtime().block_on(Postgres::open(options(&url)?))?;
    let catalog: Arc<dyn Catalog> = Arc::new(catalog);
    let bed = Bed::over(Arc::clone(&catalog), SqliteBase::shared("unused"));
    let at = runtime().block_on(bed.ingest("a.md", &["Ada wrote the first program."]));
    process.stop(Stop::Kill)?;
    let gone = runtime().block_on(catalog.documents(DocumentFilter::of("t"), None, 10));
    ensure!(matches!(gone, Err(CatalogError::Transient { .. })), "{gone:?}");
    process.start_again()?;
    let there = runtime().block_on(catalog.documents(DocumentFilter::of("t"), None, 10))?;
    ensure!(there.len() == 1 && there[0].live == Some(at.generation), "{there:?}");
    let found = runtime().block_on(bed.found("program"));
    ensure!(found == ["a.md:1"], "{found:?}");
    Ok(())
}

/// The queue's connections forbid the only plan by which words are found.
fn foreign_plans(server: &Server) -> anyhow::Result<()> {
    let base = server.named()?;
    let url = base.process.url(&base.name);
    let url = format!("{url}?options=-c%20enable_bitmapscan%3Doff%20-c%20enable_seqscan%3Doff");
    runtime().block_on(async {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (plain, log) = (url.clone(), Arc::clone(&asked));
        let connect = Connect::new(move || {
            let (url, log) = (plain.clone(), Arc::clone(&log));
            Box::pin(async move {
                let connected = tokio_postgres::connect(&url, tokio_postgres::NoTls).await;
                let (client, connection) =
                    connected.map_err(|error| CatalogError::Bad { why: error.to_string() })?;
                tokio::spawn(connection);
                let shown = client.query_one("show enable_bitmapscan", &[]).await;
                log.lock().expect("a log").push(shown.map(|row| row.get::<_, String>(0)).ok());
                Ok(client)
            })
        });
        let catalog = Postgres::open(Options { connections: 1, ..Options::new(connect) }).await?;
        let bed = Bed::over(Arc::new(catalog), SqliteBase::shared("unused"));
        bed.ingest("a.md", &["Ada wrote the first program."]).await;
        ensure!(bed.found("program").await == ["a.md:1"]);
        // They came with the plans forbidden, or this proves nothing.
        let asked = asked.lock().expect("a log").clone();
        ensure!(asked == [Some("off".to_owned())], "{asked:?}");
        Ok(())
    })
}
