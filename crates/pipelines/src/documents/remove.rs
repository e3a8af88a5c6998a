//! Removing: a document goes from everywhere.
//!
//! From the moment that somebody asks for it, search does not see it. The rest is an item under the
//! document's key, so that it waits for nobody who is still at it and is tried until every sink has
//! confirmed; only then the document itself is gone. An item is believed only as far as the catalog
//! says the same: it may be anybody's.

use uuid::Uuid;
use windrow_client::worker::{Job, Unread};
use windrow_core::command::{NewItem, OnDuplicate, OnSplit};
use windrow_core::item::Body;
use windrow_core::queue::Queue;
use windrow_core::{ItemId, Timestamp};

use super::add::{NotAdded, enqueue};
use super::at_hand::SINKS;
use super::fault::Fault;
use super::{About, DOCUMENT, Gate, Parts, QUEUE};
use crate::catalog::{Catalog, Document};

/// What an item is to do with its document.
pub(super) const DELETE: &str = "delete";

/// Lets a document go. None if there is none.
pub async fn remove<Q: Queue>(
    queue: &Q,
    catalog: &dyn Catalog,
    tenant: &str,
    document: Uuid,
    now: Timestamp,
) -> Result<Option<ItemId>, NotAdded> {
    let Some(known) = catalog.document(tenant, document).await? else { return Ok(None) };
    let sinks = SINKS.map(str::to_owned).to_vec();
    if !catalog.begin_delete(tenant, document, sinks, now).await? {
        return Ok(None);
    }
    Ok(Some(enqueue(queue, item(tenant, &known)).await?))
}

pub(super) fn item(tenant: &str, known: &Document) -> NewItem {
    let newest = known.newest.as_ref();
    let about = About {
        document: known.id,
        generation: newest.map_or(0, |newest| newest.number),
        name: known.name.clone(),
        media_type: newest.map(|newest| newest.content.media_type.clone()).unwrap_or_default(),
        file: newest.map(|newest| newest.content.hash).unwrap_or_default(),
        bytes: newest.map_or(0, |newest| newest.content.bytes),
        page: None,
    };
    let body = Body {
        kind: DOCUMENT.into(),
        op: DELETE.into(),
        key: Some(known.id.to_string()),
        collection: Some(known.scope.collection.as_str().into()),
        source_info: Some(known.source.clone()),
        reference: Some(known.id.to_string()),
        // One for adding it: either may take the other's place while it waits, and keeps its route.
        route: Gate::Item.document(),
        metadata: Some(about.text()),
        ..Body::new(tenant, QUEUE)
    };
    let (on_duplicate, on_split) = (OnDuplicate::Replace, OnSplit::Supersede);
    NewItem { on_duplicate, on_split, ..NewItem::new(body) }
}

/// Whether an item lets its document go.
pub(super) fn is_removal(job: &Job<Unread>) -> bool {
    job.op() == DELETE
}

impl Parts {
    /// Removes a document everywhere; false if nobody asked for it.
    pub(super) async fn remove_document(
        &self,
        tenant: &str,
        document: Uuid,
    ) -> Result<bool, Fault> {
        let removed = self.keeping.remove_document(tenant, document).await;
        removed.map_err(|error| Fault::from(error).patiently())
    }
}
