//! `SimTime`: the engine's clock in a simulation. Sleepers wake when the simulator moves it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use windrow_core::Timestamp;
use windrow_engine::Clock;

use crate::clock::SimClock;

/// A clock that only its owner moves. A clone shows the same time and has the same sleepers.
#[derive(Clone, Debug)]
pub(crate) struct SimTime {
    clock: SimClock,
    sleepers: Arc<Mutex<Sleepers>>,
}

#[derive(Debug, Default)]
struct Sleepers {
    next: u64,
    /// By the moment they wait for, and by their number.
    waiting: BTreeMap<(Timestamp, u64), Waker>,
}

impl SimTime {
    /// A clock that stands at `at`, with nobody asleep.
    pub(crate) fn new(at: Timestamp) -> SimTime {
        SimTime { clock: SimClock::new(at), sleepers: Arc::default() }
    }

    /// Moves the clock on and wakes whom that concerns.
    pub(crate) fn advance(&self, ms: u64) {
        let now = self.clock.advance(ms);
        let due = {
            let mut sleepers = self.sleepers.lock();
            let later = sleepers.waiting.split_off(&(now.plus(1), 0));
            std::mem::replace(&mut sleepers.waiting, later)
        };
        due.into_values().for_each(Waker::wake);
    }

    /// When the first sleeper wants to be woken.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.sleepers.lock().waiting.keys().next().map(|(at, _)| *at)
    }
}

impl Clock for SimTime {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let number = {
            let mut sleepers = self.sleepers.lock();
            sleepers.next += 1;
            sleepers.next
        };
        Box::pin(Sleep { time: self.clone(), key: (at, number) })
    }
}

struct Sleep {
    time: SimTime,
    key: (Timestamp, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.time.now() >= self.key.0 {
            return Poll::Ready(());
        }
        self.time.sleepers.lock().waiting.insert(self.key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.time.sleepers.lock().waiting.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_sleeper_wakes_at_its_moment_and_not_before() {
        let time = SimTime::new(Timestamp(100));
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut context = Context::from_waker(&waker);
        let mut sleep = pin!(time.sleep_until(Timestamp(150)));
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        assert_eq!(time.next(), Some(Timestamp(150)));
        time.advance(49);
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        time.advance(1);
        assert_eq!((count.0.load(Ordering::SeqCst), time.next()), (1, None));
        assert!(sleep.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn one_that_no_longer_waits_is_forgotten() {
        let time = SimTime::new(Timestamp(0));
        {
            let mut sleep = pin!(time.sleep_until(Timestamp(5)));
            let _pending = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        assert_eq!(time.next(), None);
    }
}
