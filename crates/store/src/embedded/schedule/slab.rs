//! The slab: one small slot per live item, and the tables that find it.
//!
//! A slot holds what the rules decide on and where the rest lies on disk. Everything that names a
//! slot does so by its number; a freed number is used again.

use std::cell::Cell;

use windrow_core::limits::{DEPTH_MAX, PRIORITY_MAX};

use super::order::Order;
use super::pieces::Pieces;
use super::table::Table;
use crate::embedded::log::Loc;

/// The number of a slot.
pub(crate) type SlotNo = u32;
/// No slot.
pub(crate) const NIL: u32 = u32::MAX;

/// A live item in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) serial: u64,
    pub(crate) body: Option<Loc>,
    pub(crate) trail: Option<Loc>,
    /// Pending or held: not before. Otherwise unused.
    pub(crate) until: u64,
    /// Hash of tenant, queue and key; zero for none.
    pub(crate) key: u64,
    /// Serial of the parent; zero for none.
    pub(crate) parent: u64,
    pub(crate) ordinal: u32,
    pub(crate) lane: u32,
    pub(crate) tenant: u32,
    pub(crate) group: u32,
    pub(crate) route: u32,
    /// The lease that holds it; `NIL` for none.
    pub(crate) lease: u32,
    /// Neighbours in the one list that it is in.
    pub(crate) prev: SlotNo,
    pub(crate) next: SlotNo,
    pub(crate) attempts: u16,
    pub(crate) deferrals: u16,
    pub(crate) generation: u16,
    pub(crate) place_generation: u16,
    pub(crate) skipped: u16,
    pub(crate) marks: u16,
    pub(crate) stage: u8,
    pub(crate) rank: Rank,
    pub(crate) state: StateTag,
    pub(crate) spot: Spot,
}

/// Priority and level of an item, which fit one byte together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rank(u8);

impl Rank {
    pub(crate) const fn new(priority: u8, level: u8) -> Rank {
        const { assert!(PRIORITY_MAX < 16 && DEPTH_MAX <= 16) };
        Rank(priority | level << 4)
    }

    pub(crate) fn priority(self) -> u8 {
        self.0 & 15
    }

    pub(crate) fn level(self) -> u8 {
        self.0 >> 4
    }
}

/// The state of a slot; ended items have no slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum StateTag {
    Pending = 0,
    Held = 1,
    Leased = 2,
    Split = 3,
    /// The slot is free.
    Free = 4,
}

/// Which list or set a slot is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Spot {
    /// None: held, split, parked, or taken out of line by a claim under way.
    Nowhere,
    /// In line, linked.
    Line,
    /// In line, but out of order: in the line's sorted set.
    Late,
    /// Waits for its time.
    Delayed,
    /// In a lease's list.
    Lease,
}

const EMPTY: Slot = Slot {
    serial: 0,
    body: None,
    trail: None,
    until: 0,
    key: 0,
    parent: 0,
    ordinal: 0,
    lane: NIL,
    tenant: 0,
    group: NIL,
    route: 0,
    lease: NIL,
    prev: NIL,
    next: NIL,
    attempts: 0,
    deferrals: 0,
    generation: 0,
    place_generation: 0,
    skipped: 0,
    marks: 0,
    stage: 0,
    rank: Rank(0),
    state: StateTag::Free,
    spot: Spot::Nowhere,
};

impl Slot {
    /// A slot with nothing in it yet.
    pub(crate) const fn new(serial: u64) -> Slot {
        Slot { serial, state: StateTag::Pending, ..EMPTY }
    }
}

/// All slots, and the tables over them.
#[derive(Debug)]
pub(crate) struct Slab {
    slots: Pieces<Slot>,
    free: SlotNo,
    live: usize,
    by_serial: Table,
    by_key: Table,
    order: Order,
    /// The slot that was looked for last: one command looks for the same item several times.
    recent: Cell<SlotNo>,
}

impl Slab {
    pub(crate) fn new() -> Slab {
        Slab {
            slots: Pieces::default(),
            free: NIL,
            live: 0,
            by_serial: Table::default(),
            by_key: Table::default(),
            order: Order::default(),
            recent: Cell::new(0),
        }
    }

    pub(crate) fn live(&self) -> usize {
        self.live
    }

    #[inline]
    pub(crate) fn get(&self, no: SlotNo) -> &Slot {
        self.slots.get(no)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, no: SlotNo) -> &mut Slot {
        self.slots.get_mut(no)
    }

    /// Adds a slot. The key table is told separately, because held items are not in it.
    pub(crate) fn insert(&mut self, slot: Slot) -> SlotNo {
        let no = if self.free == NIL {
            self.slots.push(slot, || EMPTY)
        } else {
            let no = self.free;
            self.free = self.get(no).next;
            *self.get_mut(no) = slot;
            no
        };
        self.live += 1;
        let Slab { slots, by_serial, order, .. } = self;
        by_serial.insert(mix(slot.serial), no, |no| mix(slots.get(no).serial));
        order.insert(slot.serial, |serial| lives(slots, by_serial, serial));
        no
    }

    /// Begins to know which serial comes before which. While it is being filled in any order, at
    /// open, that would be in the way.
    pub(crate) fn keep_order(&mut self, sorted: impl Iterator<Item = u64>) {
        self.order.begin(sorted);
    }

    /// The serials of live slots above a given one, lowest first.
    pub(crate) fn after(&self, serial: u64) -> impl Iterator<Item = u64> {
        self.order.after(serial, |serial| lives(&self.slots, &self.by_serial, serial))
    }

    /// The serials of live slots below a given one, highest first.
    pub(crate) fn before(&self, serial: u64) -> impl Iterator<Item = u64> {
        self.order.before(serial, |serial| lives(&self.slots, &self.by_serial, serial))
    }

