//! Where things lie in the log: a record (`Loc`), a group (`Position`).

use std::fmt;
use std::num::NonZeroU32;

use super::header::HEADER_BYTES;
use super::segment::segment_name;

/// Where one record lies. Eight bytes, and `Option<Loc>` too, because segments are numbered from
/// one. Ordered as the log is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Loc {
    segment: NonZeroU32,
    offset: u32,
}

impl Loc {
    /// No record.
    pub const NONE: Option<Loc> = None;

    /// The record whose header is at `offset` of segment number `segment`; none if that is zero.
    pub const fn new(segment: u32, offset: u32) -> Option<Loc> {
        match NonZeroU32::new(segment) {
            Some(segment) => Some(Loc { segment, offset }),
            None => None,
        }
    }

    /// The number of the segment.
    pub const fn segment(self) -> u32 {
        self.segment.get()
    }

    /// Where the record's header starts in the segment file.
    pub const fn offset(self) -> u32 {
        self.offset
    }

    /// As one number that sorts alike; never zero.
    pub const fn pack(self) -> u64 {
        (self.segment.get() as u64) << 32 | self.offset as u64
    }

    /// The inverse of [`pack`](Loc::pack); numbers that no location packs to give none.
    pub const fn unpack(packed: u64) -> Option<Loc> {
        Loc::new((packed >> 32) as u32, packed as u32)
    }
}

impl fmt::Debug for Loc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment, self.offset)
    }
}

/// As people look for it: `segment-0000000002.log at byte 4208`.
impl fmt::Display for Loc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", segment_name(self.segment()), self.offset)
    }
}

/// Where a group starts, or would start: the place from which recovery may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The group's number in the log, counted from one without gaps.
    pub sequence: u64,
    /// The number of the segment.
    pub segment: u32,
    /// Where the group's header starts in the segment file.
    pub offset: u32,
}

impl Position {
    /// Whether no group lies before it in its segment.
    pub fn is_beginning(&self) -> bool {
        self.offset == HEADER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_takes_eight_bytes_and_so_does_its_absence() {
        assert_eq!(size_of::<Loc>(), 8);
        assert_eq!(size_of::<Option<Loc>>(), 8);
        assert_eq!(Loc::new(0, 7), Loc::NONE);
    }

    #[test]
    fn packed_locations_sort_as_the_log_does_and_come_back() {
        let locs = [(1, 0), (1, u32::MAX), (2, 9), (u32::MAX, 1)];
        let locs = locs.map(|(segment, offset)| Loc::new(segment, offset).unwrap());
        assert!(locs.is_sorted());
        assert!(locs.map(Loc::pack).is_sorted());
        assert_eq!(locs.map(|loc| Loc::unpack(loc.pack())), locs.map(Some));
        assert_eq!(Loc::unpack(7), None);
    }

    #[test]
    fn a_location_is_shown_as_a_file_and_an_offset() {
        let loc = Loc::new(2, 4208).unwrap();
        assert_eq!(loc.to_string(), "segment-0000000002.log at byte 4208");
    }
}
