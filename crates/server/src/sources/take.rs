//! Taking a file in: it is read piece by piece, becomes a blob, and then a document.
//!
//! It is hashed first, so that a file which is known costs one read and no write. A file that turns
//! out to be another than the one that was found is left for the next look.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;
use windrow_core::item::BlobRef;
use windrow_core::queue::Error;
use windrow_engine::Clock as _;
use windrow_pipelines::catalog::{CatalogError, Hash, Scope};
use windrow_pipelines::documents::{Added, Gate, NewFile, NotAdded, media_type};
use windrow_store::blobs::{BlobError, Blobs as _, NewUpload, PIECE};

use super::Sources;
use super::table::Document;
use super::walk::{self, Found};
use crate::blobs::{NotKept, finish, known};

/// So much of a file is written at once.
const WRITTEN: usize = 4 * PIECE;

/// Where files of a source are, and where they go.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) root: String,
    pub(super) scope: Scope,
}

/// What became of a file.
#[derive(Debug)]
pub(super) enum Taken {
    Added(Document),
    Changed(Document),
    Unchanged(Document),
    /// It changed while it was read.
    Unsettled,
    /// It is tried again, because of this.
    Later(String),
    /// It is tried again when it has changed.
    Never(String),
}

/// Why a file was not taken in.
enum NotTaken {
    Unsettled,
    Later(String),
    Never(String),
}

impl From<io::Error> for NotTaken {
    fn from(error: io::Error) -> NotTaken {
        NotTaken::Later(walk::said(&error))
    }
}

impl From<NotKept> for NotTaken {
    fn from(error: NotKept) -> NotTaken {
        match error {
            NotKept::Blobs(error) => error.into(),
            NotKept::Queue(failure) => NotTaken::Later(failure.to_string()),
        }
    }
}

impl From<BlobError> for NotTaken {
    fn from(error: BlobError) -> NotTaken {
        match error {
            BlobError::WrongHash { .. } | BlobError::Incomplete { .. } | BlobError::Gone => {
                NotTaken::Unsettled
            }
            error => NotTaken::Later(error.to_string()),
        }
    }
}

impl From<NotAdded> for NotTaken {
    fn from(error: NotAdded) -> NotTaken {
        let said = error.to_string();
        match error {
            NotAdded::Catalog(CatalogError::Bad { .. }) => NotTaken::Never(said),
            NotAdded::Queue(Error::Refused(refused)) if refused.retry_after_ms.is_none() => {
                NotTaken::Never(said)
            }
            _ => NotTaken::Later(said),
        }
    }
}

impl Sources {
    /// Takes a file in, unless its document is known and has this content.
    pub(super) async fn take(&self, way: &Way, found: &Found, document: Option<Document>) -> Taken {
        match self.try_take(way, found, document).await {
            Ok(taken) => taken,
            Err(NotTaken::Unsettled) => Taken::Unsettled,
            Err(NotTaken::Later(why)) => Taken::Later(why),
            Err(NotTaken::Never(why)) => Taken::Never(why),
        }
    }

    async fn try_take(
        &self,
        way: &Way,
        found: &Found,
        document: Option<Document>,
    ) -> Result<Taken, NotTaken> {
        let (file, hash) = hashed(way, found).await?;
        if let Some(document) = document.filter(|known| known.is_begun && known.hash == hash) {
            return Ok(Taken::Unchanged(document));
        }
        let blob = BlobRef { hash, len: found.stat.size };
        let tenant: Arc<str> = way.scope.tenant.as_str().into();
        self.keep(&tenant, blob, file).await?;
        let source = walk::full_path(&way.root, &found.path);
        let name = source.rsplit('/').next().unwrap_or_default().to_owned();
        let new = NewFile {
            scope: way.scope.clone(),
            media_type: media_type(&name).to_owned(),
            source,
            name,
            file: blob,
            again: false,
            gate: Gate::default(),
        };
        let of = |id| Document { id, hash, is_begun: true };
        Ok(match self.documents.add(new).await? {
            Added::Enqueued { at, is_new: true, .. } => Taken::Added(of(at.document)),
            // An item that was lost is no new content.
            Added::Enqueued { at, .. } if document.is_some_and(|known| known.hash == hash) => {
                Taken::Unchanged(of(at.document))
            }
            Added::Enqueued { at, .. } => Taken::Changed(of(at.document)),
            Added::Unchanged { at } => Taken::Unchanged(of(at.document)),
            Added::Deleting { .. } => {
                return Err(NotTaken::Later("its document is being deleted just now".into()));
            }
        })
    }

    /// Stores the bytes of a file, unless they are here.
    async fn keep(&self, tenant: &Arc<str>, blob: BlobRef, file: File) -> Result<(), NotTaken> {
        let store = self.queue.store();
        let stored = store.find(tenant, blob.hash).await?;
        if stored.is_some_and(|stored| stored.blob == blob)
            && known(&self.queue, tenant, blob).await.is_ok()
        {
            return Ok(());
        }
        let new = NewUpload { tenant: Arc::clone(tenant), len: blob.len, hash: Some(blob.hash) };
        let id = store.begin(new, self.queue.clock().now()).await?;
        let stored = async {
            let (mut file, mut offset) = (file, 0);
            while offset < blob.len {
                let piece;
                (file, piece) = read(file).await?;
                if piece.is_empty() {
                    return Err(NotTaken::Unsettled);
                }
                offset = match store.append(id, offset, &piece, self.queue.clock().now()).await {
                    Err(BlobError::TooLong { .. }) => return Err(NotTaken::Unsettled),
                    appended => appended?,
                };
            }
            finish(&self.queue, tenant, id).await?;
            Ok(())
        };
        let stored = stored.await;
        if stored.is_err() {
            // If it stays, it is found after a day.
            let _given_up = store.abandon(id).await;
        }
        stored
    }
}

/// Opens a file and hashes it. Gives it at its beginning.
async fn hashed(way: &Way, found: &Found) -> Result<(File, Hash), NotTaken> {
    let (root, below, stat) = (PathBuf::from(&way.root), found.path.clone(), found.stat);
    let hash = move || -> Result<(File, Hash), NotTaken> {
        let (mut file, now) = walk::open(&root, &below)?;
        if now != stat {
            return Err(NotTaken::Unsettled);
        }
        let (mut sum, mut piece) = (Sha256::new(), vec![0; PIECE]);
        loop {
            match file.read(&mut piece)? {
                0 => break,
                count => sum.update(&piece[..count]),
            }
        }
        if walk::stat(&file)? != stat {
            return Err(NotTaken::Unsettled);
        }
        file.rewind()?;
        Ok((file, sum.finalize().into()))
    };
    spawn_blocking(hash).await.map_err(|_| NotTaken::Later("reading it was given up".into()))?
}

/// The next bytes of a file; none at its end.
async fn read(mut file: File) -> Result<(File, Vec<u8>), NotTaken> {
    let read = move || {
        let mut piece = Vec::with_capacity(WRITTEN);
        file.by_ref().take(WRITTEN as u64).read_to_end(&mut piece)?;
        Ok((file, piece))
    };
    spawn_blocking(read).await.map_err(|_| NotTaken::Later("reading it was given up".into()))?
}
