//! Events: what happened to items.

use schemars::JsonSchema;
use serde::Serialize;
use windrow_core::ports::{Happened, Inspected};
use windrow_core::trail::{Attempt, Ending};
use windrow_core::transitions::Event;

use crate::item::Error;
use crate::time::Time;

/// One change of one item, as a stream tells it.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Changed {
    pub id: String,
    pub queue: String,
    pub tenant: String,
    /// The stage that it is in, counted from 0.
    pub stage: u8,
    pub status: &'static str,
    /// What led to it: `create`, `claim`, `complete`, `retry` and so on.
    pub event: &'static str,
    pub at: Time,
}

impl From<&Happened> for Changed {
    fn from(of: &Happened) -> Changed {
        Changed {
            id: of.id.to_string(),
            queue: of.queue.to_string(),
            tenant: of.tenant.to_string(),
            stage: of.stage,
            status: of.status.name(),
            event: of.event.map_or("create", Event::name),
            at: Time(of.at),
        }
    }
}

/// One thing in the life of an item.
#[derive(Clone, PartialEq, Serialize, JsonSchema, Debug)]
pub struct Moment {
    pub at: Time,
    /// `create`, `claim`, how an attempt ended (`completed`, `retried`, `expired`, …), what an
    /// operator did (`cancel`, `retry`, `prioritise`), or `end`.
    pub event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// Why it was skipped, if it was. Of several stages that were, only the last says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it was from then on, if it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// Which operator did it, by the name of the token. Only admins of all tenants are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Moment {
    pub fn new(at: Time, event: &'static str) -> Moment {
        let (stage, worker, reason, by) = (None, None, None, None);
        Moment { at, event, stage, attempt: None, worker, error: None, reason, status: None, by }
    }
}

/// The life of an item, as far as it is kept: its last five attempts, and what was done to it
/// beside them.
pub fn history(of: &Inspected, done: Vec<Moment>) -> Vec<Moment> {
    let stage = |at: u8| of.body.route.stages.get(usize::from(at)).map(|of| of.name.to_string());
    let mut all = vec![Moment::new(Time(of.item.id.created_at()), "create")];
    let was_skipped = |attempt: &Attempt| attempt.ending == Ending::Skipped;
    let last_skipped = of.trail.attempts.iter().rposition(was_skipped);
    for (at, attempt) in of.trail.attempts.iter().enumerate() {
        let claimed = Moment {
            stage: stage(attempt.stage),
            attempt: Some(attempt.number),
            worker: Some(attempt.worker.to_string()),
            ..Moment::new(Time(attempt.started), "claim")
        };
        let error = attempt.error.as_ref().map(Error::from);
        let reason = of.trail.reason.clone().filter(|_| last_skipped == Some(at));
        let (at, event) = (Time(attempt.ended), attempt.ending.name());
        all.push(claimed.clone());
        all.push(Moment { at, event, error, reason, ..claimed });
    }
    if let Some(at) = of.trail.finished_at.filter(|_| of.item.is_done()) {
        let status = Some(of.item.status().name());
        all.push(Moment { status, ..Moment::new(Time(at), "end") });
    }
    all.extend(done);
    // What ends an item is written down after it did; its end comes last all the same.
    all.sort_by_key(|moment| (moment.at, moment.event == "end"));
    all
}
