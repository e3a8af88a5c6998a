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

use crate::adapters::embed::EmbedError;
use crate::adapters::vectors::VectorsError;
use crate::catalog::CatalogError;

/// Why a stage was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// It may pass. Who says after how long wants to be left alone until then.
    Passing { why: String, retry_after_ms: Option<u64> },
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

    pub(super) fn undone(self) -> Undone {
        match self {
            Fault::Passing { why, retry_after_ms } => {
                let undone = Undone::retry(why);
                match retry_after_ms.map(Duration::from_millis) {
                    Some(rest) => undone.class(Class::RateLimit).after(rest),
                    None => undone.class(Class::Infrastructure),
                }
            }
            Fault::Bad(why) => Undone::fail(why).class(Class::BadData),
            Fault::Gone(what) => Undone::skip(format!("superseded: {what}")),
            Fault::Waits { until } => {
                Undone::snooze(SystemTime::UNIX_EPOCH + Duration::from_millis(until.0))
            }
        }
    }
}

impl From<CatalogError> for Fault {
    fn from(error: CatalogError) -> Fault {
        match error {
            CatalogError::Transient { retry_after_ms, .. } => {
                Fault::Passing { why: error.to_string(), retry_after_ms }
            }
            CatalogError::Bad { why } => Fault::Bad(why),
            CatalogError::Gone { .. } => Fault::Gone(error.to_string()),
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

impl From<VectorsError> for Fault {
    fn from(error: VectorsError) -> Fault {
        match error {
            VectorsError::Transient { why, retry_after_ms } => {
                Fault::Passing { why, retry_after_ms }
            }
            VectorsError::Bad { .. } | VectorsError::Dimension { .. } => Fault::bad(error),
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
        assert_eq!(class(Fault::bad("torn")), (Some(Class::BadData), None));
        assert_eq!(class(Fault::Gone("it".into())), (None, None));
    }
}
