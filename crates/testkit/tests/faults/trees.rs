//! Trees across a restart: what a parent counted is what it counts when it is opened again.

use std::sync::Arc;

use windrow_core::command::{Command, NewChild, Outcome, RetryMode};
use windrow_core::limits::FOLD_AFTER_MS;
use windrow_core::route::{Route, Stage};
use windrow_core::tally::OnGaps;
use windrow_core::{Answer, Timestamp};
use windrow_testkit::clock::SimClock;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::dump::dump;
use windrow_testkit::stepped::Stepped;

use crate::rig::{ask, claim, enqueue, keep, open, plain};

/// Claims the one item that waits and settles it.
#[track_caller]
fn settle(store: &Stepped, outcome: Outcome, now: Timestamp) {
    let grant = claim(store, 1, now).expect("an item waits");
    let items = vec![(grant.items[0].item.id, outcome)];
    let settled = ask(store, Command::Settle { lease: grant.lease, items }, now).unwrap();
    assert!(matches!(&settled, Answer::Settled(each) if each[0].is_ok()), "{settled:?}");
}

#[test]
fn an_item_that_left_its_children_behind_counts_none_when_it_is_opened_again() {
    // An ended parent ran again from the stage in which it had split, and this time did not. Its
    // old counts stayed in memory, went into the snapshot, and made it a tree that could be folded.
    let (disk, now) = (SimDisk::new(1), SimClock::default().now());
    let store = open(&disk).unwrap();
    let mut item = plain(10);
    let stages = vec![Stage::splitting("pages", &["work"]), Stage::new("publish")];
    item.body.route = Arc::new(Route { stages });
    let parent = enqueue(&store, item, now).unwrap();
    let split = Outcome::Split {
        children: vec![NewChild::new(0, "part", Route::single())],
        more: false,
        on_gaps: OnGaps::Continue,
        output: None,
    };
    // The parent, its child, and the parent's last stage.
    settle(&store, split, now);
    settle(&store, Outcome::complete(), now);
    settle(&store, Outcome::complete(), now);
    let (items, from_stage) = (vec![parent], Some("pages".into()));
    let again = Command::Retry { items, mode: RetryMode::Reset, from_stage };
    let retried = ask(&store, again, now).unwrap();
    assert!(matches!(&retried, Answer::Retried(each) if each[0].is_ok()), "{retried:?}");
    settle(&store, Outcome::complete(), now);
    settle(&store, Outcome::complete(), now);

    store.store.begin_snapshot();
    keep(&store);
    let before = dump(&store).unwrap();
    let reopened = open(&disk.kill()).unwrap();
    assert_eq!(before.difference(&dump(&reopened).unwrap()), None);
    let later = now.plus(FOLD_AFTER_MS + 10_000);
    let swept = |store| ask(store, Command::Sweep { limit: 100 }, later).unwrap();
    assert_eq!(swept(&store), swept(&reopened));
}
