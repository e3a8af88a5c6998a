//! The state behind a `SimDisk`: inodes with a seen and a durable image, names likewise.
//!
//! Every chance is drawn from one generator, so equal calls give equal worlds. All effects of
//! faults are decided here; `disk.rs` only hands out handles.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::random::Splitmix;

/// What arrives whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// The unit in which files own space.
const BLOCK_BYTES: u64 = 4096;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

pub(super) type InodeId = u64;

/// How often a disk was asked to do what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub reads: u64,
    pub bytes_read: u64,
    pub writes: u64,
    pub bytes_written: u64,
    pub file_syncs: u64,
    pub dir_syncs: u64,
}

#[derive(Debug, Clone)]
enum DirOp {
    Link(String, InodeId),
    Rename(String, String),
    Unlink(String),
}

#[derive(Debug, Clone, Default)]
struct Inode {
    /// What reads return.
    seen: Vec<u8>,
    /// What a power cut leaves when no unsynced sector arrives.
    durable: Vec<u8>,
    /// Sectors written since the last sync.
    dirty: BTreeSet<u64>,
    /// Blocks that own space.
    blocks: BTreeSet<u64>,
    handles: u32,
}

#[derive(Debug, Clone)]
pub(super) struct World {
    inodes: BTreeMap<InodeId, Inode>,
    names: BTreeMap<String, InodeId>,
    durable_names: BTreeMap<String, InodeId>,
    unsynced_names: Vec<DirOp>,
    next_inode: InodeId,
    dice: Splitmix,
    pub(super) counters: Counters,
    pub(super) capacity: Option<u64>,
    pub(super) lie: bool,
    pub(super) power: Option<u64>,
    pub(super) struck: bool,
    pub(super) fail_sync: Option<u64>,
    pub(super) fail_write: Option<u64>,
    pub(super) fail_read: Option<u64>,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        World {
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            unsynced_names: Vec::new(),
            next_inode: 1,
            dice: Splitmix(seed),
            counters: Counters::default(),
            capacity: None,
            lie: false,
            power: None,
            struck: false,
            fail_sync: None,
            fail_write: None,
            fail_read: None,
        }
    }

    pub(super) fn crash(&mut self) -> World {
        let prefix = self.dice.below(self.unsynced_names.len() + 1);
        // Some crashes keep nearly all, some nearly nothing: an even coin alone would hardly ever
        // leave a large group with a single sector missing.
        let keep = [1, 4, 8, 12, 15][self.dice.below(5)];
        let mut dice = split(&mut self.dice);
        let mut coin = split(&mut dice);
        self.after(prefix, |_, _| dice.below(16) < keep, || coin.below(2) == 0)
    }

    pub(super) fn crash_where(&mut self, mut survives: impl FnMut(&str, u64) -> bool) -> World {
        let mut file_of = BTreeMap::new();
        for (name, inode) in &self.names {
            file_of.insert(*inode, name.clone());
        }
        let name = |inode| file_of.get(&inode).map_or("", String::as_str);
        let prefix = self.unsynced_names.len();
        self.after(prefix, |inode, sector| survives(name(inode), sector), || true)
    }

    /// The world after a power cut: `prefix` directory operations arrived, the sectors that
    /// `survives` names, and a changed length where `grew` says so.
    fn after(
        &mut self,
        prefix: usize,
        mut survives: impl FnMut(InodeId, u64) -> bool,
        mut grew: impl FnMut() -> bool,
    ) -> World {
        let mut names = self.durable_names.clone();
        for op in &self.unsynced_names[..prefix] {
            apply(&mut names, op);
        }
        let mut next = World::new(0);
        next.dice = split(&mut self.dice);
        next.capacity = self.capacity;
        next.next_inode = self.next_inode;
        for (id, inode) in &self.inodes {
            let mut image = inode.durable.clone();
            if inode.seen.len() != image.len() && grew() {
                image.resize(inode.seen.len(), 0);
            }
            for sector in &inode.dirty {
                if survives(*id, *sector) {
                    copy_sector(&inode.seen, &mut image, *sector);
                }
            }
            if names.values().any(|named| named == id) {
                let mut blocks = inode.blocks.clone();
                blocks.retain(|block| block * BLOCK_BYTES < image.len() as u64);
                let (durable, dirty) = (image.clone(), BTreeSet::new());
                let inode = Inode { seen: image, durable, dirty, blocks, handles: 0 };
                next.inodes.insert(*id, inode);
            }
        }
        next.durable_names = names.clone();
        next.names = names;
        next
    }

    pub(super) fn kill(&mut self) -> World {
        let mut next = self.clone();
        next.dice = split(&mut self.dice);
        next.inodes.values_mut().for_each(|inode| inode.handles = 0);
        (next.power, next.struck) = (None, false);
        (next.fail_sync, next.fail_write, next.fail_read) = (None, None, None);
        next.collect();
        next
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<InodeId> {
        self.mutate()?;
        if self.names.contains_key(name) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{name} exists")));
        }
        let id = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(id, Inode { handles: 1, ..Inode::default() });
        self.change(DirOp::Link(name.to_owned(), id));
        Ok(id)
    }

    pub(super) fn open(&mut self, name: &str) -> io::Result<InodeId> {
        self.powered()?;
        let id = self.named(name)?;
        self.inode(id)?.handles += 1;
        Ok(id)
    }

    pub(super) fn close(&mut self, id: InodeId) {
        if let Some(inode) = self.inodes.get_mut(&id) {
            inode.handles = inode.handles.saturating_sub(1);
        }
    }

    pub(super) fn list(&self) -> io::Result<Vec<String>> {
        self.powered()?;
        Ok(self.names.keys().cloned().collect())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.mutate()?;
        self.named(from)?;
        self.change(DirOp::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.mutate()?;
        self.named(name)?;
        self.change(DirOp::Unlink(name.to_owned()));
        Ok(())
    }

    pub(super) fn sync_dir(&mut self) -> io::Result<()> {
        self.mutate()?;
        self.counters.dir_syncs += 1;
        let failed = strikes(&mut self.fail_sync);
        if self.lie && !failed {
            return Ok(());
        }
        // Names are journalled: a file system that cannot write its journal stops, it does not
        // forget. So after a failure the rest of the operations is still to come.
        let arrived = match failed {
            true => self.dice.below(self.unsynced_names.len() + 1),
            false => self.unsynced_names.len(),
        };
        for op in self.unsynced_names.drain(..arrived) {
            apply(&mut self.durable_names, &op);
        }
        self.collect();
        if failed { Err(error(EIO)) } else { Ok(()) }
    }

    pub(super) fn read(&mut self, id: InodeId, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.powered()?;
        self.counters.reads += 1;
        self.counters.bytes_read += bytes.len() as u64;
        if strikes(&mut self.fail_read) {
            return Err(error(EIO));
        }
        let start = offset as usize;
        let Some(seen) = self.inode(id)?.seen.get(start..start + bytes.len()) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        bytes.copy_from_slice(seen);
        Ok(())
    }

    pub(super) fn write(&mut self, id: InodeId, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.mutate()?;
        self.counters.writes += 1;
        if strikes(&mut self.fail_write) {
            return Err(error(EIO));
        }
        let room = self.allocate(id, offset, bytes.len() as u64)?;
        let bytes = &bytes[..room.unwrap_or(bytes.len())];
        self.counters.bytes_written += bytes.len() as u64;
        if !bytes.is_empty() {
            let mut dice = split(&mut self.dice);
            self.inode(id)?.put(bytes, offset, &mut dice);
        }
        if room.is_some() { Err(error(ENOSPC)) } else { Ok(()) }
    }

    pub(super) fn sync(&mut self, id: InodeId) -> io::Result<()> {
        self.mutate()?;
        self.counters.file_syncs += 1;
        let failed = strikes(&mut self.fail_sync);
        if self.lie && !failed {
            return Ok(());
        }
        let mut dice = split(&mut self.dice);
        self.inode(id)?.flush(|| !failed || dice.below(2) == 0);
        if failed { Err(error(EIO)) } else { Ok(()) }
    }

    pub(super) fn len(&mut self, id: InodeId) -> io::Result<u64> {
        self.powered()?;
        Ok(self.inode(id)?.seen.len() as u64)
    }

    pub(super) fn set_len(&mut self, id: InodeId, bytes: u64) -> io::Result<()> {
        self.mutate()?;
        let inode = self.inode(id)?;
        inode.seen.resize(bytes as usize, 0);
        inode.dirty.retain(|sector| sector * (SECTOR_BYTES as u64) < bytes);
        inode.blocks.retain(|block| block * BLOCK_BYTES < bytes);
        Ok(())
    }

    pub(super) fn flip(&mut self, name: &str, offset: u64, bit: u8) {
        let id = *self.names.get(name).unwrap_or_else(|| panic!("no file {name}"));
        let inode = self.inodes.get_mut(&id).unwrap_or_else(|| panic!("no file {name}"));
        inode.seen[offset as usize] ^= 1 << bit;
        if let Some(byte) = inode.durable.get_mut(offset as usize) {
            *byte ^= 1 << bit;
        }
    }

    pub(super) fn contents(&self, name: &str) -> Option<Vec<u8>> {
        Some(self.inodes.get(self.names.get(name)?)?.seen.clone())
    }

    /// Bytes owned by files that have a name or a handle.
    pub(super) fn used(&self) -> u64 {
        let named: BTreeSet<_> = self.names.values().collect();
        let owners = self.inodes.iter();
        let owners = owners.filter(|(id, inode)| inode.handles > 0 || named.contains(id));
        owners.map(|(_, inode)| inode.blocks.len() as u64 * BLOCK_BYTES).sum()
    }

    /// Gives the file the blocks of a range. When the disk is full, says how many bytes still fit.
    fn allocate(&mut self, id: InodeId, offset: u64, bytes: u64) -> io::Result<Option<usize>> {
        let mut free = match self.capacity {
            Some(capacity) => capacity.saturating_sub(self.used()),
            None => u64::MAX,
        };
        let inode = self.inode(id)?;
        for block in offset / BLOCK_BYTES..(offset + bytes).div_ceil(BLOCK_BYTES) {
            if inode.blocks.contains(&block) {
                continue;
            }
            if free < BLOCK_BYTES {
                return Ok(Some((block * BLOCK_BYTES).saturating_sub(offset) as usize));
            }
            free -= BLOCK_BYTES;
            inode.blocks.insert(block);
        }
        Ok(None)
    }

    fn change(&mut self, op: DirOp) {
        apply(&mut self.names, &op);
        self.unsynced_names.push(op);
    }

    /// Forgets files that no name, handle or crash can reach.
    fn collect(&mut self) {
        let mut reachable: BTreeSet<InodeId> = self.names.values().copied().collect();
        reachable.extend(self.durable_names.values());
        for op in &self.unsynced_names {
            if let DirOp::Link(_, id) = op {
                reachable.insert(*id);
            }
        }
        self.inodes.retain(|id, inode| inode.handles > 0 || reachable.contains(id));
    }

    fn named(&self, name: &str) -> io::Result<InodeId> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("no file {name}"));
        self.names.get(name).copied().ok_or_else(missing)
    }

    fn inode(&mut self, id: InodeId) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&id).ok_or_else(|| error(EIO))
    }

    fn powered(&self) -> io::Result<()> {
        if self.struck { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    /// Every operation with an effect passes here, where the power may go.
    fn mutate(&mut self) -> io::Result<()> {
        match &mut self.power {
            Some(0) => self.struck = true,
            Some(left) => *left -= 1,
            None => {}
        }
        self.powered()
    }
}

impl Inode {
    fn put(&mut self, bytes: &[u8], offset: u64, dice: &mut Splitmix) {
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        for sector in (start / SECTOR_BYTES) as u64..end.div_ceil(SECTOR_BYTES) as u64 {
            // The system may have written an earlier version on its own; then that is what a later
            // power cut leaves.
            let inside = (sector as usize + 1) * SECTOR_BYTES <= self.durable.len();
            if !self.dirty.insert(sector) && inside && dice.below(4) == 0 {
                copy_sector(&self.seen, &mut self.durable, sector);
            }
        }
        if self.seen.len() < end {
            self.seen.resize(end, 0);
        }
        self.seen[start..end].copy_from_slice(bytes);
    }

    /// Makes dirty sectors durable as far as they arrive; all of them count as clean afterwards.
    fn flush(&mut self, mut arrives: impl FnMut() -> bool) {
        if self.durable.len() != self.seen.len() && arrives() {
            self.durable.resize(self.seen.len(), 0);
        }
        for sector in std::mem::take(&mut self.dirty) {
            if arrives() {
                copy_sector(&self.seen, &mut self.durable, sector);
            }
        }
    }
}

/// Copies one sector as far as both images reach.
fn copy_sector(from: &[u8], to: &mut [u8], sector: u64) {
    let start = sector as usize * SECTOR_BYTES;
    let end = (start + SECTOR_BYTES).min(from.len()).min(to.len());
    if start < end {
        to[start..end].copy_from_slice(&from[start..end]);
    }
}

fn apply(names: &mut BTreeMap<String, InodeId>, op: &DirOp) {
    match op {
        DirOp::Link(name, id) => {
            names.insert(name.clone(), *id);
        }
        DirOp::Rename(from, to) => {
            if let Some(id) = names.remove(from) {
                names.insert(to.clone(), id);
            }
        }
        DirOp::Unlink(name) => {
            names.remove(name);
        }
    }
}

fn error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// Counts down to an injected fault.
fn strikes(countdown: &mut Option<u64>) -> bool {
    match countdown {
        Some(0 | 1) => {
            *countdown = None;
            true
        }
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    }
}

/// Another source of chance, so that one draw more in it changes nothing else.
fn split(dice: &mut Splitmix) -> Splitmix {
    Splitmix(dice.below(usize::MAX) as u64)
}
