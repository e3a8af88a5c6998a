//! A shift: one item after another, as long as there are some and there is time.
//!
//! Somebody calls a worker, which does a few items and says what became of them (seed 004's
//! serverless style); or it works by itself until the server stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use windrow_core::command::{Claim, Grant, Outcome};
use windrow_core::queue::{Error, Queue, Work};

use super::hand::{Done, Limits, is_stopping, work_on};
use super::{Declared, Payloads};

/// How long to wait before a queue is asked again that did not answer.
const AGAIN: Duration = Duration::from_secs(1);
/// How long to wait before a queue is asked again from which somebody has taken the last item.
const SOON: Duration = Duration::from_millis(20);
/// How long to wait before a command is tried again that could not be started.
const MENDED: Duration = Duration::from_secs(10);
/// How long a claim that is under way is waited for when there is nothing more to take. It ends by
/// itself long before, unless the queue does not answer.
const CUT: Duration = Duration::from_secs(3);

/// What a shift came to.
#[derive(Debug)]
pub(crate) struct Shift {
    pub(crate) done: Vec<Done>,
    pub(crate) ended: Ended,
    pub(crate) took: Duration,
}

/// Why a shift ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// There is nothing to do.
    Empty,
    /// It did as much as it may.
    MaxJobs,
    /// Most of its time is over.
    Budget,
    /// The server stops.
    Stopping,
    /// The queue did not answer, or the command cannot be started.
    Failed(String),
}

