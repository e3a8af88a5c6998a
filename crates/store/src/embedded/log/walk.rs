//! Reads the groups of one segment in order, through a window of the file.
//!
//! Sees one segment. Decides only whether a valid group with the expected number starts at the next
//! place; what it means that none does is `ending.rs`'s question.

use windrow_core::planted::{Bug, is_planted};

use super::error::LogError;
use super::frame::{GROUP_HEADER_BYTES, Group, GroupHeader, group_bytes};
use super::header::HEADER_BYTES;
use super::loc::Position;
use super::segment::Segment;

/// What one read fetches. Small groups are many, and a call to the system for each would cost more
/// than the checksums.
const WINDOW_BYTES: usize = 256 << 10;

/// A window that moves over a segment file.
#[derive(Debug)]
pub(super) struct Window<'s> {
    pub(super) segment: &'s Segment,
    bytes: Vec<u8>,
    start: u32,
    filled: usize,
}

impl<'s> Window<'s> {
    pub(super) fn new(segment: &'s Segment) -> Window<'s> {
        Window { segment, bytes: Vec::new(), start: 0, filled: 0 }
    }

    /// At least `len` bytes from `offset` on, or what there is up to the end of the segment.
    pub(super) fn from(&mut self, offset: u32, len: usize) -> Result<&[u8], LogError> {
        let room = self.segment.bytes.saturating_sub(offset) as usize;
        let len = len.min(room);
        let inside = offset >= self.start && (offset - self.start) as usize + len <= self.filled;
        if !inside {
            let fetch = len.max(WINDOW_BYTES).min(room);
            if self.bytes.len() < fetch {
                self.bytes.resize(fetch, 0);
            }
            (self.start, self.filled) = (offset, 0);
            self.segment.read_at(&mut self.bytes[..fetch], offset)?;
            self.filled = fetch;
        }
        Ok(&self.bytes[(offset - self.start) as usize..self.filled])
    }
}

/// A walk over the groups of one segment.
#[derive(Debug)]
pub(super) struct Walk<'s> {
    window: Window<'s>,
    /// Where the next group starts, or would.
    pub(super) offset: u32,
    /// The number the next group must have; unknown before the first group of a log whose beginning
    /// was dropped.
    pub(super) expected: Option<u64>,
}

impl<'s> Walk<'s> {
    /// Walks from a place at which a group starts.
    pub(super) fn from(segment: &'s Segment, offset: u32, expected: Option<u64>) -> Walk<'s> {
        Walk { window: Window::new(segment), offset: offset.max(HEADER_BYTES), expected }
    }

    /// The next group if it is whole and has the expected number.
    pub(super) fn next_group(&mut self) -> Result<Option<Group<'_>>, LogError> {
        let (offset, segment) = (self.offset, self.window.segment);
        let Some(header) = header_at(&mut self.window, offset)? else {
            return Ok(None);
        };
        if self.expected.is_some_and(|expected| expected != header.sequence) {
            return Ok(None);
        }
        let whole = group_bytes(header.len as usize);
        let bytes = self.window.from(offset, whole)?;
        let Some(body) = bytes.get(GROUP_HEADER_BYTES as usize..whole) else {
            return Ok(None);
        };
        let found = segment.salt.body_crc(header.sequence, header.len, body);
        if header.body_crc != found && !is_planted(Bug::TornGroupAccepted) {
            return Ok(None);
        }
        self.offset = offset + whole as u32;
        self.expected = Some(header.sequence + 1);
        let position = Position { sequence: header.sequence, segment: segment.number, offset };
        let payload = &body[..header.len as usize];
        Ok(Some(Group { position, payload, file: &segment.name, salt: segment.salt }))
    }
}

/// The group header at a place, if one of this segment is there.
pub(super) fn header_at(
    window: &mut Window<'_>,
    offset: u32,
) -> Result<Option<GroupHeader>, LogError> {
    let salt = window.segment.salt;
    Ok(GroupHeader::decode(window.from(offset, GROUP_HEADER_BYTES as usize)?, salt))
}
