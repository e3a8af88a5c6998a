//! The writer: fills groups in memory and hands them, one at a time and in order, to the syncer.
//!
//! Used under a mutex of its owner, and does no input or output there, except when it has to change
//! to a segment that is not prepared. A group's place and number are fixed when it is opened, so
//! the location of a record is final when it is pushed. The checksum of the group is computed by
//! the syncer, outside of the mutex.
//!
//! ```text
//! begin, push, push, …   begin, push, …                    under the owner's mutex
//!            └── open ──┴──── sealed ──► take ─► write_and_sync ─► done
//!                                                    └ no lock ┘
//! ```
//!
//! Until `done`, [`Writer::peek`] finds a group's records in memory; from then on they are on disk.
//! When `write_and_sync` fails, `done` is not called, and the log must not be used any further.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::error::LogError;
use super::frame::{
    GROUP_HEADER_BYTES, GroupHeader, Record, group_bytes, pad, push_record, split_record,
};
use super::header::HEADER_BYTES;
use super::loc::{Loc, Position};
use super::pool::Pool;
use super::segment::Segment;
use super::spares::Space;

/// Buffers above this are given back to the system instead of being filled again.
const BUFFER_BYTES_MAX: usize = 16 << 20;

/// Buffers that are kept to be filled again: one open, one in flight, and one between them.
const BUFFERS_MAX: usize = 3;

/// Appends records to the log.
#[derive(Debug)]
pub struct Writer {
    pool: Arc<Pool>,
    current: Arc<Segment>,
    /// Where the open group starts. It exists once a record was pushed.
    position: Position,
    open: Vec<u8>,
    sealed: VecDeque<Sealed>,
    in_flight: Option<Sealed>,
    durable: u64,
    buffers: Vec<Vec<u8>>,
    /// The open group holds half a command, which must not be torn from the rest of it.
    held: bool,
}

impl Writer {
    pub(super) fn new(pool: Arc<Pool>, current: Arc<Segment>, position: Position) -> Writer {
        let durable = position.sequence - 1;
        let (sealed, in_flight) = (VecDeque::new(), None);
        let (open, buffers) = (Vec::new(), Vec::new());
        let held = false;
        Writer { pool, current, position, open, sealed, in_flight, durable, buffers, held }
    }

    /// Starts a command whose records take at most `bytes`, [`RECORD_OVERHEAD`] each included: from
    /// here to the next `begin`, all records go to one group. Changes to the next segment if the
    /// current one has no room. After an error nothing has changed.
    ///
    /// [`RECORD_OVERHEAD`]: super::RECORD_OVERHEAD
    pub fn begin(&mut self, bytes: usize) -> Result<(), LogError> {
        if self.fits(bytes) {
            return Ok(());
        }
        let max = self.pool.options.command_bytes_max();
        if bytes > max {
            return Err(LogError::TooLarge { bytes, max });
        }
        let next = self.pool.advance(group_bytes(bytes))?;
        self.seal();
        self.position.segment = next.number;
        self.position.offset = HEADER_BYTES;
        self.current = next;
        assert!(self.fits(bytes), "an empty segment has room for every command");
        Ok(())
    }

    /// Whether `begin` finds room for that many bytes without making a file: in this segment, or in
    /// one that is ready.
    pub fn is_ready_for(&self, bytes: usize) -> bool {
        self.fits(bytes) || self.pool.has_segment(group_bytes(bytes))
    }

    /// Appends a record to the open group and says where it lies for good.
    ///
    /// # Panics
    /// When the records since `begin` take more than was announced and the segment is full.
    pub fn push(&mut self, tag: u8, bytes: &[u8]) -> Loc {
        self.push_with(tag, |buffer| buffer.extend_from_slice(bytes))
    }

    /// Like [`push`](Writer::push), with the bytes encoded straight into the group. The encoder
    /// only appends to the buffer.
    pub fn push_with(&mut self, tag: u8, encode: impl FnOnce(&mut Vec<u8>)) -> Loc {
        let offset = push_record(&mut self.open, self.position, self.current.salt, tag, encode);
        assert!(self.fits(0), "a command took more bytes than it announced");
        let loc = Loc::new(self.current.number, offset);
        loc.expect("segments are numbered from one")
    }

    /// The number of the group that the next record goes to. What was pushed since the last `begin`
    /// is durable once [`durable`](Writer::durable) has reached it.
    pub fn group_no(&self) -> u64 {
        self.position.sequence
    }

    /// Where the group that the next record goes to starts: every earlier group lies before it, so
    /// it is a place to recover from.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The number of the last durable group; zero if there is none.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Where the first group starts of which it is not known that it is durable, if all up to
    /// `durable` are. What was written before this place never changes again.
    pub fn end_of(&self, durable: u64) -> Position {
        let waiting = self.in_flight.iter().chain(&self.sealed).map(|group| group.position);
        let mut waiting = waiting.filter(|position| position.sequence > durable);
        waiting.next().unwrap_or(self.position)
    }

    /// The bytes of the open group.
    pub fn open_bytes(&self) -> usize {
        self.open.len()
    }

