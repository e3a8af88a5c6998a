//! Items as they are shown.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::Refusal;
use windrow_core::change::Lease;
use windrow_core::explain::{self, Reason};
use windrow_core::item::{self, End, State};
use windrow_core::ports::Inspected;
use windrow_core::route::Route;
use windrow_core::tally::{Bucket, Counts, Tally};
use windrow_core::trail::{self, Fault, StageRecord};

use crate::bytes::{Base64, Json, shown};
use crate::time::Time;

/// Everything about one item.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Item {
    pub id: String,
    pub tenant: String,
    pub queue: String,
    pub kind: String,
    pub op: String,
    /// One of pending, processing, completed, failed, cancelled, skipped.
    pub status: &'static str,
    pub stage: String,
    pub route: Vec<String>,
    pub priority: u8,
    /// Attempts of the stage it is in, the running one included.
    pub attempts: u16,
    /// How often it was begun anew.
    pub generation: u16,
    pub created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// When it may be claimed at the earliest, if that lies ahead or lay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// Who works on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// When the lease ends, unless it is renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_info: Option<String>,
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloned_from: Option<String>,
    /// The item with the same key that waits for this one to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    #[serde(flatten)]
    pub payload: Payload,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<Base64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Why it ended as it did, if no stage's error says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    pub stages: Vec<Stage>,
    /// The last attempts, oldest first.
    pub log: Vec<Attempt>,
    /// What it knows of its children.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<Children>,
}

/// A payload: JSON, other bytes, or content kept apart.
#[derive(Clone, Default, Serialize, JsonSchema, Debug)]
pub struct Payload {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_ref: Option<BlobRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// Content kept apart, named by its hash.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct BlobRef {
    /// In hexadecimal digits.
    pub sha256: String,
    /// In bytes.
    pub length: u64,
}

impl BlobRef {
    pub fn into_core(self) -> Result<item::BlobRef, Refusal> {
        let hash = sha256(&self.sha256)
            .ok_or_else(|| Refusal::invalid("sha256", "is not 64 hexadecimal digits"))?;
        Ok(item::BlobRef { hash, len: self.length })
    }
}

impl From<item::BlobRef> for BlobRef {
    fn from(blob: item::BlobRef) -> BlobRef {
        let sha256 = blob.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        BlobRef { sha256, length: blob.len }
    }
}

/// A hash from its 64 hexadecimal digits.
pub fn sha256(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, two) in hash.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()?;
    }
    Some(hash)
}

/// Where an item stands in a tree.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Place {
    pub parent: String,
    pub level: u8,
    pub ordinal: u32,
    pub generation: u16,
}

#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Progress {
    pub current: u64,
    pub total: u64,
    pub message: String,
}

#[derive(Clone, PartialEq, Serialize, JsonSchema, Debug)]
pub struct Error {
    pub class: &'static str,
    pub message: String,
}

/// What is known of one stage.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Stage {
    pub name: String,
    pub status: &'static str,
    pub attempts: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewed_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Attempt {
    pub stage: String,
    pub number: u16,
    pub worker: String,
    pub started_at: Time,
    pub ended_at: Time,
    pub ending: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// Children by status, over all and by phase.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Children {
    #[serde(flatten)]
    pub all: Buckets,
    pub phases: Vec<Phase>,
    /// More are still to come.
    pub more: bool,
}

#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Phase {
    pub name: String,
    #[serde(flatten)]
    pub counts: Buckets,
}

#[derive(Clone, Copy, Serialize, JsonSchema, Debug)]
pub struct Buckets {
    pub pending: u32,
    pub processing: u32,
    pub completed: u32,
    pub failed: u32,
    pub cancelled: u32,
    pub skipped: u32,
    /// Phases after one that failed.
    pub unreached: u32,
    pub percent: u32,
}

/// Why an item is where it is.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Explanation {
    pub id: String,
    pub status: &'static str,
    pub reasons: Vec<Why>,
    /// What went wrong last, if it has failed or waits for another attempt because of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// When it is tried again by itself. A failed item is not; retry it, which is possible at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
}

/// One thing that holds an item now.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Why {
    pub code: &'static str,
    /// What would move it on.
    pub unblocked_by: String,
}

/// The names of a route's stages.
pub(crate) fn routed(route: &Route) -> Vec<String> {
    route.stages.iter().map(|stage| stage.name.to_string()).collect()
}

impl Payload {
    pub(crate) fn new(payload: item::Payload, content_type: Option<Arc<str>>) -> Payload {
        let content_type = content_type.map(|text| text.to_string());
        match payload {
            item::Payload::Inline(bytes) if bytes.is_empty() => {
                Payload { content_type, ..Payload::default() }
            }
            item::Payload::Inline(bytes) => {
                // What was said to be something else is not shown as JSON because it looks so.
                let may_be_json = content_type.as_deref().is_none_or(|of| of.contains("json"));
                let (payload, payload_base64) =
                    if may_be_json { shown(bytes) } else { (None, Some(Base64(bytes))) };
                Payload { payload, payload_base64, payload_ref: None, content_type }
            }
            item::Payload::Blob(blob) => {
                Payload { payload_ref: Some(blob.into()), content_type, ..Payload::default() }
            }
        }
    }
}

impl From<trail::Progress> for Progress {
    fn from(said: trail::Progress) -> Progress {
        Progress { current: said.current, total: said.total, message: said.message }
    }
}

