//! The pool of files that wait to become segments, shared by the writer and the background.
//!
//! Decides which file becomes the next segment, and how much room is left. Writes headers and
//! names: a file gets its segment name only when its header is durable, and is used only when its
//! name is. One lock guards it; it is held while a file is made a segment, so that writer and
//! background never make two of the same number, and never while zeros are written in the
//! background.
//!
//! The writer normally finds the next segment prepared. When it outruns the background it makes a
//! small segment itself, written with zeros like every other: at no time does a group go to a place
//! whose blocks are not taken, so a full disk is met here, where it refuses one command, and not in
//! the write of a group, where it would stop the store. (On file systems that copy on write, a full
//! disk may still be met there.)
//!
//! Where a whole segment does not fit, a smaller one does: what a full disk had room for is a spare
//! too. So room is counted in bytes, and a segment that is ready may be too small for a large
//! command; then another one is taken, and it waits for a smaller command.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::Options;
use super::error::{LogError, Op};
use super::header::{HEADER_BYTES, SegmentHeader};
use super::segment::{Segment, Segments, number_in, numbered, segment_name};
use super::spares::Space;
use crate::embedded::disk::{Disk, DiskFile};

/// What one step of the background covers with zeros.
pub(super) const SLICE_BYTES: u32 = 1 << 20;

/// What one write of zeros covers. The kernel keeps in one piece of its cache what was written at
/// once, and goes through all blocks of a piece when it syncs one of them.
const WRITE_BYTES: u32 = 64 << 10;

/// The size of a segment that the writer has to make itself: small, because callers wait for it.
const INLINE_BYTES: u32 = 4 << 20;

const SPARE: &str = "spare-";
const FILLING: &str = "filling-";

/// A file that is, or will be, ready to become a segment. Its content does not matter.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) name: String,
    pub(super) file: Box<dyn DiskFile>,
    /// How much of it is a segment.
    pub(super) bytes: u32,
}

#[derive(Debug, Default)]
struct State {
    /// Durable in header and name, with the number after the current segment's.
    next: Option<Arc<Segment>>,
    /// Files whose blocks are taken, the smallest last.
    ready: Vec<Spare>,
    /// The disk refused a file, and the reserve has not been complete since.
    blocked: bool,
    last_name: u32,
}

impl State {
    fn add(&mut self, spare: Spare) {
        let before = self.ready.iter().take_while(|other| other.bytes >= spare.bytes).count();
        self.ready.insert(before, spare);
    }

    /// The smallest spare that a group of so many bytes fits: larger ones are for larger groups.
    fn take(&mut self, group_bytes: usize) -> Option<Spare> {
        let at = self.ready.iter().rposition(|spare| has_room(spare.bytes, group_bytes))?;
        Some(self.ready.remove(at))
    }

    fn ready_bytes(&self) -> u64 {
        self.ready.iter().map(|spare| u64::from(spare.bytes)).sum()
    }
}

/// Whether a segment of that size has room for a group.
fn has_room(segment_bytes: u32, group_bytes: usize) -> bool {
    HEADER_BYTES as usize + group_bytes <= segment_bytes as usize
}

#[derive(Debug)]
pub(super) struct Pool {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: Options,
    pub(super) segments: Arc<Segments>,
    state: Mutex<State>,
    /// Derived from the state, to be read without the lock.
    space: AtomicU8,
    /// The bytes of the prepared next segment and of all spares.
    prepared: AtomicU64,
}

impl Pool {
    pub(super) fn new(disk: Arc<dyn Disk>, options: Options, segments: Arc<Segments>) -> Pool {
        let space = AtomicU8::new(Space::Plenty as u8);
        let prepared = AtomicU64::new(0);
        Pool { disk, options, segments, state: Mutex::default(), space, prepared }
    }

    pub(super) fn space(&self) -> Space {
        Space::from_u8(self.space.load(Ordering::Acquire))
    }

    /// How much room there is if the current segment has so many bytes left. Once the disk refused
    /// a file there is plenty as long as there is more than there was then: one segment begun, and
    /// behind it the next one and a reserve that lacks one.
    pub(super) fn space_with(&self, left: u32) -> Space {
        let space = self.space();
        let room = u64::from(left) + self.prepared.load(Ordering::Acquire);
        let segment = u64::from(self.options.segment_bytes);
        let kept = segment + self.reserve_bytes();
        if space == Space::Reserve && room >= kept { Space::Plenty } else { space }
    }

    fn reserve_bytes(&self) -> u64 {
        self.options.reserve_segments as u64 * u64::from(self.options.segment_bytes)
    }

    /// What is too small to be a segment: a sixteenth of what one should be.
    pub(super) fn least_bytes(&self) -> u32 {
        (self.options.segment_bytes / 16).max(2 * HEADER_BYTES)
    }

    /// Whether a file is ready to become the next segment, with room for such a group.
    pub(super) fn has_segment(&self, group_bytes: usize) -> bool {
        let state = self.state.lock();
        let next = state.next.iter().map(|next| next.bytes);
        let mut all = next.chain(state.ready.iter().map(|spare| spare.bytes));
        all.any(|bytes| has_room(bytes, group_bytes))
    }

