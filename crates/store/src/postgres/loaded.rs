//! What is on a desk besides items: leases, lists, offers, groups, and who asks.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashSet;
use windrow_core::ItemId;
use windrow_core::change::Lease;
use windrow_core::command::Claim;

use super::needs::Filter;

/// A lease, and what it still holds.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Granted {
    pub(super) lease: Lease,
    pub(super) items: Vec<ItemId>,
    /// What it holds is not as it was handed out, or something lies beside it.
    pub(super) is_changed: bool,
}

/// The beginning of a list, with what it is sorted by, and how much was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    pub(super) items: Vec<(u32, ItemId)>,
    pub(super) asked: usize,
}

/// What the database offers to a claim.
#[derive(Clone, Debug, Default)]
pub(super) struct Offer {
    pub(super) items: HashSet<ItemId>,
    pub(super) asked: usize,
    /// Whether there may be more in line.
    pub(super) more: bool,
    /// Lanes that were left out when it was last asked for. There may be more in those, too.
    pub(super) without: BTreeSet<u32>,
}

/// Who of a group is in a stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    pub(super) leased: BTreeSet<ItemId>,
    /// Live ones, where the order matters.
    pub(super) live: BTreeSet<ItemId>,
    /// Another server is at it.
    pub(super) busy: bool,
}

/// What a claim asks for, as numbers.
#[derive(Clone, Debug)]
pub(super) struct Claiming {
    pub(super) filter: Filter,
    pub(super) lanes: Vec<u32>,
    pub(super) only: Option<Vec<u32>>,
}

impl Claiming {
    pub(super) fn is_for(&self, claim: &Claim) -> bool {
        let Filter { queues, stages, kinds, tenants } = &self.filter;
        (queues, stages, kinds, tenants)
            == (&claim.queues, &claim.stages, &claim.kinds, &claim.tenants)
    }
}

/// A note: its version, and its body if it was decided here.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    pub(super) version: u64,
    pub(super) body: Option<Arc<[u8]>>,
}