impl From<&Fault> for Error {
    fn from(fault: &Fault) -> Error {
        Error { class: fault.class.name(), message: fault.message.clone() }
    }
}

impl Buckets {
    fn of(counts: &Counts) -> Buckets {
        Buckets {
            pending: counts.of(Bucket::Pending),
            processing: counts.of(Bucket::Processing),
            completed: counts.of(Bucket::Completed),
            failed: counts.of(Bucket::Failed),
            cancelled: counts.of(Bucket::Cancelled),
            skipped: counts.of(Bucket::Skipped),
            unreached: counts.of(Bucket::Unreached),
            percent: counts.percent(),
        }
    }
}

impl From<&Tally> for Children {
    fn from(tally: &Tally) -> Children {
        let phase = |phase: &(Arc<str>, Counts)| Phase {
            name: phase.0.to_string(),
            counts: Buckets::of(&phase.1),
        };
        Children {
            all: Buckets::of(&tally.children),
            phases: tally.phases.iter().map(phase).collect(),
            more: tally.more,
        }
    }
}

impl Stage {
    fn new(name: &str, record: &StageRecord) -> Stage {
        Stage {
            name: name.to_owned(),
            status: record.status.name(),
            attempts: record.attempts,
            worker: record.worker.as_ref().map(|worker| worker.to_string()),
            started_at: record.started.map(Time),
            completed_at: record.completed.map(Time),
            renewed_at: record.renewed.map(Time),
            error: record.error.as_ref().map(Error::from),
        }
    }
}

impl Attempt {
    fn new(route: &Route, attempt: &trail::Attempt) -> Attempt {
        Attempt {
            stage: route.stage(attempt.stage).name.to_string(),
            number: attempt.number,
            worker: attempt.worker.to_string(),
            started_at: attempt.started.into(),
            ended_at: attempt.ended.into(),
            ending: attempt.ending.name(),
            error: attempt.error.as_ref().map(Error::from),
        }
    }
}

impl From<Inspected> for Item {
    fn from(seen: Inspected) -> Item {
        let status = seen.status();
        let Inspected { item, body, trail, tally, successor } = seen;
        let text = |text: Option<Arc<str>>| text.map(|text| text.to_string());
        let route = Arc::clone(&body.route);
        let children = tally.as_ref().map(Children::from);
        let not_before = match item.state {
            State::Pending { not_before } | State::Held { not_before } => Some(not_before),
            _ => None,
        };
        let stages: Vec<Stage> = route
            .stages
            .iter()
            .enumerate()
            .map(|(at, stage)| {
                let known = trail.stages.get(at).unwrap_or(&StageRecord::PENDING);
                Stage::new(&stage.name, known)
            })
            .collect();
        let error = trail.stages.iter().rev().find_map(|stage| stage.error.as_ref());
        let (result, result_base64) = trail.result.clone().map_or((None, None), shown);
        Item {
            id: item.id.to_string(),
            tenant: body.tenant.to_string(),
            queue: body.queue.to_string(),
            kind: body.kind.to_string(),
            op: body.op.to_string(),
            status: status.name(),
            stage: route.stage(item.stage).name.to_string(),
            route: routed(&route),
            priority: item.priority,
            attempts: item.attempts,
            generation: item.generation,
            created_at: item.id.created_at().into(),
            finished_at: trail.finished_at.map(Time),
            not_before: not_before.filter(|at| at.0 > 0).map(Time),
            lease: item.lease().map(|lease| lease.to_string()),
            worker: None,
            expires_at: None,
            key: body.key,
            group: text(body.group),
            collection: text(body.collection),
            branch: text(body.branch),
            source_type: text(body.source_type),
            source_info: body.source_info,
            reference: body.reference,
            metadata: body.metadata.as_deref().and_then(Json::of),
            cloned_from: body.cloned_from.map(|id| id.to_string()),
            successor: successor.map(|id| id.to_string()),
            place: item.place.map(|place| Place {
                parent: place.parent.to_string(),
                level: place.level,
                ordinal: place.number(),
                generation: place.generation,
            }),
            payload: Payload::new(body.payload, body.content_type),
            result,
            result_base64,
            progress: trail.progress.map(Progress::from),
            reason: trail.reason,
            error: error.map(Error::from),
            log: trail.attempts.iter().map(|attempt| Attempt::new(&route, attempt)).collect(),
            stages,
            children,
        }
    }
}

/// An item, and the lease that holds it.
impl From<(Inspected, Option<Lease>)> for Item {
    fn from((seen, lease): (Inspected, Option<Lease>)) -> Item {
        Item {
            worker: lease.as_ref().map(|lease| lease.worker.to_string()),
            expires_at: lease.map(|lease| lease.expires.into()),
            ..Item::from(seen)
        }
    }
}

impl Explanation {
    /// What the rules say, and what is seen of the item.
    pub fn new(explained: &explain::Explanation, seen: &Inspected) -> Explanation {
        let why =
            |reason: &Reason| Why { code: reason.code(), unblocked_by: reason.unblocked_by() };
        let error = seen.trail.last_error();
        let (error, retry_at) = match seen.item.state {
            State::Done(End::Failed) => (error, None),
            State::Pending { not_before } => (error, error.map(|_| Time(not_before))),
            _ => (None, None),
        };
        Explanation {
            id: explained.item.to_string(),
            status: explained.status.name(),
            reasons: explained.reasons.iter().map(why).collect(),
            error: error.map(Error::from),
            retry_at,
        }
    }
}
