//! The PostgreSQL store: the same queue when one machine is not enough.
//!
//! A batch is one short transaction: what it needs is locked and loaded onto a desk, the rules
//! decide there, and what changed is written back. Any number of servers share one database.

mod address;
mod alone;
mod blobs;
mod check;
mod config;
mod connector;
mod decided;
mod desk;
mod find;
mod health;
mod held;
mod layer;
mod lead;
mod ledger;
mod line;
mod load;
mod loaded;
mod mark;
mod migrate;
mod moving;
mod names;
mod naming;
mod needs;
mod notify;
mod plain;
mod pool;
mod queries;
mod resources;
mod save;
mod seats;
mod server;
mod submit;
mod tell;
mod tls;
mod trail;
mod tx;
mod vitals;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rand::RngExt as _;
use tokio::sync::mpsc::UnboundedSender;
use tokio_postgres::error::SqlState;
use windrow_core::Timestamp;
use windrow_core::id::{IdSource, SQL_SERVER, StoreTag};
use windrow_core::ports::{Listener, StoreError};

pub use address::Address;
pub use check::Checked;
pub use connector::Connector;
pub use health::Limits as HealthLimits;
pub use migrate::{Applied, MIGRATIONS, Migration, Schema};
pub use moving::receive;
pub use server::Server;

use config::Config;
use held::Held;
use line::Turns;
use names::Names;
use notify::{Came, Task};
use pool::Pool;
use seats::Seats;
use tx::step;

/// A queue in PostgreSQL.
#[derive(Clone)]
pub struct Postgres {
    shared: Arc<Shared>,
}

struct Shared {
    pool: Pool,
    tag: StoreTag,
    names: Arc<RwLock<Names>>,
    config: Mutex<Arc<Config>>,
    seats: Mutex<Seats>,
    held: Mutex<Held>,
    /// How often time was advanced here.
    advanced: AtomicU64,
    /// For so many batches to come, keys are looked up before they are used.
    doubts: AtomicU64,
    /// When a batch was last decided, in milliseconds.
    seen: AtomicU64,
    /// Until when resources that opened by themselves were looked for, in milliseconds.
    opened: AtomicU64,
    turns: Mutex<Turns>,
    ids: Arc<Mutex<IdSource>>,
    /// Which of the servers this is: whose ids it makes, and which counters it adds to.
    server: u8,
    listener: RwLock<Option<Arc<dyn Listener>>>,
    /// What other servers are to be told, and by what they know who says it.
    ready: UnboundedSender<Came>,
    origin: u64,
    watch: Arc<watch::Watch>,
    keeps_time: bool,
    tasks: Mutex<Vec<Task>>,
    /// What is not as it should be, and does not keep the store from opening.
    warnings: Vec<String>,
}

/// Who leads advances time about once a second.
const PARKED_EVERY: u64 = 60;

impl Shared {
    /// The latest time that is known here.
    fn latest(&self) -> Timestamp {
        Timestamp(self.seen.load(Ordering::Relaxed))
    }

    /// Whether new keys are taken to be free. The index says otherwise if they are not.
    fn trusts_keys(&self) -> bool {
        let less = |doubts: u64| doubts.checked_sub(1);
        self.doubts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err()
    }

    /// Every so many times that time is advanced, what is parked is looked at.
    fn looks_at_parked(&self) -> bool {
        self.advanced.fetch_add(1, Ordering::Relaxed) % PARKED_EVERY == PARKED_EVERY - 1
    }

