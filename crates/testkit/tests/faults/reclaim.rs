//! Reclaimed space: what still lives was moved, and every later opening finds it where it is.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use windrow_core::command::{Claim, Command, Outcome};
use windrow_core::ports::{Now, Store as _};
use windrow_core::settings::Settings;
use windrow_core::{Answer, ItemId, Timestamp};
use windrow_store::embedded::disk::Disk as _;
use windrow_testkit::clock::SimClock;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::dump::dump;
use windrow_testkit::moved;
use windrow_testkit::stepped::Stepped;

use crate::rig::{ask, claim, dumped, enqueue, find, keep, open, plain};

/// Enqueues, claims and completes so many items of a queue that forgets them.
fn churn(store: &Stepped, count: usize, now: Timestamp) {
    for _ in 0..count {
        let mut item = plain(900);
        item.body.queue = "brief".into();
        enqueue(store, item, now).unwrap();
        let claim = Claim::new("w", "brief", 1);
        let claimed = ask(store, Command::Claim(claim), now).unwrap();
        let Answer::Claimed(Some(grant)) = claimed else { panic!("{claimed:?}") };
        let items = vec![(grant.items[0].item.id, Outcome::complete())];
        ask(store, Command::Settle { lease: grant.lease, items }, now).unwrap();
        keep(store);
    }
}

#[test]
fn ended_items_are_readable_after_their_segment_was_reclaimed_and_the_store_opened_again() {
    // An item that began and ended in one segment was moved twice: once with its body, and once as
    // it was, still naming the old place of the body. The second copy won when the log was
    // replayed, and the segment with the body was gone.
    let (disk, clock) = (SimDisk::new(1), SimClock::default());
    let now = clock.now();
    let store = open(&disk).unwrap();
    let settings = Box::new(Settings { forget_completed: true, ..Settings::default() });
    ask(&store, Command::Configure { queue: "brief".into(), settings }, now).unwrap();
    for _ in 0..5 {
        enqueue(&store, plain(50), now).unwrap();
    }
    let grant = claim(&store, 4, now).unwrap();
    let mut items: Vec<_> =
        grant.items.iter().map(|work| (work.item.id, Outcome::complete())).collect();
    items.truncate(3);
    ask(&store, Command::Settle { lease: grant.lease, items }, now).unwrap();
    churn(&store, 60, now);
    let files = disk.list().unwrap();
    assert!(!files.contains(&"segment-0000000001.log".to_owned()), "{files:?}");
    let before = dump(&store).unwrap();
    assert_eq!(before.items.len(), 5);
    drop(store);
    for what in ["opened again", "and again"] {
        assert_eq!(before.difference(&dumped(&disk, what)), None, "{what}");
    }
    assert_eq!(before.difference(&dumped(&disk.crash(), "after a crash")), None);
}

#[test]
fn a_claim_that_waits_while_its_segment_is_reclaimed_still_gets_the_work() {
    // Bodies are read without a lock once the claim is durable. By then their segment may be gone.
    let (disk, clock) = (SimDisk::new(2), SimClock::default());
    let now = clock.now();
    let store = open(&disk).unwrap();
    let settings = Box::new(Settings { forget_completed: true, ..Settings::default() });
    ask(&store, Command::Configure { queue: "brief".into(), settings }, now).unwrap();
    let ids = [50, 60].map(|bytes| enqueue(&store, plain(bytes), now).unwrap());
    let context = &mut Context::from_waker(Waker::noop());
    let request = Command::Claim(Claim::new("w", "q", 9)).into();
    let mut claimed = pin!(store.store.submit(vec![request], Now::Given(now)));
    assert!(claimed.as_mut().poll(context).is_pending(), "it waits for the disk");
    churn(&store, 60, now);
    let files = disk.list().unwrap();
    assert!(!files.contains(&"segment-0000000001.log".to_owned()), "{files:?}");
    let Poll::Ready(Ok(answers)) = claimed.as_mut().poll(context) else { panic!("an answer") };
    let [Answer::Claimed(Some(grant))] = &answers[..] else { panic!("{answers:?}") };
    let handed: Vec<ItemId> = grant.items.iter().map(|work| work.item.id).collect();
    assert_eq!(handed, ids);
    assert_eq!(store.store.unhealthy(), None);
}

#[test]
fn a_segment_of_which_something_cannot_be_read_is_not_dropped() {
    // Whether an ended item still needs its body stands in its last record. When that could not be
    // read the answer was "no", and the segment with the body was dropped.
    let (disk, clock) = (SimDisk::new(3), SimClock::default());
    let now = clock.now();
    let store = open(&disk).unwrap();
    let settings = Box::new(Settings { forget_completed: true, ..Settings::default() });
    ask(&store, Command::Configure { queue: "brief".into(), settings }, now).unwrap();
    let id = enqueue(&store, plain(50), now).unwrap();
    let grant = claim(&store, 1, now).unwrap();
    // The last record is to lie in another segment than the body.
    for _ in 0..20 {
        enqueue(&store, plain(900), now).unwrap();
    }
    let result = Some(b"the one result".to_vec());
    let complete = Outcome::Complete { result, output: None, spawn: Vec::new() };
    ask(&store, Command::Settle { lease: grant.lease, items: vec![(id, complete)] }, now).unwrap();
    let before = dump(&store).unwrap();
    let (file, at) = find(&disk, b"the one result");
    assert_ne!(file, "segment-0000000001.log");
    disk.flip(&file, at, 5);
    churn(&store, 60, now);
    let first = "segment-0000000001.log".to_owned();
    assert!(disk.list().unwrap().contains(&first));
    let unhealthy = store.store.unhealthy().expect("it says so");
    assert!(unhealthy.contains(&id.to_string()) && unhealthy.contains(&file), "{unhealthy}");
    disk.flip(&file, at, 5);
    for _ in 0..500 {
        keep(&store);
    }
    assert!(!disk.list().unwrap().contains(&first), "it is tried again");
    assert_eq!(before.difference(&dump(&store).unwrap()), None);
    assert_eq!(before.difference(&dumped(&disk.crash(), "after a crash")), None);
}

#[test]
fn whatever_happens_to_an_item_while_it_is_moved_it_is_read_from_its_new_place() {
    // A body was copied, and before the copy counted the item ended and came back. It still named
    // the old place of its body, so the copy was taken for it: in memory, but not in the log, where
    // the copy comes first and the old place last. The segment with the old place was dropped.
    let mut runs = 0;
    moved::explore(&mut runs).unwrap();
    assert!(runs > 80, "only {runs} runs");
}
