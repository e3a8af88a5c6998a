//! Opening a log and finding its end.
//!
//! [`Log::open`] takes the lock and checks which files are there; it writes nothing.
//! [`Log::recover`] hands every group from a position on to its visitor, judges the end
//! (`ending.rs`), and makes the log ready to be written on.
//!
//! # Why the writer may go on over a torn tail
//!
//! Say group `s` was torn, and the new life writes another group `s` at the same place, perhaps a
//! shorter one, with the rest of the torn one still behind it. Can those old bytes ever be read as
//! groups?
//!
//! - Not the torn group itself, in a mixture of old and new sectors: its header is erased, durably,
//!   before the new life writes anything. Without that, a crash could combine old sectors with new
//!   ones that happen to be equal and complete the old group after all.
//! - Not its inner bytes. A walk looks for a group only at the end of the one before, with the next
//!   number, so it would need a header of this segment with number `s + 1` or higher inside of the
//!   old group's records; and only one group is in flight, so the life that wrote `s` never wrote a
//!   header with a higher number anywhere. Records may carry bytes of a foreign log, but their
//!   checksums start from another store's salt.
//! - Not groups of an earlier use of the file: another number, another salt, never valid
//!   (`frame.rs`).
//!
//! The same holds for the search for later groups that turns a torn tail into damage: it looks for
//! a number above `s`, and none was ever written if `s` was not durable.
//!
//! # Why the last group is written again
//!
//! A process may die between write and sync, or after a sync that failed. The next one reads the
//! group from the page cache, whole, and would serve what a power cut still takes away; after a
//! failed sync the kernel even counts the pages as clean, and another sync would not write them. So
//! recovery writes the last group once more, as it read it, and syncs it before anything is served.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Options;
use super::ending::{Ending, judge};
use super::error::{Damage, LogError, Op, What};
use super::frame::{GROUP_HEADER_BYTES, Group, group_bytes};
use super::header::HEADER_BYTES;
use super::loc::Position;
use super::pool::Pool;
use super::segment::{FIRST_SEGMENT, Segment, Segments, segment_name, segment_number};
use super::spares::Spares;
use super::walk::Walk;
use super::writer::Writer;
use crate::embedded::disk::{Disk, DiskLock, LockError};

/// The number of the first group of a new log.
const FIRST_SEQUENCE: u64 = 1;

/// A log whose files are known and locked, and whose end is not known yet. Records can be read.
#[derive(Debug)]
pub struct Log {
    disk: Arc<dyn Disk>,
    options: Options,
    segments: Arc<Segments>,
}

/// A log that is ready: hand the parts to those who use them.
#[derive(Debug)]
pub struct Recovered {
    /// For whoever appends, under a mutex.
    pub writer: Writer,
    /// For readers, and for the check of whole segments.
    pub segments: Arc<Segments>,
    /// For the background.
    pub spares: Spares,
    /// What recovery found.
    pub tail: Tail,
}

/// The end of the log as recovery found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// Where the next group goes.
    pub position: Position,
    /// How many groups were visited.
    pub groups: u64,
    /// Whether a group that was never durable had been begun there, and was cut off.
    pub torn: bool,
}

/// A tail, and the last group before it if one was visited.
struct End {
    tail: Tail,
    last: Option<(Arc<Segment>, u32, usize)>,
}

impl Log {
    /// Locks the directory, and reads which segments it holds.
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Log, LogError> {
        let lock = Log::lock(&*disk)?;
        Log::open_locked(disk, lock, options)
    }

    pub(crate) fn lock(disk: &dyn Disk) -> Result<DiskLock, LogError> {
        disk.lock().map_err(|error| match error {
            LockError::Held { by } => LogError::Locked { by },
            LockError::Io(source) => LogError::io("LOCK", Op::Lock)(source),
        })
    }

    /// Reads which segments a directory holds that is locked.
    pub(crate) fn open_locked(
        disk: Arc<dyn Disk>,
        lock: DiskLock,
        options: Options,
    ) -> Result<Log, LogError> {
        options.check()?;
        let mut row: VecDeque<Arc<Segment>> = VecDeque::new();
        let mut store = None;
        for name in disk.list().map_err(LogError::io("the data directory", Op::List))? {
            let Some(number) = segment_number(&name) else {
                continue;
            };
            if let Some(before) = row.back()
                && before.number + 1 != number
            {
                let missing = segment_name(before.number + 1);
                return Err(Damage::new(&missing, 0, What::Missing).into());
            }
            let (owner, segment) = Segment::open(&*disk, number)?;
            if *store.get_or_insert(owner) != owner {
                let what = What::Header("belongs to another store");
                return Err(Damage::new(&name, 0, what).into());
            }
            row.push_back(Arc::new(segment));
        }
        let store = store.unwrap_or(options.new_store_id);
        let segments = Arc::new(Segments::new(store, row, lock));
        Ok(Log { disk, options, segments })
    }

    /// The segments, to read records before recovery or to check them instead of it.
    pub fn segments(&self) -> &Arc<Segments> {
        &self.segments
    }

