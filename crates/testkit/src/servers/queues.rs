//! Queues for the queue suite: an engine in this process, and a server that is reached over a wire,
//! each on either store.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::runtime::Runtime;
use windrow_client::{Options as Patience, http, rpc};
use windrow_core::Timestamp;
use windrow_core::ports::Store;
use windrow_core::queue::Queue;
use windrow_engine::{Engine, Limits, SystemClock};
use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::{Embedded, Options, Running};
use windrow_store::postgres::Postgres as PostgresStore;

use super::place::Place;
use super::postgres::{Durability, Postgres, Version};
use super::windrow::{On, Windrow};
use crate::queue_suite::Ground;

/// A queue in this process.
type Local<S> = Engine<S, SystemClock>;

/// Runs an engine on a runtime: it ticks as a server's does.
fn running<S: Store>(runtime: &Runtime, engine: Local<S>) -> Arc<Local<S>> {
    let engine = Arc::new(engine);
    let ticking = Arc::clone(&engine);
    runtime.spawn(async move { ticking.run().await });
    engine
}

/// What an engine on a directory needs. In the order in which it goes.
#[derive(Debug)]
pub struct InDirectory {
    _runtime: Runtime,
    _running: Running,
    _place: Place,
}

pub fn embedded() -> anyhow::Result<Ground<Local<Embedded>, InDirectory>> {
    let (place, runtime) = (Place::new()?, Runtime::new()?);
    let disk = RealDisk::open(place.dir().join("data"))?;
    let options = Options { segment_bytes: 16 << 20, reserve_segments: 1, ..Options::default() };
    let running_store = Embedded::open(Arc::new(disk), options)?.run()?;
    let clock = SystemClock::new(running_store.latest());
    let store = (*running_store).clone();
    let engine = Engine::new(store, clock, Limits::default(), usize::MAX);
    let (queue, handle) = (running(&runtime, engine), runtime.handle().clone());
    let keeps = InDirectory { _runtime: runtime, _running: running_store, _place: place };
    Ok(Ground { queue, runtime: handle, keeps })
}

/// What an engine on a database needs.
#[derive(Debug)]
pub struct OnDatabase {
    _runtime: Runtime,
    _server: Postgres,
}

pub fn postgres(version: Version) -> anyhow::Result<Ground<Local<PostgresStore>, OnDatabase>> {
    let (server, runtime) = (Postgres::start(version, Durability::Off)?, Runtime::new()?);
    server.create_database("queue")?;
    let mut options = windrow_store::postgres::Options::new(server.url("queue"));
    options.accept_no_fsync = true;
    let width = options.connections;
    let store = runtime.block_on(PostgresStore::open(options))?;
    let engine = Engine::new(store, SystemClock::new(Timestamp::ZERO), Limits::default(), width);
    // The engine's connections live where it was made.
    let (queue, handle) = (running(&runtime, engine), runtime.handle().clone());
    Ok(Ground { queue, runtime: handle, keeps: OnDatabase { _runtime: runtime, _server: server } })
}

/// What a client needs: a server, perhaps a database for that, and a runtime of its own.
#[derive(Debug)]
pub struct Served {
    _runtime: Runtime,
    _server: Windrow,
    _database: Option<Postgres>,
}

/// How a client speaks to its server.
pub trait Wired: Queue + Sized {
    fn connect(server: &Windrow) -> anyhow::Result<Self>;
}

impl Wired for http::Client {
    fn connect(server: &Windrow) -> anyhow::Result<Self> {
        Self::new(&server.url(), Patience::default()).context("an address of ours")
    }
}

impl Wired for rpc::Client {
    fn connect(server: &Windrow) -> anyhow::Result<Self> {
        Self::new(&server.rpc_url(), Patience::default()).context("an address of ours")
    }
}

/// A client of the program at a path, on a directory.
pub fn served_embedded<C: Wired>(program: &Path) -> anyhow::Result<Ground<C, Served>> {
    served(Windrow::start(program, On::Directory)?, None)
}

/// The same on a database.
pub fn served_postgres<C: Wired>(
    program: &Path,
    version: Version,
) -> anyhow::Result<Ground<C, Served>> {
    let database = Postgres::start(version, Durability::Real)?;
    database.create_database("queue")?;
    served(Windrow::start(program, On::Database(database.url("queue")))?, Some(database))
}

fn served<C: Wired>(
    server: Windrow,
    database: Option<Postgres>,
) -> anyhow::Result<Ground<C, Served>> {
    let runtime = Runtime::new()?;
    let (queue, handle) = (Arc::new(C::connect(&server)?), runtime.handle().clone());
    let keeps = Served { _runtime: runtime, _server: server, _database: database };
    Ok(Ground { queue, runtime: handle, keeps })
}
