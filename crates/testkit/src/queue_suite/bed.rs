//! The bed of a case: a queue, names of its own, and calls that say what they expect.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use windrow_core::command::{Claim, Enqueued, Grant, NewItem, Outcome, Scope};
use windrow_core::item::Body;
use windrow_core::queue::{Answered, Each, Error, Queue, Seen, Work};
use windrow_core::settings::{Policy, Settings};
use windrow_core::trail::Ending;
use windrow_core::{ItemId, LeaseId, RequestId, Status, Timestamp};

use crate::bench::clients::now;
use crate::servers::process::until;
use crate::suite::Draft as _;

/// How long a claim waits for what must come.
const LONG_MS: u64 = 30_000;

/// What a case works with.
#[derive(Debug)]
pub struct Bed<Q> {
    pub port: Arc<Q>,
    runtime: Handle,
    /// Its queue and its tenant.
    pub name: String,
}

/// Work in hand.
#[derive(Clone, Debug)]
pub struct Held {
    pub lease: LeaseId,
    pub work: Work,
}

impl Held {
    pub fn id(&self) -> ItemId {
        self.work.id
    }
}

/// The code of an answer that must be a refusal.
#[track_caller]
pub fn code<T: Debug>(answer: Answered<T>) -> String {
    match answer {
        Err(Error::Refused(refused)) => {
            assert!(!refused.message.is_empty(), "{refused:?} says nothing");
            refused.code.into_owned()
        }
        other => panic!("this is no refusal: {other:?}"),
    }
}

/// The one answer of a command about one.
#[track_caller]
pub fn only<T: Debug>(mut each: Vec<Each<T>>) -> Each<T> {
    assert_eq!(each.len(), 1, "{each:?}");
    each.remove(0)
}

