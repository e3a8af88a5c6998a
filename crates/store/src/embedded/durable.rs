//! Waiting for the disk: callers sleep until the group that holds their answer is durable.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// How far the log is durable, and who waits for more.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    reached: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    wakers: Vec<(u64, Waker)>,
    /// Why nothing will ever become durable again.
    poison: Option<String>,
}

impl Durable {
    /// A log that is durable up to this group.
    pub(crate) fn new(reached: u64) -> Durable {
        Durable { reached: AtomicU64::new(reached), waiting: Mutex::default() }
    }

    /// Says that everything up to this group is durable, and wakes who waited for it.
    pub(crate) fn reach(&self, group: u64) {
        self.reached.store(group, Ordering::Release);
        let mut waiting = self.waiting.lock();
        let (ready, later) = waiting.wakers.drain(..).partition(|(until, _)| *until <= group);
        waiting.wakers = later;
        drop(waiting);
        let ready: Vec<(u64, Waker)> = ready;
        ready.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Wakes somebody once a group is durable.
    pub(crate) fn wake_at(&self, group: u64, waker: Waker) {
        let mut waiting = self.waiting.lock();
        if self.reached() >= group || waiting.poison.is_some() {
            drop(waiting);
            return waker.wake();
        }
        waiting.wakers.push((group, waker));
    }

    /// Says that nothing will become durable any more, and wakes everybody.
    pub(crate) fn poison(&self, why: &str) {
        let mut waiting = self.waiting.lock();
        waiting.poison.get_or_insert_with(|| why.to_owned());
        let wakers = std::mem::take(&mut waiting.wakers);
        drop(waiting);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Why the store stopped, if it did.
    pub(crate) fn poisoned(&self) -> Option<String> {
        self.waiting.lock().poison.clone()
    }

    pub(crate) fn reached(&self) -> u64 {
        self.reached.load(Ordering::Acquire)
    }

    /// Waits until a group is durable.
    pub(crate) fn until(&self, group: u64) -> Until<'_> {
        Until { durable: self, group, registered: None }
    }
}

/// A wait for one group. Ends with the reason if the store stopped before.
#[derive(Debug)]
pub(crate) struct Until<'a> {
    durable: &'a Durable,
    group: u64,
    registered: Option<Waker>,
}

impl Future for Until<'_> {
    type Output = Result<(), String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        if self.durable.reached() >= self.group {
            return Poll::Ready(Ok(()));
        }
        let mut waiting = self.durable.waiting.lock();
        // Between the look above and the lock the group may have become durable.
        if self.durable.reached() >= self.group {
            return Poll::Ready(Ok(()));
        }
        if let Some(why) = &waiting.poison {
            return Poll::Ready(Err(why.clone()));
        }
        if !self.registered.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            waiting.wakers.push((self.group, cx.waker().clone()));
            drop(waiting);
            self.registered = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}
