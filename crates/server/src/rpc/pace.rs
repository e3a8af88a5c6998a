//! How soon a caller asks again, and whether it is worth to look out for that.
//!
//! A thread that sleeps until the next request comes is woken for it, which takes about as long as
//! a quick disk takes to sync. A caller that does one thing after another asks again right after
//! its answer; if it is the only one on its thread, the thread stays awake for as long as that
//! usually takes.

use std::time::{Duration, Instant};

/// A caller that takes longer to ask again is not looked out for, and nor is any for longer.
pub(super) const LINGER: Duration = Duration::from_micros(120);
/// What is read of one caller, one after the other, before it counts as the only one.
const ALONE: u32 = 8;
/// What one pause counts at most: after a long one it takes a few short ones to be trusted again.
const PAUSE_MAX: Duration = Duration::from_millis(1);

/// The pace of one caller.
#[derive(Debug)]
pub(super) struct Pace {
    /// When it got its last answer, unless it asked since.
    answered: Option<Instant>,
    /// About how long it takes from an answer to the next request.
    pause: Duration,
    /// How often something was read of it since it was of somebody else on the same thread.
    alone: u32,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace { answered: None, pause: PAUSE_MAX, alone: 0 }
    }

    /// It asked, after somebody else on this thread or not.
    pub(super) fn asked(&mut self, is_after_another: bool, now: Instant) {
        self.alone = if is_after_another { 0 } else { self.alone.saturating_add(1) };
        if let Some(answered) = self.answered.take() {
            let pause = now.saturating_duration_since(answered).min(PAUSE_MAX);
            self.pause = (self.pause * 3 + pause) / 4;
        }
    }

    /// It got everything that it asked for.
    pub(super) fn answered(&mut self, now: Instant) {
        self.answered = Some(now);
    }

    /// Until when to look out for its next request, if that is worth it.
    pub(super) fn lingers_until(&self) -> Option<Instant> {
        let is_worth_it = self.alone >= ALONE && self.pause < LINGER;
        self.answered.filter(|_| is_worth_it).map(|answered| answered + LINGER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks and answers so often, with such a pause between them.
    fn ask(pace: &mut Pace, times: usize, pause_us: u64, is_after_another: bool) -> bool {
        let mut now = Instant::now();
        for _ in 0..times {
            pace.asked(is_after_another, now);
            now += Duration::from_micros(200);
            pace.answered(now);
            now += Duration::from_micros(pause_us);
        }
        pace.lingers_until().is_some()
    }

    #[test]
    fn a_caller_that_asks_again_at_once_is_looked_out_for_and_others_are_not() {
        assert!(ask(&mut Pace::new(), 40, 30, false));
        assert!(!ask(&mut Pace::new(), 4, 30, false), "it is not known yet");
        assert!(!ask(&mut Pace::new(), 40, 200, false), "it takes its time");
        assert!(!ask(&mut Pace::new(), 40, 30, true), "others ask too");
    }

    #[test]
    fn a_caller_that_pauses_or_is_joined_is_left_alone_until_it_is_known_again() {
        let mut pace = Pace::new();
        assert!(ask(&mut pace, 40, 30, false));
        assert!(!ask(&mut pace, 2, 5_000, false));
        assert!(ask(&mut pace, 40, 30, false));
        assert!(!ask(&mut pace, 1, 30, true));
    }

    #[test]
    fn nobody_is_looked_out_for_while_a_request_is_under_way_or_for_long() {
        let mut pace = Pace::new();
        assert!(ask(&mut pace, 40, 30, false));
        let now = Instant::now();
        pace.asked(false, now);
        assert_eq!(pace.lingers_until(), None);
        pace.answered(now);
        assert_eq!(pace.lingers_until(), Some(now + LINGER));
    }
}
