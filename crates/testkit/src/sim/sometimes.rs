//! Sometimes: rare things that must have happened, or a clean run proves little.

use std::fmt;

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// How often what happened.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Sometimes { $($(#[doc = $doc])* pub $name: u64,)* }

        impl Sometimes {
            /// Adds what another run saw.
            pub fn add(&mut self, other: &Sometimes) {
                $(self.$name += other.$name;)*
            }

            /// All of them: name, count, and what it means.
            pub fn all(&self) -> Vec<(&'static str, u64, &'static str)> {
                vec![$((stringify!($name), self.$name, concat!($($doc,)*).trim_ascii()),)*]
            }
        }
    };
}

counters! {
    /// Commands that were answered.
    answered,
    /// Items that were handed out.
    claimed,
    /// Power cuts.
    power_cuts,
    /// Processes that were killed.
    kills,
    /// Power cuts in the middle of a recovery.
    cuts_in_recovery,
    /// Crashes whose outcome was compared with every state between two syncs.
    compared,
    /// Of these, how many kept what was not acknowledged.
    compared_kept,
    /// Stores that stopped after a failed write or sync.
    poisoned,
    /// Snapshots that were published.
    snapshots,
    /// Segments that were dropped or recycled.
    segments_dropped,
    /// Torn groups that were cut off.
    torn_tails,
    /// Directories that a full check found in order.
    checked,
    /// Enqueues that were refused because the disk was full.
    refused_disk,
    /// Enqueues that were refused because memory was full.
    refused_memory,
    /// Leases that got more time after a start or a gap.
    grace,
    /// Items that were taken back from expired leases.
    reclaimed,
    /// Items that were handed out alone.
    alone,
    /// Successors that got their turn.
    promoted,
    /// Parents whose last child ended.
    joined,
    /// Parents that wait again because a child runs again.
    reopened,
    /// Items that were cancelled.
    cancelled,
    /// Items that ended because something above them was cancelled.
    swept,
    /// Trees that were folded.
    folded,
    /// Items that retention removed.
    removed,
    /// Ended items that ran again.
    reset,
    /// Items that were restarted from a stage.
    restarted,
    /// Items that were copied.
    cloned,
    /// Trees that were deleted.
    deleted,
    /// Waiting items that a newer one replaced.
    replaced,
    /// Requests that were sent again and got their first answer.
    requests_repeated,
    /// Unanswered batches of which nothing was left.
    batches_lost,
    /// Unanswered batches of which everything was there.
    batches_kept,
    /// Clients that went away in the middle of something.
    clients_dropped,
    /// Claims that were woken.
    woken,
    /// Claims that were woken and found nothing.
    woken_in_vain,
    /// Waiting claims that were checked while nothing was under way.
    waiters_checked,
    /// Moments in which work arrived for several that waited.
    arrivals_checked,
}

impl Sometimes {
    /// What never happened although it should have in a long run.
    pub fn never(&self) -> Vec<&'static str> {
        let all = self.all().into_iter();
        let optional = ["woken_in_vain"];
        all.filter(|(name, count, _)| *count == 0 && !optional.contains(name))
            .map(|(name, ..)| name)
            .collect()
    }
}

impl fmt::Display for Sometimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (_, count, meaning) in self.all() {
            writeln!(f, "  {count:>10}  {meaning}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_happened_is_named() {
        let mut seen = Sometimes::default();
        assert!(seen.never().contains(&"snapshots"));
        seen.add(&Sometimes { snapshots: 2, ..Sometimes::default() });
        assert!(!seen.never().contains(&"snapshots"));
        assert!(seen.to_string().contains("Snapshots that were published."));
    }
}
