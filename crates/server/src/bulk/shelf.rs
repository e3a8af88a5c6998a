//! The shelf: documents of bulk work as notes in the store, each with a version, so that two who
//! change one cannot undo each other.

use std::sync::Arc;

use windrow_core::Refusal;
use windrow_core::note::{Expects, Note, WriteNote};
use windrow_core::ports::{Store as _, StoreError};
use windrow_engine::Failure;

use super::Document;
use crate::store::Queue;

/// The shelf's name.
const SHELF: &str = "operations";

/// A document on the shelf.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) name: Arc<str>,
    pub(crate) version: u64,
    pub(crate) document: Document,
}

/// Every document, by name. One that cannot be read was written by a newer server, and is its own.
pub(crate) async fn all(queue: &Queue) -> Result<Vec<Kept>, StoreError> {
    let read = |Note { name, version, body }| {
        let document = serde_json::from_slice(&body).ok()?;
        Some(Kept { name, version, document })
    };
    Ok(queue.store().notes(SHELF).await?.into_iter().filter_map(read).collect())
}

pub(crate) async fn read(queue: &Queue, name: &str) -> Result<Option<Kept>, StoreError> {
    Ok(all(queue).await?.into_iter().find(|kept| *kept.name == *name))
}

/// Writes a document, and says its version; none if it is not as `expects` has it.
pub(super) async fn write(
    queue: &Queue,
    name: &str,
    expects: Expects,
    document: &Document,
) -> Result<Option<u64>, Failure> {
    let body = serde_json::to_vec(document)
        .map_err(|error| Refusal::invalid("operation", error.to_string()))?;
    put(queue, name, expects, Some(body)).await
}

pub(super) async fn remove(queue: &Queue, kept: &Kept) -> Result<Option<u64>, Failure> {
    put(queue, &kept.name, Expects::Version(kept.version), None).await
}

async fn put(
    queue: &Queue,
    name: &str,
    expects: Expects,
    body: Option<Vec<u8>>,
) -> Result<Option<u64>, Failure> {
    let body = body.map(Arc::from);
    match queue.note(WriteNote { shelf: SHELF.into(), name: name.into(), expects, body }).await {
        Ok(version) => Ok(Some(version)),
        Err(Failure::Refused(Refusal::Changed { .. })) => Ok(None),
        Err(failure) => Err(failure),
    }
}
