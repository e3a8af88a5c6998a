//! What the fault tests share: a small store on a simulated disk, a load that anything may stop,
//! and the ledger of what it was promised.

use std::cell::RefCell;
use std::sync::Arc;

use windrow_core::command::{Claim, Command, Grant, NewItem};
use windrow_core::item::{Body, Payload};
use windrow_core::ports::{Now, Store as _, StoreError, Work};
use windrow_core::{Answer, ItemId, Refusal, Timestamp};
use windrow_store::embedded::disk::Disk as _;
use windrow_store::embedded::{OpenError, Options};
use windrow_testkit::clock::SimClock;
use windrow_testkit::crash::ack::Ack;
use windrow_testkit::crash::ledger::{Finding, Ledger};
use windrow_testkit::crash::load::{Producer, Worker, configure, tick};
use windrow_testkit::crash::verify::{Depth, Verified, verify};
use windrow_testkit::disk::SimDisk;
use windrow_testkit::dump::{Dump, dump};
use windrow_testkit::random::Splitmix;
use windrow_testkit::stepped::Stepped;
use windrow_testkit::suite::block_on;

pub(crate) const SEGMENT_BYTES: u32 = 16 << 10;

/// Files so small that a few dozen commands bring snapshots and reclaim around.
pub(crate) fn options() -> Options {
    Options {
        segment_bytes: SEGMENT_BYTES,
        reserve_segments: 1,
        snapshot_bytes: 24 << 10,
        slack_bytes: 8 << 10,
        seed: Some(1),
        ..Options::default()
    }
}

pub(crate) fn open(disk: &SimDisk) -> Result<Stepped, OpenError> {
    Stepped::open(Arc::new(disk.clone()), options())
}

/// A store under load, until something stops it.
pub(crate) struct World {
    pub(crate) store: Stepped,
    clock: SimClock,
    dice: Splitmix,
    producers: Vec<Producer>,
    workers: Vec<Worker>,
    acks: RefCell<Vec<Ack>>,
}

impl World {
    /// Opens the store; the load is drawn from `seed` and names its items after `life`.
    pub(crate) fn open(
        disk: &SimDisk,
        clock: &SimClock,
        life: u32,
        seed: u64,
    ) -> Result<World, OpenError> {
        let mut dice = Splitmix(seed);
        let store = open(disk)?;
        let producers = (0..2).map(|no| Producer::new(no, life, 4, dice.draw())).collect();
        let workers = (0..2).map(|no| Worker::new(no, 4, dice.draw())).collect();
        let acks = RefCell::default();
        Ok(World { store, clock: clock.clone(), dice, producers, workers, acks })
    }

    /// Sets the queues up and takes so many steps; an error is what stopped it.
    pub(crate) fn run(&mut self, steps: usize) -> Result<(), StoreError> {
        block_on(configure(&self.store, 60, self.clock.now()))?;
        (0..steps).try_for_each(|_| self.step())
    }

    /// One thing that somebody asks, and a little housekeeping.
    fn step(&mut self) -> Result<(), StoreError> {
        let now = self.clock.advance(1 + self.dice.below(20) as u64);
        let told = |ack| self.acks.borrow_mut().push(ack);
        match self.dice.below(20) {
            0..8 => {
                let at = self.dice.below(self.producers.len());
                block_on(self.producers[at].step(&self.store, now, &told))?;
            }
            8..18 => {
                let at = self.dice.below(self.workers.len());
                block_on(self.workers[at].step(&self.store, now, &told))?;
            }
            18 => block_on(tick(&self.store, now))?,
            _ => {
                // Long enough for every lease to expire.
                let now = self.clock.advance(4_000);
                block_on(tick(&self.store, now))?;
            }
        }
        for _ in 0..self.dice.below(4) {
            self.store.store.keep_step();
            if self.dice.percent(30) {
                self.store.store.sync_step();
            }
        }
        Ok(())
    }

