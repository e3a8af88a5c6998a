//! Cancel: an item, and everything below it, is not to be done.
//!
//! An item without children ends at once; its holder learns at the next renewal. A parent is
//! marked in O(depth): claims refuse anything below it from then on, and [`super::sweep`] ends the
//! rest in slices.

use crate::change::{Change, Changes};
use crate::command::Cancelled;
use crate::id::ItemId;
use crate::item::{End, Item, Marks, State};
use crate::ledger::Ledger;
use crate::refusal::Refusal;
use crate::rules::roll_up::{Moved, roll_up};
use crate::rules::settle::{end, record};
use crate::rules::{Decision, known};
use crate::time::Timestamp;
use crate::trail::Ending;
use crate::transitions::Event;

/// Cancels one item, because somebody asked for it.
pub fn cancel<L: Ledger>(ledger: &L, id: ItemId, now: Timestamp) -> Decision<Cancelled> {
    stop(ledger, id, Marks::default(), now)
}

/// Cancels one item, because something above it was cancelled.
pub(crate) fn cancel_below<L: Ledger>(
    ledger: &L,
    id: ItemId,
    now: Timestamp,
) -> Decision<Cancelled> {
    stop(ledger, id, Marks::SWEPT, now)
}

fn stop<L: Ledger>(ledger: &L, id: ItemId, why: Marks, now: Timestamp) -> Decision<Cancelled> {
    let item = known(ledger, id)?;
    if item.is_done() {
        return Err(Refusal::AlreadyDone { item: id, status: item.status() });
    }
    let mut changes = Changes::default();
    let mut after = item;
    after.marks = after.marks.without(Marks::QUARANTINED);
    let mut trail = ledger.trail(&item)?;
    if let Some(lease) = item.lease().and_then(|lease| ledger.lease(lease)) {
        record(&mut trail, &item, &lease, Ending::Cancelled, None, now);
    }
    after.marks = after.marks.with(Marks::TRAIL).with(why);
    if let State::Held { .. } = item.state {
        leave_line(ledger, &item, &mut changes)?;
    }
    let mut moved = Moved::new(ledger, Some(item), after);
    match &mut moved.tally_after {
        Some(tally) => {
            tally.more = false;
            moved.after.state = State::Split;
            moved.after.marks = moved.after.marks.with(Marks::CANCELLING);
        }
        None => {
            moved.after.state = State::Done(End::Cancelled);
            end(ledger, &mut moved.after, None, &mut trail, now, &mut changes)?;
        }
    }
    let ongoing = moved.tally_after.as_ref().is_some_and(|tally| !tally.is_over());
    roll_up(ledger, moved, Event::Cancel, Some(trail), now, &mut changes)?;
    Ok((Cancelled { id, ongoing }, changes))
}

/// A held item that ends is no longer anybody's successor.
fn leave_line<L: Ledger>(ledger: &L, held: &Item, changes: &mut Changes) -> Result<(), Refusal> {
    let body = ledger.body(held)?;
    let key = body.key.as_deref().unwrap_or_default();
    if let Some(ahead) = ledger.with_key(&body.tenant, &body.queue, key)? {
        let ahead = ledger.item(ahead)?.ok_or(Refusal::Internal)?;
        let marks = ahead.marks.without(Marks::SUCCEEDED);
        changes.item(Item { marks, ..ahead }, Event::Mark);
        changes.push(Change::Successor { of: ahead.id, is: None });
    }
    Ok(())
}
