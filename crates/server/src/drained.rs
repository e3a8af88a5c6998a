//! Drained workers: who is handed nothing new, on every server of a store, until somebody says
//! otherwise.
//!
//! Each is a note on the shelf `drained`, by the worker's name. The engine is told the names and
//! holds back claims. What a server changes itself it reads back before it answers, so that it
//! holds at once there; other servers of the same database read the shelf a few times a second. A
//! name that no server has seen for a week is forgotten.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use windrow_core::note::{Expects, Note, WriteNote};
use windrow_core::ports::Store as _;
use windrow_core::{Refusal, Timestamp};
use windrow_engine::drained::Names;
use windrow_engine::{Clock as _, Failure};
use windrow_wire::bounds::plain;

use crate::auth::Denied;
use crate::store::{AnyStore, Queue};

const SHELF: &str = "drained";
/// Names that there may be at once.
const DRAINED_MAX: usize = 1_000;
/// How often they are read again where others write them too.
const READ_EVERY: Duration = Duration::from_millis(400);
/// How often is looked whether a name is still in use.
const LOOK_EVERY: Duration = Duration::from_secs(3_600);
/// How exactly it is written when a name was last seen, and how long one that is not is kept.
const SEEN_WITHIN_MS: u64 = 86_400_000;
const UNSEEN_KEPT_MS: u64 = 7 * 86_400_000;

/// What the note of a drained worker holds.
#[derive(Clone, Copy, Serialize, Deserialize, Default, Debug)]
struct Kept {
    drained_ms: u64,
    /// When a server last saw it; at first, when it was drained.
    seen_ms: u64,
}

/// The drained workers of a store, as one server knows them.
#[derive(Debug)]
pub(crate) struct Drained {
    queue: Arc<Queue>,
    /// One reads at a time, so that what was read later is known later.
    reading: Mutex<()>,
}

impl Drained {
    /// Reads who is drained, before anybody can claim.
    pub(crate) async fn open(queue: Arc<Queue>) -> Result<Drained, Denied> {
        let drained = Drained { queue, reading: Mutex::default() };
        drained.read().await?;
        Ok(drained)
    }

    /// Hands a worker nothing new from now on.
    pub(crate) async fn drain(&self, worker: &str) -> Result<(), Denied> {
        plain("worker", worker)?;
        let names = self.queue.drained();
        if names.len() >= DRAINED_MAX && !names.contains(worker) {
            let why = format!("{DRAINED_MAX} workers are drained already; resume some");
            return Err(Refusal::invalid("worker", why).into());
        }
        let Timestamp(now) = self.queue.clock().now();
        let kept = Kept { drained_ms: now, seen_ms: now };
        self.put(worker, Expects::Anything, Some(kept)).await?;
        self.read().await.map(drop)
    }

    /// Hands it work again. Says whether it was drained.
    pub(crate) async fn resume(&self, worker: &str) -> Result<bool, Denied> {
        let was_drained = self.read().await?.iter().any(|note| *note.name == *worker);
        if was_drained {
            self.put(worker, Expects::Anything, None).await?;
            self.read().await?;
        }
        Ok(was_drained)
    }

    /// Keeps up with what other servers write, and forgets names that nobody uses, for ever.
    pub(crate) async fn run(&self) {
        let mut read = tokio::time::interval(READ_EVERY);
        let mut look = tokio::time::interval(LOOK_EVERY);
        let is_shared = matches!(self.queue.store(), AnyStore::Postgres(_));
        loop {
            // What fails here is tried again; until then holds what was known last.
            tokio::select! {
                _ = read.tick(), if is_shared => {
                    let _read = self.read().await;
                }
                _ = look.tick() => {
                    let _looked = self.forget_unused().await;
                }
            }
        }
    }

    async fn forget_unused(&self) -> Result<(), Denied> {
        let (workers, now) = (self.queue.workers().await?, self.queue.clock().now());
        for note in self.read().await? {
            let kept: Kept = serde_json::from_slice(&note.body).unwrap_or_default();
            let is_present = workers.iter().any(|worker| worker.name == note.name);
            let Some(kept) = kept.looked_at(is_present, now) else { continue };
            // Only over what we know: one that was drained anew meanwhile stays.
            match self.put(&note.name, Expects::Version(note.version), kept).await {
                Ok(()) | Err(Failure::Refused(Refusal::Changed { .. })) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        self.read().await.map(drop)
    }

    async fn put(&self, name: &str, expects: Expects, kept: Option<Kept>) -> Result<(), Failure> {
        let body = kept.map(|kept| serde_json::to_vec(&kept).unwrap_or_default().into());
        let write = WriteNote { shelf: SHELF.into(), name: name.into(), expects, body };
        self.queue.note(write).await.map(drop)
    }

    /// Reads the shelf and tells the engine.
    async fn read(&self) -> Result<Vec<Note>, Denied> {
        let _alone = self.reading.lock().await;
        let notes = self.queue.store().notes(SHELF).await?;
        self.queue.drain(Names::new(notes.iter().map(|note| Arc::clone(&note.name)).collect()));
        Ok(notes)
    }
}

impl Kept {
    /// What is to be written now that somebody looked, if anything: none for nothing any more.
    #[expect(clippy::option_option, reason = "whether to write, and what")]
    fn looked_at(self, is_present: bool, now: Timestamp) -> Option<Option<Kept>> {
        match now.since(Timestamp(self.seen_ms)) {
            unseen_ms if is_present => {
                let seen = Kept { seen_ms: now.0, ..self };
                (unseen_ms >= SEEN_WITHIN_MS).then_some(Some(seen))
            }
            unseen_ms => (unseen_ms >= UNSEEN_KEPT_MS).then_some(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_uses_is_forgotten_after_a_week() {
        const DAY: u64 = 86_400_000;
        let kept = Kept { drained_ms: DAY, seen_ms: DAY };
        let looked = |is_present, days: u64| {
            let written = kept.looked_at(is_present, Timestamp(DAY + days * DAY));
            written.map(|kept| kept.map(|kept| (kept.drained_ms / DAY, kept.seen_ms / DAY)))
        };
        assert_eq!((looked(false, 0), looked(false, 6), looked(true, 0)), (None, None, None));
        assert_eq!(looked(false, 7), Some(None));
        assert_eq!(looked(true, 9), Some(Some((1, 10))), "it is there, and stays drained");
    }
}
