//! The invariants, numbered, and the checks that hold them up in tests and in production.
//!
//! - **Q1** At most one live lease holds an item.
//! - **Q2** Only the current lease writes.
//! - **Q3** Nothing acknowledged is lost.
//! - **Q4** A leased item has been attempted, and the attempt was durable before the hand-out.
//! - **Q5** A parent's counts equal a recount of its children at every commit.
//! - **Q6** An ended item never moves again, except by an operator's retry of it or a descendant.
//! - **Q7** Retention touches only ended trees.
//!
//! Q1 holds by construction: the lease is inside the state. Q3 is the stores' to keep and the
//! crash suites' to prove.

use crate::id::ItemId;
use crate::item::{Item, Marks, State};
use crate::ledger::Ledger;
use crate::tally::{Share, Tally};
use crate::transitions::{Event, is_allowed};

/// Asserts that an item may become what it becomes. Stores call it for every item they write.
pub fn check_step(before: &Item, after: &Item, event: Event) {
    assert!(
        is_allowed(&before.state, event, &after.state),
        "Q6: {:?} does not become {:?} by {event:?}",
        before.state,
        after.state
    );
    assert_eq!(before.id, after.id, "a step is about one item");
    check_item(after);
}

/// Asserts what holds for any item at any time.
pub fn check_item(item: &Item) {
    if matches!(item.state, State::Leased { .. }) {
        assert!(item.attempts >= 1, "Q4: a leased item has been attempted");
    }
    let split = matches!(item.state, State::Split);
    assert!(!split || item.has(Marks::PARENT), "Q5: a split item has counts");
    assert!(!item.is_done() || !item.has(Marks::SUCCEEDED), "an ended item lets its successor go");
}

/// The counts of a parent, from its children: what its tally must equal (Q5).
///
/// Returns none if a child cannot be read any more, for instance after folding.
pub fn recount<L: Ledger>(ledger: &L, parent: &Item) -> Option<Tally> {
    let known = ledger.tally(parent.id)?;
    let mut tally = Tally::new(known.stage, known.on_gaps);
    tally.more = known.more;
    for id in ledger.children(parent.id, parent.generation, 0, usize::MAX) {
        let child = ledger.item(id).ok()??;
        let below = if child.has(Marks::PARENT) { recount(ledger, &child) } else { None };
        tally.add(&Share::of(&child, ledger.route(&child), below.as_ref()));
    }
    Some(tally)
}

/// Asserts Q5 for one parent: its tally equals a recount, in whatever order phases appeared.
pub fn check_tally<L: Ledger>(ledger: &L, parent: ItemId) {
    let Ok(Some(item)) = ledger.item(parent) else {
        return;
    };
    let (Some(known), Some(counted)) = (ledger.tally(parent), recount(ledger, &item)) else {
        return;
    };
    assert_eq!(sorted(known.clone()), sorted(counted), "Q5: counts of {parent} equal a recount");
}

/// The same tally with phases and levels in one order and without empty ones.
pub fn sorted(mut tally: Tally) -> Tally {
    tally.phases.retain(|(_, counts)| counts.total() > 0);
    tally.levels.retain(|level| level.counts.total() > 0);
    tally.phases.sort_by(|a, b| a.0.cmp(&b.0));
    tally.levels.sort_by(|a, b| (a.level, &a.phase).cmp(&(b.level, &b.phase)));
    tally
}
