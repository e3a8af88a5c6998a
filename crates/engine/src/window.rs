//! Windows: what happened in the last minutes, and not since the server began.
//!
//! A ring of minutes, each with its own count. Time is an argument. A minute that nobody counted in
//! costs nothing and counts nothing, also when it lies in the ring's place of an older one.

use std::ops::AddAssign;

use windrow_core::Timestamp;
use windrow_core::ports::Happened;
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

impl<T: Copy + Default> Window<T> {
    /// What was counted in each minute that is kept, the oldest first and this one last.
    pub fn minutes(&self, now: Timestamp) -> Vec<T> {
        let counted = |minute: u64| {
            let (of, counted) = self.minutes[(minute % MINUTES) as usize];
            if of == minute { counted } else { T::default() }
        };
        minutes(now).map(|minute| minute.map_or_else(T::default, counted)).collect()
    }
}

/// When each minute of a window began, the oldest first and this one last.
pub fn starts(now: Timestamp) -> Vec<Timestamp> {
    minutes(now).map(|minute| Timestamp(minute.unwrap_or(0) * MINUTE_MS)).collect()
}

/// The minutes of a window; nothing for those before time began.
fn minutes(now: Timestamp) -> impl Iterator<Item = Option<u64>> {
    let this = now.0 / MINUTE_MS;
    (0..MINUTES).rev().map(move |back| this.checked_sub(back))
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
    /// How long those that were claimed had waited since they could be, in all.
    pub wait_ms: u64,
    /// How long the attempts that went well or failed took, in all.
    pub run_ms: u64,
}

impl AddAssign for Flow {
    fn add_assign(&mut self, other: Flow) {
        self.enqueued += other.enqueued;
        self.claimed += other.claimed;
        self.went_well += other.went_well;
        self.failed += other.failed;
        self.wait_ms += other.wait_ms;
        self.run_ms += other.run_ms;
    }
}

impl Flow {
    /// One thing that happened.
    pub fn of(happened: &Happened) -> Flow {
        let flow = Flow::of_event(happened.event);
        let ms = happened.since.map_or(0, |since| happened.at.since(since));
        match (flow.claimed, flow.went_well + flow.failed) {
            (1, _) => Flow { wait_ms: ms, ..flow },
            (_, 1) => Flow { run_ms: ms, ..flow },
            _ => flow,
        }
    }

    /// The same without times; none for an item that began to exist.
    fn of_event(event: Option<Event>) -> Flow {
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

    /// How long those that were claimed had waited, each on average. None if none was.
    pub fn mean_wait_ms(&self) -> Option<u64> {
        self.wait_ms.checked_div(self.claimed)
    }

    /// How long the attempts that ended took, each on average. None if none did.
    pub fn mean_run_ms(&self) -> Option<u64> {
        self.run_ms.checked_div(self.went_well + self.failed)
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
        *window.at(at(0)) += Flow::of_event(Some(Event::Fail));
        *window.at(at(3)) += Flow::of_event(Some(Event::Complete));
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
        *window.at(at(1)) += Flow::of_event(None);
        *window.at(at(1 + MINUTES)) += Flow::of_event(None);
        assert_eq!(window.last(MINUTES, at(1 + MINUTES)).enqueued, 1);
        // Late, from an hour ago: it does not take the place of what is young.
        *window.at(at(1)) += Flow::of_event(None);
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
            let flow = Flow::of_event(Some(event));
            assert_eq!((flow.went_well, flow.failed), (well, failed), "{event:?}");
        }
        assert!(Flow::of_event(Some(Event::Claim)).is_work() && !Flow::of_event(None).is_work());
    }

    #[test]
    fn every_minute_is_read_in_order_and_those_in_which_nothing_happened_are_empty() {
        let mut window = Window::<Flow>::default();
        for minute in [3, 3, 5, 62] {
            *window.at(at(minute)) += Flow::of_event(Some(Event::Complete));
        }
        let well = |now| -> Vec<u64> {
            window.minutes(at(now)).iter().map(|flow| flow.went_well).collect()
        };
        let shown = well(62);
        assert_eq!(shown.len(), MINUTES as usize);
        assert_eq!((shown[0], shown[2], shown[59]), (2, 1, 1), "minutes 3, 5 and 62");
        assert_eq!(shown.iter().sum::<u64>(), 4);
        assert_eq!(well(63)[58..], [1, 0], "minute 3 is over an hour old");
        let starts = starts(at(62));
        assert_eq!(starts[59], Timestamp(START + 62 * MINUTE_MS));
        assert_eq!(starts[0], Timestamp(START + 3 * MINUTE_MS));
        assert_eq!(window.minutes(Timestamp(0)), vec![Flow::default(); MINUTES as usize]);
    }

    #[test]
    fn times_are_means_of_what_was_claimed_and_of_what_ended() {
        let flow = |claimed, ended, wait_ms, run_ms| Flow {
            claimed,
            went_well: ended,
            wait_ms,
            run_ms,
            ..Flow::default()
        };
        let means = |flow: Flow| (flow.mean_wait_ms(), flow.mean_run_ms());
        assert_eq!(means(Flow::default()), (None, None));
        assert_eq!(means(flow(2, 0, 30, 0)), (Some(15), None));
        assert_eq!(means(Flow { failed: 3, ..flow(1, 1, 0, 100) }), (Some(0), Some(25)));
    }
}
