//! A full disk: commands are refused before they begin, a reserve is left, and room is found again.

use std::sync::Arc;

use windrow_store::embedded::disk::Disk;
use windrow_store::embedded::log::{LogError, Recovered, Space, Work};
use windrow_testkit::disk::SimDisk;

use crate::rig::{SEGMENT_BYTES, commit, open, prepare};

/// A ready log on a disk that has just become full.
fn full(seed: u64) -> (SimDisk, Recovered) {
    let disk = SimDisk::new(seed);
    let (mut log, _) = open(&disk).unwrap();
    assert!(matches!(prepare(&mut log).unwrap(), Work::Idle));
    disk.set_capacity(Some(disk.used()));
    (disk, log)
}

/// Commits until the log refuses; says how many went through.
fn fill(log: &mut Recovered) -> usize {
    for number in 0.. {
        match commit(log, &[&[7; 10_000]]) {
            Ok(_) => assert!(number < 100, "the disk is not full"),
            Err(error) => {
                assert!(matches!(error, LogError::NoSpace { .. }), "{error}");
                assert!(error.is_full());
                return number;
            }
        }
    }
    unreachable!()
}

#[test]
fn a_full_disk_leaves_the_prepared_segment_and_the_reserve_then_refuses() {
    let (disk, mut log) = full(1);
    assert_eq!(log.writer.space(), Space::Plenty);
    commit(&mut log, &[&[1; 10_000]]).unwrap();
    commit(&mut log, &[&[2; 10_000]]).unwrap();
    let Work::Blocked(error) = prepare(&mut log).unwrap() else { panic!("expected a full disk") };
    assert!(error.is_full(), "{error}");
    assert_eq!(log.writer.space(), Space::Reserve);
    commit(&mut log, &[&[3; 10_000]]).unwrap();
    prepare(&mut log).unwrap();
    assert_eq!(log.spares.space(), Space::None);
    let before = log.writer.position();
    assert!(matches!(commit(&mut log, &[&[4; 10_000]]), Err(LogError::NoSpace { .. })));
    assert_eq!(log.writer.position(), before, "a refused command changes nothing");
    commit(&mut log, &[b"small ones still fit the current segment"]).unwrap();
    assert_eq!(open(&disk.crash()).unwrap().1.len(), 4);
}

#[test]
fn the_reserve_serves_a_writer_that_the_background_does_not_keep_up_with() {
    let (disk, mut log) = full(2);
    assert_eq!(fill(&mut log), 3, "the first segment, the next one, and the reserve");
    assert_eq!(log.writer.space(), Space::None);
    assert_eq!(open(&disk.crash()).unwrap().1.len(), 3);
}

#[test]
fn a_writer_that_outruns_the_background_leaves_the_reserve_alone() {
    let disk = SimDisk::new(8);
    let (mut log, _) = open(&disk).unwrap();
    prepare(&mut log).unwrap();
    for _ in 0..5 {
        commit(&mut log, &[&[1; 10_000]]).unwrap();
    }
    disk.set_capacity(Some(disk.used()));
    assert_eq!(fill(&mut log), 1, "the reserve is still there");
    assert_eq!(open(&disk.crash()).unwrap().1.len(), 6);
}

#[test]
fn half_written_spares_of_an_earlier_life_are_not_trusted() {
    let disk = SimDisk::new(9);
    let file = disk.create("filling-0000000007.log").unwrap();
    file.set_len(u64::from(SEGMENT_BYTES)).unwrap();
    disk.create("spare-0000000008.log").unwrap().set_len(4096).unwrap();
    disk.create("somebody else's").unwrap();
    drop(file);
    let (mut log, _) = open(&disk).unwrap();
    assert_eq!(disk.list().unwrap(), ["segment-0000000001.log", "somebody else's"]);
    disk.set_capacity(Some(disk.used()));
    assert_eq!(fill(&mut log), 1);
}

