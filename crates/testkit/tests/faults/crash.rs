//! The power goes at any moment: in a commit, a snapshot, a move, a recovery.

use windrow_core::command::Command;
use windrow_store::embedded::disk::Disk as _;
use windrow_testkit::clock::SimClock;
use windrow_testkit::crash::ledger::Ledger;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::suite::check_everything;

use crate::rig::{World, check, dumped, open, plain};

const STEPS: usize = 110;

/// Runs the load of a seed until the power goes after so many operations of the disk. Says whether
/// it went at all.
fn cut(seed: u64, operations: u64) -> (SimDisk, SimClock, Ledger, bool) {
    let (disk, clock) = (SimDisk::new(seed ^ operations << 20), SimClock::default());
    let mut ledger = Ledger::default();
    disk.cut_power_after(operations);
    if let Ok(mut world) = World::open(&disk, &clock, 1, seed) {
        let stopped = world.run(STEPS);
        assert!(stopped.is_ok() || disk.is_off(), "{stopped:?}");
        world.forgive("the power is off");
        world.end(&mut ledger).unwrap();
    }
    let off = disk.is_off();
    (disk, clock, ledger, off)
}

/// Cuts the power after every `stride`-th operation of a load, and checks what is left.
fn check_cuts(seed: u64, stride: u64) {
    let mut operations = 0;
    loop {
        let what = format!("seed {seed}, cut after {operations} operations");
        let (disk, clock, ledger, off) = cut(seed, operations);
        let after = disk.crash();
        check(&after.kill(), &mut ledger.clone(), clock.now(), &what);
        if operations % 4 == 0 {
            let first = dumped(&after, &what);
            let second = dumped(&after.kill(), &what);
            assert_eq!(first.difference(&second), None, "{what}: recovery repeats");
        }
        if !off {
            break;
        }
        operations += stride;
    }
    assert!(operations > 400, "only {operations} operations were cut");
    reaches_everything(seed);
}

#[test]
fn whenever_the_power_goes_everything_acknowledged_is_there_and_recovery_repeats() {
    check_cuts(1, 1);
}

#[test]
fn whenever_the_power_goes_in_other_loads_everything_acknowledged_is_there() {
    (2..6).for_each(|seed| check_cuts(seed, 13));
}

/// The load must come to snapshots and reclaimed segments, or cutting it proves little.
fn reaches_everything(seed: u64) {
    let (disk, _, ledger, _) = cut(seed, u64::MAX);
    let files = disk.list().unwrap();
    let has = |start: &str| files.iter().any(|file| file.starts_with(start));
    assert!(has("snapshot-"), "{files:?}");
    assert!(!has("segment-0000000001"), "{files:?}");
    assert!(ledger.acks > 200, "{} acks", ledger.acks);
    check_everything(&open(&disk).unwrap());
}

#[test]
fn one_directory_survives_many_deaths_in_a_row() {
    for seed in 0..6 {
        let (mut disk, clock) = (SimDisk::new(seed), SimClock::default());
        let mut ledger = Ledger::default();
        for life in 1..=12 {
            let what = format!("seed {seed}, life {life}");
            disk.cut_power_after(60 + (seed * 37 + u64::from(life) * 101) % 300);
            if let Ok(mut world) = World::open(&disk, &clock, life, seed * 100 + u64::from(life)) {
                let _the_power_went = world.run(STEPS);
                world.forgive("the power is off");
                world.end(&mut ledger).unwrap();
            }
            disk = if life % 3 == 0 { disk.kill() } else { disk.crash() };
            check(&disk, &mut ledger, clock.now(), &what);
            disk = disk.kill();
            clock.advance(1_000);
        }
        check_everything(&open(&disk).unwrap());
    }
}

#[test]
fn a_recovery_that_is_cut_at_any_step_ends_in_the_same_state() {
    for operations in [150, 290, 433] {
        let (disk, ..) = cut(3, operations);
        let broken = disk.crash();
        let expected = dumped(&broken.kill(), "uncut");
        let mut cuts = 0;
        loop {
            let what = format!("cut after {operations}, recovery after {cuts}");
            let again = broken.kill();
            again.cut_power_after(cuts);
            let opened = open(&again).is_ok();
            assert_ne!(opened, again.is_off(), "{what}");
            let found = dumped(&again.crash(), &what);
            assert_eq!(expected.difference(&found), None, "{what}");
            if opened {
                break;
            }
            cuts += 1;
        }
        assert!(cuts >= 4, "only {cuts} steps of the recovery were cut");
    }
}

#[test]
fn a_torn_group_counts_as_a_whole_or_not_at_all() {
    let (disk, clock) = (SimDisk::new(4), SimClock::default());
    let store = open(&disk).unwrap();
    let now = clock.now();
    let three = |bytes| Command::Enqueue((0..3).map(|_| plain(bytes)).collect());
    crate::rig::ask(&store, three(900), now).unwrap();
    let before = dumped(&disk.kill(), "before");
    assert_eq!(before.items.len(), 3);
    disk.cut_power_after(2);
    crate::rig::ask(&store, three(900), now).unwrap_err();
    assert!(disk.is_off());
    let whole = dumped(&disk.crash_where(|_, _| true), "all sectors arrived");
    assert_eq!(whole.items.len(), 6);
    let mut torn = 0;
    for missing in 0..64 {
        let what = format!("sector {missing} is missing");
        let after = dumped(&disk.crash_where(|_, sector| sector != missing), &what);
        if after.items.len() == 3 {
            assert_eq!(before.difference(&after), None, "{what}");
            torn += 1;
        } else {
            assert_eq!(whole.difference(&after), None, "{what}");
        }
    }
    assert!(torn >= 5, "the group spans several sectors, and {torn} matter");
}