impl<Q: Queue> Bed<Q> {
    pub(super) fn new(port: Arc<Q>, runtime: Handle) -> Bed<Q> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Bed { port, runtime, name: format!("case-{}-{number}", std::process::id()) }
    }

    /// Waits for a call.
    pub fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }

    /// Waits for a call that must be answered.
    #[track_caller]
    pub fn get<T>(&self, call: impl Future<Output = Answered<T>>) -> T {
        self.wait(call).unwrap_or_else(|error| panic!("it is not answered: {error:?}"))
    }

    /// An item of one stage, in this case's queue, for this case's tenant.
    pub fn item(&self) -> NewItem {
        NewItem::new(Body::new(&*self.name, &*self.name))
    }

    /// Another name of this case's own.
    pub fn other(&self, what: &str) -> String {
        format!("{}-{what}", self.name)
    }

    /// A request id that nobody else uses.
    pub fn request(&self) -> RequestId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        RequestId(
            u128::from(now().0) << 64 | u128::from(std::process::id()) << 32 | u128::from(number),
        )
    }

    pub fn now(&self) -> Timestamp {
        now()
    }

    #[track_caller]
    pub fn try_add(&self, items: Vec<NewItem>) -> Vec<Each<Enqueued>> {
        self.get(self.port.enqueue(items, None))
    }

    #[track_caller]
    pub fn enqueued(&self, item: NewItem) -> Enqueued {
        only(self.try_add(vec![item])).expect("it is taken in")
    }

    #[track_caller]
    pub fn add(&self, item: NewItem) -> ItemId {
        self.enqueued(item).id
    }

    #[track_caller]
    pub fn add_some(&self, count: usize) -> Vec<ItemId> {
        let each = self.try_add(vec![self.item(); count]);
        each.into_iter().map(|one| one.expect("it is taken in").id).collect()
    }

    /// A claim of this case's queue, by a worker of its own.
    pub fn asks(&self, max: usize) -> Claim {
        Claim::new(&*self.name, &*self.name, max)
    }

    #[track_caller]
    pub fn claim(&self, claim: Claim) -> Option<Grant<Work>> {
        self.get(self.port.claim(claim, 0, None))
    }

    /// Claims, and waits until there is something.
    #[track_caller]
    pub fn claim_soon(&self, claim: Claim) -> Grant<Work> {
        self.get(self.port.claim(claim, LONG_MS, None)).expect("something comes")
    }

    /// A claim that waits in the background.
    pub fn claim_later(&self, claim: Claim, wait_ms: u64) -> JoinHandle<Option<Grant<Work>>> {
        let port = Arc::clone(&self.port);
        let waits = async move { port.claim(claim, wait_ms, None).await };
        self.runtime.spawn(async move { waits.await.expect("a claim is answered") })
    }

    /// Takes the one item that a claim gets, which must be there.
    #[track_caller]
    pub fn take(&self) -> Held {
        self.held(self.claim(self.asks(1)).expect("there is work"))
    }

    /// The same, when it is there.
    #[track_caller]
    pub fn take_soon(&self) -> Held {
        self.held(self.claim_soon(self.asks(1)))
    }

    #[track_caller]
    fn held(&self, mut grant: Grant<Work>) -> Held {
        assert_eq!(grant.items.len(), 1, "{grant:?}");
        Held { lease: grant.lease, work: grant.items.remove(0) }
    }

    #[track_caller]
    pub fn nothing_waits(&self) {
        assert_eq!(self.claim(self.asks(10)), None);
    }

    #[track_caller]
    pub fn settle(&self, held: &Held, outcome: Outcome) -> Ending {
        let items = vec![(held.id(), outcome)];
        let each = self.get(self.port.settle(held.lease, items, None));
        only(each).expect("it is settled").ending
    }

    /// The code with which a settle is refused, as a whole or for its item.
    #[track_caller]
    pub fn settle_refused(&self, lease: LeaseId, id: ItemId, outcome: Outcome) -> String {
        let settled = self.wait(self.port.settle(lease, vec![(id, outcome)], None));
        code(settled.and_then(|each| only(each).map_err(Error::Refused)))
    }

    #[track_caller]
    pub fn complete(&self, held: &Held) {
        assert!(matches!(self.settle(held, Outcome::complete()), Ending::Completed));
    }

    #[track_caller]
    pub fn seen(&self, id: ItemId) -> Seen {
        self.get(self.port.inspect(id)).expect("it is known")
    }

    #[track_caller]
    pub fn status(&self, id: ItemId) -> Status {
        self.seen(id).status
    }

    /// Waits until something that happens by itself has happened.
    #[track_caller]
    pub fn until(&self, is_true: impl FnMut() -> bool) {
        assert!(until(Duration::from_millis(LONG_MS), is_true), "it never came true");
    }

    /// Why an item is where it is, by the codes.
    #[track_caller]
    pub fn why(&self, id: ItemId) -> Vec<String> {
        let explained = self.get(self.port.explain(id)).expect("it is known");
        assert_eq!(explained.id, id);
        assert!(explained.reasons.iter().all(|why| !why.unblocked_by.is_empty()));
        explained.reasons.into_iter().map(|why| why.code.into_owned()).collect()
    }

    /// Says how this case's queue behaves.
    #[track_caller]
    pub fn configure(&self, settings: Settings) {
        self.get(self.port.configure(self.name.as_str().into(), settings));
    }

    #[track_caller]
    pub fn policy(&self, defaults: Policy) {
        self.configure(Settings { defaults, ..Settings::default() });
    }

    pub fn scope(&self) -> Scope {
        Scope { queue: self.name.as_str().into(), stage: None, tenant: None }
    }

    /// An item that was enqueued, taken and ended like this.
    #[track_caller]
    pub fn ended(&self, outcome: Outcome) -> ItemId {
        let id = self.add(self.item());
        let held = self.take();
        assert_eq!(held.id(), id);
        self.settle(&held, outcome);
        id
    }

    /// An item with these children, which nobody has touched yet.
    #[track_caller]
    pub fn parent(&self, count: u32) -> ItemId {
        let id = self.add(self.item().kind("whole"));
        let held = self.take();
        let children = crate::suite::children(0..count);
        let ending = self.settle(&held, crate::suite::split(children));
        assert_eq!(ending, Ending::Split);
        id
    }

    /// The items of this case's queue with a status.
    #[track_caller]
    pub fn counted(&self, status: Status) -> u64 {
        let counts = self.get(self.port.counts());
        let ours = counts.iter().filter(|count| *count.queue == *self.name);
        ours.filter(|count| count.status == status).map(|count| count.items).sum()
    }
}
