//! Leases: who holds what, and until when.
//!
//! A lease lives as long as it holds something. Its items are linked through their slots. The
//! order of expiry is a heap that is looked at again when an entry comes up: renewing a lease does
//! not touch it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;
use windrow_core::change::Lease;
use windrow_core::{LeaseId, Timestamp};

use super::slab::{NIL, Slab, SlotNo, Spot};

/// Times of leases that have ended, kept until they are worth a look.
const ENDED_KEPT: usize = 1024;

/// All live leases.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    leases: Vec<Option<Held>>,
    by_id: HashMap<LeaseId, u32>,
    free: Vec<u32>,
    expiry: BinaryHeap<Reverse<(Timestamp, LeaseId)>>,
}

#[derive(Debug)]
struct Held {
    id: LeaseId,
    /// None between the first grant of a claim and its end.
    lease: Option<Lease>,
    head: SlotNo,
    count: u32,
}

impl Leases {
    /// The number of a lease, made if it is new.
    pub(crate) fn number(&mut self, id: LeaseId) -> u32 {
        if let Some(no) = self.by_id.get(&id) {
            return *no;
        }
        let held = Some(Held { id, lease: None, head: NIL, count: 0 });
        let no = match self.free.pop() {
            Some(no) => {
                self.leases[no as usize] = held;
                no
            }
            None => {
                self.leases.push(held);
                self.leases.len() as u32 - 1
            }
        };
        self.by_id.insert(id, no);
        no
    }

    fn held(&self, no: u32) -> Option<&Held> {
        self.leases.get(no as usize)?.as_ref()
    }

    pub(crate) fn id(&self, no: u32) -> Option<LeaseId> {
        self.held(no).map(|held| held.id)
    }

    pub(crate) fn find(&self, id: LeaseId) -> Option<&Lease> {
        self.held(*self.by_id.get(&id)?)?.lease.as_ref()
    }

    /// Since when a lease holds what it holds.
    pub(crate) fn granted(&self, no: u32) -> Option<Timestamp> {
        self.held(no)?.lease.as_ref().map(|lease| lease.granted)
    }

    /// Begins or extends a lease.
    pub(crate) fn put(&mut self, lease: Lease) {
        let no = self.number(lease.id);
        let Some(held) = &mut self.leases[no as usize] else { return };
        let is_new = held.lease.is_none();
        let (id, expires) = (lease.id, lease.expires);
        held.lease = Some(lease);
        if is_new {
            self.expiry.push(Reverse((expires, id)));
            self.forget_ended();
        }
    }

    /// Drops the times of leases that have ended, once they are the most. A lease mostly ends long
    /// before it would expire.
    fn forget_ended(&mut self) {
        if self.expiry.len() > 2 * self.by_id.len() + ENDED_KEPT {
            self.expiry.retain(|Reverse((_, id))| self.by_id.contains_key(id));
        }
    }

    pub(crate) fn link(&mut self, slab: &mut Slab, no: u32, slot: SlotNo) {
        let Some(held) = &mut self.leases[no as usize] else { return };
        let head = held.head;
        held.head = slot;
        held.count += 1;
        if head != NIL {
            slab.get_mut(head).prev = slot;
        }
        let slot = slab.get_mut(slot);
        slot.lease = no;
        slot.spot = Spot::Lease;
        slot.prev = NIL;
        slot.next = head;
    }

    /// Takes a slot out of its lease; the lease ends with its last one.
    pub(crate) fn unlink(&mut self, slab: &mut Slab, no: SlotNo) {
        let slot = *slab.get(no);
        let Some(held) = &mut self.leases[slot.lease as usize] else { return };
        match slot.prev {
            NIL => held.head = slot.next,
            prev => slab.get_mut(prev).next = slot.next,
        }
        if slot.next != NIL {
            slab.get_mut(slot.next).prev = slot.prev;
        }
        held.count -= 1;
        if held.count == 0 {
            self.by_id.remove(&held.id);
            self.leases[slot.lease as usize] = None;
            self.free.push(slot.lease);
        }
        let slot = slab.get_mut(no);
        slot.lease = NIL;
        slot.spot = Spot::Nowhere;
        slot.prev = NIL;
        slot.next = NIL;
    }

    /// The slots that a lease holds.
    pub(crate) fn slots(&self, slab: &Slab, id: LeaseId) -> Vec<SlotNo> {
        let held = self.by_id.get(&id).and_then(|no| self.held(*no));
        let mut slots = Vec::new();
        let mut at = held.map_or(NIL, |held| held.head);
        while at != NIL {
            slots.push(at);
            at = slab.get(at).next;
        }
        slots
    }

    /// Leases that may have expired. One that lives on is put back by its new time.
    pub(crate) fn expired(&mut self, now: Timestamp, limit: usize) -> Vec<LeaseId> {
        let mut expired = Vec::new();
        while expired.len() < limit
            && let Some(Reverse((at, id))) = self.expiry.peek().copied()
            && at <= now
        {
            self.expiry.pop();
            let Some(lease) = self.find(id) else { continue };
            let lives_on = lease.expires > now;
            let again = if lives_on { lease.expires } else { now.plus(1) };
            self.expiry.push(Reverse((again, id)));
            expired.push(id);
        }
        expired
    }

    /// How many items are under leases that have expired.
    pub(crate) fn expired_items(&self, now: Timestamp) -> usize {
        let expired = |held: &&Held| held.lease.as_ref().is_some_and(|lease| lease.expires <= now);
        self.leases.iter().flatten().filter(expired).map(|held| held.count as usize).sum()
    }

    /// When the next lease expires.
    pub(crate) fn next(&mut self) -> Option<Timestamp> {
        while let Some(Reverse((at, id))) = self.expiry.peek().copied() {
            match self.find(id).map(|lease| lease.expires) {
                Some(expires) if expires <= at => return Some(expires),
                Some(later) => {
                    self.expiry.pop();
                    self.expiry.push(Reverse((later, id)));
                }
                None => {
                    self.expiry.pop();
                }
            }
        }
        None
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.leases.iter().flatten().filter_map(|held| held.lease.as_ref())
    }

    /// Forgets leases that hold nothing, after a replay.
    pub(crate) fn drop_empty(&mut self) {
        for no in 0..self.leases.len() {
            if let Some(held) = &self.leases[no]
                && held.count == 0
            {
                self.by_id.remove(&held.id);
                self.leases[no] = None;
                self.free.push(no as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::slab::Slot;
    use super::*;

    fn lease(no: u64) -> Lease {
        Lease {
            id: LeaseId(u128::from(no)),
            worker: "w".into(),
            granted: Timestamp(no),
            renewed: Timestamp(no),
            expires: Timestamp(no + 300_000),
            lease_ms: 300_000,
            items: 1,
        }
    }

    #[test]
    fn leases_that_ended_do_not_pile_up_until_they_would_have_expired() {
        let (mut leases, mut slab) = (Leases::default(), Slab::new());
        let held = slab.insert(Slot::new(1));
        for no in 1..=100_000 {
            let slot = if no == 5 { held } else { slab.insert(Slot::new(no + 1)) };
            leases.put(lease(no));
            let number = leases.number(LeaseId(u128::from(no)));
            leases.link(&mut slab, number, slot);
            if no != 5 {
                leases.unlink(&mut slab, slot);
                slab.remove(slot);
            }
        }
        assert!(leases.expiry.len() <= 2 * ENDED_KEPT, "{} times", leases.expiry.len());
        assert_eq!(leases.next(), Some(Timestamp(300_005)));
        assert_eq!(leases.expired(Timestamp(300_005), 10), [LeaseId(5)]);
    }
}
