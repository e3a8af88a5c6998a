//! Where handlers run: in threads of their own, so that one that blocks keeps nobody from renewing.
//!
//! Handlers that are futures share as many threads as there are cores; whatever they open, wait for
//! or spawn belongs to the runtime that the worker was started on. Blocking handlers have a thread
//! each. Turns what a handler returns, or its panic, into an outcome.

use std::any::Any;
use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::runtime::Handle;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;
use windrow_core::LeaseId;
use windrow_core::command::Outcome;
use windrow_core::item::Payload;
use windrow_core::limits::ERROR_MAX;
use windrow_core::queue::Work;
use windrow_core::trail::Class;

use super::events::Event;
use super::hand::{Bench, Claimed, Ended, Hand, Next};
use super::job::{At, Job, is_last_stage};
use super::outcome::{Handled, Made, Told, words};
use super::payload::FromPayload;

/// Reads a payload that is kept apart from its item.
pub(super) type ReadBlob = dyn Fn(LeaseId, Work) -> BlobRead + Send + Sync;
type BlobRead = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send>>;

/// What slots work with.
#[derive(Clone)]
pub(super) struct Crew {
    pub(super) hand: Arc<Hand>,
    pub(super) runtime: Handle,
    pub(super) concurrency: usize,
    pub(super) read_blob: Option<Arc<ReadBlob>>,
    pub(super) tell: Arc<dyn Fn(Event) + Send + Sync>,
}

/// Begins to work with a handler.
pub(super) type Begin = Box<dyn FnOnce(Crew) -> std::io::Result<()> + Send>;

/// Slots for a handler that is a future.
pub(super) fn tasks<P, R, F, Fut>(handler: F) -> Begin
where
    P: FromPayload + Send + 'static,
    R: Made,
    F: Fn(Job<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Handled<R>> + Send + 'static,
{
    let handler = Arc::new(handler);
    Box::new(move |crew| {
        let cores = thread::available_parallelism().map_or(2, usize::from);
        let threads = crew.concurrency.min(cores);
        for number in 0..threads {
            let slots =
                crew.concurrency / threads + usize::from(number < crew.concurrency % threads);
            let (crew, handler) = (crew.clone(), Arc::clone(&handler));
            let bench = crew.hand.bench();
            spawn(number, move || {
                let each = (0..slots).map(|_| slot(&crew, &bench, &*handler));
                let mut all: FuturesUnordered<_> = each.collect();
                crew.runtime.block_on(async { while all.next().await.is_some() {} });
            })?;
        }
        Ok(())
    })
}

/// Slots for a handler that blocks its thread. It is called outside of a runtime, where it may wait
/// for a future of its own.
pub(super) fn threads<P, R, F>(handler: F) -> Begin
where
    P: FromPayload,
    R: Made,
    F: Fn(Job<P>) -> Handled<R> + Send + Sync + 'static,
{
    let handler = Arc::new(handler);
    Box::new(move |crew| {
        // A thread that waits here does nothing else, so any of them will do.
        let bench = crew.hand.bench();
        for number in 0..crew.concurrency {
            let (crew, handler) = (crew.clone(), Arc::clone(&handler));
            let bench = Arc::clone(&bench);
            spawn(number, move || {
                let _inside = crew.runtime.enter();
                park_on(slot(&crew, &bench, &|job| ready(handler(job))));
            })?;
        }
        Ok(())
    })
}

/// A thread that ends with its slots. Nobody waits for it: a handler that hangs must not keep a
/// process alive.
fn spawn(number: usize, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(format!("windrow-slot-{number}")).spawn(run).map(drop)
}

/// Waits for a future as a runtime would, without being one.
fn park_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(made) => return made,
            Poll::Pending => thread::park(),
        }
    }
}

/// Does one item after another.
async fn slot<P, R, F, Fut>(crew: &Crew, bench: &Bench, handler: &F)
where
    P: FromPayload,
    R: Made,
    F: Fn(Job<P>) -> Fut,
    Fut: Future<Output = Handled<R>>,
{
    let (mut ended, mut now) = (None, Instant::now());
    loop {
        match crew.hand.next(ended.take(), now) {
            Next::Work(claimed) => {
                let (at, work, begun) = (crew.at(&claimed), claimed.work, now);
                let (id, place, is_last) = (work.id, at.place, is_last_stage(&work));
                let handled = caught(async {
                    let job = crew.job(work, at).await?;
                    Ok(Told::handled(handler(job).await, is_last))
                });
                let told = crew.told(id, handled.await);
                now = Instant::now();
                ended = Some(Ended { place, told, took: now - begun });
                // Others on this thread want a turn too.
                consume_budget().await;
            }
            Next::Wait => {
                crew.hand.work(bench).await;
                now = Instant::now();
            }
            Next::Over => return,
        }
    }
}

impl Crew {
    fn at(&self, claimed: &Claimed) -> At {
        let token = Arc::clone(&claimed.token);
        At { hand: Arc::clone(&self.hand), place: claimed.place, token }
    }

    /// The job of an item, with its payload; or what becomes of it without.
    async fn job<P: FromPayload>(&self, mut work: Work, at: At) -> Result<Job<P>, Told> {
        let bytes = match std::mem::take(&mut work.body.payload) {
            Payload::Inline(bytes) => bytes,
            blob if !P::IS_FETCHED => {
                work.body.payload = blob;
                Vec::new()
            }
            blob @ Payload::Blob(_) => {
                work.body.payload = blob;
                let unread = "this worker has no way to read payloads that are kept apart";
                let read = match &self.read_blob {
                    Some(read) => read(at.place.lease, work.clone()).await,
                    None => Err(unread.to_owned()),
                };
                read.map_err(|why| {
                    let message = words(format!("its payload cannot be read: {why}"), ERROR_MAX);
                    let class = Class::Infrastructure;
                    Told::of(Outcome::Retry { class, message, delay_ms: None })
                })?
            }
        };
        match P::read(bytes) {
            Ok(payload) => Ok(Job::new(payload, work, at)),
            Err(why) => {
                let message = format!("its payload is not understood: {why}");
                Err(Told::of(Outcome::Fail { class: Class::BadData, message }))
            }
        }
    }

    /// What is told of an item whose handler came to an end, one way or the other.
    fn told(&self, id: windrow_core::ItemId, handled: Result<Result<Told, Told>, String>) -> Told {
        match handled {
            Ok(Ok(told) | Err(told)) => told,
            Err(panic) => {
                (self.tell)(Event::Panicked(id, panic.clone()));
                let message = words(format!("the handler panicked: {panic}"), ERROR_MAX);
                Told::of(Outcome::Retry { class: Class::Other, message, delay_ms: None })
            }
        }
    }
}

/// What a future comes to, or the words of its panic.
async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    let mut future = pin!(future);
    let poll = std::future::poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(text(&*panic))),
        }
    });
    poll.await
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a word").to_owned()
}
