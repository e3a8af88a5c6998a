//! The `Queue` port: the queue as a producer, a worker or an operator programs against it.
//!
//! The same in process (the engine), over HTTP and over RPC (the client), so that a worker does not
//! know where its queue runs. What goes in are the commands of the rules; what comes out are the
//! shapes here, which hold what can be said over a wire: names instead of a store's numbers, codes
//! instead of a refusal's fields. Leaves out on purpose what only the server itself does: ticking,
//! sweeping, moving.
//!
//! A verb that is not harmless to repeat takes a request id. Whoever gives none leaves it to the
//! implementation; a client over a network makes one, so that it can repeat by itself.

use std::borrow::Cow;
use std::sync::Arc;

use crate::command::{
    Cancelled, Claim, Enqueued, Grant, NewItem, Outcome, Renewed, Retried, RetryMode, Scope,
    Settled,
};
use crate::explain::Explanation;
use crate::id::{ItemId, LeaseId, RequestId};
use crate::item::{Body, State, Status};
use crate::ports::{self, Count, Inspected, StoreError};
use crate::refusal::Refusal;
use crate::route::Route;
use crate::settings::Settings;
use crate::tally::{Counts, Tally};
use crate::time::Timestamp;
use crate::trail::{self, Ending, Fault, Progress, StageRecord};

/// What a call comes to.
pub type Answered<T> = Result<T, Error>;
/// What becomes of one of many.
pub type Each<T> = Result<T, Refused>;

/// A queue. When a call returns, what it says is durable.
pub trait Queue: Send + Sync + 'static {
    /// Adds items; answers for each.
    fn enqueue(
        &self,
        items: Vec<NewItem>,
        request: Option<RequestId>,
    ) -> impl Future<Output = Answered<Vec<Each<Enqueued>>>> + Send;

    /// Takes work, waiting up to `wait_ms` for some to arrive. None if none did.
    fn claim(
        &self,
        claim: Claim,
        wait_ms: u64,
        request: Option<RequestId>,
    ) -> impl Future<Output = Answered<Option<Grant<Work>>>> + Send;

    /// Keeps a lease for longer; by default as long as it was granted for.
    fn renew(
        &self,
        lease: LeaseId,
        lease_ms: Option<u64>,
    ) -> impl Future<Output = Answered<Renewed>> + Send;

    /// Says how far work is. The one answer that does not promise the disk.
    fn progress(
        &self,
        lease: LeaseId,
        items: Vec<(ItemId, Progress)>,
    ) -> impl Future<Output = Answered<Vec<Each<()>>>> + Send;

    /// Ends attempts; answers for each.
    fn settle(
        &self,
        lease: LeaseId,
        items: Vec<(ItemId, Outcome)>,
        request: Option<RequestId>,
    ) -> impl Future<Output = Answered<Vec<Each<Settled>>>> + Send;

    /// Ends an item that has not ended, with everything below it.
    fn cancel(
        &self,
        item: ItemId,
        request: Option<RequestId>,
    ) -> impl Future<Output = Answered<Cancelled>> + Send;

    /// Runs an ended item again. A child cannot be cloned away from its tree and is reset.
    fn retry(
        &self,
        item: ItemId,
        mode: RetryMode,
        from_stage: Option<Arc<str>>,
        request: Option<RequestId>,
    ) -> impl Future<Output = Answered<Retried>> + Send;

    /// Removes an ended item with everything below it, for good; says how many that were.
    fn delete(
        &self,
        item: ItemId,
        request: Option<RequestId>,
    ) -> impl Future<Output = Answered<u32>> + Send;

    /// Gives an item that has not ended another priority.
    fn prioritise(&self, item: ItemId, priority: u8) -> impl Future<Output = Answered<()>> + Send;

    /// Hands out nothing of a queue, or of a stage or tenant of it.
    fn pause(&self, scope: Scope) -> impl Future<Output = Answered<()>> + Send;

    /// Hands out again what a pause of the same scope held back.
    fn resume(&self, scope: Scope) -> impl Future<Output = Answered<()>> + Send;

    /// Says how a queue behaves, from now on.
    fn configure(
        &self,
        queue: Arc<str>,
        settings: Settings,
    ) -> impl Future<Output = Answered<()>> + Send;

    /// Everything about an item; none if it is not known.
    fn inspect(&self, item: ItemId) -> impl Future<Output = Answered<Option<Seen>>> + Send;

    /// Why an item is where it is; none if it is not known.
    fn explain(&self, item: ItemId) -> impl Future<Output = Answered<Option<Explained>>> + Send;

    /// A page of an item's children, in order; none if the item is not known.
    fn children(
        &self,
        item: ItemId,
        from: u32,
        limit: usize,
    ) -> impl Future<Output = Answered<Option<Page>>> + Send;

    /// Items by queue, tenant and status; what nobody has is left out.
    fn counts(&self) -> impl Future<Output = Answered<Vec<Count>>> + Send;
}

