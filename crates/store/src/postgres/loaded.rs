//! What is loaded besides items: leases, lists, offers and groups.

use std::collections::BTreeSet;

use hashbrown::HashSet;
use windrow_core::ItemId;
use windrow_core::change::Lease;

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
