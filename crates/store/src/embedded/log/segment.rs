//! Segment files, and the row of them that makes the log.
//!
//! [`Segments`] is shared: readers take a segment out of it (an `Arc`) and read without any lock of
//! the writer. A segment that is dropped meanwhile stays readable to whoever holds it. The row has
//! no holes: segments join at the young end and leave at the old end, so that a missing number
//! always means a lost file.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::RwLock;

use super::error::{Damage, LogError, Op, What};
use super::frame::{Record, Salt, record_bytes, record_matches, split_record};
use super::header::{HEADER_BYTES, SegmentHeader, StoreId};
use super::loc::Loc;
use crate::embedded::disk::{Disk, DiskFile, DiskLock};

/// The number of the first segment of a new log.
pub(super) const FIRST_SEGMENT: u32 = 1;

/// What a read fetches at once: most records need no second call.
pub(super) const READ_BYTES: usize = 1024;

const PREFIX: &str = "segment-";
const SUFFIX: &str = ".log";

/// The file name of a segment.
pub(super) fn segment_name(number: u32) -> String {
    numbered(PREFIX, number)
}

/// The number in the file name of a segment, if it is one.
pub(super) fn segment_number(name: &str) -> Option<u32> {
    number_in(PREFIX, name)
}

/// Whether this is the file name of a segment.
pub(crate) fn is_segment(name: &str) -> bool {
    segment_number(name).is_some()
}

pub(super) fn numbered(prefix: &str, number: u32) -> String {
    format!("{prefix}{number:010}{SUFFIX}")
}

pub(super) fn number_in(prefix: &str, name: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(SUFFIX)?;
    let plain = digits.len() == 10 && digits.bytes().all(|digit| digit.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// One segment file, open.
#[derive(Debug)]
pub struct Segment {
    pub(super) number: u32,
    pub(super) bytes: u32,
    pub(super) name: String,
    pub(super) salt: Salt,
    pub(super) file: Box<dyn DiskFile>,
}

impl Segment {
    pub(super) fn new(header: SegmentHeader, file: Box<dyn DiskFile>) -> Segment {
        let SegmentHeader { store, number, bytes } = header;
        let (name, salt) = (segment_name(number), Salt::new(store, number));
        Segment { number, bytes, name, salt, file }
    }

    /// Opens a segment and checks its header against its name and length.
    pub(super) fn open(disk: &dyn Disk, number: u32) -> Result<(StoreId, Segment), LogError> {
        let name = segment_name(number);
        let damage = |what| Err(Damage::new(&name, 0, what).into());
        let file = disk.open(&name).map_err(LogError::io(&name, Op::Open))?;
        let found = file.len().map_err(LogError::io(&name, Op::Read))?;
        if found < u64::from(HEADER_BYTES) {
            return damage(What::Short { found, expected: u64::from(HEADER_BYTES) });
        }
        let mut block = vec![0; HEADER_BYTES as usize];
        file.read_at(&mut block, 0).map_err(LogError::io(&name, Op::Read))?;
        let header = SegmentHeader::decode(&name, &block)?;
        if header.number != number || number < FIRST_SEGMENT {
            return damage(What::Header("tells another number than the file name"));
        }
        let expected = u64::from(header.bytes);
        if found < expected {
            return damage(What::Short { found, expected });
        }
        Ok((header.store, Segment::new(header, file)))
    }

    /// The segment's number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The size of the segment's file.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The name of the segment's file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads plain bytes of the file, whatever they mean.
    pub fn read_bytes(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.file.read_at(bytes, offset)
    }

    /// Reads the record whose header is at `offset` and checks it. The bytes land in `scratch`,
    /// which only ever grows. The record must have been written: ask `Writer::peek` for younger
    /// ones.
    pub fn read<'a>(&self, offset: u32, scratch: &'a mut Vec<u8>) -> Result<Record<'a>, LogError> {
        let (len, _) = self.fetch_record(offset, scratch, READ_BYTES)?;
        let cut = || Damage::new(&self.name, offset, What::Record("is cut short")).into();
        split_record(&scratch[..len]).map(|(record, _)| record).ok_or_else(cut)
    }

    /// Fetches the record whose header is at `offset`, checks it, and says how long it is. Up to
    /// `ahead` bytes are fetched at once; what lies behind the record comes along, and how much of
    /// `scratch` is filled is said too.
    pub(super) fn fetch_record(
        &self,
        offset: u32,
        scratch: &mut Vec<u8>,
        ahead: usize,
    ) -> Result<(usize, usize), LogError> {
        let damage = |why| LogError::from(Damage::new(&self.name, offset, What::Record(why)));
        if offset < HEADER_BYTES || offset >= self.bytes {
            return Err(damage("lies outside of the segment"));
        }
        let room = (self.bytes - offset) as usize;
        let mut fetched = ahead.min(room);
        self.fetch(offset, scratch, fetched)?;
        let len = record_bytes(&scratch[..fetched]).filter(|len| *len <= room);
        let len = len.ok_or_else(|| damage("reaches beyond the segment"))?;
        if len > fetched {
            self.fetch(offset, scratch, len)?;
            fetched = len;
        }
        if !record_matches(scratch, len, self.salt, offset) {
            return Err(damage("does not match its checksum"));
        }
        Ok((len, fetched))
    }

    fn fetch(&self, offset: u32, scratch: &mut Vec<u8>, len: usize) -> Result<(), LogError> {
        if scratch.len() < len {
            scratch.resize(len, 0);
        }
        self.read_at(&mut scratch[..len], offset)
    }

    pub(super) fn read_at(&self, bytes: &mut [u8], offset: u32) -> Result<(), LogError> {
        let read = self.file.read_at(bytes, u64::from(offset));
        read.map_err(LogError::io(&self.name, Op::Read))
    }

    pub(super) fn write_at(&self, bytes: &[u8], offset: u32) -> Result<(), LogError> {
        let written = self.file.write_at(bytes, u64::from(offset));
        written.map_err(LogError::io(&self.name, Op::Write))
    }

    pub(super) fn sync(&self) -> Result<(), LogError> {
        self.file.sync().map_err(LogError::io(&self.name, Op::Sync))
    }
}

