//! The catalog of a backup, taken up beside the queue that was restored.
//!
//! It is newer than the queue, by as long as its copy was made after the log's end, and by more if
//! the queue was taken back to a moment. That does no harm: a stage that is done again writes the
//! same, what became of a later generation or of a document that was deleted since is refused and
//! ends its item, and what the catalog wants done and the queue does not know is enqueued when a
//! server starts (`documents/attend.rs`). For that, items are forgotten that the queue never made.

use std::path::Path;
use std::sync::Arc;

use windrow_core::Timestamp;
use windrow_core::item::BlobRef;
use windrow_pipelines::catalog::Sqlite;
use windrow_store::blobs::{BlobError, Blobs, Hex, hash_of};
use windrow_store::embedded::Embedded;

use super::at;

/// A catalog that is in its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// The moment of the backup that it is from.
    pub(super) at: Timestamp,
    pub(super) documents: u64,
    /// Files of documents that were gone before the backup.
    pub(super) missing: u64,
}

/// Checks a catalog as it was copied, by the name that it had, and takes it up. Says what is wrong
/// with the files of its documents.
pub(super) async fn take_up<B: Blobs>(
    path: &Path,
    (of, name): (Timestamp, &str),
    store: &Embedded,
    blobs: &B,
) -> anyhow::Result<(Taken, Vec<String>)> {
    let hash = Sqlite::hash(path).map_err(at(path))?;
    anyhow::ensure!(
        name == format!("catalog-{}.db", Hex(&hash)),
        "{name}: its bytes hash to {}; restore another moment",
        Hex(&hash)
    );
    let restored = Sqlite::restored(path, |item| store.has_made(item))?;
    let mut taken = Taken { at: of, documents: restored.documents, missing: 0 };
    let mut faults = Vec::new();
    for (tenant, hash, len) in restored.contents {
        let (tenant, blob) = (Arc::<str>::from(tenant), BlobRef { hash, len });
        match hash_of(blobs, &tenant, blob).await {
            Ok(is) if is == hash => {}
            // What is known of the document is known all the same.
            Err(BlobError::NotFound) => taken.missing += 1,
            Ok(is) => faults.push(format!("file {}: its bytes hash to {}", Hex(&hash), Hex(&is))),
            Err(error) => faults.push(format!("file {}: {error}", Hex(&hash))),
        }
    }
    Ok((taken, faults))
}
