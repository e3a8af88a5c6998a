//! Rivals: servers that do the same work, each through a client that uses it as it is best used.

use std::path::Path;

use windrow_client::{http, rpc};

use super::beanstalkd::Beanstalkd;
use super::nats::Nats;
use super::ours::Windrow;
use super::redis::Redis;
use crate::servers::brokers::{Broker, Kind, Promise};
use crate::servers::windrow as server;

/// A server that takes part.
#[derive(Debug)]
pub(super) struct Rival {
    /// Its column.
    pub(super) name: &'static str,
    pub(super) is_ours: bool,
    pub(super) promise: Promise,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Http(server::Windrow),
    Rpc(server::Windrow),
    Broker(Kind, Broker),
}

/// Everybody else: the column, the program, and when it syncs.
const PEERS: [(&str, Kind, Promise); 6] = [
    ("redis", Kind::Redis, Promise::Synced),
    ("beanstalkd", Kind::Beanstalkd, Promise::Synced),
    ("nats", Kind::Nats, Promise::Synced),
    ("redis_unsynced", Kind::Redis, Promise::Unsynced),
    ("beanstalkd_unsynced", Kind::Beanstalkd, Promise::Unsynced),
    ("nats_unsynced", Kind::Nats, Promise::Unsynced),
];

/// The columns of Windrow over HTTP and over RPC.
pub(super) const HTTP: &str = "http";
pub(super) const RPC: &str = "rpc";

impl Rival {
    /// All that can be started; the others are said to be missing.
    pub(super) fn start_all(windrow: &Path) -> anyhow::Result<Vec<Rival>> {
        let server = || server::Windrow::start(windrow, server::On::Directory);
        let ours = |name, place| Rival { name, is_ours: true, promise: Promise::Synced, place };
        let mut all = vec![ours(HTTP, Place::Http(server()?)), ours(RPC, Place::Rpc(server()?))];
        for (name, kind, promise) in PEERS {
            match Broker::start(kind, promise) {
                Ok(broker) => {
                    let place = Place::Broker(kind, broker);
                    all.push(Rival { name, is_ours: false, promise, place });
                }
                Err(error) => eprintln!("** {name} does not take part: {error:#}"),
            }
        }
        Ok(all)
    }

    /// Whether it is one to be measured against: it syncs before it answers.
    pub(super) fn is_synced_peer(&self) -> bool {
        !self.is_ours && self.promise == Promise::Synced
    }

    /// Makes an empty queue.
    pub(super) async fn prepare(&self, queue: &str) -> anyhow::Result<()> {
        match self.client(queue, usize::MAX).await? {
            Client::Redis(mut redis) => redis.prepare().await,
            Client::Nats(mut nats) => nats.prepare().await,
            Client::Http(_) | Client::Rpc(_) | Client::Beanstalkd(_) => Ok(()),
        }
    }

    /// One more client, connected.
    pub(super) async fn client(&self, queue: &str, worker: usize) -> anyhow::Result<Client> {
        Ok(match &self.place {
            Place::Http(server) => {
                Client::Http(Box::new(Windrow::over_http(&server.url(), queue, worker)?))
            }
            Place::Rpc(server) => {
                Client::Rpc(Box::new(Windrow::over_rpc(&server.rpc_url(), queue, worker)?))
            }
            Place::Broker(kind, broker) => match kind {
                Kind::Redis => Client::Redis(Redis::connect(broker.port(), queue, worker).await?),
                Kind::Beanstalkd => {
                    Client::Beanstalkd(Beanstalkd::connect(broker.port(), queue).await?)
                }
                Kind::Nats => Client::Nats(Nats::connect(broker.port(), queue, worker).await?),
            },
        })
    }
}

/// A client. It holds what it took until it settles that.
#[derive(Debug)]
pub(super) enum Client {
    Http(Box<Windrow<http::Client>>),
    Rpc(Box<Windrow<rpc::Client>>),
    Redis(Redis),
    Beanstalkd(Beanstalkd),
    Nats(Nats),
}

/// Asks whichever client it is.
macro_rules! ask {
    ($self:ident, $client:ident => $asked:expr) => {
        match $self {
            Client::Http($client) => $asked,
            Client::Rpc($client) => $asked,
            Client::Redis($client) => $asked,
            Client::Beanstalkd($client) => $asked,
            Client::Nats($client) => $asked,
        }
    };
}

impl Client {
    pub(super) async fn enqueue(&mut self, payloads: &[Vec<u8>]) -> anyhow::Result<()> {
        ask!(self, client => client.enqueue(payloads).await)
    }

    /// Takes up to so many; says how many that were.
    pub(super) async fn take(&mut self, max: usize) -> anyhow::Result<usize> {
        ask!(self, client => client.take(max).await)
    }

    /// Settles what it holds; says how many that were.
    pub(super) async fn settle(&mut self) -> anyhow::Result<usize> {
        ask!(self, client => client.settle().await)
    }
}
