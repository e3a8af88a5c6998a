//! A tiny executor: who is ready is polled when the simulator says so, in whatever order it likes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// What a task runs.
pub(crate) type Job = Pin<Box<dyn Future<Output = ()>>>;

/// Tasks by number. A number is given again when its task was replaced.
#[derive(Default)]
pub(crate) struct Tasks {
    tasks: Vec<Option<Task>>,
}

struct Task {
    job: Job,
    bell: Arc<Bell>,
    waker: Waker,
}

/// What a waker rings.
#[derive(Debug)]
struct Bell {
    ready: AtomicBool,
    rung: AtomicU64,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.store(true, Ordering::Relaxed);
        self.rung.fetch_add(1, Ordering::Relaxed);
    }
}

impl Tasks {
    /// Starts a task under a number; the one that had it is dropped, wherever it stood.
    pub(crate) fn start(&mut self, number: usize, job: Job) {
        while self.tasks.len() <= number {
            self.tasks.push(None);
        }
        let bell = Arc::new(Bell { ready: AtomicBool::new(true), rung: AtomicU64::new(0) });
        let waker = Waker::from(Arc::clone(&bell));
        self.tasks[number] = None;
        self.tasks[number] = Some(Task { job, bell, waker });
    }

    /// Those that would go on if they were polled.
    pub(crate) fn ready(&self) -> impl Iterator<Item = usize> {
        let is_ready = |task: &Task| task.bell.ready.load(Ordering::Relaxed);
        let tasks = self.tasks.iter().enumerate();
        tasks.filter(move |(_, task)| task.as_ref().is_some_and(is_ready)).map(|(at, _)| at)
    }

    /// How often a task was woken so far.
    pub(crate) fn rung(&self, number: usize) -> u64 {
        let task = self.tasks.get(number).and_then(Option::as_ref);
        task.map_or(0, |task| task.bell.rung.load(Ordering::Relaxed))
    }

    /// Polls a task once. True if it has ended, and with it its number is free.
    pub(crate) fn poll(&mut self, number: usize) -> bool {
        let Some(task) = self.tasks.get_mut(number).and_then(Option::as_mut) else {
            return false;
        };
        task.bell.ready.store(false, Ordering::Relaxed);
        let polled = task.job.as_mut().poll(&mut Context::from_waker(&task.waker));
        let over = polled == Poll::Ready(());
        if over {
            self.tasks[number] = None;
        }
        over
    }

    /// Drops a task, as when its connection breaks.
    pub(crate) fn stop(&mut self, number: usize) {
        if let Some(task) = self.tasks.get_mut(number) {
            *task = None;
        }
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("ready", &self.ready().collect::<Vec<_>>()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_task_is_ready_when_it_starts_and_whenever_it_is_woken() {
        let mut tasks = Tasks::default();
        let polls = Rc::new(Cell::new(0));
        let counted = Rc::clone(&polls);
        let job = std::future::poll_fn(move |cx| {
            counted.set(counted.get() + 1);
            match counted.get() {
                1 => cx.waker().wake_by_ref(),
                2 => {}
                _ => return Poll::Ready(()),
            }
            Poll::Pending
        });
        tasks.start(2, Box::pin(job));
        assert_eq!(tasks.ready().collect::<Vec<_>>(), [2]);
        assert!(!tasks.poll(2));
        assert_eq!((tasks.ready().count(), tasks.rung(2)), (1, 1));
        assert!(!tasks.poll(2));
        assert_eq!(tasks.ready().count(), 0);
        assert!(tasks.poll(2));
        assert!(!tasks.poll(2), "an ended task is gone");
        assert_eq!(polls.get(), 3);
    }
}
