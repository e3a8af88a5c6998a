//! A line: waiting slots in the order in which they were created.
//!
//! Items nearly always join in order, so a line is a linked list through the slots themselves.
//! Those that come back out of order (a retry, an item whose time has come) go to a small sorted
//! set beside it. Any slot leaves in O(1) or O(log) and nothing ever walks over deleted entries.

use std::collections::BTreeSet;

use super::slab::{NIL, Slab, SlotNo, Spot};

/// A slot that waits, after its serial.
pub(crate) type Token = (u64, SlotNo);

/// Waiting slots by serial.
#[derive(Debug)]
pub(crate) struct Line {
    head: SlotNo,
    tail: SlotNo,
    /// The serial of the head, so that looking at a line is no look at a slot far away.
    head_serial: u64,
    #[expect(clippy::box_collection, reason = "seldom there, and there are many lines")]
    late: Option<Box<BTreeSet<Token>>>,
}

impl Default for Line {
    fn default() -> Line {
        Line { head: NIL, tail: NIL, head_serial: 0, late: None }
    }
}

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL && self.late.is_none()
    }

    /// The slot with the lowest serial.
    pub(crate) fn first(&self) -> Option<Token> {
        let head = (self.head != NIL).then_some((self.head_serial, self.head));
        let late = self.late.as_ref().and_then(|late| late.first().copied());
        match (head, late) {
            (Some(head), Some(late)) => Some(head.min(late)),
            (head, late) => head.or(late),
        }
    }

    /// The last of those that joined in order.
    pub(crate) fn last(&self) -> Option<SlotNo> {
        (self.tail != NIL).then_some(self.tail)
    }

    pub(crate) fn push(&mut self, slab: &mut Slab, no: SlotNo) {
        let serial = slab.get(no).serial;
        if self.tail != NIL && slab.get(self.tail).serial > serial {
            self.late.get_or_insert_default().insert((serial, no));
            slab.get_mut(no).spot = Spot::Late;
            return;
        }
        let slot = slab.get_mut(no);
        slot.spot = Spot::Line;
        slot.next = NIL;
        slot.prev = self.tail;
        match self.tail {
            NIL => (self.head, self.head_serial) = (no, serial),
            tail => slab.get_mut(tail).next = no,
        }
        self.tail = no;
    }

    pub(crate) fn remove(&mut self, slab: &mut Slab, no: SlotNo) {
        let slot = *slab.get(no);
        match slot.spot {
            Spot::Late => {
                let mut late = self.late.take().unwrap_or_default();
                late.remove(&(slot.serial, no));
                self.late = (!late.is_empty()).then_some(late);
            }
            Spot::Line => {
                match slot.prev {
                    NIL => self.head = slot.next,
                    prev => slab.get_mut(prev).next = slot.next,
                }
                match slot.next {
                    NIL => self.tail = slot.prev,
                    next => {
                        let next = slab.get_mut(next);
                        next.prev = slot.prev;
                        if slot.prev == NIL {
                            self.head_serial = next.serial;
                        }
                    }
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
        while let Some((serial, no)) = line.first() {
            line.remove(&mut slab, no);
            order.push(serial);
        }
        assert_eq!(order, [2, 3, 4, 5, 7, 8]);
        assert!(line.is_empty());
    }
}
