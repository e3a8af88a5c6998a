//! The bed: a store under test, a clock, and every command in a few words.
//!
//! A method named after a verb does it and expects it to work; its `try_` twin gives back what the
//! store said. Everything goes through the [`Store`] trait, so a case runs on any store.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use windrow_core::command::{
    Cancelled, Claim, Command, Deleted, Enqueued, Grant, NewChild, NewItem, Outcome, Reclaimed,
    Renewed, Retried, RetryMode, Scope, Settled, Swept,
};
use windrow_core::item::BlobRef;
use windrow_core::limits::COMMAND_ITEMS_MAX;
use windrow_core::ports::{Now, Store, Work};
use windrow_core::settings::Settings;
use windrow_core::trail::Progress;
use windrow_core::{Answer, ItemId, LeaseId, Refusal, Request, RequestId, Timestamp};

use super::draft::{self, QUEUE};
use crate::clock::SimClock;

/// A store under test.
#[derive(Debug)]
pub struct Bed<S> {
    pub store: Arc<S>,
    pub clock: SimClock,
}

/// One item in the hands of a worker.
#[derive(Clone, Debug)]
pub struct Held {
    pub lease: LeaseId,
    pub id: ItemId,
    pub expires_at: Timestamp,
    pub work: Work,
}

/// Unpacks the one kind of answer that a command has.
macro_rules! expect {
    ($answer:expr, $kind:ident) => {
        match $answer {
            Answer::$kind(inside) => inside,
            other => panic!("expected {}, got {other:?}", stringify!($kind)),
        }
    };
}

/// The answer of a command about one item.
macro_rules! only {
    ($answer:expr, $kind:ident) => {
        match $answer {
            Answer::$kind(mut each) if each.len() == 1 => each.remove(0),
            Answer::Refused(refusal) => Err(refusal),
            other => panic!("expected one {}, got {other:?}", stringify!($kind)),
        }
    };
}

