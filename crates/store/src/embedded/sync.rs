//! Syncing: groups become durable here, and nowhere else.
//!
//! There is a thread for it. But to wake one and to be woken by it takes about as long as a quick
//! disk takes to sync. So whoever decided something small, on a quick disk and on a thread that
//! would only sleep meanwhile, promises to write its group itself, and calls nobody. It first lets
//! everything else go on that its thread has to do, for as long as that adds to the group: those
//! who ask at the same time share a sync, as they do when the other thread syncs. What a promise
//! leaves undone, the syncer is called for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use windrow_core::planted::{Bug, is_planted};

use super::Shared;

/// A disk that syncs in less is quick.
const QUICK: Duration = Duration::from_micros(1_000);
/// How often a caller lets others go on before it writes what has gathered.
const TURNS_MAX: usize = 16;

/// Who is at it, and how long it takes.
#[derive(Debug, Default)]
pub(crate) struct Syncing {
    /// Held by whoever writes a group.
    only: Mutex<()>,
    /// Whether there is a thread that takes what is left.
    has_thread: AtomicBool,
    /// About how long a group takes, in nanoseconds; zero until one was written.
    pace: AtomicU64,
}

impl Syncing {
    /// From here on there is a thread.
    pub(crate) fn begin(&self) {
        self.has_thread.store(true, Ordering::Release);
    }

    fn took(&self, time: Duration) {
        let (time, pace) = (time.as_nanos() as u64, self.pace.load(Ordering::Relaxed));
        // One that was slow for once counts little, and is soon forgotten.
        let pace = if pace == 0 { time } else { pace - pace / 8 + time / 8 };
        self.pace.store(pace, Ordering::Relaxed);
    }
}

impl Shared {
    /// Writes and syncs one group; false if none waits. Once the store has stopped nothing more
    /// does: after a failed sync the next one would lie.
    pub(crate) fn sync_step(&self) -> bool {
        let _only = self.syncing.only.lock();
        self.sync_group()
    }

    fn sync_group(&self) -> bool {
        if self.durable.poisoned().is_some() {
            return false;
        }
        let Some(sealed) = self.writer.lock().take() else { return false };
        let begun = Instant::now();
        if let Err(error) = sealed.write_and_sync()
            && !is_planted(Bug::SyncFailureIgnored)
        {
            self.poison(&error.to_string());
            return false;
        }
        self.syncing.took(begun.elapsed());
        let group = sealed.sequence();
        self.durable.reach(group);
        self.writer.lock().done(sealed);
        self.tell();
        true
    }

    /// Wakes the syncer, if there is something to write.
    pub(crate) fn call_syncer(&self) {
        if self.writer.lock().has_group() {
            self.filled.notify_one();
        }
    }

    /// Whether a caller may write its group itself: the disk is quick, and nobody else could use
    /// the caller's thread meanwhile.
    pub(crate) fn may_promise(&self) -> bool {
        let pace = self.syncing.pace.load(Ordering::Relaxed);
        pace > 0
            && pace < QUICK.as_nanos() as u64
            && self.syncing.has_thread.load(Ordering::Acquire)
            && is_alone()
    }

    pub(crate) fn promise(&self) -> Promise<'_> {
        Promise { shared: self, is_kept: false }
    }
}

/// Whether this thread is the only one that runs the tasks on it.
fn is_alone() -> bool {
    let runtime = Handle::try_current();
    runtime.is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread)
}

/// A caller will write the group that it decided, or else the syncer is called.
#[derive(Debug)]
pub(crate) struct Promise<'a> {
    shared: &'a Shared,
    is_kept: bool,
}

impl Promise<'_> {
    /// Lets others add to the group, then writes it, unless somebody is writing already.
    pub(crate) async fn keep(mut self, group: u64) {
        let shared = self.shared;
        let open = || shared.writer.lock().open_bytes();
        let mut bytes = open();
        for _ in 0..TURNS_MAX {
            // Everything else that is ready goes first, and what has just arrived.
            tokio::task::yield_now().await;
            let now = open();
            if shared.durable.reached() >= group || std::mem::replace(&mut bytes, now) == now {
                break;
            }
        }
        self.write(group);
        self.is_kept = true;
    }

    fn write(&self, group: u64) {
        let shared = self.shared;
        if shared.durable.reached() >= group {
            return;
        }
        // Who is at it already will look for more, and this group is there to be found.
        let Some(only) = shared.syncing.only.try_lock() else { return };
        while shared.durable.reached() < group && shared.sync_group() {}
        drop(only);
        shared.call_syncer();
    }
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.shared.call_syncer();
        }
    }
}
