//! Claim: a worker takes the next items and a lease over them.
//!
//! The store offers candidates by the order laws; this rule admits each one. The attempt is
//! counted here, before the hand-out, and the store makes it durable before it answers.

use crate::change::{Change, Changes, Lease};
use crate::command::{Claim, Grant};
use crate::id::{ItemId, LeaseId};
use crate::item::{Item, Marks, State};
use crate::ledger::Ledger;
use crate::limits::{LEASE_MAX_MS, LEASE_MIN_MS};
use crate::planted::{Bug, is_planted};
use crate::resource;
use crate::rules::each;
use crate::rules::roll_up::{Moved, roll_up};
use crate::rules::{guarded, quarantine};
use crate::time::Timestamp;
use crate::transitions::Event;

/// Takes up to `max` items under one lease; none if nothing is ready.
pub fn claim<L: Ledger>(ledger: &mut L, claim: &Claim, now: Timestamp) -> Option<Grant<Item>> {
    let max = claim.max.max(1);
    let id = ledger.next_lease();
    let mut items: Vec<Item> = Vec::new();
    let mut lease_ms = claim.lease_ms;
    while items.len() < max {
        let Some(item) = ledger.candidate(claim, now) else {
            break;
        };
        match guarded(|| Ok((admit(ledger, &item, now), Changes::default()))) {
            Ok((Ok(()), _)) => {}
            Ok((Err(_), _)) => {
                ledger.set_aside(&item);
                continue;
            }
            Err(_) => {
                quarantine(ledger, item.id, now);
                continue;
            }
        }
        if item.has(Marks::ALONE) && !items.is_empty() {
            ledger.put_back(&item);
            break;
        }
        let policy_ms = ledger.policy(&item).lease_ms;
        let Some(taken) = hand_out(ledger, &item, id, now) else {
            ledger.set_aside(&item);
            continue;
        };
        resource::taken(ledger, &item, now);
        lease_ms = lease_ms.or(Some(policy_ms));
        items.push(taken);
        if item.has(Marks::ALONE) {
            break;
        }
    }
    if items.is_empty() {
        return None;
    }
    let lease_ms = lease_ms.unwrap_or(LEASE_MIN_MS).clamp(LEASE_MIN_MS, LEASE_MAX_MS);
    let lease = Lease {
        id,
        worker: claim.worker.clone(),
        granted: now,
        renewed: now,
        expires: now.plus(lease_ms),
        lease_ms,
        items: items.len() as u32,
    };
    let expires_at = lease.expires;
    ledger.apply(Change::Lease(lease), now);
    Some(Grant { lease: id, expires_at, items })
}

/// Gives one item to the lease, and lets everything above it know. None if that cannot be decided.
fn hand_out<L: Ledger>(
    ledger: &mut L,
    item: &Item,
    lease: LeaseId,
    now: Timestamp,
) -> Option<Item> {
    let taken = take(item, lease);
    if item.is_root() {
        let event = Event::Claim;
        ledger.apply(Change::Item { item: taken, event }, now);
        return Some(taken);
    }
    let carried = each(ledger, item.id, now, |l| {
        let mut changes = Changes::default();
        let moved = Moved::new(l, Some(*item), taken);
        roll_up(l, moved, Event::Claim, None, now, &mut changes)?;
        Ok(((), changes))
    });
    carried.ok().map(|()| taken)
}

/// The item in the hands of a worker: one more attempt.
fn take(item: &Item, lease: LeaseId) -> Item {
    let counted = if is_planted(Bug::AttemptNotCounted) {
        item.attempts.max(1)
    } else {
        item.attempts.saturating_add(1)
    };
    Item { state: State::Leased { lease }, attempts: counted, ..*item }
}

/// What keeps an item from being handed out, in the order in which `explain` lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Gate {
    NotVisibleUntil(Timestamp),
    Paused,
    /// With it they were cancelled, or were not.
    Children {
        open: u32,
        cancelled: bool,
    },
    EarlierWithKey(ItemId),
    GroupFull {
        load: u32,
        limit: u32,
    },
    GroupOrder {
        ahead: ItemId,
    },
    ResourceClosed {
        until: Timestamp,
    },
    UnderCancelled(ItemId),
    TooMuchAhead {
        waiting: u64,
        max: u64,
    },
    Quarantined,
}

