//! A few connections, each used by one transaction at a time.
//!
//! How a connection is made, and how the way is protected, is the caller's affair: the server has
//! an address for its queue already.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Client, IsolationLevel, NoTls};

use super::Trouble;
use super::value::Tx;
use crate::catalog::CatalogError;

/// How long to wait for a connection that others use.
const WAIT: Duration = Duration::from_secs(30);

/// Connections of the queue forbid plans that it never needs. Words are found by such a plan.
const PLANS: &str = "set plan_cache_mode = auto; set enable_seqscan = on; \
     set enable_hashjoin = on; set enable_mergejoin = on; set enable_bitmapscan = on; \
     set jit = off";

/// Makes connections. Called within the runtime that is to drive them.
#[derive(Clone)]
pub struct Connect(Arc<Making>);

type Making = dyn Fn() -> BoxFuture<'static, Result<Client, CatalogError>> + Send + Sync;

impl Connect {
    /// By whatever the caller does.
    pub fn new(
        make: impl Fn() -> BoxFuture<'static, Result<Client, CatalogError>> + Send + Sync + 'static,
    ) -> Connect {
        Connect(Arc::new(make))
    }

    /// Without encryption, by an address as tokio-postgres reads it.
    pub fn plain(url: &str) -> Result<Connect, CatalogError> {
        let config = tokio_postgres::Config::from_str(url);
        let config = config.map_err(|error| CatalogError::bad(error.to_string()))?;
        Ok(Connect::new(move || {
            let config = config.clone();
            Box::pin(async move {
                let connected = config.connect(NoTls).await;
                let (client, connection) = connected.map_err(CatalogError::transient)?;
                tokio::spawn(async move {
                    // Whoever uses it is told the same by its next query.
                    let _ended = connection.await;
                });
                Ok(client)
            })
        }))
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connect")
    }
}

/// How a database is reached.
#[derive(Clone, Debug)]
pub struct Options {
    pub connect: Connect,
    /// The most connections at once.
    pub connections: usize,
    /// Whether a pooler gives each transaction another connection.
    pub is_pooled: bool,
}

impl Options {
    /// Eight connections of our own.
    pub fn new(connect: Connect) -> Options {
        Options { connect, connections: 8, is_pooled: false }
    }
}

#[derive(Debug)]
pub(crate) struct Pool {
    options: Options,
    room: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Client>>>,
    runtime: Handle,
}

/// A connection in use; it goes back when it is dropped, unless it has ended.
pub(crate) struct Used {
    client: Option<Client>,
    idle: Arc<Mutex<Vec<Client>>>,
    _room: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(options: Options) -> Pool {
        let room = Arc::new(Semaphore::new(options.connections.max(1)));
        Pool { options, room, idle: Arc::default(), runtime: Handle::current() }
    }

    pub(crate) async fn get(&self) -> Result<Used, Trouble> {
        let room = self.room().await?;
        let idle = Arc::clone(&self.idle);
        let known = std::iter::from_fn(|| self.idle.lock().pop()).find(|one| !one.is_closed());
        let client = match known {
            Some(client) => client,
            None => self.connect().await?,
        };
        Ok(Used { client: Some(client), idle, _room: room })
    }

    async fn room(&self) -> Result<OwnedSemaphorePermit, CatalogError> {
        if let Ok(room) = Arc::clone(&self.room).try_acquire_owned() {
            return Ok(room);
        }
        // Whoever waits may do so in another runtime; the time is measured in ours.
        let waiting = {
            let _here = self.runtime.enter();
            tokio::time::timeout(WAIT, Arc::clone(&self.room).acquire_owned())
        };
        let room = waiting.await.ok().and_then(Result::ok);
        room.ok_or_else(|| CatalogError::transient("all connections to the database are in use"))
    }

    async fn connect(&self) -> Result<Client, Trouble> {
        let connecting = self.runtime.spawn((self.options.connect.0)());
        let client = connecting.await.map_err(CatalogError::transient)??;
        if !self.options.is_pooled {
            client.batch_execute(PLANS).await?;
        }
        Ok(client)
    }
}

impl Used {
    /// A transaction that writes, each statement seeing what others committed before it.
    pub(crate) async fn writing(&mut self) -> Result<Tx<'_>, Trouble> {
        let begun = self.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
        Ok(Tx(begun.start().await?))
    }

    /// A transaction that reads what was there at one moment.
    pub(crate) async fn reading(&mut self) -> Result<Tx<'_>, Trouble> {
        let begun = self.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
        Ok(Tx(begun.read_only(true).start().await?))
    }
}

impl Deref for Used {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client.as_ref().unwrap_or_else(|| unreachable!("it is there until dropped"))
    }
}

impl DerefMut for Used {
    fn deref_mut(&mut self) -> &mut Client {
        self.client.as_mut().unwrap_or_else(|| unreachable!("it is there until dropped"))
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        let whole = self.client.take().filter(|client| !client.is_closed());
        self.idle.lock().extend(whole);
    }
}
