//! The bodies of requests. They borrow what they are written from, and leave out what is as it is
//! by default.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use windrow_core::command::{
    Claim, NewChild, NewItem, OnDuplicate, OnSplit, Outcome, RetryMode, Scope,
};
use windrow_core::item::Payload;
use windrow_core::limits::PRIORITY_DEFAULT;
use windrow_core::route::{Route, Stage};
use windrow_core::tally::OnGaps;
use windrow_core::trail::Progress;
use windrow_core::{ItemId, Refusal, Timestamp};
use windrow_wire::bytes::Json;

/// Written as it is shown.
struct Shown<T>(T);

impl<T: std::fmt::Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

struct Base64<'a>(&'a [u8]);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(self.0))
    }
}

/// Bytes as JSON if they are that and arrive as they are, else as base64. `null` alone would arrive
/// as nothing.
fn either(bytes: &[u8]) -> (Option<&RawValue>, Option<Base64<'_>>) {
    let json = serde_json::from_slice::<&RawValue>(bytes).ok();
    let whole = json.filter(|json| json.get().len() == bytes.len() && json.get() != "null");
    match whole {
        Some(json) => (Some(json), None),
        None => (None, Some(Base64(bytes))),
    }
}

/// An item to enqueue.
#[derive(Serialize)]
pub(super) struct New<'a> {
    queue: &'a str,
    tenant: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<Base64<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<u64>,
    kind: &'a str,
    op: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collection: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_info: Option<&'a str>,
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<Vec<StageSaid<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_duplicate: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_split: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum StageSaid<'a> {
    Name(&'a str),
    Splitting { name: &'a str, below: Vec<&'a str> },
}

impl<'a> StageSaid<'a> {
    fn of(stage: &'a Stage) -> StageSaid<'a> {
        if stage.below.is_empty() {
            return StageSaid::Name(&stage.name);
        }
        let below = stage.below.iter().map(|name| &**name).collect();
        StageSaid::Splitting { name: &stage.name, below }
    }
}

fn route(route: &Route) -> Option<Vec<StageSaid<'_>>> {
    // The route of who says none.
    (*route != *Route::single()).then(|| route.stages.iter().map(StageSaid::of).collect())
}

type Bytes<'a> = (Option<&'a RawValue>, Option<Base64<'a>>);

/// What is said to be JSON, or to be nothing, goes as JSON if it is that.
fn payload<'a>(payload: &'a Payload, content_type: Option<&str>) -> Result<Bytes<'a>, Refusal> {
    match payload {
        Payload::Inline(bytes) if bytes.is_empty() => Ok((None, None)),
        Payload::Inline(bytes) if content_type.is_none_or(|of| of.contains("json")) => {
            Ok(either(bytes))
        }
        Payload::Inline(bytes) => Ok((None, Some(Base64(bytes)))),
        Payload::Blob(_) => {
            Err(Refusal::invalid("payload", "a blob cannot be named over HTTP yet"))
        }
    }
}

impl<'a> New<'a> {
    pub(super) fn of(new: &'a NewItem) -> Result<New<'a>, Refusal> {
        let body = &new.body;
        let content_type = body.content_type.as_deref();
        let (json, base64) = payload(&body.payload, content_type)?;
        Ok(New {
            queue: &body.queue,
            tenant: &body.tenant,
            key: body.key.as_deref(),
            payload: json,
            payload_base64: base64,
            content_type,
            priority: Some(new.priority).filter(|priority| *priority != PRIORITY_DEFAULT),
            not_before: Some(new.not_before.0).filter(|_| new.not_before != Timestamp::ZERO),
            kind: &body.kind,
            op: &body.op,
            group: body.group.as_deref(),
            collection: body.collection.as_deref(),
            branch: body.branch.as_deref(),
            source_type: body.source_type.as_deref(),
            source_info: body.source_info.as_deref(),
            reference: body.reference.as_deref(),
            route: route(&body.route),
            metadata: body.metadata.as_deref().and_then(Json::of),
            on_duplicate: match new.on_duplicate {
                OnDuplicate::Keep => None,
                OnDuplicate::Replace => Some("replace"),
            },
            on_split: match new.on_split {
                OnSplit::After => None,
                OnSplit::Supersede => Some("supersede"),
            },
        })
    }
}

#[derive(Serialize)]
pub(super) struct Take<'a> {
    worker: &'a str,
    queues: Vec<&'a str>,
    stages: Vec<&'a str>,
    kinds: Vec<&'a str>,
    tenants: Vec<&'a str>,
    max: usize,
    lease_ms: Option<u64>,
    wait_ms: u64,
}

impl<'a> Take<'a> {
    pub(super) fn of(claim: &'a Claim, wait_ms: u64) -> Take<'a> {
        let names = |names: &'a [std::sync::Arc<str>]| names.iter().map(|name| &**name).collect();
        Take {
            worker: &claim.worker,
            queues: names(&claim.queues),
            stages: names(&claim.stages),
            kinds: names(&claim.kinds),
            tenants: names(&claim.tenants),
            max: claim.max.min(u32::MAX as usize),
            lease_ms: claim.lease_ms,
            wait_ms,
        }
    }
}

#[derive(Serialize)]
pub(super) struct Renew {
    pub(super) lease_ms: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct Prioritise {
    pub(super) priority: u8,
}

#[derive(Serialize)]
pub(super) struct Progressing<'a> {
    items: Vec<HowFar<'a>>,
}

#[derive(Serialize)]
struct HowFar<'a> {
    id: Shown<ItemId>,
    current: u64,
    total: u64,
    message: &'a str,
}

