//! A full disk: enqueues are refused, everything else lives on the reserve, and room is found again
//! without a restart.

use std::io::Write as _;
use std::sync::Arc;

use windrow_core::command::{Claim, Command, Grant, Outcome};
use windrow_core::limits::NOTE_MAX;
use windrow_core::note::{Expects, WriteNote};
use windrow_core::ports::Work;
use windrow_core::refusal::Full;
use windrow_core::trail::Class;
use windrow_core::{Answer, Refusal, Timestamp};
use windrow_store::embedded::Options;
use windrow_store::embedded::disk::RealDisk;
use windrow_testkit::clock::SimClock;
use windrow_testkit::crash::volume::Volume;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::dump::dump;
use windrow_testkit::stepped::Stepped;

use crate::lock::Scratch;
use crate::rig::{ask, claim, dumped, enqueue, keep, open, plain};

/// Enqueues until the store says that the disk is full; says how many it took.
#[track_caller]
fn fill(store: &Stepped, bytes: usize, now: Timestamp) -> usize {
    for taken in 0..100_000 {
        match enqueue(store, plain(bytes), now) {
            Ok(_) => {}
            Err(Refusal::StoreFull { what: Full::Disk, retry_after_ms }) => {
                assert!(retry_after_ms > 0);
                return taken;
            }
            Err(refusal) => panic!("{refusal}"),
        }
        store.store.keep_step();
    }
    panic!("the disk is never full");
}

#[track_caller]
fn complete(store: &Stepped, grant: &Grant<Work>, now: Timestamp) {
    settle(store, grant, &Outcome::complete(), now);
}

#[track_caller]
fn settle(store: &Stepped, grant: &Grant<Work>, outcome: &Outcome, now: Timestamp) {
    let items = grant.items.iter().map(|work| (work.item.id, outcome.clone())).collect();
    match ask(store, Command::Settle { lease: grant.lease, items }, now).unwrap() {
        Answer::Settled(each) => assert!(each.iter().all(Result::is_ok), "{each:?}"),
        other => panic!("{other:?}"),
    }
}

/// Everything that must go on while enqueues are refused.
#[track_caller]
fn check_the_rest_goes_on(store: &Stepped, now: Timestamp) {
    let grant = claim(store, 3, now).expect("there is work");
    let renew = Command::Renew { lease: grant.lease, lease_ms: None };
    assert!(matches!(ask(store, renew, now).unwrap(), Answer::Renewed(_)));
    complete(store, &grant, now);
    assert!(matches!(ask(store, Command::Sweep { limit: 10 }, now).unwrap(), Answer::Swept(_)));
    let reclaim = Command::Reclaim { limit: 10 };
    assert!(matches!(ask(store, reclaim, now).unwrap(), Answer::Reclaimed(_)));
}

#[test]
fn a_full_disk_refuses_enqueues_and_nothing_else_and_recovers_without_a_restart() {
    let (disk, clock) = (SimDisk::new(1), SimClock::default());
    let now = clock.now();
    let store = open(&disk).unwrap();
    keep(&store);
    disk.set_capacity(Some(disk.used()));
    let taken = fill(&store, 300, now);
    assert!(taken > 20, "{taken}");
    for _ in 0..6 {
        check_the_rest_goes_on(&store, now);
        assert_eq!(enqueue(&store, plain(1), now).unwrap_err().code(), "store_full");
    }
    keep(&store);
    assert!(store.store.trouble().is_some_and(|why| why.contains("No space left")));
    disk.set_capacity(None);
    keep(&store);
    assert_eq!(store.store.trouble(), None);
    enqueue(&store, plain(300), now).expect("there is room again");
    assert_eq!((store.store.poisoned(), store.store.unhealthy()), (None, None));
    let before = dump(&store).unwrap();
    assert_eq!(before.items.len(), taken + 1);
    assert_eq!(before.difference(&dumped(&disk.crash(), "after a crash")), None);
}

