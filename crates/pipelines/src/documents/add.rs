//! Adding: a file is taken into the catalog and enqueued.
//!
//! The same file again is no work. A new version of it is another generation; the one before stays
//! until the new one is whole.

use uuid::Uuid;
use windrow_core::command::{EnqueueOutcome, Enqueued, NewItem, OnDuplicate, OnSplit};
use windrow_core::item::{BlobRef, Body, Payload};
use windrow_core::queue::{Error, Queue};
use windrow_core::{ItemId, Timestamp};

use super::{About, DOCUMENT, Gate, QUEUE};
use crate::catalog::{
    self, Catalog, CatalogError, Content, Document, Generation, GenerationKey, GenerationState,
    NewDocument, Scope,
};

/// A file to take in. Its content is stored already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewFile {
    pub scope: Scope,
    /// Where it is from: what is added from the same place again is the same document.
    pub source: String,
    pub name: String,
    pub media_type: String,
    pub file: BlobRef,
    /// Does it again though it has not changed.
    pub again: bool,
    /// What its pages and chunks wait for. One that is enqueued already goes on as it began.
    pub gate: Gate,
}

/// What became of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Added {
    /// It is enqueued.
    Enqueued { at: GenerationKey, item: ItemId, is_new: bool },
    /// It is known, and nothing is to be done: it is live, or being built.
    Unchanged { at: GenerationKey },
    /// It is being deleted; it can be added once that is done.
    Deleting { document: Uuid },
}

/// Why a file was not added. What is in the catalog by then does no harm: to add it again goes on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAdded {
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[error(transparent)]
    Queue(#[from] Error),
}

/// Takes a file in.
pub async fn add<Q: Queue>(
    queue: &Q,
    catalog: &dyn Catalog,
    id: Uuid,
    file: NewFile,
    now: Timestamp,
) -> Result<Added, NotAdded> {
    let content = Content {
        hash: file.file.hash,
        media_type: file.media_type.clone(),
        bytes: file.file.len,
        place: String::new(),
    };
    let new = NewDocument {
        id,
        scope: file.scope.clone(),
        source: file.source.clone(),
        name: file.name.clone(),
        content,
        again: file.again,
    };
    let (at, is_new) = match catalog.add_document(new, now).await? {
        catalog::Added::New(at) => (at, true),
        catalog::Added::Changed(at) => (at, false),
        catalog::Added::Unchanged(at, GenerationState::Live | GenerationState::Old) => {
            return Ok(Added::Unchanged { at });
        }
        // Its item may have been lost before it was enqueued; its key makes sure that there is one.
        catalog::Added::Unchanged(at, GenerationState::Building) => (at, false),
        catalog::Added::Deleting(document) => return Ok(Added::Deleting { document }),
    };
    let enqueued = enqueue(queue, catalog, &file, at).await?;
    Ok(match enqueued.outcome {
        EnqueueOutcome::Duplicate => Added::Unchanged { at },
        _ => Added::Enqueued { at, item: enqueued.id, is_new },
    })
}

/// Enqueues the newest generation of a document that waits to be built, though nobody does. Its
/// file must be known to the queue. None if it is not one to be built.
pub async fn resume<Q: Queue>(
    queue: &Q,
    catalog: &dyn Catalog,
    known: &Document,
    gate: Gate,
) -> Result<Option<ItemId>, NotAdded> {
    let building = |newest: &&Generation| newest.state == GenerationState::Building;
    let Some(newest) = known.newest.as_ref().filter(building) else { return Ok(None) };
    let file = NewFile {
        scope: known.scope.clone(),
        source: known.source.clone(),
        name: known.name.clone(),
        media_type: newest.content.media_type.clone(),
        file: BlobRef { hash: newest.content.hash, len: newest.content.bytes },
        again: false,
        gate,
    };
    let at = GenerationKey { document: known.id, generation: newest.number };
    Ok(Some(enqueue(queue, catalog, &file, at).await?.id))
}

async fn enqueue<Q: Queue>(
    queue: &Q,
    catalog: &dyn Catalog,
    file: &NewFile,
    at: GenerationKey,
) -> Result<Enqueued, NotAdded> {
    let mut each = queue.enqueue(vec![item(file, at)], None).await?;
    let enqueued = match each.pop() {
        Some(Ok(enqueued)) => enqueued,
        Some(Err(refused)) => return Err(Error::Refused(refused).into()),
        None => return Err(Error::OutcomeUnknown("the queue did not answer".into()).into()),
    };
    // If this is not written it is built all the same; whoever starts or adds it again notes it.
    catalog.note_item(at, enqueued.id).await?;
    Ok(enqueued)
}

/// The item of a generation. Its key is the document: a newer generation supersedes an older one.
fn item(file: &NewFile, at: GenerationKey) -> NewItem {
    let about = About {
        document: at.document,
        generation: at.generation,
        name: file.name.clone(),
        media_type: file.media_type.clone(),
        file: file.file.hash,
        bytes: file.file.len,
        page: None,
    };
    let body = Body {
        kind: DOCUMENT.into(),
        key: Some(at.document.to_string()),
        collection: Some(file.scope.collection.as_str().into()),
        source_type: Some("file".into()),
        source_info: Some(file.source.clone()),
        reference: Some(at.document.to_string()),
        route: file.gate.document(),
        content_type: Some(file.media_type.as_str().into()),
        payload: Payload::Blob(file.file),
        metadata: Some(about.text()),
        ..Body::new(file.scope.tenant.as_str(), QUEUE)
    };
    NewItem {
        on_duplicate: OnDuplicate::Replace,
        on_split: OnSplit::Supersede,
        ..NewItem::new(body)
    }
}
