//! Documents: the pipeline of seed 001 on this server's queue.
//!
//! Files are blobs of the queue, what is known of them is in the catalog beside it, and the stages
//! are done by workers of this process. The catalog is opened when it is first needed, and the
//! workers begin with the first document: a server that only queues has neither.
//!
//! [`parts`] makes of the configuration what the stages work with, [`files`] has the files on this
//! machine while they are read, [`left`] takes back what this server held when it was killed, and
//! [`forget`] lets the catalog grow no more than it must. [`attend`] enqueues what the catalog
//! wants done and the queue does not know, and [`said`] is what stages read and write over the
//! wire, where others do them.

mod attend;
pub(crate) mod files;
mod forget;
mod left;
mod parts;
pub(crate) mod progress;
pub(crate) mod said;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify, OnceCell};
use tokio::time::{Instant, MissedTickBehavior};
use uuid::Uuid;
use windrow_core::item::BlobRef;
use windrow_core::ports::{Store as _, StoreError};
use windrow_core::{ItemId, Timestamp};
use windrow_engine::Clock as _;
use windrow_pipelines::adapters::embed::Embedder;
use windrow_pipelines::adapters::reader::AnyFile;
use windrow_pipelines::catalog::moving::Moving;
use windrow_pipelines::catalog::postgres::{Rights, is_begun, rights};
use windrow_pipelines::catalog::{Catalog, CatalogError, Generation, Postgres, Sqlite};
use windrow_pipelines::documents::{
    self, Added, AtHand, Keeping, Leftovers, NewFile, NotAdded, Parts, QUEUE, ReadError, Stages,
    Workers, add, remove,
};
use windrow_pipelines::postgres;
use windrow_pipelines::search::hybrid::{Nearest, Search};
use windrow_store::blobs::Keeper;
use windrow_store::postgres::{Connector, Options};

use crate::cli::place::Place;
use crate::config;
use crate::http::App;
use crate::logs;
use crate::store::Queue;

pub(crate) use parts::{Misfit, check, elsewhere};

/// The catalog's file beside an embedded store.
pub(crate) const CATALOG: &str = "catalog.db";
/// Connections to a catalog in a database.
const CONNECTIONS: usize = 8;
/// The resolution of pictures for people.
const PICTURE_DPI: u32 = 110;
/// How often a server that has no documents yet looks whether another one has.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// How often what is left over in stores outside is looked after: longer than a stage is late.
const LEFTOVERS_EVERY: Duration = Duration::from_secs(600);

/// Where the catalog is.
#[derive(Clone, Debug)]
pub(crate) enum Beside {
    /// In a directory with an embedded store.
    Directory(PathBuf),
    /// In the database of the store.
    Database(Options),
}

/// The documents of a server.
#[derive(Debug)]
pub(crate) struct Documents {
    config: config::Documents,
    beside: Beside,
    queue: Arc<Queue>,
    opened: OnceCell<Opened>,
    /// When this process began.
    since: Timestamp,
    /// Somebody added a document.
    came: Notify,
    working: Mutex<Working>,
    shown: progress::Shown,
}

/// What is there once the catalog is open.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) search: Search,
    at_hand: AtHand,
    parts: Parts,
    reader: AnyFile,
}

#[derive(Debug, Default)]
enum Working {
    #[default]
    NotYet,
    Yes(Workers),
    NoMore,
}

impl Beside {
    /// The store's own directory, if it has one.
    fn directory(&self) -> Option<&Path> {
        match self {
            Beside::Directory(dir) => Some(dir),
            Beside::Database(_) => None,
        }
    }

    /// The same for whoever moves it, and is no server to others.
    pub(crate) fn for_move(self) -> Beside {
        match self {
            Beside::Database(options) => Beside::Database(options.for_move()),
            directory => directory,
        }
    }

    /// Whether there is a catalog already, and in a database something in it: `windrow migrate`
    /// makes one before the first document comes.
    pub(crate) async fn has_catalog(&self) -> Result<bool, CatalogError> {
        match self {
            Beside::Directory(dir) => Ok(dir.join(CATALOG).exists()),
            Beside::Database(options) => {
                let connected = connector(options)?.connect().await.map_err(unreached)?;
                Ok(rights(&connected).await?.is_there && is_begun(&connected).await?)
            }
        }
    }

    /// The catalog, which is made if there is none.
    pub(crate) async fn catalog(&self) -> Result<Arc<dyn Moving>, CatalogError> {
        Ok(match self {
            Beside::Directory(dir) => Arc::new(Sqlite::open(&dir.join(CATALOG))?),
            Beside::Database(options) => Arc::new(Postgres::open(reached(options)?).await?),
        })
    }
}

