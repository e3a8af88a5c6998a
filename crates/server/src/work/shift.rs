//! A shift: one item after another, as long as there are some and there is time.
//!
//! Somebody calls a worker, which does a few items and says what became of them (seed 004's
//! serverless style); or it works by itself until the server stops.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use windrow_core::command::Claim;
use windrow_core::queue::Queue;

use super::hand::{Done, Limits, work_on};
use super::{Declared, Payloads};

/// How long to wait before a queue is asked again that did not answer.
const AGAIN: Duration = Duration::from_secs(1);
/// How long to wait before a command is tried again that could not be started.
const MENDED: Duration = Duration::from_secs(10);

/// What a shift came to.
#[derive(Debug)]
pub(crate) struct Shift {
    pub(crate) done: Vec<Done>,
    pub(crate) ended: Ended,
    pub(crate) took: Duration,
}

/// Why a shift ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// There is nothing to do.
    Empty,
    /// It did as much as it may.
    MaxJobs,
    /// Most of its time is over.
    Budget,
    /// The server stops.
    Stopping,
    /// The queue did not answer, or the command cannot be started.
    Failed(String),
}

/// Where work is taken from, and who says when to stop.
#[derive(Clone, Debug)]
pub(crate) struct Place<Q, P> {
    pub(crate) queue: Arc<Q>,
    pub(crate) payloads: P,
    pub(crate) stopping: watch::Receiver<bool>,
    /// How long what is in hand may go on when the server stops.
    pub(crate) drain: Duration,
}

impl<Q: Queue, P: Payloads> Place<Q, P> {
    /// Does up to as many items as the worker may, within its budget. It takes nothing more once
    /// five sixths of that are over.
    pub(crate) async fn shift(&self, worker: &Declared) -> Shift {
        let begun = Instant::now();
        let (last, until) = (begun + worker.budget * 5 / 6, begun + worker.budget);
        let mut done = Vec::new();
        let ended = loop {
            if *self.stopping.borrow() {
                break Ended::Stopping;
            }
            if done.len() >= worker.max_jobs {
                break Ended::MaxJobs;
            }
            if Instant::now() >= last {
                break Ended::Budget;
            }
            match self.queue.claim(claim(worker), 0, None).await {
                Ok(Some(granted)) => {
                    let limits = self.limits(Some((until, worker.budget)));
                    let (queue, payloads) = (&*self.queue, &self.payloads);
                    done.extend(work_on(queue, payloads, worker, granted, limits).await);
                    // Whatever it would take next it could not do either.
                    if let Some(why) = done.last().and_then(|done| done.not_started.clone()) {
                        break Ended::Failed(format!("the command cannot be started: {why}"));
                    }
                }
                Ok(None) => break Ended::Empty,
                Err(error) => break Ended::Failed(error.to_string()),
            }
        };
        Shift { done, ended, took: begun.elapsed() }
    }

    /// Works until the server stops, waiting for work so long at a time.
    pub(crate) async fn work(&self, worker: &Declared, wait: Duration, each: impl Fn(&Done)) {
        let mut stopping = self.stopping.clone();
        while !*stopping.borrow() {
            let rest = match self.queue.claim(claim(worker), wait.as_millis() as u64, None).await {
                Ok(Some(granted)) => {
                    let limits = self.limits(None);
                    let (queue, payloads) = (&*self.queue, &self.payloads);
                    let done = work_on(queue, payloads, worker, granted, limits).await;
                    done.iter().for_each(&each);
                    done.and_then(|done| done.not_started).map(|_| MENDED)
                }
                Ok(None) => None,
                // A store that is away or full: that passes.
                Err(_) => Some(AGAIN),
            };
            if let Some(rest) = rest {
                tokio::select! {
                    () = sleep(rest) => {}
                    _ = stopping.changed() => {}
                }
            }
        }
    }

    fn limits(&self, until: Option<(Instant, Duration)>) -> Limits {
        Limits { until, stopping: self.stopping.clone(), drain: self.drain }
    }
}

/// One item at a time: each has a lease of its own, and one that is slow holds up no other.
fn claim(worker: &Declared) -> Claim {
    Claim {
        worker: Arc::clone(&worker.name),
        queues: worker.queues.clone(),
        stages: worker.stages.clone(),
        kinds: worker.kinds.clone(),
        tenants: Vec::new(),
        max: 1,
        lease_ms: Some(worker.lease.as_millis() as u64),
    }
}
