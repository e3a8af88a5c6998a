//! Answers for each item of a command that names several.

use schemars::JsonSchema;
use serde::Serialize;
use windrow_core::Refusal;
use windrow_core::command::{self, EnqueueOutcome};

use crate::problem::Code;

/// What became of an enqueue.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Enqueued {
    pub id: String,
    pub outcome: Enqueueing,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Enqueueing {
    Created,
    /// The key was waiting already; that item was kept.
    Duplicate,
    /// The key was waiting already; that item took the newer op and payload.
    Replaced,
    /// The key is being worked on; this item waits for that to end.
    Successor,
}

/// One that was refused while others were not.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Refused {
    pub error: Code,
    pub detail: String,
    /// Which entry of the request it was, from 0 on.
    pub index: usize,
    /// The item's id, if the entry named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The item's key, if the entry had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How long to wait before asking again, if waiting can help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// An answer, or why there is none.
#[derive(Clone, Serialize, JsonSchema, Debug)]
#[serde(untagged)]
pub enum Each<T> {
    Done(T),
    Refused(Refused),
}

/// How a settled attempt ended: a retry without attempts left has failed.
#[derive(Clone, Serialize, JsonSchema, Debug)]
pub struct Settled {
    pub id: String,
    pub ending: &'static str,
}

impl From<command::Enqueued> for Enqueued {
    fn from(enqueued: command::Enqueued) -> Enqueued {
        let outcome = match enqueued.outcome {
            EnqueueOutcome::Created => Enqueueing::Created,
            EnqueueOutcome::Duplicate => Enqueueing::Duplicate,
            EnqueueOutcome::Replaced => Enqueueing::Replaced,
            EnqueueOutcome::Successor => Enqueueing::Successor,
        };
        Enqueued { id: enqueued.id.to_string(), outcome }
    }
}

impl From<command::Settled> for Settled {
    fn from(settled: command::Settled) -> Settled {
        Settled { id: settled.id.to_string(), ending: settled.ending.name() }
    }
}

/// What an entry of a request called the item that it was about.
#[derive(Clone, Default, Debug)]
pub struct Called {
    pub id: Option<String>,
    pub key: Option<String>,
}

impl<T> Each<T> {
    /// The answer for the entry at `index`.
    pub fn of<C>(answer: Result<C, Refusal>, index: usize, called: Called) -> Each<T>
    where
        T: From<C>,
    {
        match answer {
            Ok(done) => Each::Done(done.into()),
            Err(refusal) => Each::Refused(Refused {
                error: Code::of(&refusal),
                detail: refusal.to_string(),
                index,
                id: called.id,
                key: called.key,
                retry_after_ms: refusal.retry_after_ms(),
            }),
        }
    }
}
