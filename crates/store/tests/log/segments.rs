//! Changing segments, dropping them, recycling them, and reading all the while.

use std::sync::Arc;

use windrow_store::embedded::log::{Dropped, Loc, LogError, Space, Work};
use windrow_testkit::disk::SimDisk;

use crate::rig::{
    SEGMENT_BYTES, commit, open, open_as, open_from, options, payloads, prepare, push, read, sync,
};

#[test]
fn groups_go_on_in_the_next_segment_when_one_is_full() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk).unwrap();
    prepare(&mut log).unwrap();
    let mut expected = Vec::new();
    let mut locs = Vec::new();
    for number in 0..20u8 {
        let bytes = vec![number; 3000];
        locs.extend(commit(&mut log, &[&bytes]).unwrap());
        prepare(&mut log).unwrap();
        expected.push(vec![bytes]);
    }
    assert_eq!(log.segments.numbers(), 1..=5);
    assert!(locs.is_sorted());
    drop(log);
    let (log, seen) = open(&disk.crash()).unwrap();
    assert_eq!(payloads(&seen), expected);
    for (loc, records) in locs.iter().zip(&expected) {
        assert_eq!(read(&log, *loc).unwrap(), records[0]);
    }
}

#[test]
fn a_prepared_segment_costs_the_writer_no_call_to_the_disk() {
    let disk = SimDisk::new(2);
    let (mut log, _) = open(&disk).unwrap();
    assert!(matches!(prepare(&mut log).unwrap(), Work::Idle));
    commit(&mut log, &[&[1; 11_000]]).unwrap();
    let before = disk.counters();
    push(&mut log, &[&[2; 11_000]]).unwrap();
    assert_eq!(log.segments.numbers(), 1..=2);
    assert_eq!(disk.counters(), before);
    // The next change comes before the background was called: the writer makes a segment itself.
    sync(&mut log).unwrap();
    push(&mut log, &[&[3; 11_000]]).unwrap();
    sync(&mut log).unwrap();
    assert_eq!(log.segments.numbers(), 1..=3);
    assert!(disk.counters().file_syncs > before.file_syncs + 2);
    assert_eq!(open(&disk.crash()).unwrap().1.len(), 3);
}

#[test]
fn several_groups_may_wait_and_become_durable_in_order() {
    let disk = SimDisk::new(3);
    let (mut log, _) = open(&disk).unwrap();
    let mut locs: Vec<Loc> = Vec::new();
    for number in 0..6u8 {
        locs.extend(push(&mut log, &[&[number; 9000]]).unwrap());
    }
    assert_eq!(log.writer.group_no(), 6);
    assert!(log.writer.pending_bytes() > 54_000 && log.writer.open_bytes() > 9000);
    for sequence in 1..=6 {
        let group = log.writer.take().unwrap();
        assert_eq!(group.sequence(), sequence);
        for (loc, number) in locs.iter().zip(0..).skip(sequence as usize - 1) {
            assert_eq!(log.writer.peek(*loc).unwrap().bytes, [number; 9000]);
        }
        group.write_and_sync().unwrap();
        log.writer.done(group);
        assert_eq!(log.writer.durable(), sequence);
        let (_, seen) = open(&disk.crash()).unwrap();
        assert_eq!(seen.len() as u64, sequence);
    }
    assert!(log.writer.take().is_none());
    assert_eq!(log.writer.pending_bytes(), 0);
}

#[test]
fn a_command_larger_than_a_segment_is_refused_and_changes_nothing() {
    let disk = SimDisk::new(4);
    let (mut log, _) = open(&disk).unwrap();
    let max = options().command_bytes_max();
    let error = log.writer.begin(max + 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{} bytes do not fit into one group, which holds at most {max}", max + 1)
    );
    let largest = vec![5; max - 9];
    commit(&mut log, &[b"small"]).unwrap();
    commit(&mut log, &[&largest]).unwrap();
    let (_, seen) = open(&disk.crash()).unwrap();
    assert_eq!(payloads(&seen), [vec![b"small".to_vec()], vec![largest]]);
}

#[test]
#[should_panic(expected = "a command took more bytes than it announced")]
fn a_command_that_announced_too_little_is_a_bug() {
    let (mut log, _) = open(&SimDisk::new(5)).unwrap();
    log.writer.begin(10).unwrap();
    log.writer.push(1, &[0; SEGMENT_BYTES as usize]);
}

/// A log of five segments, four of them full, and the location of each record.
fn five_segments(disk: &SimDisk) -> (windrow_store::embedded::log::Recovered, Vec<Loc>) {
    let (mut log, _) = open(disk).unwrap();
    let mut locs = Vec::new();
    for number in 1..=5u8 {
        prepare(&mut log).unwrap();
        locs.extend(commit(&mut log, &[&[number; 10_000]]).unwrap());
    }
    assert_eq!(log.segments.numbers(), 1..=5);
    (log, locs)
}