/// What a worker that works by itself tells.
#[derive(Debug)]
pub(crate) enum News<'a> {
    Done(&'a Done),
    /// The queue does not answer; it is asked until it does.
    Away(&'a Error),
    /// It answers again.
    Back,
}

/// Where work is taken from, and who says when to stop.
#[derive(Clone, Debug)]
pub(crate) struct Place<Q, P> {
    pub(crate) queue: Arc<Q>,
    pub(crate) payloads: P,
    pub(crate) stopping: watch::Receiver<bool>,
    /// How long what is in hand may go on when the server stops.
    pub(crate) drain: Duration,
}

impl<Q: Queue, P: Payloads> Place<Q, P> {
    /// Does up to as many items as the worker may, within its budget. It takes nothing more once
    /// five sixths of that are over.
    pub(crate) async fn shift(&self, worker: &Declared) -> Shift {
        let begun = Instant::now();
        let (last, until) = (begun + worker.budget * 5 / 6, begun + worker.budget);
        let mut done = Vec::new();
        let ended = loop {
            if *self.stopping.borrow() {
                break Ended::Stopping;
            }
            if done.len() >= worker.max_jobs {
                break Ended::MaxJobs;
            }
            if Instant::now() >= last {
                break Ended::Budget;
            }
            match self.queue.claim(claim(worker), 0, None).await {
                Ok(Some(granted)) => {
                    let limits = self.limits(Some((until, worker.budget)));
                    let (queue, payloads) = (&*self.queue, &self.payloads);
                    done.extend(work_on(queue, payloads, worker, granted, limits, &|_| {}).await);
                    // Whatever it would take next it could not do either.
                    if let Some(why) = done.last().and_then(|done| done.not_started.clone()) {
                        break Ended::Failed(format!("the command cannot be started: {why}"));
                    }
                }
                Ok(None) => break Ended::Empty,
                Err(error) => break Ended::Failed(error.to_string()),
            }
        };
        Shift { done, ended, took: begun.elapsed() }
    }

    /// Works until the server stops or its quota is done, waiting for work so long at a time. Gives
    /// the refusal that ended it, if the quota says that one does.
    pub(crate) async fn work(
        &self,
        worker: &Declared,
        wait: Duration,
        quota: &Quota,
        tell: impl Fn(News<'_>) + Sync,
    ) -> Option<Error> {
        let mut stopping = self.stopping.clone();
        let heard = |missed: Option<&Error>| {
            let was_away = quota.is_away.swap(missed.is_some(), Ordering::Relaxed);
            match missed {
                Some(error) if !was_away => tell(News::Away(error)),
                None if was_away => tell(News::Back),
                _ => {}
            }
        };
        // That the queue answers those who work is no news while it refuses to hand out more.
        let heard_at_work = |missed: Option<&Error>| {
            if missed.is_some() || !quota.is_refused.load(Ordering::Relaxed) {
                heard(missed);
            }
        };
        // What had been done by all when there was last nothing to do.
        let mut seen = None;
        while !*stopping.borrow() && quota.take() {
            let at_it = quota.begin();
            let claiming = self.queue.claim(claim(worker), wait.as_millis() as u64, None);
            let claimed = tokio::select! {
                claimed = claiming => claimed,
                // What it may have been granted comes back when its lease runs out.
                () = self.cut() => break,
            };
            let is_refused = matches!(claimed, Err(Error::Refused(_)));
            quota.is_refused.store(is_refused, Ordering::Relaxed);
            if claimed.is_ok() {
                heard(None);
            }
            let rest = match claimed {
                // It came while nobody takes anything any more.
                Ok(Some(granted)) if *stopping.borrow() => {
                    hand_back(&*self.queue, granted).await;
                    None
                }
                Ok(Some(granted)) => {
                    let limits = self.limits(None);
                    let (queue, payloads) = (&*self.queue, &self.payloads);
                    let heard = &heard_at_work;
                    let done = work_on(queue, payloads, worker, granted, limits, heard).await;
                    quota.done();
                    done.iter().for_each(|done| tell(News::Done(done)));
                    done.and_then(|done| done.not_started).map(|_| MENDED)
                }
                Ok(None) => {
                    quota.give_back();
                    drop(at_it);
                    // What somebody has in hand, or has just done, may be work for another stage.
                    let before = seen.replace(quota.done_so_far());
                    match quota.until_empty {
                        true if quota.is_idle() && before == seen => break,
                        true => Some(SOON),
                        false => None,
                    }
                }
                Err(error) if quota.gives_up && is_final(&error) => return Some(error),
                // A store that is away or full: that passes.
                Err(error) => {
                    quota.give_back();
                    heard(Some(&error));
                    Some(AGAIN)
                }
            };
            if let Some(rest) = rest {
                tokio::select! {
                    () = sleep(rest) => {}
                    _ = stopping.changed() => {}
                }
            }
        }
        None
    }

    /// Ends when a claim need not be waited for any longer.
    async fn cut(&self) {
        is_stopping(self.stopping.clone()).await;
        sleep(CUT).await;
    }

    fn limits(&self, until: Option<(Instant, Duration)>) -> Limits {
        Limits { until, stopping: self.stopping.clone(), drain: self.drain }
    }
}

/// Puts back what was granted and is not begun. If that is not heard, its lease runs out.
async fn hand_back<Q: Queue>(queue: &Q, granted: Grant<Work>) {
    let release = |work: Work| (work.id, Outcome::Release { delay_ms: 0 });
    let items = granted.items.into_iter().map(release).collect();
    let _heard = queue.settle(granted.lease, items, None).await;
}

/// How much is done before a worker that works by itself ends.
#[derive(Debug)]
pub(crate) struct Quota {
    /// Items that may still be taken, by all who share it.
    left: AtomicUsize,
    /// How many of them have something in hand, or ask for it.
    at_it: AtomicUsize,
    /// How many items they have done.
    done: AtomicUsize,
    /// The queue did not answer the last of them.
    is_away: AtomicBool,
    /// It refused the last claim, for now.
    is_refused: AtomicBool,
    /// It ends when there is nothing to do.
    pub(crate) until_empty: bool,
    /// It ends when it is refused for good.
    pub(crate) gives_up: bool,
}

impl Quota {
    pub(crate) fn new(max: Option<usize>, until_empty: bool) -> Quota {
        let (left, at_it) = (AtomicUsize::new(max.unwrap_or(usize::MAX)), AtomicUsize::new(0));
        let (done, is_away) = (AtomicUsize::new(0), AtomicBool::new(false));
        let is_refused = AtomicBool::new(false);
        Quota { left, at_it, done, is_away, is_refused, until_empty, gives_up: true }
    }

    /// As long as the server runs.
    pub(crate) fn endless() -> Quota {
        Quota { gives_up: false, ..Quota::new(None, false) }
    }

    /// Whether it ended because there was nothing to do.
    pub(crate) fn is_emptied(&self) -> bool {
        self.until_empty && self.left.load(Ordering::Relaxed) > 0
    }

    fn take(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    fn begin(&self) -> AtIt<'_> {
        self.at_it.fetch_add(1, Ordering::AcqRel);
        AtIt(&self.at_it)
    }

    fn done(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
    }

    fn done_so_far(&self) -> usize {
        self.done.load(Ordering::Acquire)
    }

    /// Whether nobody has anything in hand.
    fn is_idle(&self) -> bool {
        self.at_it.load(Ordering::Acquire) == 0
    }

    fn give_back(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }
}

/// Somebody has something in hand, or asks for it.
struct AtIt<'a>(&'a AtomicUsize);

impl Drop for AtIt<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether asking again will not help.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Refused(refused) if refused.retry_after_ms.is_none())
}

/// One item at a time: each has a lease of its own, and one that is slow holds up no other.
fn claim(worker: &Declared) -> Claim {
    Claim {
        worker: Arc::clone(&worker.name),
        queues: worker.queues.clone(),
        stages: worker.stages.clone(),
        kinds: worker.kinds.clone(),
        tenants: worker.tenants.clone(),
        max: 1,
        lease_ms: Some(worker.lease.as_millis() as u64),
    }
}
