//! Rot: a flipped bit is refused by name, or matters to nobody; it never makes an item vanish.

use windrow_core::command::{Command, NewChild, NewItem, Outcome};
use windrow_core::item::Payload;
use windrow_core::ports::Store as _;
use windrow_core::route::Route;
use windrow_core::tally::{Bucket, OnGaps};
use windrow_core::{Answer, ItemId, Timestamp};
use windrow_store::embedded::disk::Disk as _;
use windrow_testkit::clock::SimClock;
use windrow_testkit::crash::ledger::Ledger;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::dump::{Dump, dump};
use windrow_testkit::random::Splitmix;
use windrow_testkit::stepped::Stepped;
use windrow_testkit::suite::block_on;

use crate::rig::{World, ask, claim, dumped, enqueue, find, keep, open, plain};

/// A store with a history: several segments, a snapshot, live and ended items, trees.
fn aged(seed: u64) -> (SimDisk, SimClock, Dump) {
    let (disk, clock) = (SimDisk::new(seed), SimClock::default());
    let mut world = World::open(&disk, &clock, 1, seed).unwrap();
    world.run(160).unwrap();
    world.end(&mut Ledger::default()).unwrap();
    let disk = disk.crash();
    let before = dumped(&disk.kill(), "before");
    (disk, clock, before)
}

/// What became of a flip.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fate {
    /// The store was not opened, and said which file.
    Refused,
    /// Something could not be read, and said so.
    Unreadable,
    Harmless,
}

/// Opens the store with one bit flipped, and lets it keep house for a while.
fn fate(disk: &SimDisk, file: &str, offset: u64, bit: u8, before: &Dump) -> Fate {
    let what = format!("{file}, byte {offset}, bit {bit}");
    let rotten = disk.kill();
    rotten.flip(file, offset, bit);
    let store = match open(&rotten) {
        Ok(store) => store,
        Err(error) => {
            let error = error.to_string();
            assert!(
                error.contains(file) && error.contains("byte") || says_format(&error),
                "{what}: {error}"
            );
            return Fate::Refused;
        }
    };
    for round in 0..2 {
        match dump(&store) {
            Ok(found) => assert_eq!(before.difference(&found), None, "{what}, round {round}"),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("unreadable") && error.contains("segment-"), "{error}");
                assert!(store.store.unhealthy().is_some_and(|why| why.contains("unreadable")));
                return Fate::Unreadable;
            }
        }
        // Reclaim must not take what it cannot read for what nobody needs.
        for _ in 0..60 {
            store.store.keep_step();
            store.store.sync_step();
        }
    }
    Fate::Harmless
}

/// A flipped format number is refused as another format, which has no place in the file.
fn says_format(error: &str) -> bool {
    error.contains("has format") && error.contains("this program reads")
}

#[test]
fn a_flipped_bit_is_refused_by_name_or_harmless_and_never_loses_an_item() {
    let (disk, _, before) = aged(21);
    assert!(before.items.len() > 80, "{}", before.items.len());
    let mut dice = Splitmix(5);
    let mut fates = std::collections::BTreeMap::new();
    let files = disk.list().unwrap();
    assert!(files.iter().any(|file| file.starts_with("snapshot-")), "{files:?}");
    for file in files.iter().filter(|file| file.ends_with(".log") || file.ends_with(".snap")) {
        let len = disk.contents(file).unwrap().len() as u64;
        let flips = if file.starts_with("spare-") { 3 } else { 50 };
        for _ in 0..flips {
            let (offset, bit) = (dice.draw() % len, dice.below(8) as u8);
            let fate = fate(&disk, file, offset, bit, &before);
            let kind = file.split('-').next().unwrap_or("").to_owned();
            *fates.entry((kind, fate)).or_insert(0) += 1;
        }
    }
    let count = |kind: &str, fate| fates.get(&(kind.to_owned(), fate)).copied().unwrap_or(0);
    assert!(count("snapshot", Fate::Refused) >= 50, "{fates:?}");
    assert_eq!(count("snapshot", Fate::Unreadable), 0, "{fates:?}");
    assert!(count("segment", Fate::Refused) > 20, "{fates:?}");
    assert!(count("segment", Fate::Unreadable) > 20, "{fates:?}");
    assert!(count("segment", Fate::Harmless) > 20, "{fates:?}");
    assert_eq!(count("spare", Fate::Refused) + count("spare", Fate::Unreadable), 0, "{fates:?}");
}