    /// Appends the next segment to the row. A segment that has to be made gets room for at least
    /// `group_bytes`.
    pub(super) fn advance(&self, group_bytes: usize) -> Result<Arc<Segment>, LogError> {
        let mut state = self.state.lock();
        let segment = match state.next.take() {
            Some(next) if has_room(next.bytes, group_bytes) => Ok(next),
            Some(small) => self.exchange(&mut state, small, group_bytes),
            None => self.build(&mut state, group_bytes),
        };
        if let Ok(segment) = &segment {
            self.segments.push(segment.clone());
        }
        self.settle(state);
        segment
    }

    /// Makes a segment with more room in the place of the prepared one, which becomes a spare. No
    /// group was ever in it: only what was made since this life began may be small.
    fn exchange(
        &self,
        state: &mut State,
        small: Arc<Segment>,
        group_bytes: usize,
    ) -> Result<Arc<Segment>, LogError> {
        let name = next_name(state, SPARE);
        if let Err(error) = self.rename(&small.name, &name) {
            if !error.is_failed_sync() {
                state.next = Some(small);
            }
            return Err(error);
        }
        if let Some(Segment { file, bytes, .. }) = Arc::into_inner(small) {
            state.add(Spare { name, file, bytes });
        }
        self.build(state, group_bytes)
    }

    /// Makes the next segment while the writer waits.
    fn build(&self, state: &mut State, group_bytes: usize) -> Result<Arc<Segment>, LogError> {
        // More spares than the reserve are free to take; the reserve itself is for a full disk.
        let free = state.ready_bytes() > self.reserve_bytes() || state.blocked;
        if free && let Some(spare) = state.take(group_bytes) {
            return self.install(state, spare);
        }
        let cause = match self.build_small(state, group_bytes) {
            Err(error) if error.is_full() || !error.is_failed_sync() => error,
            made => return made,
        };
        state.blocked = true;
        match state.take(group_bytes) {
            Some(spare) => self.install(state, spare),
            None => Err(LogError::NoSpace { cause: Box::new(cause) }),
        }
    }

    fn build_small(&self, state: &mut State, group_bytes: usize) -> Result<Arc<Segment>, LogError> {
        let wanted = HEADER_BYTES as usize + group_bytes;
        let wanted = wanted.max(INLINE_BYTES as usize).next_multiple_of(HEADER_BYTES as usize);
        let header = self.next_header(wanted.min(self.options.segment_bytes as usize) as u32);
        let spare = self.create(state, header.bytes)?;
        let made = write_zeros(&spare, 0, header.bytes).and_then(|()| self.dress(&spare, header));
        match made {
            Ok(()) => Ok(Arc::new(Segment::new(header, spare.file))),
            Err(error) => {
                self.discard(spare);
                Err(error)
            }
        }
    }

    /// Makes a spare the prepared next segment if there is none. Says whether it did something.
    pub(super) fn prepare_next(&self) -> Result<bool, LogError> {
        let mut state = self.state.lock();
        if state.next.is_some() {
            return Ok(false);
        }
        let Some(spare) = state.take(0) else {
            return Ok(false);
        };
        let installed = self.install(&mut state, spare);
        state.blocked |= installed.is_err();
        let prepared = installed.map(|segment| state.next = Some(segment));
        self.settle(state);
        prepared.map(|()| true)
    }

    /// Turns a spare into the next segment. If that fails before a sync did, the spare goes back.
    fn install(&self, state: &mut State, spare: Spare) -> Result<Arc<Segment>, LogError> {
        let header = self.next_header(spare.bytes);
        match self.dress(&spare, header) {
            Ok(()) => Ok(Arc::new(Segment::new(header, spare.file))),
            Err(error) => {
                if !error.is_failed_sync() {
                    state.add(spare);
                }
                Err(error)
            }
        }
    }

    fn next_header(&self, bytes: u32) -> SegmentHeader {
        let number = self.segments.numbers().end() + 1;
        SegmentHeader { store: self.segments.store_id(), number, bytes }
    }

    /// Header durable, then name durable: a file with a segment's name always has its header.
    fn dress(&self, spare: &Spare, header: SegmentHeader) -> Result<(), LogError> {
        let written = spare.file.write_at(&header.encode(), 0);
        written.map_err(LogError::io(&spare.name, Op::Write))?;
        spare.file.sync().map_err(LogError::io(&spare.name, Op::Sync))?;
        self.rename(&spare.name, &segment_name(header.number))
    }

