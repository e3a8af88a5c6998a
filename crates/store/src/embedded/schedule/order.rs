//! The order of what lives: serials by age, so that a list need not look at every slot.
//!
//! Serials rise, so a new one goes to the end of the last leaf. One that goes is only counted; its
//! leaf is packed when most of it is gone, and dropped when all of it is. Eight bytes per item.

use std::collections::VecDeque;

/// Serials per leaf.
const LEAF: usize = 1_024;

/// Serials in order. Empty until it is begun.
#[derive(Debug, Default)]
pub(crate) struct Order {
    leaves: VecDeque<Leaf>,
    begun: bool,
}

#[derive(Debug)]
struct Leaf {
    /// Nothing in it is below, and nothing in the leaf before reaches it.
    low: u64,
    /// In order, those that are gone among them.
    serials: Vec<Serial>,
    gone: usize,
}

/// A serial, and whether it is gone. Serials have 48 bits of milliseconds above 16 of counter, so
/// the highest bit is free for some thousand years.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Serial(u64);

const GONE: u64 = 1 << 63;

impl Serial {
    fn number(self) -> u64 {
        self.0 & !GONE
    }

    fn is_gone(self) -> bool {
        self.0 & GONE != 0
    }
}

impl Leaf {
    fn new(serial: u64) -> Leaf {
        let mut serials = Vec::with_capacity(LEAF);
        serials.push(Serial(serial));
        Leaf { low: serial, serials, gone: 0 }
    }

    /// Where a serial is, or would be.
    fn find(&self, serial: u64) -> usize {
        self.serials.partition_point(|known| known.number() < serial)
    }

    fn pack(&mut self) {
        self.serials.retain(|serial| !serial.is_gone());
        self.gone = 0;
    }
}

impl Order {
    /// Begins with what there is, in order.
    pub(crate) fn begin(&mut self, sorted: impl Iterator<Item = u64>) {
        self.leaves.clear();
        self.begun = true;
        sorted.for_each(|serial| self.insert(serial));
    }

    /// The leaf that a serial belongs to, unless it is below all.
    fn leaf(&self, serial: u64) -> Option<usize> {
        // What is created is newest, and what ends is mostly oldest.
        if self.leaves.back()?.low <= serial {
            return Some(self.leaves.len() - 1);
        }
        if self.leaves.get(1).is_some_and(|second| serial < second.low) {
            return (self.leaves[0].low <= serial).then_some(0);
        }
        self.leaves.partition_point(|leaf| leaf.low <= serial).checked_sub(1)
    }

    pub(crate) fn insert(&mut self, serial: u64) {
        if !self.begun {
            return;
        }
        let Some(at) = self.leaf(serial) else {
            return match self.leaves.front_mut() {
                Some(first) if first.serials.len() < LEAF => {
                    first.low = serial;
                    first.serials.insert(0, Serial(serial));
                }
                _ => self.leaves.push_front(Leaf::new(serial)),
            };
        };
        let is_last = at + 1 == self.leaves.len();
        let leaf = &mut self.leaves[at];
        let index = match leaf.serials.last() {
            Some(last) if last.number() < serial => leaf.serials.len(),
            _ => leaf.find(serial),
        };
        if leaf.serials.get(index).is_some_and(|known| known.number() == serial) {
            // It was gone, and is back.
            leaf.gone -= usize::from(leaf.serials[index].is_gone());
            leaf.serials[index] = Serial(serial);
            return;
        }
        if leaf.serials.len() < LEAF {
            leaf.serials.insert(index, Serial(serial));
        } else if is_last && index == LEAF {
            self.leaves.push_back(Leaf::new(serial));
        } else {
            self.split(at);
            self.insert(serial);
        }
    }

    /// Makes two leaves of a full one.
    fn split(&mut self, at: usize) {
        let leaf = &mut self.leaves[at];
        leaf.pack();
        let upper = leaf.serials.split_off(leaf.serials.len() / 2);
        if let Some(first) = upper.first() {
            let low = first.number();
            self.leaves.insert(at + 1, Leaf { low, serials: upper, gone: 0 });
        }
    }

    pub(crate) fn remove(&mut self, serial: u64) {
        let Some(at) = self.leaf(serial) else { return };
        let is_last = at + 1 == self.leaves.len();
        let leaf = &mut self.leaves[at];
        let index = leaf.find(serial);
        let Some(known) = leaf.serials.get_mut(index).filter(|known| known.0 == serial) else {
            return;
        };
        known.0 |= GONE;
        leaf.gone += 1;
        if leaf.gone == leaf.serials.len() && !is_last {
            self.leaves.remove(at);
        } else if leaf.gone * 4 > LEAF * 3 || leaf.gone == leaf.serials.len() {
            leaf.pack();
        }
    }

    /// Serials above a given one, lowest first.
    pub(crate) fn after(&self, serial: u64) -> impl Iterator<Item = u64> {
        let first = self.leaf(serial).unwrap_or(0);
        self.leaves.range(first..).flat_map(move |leaf| {
            let known = leaf.serials[leaf.find(serial.saturating_add(1))..].iter();
            known.filter(|serial| !serial.is_gone()).map(|serial| serial.number())
        })
    }

    /// Serials below a given one, highest first.
    pub(crate) fn before(&self, serial: u64) -> impl Iterator<Item = u64> {
        let leaves = self.leaves.partition_point(|leaf| leaf.low < serial);
        let leaves = self.leaves.range(..leaves).rev();
        leaves.flat_map(move |leaf| {
            let below = leaf.find(serial);
            let known = leaf.serials[..below].iter().rev();
            known.filter(|serial| !serial.is_gone()).map(|serial| serial.number())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn serials_are_walked_in_order_whatever_came_and_went() {
        let mut order = Order::default();
        order.insert(5);
        assert_eq!(order.before(u64::MAX).count(), 0, "it has not begun");
        let mut known: BTreeSet<u64> = (100_000..100_500).collect();
        order.begin(known.iter().copied());
        let mut random = 1u64;
        for step in 0..60_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let any = 90_000 + (random >> 33) % 30_000;
            match step % 3 {
                // Mostly at the end, as ids are made; sometimes one of long ago comes back.
                0 => {
                    let new = known.last().copied().unwrap_or(0) + 1 + any % 3;
                    let serial = if any.is_multiple_of(5) { any } else { new };
                    known.insert(serial);
                    order.insert(serial);
                }
                1 => {
                    known.remove(&any);
                    order.remove(any);
                }
                _ if step > 30_000 => {
                    let first = known.pop_first().unwrap_or(0);
                    order.remove(first);
                }
                _ => {}
            }
            if step % 1_000 == 0 {
                for below in [0, any, u64::MAX] {
                    let want: Vec<u64> = known.range(..below).rev().copied().collect();
                    assert_eq!(order.before(below).collect::<Vec<_>>(), want, "step {step}");
                }
            }
        }
        let held: usize = order.leaves.iter().map(|leaf| leaf.serials.len()).sum();
        assert!(held <= known.len() * 4 + 2 * LEAF, "{held} for {}", known.len());
    }
}