impl From<&Place> for Beside {
    fn from(place: &Place) -> Beside {
        match place {
            Place::Directory(dir) => Beside::Directory(dir.clone()),
            Place::Database(options) => Beside::Database(options.clone()),
        }
    }
}

/// Works on documents until the server stops. Its workers have a name that the next one has again:
/// the machine's, and of servers that share a database the port too.
pub(crate) async fn run(app: Arc<App>, port: u16) {
    let name = match app.documents.beside {
        Beside::Directory(_) => machine(),
        Beside::Database(_) => format!("{}:{port}", machine()),
    };
    tokio::select! {
        () = app.documents.run(&name) => {}
        () = app.stops() => {}
    }
}

/// What this machine is called.
pub(crate) fn machine() -> String {
    let said = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    said.split_whitespace().next().unwrap_or("windrow").to_owned()
}

impl Documents {
    pub(crate) fn new(config: config::Documents, beside: Beside, queue: Arc<Queue>) -> Documents {
        let (opened, came, working) = (OnceCell::new(), Notify::new(), Mutex::default());
        let shown = progress::Shown::default();
        let since = queue.clock().now();
        Documents { config, beside, queue, opened, since, came, working, shown }
    }

    /// Whether documents are read here at all.
    pub(crate) fn is_enabled(&self) -> bool {
        self.config.enabled
    }

    /// The catalog and all that goes with it.
    pub(crate) async fn opened(&self) -> Result<&Opened, CatalogError> {
        self.opened.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> Result<Opened, CatalogError> {
        let catalog: Arc<dyn Catalog> = self.beside.catalog().await?;
        parts::opened(&self.config, &self.beside, catalog, Arc::clone(&self.queue)).await
    }

    /// The stages that this server does itself.
    pub(crate) fn stages(&self) -> Stages {
        if self.config.enabled { self.config.plan.stages } else { Stages::NONE }
    }

    /// Takes a file in, whose bytes are stored.
    pub(crate) async fn add(&self, file: NewFile) -> Result<Added, NotAdded> {
        let opened = self.opened().await?;
        let file = NewFile { gate: self.config.gate, ..file };
        let now = self.queue.clock().now();
        let added = add(&*self.queue, &*opened.catalog, new_id(), file, now).await;
        self.came.notify_one();
        added
    }

    /// Lets a document go, from everywhere. None if there is none.
    pub(crate) async fn remove(
        &self,
        tenant: &str,
        document: Uuid,
    ) -> Result<Option<ItemId>, NotAdded> {
        let opened = self.opened().await?;
        let now = self.queue.clock().now();
        let removed = remove(&*self.queue, &*opened.catalog, tenant, document, now).await;
        self.came.notify_one();
        removed
    }

    /// Works on documents from when there are any, until it is stopped.
    pub(crate) async fn run(&self, name: &str) {
        if !self.config.enabled {
            return;
        }
        let mut is_well = true;
        loop {
            match self.begin(name).await {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => {
                    if std::mem::replace(&mut is_well, false) {
                        logs::documents_wait(&error);
                    }
                }
            }
            // Another server may add the first one, and what failed may be well again.
            let _looked = tokio::time::timeout(LOOK_EVERY, self.came.notified()).await;
        }
        self.attend().await;
        tokio::join!(self.forget(), self.remove_leftovers());
    }

    /// The catalog's file, if it is one and there is one.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let file = self.beside.directory()?.join(CATALOG);
        file.exists().then_some(file)
    }

    /// Begins to work, if there is a catalog.
    async fn begin(&self, name: &str) -> anyhow::Result<bool> {
        if !self.is_begun().await? {
            return Ok(false);
        }
        let opened = self.opened().await?;
        let mut working = self.working.lock().await;
        if !matches!(*working, Working::NotYet) {
            return Ok(true);
        }
        let left = left::leases(&self.queue, name).await?;
        match self.beside {
            Beside::Directory(_) => match left::take_back(&self.queue, &left).await? {
                0 => {}
                returned => logs::documents_taken_back(returned),
            },
            Beside::Database(_) => {
                let (queue, name) = (Arc::clone(&self.queue), name.to_owned());
                tokio::spawn(left::take_back_later(queue, name, left));
            }
        }
        let known = self.queue.store().configured().await?;
        if !known.settings.iter().any(|(queue, _)| **queue == *QUEUE) {
            let settings = documents::settings(&opened.parts, &self.config.plan);
            self.queue.configure(QUEUE, settings).await?;
        }
        let (queue, parts) = (Arc::clone(&self.queue), opened.parts.clone());
        let workers = Workers::start(queue, parts, name, self.config.plan, logs::documents_told)?;
        *working = Working::Yes(workers);
        Ok(true)
    }

