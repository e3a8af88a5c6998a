//! A disk that counts the bytes handed to it, by what they are for.
//!
//! The kernel's own count depends on its page cache; this one is what the store asked for, the
//! zeros of new segments included.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windrow_store::embedded::disk::{Disk, DiskFile, DiskLock, LockError};

/// Zeros are told by their beginning: a record or a header never begins with so many.
const ZEROS_TELL: usize = 64;

/// Bytes handed to `write_at` so far.
#[derive(Debug, Default)]
pub struct Counters {
    log: AtomicU64,
    zeros: AtomicU64,
    snapshots: AtomicU64,
    syncs: AtomicU64,
}

/// What the counters say at one moment, or between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Groups and segment headers.
    pub log: u64,
    /// Segments being prepared.
    pub zeros: u64,
    pub snapshots: u64,
    pub syncs: u64,
}

impl Written {
    pub fn total(&self) -> u64 {
        self.log + self.zeros + self.snapshots
    }

    pub fn since(&self, earlier: &Written) -> Written {
        Written {
            log: self.log - earlier.log,
            zeros: self.zeros - earlier.zeros,
            snapshots: self.snapshots - earlier.snapshots,
            syncs: self.syncs - earlier.syncs,
        }
    }
}

impl Counters {
    pub fn now(&self) -> Written {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Written {
            log: of(&self.log),
            zeros: of(&self.zeros),
            snapshots: of(&self.snapshots),
            syncs: of(&self.syncs),
        }
    }
}

/// Another disk, with its writes counted.
#[derive(Debug)]
pub struct CountedDisk<D> {
    inner: D,
    counters: Arc<Counters>,
}

impl<D: Disk> CountedDisk<D> {
    pub fn new(inner: D) -> CountedDisk<D> {
        CountedDisk { inner, counters: Arc::default() }
    }

    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    fn counted(&self, name: &str, inner: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        let is_snapshot = name.starts_with("snapshot");
        Box::new(CountedFile { inner, is_snapshot, counters: Arc::clone(&self.counters) })
    }
}

impl<D: Disk> Disk for CountedDisk<D> {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.counted(name, self.inner.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.counted(name, self.inner.open(name)?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()
    }

    fn lock(&self) -> Result<DiskLock, LockError> {
        self.inner.lock()
    }
}

#[derive(Debug)]
struct CountedFile {
    inner: Box<dyn DiskFile>,
    is_snapshot: bool,
    counters: Arc<Counters>,
}

impl DiskFile for CountedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let counter = if self.is_snapshot {
            &self.counters.snapshots
        } else if bytes.iter().take(ZEROS_TELL).all(|byte| *byte == 0) {
            &self.counters.zeros
        } else {
            &self.counters.log
        };
        counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.inner.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.inner.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.inner.set_len(bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::disk::SimDisk;

    use super::*;

    #[test]
    fn bytes_are_counted_by_what_they_are_for() {
        let disk = CountedDisk::new(SimDisk::new(1));
        let (log, snapshot) = (disk.create("segment-1").unwrap(), disk.create("snapshot.tmp"));
        log.write_at(&[0; 100], 0).unwrap();
        log.write_at(b"records", 0).unwrap();
        snapshot.unwrap().write_at(b"slots", 0).unwrap();
        log.sync().unwrap();
        let written = disk.counters().now();
        assert_eq!(written, Written { log: 7, zeros: 100, snapshots: 5, syncs: 1 });
        assert_eq!(written.total(), 112);
    }
}
