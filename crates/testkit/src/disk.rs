//! `SimDisk`: a data directory in memory that fails the way disks fail, from a seed.
//!
//! It tells apart what a program *sees* and what is *durable*. Bytes become durable by `sync` of
//! their file, sector by sector; names become durable by `sync_dir`, in order. Between the two,
//! nothing is promised: [`SimDisk::crash`] keeps any subset of the unsynced sectors and any prefix
//! of the unsynced directory operations. It can also fail a sync (and then lie, as kernels do: the
//! pages count as clean although they never arrived), run full, flip a bit, return read and write
//! errors, lose power in the middle of anything, and pretend to sync.
//!
//! The same seed and the same calls give the same disk. Leaves out sectors that tear inside (512
//! bytes arrive or do not), time, and reordering of directory operations.

mod world;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use windrow_store::embedded::disk::{Disk, DiskFile, DiskLock, LockError};

pub use world::{Counters, SECTOR_BYTES};
use world::{InodeId, World};

/// A simulated disk. A clone is the same disk; [`crash`](SimDisk::crash) and
/// [`kill`](SimDisk::kill) give another one and leave this one as it is.
#[derive(Clone)]
pub struct SimDisk {
    world: Arc<Mutex<World>>,
    locked: Arc<AtomicBool>,
}

impl SimDisk {
    /// An empty disk whose every later chance is drawn from `seed`.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::of(World::new(seed))
    }

    fn of(world: World) -> SimDisk {
        SimDisk { world: Arc::new(Mutex::new(world)), locked: Arc::new(AtomicBool::new(false)) }
    }

    /// What a power cut at this moment leaves, with the next draw of chance. Injected faults are
    /// gone, the capacity stays.
    #[must_use]
    pub fn crash(&self) -> SimDisk {
        SimDisk::of(self.world.lock().crash())
    }

    /// What a power cut leaves when exactly the unsynced sectors that `survives(file, sector)`
    /// names arrived, together with every directory operation.
    #[must_use]
    pub fn crash_where(&self, survives: impl FnMut(&str, u64) -> bool) -> SimDisk {
        SimDisk::of(self.world.lock().crash_where(survives))
    }

    /// What the next process finds when this one is killed: everything it wrote is still seen, and
    /// what was not synced is still not durable.
    #[must_use]
    pub fn kill(&self) -> SimDisk {
        SimDisk::of(self.world.lock().kill())
    }

    /// Lets `operations` more writes, syncs and directory operations through; then the power is off
    /// and every call fails without effect.
    pub fn cut_power_after(&self, operations: u64) {
        self.world.lock().power = Some(operations);
    }

    /// Whether [`cut_power_after`](SimDisk::cut_power_after) has struck.
    pub fn is_off(&self) -> bool {
        self.world.lock().struck
    }

    /// Fails the `nth` sync from now (1 is the next one; files and directory count together). Part
    /// of the data arrives; the rest never will unless it is written anew, although later syncs say
    /// Ok.
    pub fn fail_sync(&self, nth: u64) {
        self.world.lock().fail_sync = Some(nth);
    }

    /// Fails the `nth` write from now with an input/output error.
    pub fn fail_write(&self, nth: u64) {
        self.world.lock().fail_write = Some(nth);
    }

    /// Fails the `nth` read from now with an input/output error.
    pub fn fail_read(&self, nth: u64) {
        self.world.lock().fail_read = Some(nth);
    }

    /// Limits the blocks that files may own. Writes into owned blocks always succeed.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world.lock().capacity = bytes;
    }

    /// The bytes of blocks that files own.
    pub fn used(&self) -> u64 {
        self.world.lock().used()
    }

    /// Switches the lie: syncs say Ok and make nothing durable. The control that a suite which
    /// proves durability must catch.
    pub fn set_lie(&self, lie: bool) {
        self.world.lock().lie = lie;
    }

    /// Flips one bit of a file, durably, as rot does.
    ///
    /// # Panics
    /// When there is no such file or byte.
    pub fn flip(&self, file: &str, offset: u64, bit: u8) {
        self.world.lock().flip(file, offset, bit);
    }

    /// The bytes of a file as a program sees them.
    pub fn contents(&self, file: &str) -> Option<Vec<u8>> {
        self.world.lock().contents(file)
    }

    /// What was done to this disk so far.
    pub fn counters(&self) -> Counters {
        self.world.lock().counters
    }

    fn handle(&self, inode: InodeId) -> Box<dyn DiskFile> {
        Box::new(SimFile { disk: self.clone(), inode })
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl Disk for SimDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let inode = self.world.lock().create(name)?;
        Ok(self.handle(inode))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let inode = self.world.lock().open(name)?;
        Ok(self.handle(inode))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.world.lock().list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.world.lock().rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.world.lock().remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.world.lock().sync_dir()
    }

    fn lock(&self) -> Result<DiskLock, LockError> {
        if self.locked.swap(true, Ordering::SeqCst) {
            return Err(LockError::Held { by: "another simulated process".to_owned() });
        }
        Ok(DiskLock::new(Unlock(self.locked.clone())))
    }
}

struct Unlock(Arc<AtomicBool>);

impl Drop for Unlock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

