//! Enqueue: a producer adds an item.
//!
//! Sees the item with the same key, and whether there is room. Writes a new item, a successor
//! behind a running one, or what replaces a waiting one. Two live items never share a key, no
//! update is lost, and one identity never runs twice at once.

use crate::change::{Change, Changes, Created};
use crate::command::{EnqueueOutcome, Enqueued, NewItem, OnDuplicate, OnSplit};
use crate::id::ItemId;
use crate::item::{Body, Item, Marks, State};
use crate::ledger::Ledger;
use crate::limits::{
    DELAY_MAX_MS, KEY_MAX, METADATA_MAX, PAYLOAD_INLINE_MAX, PRIORITY_MAX, RETRY_AFTER_MS, TEXT_MAX,
};
use crate::planted::{Bug, is_planted};
use crate::refusal::Refusal;
use crate::rules::retry::leave_children;
use crate::rules::{Decision, apply, guarded};
use crate::settings::Unique;
use crate::text::{fits, limit, name};
use crate::time::Timestamp;
use crate::transitions::Event;

/// Adds one item, if it is sound and there is room.
pub fn enqueue<L: Ledger>(
    ledger: &mut L,
    new: NewItem,
    now: Timestamp,
) -> Result<Enqueued, Refusal> {
    validate(&new, now)?;
    admit(ledger, &new.body)?;
    insert(ledger, new, now)
}

/// Adds one item that was validated, whether there is room or not: settles use the reserve.
pub(crate) fn insert<L: Ledger>(
    ledger: &mut L,
    new: NewItem,
    now: Timestamp,
) -> Result<Enqueued, Refusal> {
    let id = ledger.next_id(now);
    let (enqueued, changes) = guarded(|| decide(ledger, id, new))?;
    apply(ledger, changes, now);
    Ok(enqueued)
}

fn decide<L: Ledger>(ledger: &L, id: ItemId, new: NewItem) -> Decision<Enqueued> {
    let body = &new.body;
    let Some(key) = &body.key else {
        return Ok(create(ledger, id, new, None));
    };
    match ledger.with_key(&body.tenant, &body.queue, key)? {
        Some(current) => {
            let current = ledger.item(current)?.ok_or(Refusal::Internal)?;
            match current.state {
                State::Pending { .. } => replace(ledger, current, new),
                _ if is_planted(Bug::KeyRunsTwice) => Ok(create(ledger, id, new, None)),
                _ => follow(ledger, current, id, new),
            }
        }
        None => {
            let retained = ledger.settings(&body.queue).unique == Unique::Retained;
            let kept =
                if retained { ledger.kept_key(&body.tenant, &body.queue, key)? } else { None };
            match kept {
                Some(kept) => Ok((duplicate(kept), Changes::default())),
                None => Ok(create(ledger, id, new, None)),
            }
        }
    }
}

fn duplicate(id: ItemId) -> Enqueued {
    Enqueued { id, outcome: EnqueueOutcome::Duplicate }
}

/// A new item, pending, or held behind `ahead`.
fn create<L: Ledger>(
    ledger: &L,
    id: ItemId,
    new: NewItem,
    ahead: Option<ItemId>,
) -> (Enqueued, Changes) {
    let mut changes = Changes::default();
    refer(ledger, &new.body, 1, &mut changes);
    let not_before = new.not_before;
    let (state, outcome) = match ahead {
        None => (State::Pending { not_before }, EnqueueOutcome::Created),
        Some(_) => (State::Held { not_before }, EnqueueOutcome::Successor),
    };
    let (body, priority) = (new.body, new.priority);
    let created = Created { id, body, priority, state, stage: 0, place: None, trail: None };
    changes.push(Change::Create(Box::new(created)));
    if let Some(of) = ahead {
        changes.push(Change::Successor { of, is: Some(id) });
    }
    (Enqueued { id, outcome }, changes)
}

/// The key is being worked on: one item waits behind it, and later ones coalesce into that.
fn follow<L: Ledger>(ledger: &L, current: Item, id: ItemId, new: NewItem) -> Decision<Enqueued> {
    let supersede = new.on_split == OnSplit::Supersede
        && current.state == State::Split
        && !current.has(Marks::CANCELLING);
    let (enqueued, mut changes) = match ledger.successor(current.id) {
        Some(waiting) => {
            let waiting = ledger.item(waiting)?.ok_or(Refusal::Internal)?;
            replace(ledger, waiting, new)?
        }
        None => create(ledger, id, new, Some(current.id)),
    };
    let mut followed = current;
    followed.marks = followed.marks.with(Marks::SUCCEEDED);
    if supersede {
        followed.marks = followed.marks.with(Marks::CANCELLING);
        changes.item(followed, Event::Cancel);
    } else if followed != current {
        changes.item(followed, Event::Mark);
    }
    Ok((enqueued, changes))
}

