//! Retry: an operator runs an ended item again, or one that waits for its time at once.
//!
//! `reset` runs the same item from its failed stage; what earlier stages put out is kept, so it
//! never pays for them twice. `clone` leaves the item as history and runs a copy. A parent's reset
//! resets its failed descendants only; `from_stage` begins a new generation of children.

use crate::change::{Change, Changes, Created};
use crate::command::{Retried, RetryMode};
use crate::id::ItemId;
use crate::item::{End, Item, Marks, State};
use crate::ledger::Ledger;
use crate::limits::COMMAND_ITEMS_MAX;
use crate::refusal::Refusal;
use crate::rules::enqueue::refer;
use crate::rules::roll_up::{Moved, roll_up};
use crate::rules::settle::entering;
use crate::rules::{Decision, each, known, still_live};
use crate::time::Timestamp;
use crate::transitions::Event;

/// Runs one item again.
pub fn retry<L: Ledger>(
    ledger: &mut L,
    id: ItemId,
    mode: RetryMode,
    from_stage: Option<&str>,
    now: Timestamp,
) -> Result<Retried, Refusal> {
    if mode == RetryMode::Clone {
        let copy = ledger.next_id(now);
        return each(ledger, id, now, |l| clone(l, id, copy, from_stage, now));
    }
    let failed = match meant(ledger, id, from_stage, now)? {
        Meant::InTime(item) => return each(ledger, id, now, |_| Ok(hasten(item, now))),
        Meant::Itself => {
            each(ledger, id, now, |l| reset(l, id, from_stage, false, now))?;
            return Ok(Retried { id, reset: 1, more: false });
        }
        Meant::Below(failed) => failed,
    };
    let (reset_count, more) = (failed.len() as u32, failed.len() >= COMMAND_ITEMS_MAX);
    for descendant in failed {
        each(ledger, descendant, now, |l| reset(l, descendant, None, true, now))?;
    }
    Ok(Retried { id, reset: reset_count, more })
}

/// Whether one item would be run again.
pub(super) fn may_retry<L: Ledger>(
    ledger: &L,
    id: ItemId,
    mode: RetryMode,
    from_stage: Option<&str>,
    now: Timestamp,
) -> Result<(), Refusal> {
    if mode == RetryMode::Clone {
        return clone(ledger, id, id, from_stage, now).map(drop);
    }
    match meant(ledger, id, from_stage, now)? {
        Meant::InTime(_) => Ok(()),
        Meant::Itself => reset(ledger, id, from_stage, false, now).map(drop),
        Meant::Below(failed) => {
            failed.into_iter().try_for_each(|id| reset(ledger, id, None, true, now).map(drop))
        }
    }
}

/// What runs again when an item is to be reset.
enum Meant {
    /// Only the clock is in the way of the item.
    InTime(Item),
    /// The item, if it has ended.
    Itself,
    /// What failed below it: one at least.
    Below(Vec<ItemId>),
}

fn meant<L: Ledger>(
    ledger: &L,
    id: ItemId,
    from_stage: Option<&str>,
    now: Timestamp,
) -> Result<Meant, Refusal> {
    let item = known(ledger, id)?;
    check_above(ledger, &item)?;
    if from_stage.is_some() || !waits_below(ledger, &item) {
        let only_waits = from_stage.is_none() && waits_for_time(&item, now);
        return Ok(if only_waits { Meant::InTime(item) } else { Meant::Itself });
    }
    let failed = failed_below(ledger, &item)?;
    match item.status() {
        _ if !failed.is_empty() => Ok(Meant::Below(failed)),
        status if item.is_done() => Err(Refusal::NotResettable { item: id, status }),
        _ => Err(still_live(ledger, &item)),
    }
}

/// Whether only the clock is in the way of an item.
fn waits_for_time(item: &Item, now: Timestamp) -> bool {
    matches!(item.state, State::Pending { not_before } if not_before > now)
}

/// Makes an item due that waits for its retry, or for a time that somebody set. What it has cost
/// so far stays: its attempts are those that it has had.
fn hasten(item: Item, now: Timestamp) -> (Retried, Changes) {
    let mut changes = Changes::default();
    changes.item(Item { state: State::Pending { not_before: now }, ..item }, Event::Reset);
    (Retried { id: item.id, reset: 1, more: false }, changes)
}

/// Whether what failed lies below an item rather than in a stage of its own.
fn waits_below<L: Ledger>(ledger: &L, item: &Item) -> bool {
    let Some(tally) = ledger.tally(item.id).filter(|_| item.has(Marks::PARENT)) else {
        return false;
    };
    match item.state {
        State::Split => !item.has(Marks::CANCELLING),
        State::Done(End::Failed | End::Cancelled) => tally.gaps > 0 && item.stage <= tally.stage,
        _ => tally.gaps > 0 || !tally.is_over(),
    }
}

/// Ended leaves below an item that are to run again with it, as many as one command may name.
///
/// What was cancelled by itself stays so, unless an ended item has nothing else to wait for.
fn failed_below<L: Ledger>(ledger: &L, item: &Item) -> Result<Vec<ItemId>, Refusal> {
    let mut failed = Vec::new();
    gather(ledger, item, false, &mut failed)?;
    if failed.is_empty() && matches!(item.state, State::Done(End::Failed | End::Cancelled)) {
        gather(ledger, item, true, &mut failed)?;
    }
    Ok(failed)
}

