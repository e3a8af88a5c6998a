//! Presence: which workers are there, and what they offer to do.
//!
//! A worker is present while it has an open claim or a live lease, and for a minute after it was
//! last seen. Leases are the store's to know; the rest is kept here.

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
    /// What it claimed last.
    pub offers: Arc<Claim>,
    /// It is handed nothing new.
    pub is_drained: bool,
}

impl Worker {
    fn is_present(&self, now: Timestamp) -> bool {
        self.waiting > 0 || self.leases > 0 || now.since(self.last_seen) < PRESENT_MS
    }

    /// Whether it takes such work when it is not drained.
    pub(crate) fn could_take(&self, work: &Ready) -> bool {
        fits(&self.offers, work)
    }
}

/// The workers that were seen lately.
#[derive(Debug, Default)]
pub struct Presence {
    workers: Mutex<BTreeMap<Arc<str>, Worker>>,
}

impl Presence {
    /// A worker claims. As long as what this gives is kept, the claim is open.
    pub(crate) fn claiming(&self, claim: &Arc<Claim>, now: Timestamp) -> OpenClaim<'_> {
        let mut workers = self.workers.lock();
        let worker = workers.entry(claim.worker.clone()).or_insert_with(|| Worker {
            name: claim.worker.clone(),
            last_seen: now,
            waiting: 0,
            leases: 0,
            offers: Arc::clone(claim),
            is_drained: false,
        });
        worker.last_seen = now;
        worker.offers = Arc::clone(claim);
        worker.waiting += 1;
        OpenClaim { presence: self, worker: claim.worker.clone() }
    }

    /// Forgets workers that are gone; those that hold a lease are not.
    pub(crate) fn forget(&self, leases: &[Lease], now: Timestamp) {
        let holders: HashSet<&Arc<str>> = leases.iter().map(|lease| &lease.worker).collect();
        let mut workers = self.workers.lock();
        workers.retain(|name, worker| worker.is_present(now) || holders.contains(name));
    }

    /// The workers that are present, given the leases that are live.
    pub fn workers(&self, leases: &[Lease], now: Timestamp) -> Vec<Worker> {
        let held = |name: &Arc<str>| leases.iter().filter(|lease| lease.worker == *name).count();
        let workers = self.workers.lock();
        let known = workers.values().map(|w| Worker { leases: held(&w.name), ..w.clone() });
        known.filter(|worker| worker.is_present(now)).collect()
    }
}

/// A claim that waits. It may be given up at any time, by dropping it.
#[derive(Debug)]
pub(crate) struct OpenClaim<'a> {
    presence: &'a Presence,
    worker: Arc<str>,
}

impl Drop for OpenClaim<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.presence.workers.lock().get_mut(&self.worker) {
            worker.waiting = worker.waiting.saturating_sub(1);
        }
    }
}
