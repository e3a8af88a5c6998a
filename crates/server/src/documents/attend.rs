//! Work that the catalog wants done and the queue does not know.
//!
//! A restored catalog is newer than the queue beside it, and a process may be killed after it wrote
//! to one and before it wrote to the other. Anybody may settle an item, too, and say that what was
//! not done is. So whoever starts looks once through the documents: what waits to be built is
//! enqueued, what is being deleted is let go, and what became old is removed. Every step may be
//! repeated. Leaves alone what others may be about to enqueue, and what failed or was cancelled.

use std::collections::HashMap;
use std::sync::Arc;

use windrow_core::ItemId;
use windrow_core::find::Filter;
use windrow_core::item::{BlobRef, End, State, Status};
use windrow_core::ports::Store as _;
use windrow_engine::Clock as _;
use windrow_pipelines::catalog::{
    Document, DocumentState, Generation, GenerationKey, GenerationState,
};
use windrow_pipelines::documents::{DOCUMENT, QUEUE, Task, remove, resume};
use windrow_store::blobs::BlobError;

use super::{Beside, Documents, LOOK_EVERY, Opened};
use crate::blobs::{NotKept, known};
use crate::logs;

/// Documents or items that are looked at together.
const SLICE: u32 = 500;
/// Servers that share a database may be about to enqueue what was added so shortly ago.
const UNDER_WAY_MS: u64 = 60_000;

/// What has not ended yet of documents, by what it is to do.
type Live = HashMap<Task, ItemId>;

impl Documents {
    /// Looks once, and again if that did not work.
    pub(super) async fn attend(&self) {
        let mut is_well = true;
        loop {
            match self.attended().await {
                Ok(0) => return,
                Ok(documents) => return logs::documents_resumed(documents),
                Err(error) => {
                    if std::mem::replace(&mut is_well, false) {
                        logs::documents_not_resumed(&error);
                    }
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Says of how many documents it took care.
    async fn attended(&self) -> anyhow::Result<usize> {
        let opened = self.opened().await?;
        let (mut after, mut live, mut cared) = (None, None, 0);
        loop {
            let some = opened.catalog.unfinished(after, SLICE).await?;
            let Some(last) = some.last() else { break };
            after = Some(last.id);
            for document in &self.unattended(opened, some).await? {
                // Asked for only if there is something to compare it with, and after it was seen:
                // what was enqueued since then is in it.
                let live = match &mut live {
                    Some(live) => live,
                    none => none.insert(self.live().await?),
                };
                cared += usize::from(self.care(opened, document, live).await?);
            }
        }
        opened.at_hand.remove_all_old().await?;
        Ok(cared)
    }

    /// Those of which nobody takes care, as they are now.
    async fn unattended(
        &self,
        opened: &Opened,
        mut some: Vec<Document>,
    ) -> anyhow::Result<Vec<Document>> {
        some.retain(|document| !self.is_under_way(document));
        let ids: Vec<ItemId> = some.iter().filter_map(noted).collect();
        let items = self.queue.store().inspect_all(&ids).await?;
        let items: HashMap<ItemId, State> =
            items.into_iter().map(|seen| (seen.item.id, seen.item.state)).collect();
        let mut unattended = Vec::new();
        for document in some {
            let Some(item) = noted(&document) else {
                unattended.push(document);
                continue;
            };
            // Whoever builds it publishes it before the item ends: if nobody did by now, nobody
            // will. What did not end well is left alone, and so is what is past its keeping: nobody
            // knows how that ended.
            if items.get(&item) == Some(&State::Done(End::Completed)) {
                let now = opened.catalog.document(&document.scope.tenant, document.id).await?;
                unattended.extend(now.filter(is_unfinished));
            }
        }
        Ok(unattended)
    }

    /// Whether somebody may just be at it.
    fn is_under_way(&self, document: &Document) -> bool {
        let newest = document.newest.as_ref().map(|newest| newest.added_at);
        let at = document.changed_at.max(newest.unwrap_or(document.added_at));
        match self.beside {
            // Whoever else was at it is gone with its process.
            Beside::Directory(_) => at >= self.since,
            Beside::Database(_) => at.0 + UNDER_WAY_MS > self.queue.clock().now().0,
        }
    }

    async fn live(&self) -> anyhow::Result<Live> {
        let filter = Filter {
            queue: Some(QUEUE.into()),
            kind: Some(DOCUMENT.into()),
            statuses: vec![Status::Pending, Status::Processing],
            split_is_processing: true,
            ..Filter::default()
        };
        let (mut live, mut after) = (Live::new(), None);
        loop {
            let page = self.queue.store().find(&filter, after, SLICE as usize, &|| false).await?;
            let ids: Vec<ItemId> = page.items.iter().map(|listed| listed.item.id).collect();
            for seen in self.queue.store().inspect_all(&ids).await? {
                live.extend(Task::of(&seen.body).map(|task| (task, seen.item.id)));
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(live),
            }
        }
    }

    /// Whether there was something to do.
    async fn care(
        &self,
        opened: &Opened,
        document: &Document,
        live: &Live,
    ) -> anyhow::Result<bool> {
        let (queue, catalog, tenant) = (&self.queue, &*opened.catalog, &document.scope.tenant);
        if document.state == DocumentState::Deleting {
            if live.contains_key(&Task::Remove(document.id)) {
                return Ok(false);
            }
            let now = queue.clock().now();
            return Ok(remove(&**queue, catalog, tenant, document.id, now).await?.is_some());
        }
        let Some(newest) = &document.newest else { return Ok(false) };
        let at = GenerationKey { document: document.id, generation: newest.number };
        if let Some(item) = live.get(&Task::Build(at)) {
            catalog.note_item(at, *item).await?;
            return Ok(false);
        }
        let file = BlobRef { hash: newest.content.hash, len: newest.content.bytes };
        // Another server may have begun at the same time.
        let now = catalog.document(tenant, document.id).await?;
        if now.is_none_or(|now| noted(&now) != noted(document) || !is_unfinished(&now)) {
            return Ok(false);
        }
        match known(queue, &Arc::from(tenant.as_str()), file).await {
            Ok(()) => {}
            Err(NotKept::Blobs(BlobError::Gone | BlobError::NotFound)) => {
                let why = "its file is gone; add it again".to_owned();
                catalog.fail_generation(at, Some(why)).await?;
                return Ok(true);
            }
            Err(NotKept::Blobs(error)) => return Err(error.into()),
            Err(NotKept::Queue(failure)) => anyhow::bail!("{failure:?}"),
        }
        Ok(resume(&**queue, catalog, document, self.config.gate).await?.is_some())
    }
}

/// The item that is noted to build its newest generation; none of one that is being deleted.
fn noted(document: &Document) -> Option<ItemId> {
    let is_deleting = document.state == DocumentState::Deleting;
    document.newest.as_ref().filter(|_| !is_deleting)?.item
}

fn is_unfinished(document: &Document) -> bool {
    let waits =
        |newest: &Generation| newest.state == GenerationState::Building && newest.failure.is_none();
    document.state == DocumentState::Deleting || document.newest.as_ref().is_some_and(waits)
}
