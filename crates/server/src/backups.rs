//! Copies that are being made of the store: what is held for each, and for how long.
//!
//! Whoever begins one copies the files in its own time and says when it is done. If it goes away
//! instead, what was held for it is let go a minute after its last request.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;
use windrow_core::RequestId;
use windrow_pipelines::catalog::Sqlite;
use windrow_store::blobs::Hex;
use windrow_store::embedded::backup::{Beside, Held};

use crate::documents::Documents;
use crate::logs;
use crate::store::AnyStore;

/// How many can be made at once.
const MOST: usize = 16;
/// One that nobody asks for has to go when there is no place for another; whoever copies asks all
/// the time.
const LATE: Duration = Duration::from_secs(1);
/// How long one is kept that nobody asks for.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// The copies of one server.
#[derive(Debug, Default)]
pub(crate) struct Backups {
    table: Arc<Mutex<Table>>,
    /// Held while the catalog is copied: one at a time.
    copying: Arc<Mutex<()>>,
}

type Table = HashMap<RequestId, Making>;

#[derive(Debug)]
struct Making {
    held: Arc<Held>,
    asked: Instant,
}

/// Why none was begun.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotBegun {
    #[error(
        "the store is a PostgreSQL database; back it up with its own tools, such as pg_dump or \
         pg_basebackup"
    )]
    Database,
    #[error("{MOST} backups are being made already; wait for one to end")]
    TooMany,
    #[error("the store could not be read: {0}")]
    Disk(#[from] io::Error),
}

impl Backups {
    /// Holds the store for a new copy, and a copy of the catalog beside it, if there is one.
    pub(crate) async fn begin(
        &self,
        store: &AnyStore,
        documents: &Arc<Documents>,
    ) -> Result<(RequestId, Arc<Held>), NotBegun> {
        let AnyStore::Embedded(embedded, files) = store else { return Err(NotBegun::Database) };
        self.make_room()?;
        let (embedded, files) = (embedded.clone(), Arc::clone(files));
        let (documents, copying) = (Arc::clone(documents), Arc::clone(&self.copying));
        let held = tokio::task::spawn_blocking(move || {
            Held::begin(&embedded, &files, || match documents.file() {
                Some(catalog) => copied(&catalog, &copying).map(Some),
                None => Ok(None),
            })
        });
        let held = Arc::new(held.await.map_err(io::Error::other)??);
        let id = RequestId(rand::random());
        let asked = Instant::now();
        self.make_room()?;
        self.table().insert(id, Making { held: Arc::clone(&held), asked });
        tokio::spawn(let_go(Arc::downgrade(&self.table), id));
        Ok((id, held))
    }

    /// Sends away who has not asked for longest, if there is no place for another.
    fn make_room(&self) -> Result<(), NotBegun> {
        let mut table = self.table();
        if table.len() < MOST {
            return Ok(());
        }
        let latest = table.iter().min_by_key(|(_, making)| making.asked);
        let late = latest.filter(|(_, making)| making.asked.elapsed() > LATE).map(|(id, _)| *id);
        late.and_then(|id| table.remove(&id)).map(|_| ()).ok_or(NotBegun::TooMany)
    }

    /// What is held for a copy, if it is still being made.
    pub(crate) fn get(&self, id: RequestId) -> Option<Arc<Held>> {
        let mut table = self.table();
        let making = table.get_mut(&id)?;
        making.asked = Instant::now();
        Some(Arc::clone(&making.held))
    }

    /// Lets go of what was held. Whether there was something.
    pub(crate) fn end(&self, id: RequestId) -> bool {
        self.table().remove(&id).is_some()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A copy of the catalog that goes with whoever has it open, named by its hash.
fn copied(catalog: &Path, copying: &Mutex<()>) -> io::Result<Beside> {
    let _alone = copying.lock().unwrap_or_else(PoisonError::into_inner);
    let copy = catalog.with_extension("copy");
    // What a killed process left.
    let _stale = fs::remove_file(&copy);
    let hash = Sqlite::copy(catalog, &copy);
    let file = File::open(&copy);
    let removed = fs::remove_file(&copy);
    let hash = hash.map_err(|error| io::Error::other(format!("the catalog: {error}")))?;
    removed?;
    Ok(Beside { name: format!("catalog-{}.db", Hex(&hash)), file: file? })
}

/// Waits until nobody has asked for a copy for too long, and lets it go.
async fn let_go(table: Weak<Mutex<Table>>, id: RequestId) {
    let mut until = Instant::now() + IDLE;
    loop {
        tokio::time::sleep_until(until).await;
        let Some(table) = table.upgrade() else { return };
        let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(making) = table.get(&id) else { return };
        until = making.asked + IDLE;
        if until <= Instant::now() {
            table.remove(&id);
            logs::backup_let_go(id);
            return;
        }
    }
}