/// The row of segments from the oldest kept one to the one being written. Holds the single-instance
/// lock for as long as anybody holds the row.
#[derive(Debug)]
pub struct Segments {
    store: StoreId,
    row: RwLock<VecDeque<Arc<Segment>>>,
    _lock: DiskLock,
}

impl Segments {
    pub(super) fn new(store: StoreId, row: VecDeque<Arc<Segment>>, lock: DiskLock) -> Segments {
        Segments { store, row: RwLock::new(row), _lock: lock }
    }

    /// The identity of the store, as every segment's header tells it.
    pub fn store_id(&self) -> StoreId {
        self.store
    }

    /// The numbers in the row; empty before a new log has its first segment.
    pub fn numbers(&self) -> RangeInclusive<u32> {
        let row = self.row.read();
        match (row.front(), row.back()) {
            (Some(oldest), Some(newest)) => oldest.number..=newest.number,
            _ => RangeInclusive::new(1, 0),
        }
    }

    /// The bytes of all segment files in the row.
    pub fn total_bytes(&self) -> u64 {
        self.row.read().iter().map(|segment| u64::from(segment.bytes)).sum()
    }

    /// A segment to read from. Whoever looks up a location under a mutex takes the segment under
    /// the same mutex, and may then read at leisure: dropping it does not take it away.
    pub fn get(&self, number: u32) -> Result<Arc<Segment>, LogError> {
        let row = self.row.read();
        let oldest = row.front().map_or(FIRST_SEGMENT, |oldest| oldest.number);
        if number < oldest {
            return Err(LogError::Dropped { segment: number });
        }
        let found = row.get((number - oldest) as usize).cloned();
        found.ok_or_else(|| Damage::new(&segment_name(number), 0, What::Missing).into())
    }

    /// Reads one record; see [`Segment::read`].
    pub fn read<'a>(&self, loc: Loc, scratch: &'a mut Vec<u8>) -> Result<Record<'a>, LogError> {
        self.get(loc.segment())?.read(loc.offset(), scratch)
    }

    /// All segments up to `number`.
    pub fn until(&self, number: u32) -> Vec<Arc<Segment>> {
        self.row.read().iter().filter(|segment| segment.number <= number).cloned().collect()
    }

    /// All segments from `number` on.
    pub(super) fn since(&self, number: u32) -> Vec<Arc<Segment>> {
        self.row.read().iter().filter(|segment| segment.number >= number).cloned().collect()
    }

    pub(super) fn push(&self, segment: Arc<Segment>) {
        let mut row = self.row.write();
        let follows = row.back().is_none_or(|newest| newest.number + 1 == segment.number);
        assert!(follows, "segments join without a hole");
        row.push_back(segment);
    }

    /// Cuts the row after segment `number` and returns what was beyond it.
    pub(super) fn cut_after(&self, number: u32) -> VecDeque<Arc<Segment>> {
        let mut row = self.row.write();
        let keep = row.iter().take_while(|segment| segment.number <= number).count();
        row.split_off(keep)
    }

    /// Takes the oldest segment out of the row.
    pub(super) fn pop(&self, number: u32) -> Arc<Segment> {
        let mut row = self.row.write();
        assert!(row.len() > 1, "segment {number} is being written and cannot be dropped");
        let oldest = row.pop_front().filter(|oldest| oldest.number == number);
        oldest.unwrap_or_else(|| panic!("segment {number} is not the oldest one: a hole is damage"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_carry_the_number_and_sort_by_it() {
        assert_eq!(segment_name(12), "segment-0000000012.log");
        assert_eq!(segment_number("segment-0000000012.log"), Some(12));
        assert!(segment_name(99) < segment_name(100));
        for other in ["segment-12.log", "segment-+000000012.log", "spare-0000000012.log", "LOCK"] {
            assert_eq!(segment_number(other), None, "{other}");
        }
    }
}
