//! Lanes: what waits for one (queue, stage, kind), and the order in which it is handed out.
//!
//! Priority; then, where the policy says so, retries; then tenants in turn; then creation. Every
//! eighth item is the lane's oldest, whatever its priority. Group limits belong to a stage and
//! count live leases, so they can never leak.

use std::cell::Cell;
use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};
use windrow_core::item::Marks;
use windrow_core::limits::OLDEST_EVERY;
use windrow_core::planted::{Bug, is_planted};
use windrow_core::settings::Policy;

use super::line::Line;
use super::row::{Next, Row, Younger};
use super::slab::{NIL, Slab, Slot, SlotNo, Spot};

/// Classes of a lane: eleven priorities, each for first attempts and, above them, retries.
const CLASSES: usize = 22;

/// All lanes, and the groups in them.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    by_name: HashMap<LaneName, u32>,
    /// The lane that was asked for last.
    recent: Cell<u32>,
    groups: HashMap<GroupKey, Group>,
    served: u64,
    /// What became claimable since this was last taken: lane and tenant, once per item.
    pub(crate) ready: Vec<(u32, u32)>,
    /// Whether anybody wants to know.
    pub(crate) watched: bool,
}

/// Queue, stage and kind, as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LaneName {
    pub(crate) queue: u32,
    pub(crate) stage: u32,
    pub(crate) kind: u32,
}

/// What waits for one (queue, stage, kind).
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) name: LaneName,
    pub(crate) policy: Policy,
    /// Pending items, visible or not.
    pub(crate) pending: u64,
    rows: [Option<Box<Row>>; CLASSES],
    /// One bit per class with something to hand out.
    filled: u32,
    /// Not later than the first item of each seat: (serial, class, tenant). Most often exact; what
    /// is handed out leaves its seat's entry behind, which is put right when it is looked at.
    ages: BTreeSet<(u64, u8, u32)>,
    handed: u32,
    served: u64,
}

impl Lane {
    fn row(&mut self, class: u8) -> &mut Row {
        self.rows[usize::from(class)].get_or_insert_default()
    }

    /// To be called whenever a seat changed.
    fn settle_seat(&mut self, class: u8, tenant: u32) {
        let Some(row) = &mut self.rows[usize::from(class)] else { return };
        let age = row.settle_seat(tenant);
        if row.is_empty() {
            self.filled &= !(1 << class);
        } else {
            self.filled |= 1 << class;
        }
        if let Some(Younger { was, is }) = age {
            was.map(|serial| self.ages.remove(&(serial, class, tenant)));
            self.ages.insert((is, class, tenant));
        }
    }

    /// The class and tenant of the oldest item of all, among tenants that `may`.
    fn oldest(&mut self, may: impl Fn(u32) -> bool) -> Option<(u8, u32)> {
        loop {
            let oldest = self.ages.iter().find(|(_, _, tenant)| may(*tenant));
            let (serial, class, tenant) = *oldest?;
            let row = self.rows[usize::from(class)].as_mut();
            match row.and_then(|row| row.correct(tenant, serial)) {
                Some(first) if first == serial => return Some((class, tenant)),
                corrected => {
                    self.ages.remove(&(serial, class, tenant));
                    corrected.map(|first| self.ages.insert((first, class, tenant)));
                }
            }
        }
    }
}

/// A tenant's group in one stage of one queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct GroupKey {
    queue: u32,
    stage: u32,
    group: u32,
}

#[derive(Debug, Default)]
struct Group {
    /// Live leases.
    load: u32,
    /// Slots in all lines.
    waiting: u32,
    lines: Vec<GroupLine>,
    /// Live items of an ordered group that are in the stage.
    #[expect(clippy::box_collection, reason = "seldom there, and there are many groups")]
    order: Option<Box<BTreeSet<u64>>>,
}

impl Group {
    fn first_in_order(&self) -> Option<u64> {
        self.order.as_ref()?.first().copied()
    }

    /// Nothing of it is left in the stage.
    fn is_over(&self) -> bool {
        self.load == 0 && self.lines.is_empty() && self.order.is_none()
    }
}

/// What waits of a group in one lane with one priority.
#[derive(Debug)]
struct GroupLine {
    lane: u32,
    class: u8,
    tenant: u32,
    line: Line,
    /// The serial that its token carries.
    token: Option<u64>,
}

