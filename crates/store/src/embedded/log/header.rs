//! The header block of a segment file.
//!
//! Its layout is the one thing that no later format may change, so that every program can tell
//! "newer" from "damaged":
//!
//! ```text
//! 0  magic "WINDROW\n"    12  store id, 16 bytes    32  size of the file, u64
//! 8  format, u32          28  segment number, u32   40  crc32 of bytes 0..40
//! ```
//!
//! Numbers are little-endian. The rest of the 4096 bytes is zero: groups start on a page.

use std::fmt;

use super::error::{Damage, LogError, What};

/// The disk format that this program writes, and the newest it reads.
pub const FORMAT: u32 = 2;

pub(super) const HEADER_BYTES: u32 = 4096;

const MAGIC: [u8; 8] = *b"WINDROW\n";
const USED_BYTES: usize = 44;

/// Sixteen random bytes that tell one store's files from another's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId(pub [u8; 16]);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({self})")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) store: StoreId,
    pub(super) number: u32,
    pub(super) bytes: u32,
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(HEADER_BYTES as usize);
        block.extend_from_slice(&MAGIC);
        block.extend_from_slice(&FORMAT.to_le_bytes());
        block.extend_from_slice(&self.store.0);
        block.extend_from_slice(&self.number.to_le_bytes());
        block.extend_from_slice(&u64::from(self.bytes).to_le_bytes());
        let crc = crc32fast::hash(&block);
        block.extend_from_slice(&crc.to_le_bytes());
        block.resize(HEADER_BYTES as usize, 0);
        block
    }

    /// Reads the header block of `file`. The checksum comes before the format: a flipped bit in the
    /// format field is damage, not a newer program.
    pub(super) fn decode(file: &str, block: &[u8]) -> Result<SegmentHeader, LogError> {
        let bad = |why| LogError::from(Damage::new(file, 0, What::Header(why)));
        let (fields, rest) = block.split_at_checked(USED_BYTES - 4).ok_or(bad("is too short"))?;
        if fields[..8] != MAGIC {
            return Err(bad("does not start with the magic bytes"));
        }
        if rest.get(..4) != Some(&crc32fast::hash(fields).to_le_bytes()) {
            return Err(bad("does not match its checksum"));
        }
        let found = u32_at(fields, 8);
        if found == 0 || found > FORMAT {
            return Err(LogError::Format { file: file.to_owned(), found, known: FORMAT });
        }
        let mut store = [0; 16];
        store.copy_from_slice(&fields[12..28]);
        let bytes = u32_at(fields, 32);
        if u32_at(fields, 36) != 0 || bytes <= HEADER_BYTES {
            return Err(bad("tells a size that no segment has"));
        }
        Ok(SegmentHeader { store: StoreId(store), number: u32_at(fields, 28), bytes })
    }
}

/// The little-endian number at a place that is known to exist.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: SegmentHeader =
        SegmentHeader { store: StoreId(*b"0123456789abcdef"), number: 12, bytes: 64 << 20 };

    #[test]
    fn a_header_reads_back() {
        let block = HEADER.encode();
        assert_eq!(block.len(), HEADER_BYTES as usize);
        assert_eq!(SegmentHeader::decode("s", &block).unwrap(), HEADER);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_damage_and_never_a_newer_format() {
        for bit in 0..USED_BYTES * 8 {
            let mut block = HEADER.encode();
            block[bit / 8] ^= 1 << (bit % 8);
            let error = SegmentHeader::decode("s", &block).unwrap_err();
            assert!(matches!(error, LogError::Damage(_)), "bit {bit}: {error}");
        }
    }

    #[test]
    fn a_newer_format_is_refused_by_its_number() {
        let mut block = HEADER.encode();
        block[8] = FORMAT as u8 + 1;
        let crc = crc32fast::hash(&block[..USED_BYTES - 4]);
        block[USED_BYTES - 4..USED_BYTES].copy_from_slice(&crc.to_le_bytes());
        let error = SegmentHeader::decode("s", &block).unwrap_err();
        let newer = FORMAT + 1;
        let said = format!("s has format {newer}, and this program reads formats 1 to {FORMAT}");
        assert_eq!(error.to_string(), said);
    }
}
