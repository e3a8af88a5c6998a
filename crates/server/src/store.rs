//! The store that a server runs on: either kind, chosen when it starts.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use windrow_core::change::Lease;
use windrow_core::command::{Command, Request};
use windrow_core::explain::Explanation;
use windrow_core::find::{Configured, Filter, Page};
use windrow_core::note::Note;
use windrow_core::ports::{Count, Enough, Inspected, Lead, Listener, Now, Store, StoreError, Work};
use windrow_core::resource::Resource;
use windrow_core::vitals::{Standing, Vitals};
use windrow_core::{Answer, Item, ItemId, LeaseId, Refusal, Timestamp};
use windrow_engine::{Engine, Limits, SystemClock};
use windrow_store::embedded::blobs::{DIRECTORY, Files};
use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::{Embedded, Options, Running};
use windrow_store::postgres::Postgres;

use crate::cli::data_dir::{not_opened, to_open, to_use};
use crate::cli::place::Place;

/// The queue of a server.
pub(crate) type Queue = Engine<AnyStore, SystemClock>;

#[derive(Clone, Debug)]
pub(crate) enum AnyStore {
    /// With the blobs beside it.
    Embedded(Embedded, Arc<Files>),
    Postgres(Postgres),
}

impl AnyStore {
    /// Which of them it is, in a word.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            AnyStore::Embedded(..) => "embedded",
            AnyStore::Postgres(_) => "postgres",
        }
    }

    /// Whether nobody but this process can use it.
    pub(crate) const fn is_alone(&self) -> bool {
        matches!(self, AnyStore::Embedded(..))
    }
}

/// An open queue. The embedded store stops with it.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) queue: Arc<Queue>,
    _running: Option<Running>,
}

impl Open {
    pub(crate) async fn at(place: Place) -> anyhow::Result<Open> {
        match place {
            Place::Directory(path) => Open::directory(&path),
            Place::Database(options) => {
                let width = options.connections;
                let store = Postgres::open(options).await?;
                let clock = SystemClock::new(Timestamp::ZERO);
                let store = AnyStore::Postgres(store);
                let queue = Arc::new(Engine::new(store, clock, Limits::default(), width));
                Ok(Open { queue, _running: None })
            }
        }
    }

    fn directory(path: &Path) -> anyhow::Result<Open> {
        to_use(path)?;
        let opened = Embedded::open(Arc::new(to_open(path)?), Options::default());
        let running = opened.map_err(|error| not_opened(path, &error))?.run()?;
        let clock = SystemClock::new(running.latest());
        let apart = path.join(DIRECTORY);
        let blobs = RealDisk::open(&apart).with_context(|| apart.display().to_string())?;
        let blobs = Arc::new(Files::on(Arc::new(blobs)));
        let store = AnyStore::Embedded((*running).clone(), blobs);
        let queue = Arc::new(Engine::new(store, clock, Limits::default(), usize::MAX));
        Ok(Open { queue, _running: Some(running) })
    }
}

/// Asks whichever store it is.
macro_rules! ask {
    ($self:ident, $store:ident => $asked:expr) => {
        match $self {
            AnyStore::Embedded($store, _) => $asked,
            AnyStore::Postgres($store) => $asked,
        }
    };
}

impl Store for AnyStore {
    async fn submit(&self, batch: Vec<Request>, now: Now) -> Result<Vec<Answer<Work>>, StoreError> {
        ask!(self, store => store.submit(batch, now).await)
    }

    async fn inspect(&self, id: ItemId) -> Result<Option<Inspected>, StoreError> {
        ask!(self, store => store.inspect(id).await)
    }

    async fn inspect_all(&self, ids: &[ItemId]) -> Result<Vec<Inspected>, StoreError> {
        ask!(self, store => store.inspect_all(ids).await)
    }

    async fn explain(&self, id: ItemId, now: Timestamp) -> Result<Option<Explanation>, StoreError> {
        ask!(self, store => store.explain(id, now).await)
    }

    async fn forecast(
        &self,
        command: &Command,
        now: Timestamp,
    ) -> Result<Result<(), Refusal>, StoreError> {
        ask!(self, store => store.forecast(command, now).await)
    }

    async fn children(
        &self,
        id: ItemId,
        from: u32,
        limit: usize,
    ) -> Result<Vec<ItemId>, StoreError> {
        ask!(self, store => store.children(id, from, limit).await)
    }

    async fn items(&self, after: Option<ItemId>, limit: usize) -> Result<Vec<Item>, StoreError> {
        ask!(self, store => store.items(after, limit).await)
    }

    async fn live(&self, after: Option<ItemId>, limit: usize) -> Result<Vec<Item>, StoreError> {
        ask!(self, store => store.live(after, limit).await)
    }

    async fn find(
        &self,
        filter: &Filter,
        after: Option<ItemId>,
        limit: usize,
        enough: Enough<'_>,
    ) -> Result<Page, StoreError> {
        ask!(self, store => store.find(filter, after, limit, enough).await)
    }

    async fn configured(&self) -> Result<Configured, StoreError> {
        ask!(self, store => store.configured().await)
    }

    async fn counts(&self) -> Result<Vec<Count>, StoreError> {
        ask!(self, store => store.counts().await)
    }

    async fn leases(&self) -> Result<Vec<Lease>, StoreError> {
        ask!(self, store => store.leases().await)
    }

    async fn held_by(
        &self,
        leases: &[LeaseId],
        limit: usize,
    ) -> Result<Vec<(LeaseId, Vec<ItemId>)>, StoreError> {
        ask!(self, store => store.held_by(leases, limit).await)
    }

    async fn notes(&self, shelf: &str) -> Result<Vec<Note>, StoreError> {
        ask!(self, store => store.notes(shelf).await)
    }

    async fn resources(&self) -> Result<Vec<(Arc<str>, Resource)>, StoreError> {
        ask!(self, store => store.resources().await)
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        ask!(self, store => store.next_due().await)
    }

    async fn vitals(&self, now: Timestamp) -> Result<Vitals, StoreError> {
        ask!(self, store => store.vitals(now).await)
    }

    async fn stages(&self, now: Timestamp, most: u64) -> Result<Vec<Standing>, StoreError> {
        ask!(self, store => store.stages(now, most).await)
    }

    async fn advance(&self, now: Timestamp) -> Result<(), StoreError> {
        ask!(self, store => store.advance(now).await)
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        ask!(self, store => store.listen(listener));
    }

    async fn watch(&self) -> Result<(), StoreError> {
        ask!(self, store => store.watch().await)
    }

    fn keeps_time(&self) -> bool {
        ask!(self, store => store.keeps_time())
    }

    async fn lead(&self) -> Result<Lead, StoreError> {
        ask!(self, store => store.lead().await)
    }
}
