//! The check of a whole segment: every group and every record against its checksum.
//!
//! Reads, and writes nothing. Refuses what recovery would refuse, and records that are damaged
//! inside of a group that is not, which would mean a fault of memory or of this program.

use super::ending::{Ending, judge};
use super::error::LogError;
use super::frame::Group;
use super::header::HEADER_BYTES;
use super::loc::Loc;
use super::segment::{FIRST_SEGMENT, Segments};
use super::walk::Walk;

/// What a whole and healthy segment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    pub groups: u64,
    pub records: u64,
    /// Bytes of records, their overhead included.
    pub payload_bytes: u64,
    /// Where the last group ends.
    pub end: u32,
    /// The number that the next group of the log has, for the check of the next segment.
    pub next_sequence: Option<u64>,
    /// Whether the log goes on in the next segment, and this one ends as it should.
    pub continues: bool,
    /// Where a group begins that is not whole, if the log ends here in one.
    pub torn: Option<Loc>,
}

impl Segments {
    /// Checks one segment and visits its groups. `expected` is the number of its first group, which
    /// the check of the segment before has told; without it, only a log from its first segment on
    /// has a known start.
    ///
    /// In a running log, a segment may be checked once all its groups are durable.
    pub fn verify_segment<E: From<LogError>>(
        &self,
        number: u32,
        expected: Option<u64>,
        mut visit: impl FnMut(Group<'_>) -> Result<(), E>,
    ) -> Result<Verified, E> {
        self.get(number)?;
        let row = self.since(number);
        let expected = expected.or((number == FIRST_SEGMENT).then_some(1));
        let mut walk = Walk::from(&row[0], HEADER_BYTES, expected);
        let (mut groups, mut records, mut payload_bytes) = (0, 0, 0);
        while let Some(group) = walk.next_group()? {
            for record in group.checked_records() {
                record.map_err(LogError::from)?;
                records += 1;
            }
            groups += 1;
            payload_bytes += group.payload.len() as u64;
            visit(group)?;
        }
        let (end, next_sequence) = (walk.offset, walk.expected);
        let (continues, torn) = match judge(&row, end, next_sequence)? {
            Ending::Continues => (true, None),
            Ending::Tail { torn } => (false, torn),
        };
        Ok(Verified { groups, records, payload_bytes, end, next_sequence, continues, torn })
    }
}
