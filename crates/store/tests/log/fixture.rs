//! The directory of format 1 that every later program must still read.
//!
//! `write_format_1` is the one place that says what is in it. To check it in, or to add another
//! after a change of format, write it to a real directory (`WINDROW_FIXTURE_DIR=… cargo test
//! fixture`).

use std::path::PathBuf;
use std::sync::Arc;

use windrow_store::embedded::disk::{Disk, RealDisk};
use windrow_store::embedded::log::{Options, StoreId};
use windrow_testkit::disk::SimDisk;

use crate::rig::{commit, open_as, payloads};

fn format_1() -> Options {
    let mut options = Options::new(StoreId(*b"windrow format 1"));
    options.segment_bytes = 8192;
    options.reserve_segments = 0;
    options
}

/// A log of two segments, written by fixed steps: the same bytes on every run.
fn write_format_1(disk: Arc<dyn Disk>) -> Vec<Vec<Vec<u8>>> {
    let (mut log, _) = open_as(disk, format_1(), None).unwrap();
    let groups = [vec![b"one".to_vec(), vec![]], vec![vec![2; 2500]], vec![vec![3; 2500]]];
    for group in &groups {
        let records: Vec<&[u8]> = group.iter().map(Vec::as_slice).collect();
        commit(&mut log, &records).unwrap();
    }
    assert_eq!(log.segments.numbers(), 1..=2);
    groups.to_vec()
}

#[test]
fn the_fixture_is_the_same_on_every_run_and_reads_back() {
    let (first, second) = (SimDisk::new(1), SimDisk::new(2));
    let written = write_format_1(Arc::new(first.clone()));
    write_format_1(Arc::new(second.clone()));
    assert_eq!(first.list().unwrap(), second.list().unwrap());
    for file in first.list().unwrap() {
        assert_eq!(first.contents(&file), second.contents(&file), "{file}");
    }
    let mut sum = crc32(&first.contents("segment-0000000001.log").unwrap());
    sum ^= crc32(&first.contents("segment-0000000002.log").unwrap());
    assert_eq!(sum, 0xF6B3_E9CF, "the bytes of format 1 have changed: that takes a new format");
    let (_, seen) = open_as(Arc::new(first.crash()), format_1(), None).unwrap();
    assert_eq!(payloads(&seen), written);
    if let Some(dir) = std::env::var_os("WINDROW_FIXTURE_DIR") {
        write_format_1(Arc::new(RealDisk::open(PathBuf::from(dir)).unwrap()));
    }
}

/// CRC-32 bit by bit, independent of the one that the log uses.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