impl<'a> Progressing<'a> {
    pub(super) fn of(items: &'a [(ItemId, Progress)]) -> Progressing<'a> {
        let items = items.iter().map(|(id, progress)| HowFar {
            id: Shown(*id),
            current: progress.current,
            total: progress.total,
            message: &progress.message,
        });
        Progressing { items: items.collect() }
    }
}

#[derive(Serialize)]
pub(super) struct Retry<'a> {
    mode: &'static str,
    from_stage: Option<&'a str>,
}

impl<'a> Retry<'a> {
    pub(super) fn of(mode: RetryMode, from_stage: Option<&'a str>) -> Retry<'a> {
        let mode = match mode {
            RetryMode::Clone => "clone",
            RetryMode::Reset => "reset",
        };
        Retry { mode, from_stage }
    }
}

/// What of a queue is meant.
#[derive(Serialize)]
pub(super) struct Part<'a> {
    stage: Option<&'a str>,
    tenant: Option<&'a str>,
}

impl<'a> Part<'a> {
    pub(super) fn of(scope: &'a Scope) -> Part<'a> {
        Part { stage: scope.stage.as_deref(), tenant: scope.tenant.as_deref() }
    }
}

#[derive(Serialize)]
pub(super) struct Settle<'a> {
    items: Vec<Ended<'a>>,
}

/// How an attempt ended. Which fields there are depends on the outcome.
#[derive(Default, Serialize)]
struct Ended<'a> {
    id: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<Base64<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_base64: Option<Base64<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    spawn: Vec<New<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Child<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_gaps: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
}

#[derive(Serialize)]
struct Child<'a> {
    ordinal: u32,
    kind: &'a str,
    op: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<Vec<StageSaid<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<Base64<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Json>,
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
}

impl<'a> Child<'a> {
    fn of(child: &'a NewChild) -> Result<Child<'a>, Refusal> {
        let content_type = child.content_type.as_deref();
        let (json, base64) = payload(&child.payload, content_type)?;
        Ok(Child {
            ordinal: child.ordinal,
            kind: &child.kind,
            op: &child.op,
            group: child.group.as_deref(),
            route: route(&child.route),
            priority: child.priority,
            payload: json,
            payload_base64: base64,
            content_type,
            metadata: child.metadata.as_deref().and_then(Json::of),
            reference: child.reference.as_deref(),
        })
    }
}

impl<'a> Settle<'a> {
    pub(super) fn of(items: &'a [(ItemId, Outcome)]) -> Result<Settle<'a>, Refusal> {
        let items = items.iter().map(|(id, outcome)| {
            let id = id.to_string();
            Ok(Ended { id, ..Ended::of(outcome)? })
        });
        Ok(Settle { items: items.collect::<Result<_, Refusal>>()? })
    }
}

impl<'a> Ended<'a> {
    fn of(outcome: &'a Outcome) -> Result<Ended<'a>, Refusal> {
        let plain = |outcome| Ended { outcome, ..Ended::default() };
        let bytes = |bytes: &'a Option<Vec<u8>>| bytes.as_deref().map_or((None, None), either);
        Ok(match outcome {
            Outcome::Complete { result, output, spawn } => {
                let ((result, result_base64), (output, output_base64)) =
                    (bytes(result), bytes(output));
                let spawn = spawn.iter().map(New::of).collect::<Result<_, _>>()?;
                let plain = plain("complete");
                Ended { result, result_base64, output, output_base64, spawn, ..plain }
            }
            Outcome::Split { children, more, on_gaps, output } => {
                let (output, output_base64) = bytes(output);
                let children = children.iter().map(Child::of).collect::<Result<_, _>>()?;
                let on_gaps = match on_gaps {
                    OnGaps::Continue => "continue",
                    OnGaps::Stop => "stop",
                };
                let (more, on_gaps) = (*more, Some(on_gaps));
                Ended { children, more, on_gaps, output, output_base64, ..plain("split") }
            }
            Outcome::Retry { class, message, delay_ms } => {
                let (class, error) = (Some(class.name()), Some(message.as_str()));
                Ended { class, error, delay_ms: *delay_ms, ..plain("retry") }
            }
            Outcome::Fail { class, message } => {
                let (class, error) = (Some(class.name()), Some(message.as_str()));
                Ended { class, error, ..plain("fail") }
            }
            Outcome::Skip { reason } => Ended { reason: Some(reason), ..plain("skip") },
            Outcome::Release { delay_ms } => {
                Ended { delay_ms: Some(*delay_ms), ..plain("release") }
            }
            Outcome::Snooze { until } => Ended { until: Some(until.0), ..plain("snooze") },
        })
    }
}