/// Which tenants a claim may take from.
#[derive(Debug)]
pub(crate) struct Allowed<'a> {
    /// Those it names; all if empty.
    pub(crate) tenants: &'a [u32],
    /// (queue, tenant) pairs that are paused.
    pub(crate) paused: &'a HashSet<(u32, u32)>,
    /// (queue, stage, tenant) triples that are paused.
    pub(crate) cells: &'a HashSet<(u32, u32, u32)>,
}

impl Allowed<'_> {
    fn may(&self, lane: LaneName, tenant: u32) -> bool {
        let wanted = self.tenants.is_empty() || self.tenants.contains(&tenant);
        wanted
            && !self.paused.contains(&(lane.queue, tenant))
            && !self.cells.contains(&(lane.queue, lane.stage, tenant))
    }

    fn is_open(&self) -> bool {
        self.tenants.is_empty() && self.paused.is_empty() && self.cells.is_empty()
    }
}

impl Lanes {
    pub(crate) fn find(&self, name: LaneName) -> Option<u32> {
        let recent = self.recent.get();
        if self.lanes.get(recent as usize).is_some_and(|lane| lane.name == name) {
            return Some(recent);
        }
        let found = self.by_name.get(&name).copied()?;
        self.recent.set(found);
        Some(found)
    }

    pub(crate) fn add(&mut self, name: LaneName, policy: Policy) -> u32 {
        let no = self.lanes.len() as u32;
        self.lanes.push(Lane {
            name,
            policy,
            pending: 0,
            rows: [const { None }; CLASSES],
            filled: 0,
            ages: BTreeSet::new(),
            handed: 0,
            served: 0,
        });
        self.by_name.insert(name, no);
        no
    }

    pub(crate) fn get(&self, lane: u32) -> &Lane {
        &self.lanes[lane as usize]
    }

