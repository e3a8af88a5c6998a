//! Owners: a queue and a tenant together, and how many items of which status they have.

use std::cell::Cell;

use hashbrown::{HashMap, HashSet};
use windrow_core::item::Status;

/// All pairs of queue and tenant.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    owners: Vec<Owner>,
    by_names: HashMap<(u32, u32), u32>,
    /// The one that was asked for last.
    recent: u32,
    /// Live items of each queue, by its number.
    live: Vec<u64>,
    /// Owners with more ended roots than they may keep.
    over: HashSet<u32>,
}

/// One queue and tenant.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) queue: u32,
    pub(crate) tenant: u32,
    counts: [u64; 6],
    /// Ended roots that are kept.
    pub(crate) kept: u32,
    /// None of them is in a chunk of history before this one.
    pub(crate) first_chunk: Cell<u64>,
}

fn index(status: Status) -> usize {
    Status::ALL.iter().position(|known| *known == status).unwrap_or(0)
}

fn is_live(status: Status) -> bool {
    matches!(status, Status::Pending | Status::Processing)
}

impl Owners {
    pub(crate) fn number(&mut self, queue: u32, tenant: u32) -> u32 {
        let recent = self.owners.get(self.recent as usize);
        if recent.is_none_or(|owner| (owner.queue, owner.tenant) != (queue, tenant)) {
            self.recent = *self.by_names.entry((queue, tenant)).or_insert_with(|| {
                self.owners.push(Owner {
                    queue,
                    tenant,
                    counts: [0; 6],
                    kept: 0,
                    first_chunk: Cell::new(0),
                });
                self.owners.len() as u32 - 1
            });
        }
        self.recent
    }

    pub(crate) fn get(&self, no: u32) -> &Owner {
        &self.owners[no as usize]
    }

    /// An item goes from one status to another; none before it exists and after it is gone.
    pub(crate) fn moved(&mut self, no: u32, from: Option<Status>, to: Option<Status>) {
        let owner = &mut self.owners[no as usize];
        if let Some(from) = from {
            owner.counts[index(from)] -= 1;
        }
        if let Some(to) = to {
            owner.counts[index(to)] += 1;
        }
        let queue = owner.queue as usize;
        if queue >= self.live.len() {
            self.live.resize(queue + 1, 0);
        }
        let live = &mut self.live[queue];
        *live -= u64::from(from.is_some_and(is_live));
        *live += u64::from(to.is_some_and(is_live));
    }

    /// One ended root more or less is kept.
    pub(crate) fn kept(&mut self, no: u32, more: bool, max: u32) {
        let owner = &mut self.owners[no as usize];
        owner.kept = if more { owner.kept + 1 } else { owner.kept.saturating_sub(1) };
        if owner.kept > max {
            self.over.insert(no);
        } else {
            self.over.remove(&no);
        }
    }

    /// Looks again which owners keep too much, after settings changed.
    pub(crate) fn review(&mut self, max: impl Fn(u32) -> u32) {
        let over = self.owners.iter().enumerate().filter(|(_, o)| o.kept > max(o.queue));
        self.over = over.map(|(no, _)| no as u32).collect();
    }

    pub(crate) fn over(&self) -> &HashSet<u32> {
        &self.over
    }

    pub(crate) fn live(&self, queue: u32) -> u64 {
        self.live.get(queue as usize).copied().unwrap_or(0)
    }

    /// Counts by queue, tenant and status, without the empty ones.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u32, u32, Status, u64)> {
        self.owners.iter().flat_map(|owner| {
            let counts = Status::ALL.into_iter().zip(owner.counts);
            let some = counts.filter(|(_, count)| *count > 0);
            some.map(|(status, count)| (owner.queue, owner.tenant, status, count))
        })
    }
}
