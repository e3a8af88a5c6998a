//! The order laws: which item a claim gets next.
//!
//! Among everything that the claim asks for and the rules admit: the lane with the best priority
//! first, lanes of the same priority by turns. Within a lane the highest priority, there due
//! retries first if the policy says so, there tenants by turns, there the oldest. Every eighth item
//! that a lane hands out is its oldest, whatever its priority.
//!
//! [`State::follow`] turns this around: the model is told what another store handed out, checks
//! each item against the laws and hands out the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use windrow_core::command::Claim;
use windrow_core::item::{Marks, TenantNo};
use windrow_core::limits::OLDEST_EVERY;
use windrow_core::rules::claim::admit;
use windrow_core::{Item, ItemId, Ledger, State as Doing, Timestamp};

use super::Slip;
use super::state::{LaneKey, State};

/// Whose turn it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// What the current claim was offered and did not take.
    pub(super) aside: BTreeSet<ItemId>,
    lanes: BTreeMap<LaneKey, Lane>,
    last_lane: Option<LaneKey>,
    /// What the current claim got so far.
    served: Vec<Served>,
    /// How many items the current claim has.
    got: usize,
    /// Nobody knows since when the store that is followed counts to eight: it may be the turn of a
    /// lane's oldest item at any time.
    pub(super) uncounted: bool,
    /// Of these the current claim got so many.
    aged: usize,
    /// What the current claim is to get.
    script: Option<VecDeque<ItemId>>,
    /// What the next claim is to get.
    next_script: Option<VecDeque<ItemId>>,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    handed_out: u32,
    /// The tenant that was served last, by priority.
    last_tenant: BTreeMap<u8, TenantNo>,
}

/// One item that the current claim got by priority, not by age.
#[derive(Clone, Debug, PartialEq)]
struct Served {
    class: Class,
    tenant: TenantNo,
}

/// Items among which tenants take turns.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Class {
    lane: LaneKey,
    priority: u8,
    first: bool,
}

impl Turns {
    /// A new claim begins.
    pub(super) fn begin(&mut self) {
        self.aside.clear();
        self.served.clear();
        self.got = 0;
        self.aged = 0;
        self.script = self.next_script.take();
    }
}

impl State {
    /// The next claim is to hand out exactly these items, and panics if that is unlawful. With
    /// none it chooses by itself again.
    pub fn follow(&mut self, items: Option<Vec<ItemId>>) {
        self.turns.next_script = items.map(VecDeque::from);
    }

    /// The next item for a claim.
    pub(super) fn choose(&mut self, claim: &Claim, now: Timestamp) -> Option<Item> {
        let offers = self.offers(claim, now);
        if let Some(script) = &mut self.turns.script {
            return match script.pop_front() {
                Some(next) => Some(self.lawful(next, &offers, now)),
                None => self.nothing_left(&offers),
            };
        }

        let lane = self.next_lane(&offers)?;
        let offers: Vec<Item> = offers.into_iter().filter(|item| self.lane(item) == lane).collect();
        self.next_in_lane(&lane, &offers)
    }

    fn lane(&self, item: &Item) -> LaneKey {
        (item.queue.0, self.stage_name(item).clone(), item.kind.0)
    }

    /// Everything that this claim may get now.
    fn offers(&self, claim: &Claim, now: Timestamp) -> Vec<Item> {
        let asked = |names: &[Arc<str>], name: &Arc<str>| names.is_empty() || names.contains(name);
        let fits = |item: &&Item| {
            let (tenant, queue) = Ledger::names(self, item);
            matches!(item.state, Doing::Pending { .. })
                && Claim::takes_from(&claim.queues, &queue)
                && asked(&claim.tenants, &tenant)
                && asked(&claim.kinds, self.names.kind(item.kind))
                && asked(&claim.stages, self.stage_name(item))
                && !self.turns.aside.contains(&item.id)
                && admit(self, item, now).is_ok()
        };
        self.items.values().filter(fits).copied().collect()
    }

    fn next_lane(&self, offers: &[Item]) -> Option<LaneKey> {
        let best = offers.iter().map(|item| item.priority).max()?;
        let lanes = offers.iter().filter(|item| item.priority == best);
        let lanes: BTreeSet<LaneKey> = lanes.map(|item| self.lane(item)).collect();
        Some(after(lanes, self.turns.last_lane.as_ref()))
    }

    fn next_in_lane(&self, lane: &LaneKey, offers: &[Item]) -> Option<Item> {
        if self.is_oldest_turn(lane) {
            return offers.iter().min_by_key(|item| item.id).copied();
        }
        let class = self.best_class(lane, offers)?;
        let offers: Vec<&Item> =
            offers.iter().filter(|item| self.class(item, class.first) == class).collect();
        let tenants: BTreeSet<TenantNo> = offers.iter().map(|item| item.tenant).collect();
        let last = self.turns.lanes.get(lane).and_then(|l| l.last_tenant.get(&class.priority));
        let tenant = after(tenants, last);
        let mine = offers.into_iter().filter(|item| item.tenant == tenant);
        if self.slip == Some(Slip::NewestFirst) {
            return mine.max_by_key(|item| item.id).copied();
        }
        mine.min_by_key(|item| item.id).copied()
    }

