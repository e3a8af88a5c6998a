//! The clock: the one place where time comes from outside.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use windrow_core::Timestamp;

/// A source of time. Simulations bring their own.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
    /// Microseconds since some moment, to measure how long something takes.
    fn micros(&self) -> u64 {
        self.now().0 * 1_000
    }
    /// Waits until a moment has come.
    fn sleep_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// What a future gives, if it ends before a moment has come.
pub(crate) async fn before<T>(
    clock: &impl Clock,
    at: Timestamp,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut moment = clock.sleep_until(at);
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => moment.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// The machine's clock, which never runs back: the wall clock is read once, and from then on time
/// passes as the machine counts it, also while it sleeps. A jump of the wall clock moves no lease.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
    /// What the machine had counted at the start.
    counted: Duration,
    at: Timestamp,
}

impl SystemClock {
    /// A clock that starts at the wall clock's time, or at `floor` if that is later: the latest
    /// moment that the store has seen.
    #[expect(clippy::disallowed_methods, reason = "the clock is read here and nowhere else")]
    pub fn new(floor: Timestamp) -> SystemClock {
        let wall = SystemTime::now(); // tidy: the clock's edge
        let since_1970 = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let wall = Timestamp(since_1970.as_millis() as u64);
        let started = Instant::now(); // tidy: the clock's edge
        SystemClock { started, counted: counted(started), at: wall.max(floor) }
    }
}

/// How long the machine has been on, asleep or not.
#[cfg(target_os = "linux")]
fn counted(_: Instant) -> Duration {
    let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(since.tv_sec as u64, since.tv_nsec as u32)
}

/// How long it has been awake, which is all that can be asked for here.
#[cfg(not(target_os = "linux"))]
fn counted(since: Instant) -> Duration {
    since.elapsed()
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let passed = counted(self.started).saturating_sub(self.counted);
        self.at.plus(passed.as_millis() as u64)
    }

    fn micros(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    #[expect(clippy::disallowed_methods, reason = "the clock is read here and nowhere else")]
    fn sleep_until(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let wait = Duration::from_millis(at.since(self.now()));
        Box::pin(tokio::time::sleep(wait)) // tidy: the clock's edge
    }
}