    pub(crate) fn remove(&mut self, no: SlotNo) {
        let serial = self.get(no).serial;
        let Slab { slots, by_serial, order, .. } = self;
        by_serial.remove(mix(serial), no);
        order.remove(serial, |serial| lives(slots, by_serial, serial));
        let free = self.free;
        *self.get_mut(no) = Slot { next: free, ..EMPTY };
        self.free = no;
        self.live -= 1;
    }

    pub(crate) fn find(&self, serial: u64) -> Option<SlotNo> {
        if serial == 0 {
            // A free slot has no serial.
            return None;
        }
        let recent = self.recent.get();
        if recent < self.slots.len() && self.get(recent).serial == serial {
            return Some(recent);
        }
        let found = self.by_serial.find(mix(serial), |no| self.get(no).serial == serial)?;
        self.recent.set(found);
        Some(found)
    }

    /// Remembers a slot that was come to in another way as the one that is looked for next.
    pub(crate) fn found(&self, no: SlotNo) {
        self.recent.set(no);
    }

    /// The slots whose key has this hash.
    pub(crate) fn with_key(&self, key: u64, mut is: impl FnMut(SlotNo) -> bool) -> Option<SlotNo> {
        self.by_key.find(key, |no| self.get(no).key == key && is(no))
    }

    pub(crate) fn hold_key(&mut self, no: SlotNo) {
        let Slab { slots, by_key, .. } = self;
        let key = slots.get(no).key;
        if key != 0 && by_key.find(key, |known| known == no).is_none() {
            by_key.insert(key, no, |no| slots.get(no).key);
        }
    }

    /// Holds the keys of all slots that `holds`, when none is held yet. Each of a few threads sees
    /// to its shards.
    pub(crate) fn hold_keys(&mut self, holds: impl Fn(&Slot) -> bool + Copy + Send) {
        let Slab { slots, by_key, live, .. } = self;
        let slots = &*slots;
        let threads = if *live < MANY { 1 } else { cores() };
        by_key.reserve(*live, |no| slots.get(no).key);
        std::thread::scope(|scope| {
            for mut part in by_key.split(threads) {
                let mut fill = move || {
                    for no in 0..slots.len() {
                        let slot = slots.get(no);
                        if slot.key != 0 && part.has(slot.key) && holds(slot) {
                            part.insert(slot.key, no, |no| slots.get(no).key);
                        }
                    }
                };
                if threads == 1 {
                    fill();
                } else {
                    scope.spawn(fill);
                }
            }
        });
    }

    pub(crate) fn free_key(&mut self, no: SlotNo) {
        let key = self.get(no).key;
        if key != 0 {
            self.by_key.remove(key, no);
        }
    }

    /// How many numbers were ever given out; slots beyond are free.
    pub(crate) fn reach(&self) -> SlotNo {
        self.slots.len()
    }

    /// Live slots with a number in `range`.
    pub(crate) fn range(
        &self,
        range: std::ops::Range<SlotNo>,
    ) -> impl Iterator<Item = (SlotNo, &Slot)> {
        let range = range.start..range.end.min(self.slots.len());
        range.map(|no| (no, self.get(no))).filter(|(_, slot)| slot.state != StateTag::Free)
    }

    /// All live slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlotNo, &Slot)> {
        self.range(0..self.slots.len())
    }
}

/// Whether a slot has this serial.
fn lives(slots: &Pieces<Slot>, by_serial: &Table, serial: u64) -> bool {
    by_serial.find(mix(serial), |no| slots.get(no).serial == serial).is_some()
}

/// So many slots make it worth while to begin threads.
const MANY: usize = 100_000;

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(8)
}

/// Spreads serials over all bits, sixteen neighbours together: what is created together is mostly
/// claimed and settled together, and then finds its places in the table in the same cache line.
/// The upper bits, by which the table tells entries apart, differ within the sixteen.
fn mix(serial: u64) -> u64 {
    let (block, own) = (serial >> 4, serial & 15);
    let x = (block ^ block >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 32) << 4 ^ own ^ own << 60
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_stays_small() {
        assert!(size_of::<Slot>() <= 96, "{} bytes", size_of::<Slot>());
    }

    #[test]
    fn slots_are_found_by_serial_and_key_and_their_numbers_are_used_again() {
        let mut slab = Slab::new();
        let numbers: Vec<SlotNo> = (1..=10_000u64)
            .map(|serial| {
                let no = slab.insert(Slot { key: serial * 7, ..Slot::new(serial) });
                slab.hold_key(no);
                no
            })
            .collect();
        assert_eq!(slab.find(77), Some(numbers[76]));
        assert_eq!(slab.with_key(770, |_| true), Some(numbers[109]));
        slab.free_key(numbers[76]);
        slab.remove(numbers[76]);
        assert_eq!((slab.find(77), slab.with_key(539, |_| true)), (None, None));
        assert_eq!(slab.insert(Slot::new(20_000)), numbers[76]);
        assert_eq!(slab.live(), 10_000);
        assert_eq!(slab.iter().count(), 10_000);
    }

    #[test]
    fn all_keys_are_held_at_once_but_those_of_slots_that_hold_none() {
        let mut slab = Slab::new();
        let serials = 1..=MANY as u64;
        for serial in serials.clone() {
            let state = if serial % 5 == 0 { StateTag::Held } else { StateTag::Pending };
            slab.insert(Slot { key: mix(serial) | 1, state, ..Slot::new(serial) });
        }
        slab.hold_keys(|slot| slot.state == StateTag::Pending);
        for serial in serials {
            let is = |no| slab.get(no).serial == serial;
            let found = slab.with_key(mix(serial) | 1, is).is_some();
            assert_eq!(found, serial % 5 != 0, "{serial}");
        }
    }
}