#[test]
fn the_log_recovers_by_itself_when_there_is_room_again() {
    let (disk, mut log) = full(3);
    let committed = fill(&mut log);
    assert!(matches!(log.spares.step().unwrap(), Work::Blocked(_)));
    disk.set_capacity(Some(disk.used() + u64::from(SEGMENT_BYTES)));
    assert!(matches!(prepare(&mut log).unwrap(), Work::Blocked(_)));
    assert_eq!(log.writer.space(), Space::Reserve, "one segment is not yet plenty");
    disk.set_capacity(None);
    assert!(matches!(prepare(&mut log).unwrap(), Work::Idle));
    assert_eq!(log.writer.space(), Space::Plenty);
    commit(&mut log, &[&[8; 10_000]]).unwrap();
    drop(log);
    assert_eq!(open(&disk.crash()).unwrap().1.len(), committed + 1);
}

#[test]
fn dropping_segments_refills_the_reserve_on_a_full_disk() {
    let (disk, mut log) = full(4);
    let committed = fill(&mut log);
    let from = log.writer.position();
    log.spares.drop_segment(1).unwrap();
    assert_eq!(log.writer.space(), Space::Reserve);
    log.spares.drop_segment(2).unwrap();
    prepare(&mut log).unwrap();
    assert_eq!(log.writer.space(), Space::Plenty);
    commit(&mut log, &[&[8; 10_000]]).unwrap();
    drop(log);
    let (log, seen) = crate::rig::open_from(&disk.crash(), Some(from)).unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(log.writer.group_no(), committed as u64 + 2);
}

#[test]
fn a_log_opens_on_a_full_disk() {
    let (disk, mut log) = full(5);
    let committed = fill(&mut log);
    drop(log);
    let (mut log, seen) = open(&disk.crash()).unwrap();
    assert_eq!(seen.len(), committed);
    commit(&mut log, &[b"small"]).unwrap();
}

#[test]
fn other_errors_of_the_disk_are_waited_out_as_well() {
    let disk = SimDisk::new(6);
    let (mut log, _) = open(&disk).unwrap();
    disk.fail_write(1);
    let Work::Blocked(error) = log.spares.step().unwrap() else { panic!("expected an error") };
    assert!(!error.is_full(), "{error}");
    assert!(matches!(prepare(&mut log).unwrap(), Work::Idle));
    assert_eq!(log.writer.space(), Space::Plenty);
    // A spare whose sync failed is thrown away, and another one is made.
    commit(&mut log, &[&[1; 10_000]]).unwrap();
    commit(&mut log, &[&[1; 10_000]]).unwrap();
    assert!(matches!(log.spares.step().unwrap(), Work::More), "the spare becomes the next one");
    disk.fail_sync(1);
    assert!(matches!(log.spares.step().unwrap(), Work::Blocked(_)));
    assert!(matches!(prepare(&mut log).unwrap(), Work::Idle));
    // The sync that makes the next segment durable is one the log relies on.
    commit(&mut log, &[&[1; 10_000]]).unwrap();
    disk.fail_sync(1);
    assert!(log.spares.step().unwrap_err().is_failed_sync());
}

#[test]
fn the_reserve_is_written_in_slices_with_a_sync_every_few() {
    let disk = std::sync::Arc::new(SimDisk::new(7));
    let mut options = crate::rig::options();
    options.segment_bytes = 10 << 20;
    let (mut log, _) = crate::rig::open_as(disk.clone(), options, None).unwrap();
    let (mut steps, mut syncs) = (0, 0);
    loop {
        let before = disk.counters();
        let Work::More = log.spares.step().unwrap() else {
            break;
        };
        let after = disk.counters();
        assert!(after.bytes_written - before.bytes_written <= 1 << 20);
        syncs += after.file_syncs - before.file_syncs;
        steps += 1;
    }
    assert_eq!((steps, syncs), (21, 2 * 3 + 1), "ten slices for each of two files, one promotion");
}

