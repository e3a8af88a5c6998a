//! A row: what waits in one lane with one priority, fairly between tenants.
//!
//! Each tenant has a seat. A seat holds the tenant's line and, for groups with a limit, one token
//! per group that has room; the token stands for the group's first item. A full group has no
//! token, so nobody ever walks over what it holds back.

use std::collections::{BTreeSet, VecDeque};

use hashbrown::HashMap;

use super::line::{Line, Token};
use super::slab::SlotNo;

/// What waits in one lane with one priority.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// Tenants in turn. One whose seat has emptied stays until its turn comes.
    ring: VecDeque<u32>,
    seats: HashMap<u32, Seat>,
    /// Seats with something to hand out.
    filled: usize,
}

/// What waits for one tenant.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pub(crate) line: Line,
    /// The first items of groups with room.
    pub(crate) tokens: BTreeSet<Token>,
    /// The first item of all.
    first: Option<Token>,
    /// What the lane's ages say of it: its serial, or that of an earlier one that has gone.
    aged: Option<u64>,
    in_ring: bool,
}

impl Seat {
    fn first(&self) -> Option<Token> {
        match (self.line.first(), self.tokens.first().copied()) {
            (Some(line), Some(token)) => Some(line.min(token)),
            (line, token) => line.or(token),
        }
    }
}

/// A seat's first item is earlier than the lane's ages say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Younger {
    /// What they say, if anything.
    pub(crate) was: Option<u64>,
    pub(crate) is: u64,
}

impl Row {
    pub(crate) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Changes a seat; says what the lane's ages must learn.
    pub(crate) fn change(
        &mut self,
        tenant: u32,
        change: impl FnOnce(&mut Seat),
    ) -> Option<Younger> {
        let seat = self.seats.entry(tenant).or_default();
        change(seat);
        let is = seat.first();
        let was = std::mem::replace(&mut seat.first, is);
        match (was.is_some(), is.is_some()) {
            (false, true) => self.filled += 1,
            (true, false) => self.filled -= 1,
            _ => {}
        }
        if is.is_some() && !seat.in_ring {
            seat.in_ring = true;
            self.ring.push_back(tenant);
        }
        let age = is.map(|(serial, _)| serial);
        let age = age.filter(|is| seat.aged.is_none_or(|aged| *is < aged));
        let age = age.map(|is| Younger { was: seat.aged.replace(is), is });
        if is.is_none() && !seat.in_ring {
            self.seats.remove(&tenant);
        }
        age
    }

    /// What the lane's ages should say of a seat of which they say `aged`; none if nothing, or if
    /// another entry says it.
    pub(crate) fn correct(&mut self, tenant: u32, aged: u64) -> Option<u64> {
        let seat = self.seats.get_mut(&tenant)?;
        if seat.aged != Some(aged) {
            return None;
        }
        seat.aged = seat.first.map(|(serial, _)| serial);
        seat.aged
    }

    /// The first item of the tenant whose turn it is, among those that `may`; the tenant goes to
    /// the end of the ring.
    pub(crate) fn turn(&mut self, may: impl Fn(u32) -> bool) -> Option<SlotNo> {
        for _ in 0..self.ring.len() {
            let tenant = self.ring.pop_front()?;
            let seat = self.seats.get(&tenant)?;
            let Some((_, first)) = seat.first else {
                self.seats.remove(&tenant);
                continue;
            };
            self.ring.push_back(tenant);
            if may(tenant) {
                return Some(first);
            }
        }
        None
    }

    /// Undoes a turn: the tenant is next again.
    pub(crate) fn undo_turn(&mut self, tenant: u32) {
        if self.ring.back() == Some(&tenant) {
            self.ring.rotate_right(1);
        }
    }

    /// The first item of a tenant.
    pub(crate) fn first(&self, tenant: u32) -> Option<SlotNo> {
        self.seats.get(&tenant)?.first.map(|(_, first)| first)
    }

    /// The seats of all tenants that have something, in turn, and their first items.
    pub(crate) fn seats(&self) -> impl Iterator<Item = (&Seat, SlotNo)> {
        let seats = self.ring.iter().filter_map(|tenant| self.seats.get(tenant));
        seats.filter_map(|seat| Some((seat, seat.first?.1)))
    }

    /// The tenants that have something.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = u32> {
        self.seats.iter().filter(|(_, seat)| seat.first.is_some()).map(|(tenant, _)| *tenant)
    }

    /// Whether any of these tenants has something.
    pub(crate) fn has_any(&self, may: impl Fn(u32) -> bool) -> bool {
        self.seats.iter().any(|(tenant, seat)| seat.first.is_some() && may(*tenant))
    }
}
