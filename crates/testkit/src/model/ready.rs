//! What the model tells its listener: what can be claimed that could not before, and what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use windrow_core::ports::{Count, Listener, Ready};
use windrow_core::rules::claim::admit;
use windrow_core::{Item, ItemId, Ledger, State as Doing, Timestamp};

use super::state::State;

/// A listener, and what it knows to be ready.
pub(super) struct Listening {
    listener: Arc<dyn Listener>,
    ready: BTreeSet<ItemId>,
}

impl Listening {
    pub(super) fn new(listener: Arc<dyn Listener>) -> Listening {
        Listening { listener, ready: BTreeSet::new() }
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("ready", &self.ready).finish_non_exhaustive()
    }
}

impl super::Inside {
    /// Tells the listener what happened, and what became ready by `now`.
    pub(super) fn tell(&mut self, now: Timestamp) {
        let happened = std::mem::take(&mut self.state.happened);
        let Some(listening) = &mut self.listening else {
            return;
        };
        if !happened.is_empty() {
            listening.listener.happened(&happened);
        }
        let ready = self.state.claimable(now);
        let new: Vec<ItemId> = ready.difference(&listening.ready).copied().collect();
        listening.ready = ready;
        if !new.is_empty() {
            listening.listener.ready(&self.state.lanes_of(&new));
        }
    }
}

impl State {
    fn claimable(&self, now: Timestamp) -> BTreeSet<ItemId> {
        let pending = |item: &&Item| matches!(item.state, Doing::Pending { .. });
        let open =
            self.items.values().filter(pending).filter(|item| admit(self, item, now).is_ok());
        open.map(|item| item.id).collect()
    }

    fn lanes_of(&self, items: &[ItemId]) -> Vec<Ready> {
        let mut lanes: BTreeMap<_, usize> = BTreeMap::new();
        for item in items.iter().map(|id| &self.items[id]) {
            let (tenant, queue) = Ledger::names(self, item);
            let (stage, kind) = (self.stage_name(item).clone(), self.names.kind(item.kind).clone());
            *lanes.entry((queue, stage, kind, tenant)).or_default() += 1;
        }
        let ready =
            |((queue, stage, kind, tenant), count)| Ready { queue, stage, kind, tenant, count };
        lanes.into_iter().map(ready).collect()
    }

    /// Items by queue, tenant and status.
    pub(super) fn counts(&self) -> Vec<Count> {
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        for item in self.items.values() {
            let (tenant, queue) = Ledger::names(self, item);
            *counts.entry((queue, tenant, item.status())).or_default() += 1;
        }
        let count = |((queue, tenant, status), items)| Count { queue, tenant, status, items };
        counts.into_iter().map(count).collect()
    }
}
