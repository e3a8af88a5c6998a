//! A few connections, each used by one transaction at a time.
//!
//! On a connection of our own, the statements of batches are prepared once. Behind a pooler that
//! gives each transaction another connection nothing outlives a transaction, so that every
//! statement is sent whole, as single ones are anyway.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Connection, Row, Socket, Statement};

use super::address::Address;
use super::tls::Encrypted;
use super::tx::Step;
use super::{Error, Options};

/// The most connections that a server may have: each adds to counters of its own.
pub(super) const SLOTS: u16 = 512;

/// How long to wait for a connection that others use.
const WAIT: Duration = Duration::from_secs(30);

pub(super) struct Pool {
    address: Address,
    room: Arc<Semaphore>,
    connections: usize,
    wait: Duration,
    places: Arc<Mutex<Vec<Place>>>,
    runtime: tokio::runtime::Handle,
}

/// Room for one connection, and the connection if there is one.
struct Place {
    slot: u16,
    link: Option<Link>,
}

/// A connection, and the statements that were prepared on it.
struct Link {
    client: Client,
    statements: HashMap<&'static str, Statement>,
}

/// A connection in use; it goes back when it is dropped, unless it is in the middle of something.
pub(super) struct Used {
    link: Option<Link>,
    slot: u16,
    /// The next transaction may be on another connection of the database.
    pub(super) pooled: bool,
    /// A transaction on it has not ended.
    pub(super) is_unfinished: bool,
    places: Arc<Mutex<Vec<Place>>>,
    _room: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(options: &Options) -> Result<Pool, Error> {
        let address = options.address()?;
        let connections = address.connections.unwrap_or(options.connections);
        let connections = connections.clamp(1, usize::from(SLOTS));
        // The last one is used first.
        let places = (0..connections as u16).rev().map(|slot| Place { slot, link: None });
        Ok(Pool {
            address,
            room: Arc::new(Semaphore::new(connections)),
            connections,
            wait: options.wait.unwrap_or(WAIT),
            places: Arc::new(Mutex::new(places.collect())),
            runtime: tokio::runtime::Handle::current(),
        })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn runtime(&self) -> &tokio::runtime::Handle {
        &self.runtime
    }

    pub(super) async fn get(&self) -> Result<Used, Error> {
        let room = self.room().await?;
        let place = self.places.lock().pop();
        let Place { slot, link } = place.unwrap_or_else(|| unreachable!("there is room"));
        let (places, link) = (Arc::clone(&self.places), link.filter(|l| !l.client.is_closed()));
        let (pooled, is_unfinished) = (self.address.pooled, false);
        let mut used = Used { link, slot, pooled, is_unfinished, places, _room: room };
        if used.link.is_none() {
            used.link = Some(Link { client: self.connect().await?, statements: HashMap::new() });
        }
        Ok(used)
    }

    async fn room(&self) -> Result<OwnedSemaphorePermit, Error> {
        if let Ok(room) = Arc::clone(&self.room).try_acquire_owned() {
            return Ok(room);
        }
        // Whoever waits may do so in another runtime; the time is measured in ours.
        let waiting = {
            let _here = self.runtime.enter();
            tokio::time::timeout(self.wait, Arc::clone(&self.room).acquire_owned())
        };
        let busy = Error::Busy { connections: self.connections, waited: self.wait };
        waiting.await.ok().and_then(Result::ok).ok_or(busy)
    }

    /// Waits, whatever the caller runs on.
    pub(super) async fn pause(&self, lasts: Duration) {
        let waiting = self.runtime.spawn(tokio::time::sleep(lasts));
        let _ends_early_with_the_runtime = waiting.await;
    }

    /// Connections are driven by the runtime of the store, whoever asks for one.
    async fn connect(&self) -> Result<Client, Error> {
        let address = self.address.clone();
        let connecting = self.runtime.spawn(async move { address.connect().await });
        let connected = connecting.await.unwrap_or_else(|_| unreachable!("it does not panic"));
        let (client, connection) = connected?;
        self.runtime.spawn(async move {
            // Whoever uses it is told the same by its next query.
            let _ended = connection.await;
        });
        Ok(client)
    }
}

impl Address {
    /// A new connection. A server that starts, is full or does not answer can be asked again; one
    /// that says no cannot.
    pub(super) async fn connect(
        &self,
    ) -> Result<(Client, Connection<Socket, Encrypted<Socket>>), Error> {
        let later = [SqlState::CANNOT_CONNECT_NOW, SqlState::TOO_MANY_CONNECTIONS];
        let connected = self.config.connect(self.tls.clone()).await;
        connected.map_err(|error| match error.as_db_error() {
            Some(said) if !later.contains(said.code()) => Error::Database(error),
            Some(_) => Error::Unreachable { address: self.shown(), why: super::described(&error) },
            None => {
                let why = std::error::Error::source(&error).map(ToString::to_string);
                let why = why.unwrap_or_else(|| error.to_string());
                let address = self.shown();
                // The library has no code for it.
                match why.as_str() {
                    "password missing" => Error::NoPassword { address },
                    _ => Error::Unreachable { address, why },
                }
            }
        })
    }
}

impl Used {
    /// Which of the pool's connections this is.
    pub(super) fn slot(&self) -> u16 {
        self.slot
    }

    /// A statement, prepared the first time. None where it would be gone the next time.
    pub(super) async fn statement(
        &mut self,
        sql: &'static str,
    ) -> Result<Option<Statement>, Error> {
        if self.pooled {
            return Ok(None);
        }
        let link = self.link_mut();
        if let Some(known) = link.statements.get(sql) {
            return Ok(Some(known.clone()));
        }
        let statement = link.client.prepare(sql).await?;
        link.statements.insert(sql, statement.clone());
        Ok(Some(statement))
    }

    /// Runs one statement: its text, its values and their types are sent at once.
    pub(super) async fn query(&self, step: Step) -> Result<Vec<Row>, Error> {
        let rows = self.client().query_typed_raw(step.sql(), step.typed()).await?;
        Ok(rows.try_collect().await?)
    }

    /// Runs one statement that gives one row.
    pub(super) async fn query_one(&self, step: Step) -> Result<Row, Error> {
        self.query(step).await?.pop().ok_or(Error::Malformed)
    }

    /// Runs one that was prepared here.
    pub(super) async fn run(&self, statement: &Statement, step: Step) -> Result<Vec<Row>, Error> {
        let rows = self.client().query_raw(statement, step.values()).await?;
        Ok(rows.try_collect().await?)
    }

    pub(super) fn client_mut(&mut self) -> &mut Client {
        &mut self.link_mut().client
    }

    fn client(&self) -> &Client {
        let link = self.link.as_ref().unwrap_or_else(|| unreachable!("it is there until dropped"));
        &link.client
    }

    fn link_mut(&mut self) -> &mut Link {
        self.link.as_mut().unwrap_or_else(|| unreachable!("it is there until dropped"))
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        let whole = |link: &Link| !self.is_unfinished && !link.client.is_closed();
        let link = self.link.take().filter(whole);
        self.places.lock().push(Place { slot: self.slot, link });
    }
}