    /// Renames durably.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), LogError> {
        self.disk.rename(from, to).map_err(LogError::io(from, Op::Rename))?;
        self.sync_dir(to)
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), LogError> {
        self.disk.remove(name).map_err(LogError::io(name, Op::Remove))
    }

    pub(super) fn sync_dir(&self, name: &str) -> Result<(), LogError> {
        self.disk.sync_dir().map_err(LogError::io(name, Op::SyncDir))
    }

    /// Gives up on a file. Removing it is a courtesy: what remains is swept when the log is opened.
    pub(super) fn discard(&self, spare: Spare) {
        let _ = self.disk.remove(&spare.name);
    }

    /// Whether the background should write another spare.
    pub(super) fn wants_spare(&self) -> bool {
        let state = self.state.lock();
        let idle = state.next.is_none() && state.ready.is_empty();
        state.ready_bytes() < self.reserve_bytes() || idle
    }

    /// Whether a dropped segment of that size is better kept than removed.
    pub(super) fn wants_recycled(&self, bytes: u32) -> bool {
        bytes == self.options.segment_bytes
            && self.state.lock().ready.len() < self.options.spares_max
    }

    /// Takes out the smallest spare of so many bytes, if a segment is ready beside it.
    pub(super) fn take_spare(&self, bytes: u64) -> Option<Spare> {
        let mut state = self.state.lock();
        state.next.as_ref()?;
        let at = state.ready.iter().rposition(|spare| u64::from(spare.bytes) >= bytes)?;
        let spare = state.ready.remove(at);
        state.blocked = true;
        self.settle(state);
        Some(spare)
    }

    /// The bytes of the next segment and of all spares.
    pub(super) fn prepared_bytes(&self) -> u64 {
        self.prepared.load(Ordering::Acquire)
    }

    /// An empty file of a name that no restart keeps.
    pub(super) fn start_filling(&self) -> Result<Spare, LogError> {
        self.create(&mut self.state.lock(), self.options.segment_bytes)
    }

    fn create(&self, state: &mut State, bytes: u32) -> Result<Spare, LogError> {
        let name = next_name(state, FILLING);
        let file = self.disk.create(&name).map_err(LogError::io(&name, Op::Create))?;
        Ok(Spare { name, file, bytes })
    }

    /// Names a file, whose blocks are taken, as a spare, and adds it.
    pub(super) fn add(&self, spare: Spare) -> Result<(), LogError> {
        let name = next_name(&mut self.state.lock(), SPARE);
        if let Err(error) = self.rename(&spare.name, &name) {
            self.discard(spare);
            return Err(error);
        }
        let mut state = self.state.lock();
        state.add(Spare { name, ..spare });
        self.settle(state);
        Ok(())
    }

    /// Remembers that the disk refused a file.
    pub(super) fn block(&self) {
        let mut state = self.state.lock();
        state.blocked = true;
        self.settle(state);
    }

    /// Takes over what an earlier life left: the segment after the tail, and spare files. Removes
    /// files of another size and half-written ones; the caller syncs the directory.
    pub(super) fn adopt(&self, next: Option<Arc<Segment>>) -> Result<(), LogError> {
        let mut state = self.state.lock();
        state.next = next;
        for name in self.disk.list().map_err(LogError::io("the data directory", Op::List))? {
            let spare = number_in(SPARE, &name);
            let Some(number) = spare.or(number_in(FILLING, &name)) else {
                continue;
            };
            state.last_name = state.last_name.max(number);
            let file = self.disk.open(&name).map_err(LogError::io(&name, Op::Open))?;
            let bytes = file.len().map_err(LogError::io(&name, Op::Read))?;
            let fits = bytes == u64::from(self.options.segment_bytes);
            if spare.is_some() && fits && state.ready.len() < self.options.spares_max {
                state.add(Spare { name, file, bytes: self.options.segment_bytes });
            } else {
                self.remove(&name)?;
            }
        }
        self.settle(state);
        Ok(())
    }

    /// Ends a change of the state: derives the space from it. Once blocked, the pool stays so until
    /// next and reserve are complete, so that a disk at its limit does not flicker.
    fn settle(&self, mut state: MutexGuard<'_, State>) {
        if state.next.is_some() && state.ready_bytes() >= self.reserve_bytes() {
            state.blocked = false;
        }
        let next = state.next.as_ref().map_or(0, |next| u64::from(next.bytes));
        self.prepared.store(next + state.ready_bytes(), Ordering::Release);
        let space = match (state.blocked, &state.next, state.ready.len()) {
            (false, ..) => Space::Plenty,
            (true, None, 0) => Space::None,
            (true, ..) => Space::Reserve,
        };
        self.space.store(space as u8, Ordering::Release);
    }
}

fn next_name(state: &mut State, prefix: &str) -> String {
    state.last_name += 1;
    numbered(prefix, state.last_name)
}

/// Writes zeros from `start` to `end`.
pub(super) fn write_zeros(spare: &Spare, start: u32, end: u32) -> Result<(), LogError> {
    static ZEROS: [u8; WRITE_BYTES as usize] = [0; WRITE_BYTES as usize];
    let mut at = start;
    while at < end {
        let zeros = &ZEROS[..ZEROS.len().min((end - at) as usize)];
        let written = spare.file.write_at(zeros, u64::from(at));
        written.map_err(LogError::io(&spare.name, Op::Write))?;
        at += zeros.len() as u32;
    }
    Ok(())
}
