//! Rows of one item each: `unified_queue` of seed 000, `job_queue` of seed 004, and the figures.

use schemars::JsonSchema;
use serde::Serialize;
use windrow_core::item::{State, Status};
use windrow_core::ports::Count;
use windrow_wire::bytes::Json;
use windrow_wire::item::Progress;
use windrow_wire::time::Time;

use super::fact::Fact;

/// An item as seed 000 has it.
#[derive(Serialize, JsonSchema, Debug)]
#[schemars(rename = "UnifiedRow")]
pub(super) struct Unified {
    queue_id: String,
    item_type: String,
    op: String,
    tenant_id: String,
    collection: String,
    priority: u8,
    /// pending, in_progress, done, failed, cancelled or skipped.
    status: &'static str,
    created_at: Time,
    updated_at: Time,
    lease_until: Option<Time>,
    worker_id: Option<String>,
    /// Its key; its id if it has none.
    idempotency_key: String,
    payload_json: String,
    retry_count: u16,
    /// 2147483647 if there is no limit.
    max_retries: u32,
    error_message: Option<String>,
    last_error_at: Option<Time>,
    branch: String,
    metadata: String,
    queue: String,
    /// Items in the order in which they were created.
    serial: u64,
}

impl From<&Fact> for Unified {
    fn from(fact: &Fact) -> Unified {
        let (item, body) = (&fact.seen.item, &fact.seen.body);
        let text = |text: Option<&std::sync::Arc<str>>, without: &str| {
            text.map_or(without, |text| &**text).to_owned()
        };
        let waits = matches!(item.state, State::Pending { .. } | State::Held { .. });
        let (error_message, last_error_at) = fact.error().unzip();
        Unified {
            queue_id: item.id.to_string(),
            item_type: body.kind.to_string(),
            op: body.op.to_string(),
            tenant_id: body.tenant.to_string(),
            collection: text(body.collection.as_ref(), ""),
            priority: item.priority,
            status: of_seed_000(item.status()),
            created_at: fact.created().into(),
            updated_at: fact.updated().into(),
            lease_until: fact.lease.as_ref().map(|lease| lease.expires.into()),
            worker_id: fact.lease.as_ref().map(|lease| lease.worker.to_string()),
            idempotency_key: body.key.clone().unwrap_or_else(|| item.id.to_string()),
            payload_json: fact.payload_text(),
            retry_count: if waits { item.attempts } else { item.attempts.saturating_sub(1) },
            max_retries: fact.retries_allowed(),
            error_message: error_message.map(str::to_owned),
            last_error_at: last_error_at.flatten().map(Time),
            branch: text(body.branch.as_ref(), "main"),
            metadata: body.metadata.clone().unwrap_or_else(|| "{}".to_owned()),
            queue: body.queue.to_string(),
            serial: item.id.serial(),
        }
    }
}

fn of_seed_000(status: Status) -> &'static str {
    match status {
        Status::Processing => "in_progress",
        Status::Completed => "done",
        other => other.name(),
    }
}

/// An item as seed 004 has it.
#[derive(Serialize, JsonSchema, Debug)]
#[schemars(rename = "JobRow")]
pub(in crate::http) struct Job {
    id: String,
    pub(in crate::http) job_type: String,
    /// PENDING, PROCESSING, COMPLETED, FAILED, CANCELLED or SKIPPED.
    status: &'static str,
    payload: Option<Json>,
    result: Option<Json>,
    progress: Option<Progress>,
    priority: u8,
    attempts: u16,
    /// 0 if there is no limit.
    max_attempts: u16,
    scheduled_for: Time,
    pub(in crate::http) started_at: Option<Time>,
    pub(in crate::http) completed_at: Option<Time>,
    created_at: Time,
    updated_at: Time,
    queue: String,
    tenant_id: String,
    stage: String,
    serial: u64,
}

impl From<&Fact> for Job {
    fn from(fact: &Fact) -> Job {
        let (item, body, trail) = (&fact.seen.item, &fact.seen.body, &fact.seen.trail);
        let due = match item.state {
            State::Pending { not_before } | State::Held { not_before } => not_before,
            _ => fact.created(),
        };
        let granted = fact.lease.as_ref().map(|lease| lease.granted);
        let started = trail.stage(item.stage).and_then(|record| record.started);
        Job {
            id: item.id.to_string(),
            job_type: body.kind.to_string(),
            status: of_seed_004(item.status()),
            payload: fact.payload_json(),
            result: fact.result_json(),
            progress: trail.progress.clone().map(Progress::from),
            priority: item.priority,
            attempts: item.attempts,
            max_attempts: fact.max_attempts,
            scheduled_for: due.max(fact.created()).into(),
            started_at: granted.or(started).map(Time),
            completed_at: trail.finished_at.filter(|_| item.is_done()).map(Time),
            created_at: fact.created().into(),
            updated_at: fact.updated().into(),
            queue: body.queue.to_string(),
            tenant_id: body.tenant.to_string(),
            stage: body.route.stage(item.stage).name.to_string(),
            serial: item.id.serial(),
        }
    }
}

fn of_seed_004(status: Status) -> &'static str {
    match status {
        Status::Pending => "PENDING",
        Status::Processing => "PROCESSING",
        Status::Completed => "COMPLETED",
        Status::Failed => "FAILED",
        Status::Cancelled => "CANCELLED",
        Status::Skipped => "SKIPPED",
    }
}

/// How many items of a queue and tenant have a status.
#[derive(Serialize, JsonSchema, Debug)]
#[schemars(rename = "FigureRow")]
pub(super) struct Figure {
    pub(super) queue: String,
    pub(super) tenant_id: String,
    pub(super) status: &'static str,
    count: u64,
}

impl From<&Count> for Figure {
    fn from(count: &Count) -> Figure {
        Figure {
            queue: count.queue.to_string(),
            tenant_id: count.tenant.to_string(),
            status: count.status.name(),
            count: count.items,
        }
    }
}
