//! Reclaim: what expired leases held goes back in line.
//!
//! The ledger names leases that may have expired; this rule looks again, so a lease renewed in the
//! meantime keeps what it holds. When a lease over several items expires, nobody knows which one
//! stopped the worker: each gets its attempt back once and is handed out alone until it settles,
//! so one poison item cannot fail its neighbours.

use crate::change::{Change, Changes, Lease};
use crate::command::{Answer, Reclaimed};
use crate::id::ItemId;
use crate::item::{End, Marks, State};
use crate::ledger::Ledger;
use crate::limits::GRACE_MS;
use crate::planted::{Bug, is_planted};
use crate::retry::delay_ms;
use crate::rules::settle::Step;
use crate::rules::{Decision, apply, each, known};
use crate::settings::OnExpiry;
use crate::time::Timestamp;
use crate::trail::{Class, Ending, Fault};
use crate::transitions::Event;

/// Takes back what up to `limit` expired leases held.
pub fn reclaim<L: Ledger>(ledger: &mut L, limit: usize, now: Timestamp) -> Reclaimed {
    let mut done = Reclaimed::default();
    let candidates = ledger.expired(now, limit);
    done.more = candidates.len() >= limit;
    for id in candidates {
        let Some(lease) = ledger.lease(id) else {
            continue;
        };
        if lease.expires > now && !is_planted(Bug::ReclaimById) {
            continue;
        }
        done.leases += 1;
        for item in ledger.held_by(id) {
            let taken = each(ledger, item, now, |l| expire(l, item, lease.clone(), now));
            done.items += u32::from(taken.is_ok());
        }
    }
    done
}

fn expire<L: Ledger>(ledger: &L, id: ItemId, lease: Lease, now: Timestamp) -> Decision<()> {
    let item = known(ledger, id)?;
    let worker = lease.worker.clone();
    let several = lease.items > 1 || is_planted(Bug::PardonedForEver);
    let mut step = Step::new(ledger, item, lease, now)?;
    let policy = ledger.policy(&item);
    let spent = policy.max_attempts > 0 && item.attempts >= policy.max_attempts;
    step.error(Fault::new(Class::LeaseExpired, format!("worker {worker} went silent")));
    if several && (!item.has(Marks::ALONE) || is_planted(Bug::PardonedForEver)) {
        step.item.attempts -= 1;
        step.wait(Event::Expire, now);
        step.item.marks = step.item.marks.with(Marks::ALONE);
    } else if policy.on_expiry == OnExpiry::Fail || spent {
        step.because(Event::Expire);
        step.item.state = State::Done(End::Failed);
    } else {
        let delay = match policy.on_expiry {
            OnExpiry::Requeue => 0,
            _ => delay_ms(&policy.backoff, Class::LeaseExpired, item.attempts, id),
        };
        step.wait(Event::Expire, now.plus(delay));
    }
    Ok(((), step.finish(Ending::Expired)?))
}

/// Extends every live lease up to `until`, but by no more than the grace that a gap is worth and by
/// no more than its own length: while nobody ticked, nobody could renew.
pub fn grace<L: Ledger>(ledger: &mut L, until: Timestamp, now: Timestamp) -> Answer {
    let until = until.min(now.plus(GRACE_MS));
    let mut changes = Changes::default();
    for lease in ledger.expiring_before(until) {
        if let Some(lease) = ledger.lease(lease) {
            let expires = until.min(now.plus(lease.lease_ms)).max(lease.expires);
            changes.push(Change::Lease(Lease { expires, ..lease }));
        }
    }
    apply(ledger, changes, now);
    Answer::Done
}
