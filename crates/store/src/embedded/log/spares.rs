//! Spares: files made ready in the background, so that the log never waits for one.
//!
//! One background loop calls [`Spares::step`]. Each step does one small thing: promotes a spare to
//! the prepared next segment, or writes one slice of zeros of a new spare. Zeros, because a sync
//! that finds its blocks already written has no inode to update; slices with a sync every few,
//! because a sync of the log queues behind whatever the disk still has to flush. A dropped segment
//! becomes a spare as it is: its blocks are written, and its old groups can never be read under a
//! new number.
//!
//! The spares are also the reserve for a full disk. [`Space`] says how much of it is left; who may
//! use it is decided by the owner of the log. When the disk refuses a file the step says so and the
//! next step tries again, so room that appears is found without a restart, and used even if a whole
//! segment does not fit.

use std::sync::Arc;

use super::error::{LogError, Op};
use super::pool::{Pool, SLICE_BYTES, Spare, write_zeros};
use super::segment::Segment;

/// How many bytes of zeros may wait for a sync.
const SYNC_BYTES: u32 = 4 * SLICE_BYTES;

/// How much room the log has for further segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Space {
    /// Not even the reserve: what does not fit the current segment is refused.
    None = 0,
    /// The disk refused a file; only prepared ones are left.
    Reserve = 1,
    /// Next segment and reserve are ready, or nothing kept them from being made so far.
    Plenty = 2,
}

impl Space {
    pub(super) fn from_u8(space: u8) -> Space {
        match space {
            0 => Space::None,
            1 => Space::Reserve,
            _ => Space::Plenty,
        }
    }
}

/// What a step found to do.
#[derive(Debug)]
pub enum Work {
    /// Everything is ready; nothing to do until a segment is used or dropped.
    Idle,
    /// Something was done, and there may be more.
    More,
    /// The disk refused a file for this reason. Try again in a while.
    Blocked(LogError),
}

/// What became of a dropped segment's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// It is a spare now.
    Recycled,
    /// It is gone: enough spares, another size, or somebody still reads it.
    Removed,
}

/// The background's side of the log.
#[derive(Debug)]
pub struct Spares {
    pool: Arc<Pool>,
    filling: Option<Filling>,
    /// No further spare is begun: something else needs the room.
    gives_way: bool,
    /// A spare went for that, and no other has come since.
    lacks_one: bool,
}

#[derive(Debug)]
struct Filling {
    spare: Spare,
    written: u32,
    unsynced: u32,
}

impl Spares {
    pub(super) fn new(pool: Arc<Pool>) -> Spares {
        Spares { pool, filling: None, gives_way: false, lacks_one: false }
    }

    /// Does one small piece of preparation. An error is a failed sync of the directory or of a
    /// segment header, and should stop the store as any failed sync does.
    pub fn step(&mut self) -> Result<Work, LogError> {
        let worked = match self.pool.prepare_next() {
            Ok(false) if self.pool.wants_spare() && !self.gives_way => self.fill().map(|()| true),
            prepared => prepared,
        };
        match worked {
            Ok(true) => Ok(Work::More),
            Ok(false) => Ok(Work::Idle),
            Err(error) if error.is_failed_sync() && !error.is_full() => Err(error),
            Err(error) => {
                self.pool.block();
                Ok(Work::Blocked(error))
            }
        }
    }

    /// Leaves so much room on a full disk to what will free more than it takes, until
    /// [`Spares::resume`]: what was begun of a spare goes, and one that is ready if that is too
    /// little. No second one goes before there is another: somebody else may have taken the room.
    pub fn give_way(&mut self, bytes: u64) {
        self.gives_way = true;
        let mut freed = 0;
        if let Some(Filling { spare, written, .. }) = self.filling.take() {
            freed = u64::from(written);
            self.pool.discard(spare);
        }
        if freed < bytes && !self.lacks_one {
            let spare = self.pool.take_spare(bytes - freed);
            self.lacks_one = spare.is_some();
            spare.into_iter().for_each(|spare| self.pool.discard(spare));
        }
    }

    /// Goes on making spares.
    pub fn resume(&mut self) {
        self.gives_way = false;
    }

    /// The bytes of the next segment and of all spares.
    pub fn prepared_bytes(&self) -> u64 {
        self.pool.prepared_bytes()
    }

    /// How much room is left.
    pub fn space(&self) -> Space {
        self.pool.space()
    }

    /// Takes the oldest segment out of the log for good, durably. The caller has made sure that
    /// nothing in it is needed, neither by a location nor by a recovery.
    ///
    /// # Panics
    /// When it is the segment being written, or not the oldest one.
    pub fn drop_segment(&mut self, number: u32) -> Result<Dropped, LogError> {
        let segment = self.pool.segments.pop(number);
        let name = segment.name.clone();
        match Arc::try_unwrap(segment) {
            Ok(Segment { file, bytes, .. }) if self.pool.wants_recycled(bytes) => {
                self.add(Spare { name, file, bytes })?;
                Ok(Dropped::Recycled)
            }
            _ => {
                self.pool.remove(&name)?;
                self.pool.sync_dir(&name)?;
                Ok(Dropped::Removed)
            }
        }
    }

    /// Writes the next slice of a spare.
    fn fill(&mut self) -> Result<(), LogError> {
        let bytes = self.pool.options.segment_bytes;
        let mut filling = match self.filling.take() {
            Some(filling) => filling,
            None => Filling { spare: self.pool.start_filling()?, written: 0, unsynced: 0 },
        };
        let end = bytes.min(filling.written + SLICE_BYTES);
        if let Err(error) = write_zeros(&filling.spare, filling.written, end) {
            if error.is_full() && filling.written >= self.pool.least_bytes() {
                self.finish_small(filling)?;
            } else {
                // Kept: on a full disk, starting over would write the same zeros again and again.
                self.filling = Some(filling);
            }
            return Err(error);
        }
        filling.unsynced += end - filling.written;
        filling.written = end;
        if filling.unsynced >= SYNC_BYTES || end == bytes {
            if let Err(source) = filling.spare.file.sync() {
                // What of it arrived is unknown. Nothing relies on it yet, so it just goes.
                let file = filling.spare.name.clone();
                self.pool.discard(filling.spare);
                return Err(LogError::Io { file, op: Op::Write, source });
            }
            filling.unsynced = 0;
        }
        if end == bytes {
            return self.add(filling.spare);
        }
        self.filling = Some(filling);
        Ok(())
    }

    /// Makes a spare of as much as a full disk had room for, so that nobody waits for a whole one.
    fn finish_small(&mut self, filling: Filling) -> Result<(), LogError> {
        let spare = Spare { bytes: filling.written, ..filling.spare };
        // What was begun of the next slice goes back to the disk.
        let cut = spare.file.set_len(spare.bytes.into()).and_then(|()| spare.file.sync());
        if let Err(source) = cut {
            let file = spare.name.clone();
            self.pool.discard(spare);
            return Err(LogError::Io { file, op: Op::Write, source });
        }
        self.add(spare)
    }

    fn add(&mut self, spare: Spare) -> Result<(), LogError> {
        self.lacks_one = false;
        self.pool.add(spare)
    }
}
