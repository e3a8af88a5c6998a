//! The engine: one queue, as everything above it sees it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use windrow_core::change::Lease;
use windrow_core::command::{
    Answer, Cancelled, Command, Deleted, Enqueued, NewItem, Outcome, Renewed, Request, Retried,
    RetryMode, Scope, Settled,
};
use windrow_core::explain::Explanation;
use windrow_core::limits::RETRY_AFTER_MS;
use windrow_core::note::WriteNote;
use windrow_core::ports::{Happened, Inspected, Listener, Ready, Store, StoreError, Work};
use windrow_core::settings::{Notify, Settings};
use windrow_core::trail::Progress;
use windrow_core::{ItemId, LeaseId, Refusal, RequestId};

use crate::admission::{Gate, Limits};
use crate::batch::Batcher;
use crate::clock::Clock;
use crate::drained::{Drained, Names};
use crate::events::Ring;
use crate::newcomers::Newcomers;
use crate::observe::{Figures, Observer};
use crate::presence::{Presence, Worker};
use crate::tick::{Jobs, Ticked};
use crate::wake::Waiters;

/// Events that the ring keeps.
const EVENTS_KEPT: usize = 10_000;

/// Why something was not answered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("too much is under way; try again in {retry_after_ms} ms")]
    Overloaded { retry_after_ms: u64 },
}

/// The running queue.
#[derive(Debug)]
pub struct Engine<S, C> {
    store: S,
    clock: C,
    batcher: Batcher,
    in_flight: Gate,
    pub(crate) waiting: Gate,
    ears: Arc<Ears>,
    presence: Presence,
    drained: Drained,
    jobs: Mutex<Jobs>,
    ticked: Ticked,
    newcomers: Newcomers,
    closed: AtomicBool,
}

/// What the store tells: who waits for work, and who wants to know what happened.
#[derive(Debug)]
struct Ears {
    waiters: Waiters,
    ring: Ring,
    figures: Arc<Figures>,
}

impl Listener for Ears {
    fn ready(&self, ready: &[Ready]) {
        self.waiters.call(ready);
    }

    fn happened(&self, happened: &[Happened]) {
        self.figures.happened(happened);
        self.ring.push(happened);
    }

    fn missed(&self) {
        self.ring.miss();
    }
}

/// Unpacks the one kind of answer that a command has.
macro_rules! expect {
    ($answer:expr, $kind:ident) => {
        match $answer {
            Answer::$kind(inside) => Ok(inside),
            _ => Err(Failure::Store(StoreError::OutcomeUnknown("an unexpected answer".into()))),
        }
    };
}

impl<S: Store, C: Clock> Engine<S, C> {
    /// A running queue over a store. `width` is how many submits the store takes at once.
    pub fn new(store: S, clock: C, limits: Limits, width: usize) -> Engine<S, C> {
        let epoch = clock.now().0;
        let (figures, ring) = (Arc::<Figures>::default(), Ring::new(epoch, EVENTS_KEPT));
        let batcher = Batcher::new(width, Arc::clone(&figures));
        let ears = Arc::new(Ears { waiters: Waiters::default(), ring, figures });
        store.listen(Arc::clone(&ears) as Arc<dyn Listener>);
        Engine {
            store,
            clock,
            batcher,
            in_flight: Gate::new(limits.in_flight_max),
            waiting: Gate::new(limits.waiting_max),
            ears,
            presence: Presence::default(),
            drained: Drained::default(),
            jobs: Mutex::default(),
            ticked: Ticked::default(),
            newcomers: Newcomers::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub fn store(&self) -> &S {
        &self.store
    }

    pub fn clock(&self) -> &C {
        &self.clock
    }

    pub(crate) fn ticked(&self) -> &Ticked {
        &self.ticked
    }

    pub(crate) fn newcomers(&self) -> &Newcomers {
        &self.newcomers
    }

    pub(crate) fn presence(&self) -> &Presence {
        &self.presence
    }

    /// The workers that are present.
    pub async fn workers(&self) -> Result<Vec<Worker>, Failure> {
        Ok(self.workers_with(&self.store.leases().await?))
    }

    /// The same, given the leases that are live.
    pub fn workers_with(&self, leases: &[Lease]) -> Vec<Worker> {
        let names = self.drained.names();
        // One that is over is still there until somebody takes it back. A store that keeps the time
        // knows better than this clock, and has a server that does so at once.
        let (now, keeps_time) = (self.clock.now(), self.store.keeps_time());
        let live = leases.iter().filter(|lease| keeps_time || now < lease.expires);
        let mut workers = self.presence.workers(live, now);
        workers.iter_mut().for_each(|worker| worker.is_drained = names.contains(&worker.name));
        workers
    }

    /// Says which workers are handed nothing new from now on. A claim that is being decided gets
    /// what it gets; those that wait get nothing, and get work again once they are not named.
    pub fn drain(&self, names: Names) {
        self.drained.set(names);
    }

    /// Which workers that are.
    pub fn drained(&self) -> Names {
        self.drained.names()
    }

    pub(crate) fn drains(&self) -> &Drained {
        &self.drained
    }

    /// What happened lately.
    pub fn events(&self) -> &Ring {
        &self.ears.ring
    }

    /// Hands out nothing any more, before the server stops: claims that wait get nothing, and one
    /// that is being decided gets what it gets.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.ears.waiters.close();
        self.drained.close();
    }

    /// Whether nothing is handed out any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// What was counted since the engine began, and what happened lately.
    pub fn figures(&self) -> &Figures {
        &self.ears.figures
    }

    /// Has somebody told of every command. Whoever came first stays.
    pub fn observe(&self, observers: Vec<Arc<dyn Observer>>) {
        self.ears.figures.observe(observers);
    }

    /// Lets items in work show the attempts that run, as only their leases know them. Gives all
    /// leases, if any of the items has one.
    pub async fn show_attempts(&self, seen: &mut [Inspected]) -> Result<Vec<Lease>, StoreError> {
        if seen.iter().all(|seen| seen.item.lease().is_none()) {
            return Ok(Vec::new());
        }
        let leases = self.store.leases().await?;
        let by_id: HashMap<LeaseId, &Lease> =
            leases.iter().map(|lease| (lease.id, lease)).collect();
        for seen in seen {
            let held_by = seen.item.lease().and_then(|lease| by_id.get(&lease).copied());
            seen.show_attempt(held_by);
        }
        Ok(leases)
    }

    /// Claims that wait for work now.
    pub fn waiting(&self) -> usize {
        self.ears.waiters.len()
    }

    /// Commands that are under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight.count()
    }

