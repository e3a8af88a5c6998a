//! The log as it is used: one thread appends, one syncs, one prepares and drops, one reads.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::log::{
    Group, Loc, Log, LogError, RECORD_OVERHEAD, Segments, Spares, Work, Writer,
};
use windrow_testkit::random::Splitmix;

use crate::rig::options;

const RECORDS: u32 = 6000;
const SEGMENTS_MAX: u32 = 6;
const PENDING_BYTES_MAX: usize = 32 << 10;

struct Shared {
    writer: Mutex<(Writer, Vec<Loc>)>,
    segments: Arc<Segments>,
    finished: AtomicBool,
}

/// What record number `number` holds.
fn bytes_of(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + number as usize % 200)
}

fn append(shared: &Shared) {
    for number in 0..RECORDS {
        let bytes = bytes_of(number);
        let mut appended = false;
        while !appended {
            let mut guard = shared.writer.lock();
            let (writer, locs) = &mut *guard;
            if writer.pending_bytes() < PENDING_BYTES_MAX {
                writer.begin(bytes.len() + RECORD_OVERHEAD).unwrap();
                locs.push(writer.push(1, &bytes));
                appended = true;
            } else {
                drop(guard);
                std::thread::yield_now();
            }
        }
    }
    while shared.writer.lock().0.pending_bytes() > 0 {
        std::thread::yield_now();
    }
    shared.finished.store(true, Ordering::SeqCst);
}

fn sync(shared: &Shared) {
    while !shared.finished.load(Ordering::SeqCst) {
        let taken = shared.writer.lock().0.take();
        match taken {
            Some(group) => {
                group.write_and_sync().unwrap();
                shared.writer.lock().0.done(group);
            }
            None => std::thread::yield_now(),
        }
    }
}

/// Drops the oldest segment while there are too many, having read it once more.
fn prepare(shared: &Shared, spares: &mut Spares) {
    let mut expected = None;
    while !shared.finished.load(Ordering::SeqCst) {
        let idle = matches!(spares.step().unwrap(), Work::Idle);
        let (oldest, newest) = shared.segments.numbers().into_inner();
        // What is not durable spans fewer segments than that.
        if newest - oldest >= SEGMENTS_MAX {
            let visit = |_: Group<'_>| Ok::<(), LogError>(());
            let verified = shared.segments.verify_segment(oldest, expected, visit).unwrap();
            assert!(verified.continues);
            expected = verified.next_sequence;
            spares.drop_segment(oldest).unwrap();
        } else if idle {
            std::thread::yield_now();
        }
    }
}

/// Looks a record up under the mutex and reads it outside.
fn read(shared: &Shared) -> u32 {
    let (mut dice, mut scratch, mut reads) = (Splitmix(1), Vec::new(), 0);
    while !shared.finished.load(Ordering::SeqCst) {
        let guard = shared.writer.lock();
        let (writer, locs) = &*guard;
        if locs.is_empty() {
            continue;
        }
        let back = dice.below(locs.len().min(800));
        let number = locs.len() - 1 - back;
        let (loc, expected) = (locs[number], bytes_of(number as u32));
        if let Some(record) = writer.peek(loc) {
            assert_eq!(record.bytes, expected);
            continue;
        }
        let segment = shared.segments.get(loc.segment());
        drop(guard);
        match segment {
            Ok(segment) => {
                assert_eq!(segment.read(loc.offset(), &mut scratch).unwrap().bytes, expected);
                reads += 1;
            }
            Err(LogError::Dropped { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    reads
}

#[test]
fn four_threads_share_a_log_on_a_real_disk() {
    let dir = std::env::temp_dir().join(format!("windrow-log-{}", std::process::id()));
    let disk = Arc::new(RealDisk::open(dir.clone()).unwrap());
    let log = Log::open(disk.clone(), options()).unwrap();
    let log = log.recover(None, |_| Ok::<(), LogError>(())).unwrap();
    let writer = Mutex::new((log.writer, Vec::new()));
    let finished = AtomicBool::new(false);
    let shared = Shared { writer, segments: log.segments, finished };
    let mut spares = log.spares;
    let reads = std::thread::scope(|scope| {
        scope.spawn(|| append(&shared));
        scope.spawn(|| sync(&shared));
        scope.spawn(|| prepare(&shared, &mut spares));
        scope.spawn(|| read(&shared)).join().unwrap()
    });
    assert!(reads > 0, "no record was read from the disk");
    let next = shared.writer.lock().0.position();
    assert!(next.segment > 20, "only {} segments", next.segment);
    drop((shared, spares));
    let mut last = None;
    let log = Log::open(disk, options()).unwrap();
    let log = log.recover(None, |group| {
        for record in group.checked_records() {
            last = Some(record?.1.bytes.to_vec());
        }
        Ok::<(), LogError>(())
    });
    assert_eq!(log.unwrap().tail.position, next);
    assert_eq!(last.unwrap(), bytes_of(RECORDS - 1));
    std::fs::remove_dir_all::<PathBuf>(dir).unwrap();
}
