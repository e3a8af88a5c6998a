//! Histograms: how often a value fell below each of a few bounds. Counted without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of values by their size.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    bounds: &'static [u64; N],
    /// Values up to each bound and above the one before.
    counts: [AtomicU64; N],
    above: AtomicU64,
    sum: AtomicU64,
}

/// What a histogram holds at a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Each bound, and how many values were not above it.
    pub buckets: Vec<(u64, u64)>,
    pub count: u64,
    pub sum: u64,
}

impl<const N: usize> Histogram<N> {
    pub const fn new(bounds: &'static [u64; N]) -> Histogram<N> {
        let counts = [const { AtomicU64::new(0) }; N];
        Histogram { bounds, counts, above: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }

    pub fn record(&self, value: u64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts.get(at).unwrap_or(&self.above).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    pub fn read(&self) -> Reading {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(N);
        for (bound, counted) in self.bounds.iter().zip(&self.counts) {
            count += counted.load(Ordering::Relaxed);
            buckets.push((*bound, count));
        }
        count += self.above.load(Ordering::Relaxed);
        Reading { buckets, count, sum: self.sum.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_for_its_bound_and_for_all_above_it() {
        let histogram = Histogram::new(&[10, 100]);
        for value in [0, 10, 11, 100, 101] {
            histogram.record(value);
        }
        let read = histogram.read();
        assert_eq!(read, Reading { buckets: vec![(10, 2), (100, 4)], count: 5, sum: 222 });
    }
}
