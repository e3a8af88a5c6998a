//! One life of the process: a store that was opened, the engine over it, and its clients.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use windrow_core::Timestamp;
use windrow_core::change::Lease;
use windrow_core::ports::{Count, Store as _};
use windrow_engine::{Clock as _, Engine, Limits};
use windrow_store::embedded::disk::Disk;
use windrow_store::embedded::{Embedded, Families};

use super::clients::{Desk, Simulated};
use super::plan::Plan;
use super::sometimes::Sometimes;
use super::tasks::Tasks;
use super::time::SimTime;
use super::watch::{Shared, Watched};
use crate::disk::SimDisk;
use crate::stepped::Stepped;
use crate::suite::block_on;

/// A running process. Dropping it is how it dies.
#[derive(Debug)]
pub(crate) struct Life {
    // In this order: clients go before what they use.
    pub(crate) tasks: Tasks,
    pub(crate) desk: Rc<Desk>,
    pub(crate) engine: Arc<Simulated>,
    pub(crate) store: Embedded,
    pub(crate) disk: SimDisk,
    pub(crate) time: SimTime,
    /// A fault that may stop the store is on its way.
    pub(crate) armed: bool,
    pub(crate) stopped_ticking: bool,
    files: Files,
}

/// What can be told of the store's housekeeping from the names of its files.
#[derive(Debug, Default, PartialEq, Eq)]
struct Files {
    snapshot: Option<String>,
    oldest: Option<String>,
}

impl Files {
    fn of(disk: &SimDisk) -> Files {
        let names: BTreeSet<String> = disk.list().unwrap_or_default().into_iter().collect();
        let first = |prefix: &str| names.iter().find(|name| name.starts_with(prefix)).cloned();
        let last = |prefix: &str| names.iter().rev().find(|name| name.starts_with(prefix)).cloned();
        Files { snapshot: last("snapshot-"), oldest: first("segment-") }
    }
}

/// All that exists, as two stores can be compared by it.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Fingerprint {
    families: Families,
    counts: Vec<Count>,
}

impl Fingerprint {
    /// What another one has that this has not, and the reverse, one line each.
    pub(crate) fn differences(&self, other: &Fingerprint) -> Vec<String> {
        let (ours, theirs) = (self.lines(), other.lines());
        let gone = ours.difference(&theirs).map(|line| format!("- {line}"));
        let new = theirs.difference(&ours).map(|line| format!("+ {line}"));
        gone.chain(new).collect()
    }

    fn lines(&self) -> BTreeSet<String> {
        let Families { available, in_progress, visibility_index, leases, lease_expiry } =
            &self.families;
        let families = [available, in_progress, visibility_index, leases, lease_expiry];
        let entries = families.into_iter().flatten();
        let entries = entries.map(|(key, entry)| format!("{} {entry:?}", shown(key)));
        entries.chain(self.counts.iter().map(|count| format!("{count:?}"))).collect()
    }
}

/// A key of seed 002 with its bytes in hexadecimal.
fn shown(key: &[u8]) -> String {
    let name = key.iter().position(|byte| *byte == b'/').unwrap_or(0);
    let hex: Vec<String> = key[name..].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{} {}", String::from_utf8_lossy(&key[..name]), hex.concat())
}

impl Life {
    /// Begins a life with a store that was opened.
    pub(crate) fn begin(
        store: Embedded,
        disk: SimDisk,
        wall: Timestamp,
        plan: &Plan,
        ledger: &Shared,
        number: u64,
    ) -> Life {
        let time = SimTime::new(wall.max(store.latest()));
        ledger.lock().opened(time.now());
        let watched = Watched { store: store.clone(), ledger: Arc::clone(ledger) };
        let engine = Arc::new(Engine::new(watched, time.clone(), Limits::default(), plan.width));
        let desk = Desk::new(Arc::clone(&engine), Arc::clone(ledger), plan.clone(), number);
        let files = Files::of(&disk);
        let (tasks, desk) = (Tasks::default(), Rc::new(desk));
        let (armed, stopped_ticking) = (false, false);
        Life { tasks, desk, engine, store, disk, time, armed, stopped_ticking, files }
    }

    /// Starts the ticker and all clients.
    pub(crate) fn populate(&mut self, seed: u64) {
        let clients = self.desk.plan.clients();
        self.start_ticker();
        for number in 0..clients {
            self.start_client(number, seed);
        }
    }

    /// The number of the task that ticks.
    pub(crate) fn ticker(&self) -> usize {
        self.desk.plan.clients()
    }

    fn start_ticker(&mut self) {
        let engine = Arc::clone(&self.engine);
        let job = async move {
            // It ends when the store stops, and then there is nobody to tell.
            let _why = engine.run().await;
        };
        self.tasks.start(self.ticker(), Box::pin(job));
    }

    /// Starts a client; the one with its number goes away, whatever it is doing.
    pub(crate) fn start_client(&mut self, number: usize, seed: u64) {
        self.tasks.stop(number);
        self.desk.doing.borrow_mut()[number] = Default::default();
        let mixed = seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.tasks.start(number, self.desk.client(number, mixed));
    }

    /// Makes everything durable that waits.
    pub(crate) fn sync_all(&self) {
        while self.store.sync_step() {}
    }

    /// Does a piece of housekeeping and counts what can be seen of it. True if a file went.
    pub(crate) fn keep(&mut self, sometimes: &mut Sometimes) -> bool {
        if !self.store.keep_step() {
            return false;
        }
        let files = Files::of(&self.disk);
        let dropped = files.oldest > self.files.oldest;
        sometimes.snapshots += u64::from(files.snapshot > self.files.snapshot);
        sometimes.segments_dropped += u64::from(dropped);
        self.files = files;
        dropped
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint { families: self.store.families(), counts: self.counts() }
    }

    // An embedded store answers these at once, without a step of the disk.

    pub(crate) fn counts(&self) -> Vec<Count> {
        block_on(self.store.counts()).expect("items can be counted")
    }

    pub(crate) fn leases(&self) -> Vec<Lease> {
        block_on(self.store.leases()).expect("leases can be listed")
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        block_on(self.store.next_due()).expect("the next time is known")
    }

    /// The store as suites drive it: every wait does a step of the disk.
    pub(crate) fn stepped(&self) -> Stepped {
        Stepped { store: self.store.clone() }
    }
}
