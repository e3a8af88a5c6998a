//! Stages: how much waits and runs in each, now, and for whom it waits.

use std::sync::Arc;

use axum::Json;
use axum::http::Method;
use axum::routing::get;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::command::Claim;
use windrow_core::ports::Store as _;
use windrow_core::vitals::Standing;
use windrow_engine::Clock as _;
use windrow_engine::presence::Worker;
use windrow_wire::time::Time;

use super::reply::{Asked, Failed};
use super::table::{Operation, Role};
use crate::auth::Scoped;

/// How far what waits is counted where it must be.
const COUNT_MAX: u64 = 10_000;

pub(super) fn operations() -> Vec<Operation> {
    let summary = "Stages of queues in which something waits or runs now, since when the first \
                   waits, and how many workers at this server would take it. On PostgreSQL what \
                   waits is counted to 10,000 for each kind.";
    vec![
        Operation::new(Method::GET, "/stages", Role::Viewer, summary, get(list))
            .asks(&[("queue", "only this queue")])
            .gives::<Vec<StageShown>>(200),
    ]
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Where {
    queue: Option<String>,
}

/// A stage in which something is.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct StageShown {
    queue: String,
    stage: String,
    /// Pending items, also those whose time has not come or whose group is full.
    waiting: u64,
    /// There are more that wait.
    capped: bool,
    /// Items in the hands of workers.
    running: u64,
    /// Since when the first in line waits; null if nobody is in line.
    waiting_since: Option<Time>,
    /// Workers that are present at this server, take from this stage and are not drained.
    workers: usize,
}

async fn list(scoped: Scoped, Asked(asked): Asked<Where>) -> Result<Json<Vec<StageShown>>, Failed> {
    let queue = scoped.whole()?;
    let mut stages = queue.store().stages(queue.clock().now(), COUNT_MAX).await?;
    stages.retain(|of| asked.queue.as_deref().is_none_or(|queue| *queue == *of.queue));
    let workers = queue.workers().await?;
    let shown = stages.into_iter().map(|of| StageShown {
        workers: workers.iter().filter(|worker| takes(worker, &of)).count(),
        queue: of.queue.to_string(),
        stage: of.stage.to_string(),
        waiting: of.waiting,
        capped: of.is_capped,
        running: of.running,
        waiting_since: of.since.map(Time),
    });
    Ok(Json(shown.collect()))
}

fn takes(worker: &Worker, of: &Standing) -> bool {
    let takes = |offer: &Arc<Claim>| {
        Claim::takes_from(&offer.queues, &of.queue)
            && (offer.stages.is_empty() || offer.stages.contains(&of.stage))
    };
    !worker.is_drained && worker.offers.iter().any(takes)
}
