//! The hash of a key, as the unique index of live items has it.

use sha2::{Digest as _, Sha256};

/// The first half of the SHA-256 of tenant, queue and key. SQL makes the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct KeyHash(pub(super) u128);

impl KeyHash {
    pub(super) fn new(tenant: &str, queue: &str, key: &str) -> KeyHash {
        let mut hash = Sha256::new();
        for part in [tenant, queue, key] {
            hash.update((part.len() as u32).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let mut half = [0; 16];
        half.copy_from_slice(&hash.finalize()[..16]);
        KeyHash(u128::from_be_bytes(half))
    }
}