/// Why there is no answer, and what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The answer is no. Repeating it does not help, unless it says after which time.
    #[error(transparent)]
    Refused(Refused),
    /// Nothing was written: it may be done again, as something new too.
    #[error("nothing was written: {0}")]
    NotApplied(String),
    /// It may be written or not: do it again with the same request id, or look.
    #[error("it is not known whether this was written; repeat it with the same request id: {0}")]
    OutcomeUnknown(String),
    /// Too much is under way; nothing was written.
    #[error("too much is under way; try again in {retry_after_ms} ms")]
    Overloaded { retry_after_ms: u64 },
}

impl Error {
    /// The refusal's code, if it is one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Error::Refused(refused) => Some(&refused.code),
            _ => None,
        }
    }

    /// Why, for somebody for whom it is repeated anyway.
    pub fn why(&self) -> String {
        match self {
            Error::NotApplied(why) | Error::OutcomeUnknown(why) => why.clone(),
            error => error.to_string(),
        }
    }
}

/// A refusal as it is told. Its code has a page in `docs/errors/`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Refused {
    pub code: Cow<'static, str>,
    pub message: String,
    /// How long to wait before asking again, if waiting can help.
    pub retry_after_ms: Option<u64>,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        Refused {
            code: Cow::Borrowed(refusal.code()),
            message: refusal.to_string(),
            retry_after_ms: refusal.retry_after_ms(),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::Refused(refusal.into())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match error {
            StoreError::NotApplied(why) => Error::NotApplied(why),
            StoreError::Closed => Error::NotApplied("the store is closed".into()),
            StoreError::OutcomeUnknown(why) => Error::OutcomeUnknown(why),
            // What was under way when it stopped may be on disk.
            StoreError::Poisoned(why) => Error::OutcomeUnknown(why),
        }
    }
}

/// What a worker gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Work {
    pub id: ItemId,
    /// What the producer said. Over a wire its route has the names of its stages and no more.
    pub body: Body,
    /// The stage that is to be done.
    pub stage: Arc<str>,
    /// Which attempt of this stage it is.
    pub attempt: u16,
    pub priority: u8,
    pub parent: Option<ItemId>,
    /// The output of the stage before.
    pub input: Option<Vec<u8>>,
}

impl From<ports::Work> for Work {
    fn from(work: ports::Work) -> Work {
        let ports::Work { item, body, stage, input } = work;
        Work {
            id: item.id,
            body,
            stage,
            attempt: item.attempts,
            priority: item.priority,
            parent: item.place.map(|place| place.parent),
            input,
        }
    }
}

/// Everything about an item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub id: ItemId,
    pub status: Status,
    /// What the producer said. Over a wire its route has the names of its stages and no more.
    pub body: Body,
    pub stage: Arc<str>,
    pub priority: u8,
    /// Attempts of the stage it is in, the running one included.
    pub attempts: u16,
    /// How often it was begun anew.
    pub generation: u16,
    /// When it may be claimed at the earliest, if that lies ahead or lay.
    pub not_before: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub lease: Option<LeaseId>,
    pub place: Option<Place>,
    /// The item with the same key that waits for this one to end.
    pub successor: Option<ItemId>,
    pub result: Option<Vec<u8>>,
    pub progress: Option<Progress>,
    /// Why it ended as it did, if no stage's error says so.
    pub reason: Option<String>,
    /// One for each stage of its route.
    pub stages: Vec<Stage>,
    /// The last attempts, oldest first.
    pub log: Vec<Attempt>,
    pub children: Option<Children>,
}