    /// The database's time is taken as it is, also when it was set back: what is done now and then
    /// would otherwise not be done until it has caught up.
    fn saw(&self, now: Timestamp) {
        if self.keeps_time {
            self.seen.store(now.0, Ordering::Relaxed);
        } else {
            self.seen.fetch_max(now.0, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("tag", &self.shared.tag).finish_non_exhaustive()
    }
}

/// Why a step in the database did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}", described(.0))]
    Database(tokio_postgres::Error),
    #[error("a value in the database is not one that this program writes; was it changed by hand?")]
    Malformed,
    #[error(
        "the schema has step {number} ({name}), which this program does not know; \
         use a newer windrow"
    )]
    NewerSchema { number: i32, name: String },
    #[error(
        "step {number} ({name}) of the schema is not the one this program knows; \
         the schema was changed by hand, or by a version that was never released"
    )]
    OtherSchema { number: i32, name: String },
    #[error("the address is not one of PostgreSQL: {0}")]
    Address(String),
    #[error(
        "PostgreSQL cannot be reached at {address}: {why}; see that it runs there, that it listens \
         for connections from here, and that sslmode fits"
    )]
    Unreachable { address: String, why: String },
    #[error("PostgreSQL at {address} asks for a password; write it into the address or PGPASSWORD")]
    NoPassword { address: String },
    #[error(
        "all {connections} connections to PostgreSQL were in use for {} s; allow more of them, or \
         ask less at once",
        .waited.as_secs()
    )]
    Busy { connections: usize, waited: Duration },
    #[error("there is no store in {address}; `windrow migrate` makes an empty one")]
    NoStore { address: String },
    #[error("the schema in {address} lacks {steps}; run `windrow migrate` first")]
    OlderSchema { address: String, steps: String },
    #[error(
        "a move into {address} was not finished; run the same `windrow move` again, or give it up \
         with `drop schema if exists windrow, windrow_catalog cascade`"
    )]
    HalfMoved { address: String },
    #[error("servers are at work on {address}; stop the servers, and a pooler if they use one")]
    Served { address: String },
    #[error("the server runs with fsync = off, which loses acknowledged work; switch it on")]
    NotDurable,
    /// Tried again once they have numbers.
    #[error("a lane has no number yet")]
    Unnumbered,
    /// Tried again, with everything read.
    #[error("an item changed meanwhile")]
    Changed,
    #[error("a batch could not be decided: it kept asking for more; send it in smaller parts")]
    Endless,
}

/// Not as a source: all that the database said is in the words of [`Error::Database`].
impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Error {
        Error::Database(error)
    }
}

/// What the database says, with its own words first.
fn described(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => {
            let mend = match *said.code() {
                SqlState::INSUFFICIENT_PRIVILEGE => {
                    "; let the owner of the schema run `windrow migrate` and give this role the \
                     grants that stand in docs/operating/postgres.md (#the-schema)"
                }
                SqlState::INVALID_CATALOG_NAME => "; `createdb` makes it",
                _ => "",
            };
            format!("PostgreSQL says: {} ({}){mend}", said.message(), said.code().code())
        }
        None => match std::error::Error::source(error) {
            Some(cause) => format!("PostgreSQL: {error}: {cause}"),
            None => format!("PostgreSQL: {error}"),
        },
    }
}

impl Error {
    /// Whether the same may work if it is tried again: another server was at the same.
    fn is_conflict(&self) -> bool {
        let Error::Database(error) = self else { return false };
        let conflicts = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::UNIQUE_VIOLATION,
        ];
        error.code().is_some_and(|code| conflicts.contains(code))
    }

    /// Whether somebody else has a key, an id or a request already.
    fn is_double(&self) -> bool {
        let Error::Database(error) = self else { return false };
        error.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// Whether another server gave out the same id.
    fn is_of_id(&self) -> bool {
        let Error::Database(error) = self else { return false };
        let constraint = error.as_db_error().and_then(|error| error.constraint());
        constraint.is_some_and(|name| name == "bodies_pkey" || name == "items_pkey")
    }

    /// Whether the server itself said so.
    fn is_from_server(&self) -> bool {
        matches!(self, Error::Database(error) if error.as_db_error().is_some())
    }

    /// Whether the connection is gone. What was not sent to be committed is gone with it.
    fn is_lost_connection(&self) -> bool {
        let Error::Database(error) = self else { return false };
        let ended = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN];
        error.is_closed() || error.code().is_some_and(|code| ended.contains(code))
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> StoreError {
        StoreError::NotApplied(error.to_string())
    }
}