    pub(crate) fn get_mut(&mut self, lane: u32) -> &mut Lane {
        &mut self.lanes[lane as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Lane)> {
        self.lanes.iter().enumerate().map(|(no, lane)| (no as u32, lane))
    }

    fn class(&self, slot: &Slot) -> u8 {
        let retrying = Marks::from_bits(slot.marks).has(Marks::RETRYING);
        let first = self.get(slot.lane).policy.retry_first && retrying;
        slot.rank.priority() * 2 + u8::from(first)
    }

    fn key(&self, slot: &Slot) -> Option<GroupKey> {
        if slot.group == NIL {
            return None;
        }
        let LaneName { queue, stage, .. } = self.get(slot.lane).name;
        Some(GroupKey { queue, stage, group: slot.group })
    }

    /// The group of a slot, if its lane's policy limits groups.
    fn limited(&self, slot: &Slot) -> Option<GroupKey> {
        let policy = &self.get(slot.lane).policy;
        (policy.ordered || policy.group_limit.is_some()).then(|| self.key(slot)).flatten()
    }

    /// A visible slot gets in line.
    pub(crate) fn join(&mut self, slab: &mut Slab, no: SlotNo) {
        let slot = *slab.get(no);
        debug_assert_eq!(slot.spot, Spot::Nowhere);
        let class = self.class(&slot);
        match self.limited(&slot) {
            Some(key) => {
                let group = self.groups.entry(key).or_default();
                let is = |l: &GroupLine| l.lane == slot.lane && l.class == class;
                let at = group.lines.iter().position(is).unwrap_or_else(|| {
                    let (lane, tenant) = (slot.lane, slot.tenant);
                    let line = Line::default();
                    // Nearly all groups have one line; growing by doubling would begin with four.
                    group.lines.reserve_exact(1);
                    group.lines.push(GroupLine { lane, class, tenant, line, token: None });
                    group.lines.len() - 1
                });
                group.lines[at].line.push(slab, no);
                group.waiting += 1;
                let had_token = group.lines[at].token.is_some();
                self.refresh(key);
                if had_token && self.has_room_for_all(slot.lane, key) {
                    self.tell(slot.lane, slot.tenant);
                }
            }
            None => {
                self.row(slot.lane, class).seat(slot.tenant).line.push(slab, no);
                self.settle_seat(slot.lane, class, slot.tenant);
                self.tell(slot.lane, slot.tenant);
            }
        }
    }

    /// A slot leaves the line, wherever it stands.
    pub(crate) fn leave(&mut self, slab: &mut Slab, no: SlotNo) {
        let slot = *slab.get(no);
        if !matches!(slot.spot, Spot::Line | Spot::Late) {
            return;
        }
        let class = self.class(&slot);
        match self.limited(&slot) {
            Some(key) => {
                self.leave_group(slab, key, slot.lane, class, no);
                self.refresh(key);
            }
            None => {
                self.row(slot.lane, class).seat(slot.tenant).line.remove(slab, no);
                self.settle_seat(slot.lane, class, slot.tenant);
            }
        }
    }

    fn leave_group(&mut self, slab: &mut Slab, key: GroupKey, lane: u32, class: u8, no: SlotNo) {
        let group = self.groups.entry(key).or_default();
        let line = group.lines.iter_mut().find(|l| l.lane == lane && l.class == class);
        if let Some(line) = line {
            line.line.remove(slab, no);
            group.waiting -= 1;
        }
    }

    /// Notes that one more item of a lane and tenant can be claimed.
    fn tell(&mut self, lane: u32, tenant: u32) {
        if self.watched {
            self.ready.push((lane, tenant));
        }
    }

    /// Whether everything that waits in a group could be handed out now.
    fn has_room_for_all(&self, lane: u32, key: GroupKey) -> bool {
        let policy = &self.get(lane).policy;
        let Some(group) = self.groups.get(&key) else { return false };
        match (policy.ordered, policy.group_limit) {
            (false, Some(limit)) => group.load + group.waiting <= limit,
            (ordered, _) => !ordered,
        }
    }

    /// Everything in a lane that could be claimed if nothing else held it up, told again.
    pub(crate) fn tell_all(&mut self, no: u32) {
        if !self.watched {
            return;
        }
        let Lanes { lanes, ready, .. } = self;
        let lane = &lanes[no as usize];
        let tenants = lane.rows.iter().flatten().flat_map(|row| row.tenants());
        let tenants: Vec<u32> = tenants.collect();
        for tenant in &tenants {
            let each = (lane.pending as usize).div_ceil(tenants.len().max(1));
            ready.extend(std::iter::repeat_n((no, *tenant), each));
        }
    }

    fn row(&mut self, lane: u32, class: u8) -> &mut Row {
        self.get_mut(lane).row(class)
    }

    fn settle_seat(&mut self, lane: u32, class: u8, tenant: u32) {
        self.get_mut(lane).settle_seat(class, tenant);
    }

    /// Gives or takes the tokens of a group, after what it holds or its load changed.
    fn refresh(&mut self, key: GroupKey) {
        let Lanes { lanes, groups, ready, watched, .. } = self;
        let Some(group) = groups.get_mut(&key) else { return };
        let lowest = group.lines.iter().filter_map(|l| l.line.first()).map(|(s, _)| s).min();
        let (load, first_in_order) = (group.load, group.first_in_order());
        for line in &mut group.lines {
            let (class, tenant) = (line.class, line.tenant);
            let lane = &mut lanes[line.lane as usize];
            let first = line.line.first().map(|(serial, _)| serial);
            let open = if lane.policy.ordered {
                load == 0 && first == lowest && lowest <= first_in_order.or(lowest)
            } else {
                lane.policy.group_limit.is_none_or(|limit| load < limit)
            };
            let want = first.filter(|_| open);
            let have = std::mem::replace(&mut line.token, want);
            if want != have {
                let seat = lane.row(class).seat(tenant);
                have.map(|serial| seat.tokens.remove(&(serial, key.group)));
                want.map(|serial| seat.tokens.insert((serial, key.group)));
                lane.settle_seat(class, tenant);
                if have.is_none() && *watched {
                    ready.push((line.lane, tenant));
                }
            }
        }
        group.lines.retain(|line| !line.line.is_empty());
        if group.is_over() {
            groups.remove(&key);
        }
    }

    /// One lease more or less in a slot's group.
    pub(crate) fn load(&mut self, slot: &Slot, more: bool) {
        let Some(key) = self.key(slot) else { return };
        let Policy { ordered, group_limit, .. } = self.get(slot.lane).policy;
        let is_open = |load: u32| group_limit.is_none_or(|limit| load < limit);
        let group = self.groups.entry(key).or_default();
        let was_open = is_open(group.load);
        if more {
            group.load += 1;
        } else if !is_planted(Bug::GroupLeaks) {
            group.load = group.load.saturating_sub(1);
        }
        let (load, waiting) = (group.load, group.waiting);
        let had_token = group.lines.iter().any(|line| line.token.is_some());
        // Without an order, tokens come and go only where the load reaches or leaves the limit.
        if ordered || was_open != is_open(load) || group.is_over() {
            self.refresh(key);
        }
        let limit = self.get(slot.lane).policy.group_limit.unwrap_or(0);
        if !more && had_token && waiting >= limit.saturating_sub(load) {
            self.tell(slot.lane, slot.tenant);
        }
    }

    /// A live item of an ordered group enters or leaves a stage.
    pub(crate) fn order(&mut self, slot: &Slot, enters: bool) {
        if slot.group == NIL || !self.get(slot.lane).policy.ordered {
            return;
        }
        let Some(key) = self.key(slot) else { return };
        let group = self.groups.entry(key).or_default();
        let mut order = group.order.take().unwrap_or_default();
        let changed = if enters { order.insert(slot.serial) } else { order.remove(&slot.serial) };
        group.order = (!order.is_empty()).then_some(order);
        if changed {
            self.refresh(key);
        }
    }

    pub(crate) fn group_load(&self, slot: &Slot) -> u32 {
        self.key(slot).and_then(|key| self.groups.get(&key)).map_or(0, |group| group.load)
    }

    /// The serial of an item of the same ordered group that comes before this one.
    pub(crate) fn group_ahead(&self, slot: &Slot) -> Option<u64> {
        let first = self.groups.get(&self.key(slot)?)?.first_in_order()?;
        (first < slot.serial).then_some(first)
    }

    /// The lane that a claim over these lanes takes from next: the one with the highest class, and
    /// of those the one that was served longest ago.
    pub(crate) fn pick(
        &self,
        lanes: &[u32],
        allowed: &Allowed<'_>,
        open: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let best = |lane: &Lane| {
            if allowed.is_open() {
                return lane.filled.checked_ilog2();
            }
            let may = |tenant| allowed.may(lane.name, tenant);
            let has = |class: &u32| {
                let row = lane.rows[*class as usize].as_ref();
                row.is_some_and(|row| row.has_any(may))
            };
            (0..CLASSES as u32).rev().filter(|class| lane.filled >> class & 1 == 1).find(has)
        };
        let candidates = lanes.iter().filter_map(|no| {
            let lane = self.get(*no);
            let class = best(lane)?;
            open(*no).then_some((std::cmp::Reverse(class), lane.served, *no))
        });
        candidates.min().map(|(_, _, no)| no)
    }

    /// Takes the next slot of a lane out of line.
    pub(crate) fn pop(
        &mut self,
        slab: &mut Slab,
        no: u32,
        allowed: &Allowed<'_>,
    ) -> Option<SlotNo> {
        self.served += 1;
        let served = self.served;
        let lane = &mut self.lanes[no as usize];
        let name = lane.name;
        let may = |tenant| allowed.may(name, tenant);
        let oldest = (lane.handed + 1).is_multiple_of(OLDEST_EVERY);
        let (class, tenant) = if oldest {
            lane.oldest(may)?
        } else {
            let filled = lane.filled;
            let classes = (0..CLASSES as u8).rev().filter(|class| filled >> class & 1 == 1);
            let mut turns = classes.filter_map(|class| {
                let row = lane.rows[usize::from(class)].as_mut()?;
                Some((class, row.turn(may)?))
            });
            turns.next()?
        };
        let next = lane.rows[usize::from(class)].as_ref()?.next(tenant)?;
        lane.handed += 1;
        lane.served = served;
        let slot = match next {
            Next::Slot(slot) => slot,
            Next::Group(group) => {
                let LaneName { queue, stage, .. } = lane.name;
                let group = self.groups.get(&GroupKey { queue, stage, group })?;
                let is = |l: &&GroupLine| l.lane == no && l.class == class;
                group.lines.iter().find(is)?.line.first()?.1
            }
        };
        self.leave(slab, slot);
        Some(slot)
    }

    /// A slot that was popped is first in line again.
    pub(crate) fn put_back(&mut self, slab: &mut Slab, no: SlotNo) {
        let slot = *slab.get(no);
        let class = self.class(&slot);
        self.join(slab, no);
        self.forgive(slot.lane);
        self.row(slot.lane, class).undo_turn(slot.tenant);
    }

    /// A slot that was popped was not handed out after all.
    pub(crate) fn forgive(&mut self, lane: u32) {
        let lane = self.get_mut(lane);
        lane.handed = lane.handed.wrapping_sub(1);
    }
}
