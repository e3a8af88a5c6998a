//! What a worker gets, and what the producer said about it.

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use windrow_core::command::Grant;
use windrow_core::item::{BlobRef, Body, Payload};
use windrow_core::queue::Work;
use windrow_core::{ItemId, LeaseId};
use windrow_wire::time::Time;

use super::text::{Names, Parsed, Text, bytes, present};

#[derive(Deserialize)]
struct Granted<'a> {
    lease: Option<Parsed<LeaseId>>,
    expires_at: Option<Time>,
    #[serde(borrow)]
    items: Vec<Said<'a>>,
}

/// An item, as far as a worker is told. Other answers have the same fields among more.
#[derive(Deserialize)]
pub(super) struct Said<'a> {
    pub(super) id: Parsed<ItemId>,
    #[serde(borrow)]
    tenant: Text<'a>,
    queue: Text<'a>,
    kind: Text<'a>,
    op: Text<'a>,
    pub(super) stage: Text<'a>,
    route: Vec<Text<'a>>,
    #[serde(default)]
    attempt: u16,
    pub(super) priority: u8,
    #[serde(default, deserialize_with = "present")]
    payload: Option<&'a RawValue>,
    payload_base64: Option<Text<'a>>,
    payload_ref: Option<Blob<'a>>,
    content_type: Option<Text<'a>>,
    key: Option<Text<'a>>,
    group: Option<Text<'a>>,
    collection: Option<Text<'a>>,
    branch: Option<Text<'a>>,
    source_type: Option<Text<'a>>,
    source_info: Option<Text<'a>>,
    #[serde(rename = "ref")]
    reference: Option<Text<'a>>,
    #[serde(default, deserialize_with = "present")]
    metadata: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "present")]
    input: Option<&'a RawValue>,
    input_base64: Option<Text<'a>>,
    parent: Option<Parsed<ItemId>>,
    cloned_from: Option<Parsed<ItemId>>,
}

#[derive(Deserialize)]
struct Blob<'a> {
    #[serde(borrow)]
    sha256: Text<'a>,
    length: u64,
}

impl Blob<'_> {
    fn named(&self) -> serde_json::Result<BlobRef> {
        let digit = |at: usize| self.sha256.0.get(at..at + 2);
        let byte = |at| digit(at * 2).and_then(|text| u8::from_str_radix(text, 16).ok());
        let mut hash = [0; 32];
        for (at, place) in hash.iter_mut().enumerate() {
            *place = byte(at).ok_or_else(|| serde_json::Error::custom("not a blob's hash"))?;
        }
        Ok(BlobRef { hash, len: self.length })
    }
}

impl Said<'_> {
    /// What the producer said.
    pub(super) fn body(self, names: &mut Names) -> serde_json::Result<Body> {
        let payload = match &self.payload_ref {
            Some(blob) => Payload::Blob(blob.named()?),
            None => {
                let bytes = bytes(self.payload, self.payload_base64.as_ref())?;
                Payload::Inline(bytes.unwrap_or_default())
            }
        };
        let text = |text: Option<Text<'_>>| text.map(|text| text.0.into_owned());
        Ok(Body {
            tenant: names.of(&self.tenant.0),
            queue: names.of(&self.queue.0),
            kind: names.of(&self.kind.0),
            op: names.of(&self.op.0),
            key: text(self.key),
            group: names.maybe(self.group),
            collection: names.maybe(self.collection),
            branch: names.maybe(self.branch),
            source_type: names.maybe(self.source_type),
            source_info: text(self.source_info),
            reference: text(self.reference),
            route: names.route(&self.route),
            content_type: names.maybe(self.content_type),
            payload,
            metadata: self.metadata.map(|json| json.get().to_owned()),
            cloned_from: self.cloned_from.map(|Parsed(id)| id),
        })
    }
}

pub(in crate::http) fn granted(body: &[u8]) -> serde_json::Result<Option<Grant<Work>>> {
    let granted: Granted<'_> = serde_json::from_slice(body)?;
    let (Some(Parsed(lease)), Some(expires_at)) = (granted.lease, granted.expires_at) else {
        return Ok(None);
    };
    let mut names = Names::default();
    let work = |said: Said<'_>| {
        Ok(Work {
            id: said.id.0,
            stage: names.of(&said.stage.0),
            attempt: said.attempt,
            priority: said.priority,
            parent: said.parent.as_ref().map(|Parsed(id)| *id),
            input: bytes(said.input, said.input_base64.as_ref())?,
            body: said.body(&mut names)?,
        })
    };
    let items = granted.items.into_iter().map(work).collect::<serde_json::Result<_>>()?;
    Ok(Some(Grant { lease, expires_at: expires_at.0, items }))
}
