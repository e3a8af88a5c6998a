//! A few connections, each used by one transaction at a time.

use std::ops::{Deref, DerefMut};
use std::str::FromStr as _;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Client, NoTls};

use super::{Error, Options};

pub(super) struct Pool {
    config: tokio_postgres::Config,
    room: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Client>>>,
    runtime: tokio::runtime::Handle,
}

/// A connection in use; it goes back when it is dropped.
pub(super) struct Used {
    client: Option<Client>,
    idle: Arc<Mutex<Vec<Client>>>,
    _room: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(options: &Options) -> Result<Pool, Error> {
        let parsed = tokio_postgres::Config::from_str(&options.url);
        let mut config = parsed.map_err(|error| Error::Address(error.to_string()))?;
        config.application_name("windrow");
        Ok(Pool {
            config,
            room: Arc::new(Semaphore::new(options.connections.max(1))),
            idle: Arc::default(),
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
        let kept = loop {
            match self.idle.lock().pop() {
                Some(client) if client.is_closed() => {}
                kept => break kept,
            }
        };
        let client = match kept {
            Some(client) => client,
            None => self.connect().await?,
        };
        Ok(Used { client: Some(client), idle: Arc::clone(&self.idle), _room: room })
    }

    /// Connections are driven by the runtime of the store, whoever asks for one.
    async fn connect(&self) -> Result<Client, Error> {
        let config = self.config.clone();
        let connecting = self.runtime.spawn(async move { config.connect(NoTls).await });
        let connected = connecting.await.unwrap_or_else(|_| unreachable!("it does not panic"));
        let (client, connection) = connected?;
        self.runtime.spawn(async move {
            // Whoever uses it is told the same by its next query.
            let _ended = connection.await;
        });
        Ok(client)
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        if let Some(client) = self.client.take().filter(|client| !client.is_closed()) {
            self.idle.lock().push(client);
        }
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