    /// Lets it pass that something was refused in this word: loud is right when reads fail.
    pub(crate) fn forgive(&mut self, word: &str) {
        let forgiven = |ack: &Ack| matches!(ack, Ack::Wrong(what) if what.contains(word));
        self.acks.borrow_mut().retain(|ack| !forgiven(ack));
    }

    /// Ends this life: what was promised goes into the ledger.
    pub(crate) fn end(self, ledger: &mut Ledger) -> Result<(), Finding> {
        ledger.begin_life();
        self.acks.into_inner().into_iter().try_for_each(|ack| ledger.take(ack))
    }
}

/// Opens what a fault left, and holds everything in it against the ledger. Whatever else holds at
/// every commit is counted as well.
#[track_caller]
pub(crate) fn check(disk: &SimDisk, ledger: &mut Ledger, now: Timestamp, what: &str) -> Verified {
    let store = match open(disk) {
        Ok(store) => store,
        Err(error) => panic!("{what}: not opened: {error}"),
    };
    let mut dice = Splitmix(7);
    let verified = verify(&store, ledger, Depth::Everything, &mut dice, now);
    verified.unwrap_or_else(|finding| panic!("{what}: {finding}"))
}

/// Everything in the store on this disk.
#[track_caller]
pub(crate) fn dumped(disk: &SimDisk, what: &str) -> Dump {
    let store = open(disk).unwrap_or_else(|error| panic!("{what}: not opened: {error}"));
    dump(&store).unwrap_or_else(|error| panic!("{what}: not readable: {error}"))
}

/// Asks one thing.
pub(crate) fn ask(
    store: &Stepped,
    command: Command,
    now: Timestamp,
) -> Result<Answer<Work>, StoreError> {
    block_on(store.submit(vec![command.into()], Now::Given(now))).map(|mut answers| {
        assert_eq!(answers.len(), 1, "one answer for one request");
        answers.remove(0)
    })
}

/// An item with a payload of so many bytes.
pub(crate) fn plain(bytes: usize) -> NewItem {
    let mut body = Body::new("t", "q");
    body.payload = Payload::Inline(vec![7; bytes]);
    NewItem::new(body)
}

/// Enqueues one item.
#[track_caller]
pub(crate) fn enqueue(store: &Stepped, item: NewItem, now: Timestamp) -> Result<ItemId, Refusal> {
    match ask(store, Command::Enqueue(vec![item]), now).expect("the store answers") {
        Answer::Enqueued(mut each) => each.remove(0).map(|enqueued| enqueued.id),
        Answer::Refused(refusal) => Err(refusal),
        other => panic!("expected enqueued, got {other:?}"),
    }
}

/// Claims up to so many items.
#[track_caller]
pub(crate) fn claim(store: &Stepped, max: usize, now: Timestamp) -> Option<Grant<Work>> {
    match ask(store, Command::Claim(Claim::new("w", "q", max)), now).expect("the store answers") {
        Answer::Claimed(grant) => grant,
        other => panic!("expected claimed, got {other:?}"),
    }
}

/// Does housekeeping, and syncs, until neither finds anything to do.
pub(crate) fn keep(store: &Stepped) {
    for _ in 0..10_000 {
        let kept = store.store.keep_step();
        let synced = store.store.sync_step();
        if !kept && !synced && !store.store.is_keeping() {
            return;
        }
    }
    panic!("housekeeping never ends");
}

/// The place of some bytes that occur once on the disk.
pub(crate) fn find(disk: &SimDisk, bytes: &[u8]) -> (String, u64) {
    let mut found = Vec::new();
    for file in disk.list().unwrap() {
        let contents = disk.contents(&file).unwrap();
        let places = contents.windows(bytes.len()).enumerate().filter(|(_, at)| *at == bytes);
        found.extend(places.map(|(at, _)| (file.clone(), at as u64)));
    }
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}
