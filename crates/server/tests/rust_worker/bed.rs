//! A server with a queue, and what tests do with it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windrow_client::worker::{Builder, Worker};
use windrow_client::{Options, http, rpc};
use windrow_core::command::{Claim, NewItem};
use windrow_core::item::{Body, Payload};
use windrow_core::queue::{Queue, Seen};
use windrow_core::settings::{Backoff, Policy, Settings};
use windrow_core::{ItemId, Status};
use windrow_testkit::servers::windrow::{On, Windrow};

pub(crate) const QUEUE: &str = "q";
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, and a client of it over RPC.
pub(crate) struct Bed {
    pub(crate) server: Windrow,
    pub(crate) client: rpc::Client,
}

impl Bed {
    /// A server whose queue tries again after a millisecond.
    pub(crate) async fn new() -> Bed {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_windrow"));
        let server = Windrow::start(&program, On::Directory).unwrap();
        let client = rpc::Client::new(&server.rpc_url(), Options::default()).unwrap();
        try_again_soon(&client).await;
        Bed { server, client }
    }

    pub(crate) fn http(&self) -> http::Client {
        http::Client::new(&self.server.url(), Options::default()).unwrap()
    }

    /// A worker on the queue. It has a connection of its own.
    pub(crate) fn worker(&self) -> Builder<rpc::Client> {
        let client = rpc::Client::new(&self.server.rpc_url(), Options::default()).unwrap();
        Worker::on(client).queues([QUEUE]).told(|event| eprintln!("{event}"))
    }

    pub(crate) async fn add(&self, payload: &str) -> ItemId {
        add(&self.client, payload).await
    }

    pub(crate) async fn see(&self, id: ItemId) -> Seen {
        self.client.inspect(id).await.unwrap().expect("it is known")
    }

    /// Waits until an item is so, and gives it.
    pub(crate) async fn until(&self, id: ItemId, is: impl Fn(&Seen) -> bool) -> Seen {
        until(&self.client, id, is).await
    }
}

pub(crate) async fn try_again_soon(queue: &impl Queue) {
    let backoff = Backoff { base_ms: 1, cap_ms: 1, slow_base_ms: 1, slow_cap_ms: 1 };
    let defaults = Policy { backoff, ..Policy::default() };
    let settings = Settings { defaults, ..Settings::default() };
    queue.configure(QUEUE.into(), settings).await.unwrap();
}

pub(crate) fn item(payload: &str) -> NewItem {
    let mut body = Body::new("acme", QUEUE);
    body.payload = Payload::Inline(payload.into());
    NewItem::new(body)
}

pub(crate) async fn add(queue: &impl Queue, payload: &str) -> ItemId {
    queue.enqueue(vec![item(payload)], None).await.unwrap().remove(0).unwrap().id
}

/// Waits until an item is so, and gives it.
pub(crate) async fn until<Q: Queue>(queue: &Q, id: ItemId, is: impl Fn(&Seen) -> bool) -> Seen {
    let end = Instant::now() + PATIENCE;
    loop {
        let seen = queue.inspect(id).await.unwrap().expect("it is known");
        if is(&seen) {
            return seen;
        }
        assert!(Instant::now() < end, "{seen:?}");
        pass(queue, 20).await;
    }
}

/// Lets time pass: a claim where nothing ever comes is a clock that a queue has anyway.
pub(crate) async fn pass(queue: &impl Queue, ms: u64) {
    queue.claim(Claim::new("clock", "none", 1), ms, None).await.unwrap();
}

pub(crate) fn is_done(seen: &Seen) -> bool {
    matches!(seen.status, Status::Completed | Status::Failed | Status::Skipped)
}

/// Something that can be given away and looked at.
pub(crate) fn shared<T>(of: T) -> (Arc<T>, Arc<T>) {
    let of = Arc::new(of);
    (Arc::clone(&of), of)
}
