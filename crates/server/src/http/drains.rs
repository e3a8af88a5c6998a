//! Workers that are present: what they run, and whether they are handed anything new.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use axum::routing::post;
use schemars::JsonSchema;
use serde::Serialize;
use windrow_core::change::Lease;
use windrow_core::ports::Inspected;
use windrow_wire::time::Time;

use super::App;
use super::reply::{Done, Failed, Named};
use super::status::WorkerShown;
use super::table::{Operation, Role};
use crate::auth::Scoped;

/// Items that are shown of what a worker runs, and of what all run.
const RUNS_MAX: usize = 20;
const ALL_RUNS_MAX: usize = 1_000;

pub(super) fn operations() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::POST,
            "/workers/{name}/drain",
            Role::Operator,
            "Hand a worker nothing new, on any server of the store: it finishes what it has, and \
             its claims get nothing until it is resumed.",
            post(drain),
        )
        .gives::<Done>(200),
        of(
            Method::POST,
            "/workers/{name}/resume",
            Role::Operator,
            "Hand a drained worker work again. Its claims that wait get some at once.",
            post(resume),
        )
        .gives::<Done>(200),
    ]
}

/// A worker, and what it runs.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct WorkerAtWork {
    #[serde(flatten)]
    worker: WorkerShown,
    /// What it has in hand, at most 20 items, those that were claimed first.
    runs: Vec<Run>,
}

/// An item that a worker has in hand.
#[derive(Serialize, JsonSchema, Debug)]
struct Run {
    item: String,
    queue: String,
    stage: String,
    kind: String,
    /// When it was claimed.
    since: Time,
    lease_expires_at: Time,
}

impl Run {
    fn new(lease: &Lease, seen: &Inspected) -> Run {
        let body = &seen.body;
        Run {
            item: seen.item.id.to_string(),
            queue: body.queue.to_string(),
            stage: body.route.stage(seen.item.stage).name.to_string(),
            kind: body.kind.to_string(),
            since: Time(lease.granted),
            lease_expires_at: Time(lease.expires),
        }
    }
}

pub(super) async fn workers(scoped: Scoped) -> Result<Json<Vec<WorkerAtWork>>, Failed> {
    let workers = scoped.workers().await?;
    let drained = scoped.drained();
    let names: HashSet<Arc<str>> = workers.iter().map(|worker| Arc::clone(&worker.name)).collect();
    // Whoever is drained and gone is shown too, so that nobody forgets to resume it.
    let absent: Vec<Arc<str>> =
        drained.iter().filter(|name| !names.contains(*name)).cloned().collect();
    let mut runs: HashMap<Arc<str>, Vec<Run>> = HashMap::new();
    for (lease, seen) in scoped.in_hand(&names, (RUNS_MAX, ALL_RUNS_MAX)).await? {
        runs.entry(Arc::clone(&lease.worker)).or_default().push(Run::new(&lease, &seen));
    }
    let present = workers.into_iter().map(|worker| (Arc::clone(&worker.name), worker.into()));
    let absent = absent.into_iter().map(|name| {
        let shown = WorkerShown::absent(&name);
        (name, shown)
    });
    let mut all: Vec<(Arc<str>, WorkerShown)> = present.chain(absent).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let shown = all.into_iter().map(|(name, worker)| {
        let runs = runs.remove(&name).unwrap_or_default();
        WorkerAtWork { worker, runs }
    });
    Ok(Json(shown.collect()))
}

async fn drain(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(name): Named,
) -> Result<Json<Done>, Failed> {
    let queue = scoped.whole()?;
    app.drained.drain(&name).await?;
    let is_here = queue.workers().await?.iter().any(|worker| *worker.name == *name);
    let note = (!is_here).then(|| format!("no worker {name:?} is present at this server"));
    Ok(Json(Done { done: true, note }))
}

async fn resume(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(name): Named,
) -> Result<Json<Done>, Failed> {
    scoped.whole()?;
    let was_drained = app.drained.resume(&name).await?;
    let note = (!was_drained).then(|| format!("no worker {name:?} was drained"));
    Ok(Json(Done { done: true, note }))
}
