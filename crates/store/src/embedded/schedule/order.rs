//! The order of what lives: serials by age, so that a list need not look at every slot.
//!
//! Serials rise, so a new one goes to the end of the last leaf. One that goes is only counted, and
//! not looked for: whoever reads a leaf asks of each serial whether it lives. A leaf is packed when
//! most of it is gone, and dropped when all of it is. Eight bytes per item.

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
    serials: Vec<u64>,
    gone: usize,
}

impl Leaf {
    fn new(serial: u64) -> Leaf {
        let mut serials = Vec::with_capacity(LEAF);
        serials.push(serial);
        Leaf { low: serial, serials, gone: 0 }
    }

    /// Where a serial is, or would be.
    fn find(&self, serial: u64) -> usize {
        self.serials.partition_point(|known| *known < serial)
    }

    fn pack(&mut self, lives: impl Fn(u64) -> bool) {
        self.serials.retain(|serial| lives(*serial));
        self.gone = 0;
    }
}

impl Order {
    /// Begins with what there is, in order.
    pub(crate) fn begin(&mut self, sorted: impl Iterator<Item = u64>) {
        self.leaves.clear();
        self.begun = true;
        sorted.for_each(|serial| self.insert(serial, |_| true));
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

    /// Takes in a serial. `lives` says of one that was taken in before whether it lives.
    pub(crate) fn insert(&mut self, serial: u64, lives: impl Fn(u64) -> bool) {
        if !self.begun {
            return;
        }
        let Some(at) = self.leaf(serial) else {
            return match self.leaves.front_mut() {
                Some(first) if first.serials.len() < LEAF => {
                    first.low = serial;
                    first.serials.insert(0, serial);
                }
                _ => self.leaves.push_front(Leaf::new(serial)),
            };
        };
        let is_last = at + 1 == self.leaves.len();
        let leaf = &mut self.leaves[at];
        let index = match leaf.serials.last() {
            Some(last) if *last < serial => leaf.serials.len(),
            _ => leaf.find(serial),
        };
        if leaf.serials.get(index) == Some(&serial) {
            // It was gone, and is back.
            leaf.gone -= 1;
            return;
        }
        if leaf.serials.len() < LEAF {
            leaf.serials.insert(index, serial);
        } else if is_last && index == LEAF {
            self.leaves.push_back(Leaf::new(serial));
        } else {
            self.split(at, &lives);
            self.insert(serial, lives);
        }
    }

    /// Makes two leaves of a full one.
    fn split(&mut self, at: usize, lives: impl Fn(u64) -> bool) {
        let leaf = &mut self.leaves[at];
        leaf.pack(lives);
        let upper = leaf.serials.split_off(leaf.serials.len() / 2);
        if let Some(low) = upper.first().copied() {
            self.leaves.insert(at + 1, Leaf { low, serials: upper, gone: 0 });
        }
    }

    /// Takes note that a serial that was taken in lives no more; `lives` says so of it too.
    pub(crate) fn remove(&mut self, serial: u64, lives: impl Fn(u64) -> bool) {
        let Some(at) = self.leaf(serial) else { return };
        let is_last = at + 1 == self.leaves.len();
        let leaf = &mut self.leaves[at];
        leaf.gone += 1;
        if leaf.gone == leaf.serials.len() && !is_last {
            self.leaves.remove(at);
        } else if leaf.gone * 4 > LEAF * 3 || leaf.gone == leaf.serials.len() {
            leaf.pack(lives);
        }
    }

    /// Serials above a given one that live, lowest first.
    pub(crate) fn after(
        &self,
        serial: u64,
        lives: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = u64> {
        let first = self.leaf(serial).unwrap_or(0);
        let above = self.leaves.range(first..).flat_map(move |leaf| {
            leaf.serials[leaf.find(serial.saturating_add(1))..].iter().copied()
        });
        above.filter(move |serial| lives(*serial))
    }

    /// Serials below a given one that live, highest first.
    pub(crate) fn before(
        &self,
        serial: u64,
        lives: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = u64> {
        let leaves = self.leaves.partition_point(|leaf| leaf.low < serial);
        let below = self
            .leaves
            .range(..leaves)
            .rev()
            .flat_map(move |leaf| leaf.serials[..leaf.find(serial)].iter().rev().copied());
        below.filter(move |serial| lives(*serial))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn serials_are_walked_in_order_whatever_came_and_went() {
        let mut order = Order::default();
        order.insert(5, |_| true);
        assert_eq!(order.before(u64::MAX, |_| true).count(), 0, "it has not begun");
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
                    if known.insert(serial) {
                        order.insert(serial, |serial| known.contains(&serial));
                    }
                }
                1 if known.remove(&any) => {
                    order.remove(any, |serial| known.contains(&serial));
                }
                2 if step > 30_000 => {
                    if let Some(first) = known.pop_first() {
                        order.remove(first, |serial| known.contains(&serial));
                    }
                }
                _ => {}
            }
            if step % 1_000 == 0 {
                for below in [0, any, u64::MAX] {
                    let want: Vec<u64> = known.range(..below).rev().copied().collect();
                    let walked = order.before(below, |serial| known.contains(&serial));
                    assert_eq!(walked.collect::<Vec<_>>(), want, "step {step}");
                    let want: Vec<u64> = known.range(below.saturating_add(1)..).copied().collect();
                    let walked = order.after(below, |serial| known.contains(&serial));
                    assert_eq!(walked.collect::<Vec<_>>(), want, "step {step}");
                }
            }
        }
        let held: usize = order.leaves.iter().map(|leaf| leaf.serials.len()).sum();
        assert!(held <= known.len() * 4 + 2 * LEAF, "{held} for {}", known.len());
    }
}
