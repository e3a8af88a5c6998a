//! Sweep and delete: what is over goes away, in slices.
//!
//! Ends what was cancelled, folds trees that ended well, and removes what is past its keeping.
//! Touches only ended trees (Q7), and counts a tree as its root.

use crate::change::{Change, Changes};
use crate::command::{Deleted, Swept};
use crate::id::ItemId;
use crate::item::{Item, Marks};
use crate::ledger::{Ending, Ledger};
use crate::limits::COMMAND_ITEMS_MAX;
use crate::planted::{Bug, is_planted};
use crate::refusal::Refusal;
use crate::rules::settle::forget;
use crate::rules::{apply, cancel, each, known, still_live};
use crate::time::Timestamp;

/// One slice of everything that is due; `more` if it used up its limit.
pub fn sweep<L: Ledger>(ledger: &mut L, limit: usize, now: Timestamp) -> Swept {
    let limit = limit.clamp(1, COMMAND_ITEMS_MAX);
    let mut swept = Swept::default();
    let mut left = limit;
    for ending in ledger.ending(left) {
        let done = end_below(ledger, ending, left, now);
        swept.cancelled += done as u32;
        left -= done.min(left);
    }
    for root in ledger.foldable(now, left) {
        if left == 0 {
            break;
        }
        if let Ok(folded) = fold(ledger, root, left, now) {
            swept.folded += u32::from(!folded.more);
            left -= (folded.removed as usize).clamp(1, left);
        }
    }
    for root in ledger.overdue(now, left) {
        if left == 0 {
            break;
        }
        if let Ok(deleted) = remove_tree(ledger, root, left, now) {
            swept.removed += deleted.removed;
            left -= (deleted.removed as usize).min(left);
        }
    }
    swept.more = left == 0;
    swept
}

/// Cancels live children of a subtree that is over; says how many.
fn end_below<L: Ledger>(ledger: &mut L, ending: Ending, limit: usize, now: Timestamp) -> usize {
    let Ending { parent, generation } = ending;
    let live = ledger.live_children(parent, generation, limit);
    let left_behind = match ledger.item(parent) {
        Ok(Some(parent)) => parent.generation != generation,
        _ => true,
    };
    if live.is_empty() && left_behind {
        ledger.apply(Change::Orphan { parent, generation, over: true }, now);
    }
    let mut done = 0;
    for child in live {
        let is_ending = |item: Item| item.has(Marks::CANCELLING);
        if ledger.item(child).ok().flatten().is_some_and(is_ending) {
            continue;
        }
        done +=
            usize::from(each(ledger, child, now, |l| cancel::cancel_below(l, child, now)).is_ok());
    }
    done
}

/// Removes what is below an ended root and, with the last of it, folds the root.
fn fold<L: Ledger>(
    ledger: &mut L,
    root: ItemId,
    limit: usize,
    now: Timestamp,
) -> Result<Deleted, Refusal> {
    let item = known(ledger, root)?;
    let mut doomed = Vec::new();
    let whole = gather_below(ledger, &item, limit, &mut doomed)?;
    remove(ledger, &doomed, now)?;
    if whole {
        ledger.apply(Change::Fold { root }, now);
    }
    Ok(Deleted { removed: doomed.len() as u32, more: !whole })
}

/// Removes an ended tree for good.
pub fn delete<L: Ledger>(ledger: &mut L, id: ItemId, now: Timestamp) -> Result<Deleted, Refusal> {
    must_be_root(ledger, id)?;
    remove_tree(ledger, id, COMMAND_ITEMS_MAX, now)
}

/// Whether a tree would be removed.
pub(super) fn may_delete<L: Ledger>(ledger: &L, id: ItemId) -> Result<(), Refusal> {
    must_be_root(ledger, id)?;
    gather(ledger, id, COMMAND_ITEMS_MAX, &mut Vec::new()).map(drop)
}

fn must_be_root<L: Ledger>(ledger: &L, id: ItemId) -> Result<(), Refusal> {
    match known(ledger, id)?.is_root() {
        true => Ok(()),
        false => Err(Refusal::NotARoot { item: id }),
    }
}

fn remove_tree<L: Ledger>(
    ledger: &mut L,
    root: ItemId,
    limit: usize,
    now: Timestamp,
) -> Result<Deleted, Refusal> {
    let mut doomed = Vec::new();
    let whole = gather(ledger, root, limit, &mut doomed)?;
    remove(ledger, &doomed, now)?;
    Ok(Deleted { removed: doomed.len() as u32, more: !whole })
}

fn remove<L: Ledger>(ledger: &mut L, doomed: &[Item], now: Timestamp) -> Result<(), Refusal> {
    for item in doomed {
        let mut changes = Changes::default();
        forget(ledger, item, &mut changes)?;
        apply(ledger, changes, now);
    }
    Ok(())
}

/// Collects an ended tree from its leaves up, at most `limit`; whether that is all of it.
fn gather<L: Ledger>(
    ledger: &L,
    id: ItemId,
    limit: usize,
    into: &mut Vec<Item>,
) -> Result<bool, Refusal> {
    let item = known(ledger, id)?;
    if !item.is_done() && !is_planted(Bug::RetentionTakesLive) {
        return Err(still_live(ledger, &item));
    }
    if !gather_below(ledger, &item, limit, into)? || into.len() >= limit {
        return Ok(false);
    }
    into.push(item);
    Ok(true)
}

/// The same for everything below an item, of whatever generation.
fn gather_below<L: Ledger>(
    ledger: &L,
    item: &Item,
    limit: usize,
    into: &mut Vec<Item>,
) -> Result<bool, Refusal> {
    if !item.has(Marks::PARENT) && item.generation == 0 {
        return Ok(true);
    }
    for generation in 0..=item.generation {
        // One more than there is room for, so that a full slice knows that it is not the last.
        let room = limit.saturating_sub(into.len()) + 1;
        for child in ledger.children(item.id, generation, 0, room) {
            if !gather(ledger, child, limit, into)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
