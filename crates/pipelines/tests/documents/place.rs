//! A queue, a catalog and workers in a directory of their own.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use windrow_core::command::{Claim, Command, RetryMode};
use windrow_core::item::{BlobRef, Status};
use windrow_core::ports::{Now, Store};
use windrow_core::queue::{Queue as _, Seen};
use windrow_core::{ItemId, Timestamp};
use windrow_engine::{Engine, Limits, SystemClock};
use windrow_pipelines::adapters::embed::Embedder;
use windrow_pipelines::adapters::embed::hashed::Hashed;
use windrow_pipelines::adapters::extract::cooccurrence::Cooccurrence;
use windrow_pipelines::adapters::graph::in_catalog::InCatalog;
use windrow_pipelines::adapters::vectors::Vectors;
use windrow_pipelines::catalog::{Catalog, GenerationKey, Scope, Sqlite};
use windrow_pipelines::documents::{
    Added, AtHand, Clock, Files, Gate, NewFile, Parts, Plan, QUEUE, Reader, TextFiles, Workers,
    add, media_type, remove, settings,
};
use windrow_pipelines::search::hybrid::{Found, Nearest, Query, Search};
use windrow_pipelines::search::index::Index;
use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::{Embedded, Options, Running};

/// Everything that documents need, in a directory that goes with the test.
pub(crate) struct Place<S: Store = Embedded> {
    dir: PathBuf,
    pub(crate) queue: Arc<Engine<S, SystemClock>>,
    /// What runs as long as the place is used.
    _running: Option<Running>,
    pub(crate) catalog: Arc<dyn Catalog>,
    files: Arc<Here>,
    search: Search,
    /// What documents that are added wait for.
    pub(crate) gate: Gate,
}

#[derive(Debug, Default)]
struct Here {
    files: Mutex<HashMap<[u8; 32], PathBuf>>,
}

impl Files for Here {
    fn open<'a>(
        &'a self,
        _tenant: &'a str,
        file: BlobRef,
    ) -> BoxFuture<'a, Result<PathBuf, String>> {
        let found = self.files.lock().get(&file.hash).cloned().ok_or("it is not here".to_owned());
        Box::pin(async { found })
    }
}

#[derive(Debug)]
struct Wall;

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp(since.unwrap().as_millis() as u64)
    }
}