/// Where an item stands in a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub parent: ItemId,
    pub level: u8,
    /// Its number among its siblings.
    pub number: u32,
    pub generation: u16,
}

/// What is known of one stage of an item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    pub name: Arc<str>,
    pub status: Status,
    pub attempts: u16,
    pub worker: Option<Arc<str>>,
    pub started: Option<Timestamp>,
    pub completed: Option<Timestamp>,
    pub renewed: Option<Timestamp>,
    pub error: Option<Fault>,
}

/// One attempt, and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    pub stage: Arc<str>,
    pub number: u16,
    pub worker: Arc<str>,
    pub started: Timestamp,
    pub ended: Timestamp,
    pub ending: Ending,
    pub error: Option<Fault>,
}

/// What an item knows of its children.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Children {
    pub all: Counts,
    pub phases: Vec<(Arc<str>, Counts)>,
    /// More are still to come.
    pub more: bool,
}

/// Children of an item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    pub items: Vec<Seen>,
    /// Where the next page begins, if there may be one.
    pub next: Option<u32>,
}

/// Why an item is where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explained {
    pub id: ItemId,
    pub status: Status,
    pub reasons: Vec<Why>,
}

/// One thing that holds an item now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Why {
    pub code: Cow<'static, str>,
    /// What would move it on.
    pub unblocked_by: String,
}

impl From<Explanation> for Explained {
    fn from(explanation: Explanation) -> Explained {
        let reasons = explanation.reasons.iter().map(|reason| Why {
            code: Cow::Borrowed(reason.code()),
            unblocked_by: reason.unblocked_by(),
        });
        let reasons = reasons.collect();
        Explained { id: explanation.item, status: explanation.status, reasons }
    }
}

impl From<&Tally> for Children {
    fn from(tally: &Tally) -> Children {
        Children { all: tally.children, phases: tally.phases.clone(), more: tally.more }
    }
}

impl Attempt {
    fn of(route: &Route, attempt: trail::Attempt) -> Attempt {
        Attempt {
            stage: Arc::clone(&route.stage(attempt.stage).name),
            number: attempt.number,
            worker: attempt.worker,
            started: attempt.started,
            ended: attempt.ended,
            ending: attempt.ending,
            error: attempt.error,
        }
    }
}

impl Stage {
    fn of(name: &Arc<str>, record: &StageRecord) -> Stage {
        Stage {
            name: Arc::clone(name),
            status: record.status,
            attempts: record.attempts,
            worker: record.worker.clone(),
            started: record.started,
            completed: record.completed,
            renewed: record.renewed,
            error: record.error.clone(),
        }
    }
}

impl From<Inspected> for Seen {
    fn from(inspected: Inspected) -> Seen {
        let Inspected { item, body, trail, tally, successor } = inspected;
        let split = tally.as_ref().filter(|_| matches!(item.state, State::Split));
        let not_before = match item.state {
            State::Pending { not_before } | State::Held { not_before } => Some(not_before),
            _ => None,
        };
        let route = Arc::clone(&body.route);
        let record = |at: usize| trail.stages.get(at).unwrap_or(&StageRecord::PENDING);
        let stages = route.stages.iter().enumerate();
        let stages = stages.map(|(at, stage)| Stage::of(&stage.name, record(at))).collect();
        let log = trail.attempts.into_iter().map(|attempt| Attempt::of(&route, attempt));
        Seen {
            id: item.id,
            status: split.map_or_else(|| item.status(), Tally::status),
            stage: Arc::clone(&route.stage(item.stage).name),
            priority: item.priority,
            attempts: item.attempts,
            generation: item.generation,
            not_before: not_before.filter(|at| *at > Timestamp::ZERO),
            finished_at: trail.finished_at,
            lease: item.lease(),
            place: item.place.map(|place| Place {
                parent: place.parent,
                level: place.level,
                number: place.number(),
                generation: place.generation,
            }),
            successor,
            result: trail.result,
            progress: trail.progress,
            reason: trail.reason,
            stages,
            log: log.collect(),
            children: tally.as_ref().map(Children::from),
            body,
        }
    }
}
