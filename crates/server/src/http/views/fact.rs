//! Facts: what is known of an item, as rows of every view need it.

use std::collections::HashMap;
use std::sync::Arc;

use windrow_core::change::Lease;
use windrow_core::item::Payload;
use windrow_core::ports::Inspected;
use windrow_core::settings::Settings;
use windrow_core::{ItemId, LeaseId, Timestamp};
use windrow_wire::bytes::Json;

use crate::auth::{Denied, Scoped};

/// As many attempts as it takes, in a column of whole numbers.
const UNLIMITED: u32 = i32::MAX as u32;

/// An item, with the lease that holds it and what its queue allows.
#[derive(Debug)]
pub(super) struct Fact {
    pub(super) seen: Inspected,
    pub(super) lease: Option<Lease>,
    /// Attempts in all; 0 for as many as it takes.
    pub(super) max_attempts: u16,
}

/// What facts are made from, besides items: read once for a whole answer.
#[derive(Debug)]
pub(in crate::http) struct Around<'a> {
    scoped: &'a Scoped,
    leases: HashMap<LeaseId, Lease>,
    settings: HashMap<Arc<str>, Settings>,
}

impl<'a> Around<'a> {
    pub(in crate::http) async fn of(scoped: &'a Scoped) -> Result<Around<'a>, Denied> {
        let leases = scoped.leases().await?.into_iter();
        let settings = scoped.configured().await?.settings;
        Ok(Around {
            scoped,
            leases: leases.map(|lease| (lease.id, lease)).collect(),
            settings: settings.into_iter().collect(),
        })
    }

    pub(super) fn fact(&self, seen: Inspected) -> Fact {
        let lease = seen.item.lease().and_then(|id| self.leases.get(&id)).cloned();
        let stage = &seen.body.route.stage(seen.item.stage).name;
        let plain = Settings::default();
        let settings = self.settings.get(&seen.body.queue).unwrap_or(&plain);
        let max_attempts = settings.policy(stage, &seen.body.kind).max_attempts;
        Fact { seen, lease, max_attempts }
    }

    /// Facts about those of these items that exist, in their order.
    pub(super) async fn facts(&self, ids: &[ItemId]) -> Result<Vec<Fact>, Denied> {
        let seen = self.scoped.inspect_all(ids).await?;
        Ok(seen.into_iter().map(|seen| self.fact(seen)).collect())
    }

    /// Whether a lease is over and was not taken back yet.
    pub(super) fn is_stale(&self, lease: LeaseId, now: Timestamp) -> bool {
        self.leases.get(&lease).is_some_and(|lease| lease.expires <= now)
    }

    pub(super) fn any_stale(&self, now: Timestamp) -> bool {
        self.leases.values().any(|lease| lease.expires <= now)
    }

    pub(super) fn scoped(&self) -> &'a Scoped {
        self.scoped
    }
}

impl Fact {
    pub(super) fn id(&self) -> ItemId {
        self.seen.item.id
    }

    pub(super) fn created(&self) -> Timestamp {
        self.id().created_at()
    }

    /// When something was last written about it.
    pub(super) fn updated(&self) -> Timestamp {
        let trail = &self.seen.trail;
        let of_stage = trail.stages.iter().flat_map(|s| [s.started, s.completed, s.renewed]);
        let of_attempts = trail.attempts.iter().map(|attempt| Some(attempt.ended));
        let of_lease = self.lease.iter().flat_map(|l| [Some(l.granted), Some(l.renewed)]);
        let all = of_stage.chain(of_attempts).chain(of_lease).chain([trail.finished_at]);
        all.flatten().fold(self.created(), Timestamp::max)
    }

    /// Its newest error, and when that was.
    pub(super) fn error(&self) -> Option<(&str, Option<Timestamp>)> {
        let trail = &self.seen.trail;
        let fault = trail.last_error()?;
        let failed = trail.attempts.iter().rev().find(|attempt| attempt.error.is_some());
        Some((&fault.message, failed.map(|attempt| attempt.ended)))
    }

    /// The attempts that its queue allows, as a column shows them.
    pub(super) fn attempts_allowed(&self) -> u32 {
        if self.max_attempts == 0 { UNLIMITED } else { self.max_attempts.into() }
    }

