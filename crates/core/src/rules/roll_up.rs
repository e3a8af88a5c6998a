//! Roll up: a change of one item, carried to everything above it in the same commit.
//!
//! Takes the item's old share from its parent's tally and adds the new one, and so on up to the
//! root: O(depth), whatever the number of children. A parent whose last child ended joins here; a
//! parent of a child that runs again is reopened here.

use crate::change::{Change, Changes};
use crate::item::{End, Item, Marks, State, Status};
use crate::ledger::Ledger;
use crate::planted::{Bug, is_planted};
use crate::refusal::Refusal;
use crate::rules::retry;
use crate::rules::settle::{end, entering};
use crate::tally::{OnGaps, Share, Tally};
use crate::time::Timestamp;
use crate::trail::{Class, Fault, Trail};
use crate::transitions::Event;

/// One item before and after a change, with its tallies if it has children.
pub(crate) struct Moved {
    /// None if it begins to exist.
    pub(crate) before: Option<Item>,
    pub(crate) after: Item,
    pub(crate) tally_before: Option<Box<Tally>>,
    pub(crate) tally_after: Option<Box<Tally>>,
}

impl Moved {
    /// A move that leaves the item's own tally as it is.
    pub(crate) fn new<L: Ledger>(ledger: &L, before: Option<Item>, after: Item) -> Moved {
        let of = |item: &Item| {
            let known = if item.has(Marks::PARENT) { ledger.tally(item.id) } else { None };
            known.cloned().map(Box::new)
        };
        let tally_before = before.as_ref().and_then(of);
        let tally_after = of(&after);
        Moved { before, after, tally_before, tally_after }
    }

    /// The stage of the parent in which it was created, if it had ended and runs again.
    fn runs_again(&self) -> Option<u8> {
        let had_ended = self.before.as_ref().is_some_and(Item::is_done);
        let stage = self.after.place.map(|place| place.stage());
        stage.filter(|_| had_ended && !self.after.is_done())
    }
}

/// Writes a moved item, and everything above it that its move changes.
///
/// `trail` is the item's new trail, if it has one to write.
pub(crate) fn roll_up<L: Ledger>(
    ledger: &L,
    mut moved: Moved,
    event: Event,
    mut trail: Option<Trail>,
    now: Timestamp,
    changes: &mut Changes,
) -> Result<(), Refusal> {
    let mut event = event;
    loop {
        if moved.after.state == State::Split
            && let Some(tally) = &moved.tally_after
            && tally.is_over()
        {
            let mut own = match trail.take() {
                Some(own) => own,
                None => ledger.trail(&moved.after)?,
            };
            join(ledger, &mut moved.after, tally, &mut own, now, changes)?;
            if event != Event::Cancel {
                event = Event::Join;
            }
            trail = Some(own);
        }
        write(&moved, event, trail.take(), changes);
        let Some((parent, tally)) = above(ledger, &moved.after)? else {
            return Ok(());
        };
        let runs_again = moved.runs_again();
        moved = carry(ledger, &moved, parent, tally);
        event = Event::Mark;
        if let Some(stage) = runs_again
            && let Some(rewound) = reopen(ledger, stage, &mut moved)?
        {
            event = Event::Reopen;
            trail = Some(rewound);
        }
    }
}

/// The parent of an item and its counts, unless the item belongs to a generation that is over.
fn above<L: Ledger>(ledger: &L, item: &Item) -> Result<Option<(Item, Box<Tally>)>, Refusal> {
    let Some(place) = item.place else {
        return Ok(None);
    };
    let Some(parent) = ledger.item(place.parent)? else {
        return Ok(None);
    };
    if parent.generation != place.generation || !parent.has(Marks::PARENT) {
        return Ok(None);
    }
    let tally = ledger.tally(parent.id).cloned().ok_or(Refusal::Internal)?;
    Ok(Some((parent, Box::new(tally))))
}

/// The parent's move that follows from its child's.
fn carry<L: Ledger>(ledger: &L, child: &Moved, parent: Item, tally: Box<Tally>) -> Moved {
    let route = ledger.route(&child.after);
    let mut after = tally.clone();
    if let Some(before) = &child.before {
        after.take(&Share::of(before, route, child.tally_before.as_deref()));
    }
    after.add(&Share::of(&child.after, route, child.tally_after.as_deref()));
    Moved {
        before: Some(parent),
        after: parent,
        tally_before: Some(tally),
        tally_after: Some(after),
    }
}

/// Writes an item that changed, before it its trail and its counts if they changed: a store that
/// sees an item end has seen all that it ends with.
fn write(moved: &Moved, event: Event, trail: Option<Trail>, changes: &mut Changes) {
    let same = moved.before.as_ref() == Some(&moved.after);
    if let Some(trail) = trail {
        changes.trail(moved.after.id, trail);
    }
    if moved.tally_after != moved.tally_before
        && let Some(tally) = &moved.tally_after
    {
        let tally = tally.clone();
        changes.push(Change::Tally { id: moved.after.id, tally });
    }
    if moved.before.is_some() && !(same && event == Event::Mark) {
        changes.item(moved.after, event);
    }
}

/// All children ended: on to the next stage, or to the end.
fn join<L: Ledger>(
    ledger: &L,
    item: &mut Item,
    tally: &Tally,
    trail: &mut Trail,
    now: Timestamp,
    changes: &mut Changes,
) -> Result<(), Refusal> {
    let next = tally.stage + 1;
    if item.has(Marks::CANCELLING) {
        item.marks = item.marks.without(Marks::CANCELLING);
        item.state = State::Done(End::Cancelled);
    } else if tally.on_gaps == OnGaps::Stop && tally.failed() > 0 {
        let (failed, total) = (tally.failed(), tally.children.total());
        let fault = Fault::new(Class::Children, format!("{failed} of {total} children failed"));
        let record = trail.stage_mut(tally.stage);
        record.error = Some(fault);
        record.status = Status::Failed;
        item.state = State::Done(End::Failed);
    } else if usize::from(next) < ledger.route(item).len() {
        *item = entering(*item, next, now);
        return Ok(());
    } else {
        item.state = State::Done(End::Completed);
    }
    end(ledger, item, Some(tally), trail, now, changes)
}

/// A parent that went on waits again if a child that it made in `stage` runs again. Returns its
/// trail, back at that stage; none if it waits there anyway, or earlier: then it comes by again.
fn reopen<L: Ledger>(ledger: &L, stage: u8, parent: &mut Moved) -> Result<Option<Trail>, Refusal> {
    let Some(tally) = &mut parent.tally_after else {
        return Ok(None);
    };
    let item = parent.after;
    let is_ahead = item.stage < stage && !is_planted(Bug::ReopenedTooFar);
    if !item.is_done() && (item.stage == stage || is_ahead) {
        return Ok(None);
    }
    if item.is_done() {
        retry::check_key(ledger, &item)?;
    }
    tally.stage = stage;
    tally.more = false;
    let mut trail = ledger.trail(&item)?;
    trail.rewind(stage + 1);
    let record = trail.stage_mut(stage);
    if record.error.as_ref().is_some_and(|error| error.class == Class::Children) {
        record.error = None;
        record.status = Status::Completed;
    }
    let marks = item.marks.without(Marks::RETRYING).without(Marks::ALONE).without(Marks::SWEPT);
    let skipped = item.skipped & ((1u32 << (stage + 1)) - 1) as u16;
    let state = State::Split;
    parent.after = Item { state, stage, attempts: 0, deferrals: 0, skipped, marks, ..item };
    Ok(Some(trail))
}