/// Whether an item may be handed out now; the first gate that holds it if not.
pub fn admit<L: Ledger>(ledger: &L, item: &Item, now: Timestamp) -> Result<(), Gate> {
    match gates(ledger, item, now).next() {
        Some(gate) => Err(gate),
        None => Ok(()),
    }
}

/// All gates that hold a waiting item now, in fixed order.
pub fn gates<L: Ledger>(ledger: &L, item: &Item, now: Timestamp) -> impl Iterator<Item = Gate> {
    type Rule<L> = fn(&L, &Item, Timestamp) -> Option<Gate>;
    let rules: [Rule<L>; 9] = [
        |_, item, now| not_visible(item, now),
        |ledger, item, _| ledger.is_paused(item).then_some(Gate::Paused),
        |ledger, item, _| earlier_with_key(ledger, item),
        |ledger, item, _| group_full(ledger, item),
        |ledger, item, _| group_order(ledger, item),
        resource_closed,
        |ledger, item, _| cancelled_above(ledger, item).map(Gate::UnderCancelled),
        |ledger, item, _| ahead(ledger, item),
        |_, item, _| item.has(Marks::QUARANTINED).then_some(Gate::Quarantined),
    ];
    rules.into_iter().filter_map(move |rule| rule(ledger, item, now))
}

fn not_visible(item: &Item, now: Timestamp) -> Option<Gate> {
    match item.state {
        State::Pending { not_before } | State::Held { not_before }
            if not_before > now && !is_planted(Bug::DelayIgnored) =>
        {
            Some(Gate::NotVisibleUntil(not_before))
        }
        _ => None,
    }
}

fn earlier_with_key<L: Ledger>(ledger: &L, item: &Item) -> Option<Gate> {
    let State::Held { .. } = item.state else {
        return None;
    };
    let body = ledger.body(item).ok()?;
    let ahead = ledger.with_key(&body.tenant, &body.queue, body.key.as_deref()?);
    ahead.ok().flatten().map(Gate::EarlierWithKey)
}

fn group_full<L: Ledger>(ledger: &L, item: &Item) -> Option<Gate> {
    item.group?;
    let policy = ledger.policy(item);
    let limit = if policy.ordered { Some(1) } else { policy.group_limit }?;
    let load = ledger.group_load(item);
    (load >= limit).then_some(Gate::GroupFull { load, limit })
}

fn group_order<L: Ledger>(ledger: &L, item: &Item) -> Option<Gate> {
    item.group?;
    if !ledger.policy(item).ordered {
        return None;
    }
    ledger.group_ahead(item).map(|ahead| Gate::GroupOrder { ahead })
}

fn resource_closed<L: Ledger>(ledger: &L, item: &Item, now: Timestamp) -> Option<Gate> {
    let name = ledger.policy(item).resource.as_deref()?;
    let until = ledger.resource(name, false).closed_until;
    (until > now).then_some(Gate::ResourceClosed { until })
}

fn ahead<L: Ledger>(ledger: &L, item: &Item) -> Option<Gate> {
    let ahead = ledger.policy(item).ahead.as_ref()?;
    let waiting = ledger.waiting(item, &ahead.stage);
    (waiting >= ahead.max).then_some(Gate::TooMuchAhead { waiting, max: ahead.max })
}

/// The nearest ancestor that was cancelled, or whose restart left this item behind.
pub fn cancelled_above<L: Ledger>(ledger: &L, item: &Item) -> Option<ItemId> {
    if is_planted(Bug::CancelledStillClaimed) {
        return None;
    }
    let mut place = item.place;
    while let Some(at) = place {
        let parent = ledger.item(at.parent).ok().flatten()?;
        let left_behind = parent.generation != at.generation;
        if parent.has(Marks::CANCELLING) || left_behind || parent.is_done() {
            return Some(parent.id);
        }
        place = parent.place;
    }
    None
}
