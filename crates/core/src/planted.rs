//! Planted bugs: mistakes that the suites must catch, or the suites prove nothing.
//!
//! Without the feature `planted` every question is answered "no" at compile time. With it, a test
//! switches one bug on for its own thread.

macro_rules! bugs {
    ($($(#[doc = $doc:literal])* $bug:ident,)*) => {
        /// A mistake that a suite must catch.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Bug { $($(#[doc = $doc])* $bug,)* }

        impl Bug {
            /// All of them.
            pub const ALL: &[Bug] = &[$(Bug::$bug,)*];

            /// What it does wrong, in words.
            pub fn describe(self) -> &'static str {
                match self { $(Bug::$bug => concat!($($doc,)*).trim_ascii(),)* }
            }
        }
    };
}

bugs! {
    /// Answers before the group is on disk.
    AckBeforeSync,
    /// Answers a command before the group it was decided in, a refusal for one.
    AnswerBeforeGroup,
    /// Settles without looking at the lease.
    SettleWithoutLease,
    /// Accepts a lease that has expired but was not reclaimed yet.
    SettleAfterExpiry,
    /// Takes back an item by its id although its lease was renewed.
    ReclaimById,
    /// Publishes where a moved record is before it is on disk.
    MoveBeforeDurable,
    /// Takes the copy of a body although its item ended and came back since it was made.
    StaleCopyTaken,
    /// Drops a segment that the last durable snapshot still needs.
    DropBeforeSnapshot,
    /// Counts a child twice when its ordinal is repeated.
    ChildCountedTwice,
    /// Takes a parent past a stage that it has to pass again, for a child of a later one.
    ReopenedTooFar,
    /// Counts the attempt when it settles instead of before the hand-out.
    AttemptNotCounted,
    /// Forgets the successor of an item that fails.
    SuccessorLostOnFailure,
    /// Hands out a delayed item at once.
    DelayIgnored,
    /// Keeps a group's place taken after a settle.
    GroupLeaks,
    /// Goes on after a failed sync as if the data were there.
    SyncFailureIgnored,
    /// Takes a torn group for a whole one.
    TornGroupAccepted,
    /// Hands out items below a cancelled ancestor.
    CancelledStillClaimed,
    /// Starts a second item of a key that is being worked on.
    KeyRunsTwice,
    /// Lets retention take live items of an old tree.
    RetentionTakesLive,
    /// Keeps what queues keep by default, whatever is said for every queue.
    KeepingUnheard,
    /// Keeps the pause of a queue only in memory.
    PauseForgotten,
    /// Gives a second pardon, so a poison item never runs out of attempts.
    PardonedForEver,
    /// Leaves no delivery when an item is cancelled.
    EndingUntold,
    /// Wakes one waiter however much work arrived.
    OneWakeUp,
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Whether this thread runs with the bug.
    pub fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Runs `f` on this thread with a bug planted.
    pub fn with_bug<T>(bug: Bug, f: impl FnOnce() -> T) -> T {
        struct Unplant;
        impl Drop for Unplant {
            fn drop(&mut self) {
                PLANTED.set(None);
            }
        }
        PLANTED.set(Some(bug));
        let _unplant = Unplant;
        f()
    }
}

#[cfg(feature = "planted")]
pub use switch::{is_planted, with_bug};

/// Whether this thread runs with the bug: never, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is_planted(_: Bug) -> bool {
    false
}
