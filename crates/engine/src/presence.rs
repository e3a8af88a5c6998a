//! Presence: which workers are there, and what they offer to do.
//!
//! A worker is present while it has an open claim or a live lease, and for a minute after it last
//! asked. Leases are the store's to know; the rest is kept here. One name may claim several
//! things in turn, or be that of several threads: each is remembered as long, and all of them while
//! it holds a lease, since a lease does not say which claim brought it. Whoever claimed before this
//! server started, or from another one, is known by its leases alone.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use windrow_core::Timestamp;
use windrow_core::change::Lease;
use windrow_core::command::Claim;
use windrow_core::limits::PRESENT_MS;
use windrow_core::ports::Ready;

use crate::wake::fits;

/// What is known of one worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Worker {
    pub name: Arc<str>,
    pub last_seen: Timestamp,
    /// Claims that wait for work now.
    pub waiting: usize,
    /// Live leases.
    pub leases: usize,
    /// What it claims, the latest first; none if it has not asked here lately.
    pub offers: Vec<Arc<Claim>>,
    /// It is handed nothing new.
    pub is_drained: bool,
}

impl Worker {
    fn unseen(name: &Arc<str>) -> Worker {
        Worker {
            name: Arc::clone(name),
            last_seen: Timestamp::ZERO,
            waiting: 0,
            leases: 0,
            offers: Vec::new(),
            is_drained: false,
        }
    }

    /// Whether it asked here. If not, nobody here knows what it takes.
    pub fn has_asked(&self) -> bool {
        !self.offers.is_empty()
    }

    /// Whether it takes such work when it is not drained.
    pub(crate) fn could_take(&self, work: &Ready) -> bool {
        self.offers.iter().any(|offer| fits(offer, work))
    }
}

/// What a worker claims and is remembered of at once.
const OFFERS_MAX: usize = 32;

/// Something that a worker claims.
#[derive(Debug)]
struct Offer {
    claim: Arc<Claim>,
    last_seen: Timestamp,
    /// Claims that wait for work now.
    waiting: usize,
}

impl Offer {
    fn is_present(&self, now: Timestamp) -> bool {
        self.waiting > 0 || now.since(self.last_seen) < PRESENT_MS
    }

    fn is_for_same(&self, claim: &Claim) -> bool {
        let ours = &*self.claim;
        (&ours.queues, &ours.stages) == (&claim.queues, &claim.stages)
            && (&ours.kinds, &ours.tenants) == (&claim.kinds, &claim.tenants)
    }
}

/// The workers that were seen lately.
#[derive(Debug, Default)]
pub struct Presence {
    /// What each worker offers, the latest last.
    workers: Mutex<BTreeMap<Arc<str>, Vec<Offer>>>,
}

impl Presence {
    /// A worker claims. As long as what this gives is kept, the claim is open.
    pub(crate) fn claiming(&self, claim: &Arc<Claim>, now: Timestamp) -> OpenClaim<'_> {
        let mut workers = self.workers.lock();
        let offers = workers.entry(claim.worker.clone()).or_default();
        let known = offers.iter().position(|offer| offer.is_for_same(claim));
        let waiting = known.map_or(0, |at| offers.remove(at).waiting) + 1;
        if offers.len() >= OFFERS_MAX {
            offers.remove(0);
        }
        offers.push(Offer { claim: Arc::clone(claim), last_seen: now, waiting });
        OpenClaim { presence: self, claim: Arc::clone(claim) }
    }

    /// Forgets workers that are gone; those that hold a lease are not.
    pub(crate) fn forget(&self, leases: &[Lease], now: Timestamp) {
        let holders: HashSet<&Arc<str>> = leases.iter().map(|lease| &lease.worker).collect();
        let mut workers = self.workers.lock();
        workers.retain(|name, offers| {
            if !holders.contains(name) {
                offers.retain(|offer| offer.is_present(now));
            }
            !offers.is_empty()
        });
    }

    /// The workers that are present, given the leases that are live.
    pub fn workers<'a>(
        &self,
        leases: impl IntoIterator<Item = &'a Lease>,
        now: Timestamp,
    ) -> Vec<Worker> {
        let mut present: BTreeMap<Arc<str>, Worker> = BTreeMap::new();
        for lease in leases {
            let holder = present.entry(Arc::clone(&lease.worker));
            let holder = holder.or_insert_with(|| Worker::unseen(&lease.worker));
            holder.leases += 1;
            holder.last_seen = holder.last_seen.max(lease.renewed.min(now));
        }
        for (name, offers) in &*self.workers.lock() {
            let holds = present.contains_key(name);
            for offer in offers.iter().rev().filter(|offer| holds || offer.is_present(now)) {
                let worker = present.entry(Arc::clone(name));
                let worker = worker.or_insert_with(|| Worker::unseen(name));
                worker.last_seen = worker.last_seen.max(offer.last_seen);
                worker.waiting += offer.waiting;
                worker.offers.push(Arc::clone(&offer.claim));
            }
        }
        present.into_values().collect()
    }
}

/// A claim that waits. It may be given up at any time, by dropping it.
#[derive(Debug)]
pub(crate) struct OpenClaim<'a> {
    presence: &'a Presence,
    claim: Arc<Claim>,
}

impl Drop for OpenClaim<'_> {
    fn drop(&mut self) {
        let mut workers = self.presence.workers.lock();
        let offers = workers.get_mut(&self.claim.worker).into_iter().flatten();
        for offer in offers.filter(|offer| offer.is_for_same(&self.claim)) {
            offer.waiting = offer.waiting.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use windrow_core::LeaseId;

    use super::*;

    fn lease(worker: &str, renewed: u64) -> Lease {
        let [granted, expires] = [5, 900_000].map(Timestamp);
        let (worker, renewed) = (worker.into(), Timestamp(renewed));
        Lease { id: LeaseId(1), worker, granted, renewed, expires, lease_ms: 9, items: 1 }
    }

    #[test]
    fn whoever_claimed_before_the_server_started_is_known_by_its_leases() {
        let presence = Presence::default();
        let now = Timestamp(100_000);
        drop(presence.claiming(&Arc::new(Claim::new("here", "q", 1)), now));
        let leases = [("before", 40_000), ("before", 70_000), ("here", 60_000), ("ahead", 200_000)];
        let leases = leases.map(|(worker, renewed)| lease(worker, renewed));
        let workers = presence.workers(&leases, now);
        let told: Vec<_> = workers
            .iter()
            .map(|worker| (&*worker.name, worker.leases, worker.offers.len(), worker.last_seen.0))
            .collect();
        let want = [("ahead", 1, 0, 100_000), ("before", 2, 0, 70_000), ("here", 1, 1, 100_000)];
        assert_eq!(told, want, "nobody was seen later than now");
        assert!(presence.workers([], Timestamp(900_000)).is_empty(), "their leases are over");
    }
}
