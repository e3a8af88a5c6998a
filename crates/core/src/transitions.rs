//! The state machine, as a table.
//!
//! Every change of an item's state is one row. Stores look a change up before they write it, the
//! diagram in the documentation is drawn from it, and a test demands that whatever is not in it is
//! refused.

use std::fmt::Write;

use crate::item::{End, State};

/// A state without what it carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Node {
    Pending,
    Held,
    Leased,
    Split,
    Completed,
    Failed,
    Cancelled,
    Skipped,
}

/// What led to a change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    Claim,
    /// A stage is done and the next one waits.
    Advance,
    Complete,
    Split,
    /// All children ended.
    Join,
    Retry,
    Fail,
    Skip,
    Release,
    Snooze,
    /// The lease ran out.
    Expire,
    Cancel,
    /// An operator runs an ended item again, or one at once that waits for its time.
    Reset,
    /// An operator runs an item again from an earlier stage, with new children.
    Restart,
    /// A descendant runs again, so the item waits for its children again.
    Reopen,
    /// The item ahead with the same key ended.
    Promote,
    /// A newer enqueue of its key replaced what the producer said.
    Replace,
    Prioritise,
    /// A fact about it changed and its state did not.
    Mark,
}

impl Event {
    pub const ALL: [Event; 19] = {
        use Event::*;
        [
            Claim, Advance, Complete, Split, Join, Retry, Fail, Skip, Release, Snooze, Expire,
            Cancel, Reset, Restart, Reopen, Promote, Replace, Prioritise, Mark,
        ]
    };

    /// The word for it, as listeners read it.
    pub const fn name(self) -> &'static str {
        match self {
            Event::Claim => "claim",
            Event::Advance => "advance",
            Event::Complete => "complete",
            Event::Split => "split",
            Event::Join => "join",
            Event::Retry => "retry",
            Event::Fail => "fail",
            Event::Skip => "skip",
            Event::Release => "release",
            Event::Snooze => "snooze",
            Event::Expire => "expire",
            Event::Cancel => "cancel",
            Event::Reset => "reset",
            Event::Restart => "restart",
            Event::Reopen => "reopen",
            Event::Promote => "promote",
            Event::Replace => "replace",
            Event::Prioritise => "prioritise",
            Event::Mark => "mark",
        }
    }

    pub fn parse(word: &str) -> Option<Event> {
        Event::ALL.into_iter().find(|event| event.name() == word)
    }
}

/// Every change of state that exists.
pub const TRANSITIONS: &[(Node, Event, Node)] = {
    use Event::*;
    use Node::{Cancelled, Completed, Failed, Held, Leased, Pending, Skipped};
    const SPLIT: Node = Node::Split;
    &[
        (Pending, Claim, Leased),
        (Leased, Advance, Pending),
        (Leased, Complete, Completed),
        (Leased, Split, SPLIT),
        (Leased, Split, Leased),
        (SPLIT, Join, Pending),
        (SPLIT, Join, Completed),
        (SPLIT, Join, Failed),
        (SPLIT, Join, Cancelled),
        (Leased, Join, Pending),
        (Leased, Join, Completed),
        (Leased, Join, Failed),
        (Leased, Retry, Pending),
        (Leased, Fail, Failed),
        (Leased, Skip, Pending),
        (Leased, Skip, Completed),
        (Leased, Skip, Skipped),
        (Leased, Release, Pending),
        (Leased, Snooze, Pending),
        (Leased, Expire, Pending),
        (Leased, Expire, Failed),
        (Pending, Cancel, Cancelled),
        (Held, Cancel, Cancelled),
        (Leased, Cancel, Cancelled),
        (Leased, Cancel, SPLIT),
        (Pending, Cancel, SPLIT),
        (SPLIT, Cancel, SPLIT),
        (SPLIT, Cancel, Cancelled),
        (Failed, Reset, Pending),
        (Cancelled, Reset, Pending),
        (Pending, Reset, Pending),
        (SPLIT, Restart, Pending),
        (Completed, Restart, Pending),
        (Failed, Restart, Pending),
        (Cancelled, Restart, Pending),
        (Skipped, Restart, Pending),
        (SPLIT, Reopen, SPLIT),
        (Pending, Reopen, SPLIT),
        (Leased, Reopen, SPLIT),
        (Completed, Reopen, SPLIT),
        (Failed, Reopen, SPLIT),
        (Cancelled, Reopen, SPLIT),
        (Held, Promote, Pending),
        (Pending, Replace, Pending),
        (Held, Replace, Held),
        (Pending, Prioritise, Pending),
        (Held, Prioritise, Held),
        (Leased, Prioritise, Leased),
        (SPLIT, Prioritise, SPLIT),
        (Pending, Mark, Pending),
        (Held, Mark, Held),
        (Leased, Mark, Leased),
        (SPLIT, Mark, SPLIT),
    ]
};

impl From<&State> for Node {
    fn from(state: &State) -> Node {
        match state {
            State::Pending { .. } => Node::Pending,
            State::Held { .. } => Node::Held,
            State::Leased { .. } => Node::Leased,
            State::Split => Node::Split,
            State::Done(End::Completed) => Node::Completed,
            State::Done(End::Failed) => Node::Failed,
            State::Done(End::Cancelled) => Node::Cancelled,
            State::Done(End::Skipped) => Node::Skipped,
        }
    }
}

/// Whether the table has this row.
pub fn is_allowed(from: &State, event: Event, to: &State) -> bool {
    TRANSITIONS.contains(&(from.into(), event, to.into()))
}

/// The table as a Mermaid state diagram, for the documentation.
pub fn diagram() -> String {
    let mut out = String::from("stateDiagram-v2\n    [*] --> Pending: enqueue\n");
    out.push_str("    [*] --> Held: enqueue, key in use\n");
    let drawn = |event: &Event| !matches!(event, Event::Mark | Event::Prioritise);
    for (from, event, to) in TRANSITIONS.iter().filter(|(_, event, _)| drawn(event)) {
        let _ = writeln!(out, "    {from:?} --> {to:?}: {}", event.name());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_item_moves_only_by_an_operators_retry() {
        let ended = [Node::Completed, Node::Failed, Node::Cancelled, Node::Skipped];
        for (from, event, _) in TRANSITIONS.iter().filter(|(from, ..)| ended.contains(from)) {
            let verbs = [Event::Reset, Event::Restart, Event::Reopen];
            assert!(verbs.contains(event), "{from:?} moves by {event:?}");
        }
    }

    #[test]
    fn every_event_has_a_word_of_its_own() {
        for (_, event, _) in TRANSITIONS {
            assert_eq!(Event::parse(event.name()), Some(*event));
        }
    }

    #[test]
    fn no_row_stands_twice() {
        for (index, row) in TRANSITIONS.iter().enumerate() {
            assert!(!TRANSITIONS[..index].contains(row), "{row:?}");
        }
    }

    #[test]
    fn only_a_claim_leads_into_a_lease_from_outside() {
        for (from, event, to) in TRANSITIONS {
            if *to == Node::Leased && *from != Node::Leased {
                assert_eq!(*event, Event::Claim);
            }
        }
    }
}