    pub(crate) fn waiters(&self) -> &Waiters {
        &self.ears.waiters
    }

    pub(crate) fn jobs(&self) -> &Mutex<Jobs> {
        &self.jobs
    }

    /// Submits a command. Its answer is durable when this returns.
    pub async fn submit(&self, command: impl Into<Request>) -> Result<Answer<Work>, Failure> {
        let (request, figures) = (command.into(), self.figures());
        let begun = figures.begin(&request.command, self.clock.micros());
        let answered = self.answer(request).await;
        figures.end(begun, &answered, self.clock.micros());
        answered
    }

    async fn answer(&self, request: Request) -> Result<Answer<Work>, Failure> {
        self.catch_up_if_late().await?;
        self.submit_now(request).await
    }

    /// Submits a request whether or not anybody has ticked.
    pub(crate) async fn submit_now(&self, request: Request) -> Result<Answer<Work>, Failure> {
        let overloaded = Failure::Overloaded { retry_after_ms: RETRY_AFTER_MS };
        let _pass = self.in_flight.enter().ok_or(overloaded)?;
        match self.batcher.submit(&self.store, &self.clock, request).await? {
            Answer::Refused(refusal) => Err(Failure::Refused(refusal)),
            answer => Ok(answer),
        }
    }

    /// Adds items; answers for each.
    pub async fn enqueue(
        &self,
        items: Vec<NewItem>,
        request: Option<RequestId>,
    ) -> Result<Vec<Result<Enqueued, Refusal>>, Failure> {
        self.introduce(&items).await?;
        let command = Command::Enqueue(items);
        expect!(self.submit(Request { id: request, command }).await?, Enqueued)
    }

    pub async fn renew(&self, lease: LeaseId, lease_ms: Option<u64>) -> Result<Renewed, Failure> {
        expect!(self.submit(Command::Renew { lease, lease_ms }).await?, Renewed)
    }

    /// Says how far the work is. Not on disk until the next transition or renewal.
    pub async fn progress(
        &self,
        lease: LeaseId,
        items: Vec<(ItemId, Progress)>,
    ) -> Result<Vec<Result<(), Refusal>>, Failure> {
        expect!(self.submit(Command::Progress { lease, items }).await?, Progressed)
    }

    /// Ends attempts; answers for each.
    pub async fn settle(
        &self,
        lease: LeaseId,
        items: Vec<(ItemId, Outcome)>,
    ) -> Result<Vec<Result<Settled, Refusal>>, Failure> {
        expect!(self.submit(Command::Settle { lease, items }).await?, Settled)
    }

    pub async fn cancel(
        &self,
        items: Vec<ItemId>,
    ) -> Result<Vec<Result<Cancelled, Refusal>>, Failure> {
        expect!(self.submit(Command::Cancel { items }).await?, Cancelled)
    }

