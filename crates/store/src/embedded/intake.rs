//! The intake: batches that arrive while a thread decides.
//!
//! One thread decides at a time. Whoever comes meanwhile leaves its batch here and does not wait
//! for the lock: the thread that decides takes it along. Handing a lock over to a thread that
//! sleeps takes longer than deciding most batches.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use windrow_core::Timestamp;
use windrow_core::command::Request;
use windrow_core::ports::StoreError;

use super::Shared;
use super::commit::Room;
use super::sync::Promise;

/// What waits to be decided, and whether a thread is at it.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    deciding: bool,
    jobs: VecDeque<Arc<Job>>,
}

/// A batch whose caller waits.
#[derive(Debug)]
struct Job {
    step: Mutex<Step>,
}

#[derive(Debug)]
enum Step {
    Asked { batch: Vec<Request>, now: Timestamp, waker: Waker },
    Decided(Result<Room, StoreError>),
    Taken,
}

impl Intake {
    /// Leaves a batch with the thread that decides; gives it back if there is none, and then it is
    /// the caller who decides.
    fn leave(
        &self,
        batch: Vec<Request>,
        now: Timestamp,
        waker: &Waker,
    ) -> Result<Arc<Job>, Vec<Request>> {
        let mut inside = self.inside.lock();
        if !std::mem::replace(&mut inside.deciding, true) {
            return Err(batch);
        }
        let step = Mutex::new(Step::Asked { batch, now, waker: waker.clone() });
        let job = Arc::new(Job { step });
        inside.jobs.push_back(Arc::clone(&job));
        Ok(job)
    }

    /// Takes a batch back if no thread is at it; then it is the caller who decides.
    fn take_over(&self, job: &Arc<Job>) -> Option<(Vec<Request>, Timestamp)> {
        let mut inside = self.inside.lock();
        if inside.deciding {
            return None;
        }
        let at = inside.jobs.iter().position(|other| Arc::ptr_eq(other, job))?;
        let Step::Asked { batch, now, .. } = inside.jobs.remove(at)?.take() else { return None };
        inside.deciding = true;
        Some((batch, now))
    }

    /// What waits longest, for the thread that decides. It stops deciding if nothing waits, or if
    /// it has something better to do; then whoever is first goes on.
    fn next(&self, stop: impl FnOnce() -> bool) -> Option<Arc<Job>> {
        let mut inside = self.inside.lock();
        if inside.jobs.is_empty() || stop() {
            inside.deciding = false;
            inside.wake_first();
            return None;
        }
        inside.jobs.pop_front()
    }

    /// The caller went away. If it was the one to go on, the next is.
    fn withdraw(&self, job: &Arc<Job>) {
        let mut inside = self.inside.lock();
        inside.jobs.retain(|other| !Arc::ptr_eq(other, job));
        if !inside.deciding {
            inside.wake_first();
        }
    }
}

impl Inside {
    fn wake_first(&self) {
        if let Some(job) = self.jobs.front()
            && let Step::Asked { waker, .. } = &*job.step.lock()
        {
            waker.wake_by_ref();
        }
    }
}

impl Job {
    fn take(&self) -> Step {
        std::mem::replace(&mut self.step.lock(), Step::Taken)
    }

    /// What was decided; the waker is kept if nothing was yet.
    fn poll(&self, cx: &Context<'_>) -> Option<Result<Room, StoreError>> {
        let mut step = self.step.lock();
        match &mut *step {
            Step::Asked { waker, .. } => waker.clone_from(cx.waker()),
            Step::Taken => {}
            Step::Decided(_) => {
                if let Step::Decided(room) = std::mem::replace(&mut *step, Step::Taken) {
                    return Some(room);
                }
            }
        }
        None
    }
}

impl Shared {
    /// Decides what others left, as long as this thread would only wait for the group `own`.
    fn decide_others(&self, own: u64) {
        while let Some(job) = self.intake.next(|| self.durable.reached() >= own) {
            self.decide_for(&job);
        }
    }

    fn decide_for(&self, job: &Arc<Job>) {
        let is_alone = Arc::strong_count(job) == 1;
        let mut step = job.step.lock();
        let Step::Asked { .. } = &*step else { return };
        let Step::Asked { batch, now, waker } = std::mem::replace(&mut *step, Step::Taken) else {
            return;
        };
        if is_alone {
            // Its caller went away before anything was decided.
            return;
        }
        let room = self.decide(batch, now);
        self.call_syncer();
        let idle_until = room.as_ref().ok().and_then(Room::idle_until);
        *step = Step::Decided(room);
        drop(step);
        match idle_until {
            Some(group) => self.durable.wake_at(group, waker),
            None => waker.wake(),
        }
    }
}

/// A batch on its way to be decided.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    shared: &'a Shared,
    ask: Option<(Vec<Request>, Timestamp)>,
    job: Option<Arc<Job>>,
    /// Whether its caller would write the group itself.
    promises: bool,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        batch: Vec<Request>,
        now: Timestamp,
        promises: bool,
    ) -> Asking<'a> {
        Asking { shared, ask: Some((batch, now)), job: None, promises }
    }
}

impl<'a> Future for Asking<'a> {
    /// With the promise to write the group, if nobody else was told to.
    type Output = Result<(Room, Option<Promise<'a>>), StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = self.shared;
        let mine = if let Some((batch, now)) = self.ask.take() {
            match shared.intake.leave(batch, now, cx.waker()) {
                Ok(job) => {
                    self.job = Some(job);
                    None
                }
                Err(batch) => Some((batch, now)),
            }
        } else {
            let Some(job) = &self.job else { return Poll::Pending };
            if let Some(room) = job.poll(cx) {
                self.job = None;
                return Poll::Ready(room.map(|room| (room, None)));
            }
            shared.intake.take_over(job)
        };
        let Some((batch, now)) = mine else { return Poll::Pending };
        self.job = None;
        let room = shared.decide(batch, now);
        let promise = self.promises.then(|| shared.promise());
        if promise.is_none() {
            shared.call_syncer();
        }
        shared.decide_others(room.as_ref().map_or(0, Room::group));
        Poll::Ready(room.map(|room| (room, promise)))
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.shared.intake.withdraw(&job);
        }
    }
}
