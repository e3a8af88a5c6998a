//! Tells a flipped bit from a torn write.
//!
//! A write that was cut leaves sectors missing; rot leaves a group whole but for a bit. Both fail
//! the checksum at the end of the log, but the first is to be cut off and the second is
//! acknowledged data that must not vanish. So before a tail is cut, this module asks: is there
//! *one* bit that explains everything?
//!
//! For a CRC the question needs no trying out. The checksum is linear, so the difference between
//! the stored and the computed one (the syndrome) depends only on which bits differ, and the
//! syndrome of a single bit is the one of the bit after it, shifted once. One pass over the bits
//! compares them all. A 32-bit match could be chance (1 in 500 for a torn group of 1 MiB), so the
//! answer counts only if every record of the group also matches its own checksum once the bit is
//! flipped back.
//!
//! One doubt is left: a sector of which exactly one bit is set. Where it reads as zeros, either
//! that very bit has flipped or the sector was never written. The second is likelier by far, so it
//! counts as torn.

use super::frame::{GROUP_HEADER_BYTES, Group, GroupHeader, Salt};
use super::loc::Position;

/// The reflected polynomial of CRC-32.
const POLYNOMIAL: u32 = 0xEDB8_8320;

const HEADER: usize = GROUP_HEADER_BYTES as usize;

/// The least that a disk writes at once.
const SECTOR_BYTES: usize = 512;

/// The header of a group that was begun, perhaps mended by one bit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    header: GroupHeader,
    /// Byte of the group and bit of the byte that had to be flipped back.
    mended: Option<(u32, u8)>,
}

impl Begun {
    /// What the whole group takes.
    pub(super) fn group_bytes(&self) -> usize {
        HEADER + self.header.body_bytes()
    }
}

/// The header of group number `sequence` if it starts `head`, as it stands or with one bit flipped.
pub(super) fn begun(head: &[u8], sequence: u64, salt: Salt) -> Option<Begun> {
    let ours =
        |head: &[u8]| GroupHeader::decode(head, salt).filter(|header| header.sequence == sequence);
    let head = head.get(..HEADER)?;
    if let Some(header) = ours(head) {
        return Some(Begun { header, mended: None });
    }
    let mut head = head.to_vec();
    for (byte, bit) in (0..HEADER).flat_map(|byte| (0..8u8).map(move |bit| (byte, bit))) {
        head[byte] ^= 1 << bit;
        if let Some(header) = ours(&head) {
            return Some(Begun { header, mended: Some((byte as u32, bit)) });
        }
        head[byte] ^= 1 << bit;
    }
    None
}

/// The one bit that has flipped in the group that `bytes` hold from its header on, as byte of the
/// group and bit of the byte; none if the group is right or torn.
pub(super) fn flipped_bit(
    bytes: &[u8],
    begun: Begun,
    position: Position,
    salt: Salt,
) -> Option<(u32, u8)> {
    let Begun { header, mended } = begun;
    let body = bytes.get(HEADER..begun.group_bytes())?;
    let syndrome = header.body_crc ^ salt.body_crc(header.sequence, header.len, body);
    if mended.is_some() {
        // The bit is in the header. More than that bit is wrong unless the body matches as it is.
        return mended.filter(|_| syndrome == 0);
    }
    // The header is right, and with it the checksum of the body: the bit is in the body.
    let (byte, bit) = single_bit(syndrome, body.len())?;
    if sector_of(HEADER + byte, bytes, position.offset as usize).iter().all(|byte| *byte == 0) {
        return None;
    }
    let mut payload = body.to_vec();
    payload[byte] ^= 1 << bit;
    payload.truncate(header.len as usize);
    let mended = Group { position, payload: &payload, file: "", salt };
    let whole = mended.checked_records().all(|record| record.is_ok());
    whole.then_some(((HEADER + byte) as u32, bit))
}

/// The part of the group at `offset` that shares a sector with its byte number `byte`.
fn sector_of(byte: usize, group: &[u8], offset: usize) -> &[u8] {
    let start = (offset + byte) / SECTOR_BYTES * SECTOR_BYTES;
    let end = (start + SECTOR_BYTES - offset).min(group.len());
    &group[start.saturating_sub(offset)..end]
}

