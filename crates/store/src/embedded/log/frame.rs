//! The bytes of a group and of a record: pure encoding, decoding and checksums.
//!
//! ```text
//! group   0 magic  4 len  8 sequence  16 crc of the body  20 crc of bytes 0..20   24 body
//! body    len bytes of records, then 4 to 11 bytes of padding up to a multiple of 8
//! record  0 len    4 crc of tag and bytes   8 tag   9 bytes
//! ```
//!
//! Every checksum starts from the segment's [`Salt`] instead of zero. For CRC-32, changing the
//! start value changes the result of the *same* bytes always, so what was valid in segment 7 is
//! never valid in segment 8. A record's checksum starts from its offset as well, so a record copied
//! to another place of its segment is not valid there: what a location reads is what was written
//! *there*.
//!
//! The header has a checksum of its own, so that its length can be trusted before the body is read,
//! and so that a header alone proves that its group was begun.
//!
//! The padding is never empty and not zero: the last sector of a group always differs in many bits
//! from zeros. Otherwise a torn write that loses a last sector with a single one bit in it would
//! look like one flipped bit, which recovery refuses.

use super::error::{Damage, What};
use super::header::{HEADER_BYTES, StoreId, u32_at};
use super::loc::{Loc, Position};

pub(super) const GROUP_HEADER_BYTES: u32 = 24;

/// What a record takes beside its own bytes. Count it in the estimate given to `begin`.
pub const RECORD_OVERHEAD: usize = 9;

pub(super) const GROUP_MAGIC: u32 = u32::from_le_bytes(*b"WGR\x9b");
pub(super) const ALIGN: u32 = 8;

const PADDING: [u8; 11] = [0x9c; 11];
const PADDING_MIN: usize = 4;

/// Where the checksums of one segment start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Salt(u32);

impl Salt {
    /// The number comes last and CRC-32 maps four bytes one to one: no two segments of a store
    /// share a salt.
    pub(super) fn new(store: StoreId, segment: u32) -> Salt {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&store.0);
        crc.update(&segment.to_le_bytes());
        Salt(crc.finalize())
    }

    fn crc(self, parts: &[&[u8]]) -> u32 {
        let mut crc = crc32fast::Hasher::new_with_initial(self.0);
        parts.iter().for_each(|part| crc.update(part));
        crc.finalize()
    }

    /// The checksum of a body; the fields of the header that tell what it is come first.
    pub(super) fn body_crc(self, sequence: u64, len: u32, body: &[u8]) -> u32 {
        self.crc(&[&sequence.to_le_bytes(), &len.to_le_bytes(), body])
    }

    /// The checksum of a record's tag and bytes.
    pub(super) fn record_crc(self, offset: u32, tag_and_bytes: &[u8]) -> u32 {
        Salt(self.0 ^ offset).crc(&[tag_and_bytes])
    }
}

/// The length of the body of a group whose records take `payload` bytes.
pub(super) fn body_bytes(payload: usize) -> usize {
    (payload + PADDING_MIN).next_multiple_of(ALIGN as usize)
}

/// The length of a whole group.
pub(super) fn group_bytes(payload: usize) -> usize {
    GROUP_HEADER_BYTES as usize + body_bytes(payload)
}

/// The most that the records of one group may take in a segment of that size.
pub(super) fn payload_max(segment_bytes: u32) -> usize {
    (segment_bytes - HEADER_BYTES - GROUP_HEADER_BYTES) as usize - PADDING_MIN
}

/// Turns the records of a group into its body.
pub(super) fn pad(payload: &mut Vec<u8>) {
    let bytes = body_bytes(payload.len()) - payload.len();
    payload.extend_from_slice(&PADDING[..bytes]);
}

/// The header of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupHeader {
    pub(super) len: u32,
    pub(super) sequence: u64,
    pub(super) body_crc: u32,
}

impl GroupHeader {
    pub(super) fn encode(&self, salt: Salt) -> [u8; GROUP_HEADER_BYTES as usize] {
        let mut bytes = [0; GROUP_HEADER_BYTES as usize];
        bytes[0..4].copy_from_slice(&GROUP_MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.body_crc.to_le_bytes());
        let crc = salt.crc(&[&bytes[..20]]);
        bytes[20..24].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header that starts `bytes`, if a header of this segment does.
    pub(super) fn decode(bytes: &[u8], salt: Salt) -> Option<GroupHeader> {
        let bytes = bytes.get(..GROUP_HEADER_BYTES as usize)?;
        if u32_at(bytes, 0) != GROUP_MAGIC || u32_at(bytes, 20) != salt.crc(&[&bytes[..20]]) {
            return None;
        }
        let sequence = u64::from(u32_at(bytes, 8)) | u64::from(u32_at(bytes, 12)) << 32;
        Some(GroupHeader { len: u32_at(bytes, 4), sequence, body_crc: u32_at(bytes, 16) })
    }

    pub(super) fn body_bytes(&self) -> usize {
        body_bytes(self.len as usize)
    }
}

/// One record as it was pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub tag: u8,
    pub bytes: &'a [u8],
}

/// Appends a record to the payload of a group that starts at `position` and says where it lies.
pub(super) fn push_record(
    payload: &mut Vec<u8>,
    position: Position,
    salt: Salt,
    tag: u8,
    encode: impl FnOnce(&mut Vec<u8>),
) -> u32 {
    let start = payload.len();
    let offset = position.offset + GROUP_HEADER_BYTES + start as u32;
    payload.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, tag]);
    encode(payload);
    assert!(payload.len() >= start + RECORD_OVERHEAD, "an encoder only appends");
    let len = (payload.len() - start - RECORD_OVERHEAD) as u32;
    let crc = salt.record_crc(offset, &payload[start + 8..]);
    payload[start..start + 4].copy_from_slice(&len.to_le_bytes());
    payload[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    offset
}

