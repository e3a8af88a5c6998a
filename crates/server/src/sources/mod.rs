//! Sources: folders of this machine whose files become documents.
//!
//! A source is a note ([`kept`]); what is known of its files is in memory, and at the start of a
//! process every file is hashed once, so that the catalog says what has changed since. [`walk`]
//! sees which files are there, [`table`] decides which of them are due, [`take`] makes documents of
//! them, and [`watch`] does one after the other. It is done by polling, which works on every file
//! system.
//!
//! Of several servers on one database, the one on the source's machine looks at it. An embedded
//! store has one server, wherever its directory is.

pub(crate) mod kept;
mod table;
mod take;
pub(crate) mod walk;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use windrow_core::note::{Expects, WriteNote};
use windrow_core::ports::Store as _;
use windrow_engine::Failure;

use crate::documents::{Documents, machine};
use crate::http::App;
use crate::named::Name;
use crate::store::Queue;
use kept::{Kept, SHELF};
use watch::{Memory, watch};

pub(crate) use watch::Status;

/// Longest time between two looks at the notes: so late is a source that another server wrote.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The sources of a server.
#[derive(Debug)]
pub(crate) struct Sources {
    queue: Arc<Queue>,
    documents: Arc<Documents>,
    host: String,
    /// Whether servers of other machines may have the same sources.
    is_shared: bool,
    watched: Mutex<HashMap<Name, Watched>>,
    /// Somebody wrote a source here.
    written: Notify,
}

/// A source that was seen.
#[derive(Debug)]
struct Watched {
    kept: Kept,
    memory: Arc<Memory>,
    /// None while it is paused.
    _task: Option<Task>,
}

/// Something that ends with this.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Watches all sources of this machine until the server stops.
pub(crate) async fn run(app: Arc<App>) {
    let sources = &app.sources;
    let watch = async {
        loop {
            // A store that cannot be read is asked again in a moment.
            if let Ok(all) = sources.all().await {
                sources.agree(all);
            }
            let _looked = tokio::time::timeout(LOOK_EVERY, sources.written.notified()).await;
        }
    };
    tokio::select! {
        () = watch => {}
        () = app.stops() => {}
    }
    sources.watched().clear();
}

impl Sources {
    pub(crate) fn new(queue: Arc<Queue>, documents: Arc<Documents>) -> Arc<Sources> {
        let (watched, written) = (Mutex::default(), Notify::new());
        let is_shared = !queue.store().is_alone();
        Arc::new(Sources { queue, documents, host: machine(), is_shared, watched, written })
    }

    /// The machine that this is.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Whether a source is looked at here.
    pub(crate) fn is_here(&self, kept: &Kept) -> bool {
        !self.is_shared || kept.host == self.host
    }

    /// What a source is doing, as far as it is looked at here.
    pub(crate) fn status(&self, name: &Name) -> Option<Status> {
        self.watched().get(name).map(|watched| watched.memory.status())
    }

    /// Every source with the version of its note. One that cannot be read was written by a newer
    /// server, and is its own.
    pub(crate) async fn all(&self) -> Result<Vec<(Name, Kept, u64)>, Failure> {
        let notes = self.queue.store().notes(SHELF).await?;
        let read = notes.into_iter().filter_map(|note| {
            Some((Name::parse(&note.name)?, Kept::read(&note.body)?, note.version))
        });
        Ok(read.collect())
    }

    pub(crate) async fn find(&self, name: &Name) -> Result<Option<(Kept, u64)>, Failure> {
        let found = self.all().await?.into_iter().find(|(found, ..)| found == name);
        Ok(found.map(|(_, kept, version)| (kept, version)))
    }

    /// Why a source is in the way of one on another machine, if it is.
    pub(crate) async fn rivalry(
        &self,
        name: &Name,
        kept: &Kept,
    ) -> Result<Option<String>, Failure> {
        if !self.is_shared {
            return Ok(None);
        }
        Ok(kept::rivalry(name, kept, &self.all().await?))
    }

    /// Writes a source, or takes it away, and lets the change be seen at once.
    pub(crate) async fn write(
        &self,
        name: &Name,
        expects: Expects,
        kept: Option<&Kept>,
    ) -> Result<(), Failure> {
        let body = kept.map(Kept::written);
        let (shelf, name) = (SHELF.into(), name.of_note().into());
        self.queue.note(WriteNote { shelf, name, expects, body }).await?;
        self.written.notify_one();
        Ok(())
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, HashMap<Name, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins and ends watching, so that it agrees with the notes.
    fn agree(self: &Arc<Sources>, mut all: Vec<(Name, Kept, u64)>) {
        let mut watched = self.watched();
        all.retain(|(_, kept, _)| self.is_here(kept));
        watched.retain(|name, _| all.iter().any(|(kept, ..)| kept == name));
        for (name, kept, _) in all {
            let was = watched.remove(&name);
            let next = match was {
                Some(was) if was.kept == kept => was,
                was => self.begun(&name, kept, was),
            };
            watched.insert(name, next);
        }
    }

    /// Watches a source that is new or was written, unless it is paused.
    fn begun(self: &Arc<Sources>, name: &Name, kept: Kept, was: Option<Watched>) -> Watched {
        // Who was only paused, or goes on, remembers.
        let is_same =
            |was: &Watched| Kept { is_paused: kept.is_paused, ..was.kept.clone() } == kept;
        let memory = was.filter(is_same).map(|was| Arc::clone(&was.memory)).unwrap_or_default();
        let _task = (!kept.is_paused).then(|| {
            let (name, kept, memory) = (name.clone(), kept.clone(), Arc::clone(&memory));
            Task(tokio::spawn(watch(Arc::clone(self), name, kept, memory)))
        });
        Watched { kept, memory, _task }
    }
}

#[cfg(test)]
mod tests {
    use windrow_wire::source::NewSource;

    use super::*;
    use crate::cli::place::Place;
    use crate::store::Open;

    /// The server that it moved away from went on taking in what was in its own folder.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_source_that_moved_to_another_machine_is_watched_there_only() {
        let dir = std::env::temp_dir().join(format!("windrow-moved-{}", std::process::id()));
        let open = Open::at(Place::Directory(dir.clone())).await.expect("it is new");
        let documents = Arc::new(Documents::nowhere(Arc::clone(&open.queue)));
        let sources = Arc::new(Sources {
            queue: Arc::clone(&open.queue),
            documents,
            host: "here".into(),
            is_shared: true,
            watched: Mutex::default(),
            written: Notify::new(),
        });
        let name = Name { tenant: "default".into(), name: "inbox".into() };
        let on = |host: &str| {
            let says: NewSource =
                serde_json::from_str(r#"{"path":"/srv/inbox"}"#).expect("a source");
            let host = host.to_owned();
            let kept = Kept { says, host, is_paused: true, root: None, rescans: 0 };
            vec![(name.clone(), kept, 1)]
        };
        let is_watched = || sources.watched().contains_key(&name);
        sources.agree(on("here"));
        assert!(is_watched());
        sources.agree(on("there"));
        assert!(!is_watched());
        sources.agree(on("here"));
        assert!(is_watched());
        sources.agree(Vec::new());
        assert!(!is_watched());
        drop((sources, open));
        std::fs::remove_dir_all(dir).expect("it is ours");
    }
}