    fn is_oldest_turn(&self, lane: &LaneKey) -> bool {
        let handed_out = self.turns.lanes.get(lane).map_or(0, |lane| lane.handed_out);
        let counts = !self.turns.uncounted && self.slip != Some(Slip::AgeForgotten);
        (handed_out + 1).is_multiple_of(OLDEST_EVERY) && counts
    }

    /// The class that an item belongs to, where `first` says that due retries come first in it.
    fn class(&self, item: &Item, first: bool) -> Class {
        let first = first && item.has(Marks::RETRYING);
        Class { lane: self.lane(item), priority: item.priority, first }
    }

    /// What a lane hands out next if it is not its oldest item's turn.
    fn best_class(&self, lane: &LaneKey, offers: &[Item]) -> Option<Class> {
        let priority = offers.iter().map(|item| item.priority).max()?;
        let mut best = offers.iter().filter(|item| item.priority == priority);
        let first = best.any(|item| self.policy(item).retry_first && item.has(Marks::RETRYING));
        Some(Class { lane: lane.clone(), priority, first })
    }

    /// Takes note that an item is handed out.
    pub(super) fn handed_out(&mut self, item: &Item) {
        let key = self.lane(item);
        if !self.is_oldest_turn(&key) {
            let class = self.class(item, self.policy(item).retry_first);
            self.turns.served.push(Served { class, tenant: item.tenant });
        }

        let lane = self.turns.lanes.entry(key.clone()).or_default();
        lane.handed_out += 1;
        lane.last_tenant.insert(item.priority, item.tenant);
        self.turns.last_lane = Some(key);
        self.turns.got += 1;
    }

    /// The item that another store handed out next, if the laws allow it.
    fn lawful(&mut self, next: ItemId, offers: &[Item], now: Timestamp) -> Item {
        let find = |item: &&Item| item.id == next;
        let item = *offers.iter().find(find).unwrap_or_else(|| {
            let item = self.items.get(&next);
            let gate = item.map(|item| admit(self, item, now));
            panic!("{next} was handed out and must not be: {gate:?}, {item:?}")
        });

        let lane = self.lane(&item);
        let best = offers.iter().max_by_key(|item| item.priority);
        let of_lane: Vec<Item> =
            offers.iter().filter(|item| self.lane(item) == lane).copied().collect();
        let oldest = of_lane.iter().map(|item| item.id).min();
        if self.turns.uncounted && oldest == Some(next) {
            self.turns.aged += 1;
            return item;
        }
        if self.is_oldest_turn(&lane) {
            assert_eq!(Some(next), oldest, "order: every eighth item of a lane is its oldest");
            return item;
        }
        let lane_best = of_lane.iter().max_by_key(|item| item.priority);
        assert_eq!(
            lane_best.map(|item| item.priority),
            best.map(|item| item.priority),
            "order: {item:?} is of a lane that was not due, {best:?} was"
        );
        let class = self.best_class(&lane, &of_lane).expect("the item itself is in its lane");
        assert_eq!(self.class(&item, class.first), class, "order: {next} was not due in its lane");
        let same = |other: &&Item| self.class(other, class.first) == class;
        let rivals: Vec<&Item> = of_lane.iter().filter(same).collect();
        let older = rivals.iter().find(|other| other.tenant == item.tenant && other.id < next);
        assert!(older.is_none(), "order: {next} went before {older:?} of its tenant");
        let served = |tenant| {
            let alike = |one: &&Served| one.tenant == tenant && one.class == class;
            self.turns.served.iter().filter(alike).count()
        };
        let mine = served(item.tenant);
        for other in rivals {
            let theirs = served(other.tenant);
            assert!(
                mine <= theirs + 1 + self.turns.aged,
                "order: tenant of {next} was served {mine} times, {theirs}"
            );
        }
        item
    }

    /// Another store handed out no more: right, if nothing is left or the next one goes alone.
    fn nothing_left(&self, offers: &[Item]) -> Option<Item> {
        let alone = offers.iter().find(|item| item.has(Marks::ALONE));
        assert!(
            offers.is_empty() || alone.is_some() && self.turns.got > 0,
            "order: {} items could have been handed out and were not",
            offers.len()
        );
        alone.copied()
    }
}

/// The one whose turn it is after `last`.
fn after<T: Ord + Clone>(all: BTreeSet<T>, last: Option<&T>) -> T {
    let next = last.and_then(|last| all.iter().find(|one| *one > last));
    next.or_else(|| all.first()).cloned().expect("somebody waits for a turn")
}
