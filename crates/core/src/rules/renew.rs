//! Renew and progress: the holder of a lease is alive, and says how far it is.
//!
//! A renewal extends and never shortens, and never revives a lease that has expired.

use crate::change::{Change, Changes, Lease};
use crate::command::Renewed;
use crate::id::{ItemId, LeaseId};
use crate::ledger::Ledger;
use crate::limits::{LEASE_MAX_MS, LEASE_MIN_MS, TEXT_MAX};
use crate::refusal::Refusal;
use crate::rules::{Decision, known};
use crate::text::kept;
use crate::time::Timestamp;
use crate::trail::Progress;

/// Extends a lease over everything that it still holds.
pub fn renew<L: Ledger>(
    ledger: &L,
    lease: LeaseId,
    lease_ms: Option<u64>,
    now: Timestamp,
) -> Decision<Renewed> {
    let current = live(ledger, lease, now)?;
    let held = ledger.held_by(lease);
    let lease_ms = lease_ms.unwrap_or(current.lease_ms).clamp(LEASE_MIN_MS, LEASE_MAX_MS);
    let expires = current.expires.max(now.plus(lease_ms));
    let mut changes = Changes::default();
    changes.push(Change::Lease(Lease { renewed: now, expires, lease_ms, ..current }));
    Ok((Renewed { expires_at: expires, held }, changes))
}

/// Notes how far the work on one item is. It never goes back within one attempt.
pub fn progress<L: Ledger>(
    ledger: &L,
    lease: LeaseId,
    id: ItemId,
    mut progress: Progress,
    now: Timestamp,
) -> Decision<()> {
    live(ledger, lease, now)?;
    let item = known(ledger, id)?;
    if item.lease() != Some(lease) {
        return Err(Refusal::LeaseLost { lease });
    }
    progress.message = kept(progress.message, TEXT_MAX);
    if let Some(before) = ledger.trail(&item)?.progress
        && before.total == progress.total
    {
        progress.current = progress.current.max(before.current);
    }
    let mut changes = Changes::default();
    changes.push(Change::Progress { id, progress });
    Ok(((), changes))
}

/// The lease, if it is held at this moment.
pub(crate) fn live<L: Ledger>(
    ledger: &L,
    lease: LeaseId,
    now: Timestamp,
) -> Result<Lease, Refusal> {
    match ledger.lease(lease) {
        Some(held) if held.expires > now => Ok(held),
        _ => Err(Refusal::LeaseLost { lease }),
    }
}
