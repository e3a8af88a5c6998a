//! A line: waiting slots in the order in which they were created.
//!
//! Items nearly always join in order, so a line is a linked list through the slots themselves.
//! Those that come back out of order (a retry, an item whose time has come) go to a small sorted
//! set beside it. Any slot leaves in O(1) or O(log) and nothing ever walks over deleted entries.

use std::collections::BTreeSet;

use super::slab::{NIL, Slab, SlotNo, Spot};

/// Waiting slots by serial.
#[derive(Debug)]
pub(crate) struct Line {
    head: SlotNo,
    tail: SlotNo,
    late: BTreeSet<(u64, SlotNo)>,
}

impl Default for Line {
    fn default() -> Line {
        Line { head: NIL, tail: NIL, late: BTreeSet::new() }
    }
}

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL && self.late.is_empty()
    }

    /// The slot with the lowest serial.
    pub(crate) fn first(&self, slab: &Slab) -> Option<(u64, SlotNo)> {
        let head = (self.head != NIL).then(|| (slab.get(self.head).serial, self.head));
        match (head, self.late.first().copied()) {
            (Some(head), Some(late)) => Some(head.min(late)),
            (head, late) => head.or(late),
        }
    }

    pub(crate) fn push(&mut self, slab: &mut Slab, no: SlotNo) {
        let serial = slab.get(no).serial;
        if self.tail != NIL && slab.get(self.tail).serial > serial {
            self.late.insert((serial, no));
            slab.get_mut(no).spot = Spot::Late;
            return;
        }
        let slot = slab.get_mut(no);
        slot.spot = Spot::Line;
        slot.next = NIL;
        slot.prev = self.tail;
        match self.tail {
            NIL => self.head = no,
            tail => slab.get_mut(tail).next = no,
        }
        self.tail = no;
    }

    pub(crate) fn remove(&mut self, slab: &mut Slab, no: SlotNo) {
        let slot = *slab.get(no);
        match slot.spot {
            Spot::Late => {
                self.late.remove(&(slot.serial, no));
            }
            Spot::Line => {
                match slot.prev {
                    NIL => self.head = slot.next,
                    prev => slab.get_mut(prev).next = slot.next,
                }
                match slot.next {
                    NIL => self.tail = slot.prev,
                    next => slab.get_mut(next).prev = slot.prev,
                }
            }
            spot => unreachable!("a slot in {spot:?} is in no line"),
        }
        let slot = slab.get_mut(no);
        slot.spot = Spot::Nowhere;
        slot.prev = NIL;
        slot.next = NIL;
    }
}

#[cfg(test)]
mod tests {
    use super::super::slab::Slot;
    use super::*;

    #[test]
    fn a_line_hands_out_by_creation_in_whatever_order_slots_joined() {
        let mut slab = Slab::new();
        let mut line = Line::default();
        let numbers: Vec<SlotNo> =
            (0..8).map(|serial| slab.insert(Slot::new(serial + 1))).collect();
        for index in [2, 5, 1, 7, 0, 6, 3, 4] {
            line.push(&mut slab, numbers[index]);
        }
        line.remove(&mut slab, numbers[5]);
        line.remove(&mut slab, numbers[0]);
        let mut order = Vec::new();
        while let Some((serial, no)) = line.first(&slab) {
            line.remove(&mut slab, no);
            order.push(serial);
        }
        assert_eq!(order, [2, 3, 4, 5, 7, 8]);
        assert!(line.is_empty());
    }
}
