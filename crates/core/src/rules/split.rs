//! Split: an item's work continues in its children.
//!
//! Children are created in the same commit, in slices while the holder announces more. An ordinal
//! of an earlier slice is ignored, so a repeated slice is harmless; one that stands twice in the
//! same slice is refused, because the second child would be lost. The item then waits, in no lane
//! and under no lease, until its last child has ended; [`super::roll_up`] joins it.

use crate::change::{Change, Changes, Created};
use crate::command::{NewChild, Settled};
use crate::id::{ItemId, LeaseId};
use crate::item::{Body, Item, Marks, Place, State};
use crate::ledger::Ledger;
use crate::limits::{COMMAND_ITEMS_MAX, DEPTH_MAX, ORDINAL_MAX, PRIORITY_MAX};
use crate::planted::{Bug, is_planted};
use crate::refusal::Refusal;
use crate::rules::Decision;
use crate::rules::enqueue::{check_blob, refer, validate_body};
use crate::rules::roll_up::{Moved, roll_up};
use crate::rules::settle::{Holder, Step, again, check_len, holder};
use crate::tally::{OnGaps, Share, Tally};
use crate::time::Timestamp;
use crate::trail::Ending;
use crate::transitions::Event;

/// A slice of children, and the ids that they will have.
pub(crate) struct Slice {
    pub(crate) children: Vec<NewChild>,
    pub(crate) ids: Vec<ItemId>,
    pub(crate) more: bool,
    pub(crate) on_gaps: OnGaps,
    pub(crate) output: Option<Vec<u8>>,
}

/// Creates a slice of children; with the last slice the item begins to wait for them.
pub(crate) fn split<L: Ledger>(
    ledger: &L,
    lease: LeaseId,
    id: ItemId,
    slice: Slice,
    now: Timestamp,
) -> Decision<Settled> {
    let (item, lease) = match holder(ledger, lease, id, now)? {
        Holder::Current(item, lease) => (item, lease),
        Holder::Settled(ending) => return again(id, ending, &[Ending::Split]),
    };
    check(&item, &slice)?;
    let before = item.has(Marks::PARENT).then(|| ledger.tally(id).cloned()).flatten();
    let mut tally = match &before {
        Some(tally) => Tally { stage: item.stage, on_gaps: slice.on_gaps, ..tally.clone() },
        None => Tally::new(item.stage, slice.on_gaps),
    };
    tally.more = slice.more;
    let mut changes = Changes::default();
    create(ledger, &item, slice.children, &slice.ids, &mut tally, now, &mut changes)?;
    let marks = item.marks.with(Marks::PARENT);
    let settled = Settled { id, ending: Ending::Split };
    if slice.more {
        let moved = Moved {
            before: Some(item),
            after: Item { marks, ..item },
            tally_before: before.map(Box::new),
            tally_after: Some(Box::new(tally)),
        };
        roll_up(ledger, moved, Event::Split, None, now, &mut changes)?;
        return Ok((settled, changes));
    }
    let mut step = Step::new(ledger, item, lease, now)?;
    step.item = Item { state: State::Split, marks, ..item };
    step.trail.stage_mut(item.stage).output = slice.output;
    step.trail.stage_mut(item.stage).error = None;
    step.wait_for_children(before, tally, &mut changes)?;
    Ok((settled, changes))
}

fn check(item: &Item, slice: &Slice) -> Result<(), Refusal> {
    if slice.children.len() > COMMAND_ITEMS_MAX {
        let why = format!("at most {COMMAND_ITEMS_MAX} in one slice; say there is more");
        return Err(Refusal::invalid("children", why));
    }
    if item.level() + 1 >= DEPTH_MAX && !slice.children.is_empty() {
        return Err(Refusal::invalid("children", "a tree has at most 8 levels"));
    }
    if slice.children.iter().any(|child| child.ordinal > ORDINAL_MAX) {
        return Err(Refusal::invalid("ordinal", "must be below 2^28"));
    }
    if let Some(ordinal) = twice(&slice.children) {
        let why = format!("the ordinal {ordinal} is there twice; each child has its own");
        return Err(Refusal::invalid("children", why));
    }
    if slice.children.iter().any(|child| child.priority > Some(PRIORITY_MAX)) {
        return Err(Refusal::invalid("priority", "must lie between 0 and 10"));
    }
    check_len("output", slice.output.as_deref())
}

/// An ordinal that two of these children have.
fn twice(children: &[NewChild]) -> Option<u32> {
    let mut ordinals: Vec<u32> = children.iter().map(|child| child.ordinal).collect();
    ordinals.sort_unstable();
    ordinals.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

fn create<L: Ledger>(
    ledger: &L,
    parent: &Item,
    children: Vec<NewChild>,
    ids: &[ItemId],
    tally: &mut Tally,
    now: Timestamp,
    changes: &mut Changes,
) -> Result<(), Refusal> {
    let (tenant, queue) = ledger.names(parent);
    let level = parent.level() + 1;
    for (child, id) in children.into_iter().zip(ids) {
        let ordinal = Place::ordinal(parent.stage, child.ordinal);
        if ledger.child(parent.id, parent.generation, ordinal).is_some() {
            if is_planted(Bug::ChildCountedTwice) {
                tally.add(&Share::newborn(&child.route, level));
            }
            continue;
        }
        let place = Place { parent: parent.id, generation: parent.generation, ordinal, level };
        let priority = child.priority.unwrap_or(parent.priority);
        let body = Body {
            kind: child.kind,
            op: child.op,
            group: child.group,
            route: child.route,
            content_type: child.content_type,
            payload: child.payload,
            metadata: child.metadata,
            reference: child.reference,
            ..Body::new(tenant.clone(), queue.clone())
        };
        validate_body(&body)?;
        check_blob(ledger, &body)?;
        refer(ledger, &body, 1, changes);
        tally.add(&Share::newborn(&body.route, level));
        let state = State::Pending { not_before: now };
        let place = Some(place);
        let created = Created { id: *id, body, priority, state, stage: 0, place, trail: None };
        changes.push(Change::Create(Box::new(created)));
    }
    Ok(())
}
