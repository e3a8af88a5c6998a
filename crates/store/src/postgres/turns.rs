//! Whose turn it is: the order laws over what the database offers.
//!
//! Among everything that is offered: the lane with the best priority first, lanes of the same
//! priority by turns. Within a lane the highest class, there tenants by turns, there the oldest.
//! Every eighth item that a lane hands out is its oldest. Each server counts for itself.

use std::collections::{BTreeSet, HashMap};

use windrow_core::ItemId;
use windrow_core::limits::OLDEST_EVERY;

/// Queue, stage and kind, as numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct LaneName {
    pub(super) queue: u32,
    pub(super) stage: u32,
    pub(super) kind: u32,
}

/// An item that could be handed out now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offered {
    pub(super) id: ItemId,
    pub(super) lane: LaneName,
    pub(super) class: u8,
    pub(super) tenant: u32,
}

/// What each lane handed out so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    lanes: HashMap<LaneName, Lane>,
    served: u64,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    handed: u32,
    served: u64,
    /// By class.
    last_tenant: HashMap<u8, u32>,
}

impl Lane {
    fn is_oldest_turn(&self) -> bool {
        (self.handed + 1).is_multiple_of(OLDEST_EVERY)
    }
}

impl Turns {
    /// The tenant that a lane served last in its highest class.
    pub(super) fn last_tenant(&self, lane: LaneName) -> Option<u32> {
        let last = self.lanes.get(&lane)?.last_tenant.iter();
        last.max_by_key(|(class, _)| **class).map(|(_, tenant)| *tenant)
    }

    /// The one of these whose turn it is.
    pub(super) fn choose(&self, offered: &[Offered]) -> Option<Offered> {
        let best = |lane: LaneName| {
            let here = offered.iter().filter(move |one| one.lane == lane);
            here.map(|one| one.class).max()
        };
        let lanes: BTreeSet<LaneName> = offered.iter().map(|one| one.lane).collect();
        let due = lanes.into_iter().min_by_key(|lane| {
            let served = self.lanes.get(lane).map_or(0, |lane| lane.served);
            (std::cmp::Reverse(best(*lane)), served, *lane)
        })?;
        let lane = self.lanes.get(&due);
        let here = offered.iter().filter(|one| one.lane == due);
        if lane.is_some_and(Lane::is_oldest_turn) {
            return here.min_by_key(|one| one.id).copied();
        }
        let class = best(due)?;
        let last = lane.and_then(|lane| lane.last_tenant.get(&class));
        let here = here.filter(|one| one.class == class);
        let tenants: BTreeSet<u32> = here.clone().map(|one| one.tenant).collect();
        let after = last.and_then(|last| tenants.range(last + 1..).next());
        let tenant = *after.or_else(|| tenants.first())?;
        here.filter(|one| one.tenant == tenant).min_by_key(|one| one.id).copied()
    }

    /// Takes note that an item was handed out.
    pub(super) fn handed_out(&mut self, lane: LaneName, class: u8, tenant: u32) {
        self.served += 1;
        let lane = self.lanes.entry(lane).or_default();
        if !lane.is_oldest_turn() {
            lane.last_tenant.insert(class, tenant);
        }
        lane.handed += 1;
        lane.served = self.served;
    }
}
