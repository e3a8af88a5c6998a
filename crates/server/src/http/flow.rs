//! Flow: what happened lately, minute by minute, for charts.
//!
//! It is what this server saw. On a store of one server that is everything since its start; on
//! PostgreSQL other servers have figures of their own, and what they did is among these only while
//! somebody here listens to events.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use windrow_engine::observe::Minutes;
use windrow_engine::window::{self, MINUTES};
use windrow_wire::time::Time;

use super::App;
use super::reply::Failed;
use super::table::{Operation, Role};
use crate::auth::Scoped;

pub(super) fn operations() -> Vec<Operation> {
    let summary = "What happened in the last hour, minute by minute: in all, by queue and by \
                   stage. The oldest minute is the first, the one that runs the last. It is what \
                   this server saw since it began; on PostgreSQL each server has its own figures.";
    vec![
        Operation::new(Method::GET, "/flow", Role::Viewer, summary, get(flow))
            .gives::<FlowShown>(200),
    ]
}

/// What happened lately. All lists are as long as `at`.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct FlowShown {
    /// How many minutes there are.
    minutes: u64,
    /// When each of them began.
    at: Vec<Time>,
    /// In all queues together.
    all: Lines,
    /// Queues in which something happened since the server began, by name.
    queues: Vec<QueueFlow>,
}

#[derive(Serialize, JsonSchema, Debug)]
struct QueueFlow {
    /// `other` for all queues together that there is no room to tell apart.
    queue: String,
    #[serde(flatten)]
    lines: Lines,
    /// Stages in which somebody worked since the server began.
    stages: Vec<StageFlow>,
}

#[derive(Serialize, JsonSchema, Debug)]
struct StageFlow {
    stage: String,
    #[serde(flatten)]
    worked: Worked,
}

#[derive(Serialize, JsonSchema, Debug)]
struct Lines {
    enqueued: Vec<u64>,
    #[serde(flatten)]
    worked: Worked,
}

/// What workers did, and how long that took.
#[derive(Serialize, JsonSchema, Debug)]
struct Worked {
    claimed: Vec<u64>,
    /// Attempts that brought their item on.
    went_well: Vec<u64>,
    /// Attempts that failed, or whose lease ran out.
    failed: Vec<u64>,
    /// How long those that were claimed had waited since they could be, on average; null if none
    /// was.
    wait_ms: Vec<Option<u64>>,
    /// How long the attempts that ended had taken, on average; null if none did.
    run_ms: Vec<Option<u64>>,
}

impl From<&[window::Flow]> for Worked {
    fn from(flows: &[window::Flow]) -> Worked {
        let each = flows.iter();
        Worked {
            claimed: each.clone().map(|flow| flow.claimed).collect(),
            went_well: each.clone().map(|flow| flow.went_well).collect(),
            failed: each.clone().map(|flow| flow.failed).collect(),
            wait_ms: each.clone().map(window::Flow::mean_wait_ms).collect(),
            run_ms: each.map(window::Flow::mean_run_ms).collect(),
        }
    }
}

impl From<&[window::Flow]> for Lines {
    fn from(flows: &[window::Flow]) -> Lines {
        let enqueued = flows.iter().map(|flow| flow.enqueued).collect();
        Lines { enqueued, worked: flows.into() }
    }
}

impl From<&Minutes> for QueueFlow {
    fn from(of: &Minutes) -> QueueFlow {
        let stage = |(name, flows): &(Arc<str>, Vec<window::Flow>)| StageFlow {
            stage: name.to_string(),
            worked: flows.as_slice().into(),
        };
        QueueFlow {
            queue: of.queue.to_string(),
            lines: of.all.as_slice().into(),
            stages: of.stages.iter().map(stage).collect(),
        }
    }
}

async fn flow(State(app): State<Arc<App>>, scoped: Scoped) -> Result<Json<FlowShown>, Failed> {
    let queue = scoped.whole()?;
    let facts = app.watch.facts().await;
    // What happened is dated by the store's clock.
    let now = facts.store.map_or(facts.now, |store| store.vitals.at);
    let queues = queue.figures().minutes(now);
    let mut all = vec![window::Flow::default(); MINUTES as usize];
    for minutes in &queues {
        all.iter_mut().zip(&minutes.all).for_each(|(sum, flow)| *sum += *flow);
    }
    Ok(Json(FlowShown {
        minutes: MINUTES,
        at: window::starts(now).into_iter().map(Time).collect(),
        all: all.as_slice().into(),
        queues: queues.iter().map(QueueFlow::from).collect(),
    }))
}