#[test]
fn enqueues_resume_as_soon_as_there_is_room_for_some_of_a_segment() {
    let (disk, now) = (SimDisk::new(4), SimClock::default().now());
    // Nothing else is written while there is no room: no snapshot, and no segment is dropped.
    let much = 1 << 30;
    let options = Options {
        segment_bytes: 4 << 20,
        reserve_segments: 1,
        snapshot_bytes: much,
        slack_bytes: much,
        seed: Some(1),
        ..Options::default()
    };
    let store = Stepped::open(Arc::new(disk.clone()), options).unwrap();
    keep(&store);
    disk.set_capacity(Some(disk.used()));
    let mut taken = fill(&store, 14_000, now);
    for _ in 0..3 {
        keep(&store);
        assert_eq!(enqueue(&store, plain(1), now).unwrap_err().code(), "store_full");
        disk.set_capacity(Some(disk.used() + (1 << 20)));
        keep(&store);
        let more = fill(&store, 14_000, now);
        assert!((30..90).contains(&more), "{more} items in one mebibyte");
        taken += more;
    }
    check_the_rest_goes_on(&store, now);
    let before = dump(&store).unwrap();
    assert_eq!(before.items.len(), taken);
    assert_eq!(before.difference(&dumped(&disk.crash(), "after a crash")), None);
}

/// In the proportions of the defaults, a 256th of their size.
fn small() -> Options {
    proportioned(256 << 10)
}

fn proportioned(segment: u32) -> Options {
    Options {
        segment_bytes: segment,
        reserve_segments: 2,
        snapshot_bytes: 8 * u64::from(segment),
        slack_bytes: 4 * u64::from(segment),
        seed: Some(1),
        ..Options::default()
    }
}

/// A disk that is full with so many thirds of a segment beside the reserve: at least with room for
/// a snapshot.
fn sizes() -> impl Iterator<Item = u64> {
    (1..32).map(|thirds| thirds * u64::from(small().segment_bytes) / 3)
}

fn opened(disk: &SimDisk) -> Stepped {
    Stepped::open(Arc::new(disk.clone()), small()).unwrap()
}

/// Fills a disk with so much room beside the reserve, and lets all of it end and be swept: then
/// there is room again.
#[track_caller]
fn check_it_takes_items_again(options: &Options, extra: u64, notes: usize, bytes: usize) {
    let (disk, now) = (SimDisk::new(5), SimClock::default().now());
    let opened = |disk: &SimDisk| Stepped::open(Arc::new(disk.clone()), options.clone()).unwrap();
    let store = opened(&disk);
    keep(&store);
    for number in 0..notes {
        write_note(&store, number, now);
        keep(&store);
    }
    disk.set_capacity(Some(disk.used() + extra));
    fill(&store, bytes, now);
    while let Some(grant) = claim(&store, 3, now) {
        complete(&store, &grant, now);
        keep(&store);
    }
    let later = Timestamp(now.0 + 8 * 24 * 3_600_000);
    loop {
        match ask(&store, Command::Sweep { limit: 10 }, later).unwrap() {
            Answer::Swept(swept) if swept.more => keep(&store),
            Answer::Swept(_) => break,
            other => panic!("{other:?} with {extra} bytes"),
        }
    }
    // What was in vain is tried again in a while.
    (0..1_000).for_each(|_| keep(&store));
    for again in 0..8 {
        let added = enqueue(&store, plain(bytes), later);
        let trouble = store.store.trouble();
        added.unwrap_or_else(|why| panic!("{again}: {why} with {extra} bytes, {trouble:?}"));
        keep(&store);
    }
    let after = opened(&disk.crash());
    assert_eq!(dump(&store).unwrap().difference(&dump(&after).unwrap()), None);
}

/// As large as they may be.
fn write_note(store: &Stepped, number: usize, now: Timestamp) {
    let (shelf, name) = ("full".into(), number.to_string().into());
    let body = Some(vec![b'n'; NOTE_MAX].into());
    let write = WriteNote { shelf, name, expects: Expects::Anything, body };
    assert!(matches!(ask(store, Command::Note(write), now).unwrap(), Answer::Noted(_)));
}

/// Whatever its size: it stayed closed for good where the disk was full before the log had grown
/// enough for a snapshot or for space to be reclaimed, and where a spare took what a snapshot
/// needed.
#[test]
fn a_full_disk_takes_items_again_once_they_have_gone() {
    for extra in sizes() {
        check_it_takes_items_again(&small(), extra, 0, 8_000);
    }
}

