//! Tokens: what a caller shows, and what is kept of it.
//!
//! A token is `wr_<id>_<secret>`. The id names it and is no secret; the secret has 256 random bits.
//! Only its SHA-256 is kept: with that many bits nobody finds the secret from it, and a slow hash
//! would make every request slow.

use std::fmt;
use std::sync::Arc;

use rand::TryRng as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use windrow_core::{Refusal, Timestamp, text};

use super::Role;

const PREFIX: &str = "wr";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// The SHA-256 of a secret. Compared in constant time, and in no other way.
#[derive(Clone, Copy)]
pub(super) struct Hash([u8; 32]);

impl Hash {
    pub(super) fn of(secret: &str) -> Hash {
        Hash(Sha256::digest(secret.as_bytes()).into())
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Takes as long whether they are alike or not.
    pub(super) fn is(&self, other: &Hash) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    fn parse(text: &str) -> Option<Hash> {
        let digits = (text.len() == 64 && text.is_ascii()).then_some(text)?;
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Hash(bytes))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash")
    }
}

/// A token as it lies on its shelf, in JSON. Its id is the note's name.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, Debug)]
pub(crate) struct Kept {
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    /// The only tenant whose things it may see and touch; all if none.
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) created_ms: u64,
    pub(crate) expires_ms: Option<u64>,
    /// To the hour, so that a request costs no write.
    pub(crate) used_ms: Option<u64>,
    /// It opens nothing any more, and stands here so that its end is known.
    pub(crate) revoked_ms: Option<u64>,
    pub(super) sha256: Option<String>,
}

/// What a new token is to be.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) tenant: Option<String>,
    pub(crate) expires: Option<Timestamp>,
}

impl Wanted {
    pub(super) fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        text::name("name", &self.name, true)?;
        if let Some(tenant) = &self.tenant {
            text::name("tenant", tenant, true)?;
        }
        if self.expires.is_some_and(|expires| expires <= now) {
            return Err(Refusal::invalid("expires", "has passed already"));
        }
        if self.expires.is_some_and(|expires| expires.since(now) > EXPIRES_MAX_MS) {
            return Err(Refusal::invalid("expires", "is more than a hundred years away"));
        }
        Ok(())
    }
}

/// A token that lasts longer has no end worth naming.
const EXPIRES_MAX_MS: u64 = 100 * 366 * 86_400_000;

/// A token as its bearer gets it, once.
pub(crate) struct Fresh {
    pub(crate) id: Arc<str>,
    /// The whole text. Nobody can show it again.
    pub(crate) text: String,
    pub(crate) kept: Kept,
}

impl Fresh {
    pub(super) fn new(wanted: Wanted, now: Timestamp) -> Result<Fresh, Refusal> {
        let id = hex(&random::<ID_BYTES>()?);
        let secret = hex(&random::<SECRET_BYTES>()?);
        let kept = Kept {
            name: wanted.name.into(),
            role: wanted.role,
            tenant: wanted.tenant.map(Into::into),
            created_ms: now.0,
            expires_ms: wanted.expires.map(|expires| expires.0),
            used_ms: None,
            revoked_ms: None,
            sha256: Some(hex(&Hash::of(&secret).0)),
        };
        Ok(Fresh { text: format!("{PREFIX}_{id}_{secret}"), id: id.into(), kept })
    }
}

impl Kept {
    /// One that a newer server wrote, perhaps. It opens nothing.
    pub(super) fn unreadable() -> Kept {
        Kept {
            name: "(unreadable)".into(),
            role: Role::Viewer,
            tenant: None,
            created_ms: 0,
            expires_ms: None,
            used_ms: None,
            revoked_ms: None,
            sha256: None,
        }
    }

    /// Whether it opens anything at a moment, to whoever knows its secret.
    pub(crate) fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_ms.is_none() && self.expires_ms.is_none_or(|expires| now.0 < expires)
    }

    pub(super) fn revoke(&mut self, now: Timestamp) {
        self.revoked_ms = Some(now.0);
        self.sha256 = None;
    }

    pub(super) fn hash(&self) -> Option<Hash> {
        self.sha256.as_deref().and_then(Hash::parse)
    }
}

/// The id and the secret of a text that may be a token.
pub(super) fn parts(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix(PREFIX)?.strip_prefix('_')?.split_once('_')
}

/// Bytes that nobody can guess.
pub(super) fn random<const N: usize>() -> Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    rand::rngs::SysRng.try_fill_bytes(&mut bytes).map_err(|_| Refusal::Internal)?;
    Ok(bytes)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Fresh {
        let wanted = Wanted { name: "n".into(), role: Role::Worker, tenant: None, expires: None };
        Fresh::new(wanted, Timestamp(7)).expect("the system has random bytes")
    }

    #[test]
    fn a_token_opens_by_its_secret_and_only_the_hash_of_that_is_kept() {
        let token = fresh();
        let (id, secret) = parts(&token.text).expect("it is a token");
        assert_eq!((id, secret.len()), (&*token.id, 64));
        let hash = token.kept.hash().expect("it is live");
        assert!(hash.is(&Hash::of(secret)));
        let body = serde_json::to_string(&token.kept).expect("it is written");
        assert!(!body.contains(secret) && body.contains("sha256"), "{body}");
        let read: Kept = serde_json::from_str(&body).expect("it is read");
        assert_eq!(read, token.kept);
    }

    #[test]
    fn another_secret_does_not_open_it() {
        let (one, other) = (fresh(), fresh());
        let (_, secret) = parts(&other.text).expect("it is a token");
        assert!(!one.kept.hash().expect("it is live").is(&Hash::of(secret)));
        assert!(!one.kept.hash().expect("it is live").is(&Hash::of("")));
    }

    #[test]
    fn a_revoked_token_forgets_its_hash_and_an_expired_one_opens_nothing() {
        let mut kept = fresh().kept;
        assert!(kept.is_live(Timestamp(1_000)));
        kept.expires_ms = Some(1_000);
        assert!(kept.is_live(Timestamp(999)) && !kept.is_live(Timestamp(1_000)));
        kept.expires_ms = None;
        kept.revoke(Timestamp(8));
        assert!(!kept.is_live(Timestamp(8)) && kept.hash().is_none());
    }

    #[test]
    fn what_is_no_token_has_no_parts() {
        for text in ["", "wr", "wr_", "wr_1", "xx_1_2", "WR_1_2", "wr1_2"] {
            assert!(parts(text).is_none(), "{text}");
        }
    }
}
