//! Stories: what became of one item, in the order in which it was decided.

use windrow_core::command::EnqueueOutcome;
use windrow_core::trail::Ending;
use windrow_core::{ItemId, LeaseId, Timestamp};

use super::Ledger;

/// One line of a story.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The operation of the simulation in which it became known.
    pub op: u64,
    pub at: Timestamp,
    /// None if it is about all items.
    pub item: Option<ItemId>,
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum What {
    Enqueued {
        outcome: EnqueueOutcome,
        number: u64,
    },
    /// It was seen for the first time in a claim or a check.
    Learned {
        number: u64,
    },
    Claimed {
        lease: LeaseId,
        attempt: u16,
    },
    Settled {
        lease: LeaseId,
        ending: Ending,
    },
    Refused {
        code: &'static str,
    },
    /// A command that concerns it was not answered.
    Lost {
        verb: &'static str,
    },
    Cancelled {
        ongoing: bool,
    },
    Retried,
    Deleted,
    /// The lease that held it may have been reclaimed.
    Expired,
    /// It is not in the store any more, which is allowed.
    Gone,
    Crash,
    Opened,
}

impl Ledger {
    pub(super) fn tell(&mut self, item: Option<ItemId>, what: What) {
        let (op, at) = (self.op, self.now);
        self.story.push(Line { op, at, item, what });
    }

    /// What became of an item and of those above it, and when the process died.
    pub fn story(&self, item: ItemId) -> Vec<Line> {
        let mut cast = vec![item];
        while let Some(parent) = cast.last().and_then(|id| self.facts.get(id)?.parent) {
            cast.push(parent);
        }
        let about = |line: &&Line| line.item.is_none_or(|id| cast.contains(&id));
        let first =
            self.story.iter().position(|line| line.item.is_some_and(|id| cast.contains(&id)));
        let lines = self.story.iter().skip(first.unwrap_or(self.story.len()));
        lines.filter(about).copied().collect()
    }
}
