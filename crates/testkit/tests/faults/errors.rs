//! The disk refuses one call: the first, the second, and so on until the load runs through.

use windrow_core::ports::StoreError;
use windrow_testkit::clock::SimClock;
use windrow_testkit::crash::ledger::Ledger;
use windrow_testkit::disk::{Counters, SimDisk};

use crate::rig::{World, check};

const STEPS: usize = 110;

/// Fails the nth call of one kind, for every `stride`-th n until there is no nth call. Says how
/// many calls there were, and how often the store stopped.
fn sweep(
    seed: u64,
    stride: u64,
    fail: fn(&SimDisk, u64),
    calls: fn(Counters) -> u64,
) -> (u64, u64) {
    let (mut nth, mut stopped) = (1, 0);
    loop {
        let what = format!("seed {seed}, call {nth} failed");
        let (disk, clock) = (SimDisk::new(seed), SimClock::default());
        let mut ledger = Ledger::default();
        fail(&disk, nth);
        if let Ok(mut world) = World::open(&disk, &clock, 1, seed) {
            if let Err(error) = world.run(STEPS) {
                stopped += 1;
                let known =
                    matches!(error, StoreError::OutcomeUnknown(_) | StoreError::Poisoned(_));
                assert!(known && world.store.store.poisoned().is_some(), "{what}: {error}");
            }
            world.forgive("unreadable");
            world.end(&mut ledger).unwrap();
        }
        let done = calls(disk.counters()) < nth;
        // The next process finds what the page cache has; after a power cut, less.
        let (left, how) = match nth % 2 {
            0 => (disk.kill(), "killed"),
            _ => (disk.crash(), "and the power went"),
        };
        check(&left, &mut ledger, clock.now(), &format!("{what}, {how}"));
        if done {
            return (nth - 1, stopped);
        }
        nth += stride;
    }
}

#[test]
fn whichever_write_fails_nothing_acknowledged_is_lost() {
    let (swept, stopped) = sweep(11, 1, SimDisk::fail_write, |counters| counters.writes);
    assert!(swept > 200 && stopped > 100, "{swept} writes failed, {stopped} stopped the store");
}

#[test]
fn whichever_sync_fails_nothing_acknowledged_is_lost() {
    let syncs = |counters: Counters| counters.file_syncs + counters.dir_syncs;
    let (swept, stopped) = sweep(12, 1, SimDisk::fail_sync, syncs);
    assert!(swept > 100 && stopped > 50, "{swept} syncs failed, {stopped} stopped the store");
}

#[test]
fn whichever_read_fails_nothing_acknowledged_is_lost() {
    let (swept, _) = sweep(13, 3, SimDisk::fail_read, |counters| counters.reads);
    assert!(swept > 200, "{swept} reads failed");
}
