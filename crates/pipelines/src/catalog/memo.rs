//! The memo: what was paid for once is not paid for again.

use sha2::{Digest as _, Sha256};

use super::bounds::{BATCH_MAX, MEMO_BYTES_MAX, NAME_BYTES_MAX, count, name};
use super::document::Hash;
use super::error::CatalogError;

/// What a result is remembered by: everything that it depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemoKey(pub Hash);

impl MemoKey {
    /// The key of what a processor of this version makes of some content with these parameters.
    pub fn of(
        content: &Hash,
        phase: &str,
        processor: &str,
        version: &str,
        parameters: &str,
    ) -> MemoKey {
        let mut sum = Sha256::new();
        sum.update(content);
        for part in [phase, processor, version, parameters] {
            sum.update((part.len() as u64).to_be_bytes());
            sum.update(part.as_bytes());
        }
        MemoKey(sum.finalize().into())
    }

    /// Hits are counted in a few rows for each phase, so that those who count seldom meet.
    pub(super) fn bucket(&self) -> i32 {
        i32::from(self.0[0] & 15)
    }
}

/// Whose results, and of which phase.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoOf {
    pub tenant: String,
    pub phase: String,
}

impl MemoOf {
    /// Results of one phase for one tenant.
    pub fn new(tenant: impl Into<String>, phase: impl Into<String>) -> MemoOf {
        MemoOf { tenant: tenant.into(), phase: phase.into() }
    }

    pub(super) fn check(&self, given: usize) -> Result<(), CatalogError> {
        name("a tenant", &self.tenant, NAME_BYTES_MAX)?;
        name("a phase", &self.phase, NAME_BYTES_MAX)?;
        count("memos", given, BATCH_MAX)
    }
}

pub(super) fn check_values(values: &[(MemoKey, Vec<u8>)]) -> Result<(), CatalogError> {
    let total = values.iter().map(|(_, value)| value.len()).sum();
    count("bytes to remember", total, MEMO_BYTES_MAX)
}

/// What the memo saved, in one phase.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoStats {
    pub phase: String,
    pub entries: u64,
    pub bytes: u64,
    /// How often a result was there.
    pub hits: u64,
    /// How often it was not.
    pub misses: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_depends_on_each_of_its_parts_and_on_where_they_end() {
        let hash = [1; 32];
        let key = MemoKey::of(&hash, "ocr", "tesseract", "5", "eng");
        let others = [
            MemoKey::of(&[2; 32], "ocr", "tesseract", "5", "eng"),
            MemoKey::of(&hash, "ocrt", "esseract", "5", "eng"),
            MemoKey::of(&hash, "ocr", "tesseract5", "", "eng"),
            MemoKey::of(&hash, "ocr", "tesseract", "5", "deu"),
        ];
        assert!(others.iter().all(|other| *other != key));
        assert_eq!(key, MemoKey::of(&hash, "ocr", "tesseract", "5", "eng"));
    }
}
