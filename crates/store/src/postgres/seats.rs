//! Seats: where in line this server believes that somebody waits.
//!
//! A seat is a lane, a class and a tenant, with a mark: nothing of it lies before that serial. So a
//! claim reads the index from there on and does not pass by what was taken before, which stays in
//! the index as long as any old snapshot could see it. What this server puts in line it knows; what
//! others do they tell, or it is found by looking: often at what is young, now and then at all.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use windrow_core::Timestamp;

use super::line::{Spot, Turns};

/// Serials of items whose batches may still be under way are no older than this.
const UNDER_WAY_MS: u64 = 250;
/// How far back a look at what is young goes beyond the last one.
const YOUNG_MS: u64 = 1_000;
/// How often everything is looked at.
const ALL_EVERY_MS: u64 = 5_000;

/// What a claim asks of one seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ask {
    pub(super) spot: Spot,
    pub(super) first: u64,
    pub(super) most: usize,
    /// When somebody last came, as the seat counts it.
    arrivals: u64,
}

impl Ask {
    /// The same again, for more.
    pub(super) fn more(self) -> Ask {
        Ask { most: self.most * 4, ..self }
    }
}

#[derive(Debug, Default)]
pub(super) struct Seats {
    lanes: HashMap<u32, BTreeMap<(Reverse<u8>, u32), Seat>>,
    looked: HashMap<u32, Looked>,
    arrivals: u64,
}

#[derive(Clone, Copy, Debug)]
struct Seat {
    /// Nothing lies before this serial.
    mark: u64,
    /// How often somebody had come anywhere when somebody last came here.
    arrivals: u64,
}

#[derive(Clone, Copy, Debug)]
struct Looked {
    at_all: Timestamp,
    at_young: Timestamp,
}

/// What has to be looked at before a lane can be said to be empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    All,
    /// Items from this serial on.
    Young(u64),
}

impl Seat {
    fn ask(&self, spot: Spot, most: usize) -> Ask {
        Ask { spot, first: self.mark, most, arrivals: self.arrivals }
    }
}

fn serial_at(time: u64) -> u64 {
    time << 16
}

impl Seats {
    /// Somebody is in line.
    pub(super) fn came(&mut self, spot: Spot, serial: u64) {
        let seats = self.lanes.entry(spot.lane).or_default();
        self.arrivals += 1;
        let new = Seat { mark: serial, arrivals: self.arrivals };
        let seat = seats.entry((Reverse(spot.class), spot.tenant)).or_insert(new);
        seat.mark = serial.min(seat.mark);
        seat.arrivals = self.arrivals;
    }

    /// What was asked of a seat was taken: the first that is left is `left`, or nobody is. If
    /// somebody came since, that may be wrong, and what is known stays.
    pub(super) fn left(&mut self, asked: &Ask, left: Option<u64>, now: Timestamp) {
        let Some(seats) = self.lanes.get_mut(&asked.spot.lane) else { return };
        let at = (Reverse(asked.spot.class), asked.spot.tenant);
        let Some(seat) = seats.get_mut(&at).filter(|seat| seat.arrivals == asked.arrivals) else {
            return;
        };
        // What is put in line by a batch that is under way may be a little older than this.
        let safe = serial_at(now.0.saturating_sub(UNDER_WAY_MS));
        match left {
            Some(left) => seat.mark = seat.mark.max(left.min(safe)),
            None => {
                seats.remove(&at);
            }
        }
    }

    /// What is known of a lane no longer holds.
    pub(super) fn forget(&mut self, lane: u32) {
        self.lanes.remove(&lane);
        self.looked.remove(&lane);
    }

    /// The highest class of a lane with a seat that was not asked.
    pub(super) fn next_class(
        &self,
        lane: u32,
        open: impl Fn(u32) -> bool,
        asked: &BTreeSet<(u8, u32)>,
    ) -> Option<u8> {
        let mut seats = self.lanes.get(&lane)?.keys();
        let is_free = |(Reverse(class), tenant): &&(Reverse<u8>, u32)| {
            open(*tenant) && !asked.contains(&(*class, *tenant))
        };
        seats.find(is_free).map(|(Reverse(class), _)| *class)
    }

    /// The seats of a lane to ask for `wanted` items, apart from those that were asked: of the
    /// highest class, tenants by turns.
    pub(super) fn ask(
        &self,
        lane: u32,
        turns: &Turns,
        open: impl Fn(u32) -> bool,
        wanted: usize,
        asked: &BTreeSet<(u8, u32)>,
    ) -> Vec<Ask> {
        let Some(seats) = self.lanes.get(&lane) else { return Vec::new() };
        let free = |(Reverse(class), tenant): &(Reverse<u8>, u32)| {
            open(*tenant) && !asked.contains(&(*class, *tenant))
        };
        let Some(class) = self.next_class(lane, &open, asked) else { return Vec::new() };
        let here = (Reverse(class), 0)..=(Reverse(class), u32::MAX);
        let here: Vec<_> = seats.range(here).filter(|(seat, _)| free(seat)).collect();
        let last = turns.last_tenant(lane, class);
        let next = last.map_or(0, |last| here.partition_point(|((_, no), _)| *no <= last));
        let in_turn = here[next..].iter().chain(&here[..next]).take(wanted);
        let each = wanted.div_ceil(here.len().min(wanted));
        let asks: Vec<Ask> = in_turn
            .map(|((_, tenant), seat)| seat.ask(Spot { lane, class, tenant: *tenant }, each))
            .collect();
        asks
    }

    /// The seats of a lane, apart from those that were asked, where somebody older may be than
    /// `than`: as many as are wanted, those with the lowest marks.
    pub(super) fn ask_oldest(
        &self,
        lane: u32,
        open: impl Fn(u32) -> bool,
        wanted: usize,
        than: Option<u64>,
        asked: &BTreeSet<(u8, u32)>,
    ) -> Vec<Ask> {
        let Some(seats) = self.lanes.get(&lane) else { return Vec::new() };
        let older = seats.iter().filter(|((Reverse(class), tenant), seat)| {
            than.is_none_or(|than| seat.mark < than)
                && open(*tenant)
                && !asked.contains(&(*class, *tenant))
        });
        let mut older: Vec<_> = older.collect();
        if older.len() > wanted {
            older.select_nth_unstable_by_key(wanted - 1, |(_, seat)| seat.mark);
            older.truncate(wanted);
        }
        let ask = |((Reverse(class), tenant), seat): (&(Reverse<u8>, u32), &Seat)| {
            seat.ask(Spot { lane, class: *class, tenant: *tenant }, wanted)
        };
        older.into_iter().map(ask).collect()
    }

    /// What to look at before this lane can be said to be empty.
    pub(super) fn look(&self, lane: u32, now: Timestamp) -> Look {
        match self.looked.get(&lane) {
            Some(looked) if now >= looked.at_all && now.since(looked.at_all) < ALL_EVERY_MS => {
                Look::Young(serial_at(looked.at_young.0.saturating_sub(YOUNG_MS)))
            }
            _ => Look::All,
        }
    }

    /// A lane was looked at.
    pub(super) fn looked(&mut self, lane: u32, look: Look, now: Timestamp) {
        let known = self.looked.entry(lane).or_insert(Looked { at_all: now, at_young: now });
        known.at_young = now;
        if look == Look::All {
            known.at_all = now;
        }
    }
}
