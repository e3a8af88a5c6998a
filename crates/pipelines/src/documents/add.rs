//! Adding: a file is taken into the catalog and enqueued.
//!
//! The same file again is no work. A new version of it is another generation; the one before stays
//! until the new one is whole.

use uuid::Uuid;
use windrow_core::command::{NewItem, OnDuplicate, OnSplit};
use windrow_core::item::{BlobRef, Body, Payload, Status};
use windrow_core::queue::{Error, Queue};
use windrow_core::{ItemId, Timestamp};

use super::{About, DOCUMENT, Gate, QUEUE, remove};
use crate::catalog::{
    self, Catalog, CatalogError, Content, Document, DocumentState, Generation, GenerationKey,
    GenerationState, NewDocument, Scope,
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
        // Its item may have been lost before it was enqueued.
        catalog::Added::Unchanged(at, GenerationState::Building) => {
            if is_being_built(queue, catalog, &file.scope.tenant, at).await? {
                return Ok(Added::Unchanged { at });
            }
            (at, false)
        }
        catalog::Added::Deleting(document) => return Ok(Added::Deleting { document }),
    };
    let item = enqueue(queue, item(&file, at)).await?;
    // If this is not written it is built all the same, and to add it again writes it.
    catalog.note_item(at, item).await?;
    give_way(queue, catalog, &file, at).await?;
    Ok(Added::Enqueued { at, item, is_new })
}

/// Whether the item that builds a generation has not ended.
async fn is_being_built<Q: Queue>(
    queue: &Q,
    catalog: &dyn Catalog,
    tenant: &str,
    at: GenerationKey,
) -> Result<bool, NotAdded> {
    let known = catalog.generation(tenant, at).await?;
    let Some(item) = known.and_then(|known| known.item) else { return Ok(false) };
    let seen = queue.inspect(item).await?;
    Ok(seen.is_some_and(|seen| matches!(seen.status, Status::Pending | Status::Processing)))
}

/// Makes good for what this item replaced if somebody else was quicker: between the catalog and the
/// queue a newer version may have been added, or the document deleted.
async fn give_way<Q: Queue>(
    queue: &Q,
    catalog: &dyn Catalog,
    file: &NewFile,
    at: GenerationKey,
) -> Result<(), NotAdded> {
    let tenant = &file.scope.tenant;
    let Some(known) = catalog.document(tenant, at.document).await? else { return Ok(()) };
    if known.state == DocumentState::Deleting {
        enqueue(queue, remove::item(tenant, &known)).await?;
        return Ok(());
    }
    if known.newest.as_ref().is_some_and(|newest| newest.number > at.generation) {
        resume(queue, catalog, &known, file.gate).await?;
    }
    Ok(())
}

/// Enqueues the newest generation of a document that waits to be built, though nobody does. None if
/// it is not one to be built.
pub async fn resume<Q: Queue>(
    queue: &Q,
    catalog: &dyn Catalog,
    known: &Document,
    gate: Gate,
) -> Result<Option<ItemId>, NotAdded> {
    let building = |newest: &&Generation| newest.state == GenerationState::Building;
    let Some(newest) = known.newest.as_ref().filter(building) else { return Ok(None) };
    let at = GenerationKey { document: known.id, generation: newest.number };
    let file = NewFile {
        scope: known.scope.clone(),
        source: known.source.clone(),
        name: known.name.clone(),
        media_type: newest.content.media_type.clone(),
        file: BlobRef { hash: newest.content.hash, len: newest.content.bytes },
        again: false,
        gate,
    };
    let mut item = item(&file, at);
    // The queue may have let go of the file with an item before; the catalog keeps it.
    item.body.payload = Payload::default();
    let item = enqueue(queue, item).await?;
    catalog.note_item(at, item).await?;
    Ok(Some(item))
}

/// Enqueues one item.
pub(super) async fn enqueue<Q: Queue>(queue: &Q, item: NewItem) -> Result<ItemId, Error> {
    match queue.enqueue(vec![item], None).await?.pop() {
        Some(Ok(enqueued)) => Ok(enqueued.id),
        Some(Err(refused)) => Err(Error::Refused(refused)),
        None => Err(Error::OutcomeUnknown("the queue did not answer".into())),
    }
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
