//! What a crash leaves: all that was synced, and of the group in flight all or nothing.

use windrow_store::embedded::log::{LogError, Op};
use windrow_testkit::disk::{SECTOR_BYTES, SimDisk};

use crate::rig::{commit, open, payloads, push, read, sync};

#[test]
fn a_new_log_is_empty_and_says_so_again_after_a_crash() {
    let disk = SimDisk::new(1);
    for _ in 0..3 {
        let (log, seen) = open(&disk.crash()).unwrap();
        assert_eq!(seen, []);
        assert_eq!((log.writer.group_no(), log.writer.durable()), (1, 0));
        assert!(!log.tail.torn);
    }
}

#[test]
fn synced_groups_survive_and_locations_are_final() {
    let disk = SimDisk::new(2);
    let (mut log, _) = open(&disk).unwrap();
    let first = commit(&mut log, &[b"one", b"two"]).unwrap();
    let second = push(&mut log, &[b"three"]).unwrap();
    assert_eq!(log.writer.peek(second[0]).unwrap().bytes, b"three");
    sync(&mut log).unwrap();
    assert_eq!(log.writer.peek(second[0]), None);
    push(&mut log, &[b"never synced"]).unwrap();
    let (log, seen) = open(&disk.crash()).unwrap();
    assert_eq!(payloads(&seen), [vec![b"one".to_vec(), b"two".to_vec()], vec![b"three".to_vec()]]);
    let locs: Vec<_> =
        seen.iter().flat_map(|group| &group.records).map(|record| record.0).collect();
    assert_eq!(locs, [first, second.clone()].concat());
    assert_eq!(read(&log, second[0]).unwrap(), b"three");
    assert_eq!(log.writer.group_no(), 3);
}

/// Two groups synced, a third of several sectors written and not synced.
fn torn(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    let (mut log, _) = open(&disk).unwrap();
    commit(&mut log, &[b"one"]).unwrap();
    commit(&mut log, &[b"two"]).unwrap();
    let long: Vec<u8> = (0..3000u32).map(|byte| (byte * 31 + 7) as u8).collect();
    push(&mut log, &[&long, b"three"]).unwrap();
    let group = log.writer.take().unwrap();
    disk.cut_power_after(2);
    let error = group.write_and_sync().unwrap_err();
    assert!(error.is_failed_sync(), "{error}");
    disk
}

#[test]
fn a_torn_group_is_cut_whichever_sector_is_missing() {
    let disk = torn(3);
    let first = 4096 / SECTOR_BYTES as u64;
    let sectors = first..first + 7;
    let (log, seen) = open(&disk.crash_where(|_, _| true)).unwrap();
    assert_eq!((seen.len(), log.writer.group_no()), (3, 4), "it is whole if every sector arrived");
    for missing in sectors.clone() {
        let (mut log, seen) = open(&disk.crash_where(|_, sector| sector != missing)).unwrap();
        assert_eq!((seen.len(), log.writer.group_no()), (2, 3), "sector {missing} is missing");
        assert_eq!(log.tail.torn, missing != first, "known by its header");
        commit(&mut log, &[b"another three"]).unwrap();
    }
    for only in sectors {
        let (_, seen) = open(&disk.crash_where(|_, sector| sector == only)).unwrap();
        assert_eq!(seen.len(), 2, "only sector {only} arrived");
    }
}

#[test]
fn what_follows_a_cut_tail_is_durable_and_the_old_tail_never_returns() {
    for seed in 0..200 {
        let disk = torn(seed).crash();
        let (mut log, seen) = open(&disk).unwrap();
        let before = seen.len();
        commit(&mut log, &[b"short"]).unwrap();
        drop(log);
        let disk = disk.crash();
        let (mut log, seen) = open(&disk).unwrap();
        assert_eq!(seen.len(), before + 1, "seed {seed}");
        assert_eq!(seen[before].records[0].2, b"short", "seed {seed}");
        commit(&mut log, &[b"next"]).unwrap();
        let (_, seen) = open(&disk.crash()).unwrap();
        assert_eq!(seen.len(), before + 2, "seed {seed}");
    }
}

