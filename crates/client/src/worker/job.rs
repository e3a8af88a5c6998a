//! A job: one item in the hands of a worker.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use windrow_core::queue::Work;
use windrow_core::trail::Progress;
use windrow_core::{ItemId, LeaseId};

use super::hand::{Hand, Place};
use super::outcome::Undone;
use super::payload::{NotUnderstood, json};
use super::token::Token;

/// One item, as a handler gets it.
#[derive(Debug)]
pub struct Job<P> {
    /// What the item is about.
    pub payload: P,
    work: Work,
    at: At,
}

/// Where a job stands in its worker's hand.
#[derive(Clone, Debug)]
pub(super) struct At {
    pub(super) hand: Arc<Hand>,
    pub(super) place: Place,
    pub(super) token: Arc<Token>,
}

/// The item is not this worker's any more. As an [`Undone`] it is dropped like any other outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseLost;

impl fmt::Display for LeaseLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the item is not ours any more")
    }
}

impl std::error::Error for LeaseLost {}

impl<P> Job<P> {
    pub(super) fn new(payload: P, work: Work, at: At) -> Job<P> {
        Job { payload, work, at }
    }

    pub fn id(&self) -> ItemId {
        self.work.id
    }

    pub fn queue(&self) -> &str {
        &self.work.body.queue
    }

    pub fn tenant(&self) -> &str {
        &self.work.body.tenant
    }

    pub fn kind(&self) -> &str {
        &self.work.body.kind
    }

    pub fn op(&self) -> &str {
        &self.work.body.op
    }

    pub fn key(&self) -> Option<&str> {
        self.work.body.key.as_deref()
    }

    /// As JSON, if the producer gave some.
    pub fn metadata(&self) -> Option<&str> {
        self.work.body.metadata.as_deref()
    }

    /// The stage that is to be done.
    pub fn stage(&self) -> &str {
        &self.work.stage
    }

    /// Which attempt of this stage it is, from 1.
    pub fn attempt(&self) -> u16 {
        self.work.attempt
    }

    pub fn lease(&self) -> LeaseId {
        self.at.place.lease
    }

    /// What the stage before put out; none in the first stage.
    pub fn input(&self) -> Option<&[u8]> {
        self.work.input.as_deref()
    }

    /// The same, read from JSON.
    pub fn input_as<T: DeserializeOwned>(&self) -> Result<T, NotUnderstood> {
        json(self.input().unwrap_or_default())
    }

    pub fn is_last_stage(&self) -> bool {
        is_last_stage(&self.work)
    }

    /// Everything else about the item. Its payload has moved to `payload`.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Whether the item is not ours any more: cancelled, lost, or handed back because the worker
    /// stops. Drop the work; whatever its outcome is, nobody will hear of it.
    pub fn is_cancelled(&self) -> bool {
        self.at.token.is_said()
    }

    /// Waits until the item is not ours any more.
    pub async fn cancelled(&self) {
        self.at.token.said().await;
    }

    /// Ends a handler by `?` if the item is not ours any more. For long loops.
    pub fn check(&self) -> Result<(), Undone> {
        if self.is_cancelled() { Err(LeaseLost.into()) } else { Ok(()) }
    }

    /// Says how far it is, for whoever looks; `total` may be 0 if nobody knows. Returns at once;
    /// the last word counts.
    pub fn progress(&self, current: u64, total: u64, message: impl Into<String>) {
        let progress = Progress { current, total, message: message.into() };
        self.at.hand.report(self.at.place, progress);
    }
}

pub(super) fn is_last_stage(work: &Work) -> bool {
    work.body.route.stages.last().is_none_or(|last| last.name == work.stage)
}
