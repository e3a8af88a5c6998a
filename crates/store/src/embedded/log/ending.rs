//! Where the log ends: a clean end, a torn tail, or damage.
//!
//! Sees the place where the next group should start and does not, and every segment from there on.
//! Decides between four answers and writes nothing:
//!
//! - **continues**: the next segment starts with the expected group; this one was simply full.
//! - **damage**, if a group with a higher number begins anywhere behind. It was written only after
//!   the sync of the expected one had returned, so the expected group was durable and is lost. The
//!   header of a later group is proof enough, even when its body is torn.
//! - **damage**, if a single flipped bit explains the whole difference (`rot.rs`).
//! - **tail** otherwise: the expected group was never durable, or never begun.
//!
//! What cannot be told apart: two or more rotten bits in the very newest group look like a torn
//! write.

use std::sync::Arc;

use super::error::{Damage, LogError, What};
use super::frame::{ALIGN, GROUP_HEADER_BYTES, GROUP_MAGIC, GroupHeader};
use super::header::HEADER_BYTES;
use super::loc::{Loc, Position};
use super::rot::{begun, flipped_bit};
use super::segment::Segment;
use super::walk::{Window, header_at};

/// How much of a segment is looked at between two reads.
const SEARCH_BYTES: u32 = 128 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Continues,
    /// Nothing durable follows. `torn` is where the beginning of a group was found, which is to be
    /// cut.
    Tail {
        torn: Option<Loc>,
    },
}

/// Judges the end of the walk over `segments[0]`, which stopped at `offset` in want of group
/// `expected`.
pub(super) fn judge(
    segments: &[Arc<Segment>],
    offset: u32,
    expected: Option<u64>,
) -> Result<Ending, LogError> {
    let Some((here, later)) = segments.split_first() else {
        return Ok(Ending::Tail { torn: None });
    };
    if continues(later, expected)? {
        return Ok(Ending::Continues);
    }
    if let Err(error) = refuse_later_groups(segments, offset, expected) {
        // In a running log the next segment may have been begun between the two looks.
        return if continues(later, expected)? { Ok(Ending::Continues) } else { Err(error) };
    }
    let Some(sequence) = expected else {
        return Ok(Ending::Tail { torn: None });
    };
    // The group may have been begun here or, if it did not fit, at the start of the next segment.
    let mut torn = refuse_rot(here, offset, sequence)?;
    if let Some(next) = later.first() {
        torn = torn.or(refuse_rot(next, HEADER_BYTES, sequence)?);
    }
    Ok(Ending::Tail { torn })
}

/// Whether the next segment starts with the expected group.
fn continues(later: &[Arc<Segment>], expected: Option<u64>) -> Result<bool, LogError> {
    let Some(next) = later.first() else { return Ok(false) };
    let header = header_at(&mut Window::new(next), HEADER_BYTES)?;
    Ok(header.is_some_and(|header| Some(header.sequence) == expected))
}

/// Fails if a group above `expected` begins at or behind `offset`, here or in a later segment.
fn refuse_later_groups(
    segments: &[Arc<Segment>],
    offset: u32,
    expected: Option<u64>,
) -> Result<(), LogError> {
    for (index, segment) in segments.iter().enumerate() {
        let from = if index == 0 { offset } else { HEADER_BYTES };
        let Some((at, later)) = header_above(segment, from, expected)? else { continue };
        // The lost group lay right before the one found: where the walk stopped, or, if later
        // groups of a later segment are readable and its first is not, there.
        let first_is_lost = index > 0 && at > HEADER_BYTES;
        let lost = if first_is_lost { segment } else { &segments[0] };
        let offset = if first_is_lost { HEADER_BYTES } else { offset };
        let file = segment.name.clone();
        let what = match expected {
            Some(sequence) => What::Group { sequence, later, file, at },
            None => What::Beginning,
        };
        return Err(Damage::new(&lost.name, offset, what).into());
    }
    Ok(())
}

/// The first group header at or behind `offset` whose number is higher, with its place.
fn header_above(
    segment: &Segment,
    mut offset: u32,
    floor: Option<u64>,
) -> Result<Option<(u32, u64)>, LogError> {
    let magic = GROUP_MAGIC.to_le_bytes();
    let mut window = Window::new(segment);
    while offset < segment.bytes {
        // Overlap by a header, so that none is missed at the seam.
        let bytes = window.from(offset, (SEARCH_BYTES + GROUP_HEADER_BYTES) as usize)?;
        let stride = bytes.len().min(SEARCH_BYTES as usize);
        for at in (0..stride).step_by(ALIGN as usize) {
            if bytes[at..].starts_with(&magic)
                && let Some(header) = GroupHeader::decode(&bytes[at..], segment.salt)
                && floor.is_none_or(|floor| header.sequence > floor)
            {
                return Ok(Some((offset + at as u32, header.sequence)));
            }
        }
        offset += stride as u32;
    }
    Ok(None)
}

/// Fails if group number `sequence` is at `offset`, whole but for one bit; else gives that place if
/// it was begun there.
fn refuse_rot(segment: &Segment, offset: u32, sequence: u64) -> Result<Option<Loc>, LogError> {
    let position = Position { sequence, segment: segment.number, offset };
    let mut window = Window::new(segment);
    let head = window.from(offset, GROUP_HEADER_BYTES as usize)?;
    let Some(begun) = begun(head, sequence, segment.salt) else {
        return Ok(None);
    };
    let bytes = window.from(offset, begun.group_bytes())?;
    if let Some((byte, bit)) = flipped_bit(bytes, begun, position, segment.salt) {
        let what = What::Bit { sequence, byte, bit };
        return Err(Damage::new(&segment.name, offset + byte, what).into());
    }
    Ok(Loc::new(segment.number, offset))
}
