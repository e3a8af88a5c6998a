//! The line: the order laws over what lies on the desk.
//!
//! The lane with the best class first, lanes of the same class by turns. Within a lane the highest
//! class, there tenants by turns, there the oldest. Every eighth item that a lane hands out is its
//! oldest. Each server counts turns for itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use windrow_core::ItemId;
use windrow_core::limits::OLDEST_EVERY;

/// Where an item is in line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Spot {
    pub(super) lane: u32,
    pub(super) class: u8,
    pub(super) tenant: u32,
}

/// Items that could be handed out now.
#[derive(Debug, Default)]
pub(super) struct Line {
    lanes: BTreeMap<u32, InLane>,
    spots: HashMap<ItemId, Spot>,
}

#[derive(Debug, Default)]
struct InLane {
    classes: BTreeMap<u8, BTreeMap<u32, BTreeSet<ItemId>>>,
    all: BTreeSet<ItemId>,
}

impl Line {
    pub(super) fn clear(&mut self) {
        self.lanes.clear();
        self.spots.clear();
    }

    pub(super) fn put(&mut self, id: ItemId, spot: Spot) {
        self.take(id);
        let lane = self.lanes.entry(spot.lane).or_default();
        lane.all.insert(id);
        lane.classes.entry(spot.class).or_default().entry(spot.tenant).or_default().insert(id);
        self.spots.insert(id, spot);
    }

    /// Takes an item out of line and says where it was.
    pub(super) fn take(&mut self, id: ItemId) -> Option<Spot> {
        let spot = self.spots.remove(&id)?;
        let lane = self.lanes.get_mut(&spot.lane)?;
        lane.all.remove(&id);
        let tenants = lane.classes.get_mut(&spot.class)?;
        let items = tenants.get_mut(&spot.tenant)?;
        items.remove(&id);
        if items.is_empty() {
            tenants.remove(&spot.tenant);
        }
        if tenants.is_empty() {
            lane.classes.remove(&spot.class);
        }
        if lane.all.is_empty() {
            self.lanes.remove(&spot.lane);
        }
        Some(spot)
    }

    /// The item whose turn it is, in these lanes and of these tenants, if any are named.
    pub(super) fn choose(
        &self,
        turns: &Turns,
        in_lane: impl Fn(u32) -> bool,
        only: Option<&[u32]>,
    ) -> Option<ItemId> {
        let due = self.lanes.iter().filter(|(no, _)| in_lane(**no)).filter_map(|(no, lane)| {
            let best = lane.best(only)?;
            let served = turns.lanes.get(no).map_or(0, |turn| turn.served);
            Some(((Reverse(best), served, *no), lane))
        });
        let ((Reverse(class), _, no), lane) = due.min_by_key(|(turn, _)| *turn)?;
        let turn = turns.lanes.get(&no);
        if turn.is_some_and(Turn::is_for_oldest) {
            let wanted =
                |id: &&ItemId| only.is_none_or(|only| only.contains(&self.spots[*id].tenant));
            return lane.all.iter().find(wanted).copied();
        }
        let tenants = lane.classes.get(&class)?;
        let last = turn.and_then(|turn| turn.last_tenant.get(&class).copied());
        let wanted = |tenant: &u32| only.is_none_or(|only| only.contains(tenant));
        let after =
            last.and_then(|last| tenants.range(last + 1..).find(|(tenant, _)| wanted(tenant)));
        let (_, items) = after.or_else(|| tenants.iter().find(|(tenant, _)| wanted(tenant)))?;
        items.first().copied()
    }
}

impl InLane {
    /// The highest class in which one of these tenants has an item.
    fn best(&self, only: Option<&[u32]>) -> Option<u8> {
        let Some(only) = only else { return self.classes.last_key_value().map(|(no, _)| *no) };
        let here = |tenants: &BTreeMap<u32, _>| only.iter().any(|no| tenants.contains_key(no));
        self.classes.iter().rev().find(|(_, tenants)| here(tenants)).map(|(class, _)| *class)
    }
}

/// What each lane handed out so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    lanes: HashMap<u32, Turn>,
    served: u64,
}

#[derive(Clone, Debug, Default)]
struct Turn {
    handed: u32,
    served: u64,
    /// By class.
    last_tenant: HashMap<u8, u32>,
}

impl Turn {
    fn is_for_oldest(&self) -> bool {
        (self.handed + 1).is_multiple_of(OLDEST_EVERY)
    }
}

impl Turns {
    /// The tenant that a lane served last in a class.
    pub(super) fn last_tenant(&self, lane: u32, class: u8) -> Option<u32> {
        self.lanes.get(&lane)?.last_tenant.get(&class).copied()
    }

    /// How many of the next so many that a lane hands out are its oldest.
    pub(super) fn oldest_among(&self, lane: u32, next: usize) -> usize {
        let handed = self.lanes.get(&lane).map_or(0, |turn| turn.handed as usize);
        let every = OLDEST_EVERY as usize;
        (handed + next) / every - handed / every
    }

    /// Takes note that an item was handed out.
    pub(super) fn handed_out(&mut self, spot: Spot) {
        self.served += 1;
        let turn = self.lanes.entry(spot.lane).or_default();
        if !turn.is_for_oldest() {
            turn.last_tenant.insert(spot.class, spot.tenant);
        }
        turn.handed += 1;
        turn.served = self.served;
    }

    /// Takes over what a batch noted, lane by lane, if it is newer: another one may have ended
    /// since that one began.
    pub(super) fn take(&mut self, of: &Turns) {
        self.served = self.served.max(of.served);
        for (lane, turn) in &of.lanes {
            let known = self.lanes.entry(*lane).or_default();
            if turn.served > known.served {
                known.clone_from(turn);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_at_the_same_time_leave_each_others_lanes_their_turns() {
        let spot = |lane, tenant| Spot { lane, class: 5, tenant };
        let mut turns = Turns::default();
        // Both begin with what is known now. The second ends last, and says nothing of lane 1.
        let (mut first, mut second) = (turns.clone(), turns.clone());
        first.handed_out(spot(1, 7));
        second.handed_out(spot(2, 8));
        turns.take(&first);
        turns.take(&second);
        assert_eq!((turns.last_tenant(1, 5), turns.last_tenant(2, 5)), (Some(7), Some(8)));
    }
}
