//! Workers: any command is one. Those of a server are declared in its configuration, called over
//! HTTP, or at work by themselves; `windrow work` and `windrow worker` are the same elsewhere.
//!
//! [`exit`] says what an exit code means, [`command`] runs a program with an item's payload as its
//! input, [`hand`] keeps the lease while it runs and settles the item, and [`shift`] takes one item
//! after another: as many as it is called for, or until it is told to stop. How far a command is it
//! says in lines that [`progress`] reads. All of these see only the `Queue` port, so that it does
//! not matter where the queue is.
//!
//! `cleanup` is there without being declared: it sweeps.

pub(crate) mod command;
mod declared;
mod exit;
pub(crate) mod hand;
mod progress;
pub(crate) mod shift;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio_util::task::TaskTracker;
use windrow_core::LeaseId;
use windrow_core::item::Payload;
use windrow_core::queue::Work;
use windrow_engine::{Clock as _, Failure};
use windrow_store::blobs::Blobs as _;

use crate::logs;
use crate::store::Queue;

pub(crate) use declared::{Declared, Payloads};
use shift::{News, Place, Quota, Shift};

/// The worker that is there without being declared.
pub(crate) const CLEANUP: &str = "cleanup";
/// How long a sweep that is called for may take.
const CLEANUP_MS: u64 = 50_000;
/// How much of a payload is read at once.
const PIECE: usize = 1 << 20;

/// What a server is told of its workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// By name.
    pub(crate) declared: BTreeMap<Arc<str>, Arc<Declared>>,
    /// Whether they work by themselves.
    pub(crate) enabled: bool,
    /// How long one that works by itself waits for work at a time.
    pub(crate) poll: Duration,
    /// Who says this may call them.
    pub(crate) secret: Option<String>,
    /// How long what is in hand may go on when the server stops.
    pub(crate) drain: Duration,
}

/// Calls of all workers that may be under way at once.
const CALLS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Workers {
    /// Places for calls. A call goes on when its caller has gone.
    calls: Arc<Semaphore>,
    plan: Plan,
    place: Arc<Place<Queue, InStore>>,
    at_work: TaskTracker,
}

impl Workers {
    pub(crate) fn new(plan: Plan, queue: Arc<Queue>, stopping: watch::Receiver<bool>) -> Workers {
        let (payloads, drain) = (InStore(Arc::clone(&queue)), plan.drain);
        let place = Arc::new(Place { queue, payloads, stopping, drain });
        let calls = Arc::new(Semaphore::new(CALLS_MAX));
        Workers { calls, plan, place, at_work: TaskTracker::new() }
    }

    /// Lets them work by themselves, if they shall.
    pub(crate) fn begin(&self) {
        if !self.plan.enabled {
            return;
        }
        for worker in self.plan.declared.values() {
            for _ in 0..worker.concurrency {
                let (place, worker) = (Arc::clone(&self.place), Arc::clone(worker));
                let poll = self.plan.poll;
                self.at_work.spawn(async move {
                    let tell = |news: News<'_>| {
                        // That its own store does not answer, the server says itself.
                        if let News::Done(done) = news {
                            logs::worked(&worker.name, done);
                        }
                    };
                    // It ends only when the server stops.
                    let _stopped = place.work(&worker, poll, &Quota::endless(), tell).await;
                });
            }
        }
    }

    /// The worker of this name.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Declared>> {
        self.plan.declared.get(name).cloned()
    }

    /// Lets a worker do some items. It goes on when nobody waits for it any more, so that what it
    /// took is settled. None if as many calls as may be are under way.
    pub(crate) fn call(
        &self,
        worker: Arc<Declared>,
    ) -> Option<impl Future<Output = Option<Shift>> + use<>> {
        let call = Arc::clone(&self.calls).try_acquire_owned().ok()?;
        let place = Arc::clone(&self.place);
        let called = self.at_work.spawn(async move {
            let shift = place.shift(&worker).await;
            shift.done.iter().for_each(|done| logs::worked(&worker.name, done));
            drop(call);
            shift
        });
        Some(async { called.await.ok() })
    }

    /// Removes what is past its keeping, for a while. How much that was, and whether there is more.
    pub(crate) async fn clean_up(&self) -> Result<(u64, bool), Failure> {
        let queue = &self.place.queue;
        let until = queue.clock().now().plus(CLEANUP_MS);
        let mut removed = 0;
        loop {
            let (handled, more) = queue.sweep(until).await?;
            removed += handled;
            if !more || queue.clock().now() >= until {
                return Ok((removed, more));
            }
        }
    }

    /// Waits until nobody has anything in hand.
    pub(crate) async fn ended(&self) {
        self.at_work.close();
        self.at_work.wait().await;
    }
}

/// Payloads that are kept beside the store.
#[derive(Clone, Debug)]
pub(crate) struct InStore(pub(crate) Arc<Queue>);

impl Payloads for InStore {
    async fn read(&self, _lease: LeaseId, work: &Work) -> Result<Vec<u8>, String> {
        let Payload::Blob(blob) = work.body.payload else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < blob.len {
            let from = bytes.len() as u64;
            let read = self.0.store().read(&work.body.tenant, blob, from, PIECE).await;
            let piece = read.map_err(|error| format!("the payload cannot be read: {error}"))?;
            if piece.is_empty() {
                return Err("the payload ends too early".into());
            }
            bytes.extend(piece);
        }
        Ok(bytes)
    }
}