/// An empty directory of a test.
fn directory(test: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("windrow-docs-{test}-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("queue")).unwrap();
    dir
}

impl Place {
    /// On a store of its own.
    pub(crate) fn new(test: &str) -> Place {
        let dir = directory(test);
        let disk = Arc::new(RealDisk::open(dir.join("queue")).unwrap());
        let running = Embedded::open(disk, Options::default()).unwrap().run().unwrap();
        Place::at(dir, (*running).clone(), Some(running))
    }
}

impl<S: Store> Place<S> {
    /// On a store that somebody else keeps.
    pub(crate) fn over(test: &str, store: S) -> Place<S> {
        Place::at(directory(test), store, None)
    }

    fn at(dir: PathBuf, store: S, running: Option<Running>) -> Place<S> {
        let clock = SystemClock::new(Timestamp::ZERO);
        let queue = Arc::new(Engine::new(store, clock, Limits::default(), usize::MAX));
        let catalog: Arc<dyn Catalog> = Arc::new(Sqlite::open(&dir.join("catalog.db")).unwrap());
        let search = Search {
            catalog: Arc::clone(&catalog),
            embedder: Arc::new(Hashed),
            nearest: Nearest::Index(Arc::new(Index::new(Arc::clone(&catalog)))),
        };
        let (files, gate) = (Arc::new(Here::default()), Gate::Item);
        Place { dir, queue, _running: running, catalog, files, search, gate }
    }

    pub(crate) async fn start(&self, reader: Arc<dyn Reader>) -> Workers {
        self.start_with(|parts| parts.reader = reader).await
    }

    /// What is at hand, with a store of vectors outside.
    pub(crate) fn at_hand(&self, vectors: Option<Arc<dyn Vectors>>) -> AtHand {
        AtHand {
            catalog: Arc::clone(&self.catalog),
            vectors,
            graph: Arc::new(InCatalog::new(Arc::clone(&self.catalog))),
            clock: Arc::new(Wall),
        }
    }

    /// Starts workers that put vectors into a store outside.
    pub(crate) async fn start_outside(&self, vectors: Arc<dyn Vectors>) -> Workers {
        let at_hand = self.at_hand(Some(vectors));
        self.start_with(|parts| parts.keeping = Arc::new(at_hand)).await
    }

    /// Starts workers with parts that are not the plain ones.
    pub(crate) async fn start_with(&self, change: impl FnOnce(&mut Parts)) -> Workers {
        let mut parts = Parts {
            keeping: Arc::new(self.at_hand(None)),
            files: Arc::clone(&self.files) as Arc<dyn Files>,
            reader: Arc::new(TextFiles),
            embedder: Arc::new(Hashed),
            extractor: Some(Arc::new(Cooccurrence::default())),
            clock: Arc::new(Wall),
            limits: Default::default(),
        };
        change(&mut parts);
        self.queue.configure(QUEUE, settings(&parts, &Plan::default())).await.unwrap();
        let tell = |event| eprintln!("{event}");
        Workers::start(Arc::clone(&self.queue), parts, "test", Plan::default(), tell).unwrap()
    }

    /// Adds a text file under a name.
    pub(crate) async fn add(&self, name: &str, text: &str) -> Added {
        self.add_bytes(name, text.as_bytes()).await
    }

    /// Adds a file under a name.
    pub(crate) async fn add_bytes(&self, name: &str, bytes: &[u8]) -> Added {
        self.add_as(name, media_type(name), bytes).await
    }

    /// Adds a file that is said to be something.
    pub(crate) async fn add_as(&self, name: &str, media_type: &str, bytes: &[u8]) -> Added {
        let path = self.dir.join(format!("{}-{name}", bytes.len()));
        std::fs::write(&path, bytes).unwrap();
        let hash: [u8; 32] = Sha256::digest(bytes).into();
        let file = BlobRef { hash, len: bytes.len() as u64 };
        self.files.files.lock().insert(hash, path);
        // As an upload does: the queue is told that the bytes are there.
        let stored = Command::Blob { tenant: "acme".into(), blob: file };
        let keeps_time = self.queue.store().keeps_time();
        let now = if keeps_time { Now::Database } else { Now::Given(Wall.now()) };
        self.queue.store().submit(vec![stored.into()], now).await.unwrap();
        let file = NewFile {
            scope: Scope::new("acme", "books"),
            source: format!("/inbox/{name}"),
            name: name.into(),
            media_type: media_type.into(),
            file,
            again: false,
            gate: self.gate,
        };
        add(&*self.queue, &*self.catalog, Uuid::from_u128(rand::random()), file, Wall.now())
            .await
            .unwrap()
    }

    pub(crate) async fn remove(&self, document: Uuid) -> Option<ItemId> {
        remove(&*self.queue, &*self.catalog, "acme", document, Wall.now()).await.unwrap()
    }

    /// Waits until an item has ended, and says how.
    pub(crate) async fn ended(&self, item: ItemId) -> Status {
        loop {
            let seen = self.queue.inspect(item).await.unwrap().unwrap();
            if !matches!(seen.status, Status::Pending | Status::Processing) {
                return seen.status;
            }
            self.moment().await;
        }
    }

    /// Waits until an item was tried and waits for another time.
    pub(crate) async fn tried(&self, item: ItemId) -> Seen {
        loop {
            let seen = self.queue.inspect(item).await.unwrap().unwrap();
            if seen.status == Status::Pending && seen.stages.iter().any(|one| one.error.is_some()) {
                return seen;
            }
            self.moment().await;
        }
    }

    /// Makes an item due that waits.
    pub(crate) async fn now(&self, item: ItemId) {
        self.queue.retry(item, RetryMode::Reset, None, None).await.unwrap();
    }

    /// Lets some time pass: a claim where nothing ever comes is a clock that the queue has anyway.
    pub(crate) async fn moment(&self) {
        let nothing = self.queue.claim(Claim::new("nobody", "none", 1), 20, None).await;
        assert_eq!(nothing.unwrap(), None);
        // As a server does: what is cancelled or superseded ends in steps.
        self.queue.step().await.unwrap();
    }

    /// What is found by a question that somebody else embeds.
    pub(crate) async fn found_by(&self, embedder: Arc<dyn Embedder>, text: &str) -> Found {
        let (tenant, collection) = ("acme".to_owned(), Some("books".to_owned()));
        let query = Query { text: text.into(), tenant, collection, document: None, limit: 5 };
        Search { embedder, ..self.search.clone() }.find(&query).await.unwrap()
    }

    pub(crate) async fn found(&self, text: &str) -> Vec<(String, u32)> {
        let found = self.found_by(Arc::new(Hashed), text).await;
        assert_eq!(found.missing, None);
        found.hits.iter().map(|hit| (hit.chunk.name.clone(), hit.chunk.page.number)).collect()
    }
}

impl<S: Store> Drop for Place<S> {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.dir);
    }
}

pub(crate) fn enqueued(added: Added) -> (GenerationKey, ItemId) {
    let Added::Enqueued { at, item, .. } = added else { panic!("{added:?}") };
    (at, item)
}
