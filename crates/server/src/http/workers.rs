//! Declared workers, called as a scheduler elsewhere calls them (seed 004): each call does a few
//! items and says what became of them.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::Serialize;
use windrow_core::command::Outcome;
use windrow_wire::problem::{Code, Problem};

use super::App;
use super::reply::{Failed, Named};
use super::table::{LetsIn, Operation, Role};
use crate::auth::Scoped;
use crate::workers::CLEANUP;
use crate::workers::hand::{Did, Done};
use crate::workers::shift::{Ended, Shift};

const SUMMARY: &str = "Let a worker that the configuration declares do a few items, and wait for \
                       it; `cleanup` sweeps. The workers' secret opens it, or a token.";

pub(super) fn operations() -> Vec<Operation> {
    let of = |method, handler| {
        Operation::new(method, "/workers/{name}", Role::Worker, SUMMARY, handler)
            .lets_in(LetsIn::Schedulers)
            .gives::<Called>(200)
    };
    vec![of(Method::GET, get(call)), of(Method::POST, post(call))]
}

/// What a worker did when it was called.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Called {
    worker: String,
    /// One for each item that it took, in order.
    jobs: Vec<Job>,
    /// How many ended in which way.
    completed: usize,
    skipped: usize,
    failed: usize,
    /// Those that are tried again.
    retried: usize,
    /// What a cleanup ended or removed.
    removed: u64,
    /// Why it took nothing more: `empty`, `max_jobs`, `budget`, `stopping` or `failed`.
    ended: &'static str,
    /// Why it failed, if it did.
    error: Option<String>,
    duration_ms: u64,
}

/// What became of one item.
#[derive(Serialize, JsonSchema, Debug)]
struct Job {
    id: String,
    queue: String,
    kind: String,
    stage: String,
    attempt: u16,
    /// `completed`, `retried`, `failed`, `skipped` or `released`; `lost` if it was not the worker's
    /// any more, and `unknown` if the store did not answer.
    outcome: &'static str,
    error: Option<String>,
    duration_ms: u64,
}

async fn call(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    headers: HeaderMap,
    Named(name): Named,
) -> Result<Json<Called>, Failed> {
    scoped.whole()?;
    not_from_a_page(&headers)?;
    if app.is_stopping() {
        return Err(Failed::stopping("no work is taken any more"));
    }
    if let Some(worker) = app.workers.find(&name) {
        let Some(called) = app.workers.call(worker) else {
            let detail = "as many workers as may be are being called";
            return Err(Failed(Problem::new(Code::Overloaded, detail).retry_after(1_000)));
        };
        let shift = called.await;
        let shift = shift.ok_or_else(|| Failed::new(Code::Internal, "a bug of ours"))?;
        return Ok(Json(Called::new(name, shift)));
    }
    if name != CLEANUP {
        return Err(Failed::new(Code::NotFound, "no worker of that name is declared"));
    }
    let begun = tokio::time::Instant::now();
    let (removed, more) = app.workers.clean_up().await?;
    Ok(Json(Called {
        worker: name,
        jobs: Vec::new(),
        completed: 0,
        skipped: 0,
        failed: 0,
        retried: 0,
        removed,
        ended: if more { "budget" } else { "empty" },
        error: None,
        duration_ms: ms(begun.elapsed()),
    }))
}

/// A GET that does something must not come from a page of another site. Browsers say where a
/// request comes from; programs do not.
fn not_from_a_page(headers: &HeaderMap) -> Result<(), Failed> {
    match headers.get("sec-fetch-site").map(|value| value.as_bytes()) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(Failed::new(Code::Forbidden, "pages of other sites may not run workers")),
    }
}

impl Called {
    fn new(worker: String, Shift { done, ended, took }: Shift) -> Called {
        let jobs: Vec<Job> = done.iter().map(Job::from).collect();
        let count = |outcome: &str| jobs.iter().filter(|job| job.outcome == outcome).count();
        Called {
            worker,
            completed: count("completed"),
            skipped: count("skipped"),
            failed: count("failed"),
            retried: count("retried"),
            jobs,
            removed: 0,
            ended: match ended {
                Ended::Empty => "empty",
                Ended::MaxJobs => "max_jobs",
                Ended::Budget => "budget",
                Ended::Stopping => "stopping",
                Ended::Failed(_) => "failed",
            },
            error: match ended {
                Ended::Failed(why) => Some(why),
                _ => None,
            },
            duration_ms: ms(took),
        }
    }
}

impl From<&Done> for Job {
    fn from(Done { work, did, took, .. }: &Done) -> Job {
        let (outcome, error) = match did {
            Did::Settled(settled, outcome) => (settled.ending.name(), why(outcome)),
            Did::Lost(why) => ("lost", Some(why.clone())),
            Did::Unknown(why) => ("unknown", Some(why.clone())),
        };
        Job {
            id: work.id.to_string(),
            queue: work.body.queue.to_string(),
            kind: work.body.kind.to_string(),
            stage: work.stage.to_string(),
            attempt: work.attempt,
            outcome,
            error,
            duration_ms: ms(*took),
        }
    }
}

/// What an outcome says went wrong.
fn why(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Retry { message, .. } | Outcome::Fail { message, .. } => Some(message.clone()),
        Outcome::Skip { reason } => Some(reason.clone()),
        _ => None,
    }
}

fn ms(took: Duration) -> u64 {
    took.as_millis() as u64
}