/// The key waits already: it stays, or takes the newer op and payload and begins again.
fn replace<L: Ledger>(ledger: &L, item: Item, new: NewItem) -> Decision<Enqueued> {
    if new.on_duplicate == OnDuplicate::Keep {
        return Ok((duplicate(item.id), Changes::default()));
    }
    let old = ledger.body(&item)?;
    let mut changes = Changes::default();
    if old.payload.blob() != new.body.payload.blob() {
        refer(ledger, &old, -1, &mut changes);
        refer(ledger, &new.body, 1, &mut changes);
    }
    let op = coalesced(&old.op, &new.body.op).into();
    // What it is and where it goes stay; what it says is new.
    let (kind, route, group) = (old.kind, old.route, old.group);
    let body = Body { op, kind, route, group, cloned_from: old.cloned_from, ..new.body };
    let has_blob = body.payload.blob().is_some();
    changes.push(Change::Body { id: item.id, body: Box::new(body) });
    let not_before = new.not_before;
    let state = match item.state {
        State::Held { .. } => State::Held { not_before },
        _ => State::Pending { not_before },
    };
    let marks = item.marks.without(Marks::RETRYING).without(Marks::ALONE).without(Marks::TRAIL);
    let marks = if has_blob { marks.with(Marks::BLOB) } else { marks.without(Marks::BLOB) };
    let priority = item.priority.max(new.priority);
    let mut fresh =
        Item { state, priority, stage: 0, attempts: 0, deferrals: 0, skipped: 0, marks, ..item };
    if item.has(Marks::PARENT) {
        leave_children(&mut fresh, &mut changes);
    }
    changes.item(fresh, Event::Replace);
    Ok((Enqueued { id: item.id, outcome: EnqueueOutcome::Replaced }, changes))
}

/// What two operations on one identity come to, the later one on the right.
fn coalesced<'a>(old: &'a str, new: &'a str) -> &'a str {
    match (old, new) {
        ("ingest", "update") => "ingest",
        _ => new,
    }
}

/// Counts a reference to a blob more or less, on top of what this decision counted already.
pub(crate) fn refer<L: Ledger>(ledger: &L, body: &Body, by: i32, changes: &mut Changes) {
    let Some(blob) = body.payload.blob() else {
        return;
    };
    let tenant = &body.tenant;
    let counted = changes.0.iter().rev().find_map(|change| match change {
        Change::Blob { tenant: of, blob: named, references } if of == tenant && *named == blob => {
            Some(*references)
        }
        _ => None,
    });
    let known = counted.unwrap_or_else(|| ledger.blob(tenant, &blob)).unwrap_or(0);
    // One that loses its last reference goes.
    let references = Some(known.saturating_add_signed(by)).filter(|references| *references > 0);
    changes.push(Change::Blob { tenant: tenant.clone(), blob, references });
}

fn admit<L: Ledger>(ledger: &L, body: &Body) -> Result<(), Refusal> {
    let retry_after_ms = RETRY_AFTER_MS;
    if let Some(what) = ledger.full() {
        return Err(Refusal::StoreFull { what, retry_after_ms });
    }
    if let Some(max) = ledger.settings(&body.queue).live_max {
        let live = ledger.live(&body.queue);
        if live >= max {
            return Err(Refusal::QueueFull { live, max, retry_after_ms });
        }
    }
    check_blob(ledger, body)
}

/// Refuses an item whose payload is a blob that nobody uploaded.
pub(crate) fn check_blob<L: Ledger>(ledger: &L, body: &Body) -> Result<(), Refusal> {
    match body.payload.blob() {
        Some(blob) if ledger.blob(&body.tenant, &blob).is_none() => Err(Refusal::BlobMissing),
        _ => Ok(()),
    }
}

/// Refuses what is malformed or too large, before anything is looked up.
pub fn validate(new: &NewItem, now: Timestamp) -> Result<(), Refusal> {
    if new.priority > PRIORITY_MAX {
        return Err(Refusal::invalid("priority", "must lie between 0 and 10"));
    }
    if new.not_before > now.plus(DELAY_MAX_MS) {
        return Err(Refusal::invalid("not_before", "lies more than ten years ahead"));
    }
    validate_body(&new.body)
}

pub(crate) fn validate_body(body: &Body) -> Result<(), Refusal> {
    name("tenant", &body.tenant, true)?;
    name("queue", &body.queue, true)?;
    name("kind", &body.kind, true)?;
    name("op", &body.op, true)?;
    for (field, text) in [
        ("group", &body.group),
        ("collection", &body.collection),
        ("branch", &body.branch),
        ("source_type", &body.source_type),
        ("content_type", &body.content_type),
    ] {
        text.as_deref().map_or(Ok(()), |text| name(field, text, false))?;
    }
    if body.key.as_deref() == Some("") {
        return Err(Refusal::invalid("key", "must not be empty; leave it out for none"));
    }
    for (field, text, max) in [
        ("key", &body.key, KEY_MAX),
        ("source_info", &body.source_info, TEXT_MAX),
        ("ref", &body.reference, TEXT_MAX),
        ("metadata", &body.metadata, METADATA_MAX),
    ] {
        text.as_deref().map_or(Ok(()), |text| fits(field, text, max))?;
    }
    limit("payload", body.payload.inline_len(), PAYLOAD_INLINE_MAX)?;
    body.route.validate()
}