/// The bit of a message of `len` bytes whose flip changes its CRC-32 by `syndrome`. At most one
/// does, as long as the message is shorter than 512 MiB.
fn single_bit(syndrome: u32, len: usize) -> Option<(usize, u8)> {
    if syndrome == 0 {
        return None;
    }
    let mut difference: u32 = 1;
    for byte in (0..len).rev() {
        for bit in (0..8u8).rev() {
            difference = (difference >> 1) ^ (POLYNOMIAL & (difference & 1).wrapping_neg());
            if difference == syndrome {
                return Some((byte, bit));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::frame::{pad, push_record};
    use super::super::header::StoreId;
    use super::*;

    const AT: Position = Position { sequence: 5, segment: 3, offset: 4096 };

    fn salt() -> Salt {
        Salt::new(StoreId([7; 16]), AT.segment)
    }

    fn group(records: usize) -> Vec<u8> {
        let mut body = Vec::new();
        for record in 0..records {
            let bytes: Vec<u8> = (0..100).map(|byte| (byte * 7 + record * 13) as u8).collect();
            push_record(&mut body, AT, salt(), 1, |buffer| buffer.extend_from_slice(&bytes));
        }
        let len = body.len() as u32;
        pad(&mut body);
        let body_crc = salt().body_crc(AT.sequence, len, &body);
        let header = GroupHeader { len, sequence: AT.sequence, body_crc };
        [&header.encode(salt())[..], &body].concat()
    }

    fn find(bytes: &[u8]) -> Option<(u32, u8)> {
        let begun = begun(bytes, AT.sequence, salt())?;
        flipped_bit(bytes, begun, AT, salt())
    }

    #[test]
    fn every_single_flipped_bit_of_a_group_is_found() {
        let whole = group(3);
        assert_eq!(find(&whole), None, "a right group has no flipped bit");
        for bit in 0..whole.len() * 8 {
            let mut rotten = whole.clone();
            rotten[bit / 8] ^= 1 << (bit % 8);
            let found = find(&rotten);
            assert_eq!(found, Some(((bit / 8) as u32, (bit % 8) as u8)));
        }
    }

    #[test]
    fn missing_sectors_are_not_a_flipped_bit() {
        let whole = group(40);
        let sectors = whole.len().div_ceil(512);
        for lost in 0..sectors {
            let mut torn = whole.clone();
            let end = torn.len().min((lost + 1) * 512);
            torn[lost * 512..end].fill(0);
            assert_eq!(find(&torn), None, "sector {lost}");
        }
    }

    #[test]
    fn a_sector_with_a_single_one_bit_that_reads_as_zeros_was_never_written() {
        // Found by the test of many lives: the tag is the only bit of the second sector.
        let at = Position { offset: 4096 + 512 - 32, ..AT };
        let mut body = Vec::new();
        push_record(&mut body, at, salt(), 1, |buffer| buffer.resize(buffer.len() + 600, 0));
        let len = body.len() as u32;
        pad(&mut body);
        let body_crc = salt().body_crc(at.sequence, len, &body);
        let header = GroupHeader { len, sequence: at.sequence, body_crc };
        let mut bytes = [&header.encode(salt())[..], &body].concat();
        assert_eq!(bytes[32], 1);
        bytes[32] = 0;
        let begun = begun(&bytes, at.sequence, salt()).unwrap();
        assert_eq!(flipped_bit(&bytes, begun, at, salt()), None);
        (bytes[32], bytes[40]) = (1, 4);
        assert_eq!(flipped_bit(&bytes, begun, at, salt()), Some((40, 2)));
    }

    #[test]
    fn a_matching_syndrome_alone_does_not_make_a_flipped_bit() {
        // A body that differs in many bits, under a header made so that one bit would explain it.
        let mut torn = group(10);
        torn[600..700].fill(0);
        let mut pretended = torn[HEADER..].to_vec();
        pretended[5] ^= 4;
        let mut header = GroupHeader::decode(&torn, salt()).unwrap();
        header.body_crc = salt().body_crc(AT.sequence, header.len, &pretended);
        torn[..HEADER].copy_from_slice(&header.encode(salt()));
        let syndrome = header.body_crc ^ salt().body_crc(AT.sequence, header.len, &torn[HEADER..]);
        assert_eq!(single_bit(syndrome, torn.len() - HEADER), Some((5, 2)));
        assert_eq!(find(&torn), None);
    }
}