fn gather<L: Ledger>(
    ledger: &L,
    item: &Item,
    cancelled_too: bool,
    into: &mut Vec<ItemId>,
) -> Result<(), Refusal> {
    for id in ledger.children(item.id, item.generation, 0, usize::MAX) {
        if into.len() >= COMMAND_ITEMS_MAX {
            break;
        }
        let child = known(ledger, id)?;
        let comes_back = match child.state {
            State::Done(End::Failed) => true,
            State::Done(End::Cancelled) => cancelled_too || child.has(Marks::SWEPT),
            State::Done(_) => false,
            _ => true,
        };
        if waits_below(ledger, &child) {
            if comes_back || child.state == State::Done(End::Completed) {
                gather(ledger, &child, cancelled_too, into)?;
            }
        } else if child.is_done() && comes_back {
            into.push(id);
        }
    }
    Ok(())
}

/// Puts one item back in line. `below` says that an ancestor's retry asks for it.
fn reset<L: Ledger>(
    ledger: &L,
    id: ItemId,
    from_stage: Option<&str>,
    below: bool,
    now: Timestamp,
) -> Decision<()> {
    let item = known(ledger, id)?;
    let status = item.status();
    let event = match (item.state, from_stage) {
        (State::Done(End::Failed | End::Cancelled), None) => Event::Reset,
        (State::Done(_) | State::Split, Some(_)) => Event::Restart,
        (State::Done(_), None) => return Err(Refusal::NotResettable { item: id, status }),
        _ => return Err(still_live(ledger, &item)),
    };
    if item.is_done() && !below {
        check_key(ledger, &item)?;
    }
    let stage = match from_stage {
        Some(name) => find_stage(ledger, &item, name)?,
        None => item.stage,
    };
    let mut trail = ledger.trail(&item)?;
    trail.rewind(stage);
    let mut changes = Changes::default();
    let mut after = entering(item, stage, now);
    after.marks =
        after.marks.without(Marks::CANCELLING).without(Marks::QUARANTINED).without(Marks::SWEPT);
    after.skipped &= ((1u32 << stage) - 1) as u16;
    let again = ledger.tally(id).is_none_or(|tally| stage <= tally.stage);
    if item.has(Marks::PARENT) && again {
        leave_children(&mut after, &mut changes);
    }
    let moved = Moved::new(ledger, Some(item), after);
    roll_up(ledger, moved, event, Some(trail), now, &mut changes)?;
    Ok(((), changes))
}

/// Begins a new generation: the children so far count no more and are cancelled in slices.
pub(crate) fn leave_children(item: &mut Item, changes: &mut Changes) {
    let (parent, generation) = (item.id, item.generation);
    changes.push(Change::Orphan { parent, generation, over: false });
    item.generation += 1;
    item.marks = item.marks.without(Marks::PARENT);
}

/// A new item like an ended one, starting where that one failed.
fn clone<L: Ledger>(
    ledger: &L,
    id: ItemId,
    copy: ItemId,
    from_stage: Option<&str>,
    now: Timestamp,
) -> Decision<Retried> {
    let item = known(ledger, id)?;
    if !item.is_root() {
        return Err(Refusal::NotARoot { item: id });
    }
    if !item.is_done() {
        return Err(still_live(ledger, &item));
    }
    check_key(ledger, &item)?;
    let stage = match (from_stage, item.state) {
        (Some(name), _) => find_stage(ledger, &item, name)?,
        (None, State::Done(End::Failed)) if !item.has(Marks::PARENT) => item.stage,
        _ => 0,
    };
    let mut body = ledger.body(&item)?;
    body.cloned_from = Some(id);
    let mut trail = ledger.trail(&item)?;
    trail.rewind(stage);
    trail.attempts.clear();
    let mut changes = Changes::default();
    refer(ledger, &body, 1, &mut changes);
    changes.push(Change::Create(Box::new(Created {
        id: copy,
        body,
        priority: item.priority,
        state: State::Pending { not_before: now },
        stage,
        place: None,
        trail: (stage > 0).then(|| Box::new(trail)),
    })));
    Ok((Retried { id: copy, reset: 1, more: false }, changes))
}

fn find_stage<L: Ledger>(ledger: &L, item: &Item, name: &str) -> Result<u8, Refusal> {
    let missing = || Refusal::NoSuchStage { item: item.id, stage: name.to_owned() };
    let stage = ledger.route(item).find(name).ok_or_else(missing)?;
    if stage > item.stage {
        let why = format!("it never came as far as {name:?}");
        return Err(Refusal::invalid("from_stage", why));
    }
    Ok(stage)
}

fn check_above<L: Ledger>(ledger: &L, item: &Item) -> Result<(), Refusal> {
    let mut place = item.place;
    while let Some(at) = place {
        let parent = known(ledger, at.parent)?;
        let left_behind = parent.generation != at.generation;
        let cancelled = parent.state == State::Done(End::Cancelled);
        if cancelled || left_behind || parent.has(Marks::CANCELLING) {
            return Err(Refusal::UnderCancelled { ancestor: parent.id });
        }
        place = parent.place;
    }
    Ok(())
}

/// Refuses to bring back an item whose key another one has by now.
pub(crate) fn check_key<L: Ledger>(ledger: &L, item: &Item) -> Result<(), Refusal> {
    if !item.has(Marks::KEYED) {
        return Ok(());
    }
    let body = ledger.body(item)?;
    let key = body.key.as_deref().unwrap_or_default();
    match ledger.with_key(&body.tenant, &body.queue, key)? {
        Some(by) if by != item.id => Err(Refusal::KeyInUse { by }),
        _ => Ok(()),
    }
}