#[test]
fn dropped_segments_are_recycled_until_there_are_spares_enough() {
    let disk = SimDisk::new(6);
    let (mut log, locs) = five_segments(&disk);
    prepare(&mut log).unwrap();
    let dropped = (1..=4).map(|number| log.spares.drop_segment(number).unwrap());
    let dropped: Vec<_> = dropped.collect();
    use Dropped::{Recycled, Removed};
    assert_eq!(dropped, [Recycled, Recycled, Removed, Removed]);
    assert!(matches!(read(&log, locs[1]), Err(LogError::Dropped { segment: 2 })));
    assert_eq!(read(&log, locs[4]).unwrap(), [5; 10_000]);
    // Three spares and the next one: all further segments come from them, without a byte of zeros.
    for _ in 0..3 {
        let before = disk.counters().bytes_written;
        commit(&mut log, &[&[6; 10_000]]).unwrap();
        assert!(matches!(log.spares.step().unwrap(), Work::More));
        assert!(disk.counters().bytes_written - before < 15_000);
    }
}

#[test]
fn a_segment_is_read_to_the_end_by_whoever_holds_it() {
    let disk = SimDisk::new(7);
    let (mut log, locs) = five_segments(&disk);
    let held = log.segments.get(1).unwrap();
    assert_eq!(log.spares.drop_segment(1).unwrap(), Dropped::Removed, "held, so not recycled");
    assert_eq!(log.spares.drop_segment(2).unwrap(), Dropped::Recycled);
    for _ in 0..6 {
        commit(&mut log, &[&[9; 10_000]]).unwrap();
        prepare(&mut log).unwrap();
    }
    let mut scratch = Vec::new();
    assert_eq!(held.read(locs[0].offset(), &mut scratch).unwrap().bytes, [1; 10_000]);
}

#[test]
#[should_panic(expected = "is being written")]
fn the_segment_being_written_cannot_be_dropped() {
    let (mut log, _) = open(&SimDisk::new(8)).unwrap();
    let _ = log.spares.drop_segment(1);
}

#[test]
fn old_groups_of_a_recycled_segment_never_come_back() {
    let disk = SimDisk::new(9);
    let (mut log, _) = open(&disk).unwrap();
    let mut from = None;
    for round in 0..40u8 {
        // Ever shorter groups, so that old ones lie whole behind the new ones.
        for group in 0..8 {
            prepare(&mut log).unwrap();
            commit(&mut log, &[&vec![round; 1400 - usize::from(round) * 30]]).unwrap();
            if group == 3 {
                from = Some(log.writer.position());
            }
        }
        let keep = from.unwrap().segment;
        while *log.segments.numbers().start() < keep {
            let oldest = *log.segments.numbers().start();
            log.spares.drop_segment(oldest).unwrap();
        }
        let expected = payloads(&open_from(&disk.kill(), from).unwrap().1);
        let (reopened, seen) = open_from(&disk.crash(), from).unwrap();
        assert_eq!(payloads(&seen), expected, "round {round}");
        assert_eq!(seen.len(), 4);
        assert_eq!(reopened.writer.group_no(), log.writer.group_no());
        assert!(seen.iter().all(|group| group.records[0].2[0] == round));
    }
    assert!(*log.segments.numbers().start() > 5);
}

#[test]
fn recovery_starts_where_it_is_told_even_if_that_group_went_to_the_next_segment() {
    let disk = SimDisk::new(10);
    let (mut log, _) = open(&disk).unwrap();
    commit(&mut log, &[&[1; 11_000]]).unwrap();
    let from = log.writer.position();
    commit(&mut log, &[&[2; 11_000]]).unwrap();
    commit(&mut log, &[b"3"]).unwrap();
    drop(log);
    let (log, seen) = open_from(&disk.crash(), Some(from)).unwrap();
    assert_eq!(from.segment, 1);
    assert_eq!(seen.iter().map(|group| group.position.sequence).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((log.tail.groups, log.writer.group_no()), (2, 4));
    let end = log.writer.position();
    drop(log);
    let (log, seen) = open_from(&disk, Some(end)).unwrap();
    assert_eq!((seen.len(), log.writer.group_no()), (0, 4));
}

#[test]
fn a_second_instance_is_refused_until_the_first_is_gone() {
    let disk = SimDisk::new(11);
    let (log, _) = open(&disk).unwrap();
    let error = open(&disk).unwrap_err();
    assert!(matches!(error, LogError::Locked { .. }), "{error}");
    let segments = log.segments.clone();
    drop(log);
    assert!(open(&disk).is_err(), "a reader still holds the segments");
    drop(segments);
    open(&disk).unwrap();
}

#[test]
fn the_segment_size_may_change_between_two_lives() {
    let disk = SimDisk::new(12);
    let (mut log, _) = open(&disk).unwrap();
    prepare(&mut log).unwrap();
    commit(&mut log, &[&[1; 9000]]).unwrap();
    drop(log);
    let mut larger = options();
    larger.segment_bytes = 4 * SEGMENT_BYTES;
    let (mut log, seen) = open_as(Arc::new(disk.clone()), larger, None).unwrap();
    assert_eq!(seen.len(), 1);
    commit(&mut log, &[&[2; 60_000]]).unwrap();
    prepare(&mut log).unwrap();
    assert_eq!(log.writer.space(), Space::Plenty);
    commit(&mut log, &[&[3; 60_000]]).unwrap();
    drop(log);
    assert_eq!(open(&disk.crash()).unwrap().1.len(), 3);
}