    /// Forgets, now and then, what nobody needs any more.
    async fn forget(&self) {
        let every = forget::EVERY;
        let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut changes = forget::Changes::default();
        loop {
            ticks.tick().await;
            let Ok(opened) = self.opened().await else { continue };
            if let Nearest::Index(index) = &opened.search.nearest {
                // Whoever searches next tries again.
                let _kept_up = index.keep_up().await;
            }
            forget::memos(&*opened.catalog, self.queue.clock().now()).await;
            changes.forget(&*opened.catalog).await;
        }
    }

    /// Removes, now and then, what a late stage wrote to a store outside after it was removed.
    async fn remove_leftovers(&self) {
        let Ok(opened) = self.opened().await else { return };
        let mut leftovers = Leftovers::new(opened.at_hand.clone());
        let mut ticks = tokio::time::interval(LEFTOVERS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = leftovers.look().await {
                logs::documents_left_over(&error);
            }
        }
    }

    /// Lets what is under way end, and hands back the rest.
    pub(crate) async fn stop(&self) {
        let working = std::mem::replace(&mut *self.working.lock().await, Working::NoMore);
        if let Working::Yes(workers) = working
            && let Err(error) = workers.stop().await
        {
            logs::documents_not_stopped(&error);
        }
    }

    /// Where this server keeps files of its own on this machine.
    pub(crate) fn places(&self) -> Vec<PathBuf> {
        match &self.beside {
            Beside::Directory(dir) => vec![dir.clone()],
            Beside::Database(_) => vec![files::apart()],
        }
    }

    /// Whether there ever was a document here: whoever only looks opens no catalog.
    pub(crate) async fn is_begun(&self) -> Result<bool, CatalogError> {
        Ok(self.opened.get().is_some() || self.beside.has_catalog().await?)
    }

    /// Where there are none.
    #[cfg(test)]
    pub(crate) fn nowhere(queue: Arc<Queue>) -> Documents {
        let layers = config::Layers::new();
        let config = config::Config::new(&layers).expect("the defaults fit").documents;
        Documents::new(config, Beside::Directory("/nowhere".into()), queue)
    }
}

impl Opened {
    /// What stages read and write.
    pub(crate) fn keeping(&self) -> &dyn Keeping {
        &*self.parts.keeping
    }

    /// Who makes the vectors that are searched.
    pub(crate) fn embedder(&self) -> &dyn Embedder {
        &*self.parts.embedder
    }

    /// A picture of a page, in PNG.
    pub(crate) async fn picture(
        &self,
        tenant: &str,
        of: &Generation,
        page: u32,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let file = BlobRef { hash: of.content.hash, len: of.content.bytes };
        let later = |why| ReadError::Transient { why, retry_after_ms: None };
        let path = self.parts.files.open(tenant, file).await.map_err(later)?;
        self.reader.picture(&path, &of.content.media_type, page, PICTURE_DPI).await
    }
}

/// A file is needed for as long as its document is there, however long ago its item ended.
impl Keeper for Documents {
    async fn keeps(&self, tenant: &str, blob: BlobRef) -> Result<bool, StoreError> {
        let unknown = |error: CatalogError| StoreError::NotApplied(error.to_string());
        if !self.is_begun().await.map_err(unknown)? {
            return Ok(false);
        }
        let catalog = &self.opened().await.map_err(unknown)?.catalog;
        catalog.has_content(tenant, blob.hash).await.map_err(unknown)
    }
}

/// What the role of a database may do with the catalog there.
pub(crate) async fn rights_in(options: &Options) -> Result<Rights, CatalogError> {
    rights(&connector(options)?.connect().await.map_err(unreached)?).await
}

fn connector(options: &Options) -> Result<Connector, CatalogError> {
    Connector::new(options).map_err(|error| CatalogError::Bad { why: error.to_string() })
}

/// The catalog in the database of a store, reached as the store is.
pub(crate) fn reached(options: &Options) -> Result<postgres::Options, CatalogError> {
    let connector = connector(options)?;
    let is_pooled = connector.is_pooled();
    let connect = postgres::Connect::new(move || {
        let connector = connector.clone();
        Box::pin(async move { connector.connect().await.map_err(unreached) })
    });
    Ok(postgres::Options { connect, connections: CONNECTIONS, is_pooled })
}

fn unreached(error: windrow_store::postgres::Error) -> CatalogError {
    CatalogError::Transient { why: error.to_string(), retry_after_ms: None }
}

fn new_id() -> Uuid {
    use rand::RngExt as _;
    uuid::Builder::from_random_bytes(rand::make_rng::<rand::rngs::StdRng>().random()).into_uuid()
}
