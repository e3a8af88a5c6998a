//! Faults: what becomes of an item whose stage could not be done.
//!
//! What may pass is tried again; its class tells the queue to leave alone what the stage needs, for
//! everybody and at the cost of no attempt. What never works fails for good. A generation that
//! something newer has replaced has nothing left to do.

use std::fmt;
use std::time::{Duration, SystemTime};

use windrow_client::worker::Undone;
use windrow_core::Timestamp;
use windrow_core::trail::Class;

use super::keeping::Unkept;
use crate::adapters::embed::EmbedError;

/// How long what is to be done in any case rests before it is tried again.
const PATIENCE_MS: u64 = 30_000;

/// Why a stage was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// It may pass. Who says after how long wants to be left alone until then.
    Passing { why: String, retry_after_ms: Option<u64> },
    /// It was ended from outside. It costs an attempt, and nobody else is held up: what is short
    /// of memory every time is not tried for ever.
    Ended(String),
    /// This input never works.
    Bad(String),
    /// It is not wanted any more.
    Gone(String),
    /// Something has to be brought first. It costs no attempt.
    Waits { until: Timestamp },
}

impl Fault {
    pub(super) fn passing(why: impl fmt::Display) -> Fault {
        Fault::Passing { why: why.to_string(), retry_after_ms: None }
    }

    pub(super) fn bad(why: impl fmt::Display) -> Fault {
        Fault::Bad(why.to_string())
    }

    /// Of what is to be done however long it takes: trying again costs no attempt.
    pub(super) fn patiently(self) -> Fault {
        match self {
            Fault::Passing { why, retry_after_ms } => {
                Fault::Passing { why, retry_after_ms: retry_after_ms.or(Some(PATIENCE_MS)) }
            }
            fault => fault,
        }
    }

    pub(super) fn undone(self) -> Undone {
        match self {
            Fault::Passing { why, retry_after_ms } => {
                let undone = Undone::retry(why);
                match retry_after_ms.map(Duration::from_millis) {
                    Some(rest) => undone.class(Class::RateLimit).after(rest),
                    None => undone.class(Class::Infrastructure),
                }
            }
            Fault::Ended(why) => Undone::retry(why).class(Class::Resource),
            Fault::Bad(why) => Undone::fail(why).class(Class::BadData),
            Fault::Gone(what) => Undone::skip(format!("superseded: {what}")),
            Fault::Waits { until } => {
                Undone::snooze(SystemTime::UNIX_EPOCH + Duration::from_millis(until.0))
            }
        }
    }
}

impl From<Unkept> for Fault {
    fn from(error: Unkept) -> Fault {
        match error {
            Unkept::Passing { why, retry_after_ms } => Fault::Passing { why, retry_after_ms },
            Unkept::Bad { why } => Fault::Bad(why),
            Unkept::Gone { .. } => Fault::Gone(error.to_string()),
        }
    }
}

impl From<EmbedError> for Fault {
    fn from(error: EmbedError) -> Fault {
        match error {
            EmbedError::Transient { why, retry_after_ms } => Fault::Passing { why, retry_after_ms },
            EmbedError::Bad { why } => Fault::Bad(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use windrow_core::command::Outcome;

    use super::*;

    #[test]
    fn what_may_pass_costs_nobody_anything_and_what_is_bad_is_not_tried_again() {
        let class = |fault: Fault| match fault.undone().outcome() {
            Outcome::Retry { class, delay_ms, .. } => (Some(*class), *delay_ms),
            Outcome::Fail { class, .. } => (Some(*class), None),
            _ => (None, None),
        };
        let later = Fault::Passing { why: "busy".into(), retry_after_ms: Some(700) };
        assert_eq!(class(later), (Some(Class::RateLimit), Some(700)));
        assert_eq!(class(Fault::passing("down")), (Some(Class::Infrastructure), None));
        let patient = class(Fault::passing("down").patiently());
        assert_eq!(patient, (Some(Class::RateLimit), Some(PATIENCE_MS)));
        let ended = Fault::Ended("signal 15".into());
        assert_eq!(class(ended), (Some(Class::Resource), None));
        assert_eq!(class(Fault::bad("torn")), (Some(Class::BadData), None));
        assert_eq!(class(Fault::Gone("it".into())), (None, None));
    }
}
