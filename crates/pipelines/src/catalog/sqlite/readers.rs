//! Readers: a few connections that only read, each in a thread of its own while it does.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::super::Answer;
use super::super::error::CatalogError;
use super::open::reader;

/// As many may read at once. More would only wait for the same disk.
const READERS: usize = 8;

#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    room: Arc<Semaphore>,
    runtime: Handle,
}

impl Readers {
    pub(super) fn new(path: PathBuf, runtime: Handle) -> Readers {
        let (idle, room) = (Arc::default(), Arc::new(Semaphore::new(READERS)));
        Readers { path, idle, room, runtime }
    }

    /// Reads what was there at one moment. Whatever was answered before is in it.
    pub(super) fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, CatalogError> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(async move {
            let room = Arc::clone(&self.room).acquire_owned().await;
            let room = room.map_err(CatalogError::transient)?;
            let (path, idle) = (self.path.clone(), Arc::clone(&self.idle));
            let reading = self.runtime.spawn_blocking(move || {
                let known = idle.lock().pop();
                let connection = known.map_or_else(|| reader(&path), Ok)?;
                let moment = connection.unchecked_transaction()?;
                let read = work(&moment);
                moment.finish()?;
                idle.lock().push(connection);
                drop(room);
                read
            });
            reading.await.unwrap_or_else(|error| Err(CatalogError::transient(error)))
        })
    }
}