/// The spare that made way was the smallest, because only items were reckoned with.
#[test]
fn a_full_disk_has_room_for_a_snapshot_of_many_notes() {
    // Large enough that a full disk has smaller spares.
    let options = proportioned(3 << 19);
    for sixths in 6..18 {
        let extra = sixths * u64::from(options.segment_bytes) / 6;
        check_it_takes_items_again(&options, extra, 19, 14_000);
    }
}

/// A segment of which much lived when the disk became full was not looked at again as long as there
/// were as many items, though what lived was what had been said of their attempts.
#[test]
fn a_full_disk_reclaims_what_has_gone_though_no_item_has() {
    let (disk, now) = (SimDisk::new(7), SimClock::default().now());
    // Nothing is reclaimed before the disk is full.
    let options = Options { snapshot_bytes: 1 << 30, slack_bytes: 1 << 30, ..small() };
    let store = Stepped::open(Arc::new(disk.clone()), options).unwrap();
    keep(&store);
    for _ in 0..100 {
        enqueue(&store, plain(60), now).unwrap();
    }
    while let Some(grant) = claim(&store, 10, now) {
        let (class, message) = (Class::Infrastructure, "x".repeat(1_500));
        let again = Outcome::Retry { class, message, delay_ms: Some(60_000) };
        settle(&store, &grant, &again, now);
        keep(&store);
    }
    // Segments of which nothing lives, behind the one of which much does.
    for _ in 0..16 {
        write_note(&store, 0, now);
        keep(&store);
    }
    disk.set_capacity(Some(disk.used()));
    fill(&store, 8_000, now);
    keep(&store);
    let then = now.plus(60_000);
    while let Some(grant) = claim(&store, 10, then) {
        complete(&store, &grant, then);
        keep(&store);
    }
    assert_eq!(enqueue(&store, plain(1), then).unwrap_err().code(), "store_full");
    let later = then.plus(6 * 60_000);
    ask(&store, Command::Reclaim { limit: 10 }, later).unwrap();
    (0..1_000).for_each(|_| keep(&store));
    let trouble = store.store.trouble();
    enqueue(&store, plain(1), later).unwrap_or_else(|why| panic!("{why}, {trouble:?}"));
}

/// What is freed for a snapshot may be taken by whoever fills the disk, and what lives in every
/// segment is not worth moving: all that was taken in can be done all the same.
#[test]
fn a_full_disk_keeps_its_reserve_whoever_takes_what_is_freed() {
    let (bytes, extras) = (8_000, sizes().step_by(3));
    for (extra, lives_on) in extras.flat_map(|extra| [(extra, 2), (extra, 5)]) {
        let (disk, now) = (SimDisk::new(6), SimClock::default().now());
        let store = opened(&disk);
        keep(&store);
        disk.set_capacity(Some(disk.used() + extra));
        let mut taken = 0;
        loop {
            let mut item = plain(bytes);
            if taken % lives_on != 0 {
                item.body.queue = "kept".into();
            }
            if enqueue(&store, item, now).is_err() {
                break;
            }
            taken += 1;
            store.store.keep_step();
        }
        let neighbour = || {
            (0..500).for_each(|_| {
                keep(&store);
                disk.set_capacity(Some(disk.used()));
            })
        };
        neighbour();
        for queue in ["q", "kept"] {
            let claim = || Command::Claim(Claim::new("w", queue, 3));
            let granted = || match ask(&store, claim(), now).unwrap() {
                Answer::Claimed(grant) => grant,
                other => panic!("{other:?} with {extra} bytes, {lives_on}"),
            };
            let mut failed = 0;
            while let Some(grant) = granted() {
                // As much as a segment holds, and the rest as little as can be.
                if queue == "q" && failed < 60 {
                    failed += fail_all(&store, &grant, now).unwrap();
                } else {
                    complete(&store, &grant, now);
                }
                keep(&store);
                disk.set_capacity(Some(disk.used()));
            }
            neighbour();
        }
    }
}

