//! What is above an item, and what that means for it: trees end, go and come back as a whole.

use std::collections::HashMap;
use std::sync::Arc;

use windrow_core::command::Command;
use windrow_core::find::{self, Listed};
use windrow_core::item::{End, Marks, State};
use windrow_core::ports::{Inspected, Store as _, StoreError};
use windrow_core::{Item, ItemId, Refusal, Timestamp};

use super::{Document, Verb};
use crate::http::Mode;
use crate::store::AnyStore;

/// What is to become of an item.
#[derive(Debug)]
pub(super) enum Fate {
    /// The verb is done to it.
    Own,
    /// It goes, or comes back, with what is above it, to which the verb is done too.
    WithAbove,
    /// What is above it is gone, and it with that.
    Gone,
    /// The verb is not about it.
    PassedOver,
    Refused(Refusal),
}

/// For so many trees it is remembered whether they come back.
const REMEMBERED: usize = 1_000;

/// What is known of the items above those of a slice: siblings have the same.
pub(super) struct Above<'a> {
    store: &'a AnyStore,
    known: HashMap<ItemId, Option<Arc<Inspected>>>,
    /// Why those that were asked about, also by slices before, would not be run again: for that
    /// the rules look at all that is below one.
    refused: HashMap<ItemId, Option<Refusal>>,
}

impl<'a> Above<'a> {
    pub(super) fn of(store: &'a AnyStore) -> Above<'a> {
        Above { store, known: HashMap::new(), refused: HashMap::new() }
    }

    /// What is above the next items may have changed.
    pub(super) fn begin_slice(&mut self) {
        self.known.clear();
        if self.refused.len() > REMEMBERED {
            self.refused.clear();
        }
    }

    async fn find(&mut self, id: ItemId) -> Result<Option<Arc<Inspected>>, StoreError> {
        if let Some(known) = self.known.get(&id) {
            return Ok(known.clone());
        }
        let found = self.store.inspect(id).await?.map(Arc::new);
        self.known.insert(id, found.clone());
        Ok(found)
    }

    /// The root of an item's tree; none if it is gone.
    async fn root(&mut self, item: &Item) -> Result<Option<Arc<Inspected>>, StoreError> {
        let mut id = item.id;
        let mut place = item.place;
        while let Some(inside) = place {
            id = inside.parent;
            let Some(above) = self.find(id).await? else { return Ok(None) };
            place = above.item.place;
        }
        self.find(id).await
    }

    /// Why an item would not be run again, if the rules say so. One that is back already is.
    async fn refusal_of_above(
        &mut self,
        document: &Document,
        item: &Item,
        now: Timestamp,
    ) -> Result<Option<Refusal>, StoreError> {
        if let Some(known) = self.refused.get(&item.id) {
            return Ok(known.clone());
        }
        let mode = document.mode.of(item);
        let command = Command::Retry { items: vec![item.id], mode, from_stage: None };
        let refusal = self.store.forecast(&command, now).await?.err();
        let refusal = refusal.filter(|refusal| !matches!(refusal, Refusal::StillLive { .. }));
        self.refused.insert(item.id, refusal.clone());
        Ok(refusal)
    }

    /// What is to become of an item, given what was asked for.
    pub(super) async fn fate(
        &mut self,
        document: &Document,
        asked: &find::Filter,
        listed: &Listed,
        now: Timestamp,
    ) -> Result<Fate, StoreError> {
        let fate = match document.refusal_of(listed, now) {
            Some(refusal) => Fate::Refused(refusal),
            None if listed.item.is_root() => Fate::Own,
            None => match document.verb {
                Verb::Delete => self.fate_of_deleted(asked, &listed.item).await?,
                Verb::Retry => self.fate_of_retried(document, asked, &listed.item, now).await?,
                Verb::Cancel | Verb::Prioritise => Fate::Own,
            },
        };
        Ok(match fate {
            Fate::Refused(refusal) if Document::passes_over(asked, &refusal) => Fate::PassedOver,
            // The rules say so of what is ending already.
            Fate::Refused(Refusal::StillLive { item, .. })
                if item == listed.item.id && listed.item.has(Marks::CANCELLING) =>
            {
                Fate::Refused(Refusal::UnderCancelled { ancestor: item })
            }
            fate => fate,
        })
    }

    /// What is part of a tree is not deleted by itself, but with its root, if that is asked for
    /// too: then the one is answered as the other is.
    async fn fate_of_deleted(
        &mut self,
        asked: &find::Filter,
        item: &Item,
    ) -> Result<Fate, StoreError> {
        let Some(root) = self.root(item).await? else { return Ok(Fate::Gone) };
        let (id, status) = (root.item.id, root.status());
        Ok(match (asked.admits(&root), root.item.is_done()) {
            (true, true) => Fate::WithAbove,
            (true, false) => Fate::Refused(Refusal::StillLive { item: id, status }),
            (false, _) => Fate::Refused(Refusal::NotARoot { item: item.id }),
        })
    }

    /// What a clone of its root has too is not run again by itself. What was cancelled with its
    /// tree comes back with that, if that comes back, and with nothing else.
    async fn fate_of_retried(
        &mut self,
        document: &Document,
        asked: &find::Filter,
        item: &Item,
        now: Timestamp,
    ) -> Result<Fate, StoreError> {
        if document.mode == Mode::Clone
            && let Some(root) = self.root(item).await?
            && root.item.is_done()
            && asked.admits(&root)
        {
            return Ok(Fate::PassedOver);
        }
        let (mut place, mut highest) = (item.place, None);
        while let Some(inside) = place {
            let Some(above) = self.find(inside.parent).await? else { return Ok(Fate::Gone) };
            let ancestor = inside.parent;
            let is_cancelled = above.item.state == State::Done(End::Cancelled);
            let is_left_behind = above.item.generation != inside.generation;
            if is_cancelled && !is_left_behind && asked.admits(&above) {
                highest = Some(Arc::clone(&above));
            } else if is_cancelled || is_left_behind || above.item.has(Marks::CANCELLING) {
                return Ok(Fate::Refused(Refusal::UnderCancelled { ancestor }));
            }
            place = above.item.place;
        }
        let Some(above) = highest else { return Ok(Fate::Own) };
        // What begins again with a stage leaves its children behind.
        if document.from_stage.is_some() {
            return Ok(Fate::PassedOver);
        }
        let refusal = self.refusal_of_above(document, &above.item, now).await?;
        Ok(refusal.map_or(Fate::WithAbove, Fate::Refused))
    }
}