impl<S: Store> Bed<S> {
    pub fn new(store: Arc<S>) -> Bed<S> {
        Bed { store, clock: SimClock::default() }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// So many milliseconds from now.
    pub fn later(&self, ms: u64) -> Timestamp {
        self.now().plus(ms)
    }

    /// Lets time pass, and what expires by then be taken back.
    pub fn advance(&self, ms: u64) -> Reclaimed {
        let now = self.clock.advance(ms);
        block_on(self.store.advance(now)).expect("time passes");
        self.reclaim()
    }

    /// Asks one thing.
    #[track_caller]
    pub fn ask(&self, command: Command) -> Answer<Work> {
        self.ask_all(vec![command.into()]).remove(0)
    }

    /// Asks what was forecast first: the answer is refused if and only if that said so, and alike.
    #[track_caller]
    fn ask_as_forecast(&self, command: Command) -> Answer<Work> {
        let forecast = block_on(self.store.forecast(&command, self.now())).expect("it is forecast");
        let answer = self.ask(command.clone());
        let refusal = match &answer {
            Answer::Refused(refusal) => Some(refusal),
            Answer::Cancelled(each) => each[0].as_ref().err(),
            Answer::Retried(each) => each[0].as_ref().err(),
            Answer::Deleted(each) => each[0].as_ref().err(),
            Answer::Prioritised(each) => each[0].as_ref().err(),
            other => panic!("{command:?} was answered {other:?}"),
        };
        assert_eq!(forecast.as_ref().err(), refusal, "{command:?} as it was forecast");
        answer
    }

    /// Asks one thing under a request id.
    #[track_caller]
    pub fn ask_as(&self, id: RequestId, command: Command) -> Answer<Work> {
        self.ask_all(vec![Request { id: Some(id), command }]).remove(0)
    }

    /// Asks several things in one batch.
    #[track_caller]
    pub fn ask_all(&self, batch: Vec<Request>) -> Vec<Answer<Work>> {
        let asked = batch.len();
        let answers = block_on(self.store.submit(batch, Now::Given(self.now())));
        let answers = answers.expect("the store answers");
        assert_eq!(answers.len(), asked, "one answer for each request");
        answers
    }

    pub fn configure(&self, change: impl FnOnce(&mut Settings)) {
        self.configure_queue(QUEUE, change);
    }

    pub fn configure_queue(&self, queue: &str, change: impl FnOnce(&mut Settings)) {
        let mut settings = Settings::default();
        change(&mut settings);
        let command = Command::Configure { queue: queue.into(), settings: Box::new(settings) };
        assert_eq!(self.ask(command), Answer::Done);
    }

    #[track_caller]
    pub fn try_enqueue(&self, new: NewItem) -> Result<Enqueued, Refusal> {
        only!(self.ask(Command::Enqueue(vec![new])), Enqueued)
    }

    #[track_caller]
    pub fn enqueue(&self, new: NewItem) -> Enqueued {
        self.try_enqueue(new).expect("it is enqueued")
    }

    /// Enqueues one item and says its id.
    #[track_caller]
    pub fn add(&self, new: NewItem) -> ItemId {
        self.enqueue(new).id
    }

    /// Enqueues so many plain items, a millisecond apart.
    #[track_caller]
    pub fn add_many(&self, count: usize) -> Vec<ItemId> {
        let one = |_| {
            self.clock.advance(1);
            self.add(draft::item())
        };
        (0..count).map(one).collect()
    }

    #[track_caller]
    pub fn try_claim(&self, claim: Claim) -> Option<Grant<Work>> {
        expect!(self.ask(Command::Claim(claim)), Claimed)
    }

    /// Up to so many items of the queue under one lease.
    #[track_caller]
    pub fn claim(&self, max: usize) -> Vec<Held> {
        held(self.try_claim(Claim::new("worker", QUEUE, max)))
    }

    /// The next item of the queue.
    #[track_caller]
    pub fn take(&self) -> Held {
        self.claim(1).pop().expect("an item waits")
    }

    /// The next item in a stage of the queue.
    #[track_caller]
    pub fn take_in(&self, stage: &str) -> Held {
        self.claim_in(stage, 1).pop().unwrap_or_else(|| panic!("an item waits in {stage}"))
    }

    #[track_caller]
    pub fn claim_in(&self, stage: &str, max: usize) -> Vec<Held> {
        let claim = Claim::new("worker", QUEUE, max);
        held(self.try_claim(Claim { stages: vec![stage.into()], ..claim }))
    }

    /// The next item of a queue by any name.
    #[track_caller]
    pub fn take_from(&self, queue: &str) -> Held {
        held(self.try_claim(Claim::new("worker", queue, 1))).pop().expect("an item waits")
    }

    /// Asserts that nobody gets anything.
    #[track_caller]
    pub fn nothing_waits(&self) {
        let any = Claim { queues: Vec::new(), ..Claim::new("worker", QUEUE, 1) };
        assert_eq!(self.try_claim(any), None, "nothing can be claimed");
    }

    #[track_caller]
    pub fn try_settle(&self, held: &Held, outcome: Outcome) -> Result<Settled, Refusal> {
        self.try_settle_as(held.lease, held.id, outcome)
    }

    #[track_caller]
    pub fn try_settle_as(
        &self,
        lease: LeaseId,
        id: ItemId,
        outcome: Outcome,
    ) -> Result<Settled, Refusal> {
        only!(self.ask(Command::Settle { lease, items: vec![(id, outcome)] }), Settled)
    }

    #[track_caller]
    pub fn settle(&self, held: &Held, outcome: Outcome) -> Settled {
        self.try_settle(held, outcome).expect("it is settled")
    }

    #[track_caller]
    pub fn complete(&self, held: &Held) {
        self.settle(held, Outcome::complete());
    }

    /// Splits an item into all of its children and says their ids.
    #[track_caller]
    pub fn split(&self, held: &Held, children: Vec<NewChild>) -> Vec<ItemId> {
        self.settle(held, draft::split(children));
        self.children(held.id)
    }

    /// Enqueues a parent and splits it into so many plain children.
    #[track_caller]
    pub fn family(&self, parent: NewItem, children: u32) -> (ItemId, Vec<ItemId>) {
        let id = self.add(parent);
        let held = self.take();
        assert_eq!(held.id, id, "the parent is next");
        (id, self.split(&held, draft::children(0..children)))
    }

    /// Completes whatever waits in the queue, stage by stage, until nothing does.
    #[track_caller]
    pub fn drain(&self) {
        while let Some(held) = self.claim(1).pop() {
            self.complete(&held);
        }
    }

    #[track_caller]
    pub fn try_renew(&self, lease: LeaseId, lease_ms: Option<u64>) -> Result<Renewed, Refusal> {
        match self.ask(Command::Renew { lease, lease_ms }) {
            Answer::Renewed(renewed) => Ok(renewed),
            Answer::Refused(refusal) => Err(refusal),
            other => panic!("expected a renewal, got {other:?}"),
        }
    }

    #[track_caller]
    pub fn try_progress(&self, held: &Held, current: u64, total: u64) -> Result<(), Refusal> {
        let progress = Progress { current, total, message: "working".into() };
        let items = vec![(held.id, progress)];
        only!(self.ask(Command::Progress { lease: held.lease, items }), Progressed)
    }

    #[track_caller]
    pub fn try_cancel(&self, id: ItemId) -> Result<Cancelled, Refusal> {
        only!(self.ask_as_forecast(Command::Cancel { items: vec![id] }), Cancelled)
    }

    #[track_caller]
    pub fn cancel(&self, id: ItemId) -> Cancelled {
        self.try_cancel(id).expect("it is cancelled")
    }

    #[track_caller]
    pub fn try_retry(
        &self,
        id: ItemId,
        mode: RetryMode,
        from_stage: Option<&str>,
    ) -> Result<Retried, Refusal> {
        let from_stage = from_stage.map(Into::into);
        let command = Command::Retry { items: vec![id], mode, from_stage };
        only!(self.ask_as_forecast(command), Retried)
    }

    #[track_caller]
    pub fn retry(&self, id: ItemId) -> Retried {
        self.try_retry(id, RetryMode::Reset, None).expect("it is reset")
    }

    #[track_caller]
    pub fn restart(&self, id: ItemId, from_stage: &str) -> Retried {
        self.try_retry(id, RetryMode::Reset, Some(from_stage)).expect("it is restarted")
    }

    /// Runs a copy of an item and says the copy's id.
    #[track_caller]
    pub fn clone_item(&self, id: ItemId) -> ItemId {
        self.try_retry(id, RetryMode::Clone, None).expect("it is cloned").id
    }

    #[track_caller]
    pub fn try_delete(&self, id: ItemId) -> Result<Deleted, Refusal> {
        only!(self.ask_as_forecast(Command::Delete { items: vec![id] }), Deleted)
    }

    #[track_caller]
    pub fn try_prioritise(&self, id: ItemId, priority: u8) -> Result<(), Refusal> {
        let command = Command::Prioritise { items: vec![id], priority };
        only!(self.ask_as_forecast(command), Prioritised)
    }

    pub fn pause(&self, scope: Scope) {
        assert_eq!(self.ask(Command::Pause(scope)), Answer::Done);
    }

    pub fn resume(&self, scope: Scope) {
        assert_eq!(self.ask(Command::Resume(scope)), Answer::Done);
    }

    /// Closes a resource until then.
    pub fn close(&self, resource: &str, until: Timestamp) {
        let gate = Command::Gate { resource: resource.into(), closed_until: until };
        assert_eq!(self.ask(gate), Answer::Done);
    }

    /// Says that a blob of the tenant is stored.
    pub fn upload(&self, blob: BlobRef) {
        let upload = Command::Blob { tenant: draft::TENANT.into(), blob };
        assert_eq!(self.ask(upload), Answer::Done);
    }

    /// Takes back everything that expired by now.
    #[track_caller]
    pub fn reclaim(&self) -> Reclaimed {
        let mut all = Reclaimed::default();
        loop {
            let some = expect!(self.ask(Command::Reclaim { limit: 100 }), Reclaimed);
            all.leases += some.leases;
            all.items += some.items;
            if !some.more {
                return all;
            }
        }
    }

    /// One slice of a sweep.
    #[track_caller]
    pub fn sweep_some(&self, limit: usize) -> Swept {
        expect!(self.ask(Command::Sweep { limit }), Swept)
    }

    /// Sweeps until there is nothing left to do.
    #[track_caller]
    pub fn sweep(&self) -> Swept {
        let mut all = Swept::default();
        loop {
            let some = self.sweep_some(COMMAND_ITEMS_MAX);
            all.cancelled += some.cancelled;
            all.folded += some.folded;
            all.removed += some.removed;
            if some.cancelled + some.folded + some.removed == 0 && !some.more {
                return all;
            }
        }
    }
}

/// A grant as single items.
fn held(grant: Option<Grant<Work>>) -> Vec<Held> {
    let Some(Grant { lease, expires_at, items }) = grant else {
        return Vec::new();
    };
    let one = |work: Work| Held { lease, id: work.item.id, expires_at, work };
    items.into_iter().map(one).collect()
}

/// The whole queue, or only a stage or a tenant of it.
pub fn scope(stage: Option<&str>, tenant: Option<&str>) -> Scope {
    Scope { queue: QUEUE.into(), stage: stage.map(Into::into), tenant: tenant.map(Into::into) }
}

/// Waits for a future on this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The code of a refusal that is expected.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(answer: Result<T, Refusal>) -> &'static str {
    answer.expect_err("it is refused").code()
}
