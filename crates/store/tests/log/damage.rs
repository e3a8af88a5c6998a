//! Bytes that are not what was written: refused loudly, with file and offset, and never "absent".

use windrow_store::embedded::disk::Disk;
use windrow_store::embedded::log::{Damage, Log, LogError, Recovered, What};
use windrow_testkit::disk::SimDisk;

use crate::rig::{commit, open, open_from, options, prepare, read};

const FIRST: &str = "segment-0000000001.log";
const SECOND: &str = "segment-0000000002.log";

fn damage(result: Result<impl Sized, LogError>) -> Damage {
    match result {
        Err(LogError::Damage(damage)) => damage,
        Err(error) => panic!("expected damage, got: {error}"),
        Ok(_) => panic!("expected damage, got none"),
    }
}

/// Several groups over two segments, all durable, and where each group starts and ends.
fn written(seed: u64) -> (SimDisk, Vec<(&'static str, u64, u64)>) {
    let disk = SimDisk::new(seed);
    let (mut log, _) = open(&disk).unwrap();
    prepare(&mut log).unwrap();
    let mut places = Vec::new();
    let long = [6; 12_120];
    let groups: [&[&[u8]]; 6] =
        [&[b"one"], &[b"two", b"", b"deux"], &[&long], &[b"four"], &[b"five", b"cinq"], &[b"six"]];
    for records in groups {
        commit(&mut log, records).unwrap();
        let end = log.writer.position();
        let file = if end.segment == 1 { FIRST } else { SECOND };
        let records: usize = records.iter().map(|bytes| bytes.len() + 9).sum();
        let bytes = 24 + (records as u64 + 4).next_multiple_of(8);
        places.push((file, u64::from(end.offset) - bytes, u64::from(end.offset)));
    }
    drop(log);
    assert_eq!(places[0].1, 4096);
    assert_eq!(places[2].0, FIRST);
    assert_eq!(places[3].0, SECOND);
    (disk, places)
}

#[test]
fn every_flipped_bit_of_every_durable_group_is_refused() {
    let (disk, places) = written(1);
    for (index, (file, start, end)) in places.into_iter().enumerate() {
        // All bits of short groups, and a stride through the long one.
        let stride = if end - start > 1000 { 61 } else { 1 };
        for bit in (start * 8..end * 8).step_by(stride) {
            let rotten = disk.kill();
            rotten.flip(file, bit / 8, (bit % 8) as u8);
            let damage = damage(open(&rotten));
            assert_eq!(damage.file, file, "bit {bit}: {damage}");
            if index == 5 {
                let What::Bit { sequence: 6, bit: found, .. } = damage.what else {
                    panic!("bit {bit}: {damage}");
                };
                assert_eq!((damage.offset, u64::from(found)), (bit / 8, bit % 8));
            } else {
                assert_eq!(damage.offset, start, "bit {bit}: {damage}");
            }
        }
    }
}

#[test]
fn the_check_refuses_what_recovery_refuses() {
    let (disk, places) = written(2);
    let check = |disk: &SimDisk| {
        let log = Log::open(std::sync::Arc::new(disk.clone()), options())?;
        let (mut expected, mut totals) = (None, (0, 0));
        for number in log.segments().numbers() {
            let visit = |_: windrow_store::embedded::log::Group<'_>| Ok::<(), LogError>(());
            let verified = log.segments().verify_segment(number, expected, visit)?;
            expected = verified.next_sequence;
            totals = (totals.0 + verified.groups, totals.1 + verified.records);
        }
        Ok::<_, LogError>(totals)
    };
    let before = disk.counters();
    assert_eq!(check(&disk).unwrap(), (6, 9));
    assert_eq!(disk.counters().writes, before.writes, "a check writes nothing");
    for (file, start, end) in places {
        for bit in (start * 8..end * 8).step_by(17) {
            let rotten = disk.kill();
            rotten.flip(file, bit / 8, (bit % 8) as u8);
            assert_eq!(damage(check(&rotten)).file, file, "bit {bit}");
        }
    }
}

/// Overwrites a range, durably.
fn wipe(disk: &SimDisk, file: &str, start: u64, end: u64) {
    let handle = disk.open(file).unwrap();
    handle.write_at(&vec![0; (end - start) as usize], start).unwrap();
    handle.sync().unwrap();
}

#[test]
fn a_lost_group_is_damage_if_a_later_one_exists_anywhere() {
    let (disk, places) = written(3);
    for (index, (file, start, end)) in places[..5].iter().enumerate() {
        let lossy = disk.kill();
        wipe(&lossy, file, *start, *end);
        let damage = damage(open(&lossy));
        let sequence = index as u64 + 1;
        assert_eq!((damage.file.as_str(), damage.offset), (*file, *start));
        let What::Group { sequence: lost, later, .. } = damage.what else { panic!("{damage}") };
        assert_eq!((lost, later), (sequence, sequence + 1));
    }
    let message = damage(open(&{
        let lossy = disk.kill();
        wipe(&lossy, FIRST, places[2].1, places[2].2);
        lossy
    }));
    assert_eq!(
        message.to_string(),
        "segment-0000000001.log is damaged at byte 4200: group 3 is unreadable, yet group 4 is at \
         byte 4096 of segment-0000000002.log"
    );
}

#[test]
fn a_group_in_the_place_of_another_is_refused() {
    let disk = SimDisk::new(11);
    let (mut log, _) = open(&disk).unwrap();
    for bytes in [b"one", b"two", b"six"] {
        commit(&mut log, &[bytes]).unwrap();
    }
    drop(log);
    let third = disk.contents(FIRST).unwrap()[4096 + 80..][..40].to_vec();
    disk.open(FIRST).unwrap().write_at(&third, 4096 + 40).unwrap();
    let found = damage(open(&disk));
    assert_eq!(found.offset, 4096 + 40);
    assert!(matches!(found.what, What::Group { sequence: 2, later: 3, .. }), "{found}");
}

#[test]
fn a_missing_short_or_foreign_segment_is_refused_by_name() {
    let (disk, _) = written(4);
    let (log, seen) = open(&disk).unwrap();
    let from = seen[4].position;
    drop(log);

    let lossy = disk.kill();
    lossy.rename(SECOND, "segment-0000000009.log").unwrap();
    assert_eq!(damage(open(&lossy)).file, SECOND);

    let lossy = disk.kill();
    lossy.remove(FIRST).unwrap();
    assert_eq!(damage(open_from(&lossy, Some(seen[0].position))).file, FIRST);
    open_from(&lossy, Some(from)).unwrap();

    let lossy = disk.kill();
    for file in lossy.list().unwrap() {
        lossy.remove(&file).unwrap();
    }
    assert_eq!(damage(open_from(&lossy, Some(from))).file, SECOND);

    let short = disk.kill();
    short.open(FIRST).unwrap().set_len(9000).unwrap();
    assert_eq!(damage(open(&short)).what, What::Short { found: 9000, expected: 16384 });

    let (other, foreign) = (SimDisk::new(5), disk.kill());
    let mut theirs = options();
    theirs.new_store_id.0 = [1; 16];
    crate::rig::open_as(std::sync::Arc::new(other.clone()), theirs, None).unwrap();
    let bytes = other.contents(FIRST).unwrap();
    foreign.open(FIRST).unwrap().write_at(&bytes, 0).unwrap();
    let refused = damage(open(&foreign));
    assert_eq!(refused.what, What::Header("belongs to another store"));
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let (disk, _) = written(6);
    let file = disk.open(SECOND).unwrap();
    let mut fields = disk.contents(SECOND).unwrap()[..44].to_vec();
    fields[8] = 3;
    let crc = crc32fast::hash(&fields[..40]);
    fields[40..].copy_from_slice(&crc.to_le_bytes());
    file.write_at(&fields, 0).unwrap();
    let before = disk.counters().writes;
    let error = open(&disk).unwrap_err();
    assert!(matches!(error, LogError::Format { found: 3, known: 2, .. }), "{error}");
    assert_eq!(disk.counters().writes, before);
}

#[test]
fn a_flipped_bit_of_a_header_is_refused() {
    let (disk, _) = written(7);
    for bit in 0..44 * 8 {
        let rotten = disk.kill();
        rotten.flip(FIRST, bit / 8, (bit % 8) as u8);
        assert_eq!(damage(open(&rotten)).offset, 0);
    }
}

#[test]
fn a_damaged_record_is_damage_when_it_is_read_and_never_absent() {
    let disk = SimDisk::new(8);
    let (mut log, _) = open(&disk).unwrap();
    let loc = commit(&mut log, &[&[3; 5000]]).unwrap()[0];
    assert_eq!(read(&log, loc).unwrap(), [3; 5000]);
    for bit in (0..5009 * 8).step_by(7) {
        let (byte, bit) = (u64::from(loc.offset()) + bit / 8, (bit % 8) as u8);
        disk.flip(FIRST, byte, bit);
        let found = damage(read(&log, loc));
        assert_eq!((found.file.as_str(), found.offset), (FIRST, u64::from(loc.offset())));
        assert!(matches!(found.what, What::Record(_)));
        disk.flip(FIRST, byte, bit);
    }
    disk.fail_read(1);
    assert!(matches!(read(&log, loc), Err(LogError::Io { .. })));
    assert_eq!(read(&log, loc).unwrap(), [3; 5000]);
}

#[test]
fn a_location_that_points_elsewhere_reads_nothing() {
    let disk = SimDisk::new(9);
    let (mut log, _) = open(&disk).unwrap();
    // A record that holds a copy of a whole other record: only its own place makes it one.
    commit(&mut log, &[b"original"]).unwrap();
    let copy = disk.contents(FIRST).unwrap()[4096 + 24..][..17].to_vec();
    let outer = commit(&mut log, &[&copy]).unwrap()[0];
    assert_eq!(read(&log, outer).unwrap(), copy);
    let inside = |log: &Recovered, offset| {
        read(log, windrow_store::embedded::log::Loc::new(1, offset).unwrap())
    };
    damage(inside(&log, outer.offset() + 9));
    for offset in [0, 100, 4095, 4096, 16_383, 16_384, u32::MAX] {
        damage(inside(&log, offset));
    }
    damage(read(&log, windrow_store::embedded::log::Loc::new(7, 4096).unwrap()));
}

#[test]
fn two_rotten_bits_in_the_newest_group_are_taken_for_a_torn_write() {
    // Not a wish but the limit of what can be told apart; it is written down in `ending.rs`.
    let (disk, places) = written(10);
    let (file, start, _) = places[5];
    disk.flip(file, start + 30, 1);
    disk.flip(file, start + 34, 5);
    assert_eq!(open(&disk).unwrap().1.len(), 5);
}
