//! Presence: which workers are there, and what they offer to do.
//!
//! A worker is present while it has an open claim or a live lease, and for a minute after it was
//! last seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use windrow_core::command::Claim;
use windrow_core::limits::PRESENT_MS;
use windrow_core::ports::Ready;
use windrow_core::{LeaseId, Timestamp};

use crate::wake::fits;

/// What is known of one worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Worker {
    pub name: Arc<str>,
    pub last_seen: Timestamp,
    /// Claims that wait for work now.
    pub waiting: usize,
    /// Live leases and until when.
    pub leases: BTreeMap<LeaseId, Timestamp>,
    /// What it claimed last.
    pub offers: Arc<Claim>,
}

impl Worker {
    pub fn is_present(&self, now: Timestamp) -> bool {
        let seen = now.since(self.last_seen) < PRESENT_MS;
        seen || self.waiting > 0 || self.leases.values().any(|until| *until > now)
    }
}

/// The workers that were seen lately.
#[derive(Debug, Default)]
pub struct Presence {
    workers: Mutex<BTreeMap<Arc<str>, Worker>>,
}

impl Presence {
    pub(crate) fn claiming(&self, claim: &Arc<Claim>, waits: bool, now: Timestamp) {
        let mut workers = self.workers.lock();
        let worker = workers.entry(claim.worker.clone()).or_insert_with(|| Worker {
            name: claim.worker.clone(),
            last_seen: now,
            waiting: 0,
            leases: BTreeMap::new(),
            offers: Arc::clone(claim),
        });
        worker.last_seen = now;
        worker.offers = Arc::clone(claim);
        worker.waiting += usize::from(waits);
    }

    pub(crate) fn stopped_waiting(&self, worker: &str, now: Timestamp) {
        if let Some(worker) = self.workers.lock().get_mut(worker) {
            worker.waiting = worker.waiting.saturating_sub(1);
            worker.last_seen = worker.last_seen.max(now);
        }
    }

    pub(crate) fn granted(&self, worker: &str, lease: LeaseId, until: Timestamp) {
        if let Some(worker) = self.workers.lock().get_mut(worker) {
            worker.leases.insert(lease, until);
        }
    }

    /// The holder of a lease was heard.
    pub(crate) fn heard(&self, lease: LeaseId, until: Option<Timestamp>, now: Timestamp) {
        let mut workers = self.workers.lock();
        let holder = workers.values_mut().find(|worker| worker.leases.contains_key(&lease));
        if let Some(worker) = holder {
            worker.last_seen = now;
            if let Some(until) = until {
                worker.leases.insert(lease, until);
            }
        }
    }

    /// Forgets leases that are over and workers that are gone.
    pub(crate) fn forget(&self, now: Timestamp) {
        let mut workers = self.workers.lock();
        for worker in workers.values_mut() {
            worker.leases.retain(|_, until| *until > now);
        }
        workers.retain(|_, worker| worker.is_present(now));
    }

    /// The workers that are present.
    pub fn workers(&self, now: Timestamp) -> Vec<Worker> {
        let workers = self.workers.lock();
        workers.values().filter(|worker| worker.is_present(now)).cloned().collect()
    }

    /// Whether somebody who is present would take this work.
    pub fn offered(&self, work: &Ready, now: Timestamp) -> bool {
        let workers = self.workers.lock();
        workers.values().any(|worker| worker.is_present(now) && fits(&worker.offers, work))
    }
}