    /// The bytes of all groups that are not durable yet.
    pub fn pending_bytes(&self) -> usize {
        let waiting = self.sealed.iter().chain(&self.in_flight);
        self.open.len() + waiting.map(|group| group.body.len()).sum::<usize>()
    }

    /// How much room the log has for further segments.
    pub fn space(&self) -> Space {
        let end = self.position.offset as usize + group_bytes(self.open.len());
        self.pool.space_with(self.current.bytes.saturating_sub(end as u32))
    }

    /// Keeps the open group open, because more of the same command follows, or no longer.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Whether [`take`](Writer::take) has something to give.
    pub fn has_group(&self) -> bool {
        !self.sealed.is_empty() || !self.open.is_empty() && !self.held
    }

    /// The oldest group that is not durable, for the syncer; the open one is sealed if none waits.
    /// None if there is nothing to write.
    ///
    /// # Panics
    /// When another group is in flight.
    pub fn take(&mut self) -> Option<Sealed> {
        assert!(self.in_flight.is_none(), "one group is in flight at a time");
        if self.sealed.is_empty() && !self.held {
            self.seal();
        }
        let group = self.sealed.pop_front()?;
        self.in_flight = Some(group.share());
        Some(group)
    }

    /// Takes note that a group is durable, and its buffer back.
    ///
    /// # Panics
    /// When it is not the group in flight.
    pub fn done(&mut self, group: Sealed) {
        let in_flight = self.in_flight.take();
        let sequence = in_flight.as_ref().map(Sealed::sequence);
        assert_eq!(sequence, Some(group.sequence()), "the group in flight is the one that is done");
        drop(in_flight);
        self.durable = group.sequence();
        if let Ok(mut buffer) = Arc::try_unwrap(group.body)
            && buffer.capacity() <= BUFFER_BYTES_MAX
            && self.buffers.len() < BUFFERS_MAX
        {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// The record at a location if it is not on disk yet. Ask here, under the mutex, before reading
    /// from the segments.
    pub fn peek(&self, loc: Loc) -> Option<Record<'_>> {
        if loc.segment() > self.position.segment {
            return None;
        }
        let waiting = self.in_flight.iter().chain(&self.sealed);
        let waiting = waiting.map(|group| (group.position, &group.body[..group.len as usize]));
        let mut groups = waiting.chain([(self.position, &self.open[..])]);
        groups.find_map(|(position, payload)| record_in(position, payload, loc))
    }

    /// Whether the open group can take that many bytes more.
    fn fits(&self, bytes: usize) -> bool {
        let end = self.position.offset as usize + group_bytes(self.open.len() + bytes);
        end <= self.current.bytes as usize
    }

    /// Closes the open group, if it holds anything, and opens the next behind it.
    fn seal(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let fresh = self.buffers.pop().unwrap_or_default();
        let mut body = std::mem::replace(&mut self.open, fresh);
        let len = body.len() as u32;
        pad(&mut body);
        let (segment, position) = (self.current.clone(), self.position);
        self.position.sequence += 1;
        self.position.offset += group_bytes(len as usize) as u32;
        self.sealed.push_back(Sealed { segment, position, len, body: Arc::new(body) });
    }
}

/// The record at `loc` if it lies in this payload.
fn record_in(position: Position, payload: &[u8], loc: Loc) -> Option<Record<'_>> {
    let start = position.offset + GROUP_HEADER_BYTES;
    if loc.segment() != position.segment || loc.offset() < start {
        return None;
    }
    let (record, _) = split_record(payload.get((loc.offset() - start) as usize..)?)?;
    Some(record)
}

/// A finished group on its way to the disk.
pub struct Sealed {
    segment: Arc<Segment>,
    position: Position,
    len: u32,
    /// Records and padding; shared with the writer, which answers `peek` from it.
    body: Arc<Vec<u8>>,
}

impl Sealed {
    /// Makes the group durable. On an error it may or may not be, and no later group may be
    /// written: the kernel forgets a failed sync, and the next one would say Ok.
    pub fn write_and_sync(&self) -> Result<(), LogError> {
        let Position { sequence, offset, .. } = self.position;
        let salt = self.segment.salt;
        let body_crc = salt.body_crc(sequence, self.len, &self.body);
        let header = GroupHeader { len: self.len, sequence, body_crc }.encode(salt);
        // Two writes, so that the body can stay shared. Their order does not matter: nothing counts
        // before the sync, and half a group fails its checksum.
        self.segment.write_at(&self.body, offset + GROUP_HEADER_BYTES)?;
        self.segment.write_at(&header, offset)?;
        self.segment.sync()
    }

    /// The group's number.
    pub fn sequence(&self) -> u64 {
        self.position.sequence
    }

    /// Where the group starts.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The bytes that the group takes on disk.
    pub fn bytes(&self) -> usize {
        GROUP_HEADER_BYTES as usize + self.body.len()
    }

    fn share(&self) -> Sealed {
        let (segment, body) = (self.segment.clone(), self.body.clone());
        Sealed { segment, position: self.position, len: self.len, body }
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Sealed");
        debug.field("position", &self.position).field("bytes", &self.bytes()).finish()
    }
}
