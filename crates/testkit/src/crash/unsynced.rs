//! A disk whose syncs do nothing: what the control of the power cut runs on.

use std::io;

use windrow_store::embedded::disk::{Disk, DiskFile, DiskLock, LockError, RealDisk};

/// Writes as it is told, and says at once that it is durable.
#[derive(Debug)]
pub(super) struct Unsynced(pub(super) RealDisk);

#[derive(Debug)]
struct UnsyncedFile(Box<dyn DiskFile>);

impl Disk for Unsynced {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(UnsyncedFile(self.0.create(name)?)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(UnsyncedFile(self.0.open(name)?)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self) -> Result<DiskLock, LockError> {
        self.0.lock()
    }
}

impl DiskFile for UnsyncedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }
}