    /// Visits every group from `from` on, or from the start of the oldest segment, then makes the
    /// log ready to append behind the last one. Damage and errors of the visitor leave all as it
    /// was.
    pub fn recover<E: From<LogError>>(
        self,
        from: Option<Position>,
        mut visit: impl FnMut(Group<'_>) -> Result<(), E>,
    ) -> Result<Recovered, E> {
        let end = self.replay(from, &mut visit)?;
        Ok(self.resume(end)?)
    }

    /// Visits every group from `from` on, or from the start of the oldest segment, and leaves
    /// everything as it is. Ends with the first error of the visitor.
    pub fn visit<E: From<LogError>>(
        &self,
        from: Option<Position>,
        mut visit: impl FnMut(Group<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.replay(from, &mut visit).map(|_| ())
    }

    fn replay<E: From<LogError>>(
        &self,
        from: Option<Position>,
        visit: &mut impl FnMut(Group<'_>) -> Result<(), E>,
    ) -> Result<End, E> {
        let start = self.start(from)?;
        let row = self.segments.since(start.segment);
        let mut end = End { tail: Tail { position: start, groups: 0, torn: false }, last: None };
        let known = from.is_some() || start.segment == FIRST_SEGMENT;
        let mut expected = known.then_some(start.sequence);
        for (index, segment) in row.iter().enumerate() {
            let offset = if index == 0 { start.offset } else { HEADER_BYTES };
            let mut walk = Walk::from(segment, offset, expected);
            while let Some(group) = walk.next_group()? {
                let bytes = group_bytes(group.payload.len());
                end.last = Some((segment.clone(), group.position.offset, bytes));
                end.tail.groups += 1;
                visit(group)?;
            }
            expected = walk.expected;
            let ending = judge(&row[index..], walk.offset, expected)?;
            let Some(sequence) = expected else {
                let what = What::Beginning;
                return Err(LogError::from(Damage::new(&segment.name, offset, what)).into());
            };
            let (segment, offset) = (segment.number, walk.offset);
            end.tail.position = Position { sequence, segment, offset };
            if let Ending::Tail { torn } = ending {
                end.tail.torn = torn.is_some();
                break;
            }
        }
        Ok(end)
    }

    /// Where to begin: as told, or at the oldest segment.
    fn start(&self, from: Option<Position>) -> Result<Position, LogError> {
        let numbers = self.segments.numbers();
        let Some(from) = from else {
            let (sequence, segment) = (FIRST_SEQUENCE, *numbers.start());
            return Ok(Position { sequence, segment, offset: HEADER_BYTES });
        };
        if !numbers.contains(&from.segment) {
            return Err(Damage::new(&segment_name(from.segment), 0, What::Missing).into());
        }
        Ok(from)
    }

    /// Makes what was found durable, clears what was cut, and hands out the parts.
    fn resume(self, end: End) -> Result<Recovered, LogError> {
        let End { tail, last } = end;
        if let Some((segment, offset, bytes)) = last {
            let mut group = vec![0; bytes];
            segment.read_at(&mut group, offset)?;
            segment.write_at(&group, offset)?;
            segment.sync()?;
        }
        let beyond = self.segments.cut_after(tail.position.segment);
        let segments = self.segments;
        let pool = Arc::new(Pool::new(self.disk, self.options, segments.clone()));
        let next = clear_beyond(&pool, beyond)?;
        pool.adopt(next)?;
        pool.sync_dir("the data directory")?;
        let current = match segments.numbers().is_empty() {
            true => pool.advance(0)?,
            false => segments.get(tail.position.segment)?,
        };
        erase(&current, tail.position.offset)?;
        let writer = Writer::new(pool.clone(), current, tail.position);
        Ok(Recovered { writer, segments, spares: Spares::new(pool), tail })
    }
}

/// Keeps the segment right behind the tail as the next one if its size is right, and removes all
/// others: nothing durable is in them. They are not recycled, because a torn group may lie in one,
/// and the file could get the same number again.
fn clear_beyond(
    pool: &Pool,
    beyond: VecDeque<Arc<Segment>>,
) -> Result<Option<Arc<Segment>>, LogError> {
    let mut next = None;
    for (index, segment) in beyond.into_iter().enumerate() {
        if index == 0 && segment.bytes == pool.options.segment_bytes {
            next = Some(segment);
        } else {
            pool.remove(&segment.name)?;
        }
    }
    Ok(next)
}

/// Overwrites whatever looks like the header of a group at `offset`, durably.
fn erase(segment: &Segment, offset: u32) -> Result<(), LogError> {
    let room = GROUP_HEADER_BYTES.min(segment.bytes - offset);
    let mut header = vec![0; room as usize];
    segment.read_at(&mut header, offset)?;
    if header.iter().any(|byte| *byte != 0) {
        header.fill(0);
        segment.write_at(&header, offset)?;
    }
    // Even if it reads as zeros: they too may be in the page cache alone.
    segment.sync()
}
