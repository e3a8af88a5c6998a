//! Names of collections in Qdrant: whose vectors, and how many numbers each has.

use sha2::{Digest as _, Sha256};

/// Letters of an embedder that stand in a name. Qdrant takes 255 in all.
const LETTERS_MAX: usize = 100;

/// How collections are called.
pub(super) struct Names {
    prefix: String,
    embedder: String,
}

impl Names {
    pub(super) fn new(prefix: String, embedder: &str) -> Names {
        Names { prefix, embedder: plain(embedder) }
    }

    /// The collection of a dimension.
    pub(super) fn of(&self, dimension: usize) -> String {
        format!("{}_{}_{dimension}", self.prefix, self.embedder)
    }

    /// The dimension of a collection, if it is one of ours, of whatever embedder.
    pub(super) fn dimension(&self, name: &str) -> Option<usize> {
        let rest = name.strip_prefix(&self.prefix)?.strip_prefix('_')?;
        let (_, dimension) = rest.rsplit_once('_')?;
        dimension.parse().ok()
    }
}

/// An embedder in letters that any name and any path may have. Where some are lost, a hash tells
/// apart what would look the same.
fn plain(embedder: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._@".contains(c);
    let letters = embedder.chars().map(|c| if is_plain(c) { c } else { '-' });
    let kept: String = letters.take(LETTERS_MAX).collect();
    if kept == embedder {
        return kept;
    }
    let sum = Sha256::digest(embedder.as_bytes());
    let sum: String = sum[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{kept}-{sum}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whose_vectors_and_how_many_numbers() {
        let names = Names::new("windrow".into(), "all-MiniLM-L6-v2@1");
        assert_eq!(names.of(384), "windrow_all-MiniLM-L6-v2@1_384");
        for (name, dimension) in [
            ("windrow_all-MiniLM-L6-v2@1_384", Some(384)),
            ("windrow_other_one@2_3", Some(3)),
            ("windrow_x", None),
            ("windrow_x_y", None),
            ("windrows_x_3", None),
            ("notes", None),
        ] {
            assert_eq!(names.dimension(name), dimension, "{name}");
        }
    }

    #[test]
    fn odd_letters_are_replaced_and_still_told_apart() {
        assert_eq!(plain("text-embedding-3-small@1"), "text-embedding-3-small@1");
        let (one, other) = (plain("org/model:q8@1"), plain("org/model/q8@1"));
        assert!(one.starts_with("org-model-q8@1-"), "{one}");
        assert_ne!(one, other);
        let long = plain(&"ä".repeat(500));
        assert_eq!(long.len(), LETTERS_MAX + 9, "{long}");
    }
}
