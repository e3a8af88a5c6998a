//! The table of transitions, walked: whatever is not in it is refused or changes nothing.

use windrow_core::command::{self, Command, Outcome, RetryMode};
use windrow_core::ports::{Inspected, Store};
use windrow_core::transitions::{Event, Node, TRANSITIONS};
use windrow_core::{ItemId, LeaseId};

use super::*;

const NODES: [Node; 8] = [
    Node::Pending,
    Node::Held,
    Node::Leased,
    Node::Split,
    Node::Completed,
    Node::Failed,
    Node::Cancelled,
    Node::Skipped,
];

/// Something that anybody may ask about an item.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Claim,
    Complete,
    Split,
    Retry,
    Fail,
    Skip,
    Release,
    Snooze,
    Expire,
    Cancel,
    Reset,
    Restart,
    Replace,
    Prioritise,
}

use Verb::*;

const VERBS: [Verb; 14] = [
    Claim, Complete, Split, Retry, Fail, Skip, Release, Snooze, Expire, Cancel, Reset, Restart,
    Replace, Prioritise,
];

impl Verb {
    /// The events that a verb may lead to, for the item that it names.
    fn events(self) -> &'static [Event] {
        match self {
            Claim => &[Event::Claim],
            Complete => &[Event::Advance, Event::Complete],
            Split => &[Event::Split],
            Retry => &[Event::Retry],
            Fail => &[Event::Fail],
            Skip => &[Event::Skip],
            Release => &[Event::Release],
            Snooze => &[Event::Snooze],
            Expire => &[Event::Expire],
            Cancel => &[Event::Cancel],
            Reset => &[Event::Reset],
            Restart => &[Event::Restart],
            Replace => &[Event::Replace],
            Prioritise => &[Event::Prioritise],
        }
    }

    fn rows(self, from: Node) -> impl Iterator<Item = Node> {
        let rows = TRANSITIONS.iter().filter(move |(node, event, _)| {
            *node == from && self.events().contains(event)
        });
        rows.map(|(_, _, to)| *to)
    }
}

/// An item in some state, with the lease that it has or had.
struct Subject {
    id: ItemId,
    lease: LeaseId,
    queue: String,
    key: String,
}

/// Brings a new item into a state.
fn bring<S: Store>(bed: &Bed<S>, to: Node, queue: &str) -> Subject {
    let key = format!("key of {queue}");
    let new = || item().queue(queue).key(&key);
    let mut id = bed.add(new());
    let mut lease = LeaseId(1);
    if !matches!(to, Node::Pending | Node::Cancelled) {
        let held = bed.take_from(queue);
        lease = held.lease;
        match to {
            Node::Held => id = bed.add(new()),
            Node::Split => _ = bed.split(&held, children(0..1)),
            Node::Completed => bed.complete(&held),
            Node::Failed => _ = bed.settle(&held, fail()),
            Node::Skipped => _ = bed.settle(&held, skip()),
            _ => {}
        }
    } else if to == Node::Cancelled {
        bed.cancel(id);
    }
    assert_eq!(Node::from(&bed.item(id).state), to);
    Subject { id, lease, queue: queue.to_owned(), key }
}

/// A new item that waits for its time: what is due has nothing to gain by a retry.
fn waiting<S: Store>(bed: &Bed<S>, queue: &str) -> Subject {
    let key = format!("key of {queue}");
    let id = bed.add(item().queue(queue).key(&key).at(bed.later(60_000)));
    Subject { id, lease: LeaseId(1), queue: queue.to_owned(), key }
}

/// Asks a verb of an item, whatever comes of it.
fn ask<S: Store>(bed: &Bed<S>, verb: Verb, of: &Subject) {
    let settle = |outcome| _ = bed.try_settle_as(of.lease, of.id, outcome);
    match verb {
        Claim => _ = bed.try_claim(command::Claim::new("w", of.queue.as_str(), 1)),
        Complete => settle(Outcome::complete()),
        Split => settle(split(children(0..1))),
        Retry => settle(retry()),
        Fail => settle(fail()),
        Skip => settle(skip()),
        Release => settle(release()),
        Snooze => settle(Outcome::Snooze { until: bed.later(10) }),
        Expire => _ = bed.advance(300_000),
        Cancel => _ = bed.try_cancel(of.id),
        Reset => _ = bed.try_retry(of.id, RetryMode::Reset, None),
        Restart => _ = bed.try_retry(of.id, RetryMode::Reset, Some("work")),
        Replace => {
            let again = item().queue(&of.queue).key(&of.key).payload(b"new");
            _ = bed.try_enqueue(again.replacing());
        }
        Prioritise => _ = bed.try_prioritise(of.id, 9),
    }
}

/// What must stay as it was when a verb is refused: not who waits behind it or what is below it.
fn lasting(seen: Inspected) -> Inspected {
    let mut item = seen.item;
    item.marks = item.marks.without(windrow_core::item::Marks::SUCCEEDED);
    Inspected { item, successor: None, tally: None, ..seen }
}

cases! {
    fn whatever_is_not_in_the_table_is_refused_or_changes_nothing(bed) {
        for from in NODES {
            for verb in VERBS {
                let queue = format!("{from:?} {verb:?}");
                let subject = match (from, verb) {
                    (Node::Pending, Reset) => waiting(bed, &queue),
                    _ => bring(bed, from, &queue),
                };
                let before = lasting(bed.see(subject.id));
                ask(bed, verb, &subject);
                let after = lasting(bed.see(subject.id));
                if verb.rows(from).next().is_none() {
                    assert_eq!(after, before, "{from:?} does not change by {verb:?}");
                } else {
                    let to = Node::from(&after.item.state);
                    assert!(verb.rows(from).any(|node| node == to), "{from:?} by {verb:?}: {to:?}");
                    assert_ne!(after, before, "{from:?} changes by {verb:?}");
                }
            }
        }
    }

    fn an_ended_item_moves_only_by_an_operators_retry(bed) {
        for from in [Node::Completed, Node::Failed, Node::Cancelled, Node::Skipped] {
            let subject = bring(bed, from, &format!("{from:?}"));
            let before = bed.see(subject.id);
            for verb in VERBS.into_iter().filter(|verb| !matches!(verb, Reset | Restart | Replace))
            {
                ask(bed, verb, &subject);
            }
            bed.ask(Command::Reclaim { limit: 10 });
            bed.ask(Command::Sweep { limit: 10 });
            assert_eq!(bed.see(subject.id), before, "{from:?}");
            bed.try_retry(subject.id, RetryMode::Reset, Some("work")).expect("an operator may");
        }
    }
}