const MIB: usize = 1 << 20;

/// A log of segments of sixteen mebibytes on a disk that is full, with nothing left but the
/// reserve; and how many groups it holds.
fn large(seed: u64) -> (SimDisk, Recovered, usize) {
    let disk = SimDisk::new(seed);
    let mut options = crate::rig::options();
    options.segment_bytes = 16 << 20;
    let (mut log, _) = crate::rig::open_as(Arc::new(disk.clone()), options, None).unwrap();
    prepare(&mut log).unwrap();
    disk.set_capacity(Some(disk.used()));
    let groups = while_plenty(&mut log);
    assert_eq!(log.writer.space(), Space::Reserve);
    (disk, log, groups)
}

/// Commits half a mebibyte as long as there is plenty of room; says how often.
fn while_plenty(log: &mut Recovered) -> usize {
    let mut groups = 0;
    while log.writer.space() == Space::Plenty {
        commit(log, &[&vec![7; MIB / 2]]).unwrap();
        prepare(log).unwrap();
        groups += 1;
        assert!(groups < 200, "there is always plenty");
    }
    groups
}

#[test]
fn room_for_less_than_a_segment_is_used_and_the_reserve_is_not() {
    let (disk, mut log, mut groups) = large(10);
    let reserve = disk.used();
    disk.set_capacity(Some(reserve + 3 * MIB as u64));
    assert!(matches!(prepare(&mut log).unwrap(), Work::Blocked(_)));
    let more = while_plenty(&mut log);
    assert!((5..=7).contains(&more), "{more} halves of three mebibytes");
    groups += more;
    // A little at a time comes to the same.
    for round in 2..=4 {
        disk.set_capacity(Some(reserve + 3 * round * MIB as u64));
        prepare(&mut log).unwrap();
        let more = while_plenty(&mut log);
        assert!((4..=8).contains(&more), "{more} halves in round {round}");
        groups += more;
    }
    // Begun segment, next one, and what is left of the reserve, as after any full disk.
    let mut rest = 0;
    while commit(&mut log, &[&vec![8; MIB / 2]]).is_ok() {
        prepare(&mut log).unwrap();
        rest += 1;
    }
    assert!((52..=64).contains(&rest), "{rest} halves of the last two segments");
    disk.set_capacity(None);
    assert!(matches!(prepare(&mut log).unwrap(), Work::Idle));
    assert_eq!(log.writer.space(), Space::Plenty);
    drop(log);
    assert_eq!(open(&disk.crash()).unwrap().1.len(), groups + rest);
}

#[test]
fn a_command_that_a_small_segment_does_not_hold_finds_a_larger_one() {
    let (disk, mut log, mut groups) = large(11);
    disk.set_capacity(Some(disk.used() + 3 * MIB as u64));
    prepare(&mut log).unwrap();
    let segment = log.writer.position().segment;
    while log.writer.position().segment == segment {
        commit(&mut log, &[&vec![7; MIB / 2]]).unwrap();
        groups += 1;
    }
    // The small one is prepared, because it is used first.
    prepare(&mut log).unwrap();
    while log.writer.is_ready_for(10 * MIB) {
        commit(&mut log, &[&vec![9; 10 * MIB]]).unwrap();
        prepare(&mut log).unwrap();
        groups += 1;
    }
    let refused = commit(&mut log, &[&vec![9; 10 * MIB]]);
    assert!(matches!(refused, Err(LogError::NoSpace { .. })), "only the small one is left");
    let before = log.writer.position().segment;
    while commit(&mut log, &[&vec![7; MIB / 2]]).is_ok() {
        groups += 1;
    }
    assert_eq!(log.writer.position().segment, before + 1, "which holds what is small");
    for disk in [disk.kill(), disk.crash()] {
        let (mut log, seen) = open(&disk).unwrap();
        assert_eq!(seen.len(), groups);
        commit(&mut log, &[b"small"]).unwrap();
    }
}
