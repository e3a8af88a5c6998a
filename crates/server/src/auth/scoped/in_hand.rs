//! What workers have in hand, and which of them are handed nothing new, as one caller sees it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use windrow_core::change::Lease;
use windrow_core::ports::{Inspected, Store as _};
use windrow_core::{ItemId, LeaseId};
use windrow_engine::drained::Names;

use super::Scoped;
use crate::auth::Denied;

impl Scoped {
    /// The names of workers that are drained, for callers who may know of all.
    pub(crate) fn drained(&self) -> Names {
        if self.sees_all() { self.queue.drained() } else { Names::default() }
    }

    /// Some of what workers hold now that the caller may know of, with the leases under which they
    /// do: at most so many items of each worker, and so many in all.
    pub(crate) async fn in_hand(
        &self,
        workers: &HashSet<Arc<str>>,
        (of_each, in_all): (usize, usize),
    ) -> Result<Vec<(Lease, Inspected)>, Denied> {
        let store = self.queue.store();
        let mut leases = store.leases().await?;
        leases.sort_by_key(|lease| (lease.granted, lease.id));
        let mut room: HashMap<Arc<str>, usize> = HashMap::new();
        leases.retain(|lease| {
            let taken = room.entry(Arc::clone(&lease.worker)).or_default();
            *taken += 1;
            workers.contains(&lease.worker) && *taken <= of_each
        });
        leases.truncate(in_all);
        let ids: Vec<LeaseId> = leases.iter().map(|lease| lease.id).collect();
        let mut held: HashMap<LeaseId, Vec<ItemId>> =
            store.held_by(&ids, of_each).await?.into_iter().collect();
        let (mut taken, mut items) = (HashMap::<&Arc<str>, usize>::new(), Vec::new());
        for lease in &leases {
            let of_worker = taken.entry(&lease.worker).or_default();
            let ids = held.remove(&lease.id).unwrap_or_default();
            let before = items.len();
            items.extend(ids.into_iter().take(of_each - *of_worker));
            *of_worker += items.len() - before;
        }
        items.truncate(in_all);
        let seen = store.inspect_all(&items).await?.into_iter();
        let by_id: HashMap<LeaseId, &Lease> = leases.iter().map(|of| (of.id, of)).collect();
        let with_lease = |seen: Inspected| {
            // One that was settled meanwhile is in nobody's hands.
            let lease = by_id.get(&seen.item.lease()?)?;
            Some((Lease::clone(lease), seen))
        };
        Ok(seen.filter(|seen| self.sees(&seen.body.tenant)).filter_map(with_lease).collect())
    }
}
