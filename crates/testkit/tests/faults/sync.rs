//! A failed sync: what it covered is unknown, so nothing is acknowledged from then on.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use windrow_core::command::{Claim, Command};
use windrow_core::ports::{Now, Store as _, StoreError};
use windrow_testkit::clock::SimClock;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::suite::block_on;

use crate::rig::{ask, dumped, enqueue, keep, open, plain};

#[test]
fn a_failed_sync_stops_the_store_for_good_and_a_new_one_finds_everything_acknowledged() {
    for seed in 0..20 {
        let (disk, now) = (SimDisk::new(seed), SimClock::default().now());
        let store = open(&disk).unwrap();
        let first = enqueue(&store, plain(100), now).unwrap();
        disk.fail_sync(1);
        let waiting = ask(&store, Command::Enqueue(vec![plain(2_000)]), now);
        let Err(StoreError::OutcomeUnknown(why)) = waiting else { panic!("{waiting:?}") };
        assert!(why.contains("segment-0000000001.log: sync failed"), "{why}");
        assert_eq!(store.store.poisoned(), Some(why));

        let poisoned = |error: StoreError| assert!(matches!(error, StoreError::Poisoned(_)));
        poisoned(ask(&store, Command::Enqueue(vec![plain(1)]), now).unwrap_err());
        poisoned(ask(&store, Command::Claim(Claim::new("w", "nowhere", 1)), now).unwrap_err());
        poisoned(ask(&store, Command::Sweep { limit: 1 }, now).unwrap_err());
        poisoned(block_on(store.inspect(first)).unwrap_err());
        poisoned(block_on(store.explain(first, now)).unwrap_err());
        poisoned(block_on(store.children(first, 0, 1)).unwrap_err());
        poisoned(block_on(store.items(None, 1)).unwrap_err());
        let before = disk.counters();
        assert!(!store.store.sync_step());
        assert_eq!(disk.counters(), before, "nothing is written any more");

        for after in [disk.kill(), disk.crash()] {
            let found = dumped(&after, &format!("seed {seed}"));
            assert!(found.items.contains_key(&first), "seed {seed}");
            assert!(found.items.len() <= 2, "seed {seed}");
        }
    }
}

#[test]
fn everybody_who_waits_for_the_failed_group_learns_that_the_outcome_is_unknown() {
    let (disk, now) = (SimDisk::new(1), SimClock::default().now());
    let store = open(&disk).unwrap();
    let context = &mut Context::from_waker(Waker::noop());
    let submit =
        || store.store.submit(vec![Command::Enqueue(vec![plain(9)]).into()], Now::Given(now));
    let mut waiting = [Box::pin(submit()), Box::pin(submit())];
    let mut reading = pin!(store.store.items(None, 9));
    for one in &mut waiting {
        assert!(one.as_mut().poll(context).is_pending());
    }
    assert!(reading.as_mut().poll(context).is_pending(), "it saw what is not durable");
    disk.fail_sync(1);
    assert!(!store.store.sync_step());
    for one in &mut waiting {
        let Poll::Ready(Err(error)) = one.as_mut().poll(context) else { panic!("an answer") };
        assert!(matches!(error, StoreError::OutcomeUnknown(_)), "{error}");
    }
    let Poll::Ready(Err(error)) = reading.as_mut().poll(context) else { panic!("an answer") };
    assert!(matches!(error, StoreError::Poisoned(_)), "{error}");
}

#[test]
fn a_sync_that_fails_in_the_background_stops_the_store_as_well() {
    let (disk, now) = (SimDisk::new(2), SimClock::default().now());
    let store = open(&disk).unwrap();
    keep(&store);
    let first = enqueue(&store, plain(100), now).unwrap();
    store.store.begin_snapshot();
    disk.fail_sync(1);
    while store.store.keep_step() {}
    let why = store.store.poisoned().expect("the snapshot could not be synced");
    assert!(why.contains("snapshot"), "{why}");
    let refused = ask(&store, Command::Sweep { limit: 1 }, now).unwrap_err();
    assert!(matches!(refused, StoreError::Poisoned(_)), "{refused}");
    let refused = block_on(store.inspect(first)).unwrap_err();
    assert!(matches!(refused, StoreError::Poisoned(_)), "{refused}");
    let found = dumped(&disk.crash(), "after a failed snapshot");
    assert_eq!(found.items.keys().collect::<Vec<_>>(), [&first]);
}

#[test]
fn what_waits_when_the_background_stops_the_store_is_not_acknowledged() {
    let (disk, now) = (SimDisk::new(3), SimClock::default().now());
    let store = open(&disk).unwrap();
    let context = &mut Context::from_waker(Waker::noop());
    let request = Command::Enqueue(vec![plain(9)]).into();
    let mut waiting = pin!(store.store.submit(vec![request], Now::Given(now)));
    assert!(waiting.as_mut().poll(context).is_pending());
    // A spare is synced first, then its name.
    disk.fail_sync(2);
    while store.store.keep_step() {}
    let why = store.store.poisoned().expect("the directory could not be synced");
    assert!(why.contains("sync of the directory"), "{why}");
    assert!(!store.store.sync_step(), "the disk is not to be trusted any more");
    let Poll::Ready(Err(error)) = waiting.as_mut().poll(context) else { panic!("an answer") };
    assert!(matches!(error, StoreError::OutcomeUnknown(_)), "{error}");
}
