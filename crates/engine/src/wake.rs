//! Waking: claims that wait for work, and who is woken when some arrives.
//!
//! A claim takes a ticket before it looks for work, so nothing that arrives after the look can be
//! missed. As many waiters are woken as there are items, in the order in which they came; one that
//! was woken in vain keeps its place. One that goes away after it was woken passes the call on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use windrow_core::command::Claim;
use windrow_core::planted::{Bug, is_planted};
use windrow_core::ports::Ready;

/// Claims that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    next: u64,
    waiting: BTreeMap<u64, Waiter>,
}

#[derive(Debug)]
struct Waiter {
    claim: Arc<Claim>,
    /// What it was woken for and has not looked for yet.
    called: Option<Ready>,
    waker: Option<Waker>,
}

/// A place in the line.
#[derive(Debug)]
pub(crate) struct Ticket<'a> {
    waiters: &'a Waiters,
    number: u64,
}

/// Whether a claim's filters allow this work.
pub(crate) fn fits(claim: &Claim, ready: &Ready) -> bool {
    let wants = |names: &[Arc<str>], name: &Arc<str>| names.is_empty() || names.contains(name);
    wants(&claim.queues, &ready.queue)
        && wants(&claim.stages, &ready.stage)
        && wants(&claim.kinds, &ready.kind)
        && wants(&claim.tenants, &ready.tenant)
}

impl Waiters {
    pub(crate) fn take_ticket(&self, claim: &Arc<Claim>) -> Ticket<'_> {
        let mut line = self.line.lock();
        let number = line.next;
        line.next += 1;
        let waiter = Waiter { claim: Arc::clone(claim), called: None, waker: None };
        line.waiting.insert(number, waiter);
        Ticket { waiters: self, number }
    }

    /// Work is ready: wakes as many waiters as there are items.
    pub(crate) fn call(&self, ready: &[Ready]) {
        let mut wakers = Vec::new();
        let mut line = self.line.lock();
        for ready in ready {
            let count = if is_planted(Bug::OneWakeUp) { 1 } else { ready.count };
            let idle = line
                .waiting
                .values_mut()
                .filter(|waiter| waiter.called.is_none() && fits(&waiter.claim, ready));
            for waiter in idle.take(count) {
                waiter.called = Some(Ready { count: 1, ..ready.clone() });
                wakers.extend(waiter.waker.take());
            }
        }
        drop(line);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn len(&self) -> usize {
        self.line.lock().waiting.len()
    }
}

impl Ticket<'_> {
    /// Whether it was called since it last looked. Looking answers the call.
    pub(crate) fn answer(&self) -> bool {
        let mut line = self.waiters.line.lock();
        line.waiting.get_mut(&self.number).is_some_and(|waiter| waiter.called.take().is_some())
    }

    /// Waits for the next call. It stays unanswered until [`Ticket::answer`].
    pub(crate) async fn called(&self) {
        std::future::poll_fn(|cx| {
            let mut line = self.waiters.line.lock();
            match line.waiting.get_mut(&self.number) {
                Some(waiter) if waiter.called.is_none() => {
                    waiter.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        })
        .await;
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let gone = self.waiters.line.lock().waiting.remove(&self.number);
        if let Some(ready) = gone.and_then(|waiter| waiter.called) {
            self.waiters.call(&[ready]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(queue: &str, count: usize) -> Ready {
        Ready {
            queue: queue.into(),
            stage: "work".into(),
            kind: "item".into(),
            tenant: "t".into(),
            count,
        }
    }

    fn claim(queue: &str) -> Arc<Claim> {
        Arc::new(Claim::new("w", queue, 1))
    }

    #[test]
    fn as_many_are_called_as_there_is_work_and_the_first_come_first() {
        let waiters = Waiters::default();
        let claim = claim("q");
        let tickets: Vec<Ticket<'_>> = (0..5).map(|_| waiters.take_ticket(&claim)).collect();
        waiters.call(&[ready("q", 2), ready("other", 9)]);
        let called: Vec<bool> = tickets.iter().map(Ticket::answer).collect();
        assert_eq!(called, [true, true, false, false, false]);
    }

    #[test]
    fn a_call_to_one_that_left_goes_to_the_next() {
        let waiters = Waiters::default();
        let claim = claim("q");
        let first = waiters.take_ticket(&claim);
        let second = waiters.take_ticket(&claim);
        waiters.call(&[ready("q", 1)]);
        drop(first);
        assert!(second.answer());
        assert_eq!(waiters.len(), 1);
    }

    #[test]
    fn one_that_was_called_is_not_called_again_before_it_looked() {
        let waiters = Waiters::default();
        let claim = claim("q");
        let first = waiters.take_ticket(&claim);
        let second = waiters.take_ticket(&claim);
        waiters.call(&[ready("q", 1)]);
        waiters.call(&[ready("q", 1)]);
        assert!(first.answer() && second.answer());
    }
}
