//! The trail: what became of an item, stage by stage, for life.
//!
//! It is rewritten whole and bounded: one record per stage, the last five attempts, the result.
//! An item that ran once in one stage needs none before it ends; most items never read theirs.

use std::sync::Arc;

use crate::id::LeaseId;
use crate::item::Status;
use crate::limits::{ATTEMPTS_KEPT, ERROR_MAX};
use crate::text::kept;
use crate::time::Timestamp;

/// What became of an item.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trail {
    /// One per stage of the route that was entered; later ones are pending.
    pub stages: Vec<StageRecord>,
    /// The last attempts, oldest first.
    pub attempts: Vec<Attempt>,
    pub result: Option<Vec<u8>>,
    pub progress: Option<Progress>,
    pub finished_at: Option<Timestamp>,
    /// Why it ended as it did, when no stage's error says so (a cancel, a skip).
    pub reason: Option<String>,
}

/// What is known of one stage of one item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StageRecord {
    pub status: Status,
    pub attempts: u16,
    pub worker: Option<Arc<str>>,
    pub started: Option<Timestamp>,
    pub completed: Option<Timestamp>,
    pub renewed: Option<Timestamp>,
    pub error: Option<Fault>,
    /// Handed to the next stage's claim; survives a later failure.
    pub output: Option<Vec<u8>>,
}

impl StageRecord {
    /// A stage that nobody entered yet.
    pub const PENDING: StageRecord = StageRecord {
        status: Status::Pending,
        attempts: 0,
        worker: None,
        started: None,
        completed: None,
        renewed: None,
        error: None,
        output: None,
    };
}

/// One attempt, and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    pub stage: u8,
    pub number: u16,
    pub lease: LeaseId,
    pub worker: Arc<str>,
    pub started: Timestamp,
    pub ended: Timestamp,
    pub ending: Ending,
    pub error: Option<Fault>,
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ending {
    Completed,
    Split,
    Retried,
    Failed,
    Skipped,
    Released,
    Snoozed,
    Expired,
    Cancelled,
}

impl Ending {
    pub const ALL: [Ending; 9] = [
        Ending::Completed,
        Ending::Split,
        Ending::Retried,
        Ending::Failed,
        Ending::Skipped,
        Ending::Released,
        Ending::Snoozed,
        Ending::Expired,
        Ending::Cancelled,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Ending::Completed => "completed",
            Ending::Split => "split",
            Ending::Retried => "retried",
            Ending::Failed => "failed",
            Ending::Skipped => "skipped",
            Ending::Released => "released",
            Ending::Snoozed => "snoozed",
            Ending::Expired => "expired",
            Ending::Cancelled => "cancelled",
        }
    }

    pub fn parse(word: &str) -> Option<Ending> {
        Ending::ALL.into_iter().find(|ending| ending.name() == word)
    }
}

/// An error as a worker reported it, or as the queue found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub class: Class,
    pub message: String,
}

/// What kind of error it was; decides whether and how an item is tried again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// What the item is about no longer exists. Never retried.
    Gone,
    /// The item itself is wrong. Never retried.
    BadData,
    /// Too little memory, disk or time here.
    Resource,
    /// A service or network that the work needs is down. Waits longer between attempts.
    Infrastructure,
    /// Asked to slow down. Costs no attempt.
    RateLimit,
    /// Nothing is known.
    Other,
    /// The lease ran out without a word from its holder.
    LeaseExpired,
    /// Children failed and the item does not go on without them.
    Children,
    /// A bug of ours.
    Internal,
}

impl Class {
    pub const ALL: [Class; 9] = [
        Class::Gone,
        Class::BadData,
        Class::Resource,
        Class::Infrastructure,
        Class::RateLimit,
        Class::Other,
        Class::LeaseExpired,
        Class::Children,
        Class::Internal,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Class::Gone => "gone",
            Class::BadData => "bad_data",
            Class::Resource => "resource",
            Class::Infrastructure => "infrastructure",
            Class::RateLimit => "rate_limit",
            Class::Other => "other",
            Class::LeaseExpired => "lease_expired",
            Class::Children => "children",
            Class::Internal => "internal",
        }
    }

    pub fn parse(word: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.name() == word)
    }

    /// Whether trying again can help.
    pub const fn is_permanent(self) -> bool {
        matches!(self, Class::Gone | Class::BadData | Class::Internal)
    }
}

impl Fault {
    /// A fault whose message is cut and mended to what we keep.
    pub fn new(class: Class, message: impl Into<String>) -> Fault {
        Fault { class, message: kept(message.into(), ERROR_MAX) }
    }
}

/// How far a worker says it is.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Progress {
    pub current: u64,
    pub total: u64,
    pub message: String,
}

impl Trail {
    /// The record of a stage, made if it does not exist yet.
    pub fn stage_mut(&mut self, stage: u8) -> &mut StageRecord {
        let stage = usize::from(stage);
        while self.stages.len() <= stage {
            self.stages.push(StageRecord::PENDING);
        }
        &mut self.stages[stage]
    }

    pub fn stage(&self, stage: u8) -> Option<&StageRecord> {
        self.stages.get(usize::from(stage))
    }

    /// Adds an attempt to the log and forgets the oldest one beyond the limit.
    pub fn log(&mut self, attempt: Attempt) {
        if self.attempts.len() >= ATTEMPTS_KEPT {
            self.attempts.remove(0);
        }
        self.attempts.push(attempt);
    }

    /// Forgets everything from this stage on, as if it had never been entered.
    pub fn rewind(&mut self, stage: u8) {
        self.stages.truncate(usize::from(stage));
        self.result = None;
        self.finished_at = None;
        self.reason = None;
        self.progress = None;
    }

    /// The newest error of any stage.
    pub fn last_error(&self) -> Option<&Fault> {
        self.stages.iter().rev().find_map(|stage| stage.error.as_ref())
    }

    /// The last attempt made under this lease, if it is still in the log.
    pub fn under(&self, lease: LeaseId) -> Option<&Attempt> {
        self.attempts.iter().rev().find(|attempt| attempt.lease == lease)
    }

    /// What the stage before `stage` put out.
    pub fn input_of(&self, stage: u8) -> Option<&[u8]> {
        let before = stage.checked_sub(1)?;
        self.stage(before)?.output.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_error_is_cut_at_a_character() {
        let fault = Fault::new(Class::Other, "é".repeat(ERROR_MAX));
        assert_eq!(fault.message.len(), ERROR_MAX);
        let fault = Fault::new(Class::Other, format!("x{}", "é".repeat(ERROR_MAX)));
        assert_eq!(fault.message.len(), ERROR_MAX - 1);
    }

    #[test]
    fn only_the_last_attempts_are_kept() {
        let mut trail = Trail::default();
        for number in 1..=9 {
            trail.log(Attempt {
                stage: 0,
                number,
                lease: LeaseId(number.into()),
                worker: "w".into(),
                started: Timestamp(1),
                ended: Timestamp(2),
                ending: Ending::Retried,
                error: None,
            });
        }
        let kept: Vec<u16> = trail.attempts.iter().map(|attempt| attempt.number).collect();
        assert_eq!(kept, [5, 6, 7, 8, 9]);
    }
}
