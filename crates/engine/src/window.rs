//! Windows: what happened in the last minutes, and not since the server began.
//!
//! A ring of minutes, each with its own count. Time is an argument. A minute that nobody counted in
//! costs nothing and counts nothing, also when it lies in the ring's place of an older one.

use std::ops::AddAssign;

use windrow_core::Timestamp;
use windrow_core::transitions::Event;

/// Minutes that are kept.
pub const MINUTES: u64 = 60;
const MINUTE_MS: u64 = 60_000;

/// Counts by minute.
#[derive(Clone, Debug)]
pub struct Window<T> {
    minutes: [(u64, T); MINUTES as usize],
}

impl<T: Copy + Default> Default for Window<T> {
    fn default() -> Window<T> {
        Window { minutes: [(0, T::default()); MINUTES as usize] }
    }
}

impl<T: Copy + Default + AddAssign> Window<T> {
    /// What is counted in the minute of a moment.
    pub fn at(&mut self, now: Timestamp) -> &mut T {
        let minute = now.0 / MINUTE_MS;
        let place = &mut self.minutes[(minute % MINUTES) as usize];
        // What arrives late, from a minute whose place is taken, counts for the younger one.
        if place.0 < minute {
            *place = (minute, T::default());
        }
        &mut place.1
    }

    /// What was counted in this minute and in those before it, so many in all.
    pub fn last(&self, minutes: u64, now: Timestamp) -> T {
        let this = now.0 / MINUTE_MS;
        let mut sum = T::default();
        for (minute, counted) in &self.minutes {
            if *minute <= this && this - minute < minutes {
                sum += *counted;
            }
        }
        sum
    }
}

/// What became of items.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flow {
    pub enqueued: u64,
    pub claimed: u64,
    /// Attempts that brought their item on.
    pub went_well: u64,
    /// Attempts that failed, or whose lease ran out.
    pub failed: u64,
}

impl AddAssign for Flow {
    fn add_assign(&mut self, other: Flow) {
        self.enqueued += other.enqueued;
        self.claimed += other.claimed;
        self.went_well += other.went_well;
        self.failed += other.failed;
    }
}

impl Flow {
    /// One thing that happened; none for an item that began to exist.
    pub fn of(event: Option<Event>) -> Flow {
        let mut flow = Flow::default();
        match event {
            None => flow.enqueued = 1,
            Some(Event::Claim) => flow.claimed = 1,
            Some(Event::Advance | Event::Complete | Event::Split | Event::Skip) => {
                flow.went_well = 1;
            }
            Some(Event::Retry | Event::Fail | Event::Expire) => flow.failed = 1,
            Some(_) => {}
        }
        flow
    }

    /// Whether a worker did something.
    pub fn is_work(&self) -> bool {
        self.claimed + self.went_well + self.failed > 0
    }
}

/// How long the store took.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Commits {
    pub count: u64,
    pub micros: u64,
}

impl AddAssign for Commits {
    fn add_assign(&mut self, other: Commits) {
        self.count += other.count;
        self.micros += other.micros;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_000_000 * MINUTE_MS;

    fn at(minute: u64) -> Timestamp {
        Timestamp(START + minute * MINUTE_MS + 30_000)
    }

    #[test]
    fn a_window_forgets_what_is_older_than_it() {
        let mut window = Window::<Flow>::default();
        *window.at(at(0)) += Flow::of(Some(Event::Fail));
        *window.at(at(3)) += Flow::of(Some(Event::Complete));
        let last = |window: &Window<Flow>, minutes, now| {
            let flow = window.last(minutes, at(now));
            (flow.went_well, flow.failed)
        };
        assert_eq!(last(&window, 5, 3), (1, 1));
        assert_eq!(last(&window, 5, 4), (1, 1));
        assert_eq!(last(&window, 5, 5), (1, 0), "the failure is five minutes old");
        assert_eq!(last(&window, 5, 8), (0, 0));
        assert_eq!(last(&window, 60, 59), (1, 1));
    }

    #[test]
    fn a_place_in_the_ring_is_used_again_and_holds_nothing_of_before() {
        let mut window = Window::<Flow>::default();
        *window.at(at(1)) += Flow::of(None);
        *window.at(at(1 + MINUTES)) += Flow::of(None);
        assert_eq!(window.last(MINUTES, at(1 + MINUTES)).enqueued, 1);
        // Late, from an hour ago: it does not take the place of what is young.
        *window.at(at(1)) += Flow::of(None);
        assert_eq!(window.last(1, at(1 + MINUTES)).enqueued, 2);
        assert_eq!(window.last(5, Timestamp(0)), Flow::default(), "nothing before time began");
    }

    #[test]
    fn what_happened_counts_by_what_it_means() {
        for (event, well, failed) in [
            (Event::Complete, 1, 0),
            (Event::Advance, 1, 0),
            (Event::Retry, 0, 1),
            (Event::Expire, 0, 1),
            (Event::Release, 0, 0),
            (Event::Cancel, 0, 0),
        ] {
            let flow = Flow::of(Some(event));
            assert_eq!((flow.went_well, flow.failed), (well, failed), "{event:?}");
        }
        assert!(Flow::of(Some(Event::Claim)).is_work() && !Flow::of(None).is_work());
    }
}