#[test]
fn every_bit_of_a_snapshot_block_and_of_a_segment_header_matters() {
    let (disk, _, before) = aged(22);
    let files = disk.list().unwrap();
    let snapshot = files.iter().find(|file| file.starts_with("snapshot-")).unwrap();
    let segment = files.iter().find(|file| file.starts_with("segment-")).unwrap();
    for bit in 0..64 * 8 {
        let fate = fate(&disk, snapshot, bit / 8, (bit % 8) as u8, &before);
        assert_eq!(fate, Fate::Refused, "bit {bit} of {snapshot}");
    }
    for bit in 0..44 * 8 {
        let fate = fate(&disk, segment, bit / 8, (bit % 8) as u8, &before);
        assert_eq!(fate, Fate::Refused, "bit {bit} of {segment}");
    }
}

fn marked(mark: &str) -> NewItem {
    let mut item = plain(0);
    item.body.payload = Payload::Inline(mark.as_bytes().to_vec());
    item
}

/// Three waiting items, of which the body of the second has rotted since the store was opened.
fn one_rotten() -> (SimDisk, Stepped, [ItemId; 3], Timestamp) {
    let (disk, now) = (SimDisk::new(1), SimClock::default().now());
    let store = open(&disk).unwrap();
    let ids = ["first item", "second item", "third item"]
        .map(|mark| enqueue(&store, marked(mark), now).unwrap());
    let (file, at) = find(&disk, b"second item");
    disk.flip(&file, at + 3, 2);
    (disk, store, ids, now)
}

#[test]
fn an_item_whose_body_has_rotted_is_quarantined_loudly_and_the_others_are_handed_out() {
    let (disk, store, [first, second, third], now) = one_rotten();
    assert_eq!(store.store.unhealthy(), None);
    let grant = claim(&store, 9, now).unwrap();
    let handed: Vec<ItemId> = grant.items.iter().map(|work| work.item.id).collect();
    assert_eq!(handed, [first, third]);
    let unhealthy = store.store.unhealthy().expect("it says so");
    let named = unhealthy.contains(&second.to_string());
    assert!(named && unhealthy.contains("segment-0000000001.log"), "{unhealthy}");
    assert!(claim(&store, 9, now).is_none(), "nobody gets it");
    let vitals = block_on(store.vitals(now)).unwrap();
    assert_eq!((vitals.quarantined, vitals.warnings), (1, vec![unhealthy]));
    assert!(vitals.waiting.is_empty(), "it is not in line");
    let items = grant.items.iter().map(|work| (work.item.id, Outcome::complete())).collect();
    ask(&store, Command::Settle { lease: grant.lease, items }, now).unwrap();
    let counts = block_on(store.counts()).unwrap();
    assert_eq!(counts.iter().map(|count| count.items).sum::<u64>(), 3, "{counts:?}");
    keep(&store);
    drop(store);
    // The log is read whole when it is opened without a snapshot, so the damage is found there.
    let error = open(&disk.kill()).unwrap_err().to_string();
    assert!(error.contains("segment-0000000001.log is damaged"), "{error}");
}

#[test]
fn a_rotten_child_goes_out_of_reach_and_its_parent_still_counts_right() {
    let (disk, now) = (SimDisk::new(2), SimClock::default().now());
    let store = open(&disk).unwrap();
    enqueue(&store, plain(1), now).unwrap();
    let parent = claim(&store, 1, now).unwrap();
    let child = |ordinal, mark: &str| {
        let mut child = NewChild::new(ordinal, "part", Route::single());
        child.payload = Payload::Inline(mark.as_bytes().to_vec());
        child
    };
    let split = Outcome::Split {
        children: vec![child(1, "healthy child"), child(2, "rotten child")],
        more: false,
        on_gaps: OnGaps::Continue,
        output: None,
    };
    let items = vec![(parent.items[0].item.id, split)];
    ask(&store, Command::Settle { lease: parent.lease, items }, now).unwrap();
    let (file, at) = find(&disk, b"rotten child");
    disk.flip(&file, at, 0);
    let claimed = claim(&store, 9, now).unwrap();
    assert_eq!(claimed.items.len(), 1);
    assert!(store.store.unhealthy().is_some());
    assert!(claim(&store, 9, now).is_none(), "nobody gets it");
    let seen = block_on(store.inspect(parent.items[0].item.id)).unwrap().unwrap();
    let children = seen.tally.expect("it has children").children;
    assert_eq!((children.of(Bucket::Processing), children.of(Bucket::Pending)), (1, 1));
    // Its sibling still ends, which takes its share from those counts and adds another.
    let items = vec![(claimed.items[0].item.id, Outcome::complete())];
    let settled = ask(&store, Command::Settle { lease: claimed.lease, items }, now).unwrap();
    assert!(matches!(settled, Answer::Settled(each) if each[0].is_ok()));
}
