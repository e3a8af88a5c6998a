//! The ports: what the engine needs of a store, and what a store tells the engine.

use std::sync::Arc;

use crate::change::Lease;
use crate::command::{Answer, Command, Request};
use crate::explain::Explanation;
use crate::find::{Configured, Filter, Page};
use crate::id::{ItemId, LeaseId};
use crate::item::{Body, Item, Status};
use crate::note::Note;
use crate::refusal::Refusal;
use crate::resource::Resource;
use crate::tally::Tally;
use crate::time::Timestamp;
use crate::trail::Trail;
use crate::transitions::Event;
use crate::vitals::{Standing, Vitals};

/// Whose clock decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Now {
    Given(Timestamp),
    /// The database's, read after locks are held.
    Database,
}

/// Says that a search has taken long enough.
pub type Enough<'a> = &'a (dyn Fn() -> bool + Sync);

/// A durable queue. All writing goes through `submit`.
pub trait Store: Send + Sync + 'static {
    /// One atomic, durable step: load what each request needs, ask the rules, write their changes,
    /// commit, answer in order. When it returns, what it answers is on disk.
    fn submit(
        &self,
        batch: Vec<Request>,
        now: Now,
    ) -> impl Future<Output = Result<Vec<Answer<Work>>, StoreError>> + Send;

    // Reads wait until what they saw is durable, as answers do.

    /// Everything about one item.
    fn inspect(
        &self,
        id: ItemId,
    ) -> impl Future<Output = Result<Option<Inspected>, StoreError>> + Send;
    /// Everything about each of these that exists, in their order.
    fn inspect_all(
        &self,
        ids: &[ItemId],
    ) -> impl Future<Output = Result<Vec<Inspected>, StoreError>> + Send {
        async move {
            let mut all = Vec::with_capacity(ids.len());
            for id in ids {
                all.extend(self.inspect(*id).await?);
            }
            Ok(all)
        }
    }
    /// Why an item is where it is.
    fn explain(
        &self,
        id: ItemId,
        now: Timestamp,
    ) -> impl Future<Output = Result<Option<Explanation>, StoreError>> + Send;
    /// Why a command would be refused, which retries, cancels, deletes or prioritises items.
    fn forecast(
        &self,
        command: &Command,
        now: Timestamp,
    ) -> impl Future<Output = Result<Result<(), Refusal>, StoreError>> + Send;
    /// Children of an item's current generation.
    fn children(
        &self,
        id: ItemId,
        from: u32,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<ItemId>, StoreError>> + Send;
    /// Items that exist, by id, after a given one.
    fn items(
        &self,
        after: Option<ItemId>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Item>, StoreError>> + Send;
    /// Items that have not ended, oldest first: by id, after a given one.
    fn live(
        &self,
        after: Option<ItemId>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Item>, StoreError>> + Send {
        async move {
            let mut items = self.items(after, usize::MAX).await?;
            items.retain(|item| !item.is_done());
            items.truncate(limit);
            Ok(items)
        }
    }
    /// Items that a filter admits, newest first: by id, downwards, after a given one. Looks at a
    /// slice of what exists at a time, holding nobody up for longer, and goes on until it has
    /// `limit` of them, nothing is left, or `enough` says so, which is asked after each slice.
    fn find(
        &self,
        filter: &Filter,
        after: Option<ItemId>,
        limit: usize,
        enough: Enough<'_>,
    ) -> impl Future<Output = Result<Page, StoreError>> + Send;
    /// What operators said about queues.
    fn configured(&self) -> impl Future<Output = Result<Configured, StoreError>> + Send;
    /// Items by status and place.
    fn counts(&self) -> impl Future<Output = Result<Vec<Count>, StoreError>> + Send;
    /// The leases that hold something.
    fn leases(&self) -> impl Future<Output = Result<Vec<Lease>, StoreError>> + Send;
    /// Some of what each of these leases holds, at most so many of each; without those that have
    /// ended.
    fn held_by(
        &self,
        leases: &[LeaseId],
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(LeaseId, Vec<ItemId>)>, StoreError>> + Send {
        async move {
            let live = self.live(None, usize::MAX).await?;
            let held = leases.iter().map(|lease| {
                let of = live.iter().filter(|item| item.lease() == Some(*lease));
                (*lease, of.map(|item| item.id).take(limit).collect::<Vec<_>>())
            });
            Ok(held.filter(|(_, items)| !items.is_empty()).collect())
        }
    }
    /// The notes on a shelf, by name.
    fn notes(&self, shelf: &str) -> impl Future<Output = Result<Vec<Note>, StoreError>> + Send;
    /// What is known of resources, by name.
    fn resources(
        &self,
    ) -> impl Future<Output = Result<Vec<(Arc<str>, Resource)>, StoreError>> + Send;
    /// When something becomes due by itself: an item becomes visible or a lease expires.
    fn next_due(&self) -> impl Future<Output = Result<Option<Timestamp>, StoreError>> + Send;
    /// How the store itself is, at `now` unless it keeps time by itself.
    fn vitals(&self, now: Timestamp) -> impl Future<Output = Result<Vitals, StoreError>> + Send;
    /// How the stages stand in which something is, by queue and name. A store that would have to
    /// count for it counts to `most` at each place, and says so.
    fn stages(
        &self,
        now: Timestamp,
        most: u64,
    ) -> impl Future<Output = Result<Vec<Standing>, StoreError>> + Send;
    /// Moves what is due at `now` into line and tells who listens.
    fn advance(&self, now: Timestamp) -> impl Future<Output = Result<(), StoreError>> + Send;
    /// Who is told when work is ready and what happened.
    fn listen(&self, listener: Arc<dyn Listener>);

    /// Somebody here wants to know what happens on any server, for a while: whoever goes on wanting
    /// says so again, every few seconds. A store of one server tells it anyway.
    fn watch(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// Whether commands are decided at the store's time and not at the caller's.
    fn keeps_time(&self) -> bool {
        false
    }

    /// Asks to do what must happen by itself as time passes, which one server at a time does.
    fn lead(&self) -> impl Future<Output = Result<Lead, StoreError>> + Send {
        async { Ok(Lead::Alone) }
    }
}

/// Whether a server does what must happen by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lead {
    /// Nobody else could.
    Alone,
    /// This one of several does. For so long nobody did before.
    Leads { idle_ms: u64 },
    /// Another one does.
    Follows,
}

/// Who is told what became durable.
pub trait Listener: Send + Sync {
    /// Work is ready to be claimed.
    fn ready(&self, ready: &[Ready]);
    /// Items changed.
    fn happened(&self, happened: &[Happened]);
    /// Items changed of which nothing can be told any more.
    fn missed(&self) {}
}

/// So many items of one lane and tenant can be claimed now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ready {
    pub queue: Arc<str>,
    pub stage: Arc<str>,
    pub kind: Arc<str>,
    pub tenant: Arc<str>,
    pub count: usize,
}

/// One durable change of one item's status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Happened {
    pub id: ItemId,
    pub at: Timestamp,
    pub queue: Arc<str>,
    pub tenant: Arc<str>,
    pub stage: u8,
    pub status: Status,
    /// None if the item began to exist.
    pub event: Option<Event>,
    /// The name of the stage that it happened in: of an item that moved on, the one that it left.
    pub in_stage: Arc<str>,
    /// Since when the item had waited to be claimed, or had been in work. None if it did neither.
    pub since: Option<Timestamp>,
}

/// What a worker gets: an item, what the producer said, and what earlier stages put out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Work {
    pub item: Item,
    pub body: Body,
    pub stage: Arc<str>,
    /// The output of the stage before.
    pub input: Option<Vec<u8>>,
}

/// Everything about one item.
#[derive(Clone, PartialEq, Debug)]
pub struct Inspected {
    pub item: Item,
    pub body: Body,
    pub trail: Trail,
    pub tally: Option<Tally>,
    pub successor: Option<ItemId>,
}

/// How many items have one status in one place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Count {
    pub queue: Arc<str>,
    pub tenant: Arc<str>,
    pub status: Status,
    pub items: u64,
}

/// A submit that gave no answers. It says whether anything was written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("nothing was written: {0}")]
    NotApplied(String),
    #[error("nothing was written: the store is closed")]
    Closed,
    #[error("it is not known whether this was written; repeat it with the same request id: {0}")]
    OutcomeUnknown(String),
    #[error("the store stopped after a failed write and must be opened again: {0}")]
    Poisoned(String),
}