#[test]
fn a_cut_group_is_erased_so_that_equal_new_sectors_cannot_complete_it() {
    // The torn group lacks one sector, of zeros. The new life writes zeros there too, and crashes
    // so that only that sector arrives. Without the erased header the old group would be whole.
    let disk = SimDisk::new(4);
    let (mut log, _) = open(&disk).unwrap();
    commit(&mut log, &[&[9; 6000]]).unwrap();
    drop(log);
    let file = "segment-0000000001.log";
    let raw = windrow_store::embedded::disk::Disk::open(&disk, file).unwrap();
    raw.write_at(&[0xEE; 6000], 4096 + 6048).unwrap();
    raw.sync().unwrap();
    drop(raw);
    let write = |disk: &SimDisk, tag: u8| {
        let (mut log, seen) = open(disk).unwrap();
        assert_eq!(seen.len(), 1);
        push(&mut log, &[&[tag], &[0; 2000]]).unwrap();
        disk.cut_power_after(2);
        log.writer.take().unwrap().write_and_sync().unwrap_err();
    };
    write(&disk, 1);
    let hole = (4096 + 6048) / SECTOR_BYTES as u64 + 2;
    let disk = disk.crash_where(|_, sector| sector != hole);
    write(&disk, 2);
    let (_, seen) = open(&disk.crash_where(|_, sector| sector == hole)).unwrap();
    assert_eq!(seen.len(), 1);
}

#[test]
fn a_torn_group_at_the_start_of_a_segment_is_cut_as_well() {
    let disk = SimDisk::new(6);
    let (mut log, _) = open(&disk).unwrap();
    crate::rig::prepare(&mut log).unwrap();
    commit(&mut log, &[&[1; 9000]]).unwrap();
    let (file, start) = ("segment-0000000002.log", 4096 / SECTOR_BYTES as u64);
    push(&mut log, &[&[2; 9000]]).unwrap();
    disk.cut_power_after(2);
    log.writer.take().unwrap().write_and_sync().unwrap_err();
    for lost in [start, start + 1] {
        // Without its header it was never begun; with it, it is torn and its place is cleared.
        let disk = disk.crash_where(|_, sector| sector != lost);
        let (mut log, seen) = open(&disk).unwrap();
        assert_eq!((seen.len(), log.tail.torn), (1, lost != start));
        assert_eq!(disk.contents(file).unwrap()[4096..4096 + 24], [0; 24]);
        commit(&mut log, &[b"fits the first segment"]).unwrap();
        commit(&mut log, &[&[3; 9000]]).unwrap();
        let (_, seen) = open(&disk.crash()).unwrap();
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[2].records[0].2, [3; 9000]);
    }
}

#[test]
fn a_failed_sync_surfaces_with_its_file_and_a_restart_keeps_no_unsafe_group() {
    let mut kept = 0;
    for seed in 0..60 {
        let disk = SimDisk::new(seed);
        let (mut log, _) = open(&disk).unwrap();
        commit(&mut log, &[b"one"]).unwrap();
        push(&mut log, &[&[7; 2000]]).unwrap();
        disk.fail_sync(1);
        let error = log.writer.take().unwrap().write_and_sync().unwrap_err();
        assert!(error.is_failed_sync(), "{error}");
        let LogError::Io { file, op: Op::Sync, .. } = error else { panic!("{error}") };
        assert_eq!(file, "segment-0000000001.log");
        // The next process sees the group in the page cache, which the kernel counts as clean. What
        // it served must outlive a power cut.
        let next = disk.kill();
        let (log, served) = open(&next).unwrap();
        drop(log);
        let (_, after) = open(&next.crash()).unwrap();
        assert_eq!(served, after, "seed {seed}");
        kept += served.len();
    }
    assert_eq!(kept, 120, "the group is in the page cache every time");
}

#[test]
fn a_killed_process_leaves_a_group_that_is_made_durable_before_it_is_served() {
    for seed in 0..60 {
        let disk = torn(seed);
        let next = disk.kill();
        let (log, served) = open(&next).unwrap();
        assert_eq!(served.len(), 3);
        drop(log);
        let (_, after) = open(&next.crash()).unwrap();
        assert_eq!(served, after, "seed {seed}");
    }
}

#[test]
fn recovery_that_is_cut_at_any_step_ends_in_the_same_state() {
    let torn = torn(5).crash_where(|_, sector| sector != 10);
    let (_, expected) = open(&torn.kill()).unwrap();
    assert_eq!(expected.len(), 2);
    let mut cuts = 0;
    loop {
        let disk = torn.kill();
        disk.cut_power_after(cuts);
        let finished = open(&disk).is_ok();
        assert_ne!(finished, disk.is_off());
        let (_, seen) = open(&disk.crash()).unwrap();
        assert_eq!(seen, expected, "cut after {cuts} operations");
        if finished {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 4, "only {cuts} steps were cut");
}