/// How a store is reached.
#[derive(Clone)]
pub struct Options {
    /// `postgres://user:password@host:port/database`, with the parameters of [`Address`].
    pub url: String,
    /// The most connections, unless the address says otherwise. One more listens.
    pub connections: usize,
    /// How long a batch waits for one of them; 30 s if not said.
    pub wait: Option<Duration>,
    /// What the database shows as the name of the program.
    pub name: String,
    /// The password, if the address has none.
    pub password: Option<String>,
    /// Bring the schema up to date. If not, an older one is refused.
    pub migrate: bool,
    /// Accept a server that does not write to disk, for tests of everything else.
    pub accept_no_fsync: bool,
    /// Time is the database's, on which all servers agree; not the caller's.
    pub keeps_time: bool,
    /// A move fills the store, which nobody else may open until it is whole.
    into_move: bool,
}

/// Servers show themselves to each other by this name.
const SERVER_NAME: &str = "windrow";

impl Options {
    pub fn new(url: impl Into<String>) -> Options {
        Options {
            url: url.into(),
            connections: 4,
            wait: None,
            name: SERVER_NAME.into(),
            password: None,
            migrate: true,
            accept_no_fsync: false,
            keeps_time: true,
            into_move: false,
        }
    }

    /// Where the database is, and as whom it is reached.
    fn address(&self) -> Result<Address, Error> {
        let mut address = Address::parse(&self.url)?;
        address.config.application_name(&self.name);
        if let (None, Some(password)) = (address.config.get_password(), &self.password) {
            address.config.password(password);
        }
        Ok(address)
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The address may hold a password.
        f.debug_struct("Options").field("connections", &self.connections).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Connects, and brings the schema up to date. Must be called in a tokio runtime, in which its
    /// connections then live.
    pub async fn open(options: Options) -> Result<Postgres, Error> {
        let pool = Pool::new(&options)?;
        let mut client = pool.get().await?;
        let warnings = health::begin(&client, options.accept_no_fsync).await?;
        if options.migrate {
            migrate::migrate(client.client_mut()).await?;
        } else {
            migrate::ensure(&client, pool.address()).await?;
        }
        if !options.into_move {
            mark::ensure_whole(&client, &pool).await?;
        }
        let random: u64 = rand::make_rng::<rand::rngs::StdRng>().random();
        let tag = StoreTag::new(random).bits() as i64;
        let first = "insert into windrow.store (tag) values ($1) on conflict do nothing";
        client.query(step!(first, tag)).await?;
        let next = "select (nextval('windrow.servers') % $1)::smallint";
        let server: i16 = client.query_one(step!(next, i64::from(SQL_SERVER))).await?.get(0);
        let row = client.query_one(step!("select tag from windrow.store")).await?;
        let tag = StoreTag::new(row.get::<_, i64>(0) as u64);
        // Also if it was marked since: the tag may be that of the store that comes.
        if !options.into_move {
            mark::ensure_whole(&client, &pool).await?;
        }
        let last = "select greatest((select max(serial) from windrow.items), \
                    (select max(serial) from windrow.history))";
        let last: Option<i64> = client.query_one(step!(last)).await?.get(0);
        drop(client);
        let server = server as u8;
        let (ready, to_tell) = tokio::sync::mpsc::unbounded_channel();
        let ids = IdSource::for_server(tag, last.unwrap_or(0) as u64, server);
        let shared = Shared {
            pool,
            tag,
            names: Arc::default(),
            config: Mutex::default(),
            seats: Mutex::default(),
            held: Mutex::default(),
            advanced: AtomicU64::new(0),
            doubts: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            turns: Mutex::default(),
            ids: Arc::new(Mutex::new(ids)),
            server,
            listener: RwLock::new(None),
            ready,
            origin: random,
            watch: Arc::default(),
            keeps_time: options.keeps_time,
            tasks: Mutex::default(),
            warnings,
        };
        let shared = Arc::new(shared);
        shared.tasks.lock().extend(notify::begin(&shared, to_tell));
        Ok(Postgres { shared })
    }

    /// Where the database is, to be named in messages.
    pub fn place(&self) -> String {
        self.shared.pool.address().shown()
    }
}
