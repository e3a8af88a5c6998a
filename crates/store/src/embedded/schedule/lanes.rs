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

use super::groups::Groups;
use super::line::Token;
use super::row::{Row, Seat, Younger};
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
    groups: Groups,
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

    /// Changes the seat of a tenant.
    fn change(&mut self, class: u8, tenant: u32, change: impl FnOnce(&mut Seat)) {
        let row = self.row(class);
        let age = row.change(tenant, change);
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

    /// The oldest item of all, among tenants that `may`.
    fn oldest(&mut self, may: impl Fn(u32) -> bool) -> Option<SlotNo> {
        loop {
            let oldest = self.ages.iter().find(|(_, _, tenant)| may(*tenant));
            let (serial, class, tenant) = *oldest?;
            let row = self.row(class);
            match row.correct(tenant, serial) {
                Some(first) if first == serial => return row.first(tenant),
                corrected => {
                    self.ages.remove(&(serial, class, tenant));
                    corrected.map(|first| self.ages.insert((first, class, tenant)));
                }
            }
        }
    }
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

    /// The oldest item in line in a lane, among tenants that `may`.
    pub(crate) fn oldest_in(&mut self, lane: u32, may: impl Fn(u32) -> bool) -> Option<SlotNo> {
        self.get_mut(lane).oldest(may)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Lane)> {
        self.lanes.iter().enumerate().map(|(no, lane)| (no as u32, lane))
    }

    fn class(&self, slot: &Slot) -> u8 {
        let retrying = Marks::from_bits(slot.marks).has(Marks::RETRYING);
        let first = self.get(slot.lane).policy.retry_first && retrying;
        slot.rank.priority() * 2 + u8::from(first)
    }

    /// The group of a slot in its stage, if it is known.
    fn group(&self, slot: &Slot) -> Option<u32> {
        let LaneName { queue, stage, .. } = self.get(slot.lane).name;
        self.groups.find(slot.group, |lane| {
            let other = self.get(lane).name;
            other.queue == queue && other.stage == stage
        })
    }

    /// The group of a slot in its stage, made if it is new.
    fn group_or_new(&mut self, slot: &Slot) -> u32 {
        self.group(slot).unwrap_or_else(|| self.groups.add(slot.group, slot.lane))
    }

    /// Whether the policy of a slot's lane limits groups, and the slot is in one.
    fn is_limited(&self, slot: &Slot) -> bool {
        let policy = &self.get(slot.lane).policy;
        slot.group != NIL && (policy.ordered || policy.group_limit.is_some())
    }

    /// A visible slot gets in line.
    pub(crate) fn join(&mut self, slab: &mut Slab, no: SlotNo) {
        let slot = *slab.get(no);
        debug_assert_eq!(slot.spot, Spot::Nowhere);
        let class = self.class(&slot);
        if !self.is_limited(&slot) {
            let lane = self.get_mut(slot.lane);
            lane.change(class, slot.tenant, |seat| seat.line.push(slab, no));
            return self.tell(slot.lane, slot.tenant);
        }
        let group_no = self.group_or_new(&slot);
        let group = self.groups.get_mut(group_no);
        let lines = &mut group.lines;
        let at = lines.find(slot.lane, class).unwrap_or_else(|| lines.add(slot.lane, class));
        let line = &mut lines.all_mut()[at];
        let had = line.token();
        line.line.push(slab, no);
        line.waiting += 1;
        self.refresh(&slot, group_no, Some((at, had)));
        if had.is_some() && self.has_room_for_all(slot.lane, group_no) {
            self.tell(slot.lane, slot.tenant);
        }
    }

    /// A slot leaves the line, wherever it stands.
    pub(crate) fn leave(&mut self, slab: &mut Slab, no: SlotNo) {
        let slot = *slab.get(no);
        if !matches!(slot.spot, Spot::Line | Spot::Late) {
            return;
        }
        let class = self.class(&slot);
        if !self.is_limited(&slot) {
            let lane = self.get_mut(slot.lane);
            return lane.change(class, slot.tenant, |seat| seat.line.remove(slab, no));
        }
        let Some(group_no) = self.group(&slot) else { return };
        let group = self.groups.get_mut(group_no);
        let Some(at) = group.lines.find(slot.lane, class) else { return };
        let line = &mut group.lines.all_mut()[at];
        let had = line.token();
        line.line.remove(slab, no);
        line.waiting -= 1;
        self.refresh(&slot, group_no, Some((at, had)));
    }

    /// Notes that one more item of a lane and tenant can be claimed.
    fn tell(&mut self, lane: u32, tenant: u32) {
        if self.watched {
            self.ready.push((lane, tenant));
        }
    }

    /// Whether everything that waits in a group could be handed out now.
    fn has_room_for_all(&self, lane: u32, group: u32) -> bool {
        let policy = &self.get(lane).policy;
        let group = self.groups.get(group);
        match (policy.ordered, policy.group_limit) {
            (false, Some(limit)) => group.load + group.lines.waiting(lane) <= limit,
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

    /// Gives or takes the tokens of a slot's group, after its load changed or a line did: `changed`
    /// says which, and what token it had.
    fn refresh(&mut self, slot: &Slot, no: u32, changed: Option<(usize, Option<Token>)>) {
        let Lanes { lanes, groups, ready, watched, .. } = self;
        let group = groups.get_mut(no);
        let (load, first_in_order) = (group.load, group.first_in_order());
        let lines = group.lines.all_mut();
        let lowest = match group.order {
            Some(_) => lines.iter().filter_map(|l| l.line.first()).map(|(s, _)| s).min(),
            None => None,
        };
        // Without an order, a line is no other line's business.
        let (from, to) = match changed {
            Some((at, _)) if group.order.is_none() => (at, at + 1),
            _ => (0, lines.len()),
        };
        let mut emptied = false;
        for (at, line) in lines.iter_mut().enumerate().take(to).skip(from) {
            let lane = &mut lanes[line.lane as usize];
            let first = line.line.first();
            let open = if lane.policy.ordered {
                let first = first.map(|(serial, _)| serial);
                load == 0 && first == lowest && lowest <= first_in_order.or(lowest)
            } else {
                lane.policy.group_limit.is_none_or(|limit| load < limit)
            };
            let had = match changed {
                Some((changed, had)) if changed == at => had,
                _ => line.token(),
            };
            let has = first.filter(|_| open);
            line.shown = has.is_some();
            emptied |= first.is_none();
            if has != had {
                lane.change(line.class, slot.tenant, |seat| {
                    had.map(|token| seat.tokens.remove(&token));
                    has.map(|token| seat.tokens.insert(token));
                });
                if had.is_none() && *watched {
                    ready.push((line.lane, slot.tenant));
                }
            }
        }
        if emptied {
            group.lines.drop_empty();
        }
        if group.is_over() {
            groups.remove(slot.group, no);
        }
    }

    /// One lease more or less in a slot's group.
    pub(crate) fn load(&mut self, slot: &Slot, more: bool) {
        if slot.group == NIL {
            return;
        }
        let Policy { ordered, group_limit, .. } = self.get(slot.lane).policy;
        let is_open = |load: u32| group_limit.is_none_or(|limit| load < limit);
        let known = if more { Some(self.group_or_new(slot)) } else { self.group(slot) };
        let Some(no) = known else { return };
        let group = self.groups.get_mut(no);
        let was_open = is_open(group.load);
        if more {
            group.load += 1;
        } else if !is_planted(Bug::GroupLeaks) {
            group.load = group.load.saturating_sub(1);
        }
        let load = group.load;
        let room = group_limit.unwrap_or(0).saturating_sub(load);
        // Who waits in a lane that has more than there was room for is told of the room.
        let fills = |lane: u32| group.lines.waiting(lane) >= room;
        let mut told: Vec<u32> = Vec::new();
        if self.watched && !more {
            let shown = group.lines.all().iter().filter(|line| line.shown);
            told.extend(shown.map(|line| line.lane).filter(|lane| fills(*lane)));
            told.sort_unstable();
            told.dedup();
        }
        // Without an order, tokens come and go only where the load reaches or leaves the limit.
        if ordered || was_open != is_open(load) || group.is_over() {
            self.refresh(slot, no, None);
        }
        told.into_iter().for_each(|lane| self.tell(lane, slot.tenant));
    }

    /// A live item of an ordered group enters or leaves a stage.
    pub(crate) fn order(&mut self, slot: &Slot, enters: bool) {
        if slot.group == NIL || !self.get(slot.lane).policy.ordered {
            return;
        }
        let known = if enters { Some(self.group_or_new(slot)) } else { self.group(slot) };
        let Some(no) = known else { return };
        let group = self.groups.get_mut(no);
        let mut order = group.order.take().unwrap_or_default();
        let changed = if enters { order.insert(slot.serial) } else { order.remove(&slot.serial) };
        group.order = (!order.is_empty()).then_some(order);
        if changed {
            self.refresh(slot, no, None);
        }
    }

    pub(crate) fn group_load(&self, slot: &Slot) -> u32 {
        self.group(slot).map_or(0, |no| self.groups.get(no).load)
    }

    /// The serial of an item of the same ordered group that comes before this one.
    pub(crate) fn group_ahead(&self, slot: &Slot) -> Option<u64> {
        let first = self.groups.get(self.group(slot)?).first_in_order()?;
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

    /// Looks at what is handed out next, so that the processor fetches it all at once instead of
    /// one after the other: one step away from all of it first, then the next step.
    pub(crate) fn warm(&self, slab: &Slab, lane: u32, items: usize) {
        let Lane { filled, rows, .. } = self.get(lane);
        let Some(class) = filled.checked_ilog2() else { return };
        let Some(row) = &rows[class as usize] else { return };
        let seats: Vec<(&Seat, SlotNo)> = row.seats().take(items).collect();
        let slots: Vec<&Slot> = seats.iter().map(|(_, no)| slab.get(*no)).collect();
        let ends = seats.iter().map(|(seat, _)| {
            let ends = [seat.tokens.first(), seat.tokens.last()];
            ends.into_iter().flatten().fold(0, |all, (serial, _)| all ^ serial)
        });
        look(ends);
        let behind = slots.iter().filter(|slot| slot.next != NIL);
        look(behind.map(|slot| slab.get(slot.next).serial));
        let groups: Vec<u32> = slots.iter().filter_map(|slot| self.group(slot)).collect();
        let lines = groups.into_iter().map(|no| &self.groups.get(no).lines);
        look(lines.filter_map(|lines| lines.find(lane, class as u8)).map(|at| at as u64));
    }

    /// The same for slots that are about to join.
    pub(crate) fn warm_joins(&self, slab: &Slab, slots: impl Iterator<Item = SlotNo>) {
        let groups = slots.filter_map(|no| self.group(slab.get(no)));
        let last = groups.filter_map(|no| self.groups.get(no).lines.all().last()?.line.last());
        look(last.map(|no| slab.get(no).serial));
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
        let slot = if oldest {
            lane.oldest(may)?
        } else {
            let filled = lane.filled;
            let mut classes = (0..CLASSES as u8).rev().filter(|class| filled >> class & 1 == 1);
            classes.find_map(|class| lane.row(class).turn(may))?
        };
        lane.handed += 1;
        lane.served = served;
        self.leave(slab, slot);
        Some(slot)
    }

    /// A slot that was popped is first in line again.
    pub(crate) fn put_back(&mut self, slab: &mut Slab, no: SlotNo) {
        let slot = *slab.get(no);
        let class = self.class(&slot);
        self.join(slab, no);
        self.forgive(slot.lane);
        self.get_mut(slot.lane).row(class).undo_turn(slot.tenant);
    }

    /// A slot that was popped was not handed out after all.
    pub(crate) fn forgive(&mut self, lane: u32) {
        let lane = self.get_mut(lane);
        lane.handed = lane.handed.wrapping_sub(1);
    }
}

/// Makes the processor fetch all of this.
pub(crate) fn look(seen: impl Iterator<Item = u64>) {
    std::hint::black_box(seen.fold(0, |all, one| all ^ one));
}
