//! Repeats: what follows an attempt that brought no answer.
//!
//! Decides whether to try again, after how long, and if not, what the caller is told. It sees what
//! happened and how much time is left; it neither waits nor sends. A call carries the same request
//! id in all its attempts, so that repeating one that was done is harmless.

use std::time::Duration;

use windrow_core::queue::{Error, Refused};

/// Why an attempt brought no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Missed {
    /// The request did not leave, or not whole.
    NotSent(String),
    /// It left, and no answer came back.
    Lost(String),
    /// The server has too much to do.
    Overloaded { retry_after_ms: u64 },
    /// The server said that it wrote nothing, for a reason that may pass.
    NotApplied { why: String, retry_after_ms: Option<u64> },
    /// The server does not know whether it was written.
    Unknown { why: String, retry_after_ms: Option<u64> },
    /// The answer is no.
    Refused(Refused),
}

impl Missed {
    /// What a server means that says no, by its code.
    pub fn by(refused: Refused) -> Missed {
        let Refused { code, message: why, retry_after_ms } = refused;
        match &*code {
            "overloaded" => Missed::Overloaded { retry_after_ms: retry_after_ms.unwrap_or(0) },
            "stopping" | "store_failed" | "timeout" => Missed::NotApplied { why, retry_after_ms },
            "outcome_unknown" => Missed::Unknown { why, retry_after_ms },
            _ => Missed::Refused(Refused { code, message: why, retry_after_ms }),
        }
    }
}

/// The attempts of one call.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    failed: u32,
    /// It only looks, so that nothing of it can be written.
    only_looks: bool,
    /// An attempt may have been done.
    is_unknown: bool,
}

/// What to do now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    Again { after: Duration },
    End(Error),
}

const FIRST_MS: u64 = 20;
const LAST_MS: u64 = 2_000;

impl Attempts {
    /// Those of a call that writes nothing.
    pub fn of_looking() -> Attempts {
        Attempts { only_looks: true, ..Attempts::default() }
    }

    /// What follows an attempt that was missed, with so much time left. `jitter` is anywhere from 0
    /// to 1: clients that lost their server together come back one by one.
    pub fn after(&mut self, missed: Missed, left: Duration, jitter: f64) -> Next {
        let asked_ms = match &missed {
            Missed::Refused(refused) => return Next::End(Error::Refused(refused.clone())),
            Missed::Lost(_) => {
                self.is_unknown = true;
                None
            }
            Missed::Unknown { retry_after_ms, .. } => {
                self.is_unknown = true;
                *retry_after_ms
            }
            Missed::NotSent(_) => None,
            Missed::NotApplied { retry_after_ms, .. } => *retry_after_ms,
            Missed::Overloaded { retry_after_ms } => Some(*retry_after_ms),
        };
        let doubled_ms = FIRST_MS.saturating_mul(1 << self.failed.min(16)).min(LAST_MS);
        self.failed += 1;
        let wait_ms = match asked_ms {
            // Not before it was asked for, and not everybody at that moment.
            Some(ms) => ms as f64 + doubled_ms as f64 * jitter,
            None => doubled_ms as f64 * (0.5 + jitter / 2.0),
        };
        let after = Duration::from_micros((wait_ms * 1e3) as u64);
        if after < left { Next::Again { after } } else { Next::End(self.told(missed)) }
    }

    /// What the caller is told at the end.
    fn told(&self, missed: Missed) -> Error {
        let why = match missed {
            Missed::Refused(refused) => return Error::Refused(refused),
            Missed::Overloaded { retry_after_ms } if !self.is_unknown => {
                return Error::Overloaded { retry_after_ms };
            }
            Missed::Overloaded { .. } => "the server has too much to do".to_owned(),
            Missed::NotSent(why) | Missed::Lost(why) => why,
            Missed::NotApplied { why, .. } | Missed::Unknown { why, .. } => why,
        };
        match self.is_unknown && !self.only_looks {
            true => Error::OutcomeUnknown(why),
            false => Error::NotApplied(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn again(next: Next) -> Duration {
        let Next::Again { after } = next else { panic!("{next:?}") };
        after
    }

    #[test]
    fn waits_double_up_to_a_cap_and_stay_within_their_jitter() {
        let mut attempts = Attempts::default();
        let mut waits = Vec::new();
        for _ in 0..9 {
            waits.push(again(attempts.after(Missed::NotSent("x".into()), LONG, 1.0)).as_millis());
        }
        assert_eq!(waits, [20, 40, 80, 160, 320, 640, 1280, 2000, 2000]);
        let least = again(Attempts::default().after(Missed::Lost("x".into()), LONG, 0.0));
        assert_eq!(least.as_millis(), 10);
    }

    #[test]
    fn a_server_that_says_when_is_not_asked_before() {
        let busy = Missed::Overloaded { retry_after_ms: 700 };
        let least = again(Attempts::default().after(busy.clone(), LONG, 0.0));
        assert_eq!(least.as_millis(), 700);
        let left = Duration::from_millis(700);
        let next = Attempts::default().after(busy, left, 0.0);
        assert_eq!(next, Next::End(Error::Overloaded { retry_after_ms: 700 }));
    }

    #[test]
    fn what_was_once_lost_stays_unknown_whatever_follows() {
        let mut attempts = Attempts::default();
        again(attempts.after(Missed::Lost("cut".into()), LONG, 0.5));
        let end = attempts.after(Missed::NotSent("refused".into()), Duration::ZERO, 0.5);
        assert_eq!(end, Next::End(Error::OutcomeUnknown("refused".into())));
        let never = Attempts::default().after(Missed::NotSent("x".into()), Duration::ZERO, 0.5);
        assert_eq!(never, Next::End(Error::NotApplied("x".into())));
        let looked = Attempts::of_looking().after(Missed::Lost("x".into()), Duration::ZERO, 0.5);
        assert_eq!(looked, Next::End(Error::NotApplied("x".into())));
    }

    #[test]
    fn a_refusal_is_an_answer() {
        let (code, message) = ("lease_lost".into(), "it expired".to_owned());
        let refused = Refused { code, message, retry_after_ms: None };
        let next = Attempts::default().after(Missed::Refused(refused.clone()), LONG, 0.5);
        assert_eq!(next, Next::End(Error::Refused(refused)));
    }
}
