//! A few connections, each used by one transaction at a time.

use std::collections::HashMap;
use std::ops::Deref;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, Statement};

use super::{Error, Options};

/// Every statement here finds its rows by an index. A plan that was made while a table was empty is
/// kept, so that planning must not come to think otherwise.
const PLANS: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
     -c enable_hashjoin=off -c enable_mergejoin=off -c enable_bitmapscan=off -c jit=off";

/// The most connections that a server may have: each adds to counters of its own.
pub(super) const SLOTS: u16 = 512;

pub(super) struct Pool {
    config: tokio_postgres::Config,
    room: Arc<Semaphore>,
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
    /// A transaction on it has not ended.
    pub(super) is_unfinished: bool,
    places: Arc<Mutex<Vec<Place>>>,
    _room: OwnedSemaphorePermit,
}

/// How long a connection may take to be made, unless the address says otherwise.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a server may be silent before it is asked whether it is there.
const SILENT: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_secs(5);
const ASK_TIMES: u32 = 3;
/// What an address that says nothing about it comes to.
const SILENT_BY_DEFAULT: Duration = Duration::from_secs(2 * 60 * 60);

/// A machine that dies says nothing. Without this, whoever waits for it waits for two hours, and
/// nobody gets to the one that took over.
fn give_up_in_time(config: &mut tokio_postgres::Config) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENT + ASK_EVERY * ASK_TIMES);
    }
    if config.get_keepalives_idle() == SILENT_BY_DEFAULT {
        config.keepalives_idle(SILENT).keepalives_interval(ASK_EVERY).keepalives_retries(ASK_TIMES);
    }
}

impl Pool {
    pub(super) fn new(options: &Options) -> Result<Pool, Error> {
        let parsed = tokio_postgres::Config::from_str(&options.url);
        let mut config = parsed.map_err(|error| Error::Address(error.to_string()))?;
        config.application_name("windrow");
        config.options(PLANS);
        let connections = options.connections.clamp(1, usize::from(SLOTS));
        // The last one is used first.
        let places = (0..connections as u16).rev().map(|slot| Place { slot, link: None });
        give_up_in_time(&mut config);
        // Of several addresses the one that takes writes, and a standby only once it is promoted.
        if config.get_target_session_attrs() == TargetSessionAttrs::Any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(Pool {
            config,
            room: Arc::new(Semaphore::new(connections)),
            places: Arc::new(Mutex::new(places.collect())),
            runtime: tokio::runtime::Handle::current(),
        })
    }

    pub(super) fn config(&self) -> &tokio_postgres::Config {
        &self.config
    }

    pub(super) fn runtime(&self) -> &tokio::runtime::Handle {
        &self.runtime
    }

    pub(super) async fn get(&self) -> Result<Used, Error> {
        let room = Arc::clone(&self.room).acquire_owned().await;
        let room = room.unwrap_or_else(|_| unreachable!("it is never closed"));
        let place = self.places.lock().pop();
        let Place { slot, link } = place.unwrap_or_else(|| unreachable!("there is room"));
        let (places, link) = (Arc::clone(&self.places), link.filter(|l| !l.client.is_closed()));
        let is_unfinished = false;
        let mut used = Used { link, slot, is_unfinished, places, _room: room };
        if used.link.is_none() {
            used.link = Some(Link { client: self.connect().await?, statements: HashMap::new() });
        }
        Ok(used)
    }

    /// Waits, whatever the caller runs on.
    pub(super) async fn pause(&self, lasts: Duration) {
        let waiting = self.runtime.spawn(tokio::time::sleep(lasts));
        let _ends_early_with_the_runtime = waiting.await;
    }

    /// Connections are driven by the runtime of the store, whoever asks for one.
    async fn connect(&self) -> Result<Client, Error> {
        let config = self.config.clone();
        let connecting = self.runtime.spawn(async move { config.connect(NoTls).await });
        let connected = connecting.await.unwrap_or_else(|_| unreachable!("it does not panic"));
        let (client, connection) = connected.map_err(not_connected)?;
        self.runtime.spawn(async move {
            // Whoever uses it is told the same by its next query.
            let _ended = connection.await;
        });
        Ok(client)
    }
}

impl Used {
    /// Which of the pool's connections this is.
    pub(super) fn slot(&self) -> u16 {
        self.slot
    }

    /// A statement, prepared the first time.
    pub(super) async fn statement(&mut self, sql: &'static str) -> Result<Statement, Error> {
        let link = self.link_mut();
        if let Some(known) = link.statements.get(sql) {
            return Ok(known.clone());
        }
        let statement = link.client.prepare(sql).await?;
        link.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    pub(super) fn client_mut(&mut self) -> &mut Client {
        &mut self.link_mut().client
    }

    fn link_mut(&mut self) -> &mut Link {
        self.link.as_mut().unwrap_or_else(|| unreachable!("it is there until dropped"))
    }
}

/// A server that starts, is full or does not answer can be asked again; one that says no cannot.
fn not_connected(error: tokio_postgres::Error) -> Error {
    let later = [SqlState::CANNOT_CONNECT_NOW, SqlState::TOO_MANY_CONNECTIONS];
    match error.code() {
        Some(code) if !later.contains(code) => Error::Database(error),
        _ => Error::Unreachable(error),
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        let whole = |link: &Link| !self.is_unfinished && !link.client.is_closed();
        let link = self.link.take().filter(whole);
        self.places.lock().push(Place { slot: self.slot, link });
    }
}

impl Deref for Used {
    type Target = Client;

    fn deref(&self) -> &Client {
        let link = self.link.as_ref().unwrap_or_else(|| unreachable!("it is there until dropped"));
        &link.client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_machine_is_given_up_in_time_unless_the_address_says_otherwise() {
        let check = |address: &str, connect: Duration, silent: Duration| {
            let mut config: tokio_postgres::Config = address.parse().unwrap();
            give_up_in_time(&mut config);
            assert_eq!(config.get_connect_timeout(), Some(&connect), "{address}");
            assert_eq!(config.get_keepalives_idle(), silent, "{address}");
        };
        check("postgres://u@h/d", CONNECT, SILENT);
        let own = "postgres://u@h/d?connect_timeout=3&keepalives_idle=60";
        check(own, Duration::from_secs(3), Duration::from_secs(60));
    }
}
