//! The embedded store: a segmented log on disk and a compact schedule in memory.
//!
//! Follow a submit: it enters by the [`intake`]; `commit.rs` takes the lock and asks the rules;
//! `ledger.rs` shows them the [`tables`]; `apply.rs` takes their changes and leaves records in the
//! [`outbox`]; the records go to the open group of the [`log`]; the syncer writes the group, and
//! whoever waits in [`durable`] gets its answer, with what `work.rs` read for it. `open.rs` builds
//! the tables again from the last snapshot and the log's tail; `space.rs` moves what still lives
//! out of the oldest segment and drops the file.

mod apply;
pub mod backup;
pub mod blobs;
mod check;
pub(crate) mod codec;
mod commit;
mod configure;
pub mod disk;
mod durable;
mod families;
mod find;
mod finish;
mod intake;
mod keeping;
mod ledger;
pub mod log;
mod moving;
mod open;
mod outbox;
pub mod overlay;
mod owners;
mod queries;
mod replay;
mod schedule;
mod settings;
mod shelves;
mod snapshot;
mod space;
mod sync;
mod tables;
mod threads;
mod vitals;
mod work;
mod worth;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex, RwLock};
use windrow_core::ports::Listener;
use windrow_core::{ItemId, Timestamp};

use commit::Told;
use disk::Disk;
use durable::Durable;
use intake::Intake;
use log::{Segments, Writer};
use schedule::names::Names;
use space::Keeper;
use sync::Syncing;
use tables::Tables;

pub use check::{Checked, LogRecord, check, holds_store, visit_log};
pub use families::{Entry, Families, Family};
pub use moving::{Outgoing, may_receive, receive};
pub use open::OpenError;
pub use snapshot::SnapshotError;
pub use threads::Running;

/// How an embedded store is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of a segment of the log.
    pub segment_bytes: u32,
    /// Written spare segments that are kept for a full disk.
    pub reserve_segments: usize,
    /// A snapshot is taken when the log has grown by this much, or by twice the last snapshot.
    pub snapshot_bytes: u64,
    /// Space is reclaimed when the log takes this much more than twice what lives.
    pub slack_bytes: u64,
    /// Enqueues are refused when live and ended items take more memory than this.
    pub memory_max: u64,
    /// Where lease ids and the store's identity come from; random if none.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 64 << 20,
            reserve_segments: 2,
            snapshot_bytes: 512 << 20,
            slack_bytes: 256 << 20,
            memory_max: 6 << 30,
            seed: None,
        }
    }
}

/// A queue in one directory, for one process.
///
/// Cloning gives another handle to the same store. Nothing becomes durable unless somebody calls
/// [`Embedded::sync_step`]: [`Embedded::run`] starts threads that do. Without them every submit
/// waits for ever.
#[derive(Clone)]
pub struct Embedded {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) intake: Intake,
    pub(crate) tables: Mutex<Tables>,
    /// The end of the log. Whoever has the tables may take it too, never the other way round: the
    /// syncer needs nothing else, and never waits for a decision.
    pub(crate) writer: Arc<Mutex<Writer>>,
    /// Signals the syncer that a group waits.
    pub(crate) filled: Condvar,
    pub(crate) syncing: Syncing,
    /// What listeners are to be told, by the group that must be durable first.
    pub(crate) told: Arc<Mutex<VecDeque<Told>>>,
    pub(crate) durable: Durable,
    pub(crate) names: Arc<RwLock<Names>>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) listener: RwLock<Option<Arc<dyn Listener>>>,
    pub(crate) keeper: Mutex<Keeper>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: Options,
    pub(crate) stopping: AtomicBool,
}

impl Shared {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Stops the store for good: nothing is acknowledged from here on.
    pub(crate) fn poison(&self, why: &str) {
        self.durable.poison(why);
        self.filled.notify_all();
    }
}

impl Embedded {
    /// Why the store stopped, if it did. It must be opened again.
    pub fn poisoned(&self) -> Option<String> {
        self.shared.durable.poisoned()
    }

    /// The latest moment that the store has seen. A clock must not start before it.
    pub fn latest(&self) -> Timestamp {
        self.shared.tables.lock().now
    }

    /// Whether the store has given out an id, whatever became of the item.
    pub fn has_made(&self, id: ItemId) -> bool {
        let tables = self.shared.tables.lock();
        tables.serial(id).is_some_and(|serial| serial <= tables.ids.last())
    }

    /// What went wrong since it was opened without stopping the store, if anything did.
    pub fn unhealthy(&self) -> Option<String> {
        self.shared.tables.lock().unhealthy.borrow().clone()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.tables.lock().fmt(f)
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.shared.fmt(f)
    }
}
