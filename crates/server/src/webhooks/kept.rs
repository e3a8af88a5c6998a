//! A webhook as it is kept, and how what it sends is signed.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use windrow_core::item::End;
use windrow_core::settings::Notify;
use windrow_core::{Refusal, Timestamp};
use windrow_wire::webhook::{Ending, NewWebhook};

use super::url::Target;

/// The shelf that webhooks lie on.
pub(crate) const SHELF: &str = "webhooks";
/// Characters of a secret.
const SECRET: std::ops::RangeInclusive<usize> = 16..=256;

/// What the note of a webhook holds.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Kept {
    pub(crate) says: NewWebhook,
    /// In the clear: it signs.
    pub(crate) secret: Secret,
    pub(crate) revision: u64,
    /// Queues whose settings may still name it although it does not name them.
    #[serde(default)]
    pub(crate) leaves: Vec<String>,
    /// It is being taken away.
    #[serde(default)]
    pub(crate) gone: bool,
}

/// What a webhook signs with. It is never shown, also not by accident.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    pub(crate) fn new(random: [u8; 32]) -> Secret {
        Secret(format!("whsec_{}", hex(&random)))
    }

    pub(crate) fn fingerprint(&self) -> String {
        let hash: [u8; 32] = Sha256::digest(self.0.as_bytes()).into();
        hex(&hash[..6])
    }

    /// `t=<seconds>,v1=<HMAC-SHA256 of "t.body", in hexadecimal>`.
    pub(crate) fn sign(&self, at: Timestamp, body: &[u8]) -> String {
        let seconds = at.0 / 1_000;
        // A key of any length will do.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()) else {
            unreachable!("HMAC takes keys of any length")
        };
        mac.update(format!("{seconds}.").as_bytes());
        mac.update(body);
        format!("t={seconds},v1={}", hex(&mac.finalize().into_bytes()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// Refuses what cannot be a webhook; says where it leads.
pub(crate) fn check(says: &NewWebhook) -> Result<Target, Refusal> {
    let target = says.url.parse().map_err(|why: String| Refusal::invalid("url", why))?;
    if says.queues.is_empty() {
        return Err(Refusal::invalid("queues", "must name at least one; `*` for all"));
    }
    if says.endings.is_empty() {
        return Err(Refusal::invalid("endings", "must name at least one; leave them out for all"));
    }
    for queue in &says.queues {
        windrow_core::text::name("queues", queue, true)?;
    }
    for tenant in &says.tenants {
        windrow_core::text::name("tenants", tenant, true)?;
    }
    match &says.secret {
        Some(secret) if !SECRET.contains(&secret.chars().count()) => {
            let why = format!("must have {} to {} characters", SECRET.start(), SECRET.end());
            Err(Refusal::invalid("secret", why))
        }
        _ => Ok(target),
    }
}

impl Kept {
    pub(crate) fn read(bytes: &[u8]) -> Option<Kept> {
        serde_json::from_slice(bytes).ok()
    }

    pub(crate) fn written(&self) -> std::sync::Arc<[u8]> {
        // Only maps whose keys are no texts cannot be written, and there is none in it.
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    /// What it wants to know of a queue.
    pub(crate) fn wants(&self, name: &str, queue: &str) -> Option<Notify> {
        let is_meant = self.says.enabled && !self.gone;
        if !is_meant || !self.says.queues.iter().any(|named| named == queue) {
            return None;
        }
        let end = |ending: &Ending| match ending {
            Ending::Completed => End::Completed,
            Ending::Failed => End::Failed,
            Ending::Cancelled => End::Cancelled,
            Ending::Skipped => End::Skipped,
        };
        Some(Notify {
            webhook: name.into(),
            tenants: self.says.tenants.iter().map(|tenant| tenant.as_str().into()).collect(),
            endings: self.says.endings.iter().map(end).collect(),
        })
    }

    /// Every queue whose settings must agree with it.
    pub(crate) fn concerns(&self) -> Vec<String> {
        let mut all: Vec<String> = self.says.queues.iter().chain(&self.leaves).cloned().collect();
        all.sort();
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_what_anybody_with_the_secret_works_out() {
        // Worked out by Python's hmac module.
        let expected = "t=1794700799,\
             v1=b4fa7b2afcb8b4ad311fb035702b6e0683f5ff4b64fcdd1fc300027384e80827";
        let signed = Secret("key".into()).sign(Timestamp(1_794_700_799_999), b"{}");
        assert_eq!(signed, expected);
        assert_ne!(signed, Secret("key".into()).sign(Timestamp(1_794_700_799_999), b"{ }"));
        assert_ne!(signed, Secret("other".into()).sign(Timestamp(1_794_700_799_999), b"{}"));
    }

    #[test]
    fn what_cannot_be_a_webhook_is_refused_with_its_field() {
        let refused = |json: &str| {
            let says: NewWebhook = serde_json::from_str(json).expect(json);
            check(&says).map(drop).expect_err(json).to_string()
        };
        for (json, why) in [
            (r#"{"url":"ftp://a/","queues":["q"]}"#, "url"),
            (r#"{"url":"https://a/","queues":[]}"#, "queues"),
            (r#"{"url":"https://a/","queues":["q"],"endings":[]}"#, "endings"),
            (r#"{"url":"https://a/","queues":["q"],"secret":"short"}"#, "secret"),
            (r#"{"url":"https://a/","queues":[""]}"#, "queues"),
        ] {
            let said = refused(json);
            assert!(said.contains(why), "{json}: {said}");
        }
    }
}
