//! `SimClock`: time that stands still until a test moves it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use windrow_core::Timestamp;
use windrow_engine::Clock;

/// A clock that only its owner moves. A clone shows the same time.
#[derive(Clone, Debug)]
pub struct SimClock(Arc<AtomicU64>);

impl SimClock {
    /// A clock that stands at `at`.
    pub fn new(at: Timestamp) -> SimClock {
        SimClock(Arc::new(AtomicU64::new(at.0)))
    }

    pub fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    /// Moves the clock on and says what it shows then.
    pub fn advance(&self, ms: u64) -> Timestamp {
        Timestamp(self.0.fetch_add(ms, Ordering::SeqCst) + ms)
    }

    pub fn set(&self, at: Timestamp) {
        self.0.store(at.0, Ordering::SeqCst);
    }
}

impl Default for SimClock {
    /// The fifteenth of November 2026, so that no time is accidentally near zero.
    fn default() -> SimClock {
        SimClock::new(Timestamp(1_794_700_800_000))
    }
}

/// The same for an engine whose futures are polled by hand.
#[derive(Clone, Debug, Default)]
pub struct Hands(pub SimClock);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.0.clone();
        Box::pin(std::future::poll_fn(move |_| {
            if clock.now() >= at { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_shows_the_same_time() {
        let clock = SimClock::new(Timestamp(5));
        let other = clock.clone();
        assert_eq!(clock.advance(7), Timestamp(12));
        assert_eq!(other.now(), Timestamp(12));
    }
}