/// The record that starts `bytes` by its length alone, and what it takes; none if it reaches
/// beyond.
pub(super) fn split_record(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let len = record_bytes(bytes)?;
    let record = bytes.get(RECORD_OVERHEAD..len)?;
    Some((Record { tag: bytes[8], bytes: record }, len))
}

/// What the record that starts `bytes` takes, if its header is there.
pub(super) fn record_bytes(bytes: &[u8]) -> Option<usize> {
    bytes.get(..RECORD_OVERHEAD).map(|header| RECORD_OVERHEAD + u32_at(header, 0) as usize)
}

/// Whether the record of `len` bytes that starts `bytes` matches its checksum at this offset.
pub(super) fn record_matches(bytes: &[u8], len: usize, salt: Salt, offset: u32) -> bool {
    u32_at(bytes, 4) == salt.record_crc(offset, &bytes[8..len])
}

/// A group whose checksum was found right.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    /// Its sequence number and place.
    pub position: Position,
    /// Its records, as [`records`](Group::records) yields them.
    pub payload: &'a [u8],
    pub(super) file: &'a str,
    pub(super) salt: Salt,
}

impl<'a> Group<'a> {
    /// The records in the order they were pushed, each with its location.
    pub fn records(&self) -> Records<'a> {
        let offset = self.position.offset + GROUP_HEADER_BYTES;
        Records {
            segment: self.position.segment,
            offset,
            rest: self.payload,
            file: self.file,
            check: None,
        }
    }

    /// The records, each checked against its own checksum as well.
    pub fn checked_records(&self) -> Records<'a> {
        Records { check: Some(self.salt), ..self.records() }
    }
}

/// Walks the records of a group. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    segment: u32,
    offset: u32,
    rest: &'a [u8],
    file: &'a str,
    check: Option<Salt>,
}

impl<'a> Records<'a> {
    fn step(&mut self) -> Result<(Loc, Record<'a>), &'static str> {
        let (record, len) = split_record(self.rest).ok_or("reaches beyond its group")?;
        let loc = Loc::new(self.segment, self.offset).ok_or("lies in segment zero")?;
        if let Some(salt) = self.check
            && !record_matches(self.rest, len, salt, self.offset)
        {
            return Err("does not match its checksum");
        }
        self.rest = &self.rest[len..];
        self.offset += len as u32;
        Ok((loc, record))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(Loc, Record<'a>), Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let offset = self.offset;
        Some(self.step().map_err(|why| {
            self.rest = &[];
            Damage::new(self.file, offset, What::Record(why))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([7; 16]);
    const AT: Position = Position { sequence: 5, segment: 3, offset: 4096 };

    fn group(payload: &[u8]) -> Group<'_> {
        Group { position: AT, payload, file: "s", salt: Salt::new(STORE, AT.segment) }
    }

    fn payload(records: &[(u8, &[u8])]) -> Vec<u8> {
        let mut payload = Vec::new();
        for (tag, bytes) in records {
            let salt = Salt::new(STORE, AT.segment);
            push_record(&mut payload, AT, salt, *tag, |buffer| buffer.extend_from_slice(bytes));
        }
        payload
    }

    #[test]
    fn records_come_back_in_order_with_their_locations() {
        let records: [(u8, &[u8]); 3] = [(1, b"first"), (2, b""), (3, b"third")];
        let payload = payload(&records);
        let mut offset = AT.offset + GROUP_HEADER_BYTES;
        let read: Vec<_> = group(&payload).checked_records().map(Result::unwrap).collect();
        assert_eq!(read.len(), 3);
        for ((loc, record), (tag, bytes)) in read.into_iter().zip(records) {
            assert_eq!(loc, Loc::new(3, offset).unwrap());
            assert_eq!(record, Record { tag, bytes });
            offset += (RECORD_OVERHEAD + bytes.len()) as u32;
        }
    }

    #[test]
    fn a_flipped_bit_of_a_record_ends_the_walk_with_damage() {
        let whole = payload(&[(1, b"first"), (2, b"second")]);
        for bit in 0..whole.len() * 8 {
            let mut payload = whole.clone();
            payload[bit / 8] ^= 1 << (bit % 8);
            let read: Vec<_> = group(&payload).checked_records().collect();
            assert!(read.last().unwrap().is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_group_is_aligned_and_its_padding_is_never_empty() {
        for len in 0..64 {
            let mut body = vec![0; len];
            pad(&mut body);
            assert_eq!(body.len(), body_bytes(len));
            assert!(body.len() - len >= PADDING_MIN && group_bytes(len).is_multiple_of(8));
        }
        let max = payload_max(8192);
        assert_eq!(group_bytes(max), 8192 - HEADER_BYTES as usize);
    }

    #[test]
    fn what_is_valid_in_one_segment_is_never_valid_in_another() {
        let header = GroupHeader { len: 40, sequence: 9, body_crc: 77 };
        let salt = Salt::new(STORE, 1);
        let bytes = header.encode(salt);
        assert_eq!(GroupHeader::decode(&bytes, salt), Some(header));
        for number in 2..50_000 {
            let other = Salt::new(STORE, number);
            assert_ne!(salt, other);
            assert_eq!(GroupHeader::decode(&bytes, other), None);
            assert_ne!(salt.body_crc(9, 40, b"body"), other.body_crc(9, 40, b"body"));
            assert_ne!(salt.record_crc(4096, b"tag"), other.record_crc(4096, b"tag"));
        }
    }
}