#[test]
fn when_the_reserve_is_used_up_too_commands_are_refused_and_the_store_lives_on() {
    let (disk, clock) = (SimDisk::new(2), SimClock::default());
    let now = clock.now();
    let store = open(&disk).unwrap();
    keep(&store);
    disk.set_capacity(Some(disk.used()));
    let taken = fill(&store, 60, now);
    let mut settled = 0;
    // Settles that write a lot more than they bring: every one has an error of its own to keep.
    let refused = loop {
        let failed = match ask(&store, Command::Claim(claim_of(3)), now).unwrap() {
            Answer::Claimed(Some(grant)) => fail_all(&store, &grant, now),
            Answer::Refused(refusal) => Err(refusal),
            other => panic!("{other:?} after {settled} of {taken}"),
        };
        match failed {
            Ok(some) => settled += some,
            Err(refusal) => break refusal,
        }
        store.store.keep_step();
    };
    assert_eq!(refused.code(), "store_full");
    assert!(settled > 6, "{settled} of {taken}");
    assert_eq!(store.store.poisoned(), None);
    let before = dump(&store).unwrap();
    assert_eq!(before.difference(&dumped(&disk.kill(), "on the full disk")), None);
    disk.set_capacity(None);
    keep(&store);
    enqueue(&store, plain(300), now).expect("there is room again");
    check_the_rest_goes_on(&store, now);
}

fn claim_of(max: usize) -> Claim {
    Claim::new("w", "q", max)
}

fn fail_all(store: &Stepped, grant: &Grant<Work>, now: Timestamp) -> Result<usize, Refusal> {
    let fail = Outcome::Fail { class: Class::BadData, message: "x".repeat(1_500) };
    let items = grant.items.iter().map(|work| (work.item.id, fail.clone())).collect();
    match ask(store, Command::Settle { lease: grant.lease, items }, now) {
        Ok(Answer::Settled(each)) => each.into_iter().map(|one| one.map(|_| 1)).sum(),
        Ok(Answer::Refused(refusal)) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_that_no_segment_could_hold_is_refused_and_the_store_lives_on() {
    let (disk, now) = (SimDisk::new(3), SimClock::default().now());
    let store = open(&disk).unwrap();
    let large = Command::Enqueue((0..4).map(|_| plain(8_000)).collect());
    let answer = ask(&store, large, now).unwrap();
    let Answer::Refused(refusal) = answer else { panic!("{answer:?}") };
    assert_eq!(refusal.code(), "invalid");
    enqueue(&store, plain(8_000), now).expect("one of them fits");
}

#[test]
fn a_full_file_system_refuses_enqueues_and_recovers_without_a_restart() {
    if let Some(missing) = Volume::missing() {
        // Past the capture of the test harness, which shows nothing of a test that passes.
        let loud = format!("\n** SKIPPED: no file system was filled, because {missing}\n");
        std::io::stderr().write_all(loud.as_bytes()).unwrap();
        return;
    }
    let scratch = Scratch::new("full");
    let volume = Volume::create(&scratch.0, 40 << 20).unwrap();
    let ballast = volume.path().join("ballast");
    std::fs::write(&ballast, vec![1; 12 << 20]).unwrap();
    let disk = RealDisk::open(volume.path().join("data")).unwrap();
    let options = Options {
        segment_bytes: 2 << 20,
        reserve_segments: 1,
        snapshot_bytes: 4 << 20,
        slack_bytes: 4 << 20,
        ..Options::default()
    };
    let now = SimClock::default().now();
    let store = Stepped::open(Arc::new(disk), options).unwrap();
    keep(&store);
    let taken = fill(&store, 14_000, now);
    for _ in 0..5 {
        check_the_rest_goes_on(&store, now);
        assert_eq!(enqueue(&store, plain(1), now).unwrap_err().code(), "store_full");
    }
    std::fs::remove_file(&ballast).unwrap();
    keep(&store);
    enqueue(&store, plain(14_000), now).expect("there is room again");
    assert_eq!((store.store.poisoned(), store.store.unhealthy()), (None, None));
    assert_eq!(dump(&store).unwrap().items.len(), taken + 1);
    drop(store);
    drop(volume);
}
