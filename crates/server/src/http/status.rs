//! How it goes: figures, workers, and whether the server is there and ready.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::command::Claim;
use windrow_core::item::Status;
use windrow_core::ports::Count;
use windrow_engine::presence::Worker;
use windrow_wire::problem::{Code, Problem};
use windrow_wire::time::Time;

use super::App;
use super::reply::{Asked, Done, Failed};
use crate::auth::Scoped;
use crate::health::{Health, Serving};
use crate::metrics;

/// Items by status.
#[derive(Clone, Copy, Default, Serialize, JsonSchema, Debug)]
pub(super) struct Counts {
    pub(super) pending: u64,
    processing: u64,
    completed: u64,
    failed: u64,
    cancelled: u64,
    skipped: u64,
}

impl Counts {
    pub(super) fn add(&mut self, count: &Count) {
        let field = match count.status {
            Status::Pending => &mut self.pending,
            Status::Processing => &mut self.processing,
            Status::Completed => &mut self.completed,
            Status::Failed => &mut self.failed,
            Status::Cancelled => &mut self.cancelled,
            Status::Skipped => &mut self.skipped,
        };
        *field += count.items;
    }
}

/// Items by status, in all and by place. Ended ones are counted as long as they are kept.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Stats {
    #[serde(flatten)]
    all: Counts,
    /// The same as `pending`.
    queued: u64,
    queues: Vec<PlaceStats>,
}

#[derive(Serialize, JsonSchema, Debug)]
struct PlaceStats {
    queue: String,
    tenant: String,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Where {
    queue: Option<String>,
    #[serde(alias = "user_id")]
    tenant: Option<String>,
}

pub(super) async fn stats(
    queue: Scoped,
    Asked(asked): Asked<Where>,
) -> Result<Json<Stats>, Failed> {
    let is_asked = |count: &Count| {
        asked.queue.as_deref().is_none_or(|queue| *queue == *count.queue)
            && asked.tenant.as_deref().is_none_or(|tenant| *tenant == *count.tenant)
    };
    let mut all = Counts::default();
    let mut places: BTreeMap<(String, String), Counts> = BTreeMap::new();
    for count in queue.counts().await?.iter().filter(|count| is_asked(count)) {
        all.add(count);
        let place = (count.queue.to_string(), count.tenant.to_string());
        places.entry(place).or_default().add(count);
    }
    let place = |((queue, tenant), counts)| PlaceStats { queue, tenant, counts };
    let queues = places.into_iter().map(place).collect();
    Ok(Json(Stats { all, queued: all.pending, queues }))
}

/// A worker that is present.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct WorkerShown {
    name: String,
    /// When it last asked for work, or renewed a lease that it holds. Null of one that is drained
    /// and away.
    last_seen: Option<Time>,
    /// Claims that wait for work at this server now.
    waiting: usize,
    /// Leases that it holds.
    leases: usize,
    /// Whether it asked this server for work lately. If not, it is known by its leases alone, or
    /// away, and what it asks for is not known.
    asked: bool,
    /// What it asks for; everything if nothing is named.
    queues: Vec<String>,
    stages: Vec<String>,
    kinds: Vec<String>,
    /// It is handed nothing new until it is resumed.
    drained: bool,
}

impl WorkerShown {
    /// One that is drained and away.
    pub(super) fn absent(name: &str) -> WorkerShown {
        WorkerShown {
            name: name.to_owned(),
            last_seen: None,
            waiting: 0,
            leases: 0,
            asked: false,
            queues: Vec::new(),
            stages: Vec::new(),
            kinds: Vec::new(),
            drained: true,
        }
    }
}

impl From<Worker> for WorkerShown {
    fn from(worker: Worker) -> WorkerShown {
        // Whoever names none somewhere takes all.
        let names = |of: fn(&Claim) -> &Vec<Arc<str>>| {
            let each = || worker.offers.iter().map(|offer| of(offer));
            let all = each().any(Vec::is_empty);
            let named = each().flatten().filter(|_| !all).map(ToString::to_string);
            named.collect::<BTreeSet<String>>().into_iter().collect()
        };
        WorkerShown {
            name: worker.name.to_string(),
            last_seen: Some(worker.last_seen.into()),
            waiting: worker.waiting,
            leases: worker.leases,
            asked: worker.has_asked(),
            queues: names(|claim| &claim.queues),
            stages: names(|claim| &claim.stages),
            kinds: names(|claim| &claim.kinds),
            drained: worker.is_drained,
        }
    }
}

/// The process is there.
pub(super) async fn healthz() -> Json<Done> {
    Done::YES
}

/// The store answers, and the server is not stopping.
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Result<Json<Done>, Failed> {
    let facts = app.watch.facts().await;
    if facts.serving == Serving::Stopping {
        return Err(Failed::stopping("the server is stopping"));
    }
    match facts.store {
        Ok(_) => Ok(Done::YES),
        Err(_) => {
            let health = app.watch.judge(&facts);
            let store = health.checks.iter().find(|check| check.check == "store");
            let why = store.map_or("the store does not answer", |check| &*check.says);
            Err(Failed(Problem::new(Code::StoreFailed, why).retry_after(1_000)))
        }
    }
}

/// How everything is, with what to do about what is not well.
pub(super) async fn health(
    State(app): State<Arc<App>>,
    queue: Scoped,
) -> Result<Json<Health>, Failed> {
    queue.whole()?;
    Ok(Json(app.watch.health().await))
}

/// Figures for Prometheus.
pub(super) async fn metrics(
    State(app): State<Arc<App>>,
    queue: Scoped,
) -> Result<impl IntoResponse, Failed> {
    let page = metrics::page(queue.whole()?, &app.watch).await;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], page))
}