    /// The retries that its queue allows.
    pub(super) fn retries_allowed(&self) -> u32 {
        if self.max_attempts == 0 { UNLIMITED } else { u32::from(self.max_attempts) - 1 }
    }

    /// What its metadata says under a name, if that is JSON and says it.
    pub(super) fn says(&self, name: &str) -> Option<String> {
        said(self.seen.body.metadata.as_deref()?, name)
    }

    /// A whole number that its metadata says under a name, else its result; else none.
    pub(super) fn number(&self, name: &str) -> u32 {
        let metadata = self.seen.body.metadata.as_deref();
        let result = self.seen.trail.result.as_deref().and_then(text_of);
        let mut places = [metadata, result].into_iter().flatten();
        places.find_map(|text| digits(&said(text, name)?)).unwrap_or(0)
    }

    /// The payload as a text: as it is, in hexadecimal if it is none, or where it is kept apart.
    pub(super) fn payload_text(&self) -> String {
        match &self.seen.body.payload {
            Payload::Inline(bytes) => as_text(bytes),
            Payload::Blob(blob) => {
                format!("{{\"blob\" : \"{}\", \"bytes\" : {}}}", hex(&blob.hash), blob.len)
            }
        }
    }

    /// The same as JSON: as it is if it is JSON.
    pub(super) fn payload_json(&self) -> Option<Json> {
        as_json(&self.payload_text())
    }

    /// The result as JSON.
    pub(super) fn result_json(&self) -> Option<Json> {
        let bytes = self.seen.trail.result.as_deref()?;
        match text_of(bytes) {
            Some(text) => as_json(text),
            None => as_json(&format!("{{\"hex\": \"{}\"}}", hex(bytes))),
        }
    }
}

/// What a text says under a name, if it is JSON that PostgreSQL can keep and says it.
fn said(text: &str, name: &str) -> Option<String> {
    let text = Some(text).filter(|text| !text.contains("\\u0000"))?;
    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    match json.get(name)? {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// A number of at most nine digits.
fn digits(text: &str) -> Option<u32> {
    let is_number = text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// A text without NUL characters, which no text in PostgreSQL has.
fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Bytes as a text, else as hexadecimal digits.
fn as_text(bytes: &[u8]) -> String {
    text_of(bytes).map_or_else(|| hex(bytes), str::to_owned)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is JSON as it is, another text as a JSON text. The escape of a NUL is JSON that PostgreSQL
/// cannot keep, so it is a text there and here.
fn as_json(text: &str) -> Option<Json> {
    let read = Json::read(text.trim_ascii().as_bytes());
    let read = read.filter(|_| !text.contains("\\u0000"));
    read.or_else(|| serde_json::to_vec(text).ok().and_then(|text| Json::read(&text)))
}

/// The first letters of a text, as many as a column has.
pub(super) fn cut(text: &str, max: usize) -> String {
    text.chars().take(max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_shown_as_a_text() {
        let shown = |text: &str| as_json(text).map(|json| json.text().to_owned());
        assert_eq!(shown(" {\"n\": 1.50} ").as_deref(), Some("{\"n\": 1.50}"));
        assert_eq!(shown("plain").as_deref(), Some("\"plain\""));
        assert_eq!(shown("").as_deref(), Some("\"\""));
        assert_eq!(shown("\"a\\u0000\"").as_deref(), Some("\"\\\"a\\\\u0000\\\"\""));
        assert_eq!((as_text(&[0, 255]).as_str(), as_text(b"a\0").as_str()), ("00ff", "6100"));
    }

    #[test]
    fn a_number_is_one_of_at_most_nine_digits() {
        let json = r#"{"a": 7, "b": "12", "c": 1.5, "d": -1, "e": null, "f": 1234567890, "g": ""}"#;
        let number = |name: &str| digits(&said(json, name)?);
        assert_eq!(["a", "b"].map(number), [Some(7), Some(12)]);
        assert_eq!(["c", "d", "e", "f", "g", "h"].map(number), [None; 6]);
        assert_eq!(said("[7]", "a"), None);
        assert_eq!(said(r#"{"a": 7, "z": "\u0000"}"#, "a"), None);
    }

    #[test]
    fn a_text_is_cut_at_a_letter() {
        assert_eq!((cut("größe", 3).as_str(), cut("a", 3).as_str()), ("grö", "a"));
    }
}
