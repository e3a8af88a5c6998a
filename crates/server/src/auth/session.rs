//! Sessions: what a browser keeps instead of a token.
//!
//! `<id>.<until>.<seal>`: which token it was, until when it is good, and an HMAC over both and the
//! token's own hash with a secret of the store. Servers keep nothing of it; all servers of a store
//! take it; and it ends when its token is revoked, expires or is another one.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use windrow_core::Timestamp;

use super::token::Hash;

/// How long one lasts, in seconds.
pub(crate) const SESSION_FOR_S: u64 = 12 * 3_600;

/// Makes and reads sessions.
#[derive(Clone)]
pub(super) struct Sealing([u8; 32]);

impl Sealing {
    pub(super) fn new(key: [u8; 32]) -> Sealing {
        Sealing(key)
    }

    /// A session that begins now, of the token with this id and hash.
    pub(super) fn begin(&self, id: &str, hash: &Hash, now: Timestamp) -> String {
        let until = now.0 + SESSION_FOR_S * 1_000;
        let seal = self.mac(id, until, hash).finalize().into_bytes();
        let seal: String = seal.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{id}.{until}.{seal}")
    }

    /// The id of the token that a session was begun with, if it is one and not over.
    pub(super) fn open<'a>(
        &self,
        session: &'a str,
        now: Timestamp,
        hash_of: impl FnOnce(&str) -> Option<Hash>,
    ) -> Option<&'a str> {
        let mut parts = session.rsplitn(3, '.');
        let (seal, until, id) = (parts.next()?, parts.next()?, parts.next()?);
        let until: u64 = until.parse().ok()?;
        let seal = seal.as_bytes().chunks(2).map(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        let seal: Vec<u8> = seal.collect::<Option<_>>()?;
        // Compared in constant time.
        self.mac(id, until, &hash_of(id)?).verify_slice(&seal).ok()?;
        (now.0 < until).then_some(id)
    }

    #[allow(clippy::expect_used, reason = "an HMAC takes a key of any length")]
    fn mac(&self, id: &str, until: u64, hash: &Hash) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length");
        let named = mac.chain_update((id.len() as u64).to_be_bytes()).chain_update(id);
        named.chain_update(until.to_be_bytes()).chain_update(hash.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_good_for_its_token_and_its_time_only() {
        let (sealing, now) = (Sealing::new([7; 32]), Timestamp(1_000_000));
        let hash = Hash::of("secret");
        let session = sealing.begin("ab.cd", &hash, now);
        let open = |sealing: &Sealing, session: &str, hash: Hash, now: Timestamp| {
            sealing.open(session, now, |_| Some(hash)).map(str::to_owned)
        };
        assert_eq!(open(&sealing, &session, hash, now).as_deref(), Some("ab.cd"));
        let later = Timestamp(now.0 + SESSION_FOR_S * 1_000);
        assert_eq!(open(&sealing, &session, hash, later), None, "it is over");
        assert_eq!(open(&sealing, &session, Hash::of("other"), now), None, "another token");
        assert_eq!(open(&Sealing::new([8; 32]), &session, hash, now), None, "another store");
        assert_eq!(sealing.open(&session, now, |_| None), None, "no such token");
        let longer = session.replacen("ab.cd.", "ab.cd.9", 1);
        assert_eq!(open(&sealing, &longer, hash, now), None, "made to last longer");
        for wrong in
            ["", ".", "..", "a.b.c", "ab.cd.1", &session[1..], &session[..session.len() - 1]]
        {
            assert_eq!(open(&sealing, wrong, hash, now), None, "{wrong}");
        }
    }
}