    /// Runs an ended item again, with everything below it that failed, however much that is. By its
    /// request id the first slice is known again; the others repeat nothing that was done.
    pub async fn retry(
        &self,
        item: ItemId,
        mode: RetryMode,
        from_stage: Option<Arc<str>>,
        request: Option<RequestId>,
    ) -> Result<Retried, Failure> {
        let mut total: Option<Retried> = None;
        loop {
            let command =
                Command::Retry { items: vec![item], mode, from_stage: from_stage.clone() };
            let id = request.filter(|_| total.is_none());
            let mut each = expect!(self.submit(Request { id, command }).await?, Retried)?;
            match (each.pop(), &mut total) {
                (Some(Ok(retried)), None) => total = Some(retried),
                (Some(Ok(retried)), Some(total)) => {
                    total.reset += retried.reset;
                    total.more = retried.more;
                }
                (Some(Err(refusal)), None) => return Err(refusal.into()),
                (Some(Err(_)) | None, _) => break,
            }
            if total.is_none_or(|total| !total.more) {
                break;
            }
        }
        total.ok_or(Failure::Refused(Refusal::NotFound { item }))
    }

    /// Removes an ended tree for good, however large it is. By its request id the first slice is
    /// known again; a repeat after the last one finds nothing more to remove.
    pub async fn delete(
        &self,
        item: ItemId,
        request: Option<RequestId>,
    ) -> Result<Deleted, Failure> {
        let mut removed = 0;
        loop {
            let id = request.filter(|_| removed == 0);
            let command = Command::Delete { items: vec![item] };
            let mut each = expect!(self.submit(Request { id, command }).await?, Deleted)?;
            let deleted = match each.pop().unwrap_or(Err(Refusal::NotFound { item })) {
                Err(Refusal::NotFound { .. }) if removed > 0 => Deleted { removed: 0, more: false },
                deleted => deleted?,
            };
            removed += deleted.removed;
            if !deleted.more {
                return Ok(Deleted { removed, more: false });
            }
        }
    }

    pub async fn prioritise(
        &self,
        items: Vec<ItemId>,
        priority: u8,
    ) -> Result<Vec<Result<(), Refusal>>, Failure> {
        expect!(self.submit(Command::Prioritise { items, priority }).await?, Prioritised)
    }

    pub async fn pause(&self, scope: Scope) -> Result<(), Failure> {
        self.submit(Command::Pause(scope)).await.map(drop)
    }

    /// Lets claims take from here again, and wakes those that wait.
    pub async fn resume(&self, scope: Scope) -> Result<(), Failure> {
        self.submit(Command::Resume(scope)).await.map(drop)
    }

    pub async fn configure(
        &self,
        queue: impl Into<Arc<str>>,
        settings: Settings,
    ) -> Result<(), Failure> {
        let (queue, settings) = (queue.into(), Box::new(settings));
        self.submit(Command::Configure { queue, settings }).await.map(drop)
    }

    /// Says what a webhook wants to know of a queue; none for nothing any more.
    pub async fn notify(
        &self,
        queue: Arc<str>,
        webhook: Arc<str>,
        wanted: Option<Notify>,
    ) -> Result<(), Failure> {
        self.submit(Command::Notify { queue, webhook, wanted }).await.map(drop)
    }

    /// Writes a note for the server itself, or takes it away; answers with its version.
    pub async fn note(&self, write: WriteNote) -> Result<u64, Failure> {
        expect!(self.submit(Command::Note(write)).await?, Noted)
    }

    /// Why a command would be refused, which retries, cancels, deletes or prioritises items.
    pub async fn forecast(&self, command: &Command) -> Result<(), Failure> {
        Ok(self.store.forecast(command, self.clock.now()).await??)
    }

    /// Why an item is where it is, present workers included.
    pub async fn explain(&self, item: ItemId) -> Result<Option<Explanation>, Failure> {
        let now = self.clock.now();
        let Some(explained) = self.store.explain(item, now).await? else { return Ok(None) };
        let Some(seen) = self.store.inspect(item).await? else { return Ok(None) };
        let work = Ready {
            queue: seen.body.queue.clone(),
            stage: seen.body.route.stage(seen.item.stage).name.clone(),
            kind: seen.body.kind.clone(),
            tenant: seen.body.tenant.clone(),
            count: 1,
        };
        let leases = self.store.leases().await?;
        let mut workers = self.workers_with(&leases);
        workers.retain(|worker| worker.could_take(&work));
        if workers.iter().any(|worker| !worker.is_drained) {
            return Ok(Some(explained));
        }
        let drained = workers.iter().map(|worker| worker.name.to_string()).collect();
        Ok(Some(explained.without_workers(drained)))
    }
}