struct SimFile {
    disk: SimDisk,
    inode: InodeId,
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFile({})", self.inode)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.world.lock().close(self.inode);
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.disk.world.lock().read(self.inode, bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.world.lock().write(self.inode, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.world.lock().sync(self.inode)
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.world.lock().len(self.inode)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.disk.world.lock().set_len(self.inode, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synced(disk: &SimDisk, name: &str, bytes: &[u8]) -> Box<dyn DiskFile> {
        let file = disk.create(name).unwrap();
        file.write_at(bytes, 0).unwrap();
        file.sync().unwrap();
        disk.sync_dir().unwrap();
        file
    }

    #[test]
    fn synced_bytes_survive_and_unsynced_sectors_survive_in_any_subset() {
        let disk = SimDisk::new(1);
        let file = synced(&disk, "a", &[1; 8 * SECTOR_BYTES]);
        file.write_at(&[2; 4 * SECTOR_BYTES], 0).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..400 {
            let after = disk.crash().contents("a").unwrap();
            assert_eq!(after[4 * SECTOR_BYTES..], [1; 4 * SECTOR_BYTES]);
            let heads: Vec<u8> =
                after.chunks(SECTOR_BYTES).take(4).map(|sector| sector[0]).collect();
            seen.insert(heads);
        }
        assert_eq!(seen.len(), 16, "every subset of four sectors comes up");
        let torn = disk.crash_where(|file, sector| file == "a" && sector == 2);
        let after = torn.contents("a").unwrap();
        assert_eq!(after[2 * SECTOR_BYTES..3 * SECTOR_BYTES], [2; SECTOR_BYTES]);
        assert_eq!(after[..2 * SECTOR_BYTES], [1; 2 * SECTOR_BYTES]);
    }

    #[test]
    fn names_survive_as_a_prefix_of_what_was_done_since_the_last_directory_sync() {
        let disk = SimDisk::new(2);
        synced(&disk, "a", b"a");
        disk.rename("a", "b").unwrap();
        disk.create("c").unwrap();
        disk.remove("b").unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            seen.insert(disk.crash().list().unwrap().join(","));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["a", "b", "b,c", "c"]);
        disk.sync_dir().unwrap();
        assert_eq!(disk.crash().list().unwrap(), ["c"]);
    }

    #[test]
    fn a_failed_sync_is_followed_by_syncs_that_lie() {
        let lost = (0..50).any(|seed| {
            let disk = SimDisk::new(seed);
            let file = synced(&disk, "a", &[1; 4 * SECTOR_BYTES]);
            file.write_at(&[2; 4 * SECTOR_BYTES], 0).unwrap();
            disk.fail_sync(1);
            assert!(file.sync().is_err());
            file.sync().unwrap();
            assert_eq!(disk.contents("a").unwrap(), [2; 4 * SECTOR_BYTES], "still seen");
            let lost = disk.crash().contents("a").unwrap() != [2; 4 * SECTOR_BYTES];
            file.write_at(&[2; 4 * SECTOR_BYTES], 0).unwrap();
            file.sync().unwrap();
            assert_eq!(disk.crash().contents("a").unwrap(), [2; 4 * SECTOR_BYTES], "written anew");
            lost
        });
        assert!(lost, "in none of 50 runs did the failed sync lose anything");
    }

    #[test]
    fn a_full_disk_refuses_growth_and_takes_writes_into_its_own_blocks() {
        let disk = SimDisk::new(3);
        let file = synced(&disk, "a", &[1; 8192]);
        disk.set_capacity(Some(8192));
        file.write_at(&[2; 8192], 0).unwrap();
        let error = file.write_at(&[3; 1], 8192).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        file.set_len(1 << 20).unwrap();
        let error = file.write_at(&[3; 1], 9000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "a hole owns no blocks");
        drop(file);
        disk.remove("a").unwrap();
        assert_eq!(disk.used(), 0);
        synced(&disk, "b", &[1; 8192]);
    }

    #[test]
    fn a_killed_process_leaves_what_it_wrote_but_not_durably() {
        let disk = SimDisk::new(4);
        let file = synced(&disk, "a", &[1; SECTOR_BYTES]);
        let held = disk.lock().unwrap();
        file.write_at(&[2; SECTOR_BYTES], 0).unwrap();
        let next = disk.kill();
        let _free = next.lock().unwrap();
        assert!(matches!(disk.lock(), Err(LockError::Held { .. })));
        drop(held);
        assert_eq!(next.contents("a").unwrap(), [2; SECTOR_BYTES]);
        assert_eq!(next.crash_where(|_, _| false).contents("a").unwrap(), [1; SECTOR_BYTES]);
        next.open("a").unwrap().sync().unwrap();
        assert_eq!(next.crash_where(|_, _| false).contents("a").unwrap(), [2; SECTOR_BYTES]);
    }

    #[test]
    fn a_lying_disk_loses_what_it_said_it_had_synced() {
        let disk = SimDisk::new(5);
        let file = synced(&disk, "a", &[1; SECTOR_BYTES]);
        disk.set_lie(true);
        file.write_at(&[2; SECTOR_BYTES], 0).unwrap();
        file.sync().unwrap();
        assert_eq!(disk.crash_where(|_, _| false).contents("a").unwrap(), [1; SECTOR_BYTES]);
    }

    #[test]
    fn after_the_power_is_cut_nothing_has_an_effect() {
        let disk = SimDisk::new(6);
        let file = synced(&disk, "a", &[1; SECTOR_BYTES]);
        disk.cut_power_after(1);
        file.write_at(&[2; SECTOR_BYTES], 0).unwrap();
        assert!(!disk.is_off());
        assert!(file.sync().is_err());
        assert!(disk.is_off());
        assert!(file.write_at(&[3; SECTOR_BYTES], 0).is_err());
        assert!(disk.create("b").is_err());
        assert_eq!(disk.crash_where(|_, _| true).contents("a").unwrap(), [2; SECTOR_BYTES]);
    }
}
