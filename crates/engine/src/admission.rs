//! Admission: what the engine refuses so that it never swells.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How much the engine takes on at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Commands that are under way.
    pub in_flight_max: usize,
    /// Claims that wait for work.
    pub waiting_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { in_flight_max: 10_000, waiting_max: 10_000 }
    }
}

/// A count with a ceiling.
#[derive(Debug)]
pub(crate) struct Gate {
    count: AtomicUsize,
    max: usize,
}

/// A place behind a gate; given back when dropped.
#[derive(Debug)]
pub(crate) struct Pass<'a>(&'a Gate);

impl Gate {
    pub(crate) fn new(max: usize) -> Gate {
        Gate { count: AtomicUsize::new(0), max }
    }

    /// A place, if there is one.
    pub(crate) fn enter(&self) -> Option<Pass<'_>> {
        if self.count.fetch_add(1, Ordering::Relaxed) < self.max {
            Some(Pass(self))
        } else {
            self.count.fetch_sub(1, Ordering::Relaxed);
            None
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_has_so_many_places_and_gets_them_back() {
        let gate = Gate::new(2);
        let first = gate.enter();
        let second = gate.enter();
        assert!(first.is_some() && second.is_some() && gate.enter().is_none());
        drop(first);
        assert_eq!(gate.count(), 1);
        assert!(gate.enter().is_some());
    }
}
