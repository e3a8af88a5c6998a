//! The store as the engine sees it, and the questions that it answers without writing.

use std::sync::Arc;

use windrow_core::change::Lease;
use windrow_core::command::{Answer, Command, Request, Scope};
use windrow_core::explain::{Explanation, explain};
use windrow_core::find::{Configured, Filter, Page};
use windrow_core::ledger::Ledger;
use windrow_core::note::Note;
use windrow_core::ports::{Count, Enough, Inspected, Listener, Now, Store, StoreError, Work};
use windrow_core::refusal::Refusal;
use windrow_core::resource::Resource;
use windrow_core::rules::forecast::forecast;
use windrow_core::settings::Settings;
use windrow_core::vitals::{Standing, Vitals};
use windrow_core::{Item, ItemId, LeaseId, Timestamp};

use super::Embedded;
use super::tables::Tables;

impl Embedded {
    /// Looks at the tables, and waits until what was seen is durable.
    pub(super) async fn look<T>(
        &self,
        look: impl FnOnce(&mut Tables) -> Result<T, Refusal>,
    ) -> Result<T, StoreError> {
        let (seen, group) = {
            let mut tables = self.shared.tables.lock();
            // What stopped it may have left memory ahead of the log, so nothing of it is shown.
            if let Some(why) = self.poisoned() {
                return Err(StoreError::Poisoned(why));
            }
            (look(&mut tables), tables.observed())
        };
        self.shared.durable.until(group).await.map_err(StoreError::Poisoned)?;
        seen.map_err(|refusal| StoreError::NotApplied(refusal.to_string()))
    }
}

impl Store for Embedded {
    async fn submit(&self, batch: Vec<Request>, now: Now) -> Result<Vec<Answer<Work>>, StoreError> {
        match now {
            Now::Given(now) => self.submit_batch(batch, now).await,
            Now::Database => {
                Err(StoreError::NotApplied("an embedded store is given its time".into()))
            }
        }
    }

    async fn inspect(&self, id: ItemId) -> Result<Option<Inspected>, StoreError> {
        self.look(|tables| tables.inspect(id)).await
    }

    async fn explain(&self, id: ItemId, now: Timestamp) -> Result<Option<Explanation>, StoreError> {
        self.look(|tables| match explain(tables, id, now) {
            Ok(explanation) => Ok(Some(explanation)),
            Err(Refusal::NotFound { .. }) => Ok(None),
            Err(refusal) => Err(refusal),
        })
        .await
    }

    async fn forecast(
        &self,
        command: &Command,
        now: Timestamp,
    ) -> Result<Result<(), Refusal>, StoreError> {
        self.look(|tables| Ok(forecast(tables, command, now))).await
    }

    async fn children(
        &self,
        id: ItemId,
        from: u32,
        limit: usize,
    ) -> Result<Vec<ItemId>, StoreError> {
        self.look(|tables| {
            let item = tables.item(id)?;
            Ok(item.map_or(Vec::new(), |item| tables.children(id, item.generation, from, limit)))
        })
        .await
    }

    async fn items(&self, after: Option<ItemId>, limit: usize) -> Result<Vec<Item>, StoreError> {
        self.look(|tables| {
            let after = after.map_or(0, |id| id.serial());
            let live = tables.slab.iter().map(|(_, slot)| slot.serial);
            let ended = tables.history.iter().map(|entry| entry.serial);
            let mut serials: Vec<u64> = live.chain(ended).filter(|s| *s > after).collect();
            serials.sort_unstable();
            serials.truncate(limit);
            let items = serials.into_iter().map(|serial| tables.item(tables.id(serial)));
            items.filter_map(Result::transpose).collect()
        })
        .await
    }

    async fn live(&self, after: Option<ItemId>, limit: usize) -> Result<Vec<Item>, StoreError> {
        self.look(|tables| {
            let serials = tables.slab.after(after.map_or(0, ItemId::serial)).take(limit);
            let slots = serials.filter_map(|serial| tables.slab.find(serial));
            Ok(slots.map(|no| tables.item_in(no)).collect())
        })
        .await
    }

    async fn find(
        &self,
        filter: &Filter,
        after: Option<ItemId>,
        limit: usize,
        enough: Enough<'_>,
    ) -> Result<Page, StoreError> {
        self.find_items(filter, after, limit, enough).await
    }

    async fn configured(&self) -> Result<Configured, StoreError> {
        self.look(|tables| {
            let named = |(queue, settings): (&u32, &Arc<Settings>)| {
                (Arc::clone(tables.names.text(*queue)), Settings::clone(settings))
            };
            let mut settings: Vec<_> = tables.settings.iter().map(named).collect();
            settings.sort_by(|a, b| a.0.cmp(&b.0));
            let mut paused: Vec<Scope> = tables.pauses.scopes.iter().cloned().collect();
            paused.sort();
            Ok(Configured { settings, paused })
        })
        .await
    }

    async fn counts(&self) -> Result<Vec<Count>, StoreError> {
        let tables = self.shared.tables.lock();
        let text = |no: u32| Arc::clone(tables.names.text(no));
        let counts = tables.owners.counts();
        let mut counts: Vec<Count> = counts
            .map(|(queue, tenant, status, items)| Count {
                queue: text(queue),
                tenant: text(tenant),
                status,
                items,
            })
            .collect();
        counts.sort();
        Ok(counts)
    }

    async fn leases(&self) -> Result<Vec<Lease>, StoreError> {
        Ok(self.shared.tables.lock().leases.iter().cloned().collect())
    }

    async fn held_by(
        &self,
        leases: &[LeaseId],
        limit: usize,
    ) -> Result<Vec<(LeaseId, Vec<ItemId>)>, StoreError> {
        self.look(|tables| {
            let held = leases.iter().map(|lease| {
                let slots = tables.leases.slots(&tables.slab, *lease).into_iter().take(limit);
                (*lease, slots.map(|no| tables.id(tables.slab.get(no).serial)).collect::<Vec<_>>())
            });
            Ok(held.filter(|(_, items)| !items.is_empty()).collect())
        })
        .await
    }

    async fn notes(&self, shelf: &str) -> Result<Vec<Note>, StoreError> {
        self.look(|tables| Ok(tables.notes.on(shelf))).await
    }

    async fn resources(&self) -> Result<Vec<(Arc<str>, Resource)>, StoreError> {
        let known = |tables: &Tables| {
            tables.gates.iter().map(|(name, state)| (Arc::clone(name), *state)).collect()
        };
        let mut known: Vec<(Arc<str>, Resource)> = self.look(|tables| Ok(known(tables))).await?;
        known.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(known)
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let mut tables = self.shared.tables.lock();
        let delayed = tables.delayed.peek().map(|entry| Timestamp(entry.0.0));
        let closed = tables.gates.values().map(|resource| resource.closed_until);
        let gate = closed.filter(|until| *until > tables.now).min();
        let lease = tables.leases.next();
        Ok([delayed, lease, gate].into_iter().flatten().min())
    }

    async fn vitals(&self, now: Timestamp) -> Result<Vitals, StoreError> {
        self.look_after(now).await
    }

    async fn stages(&self, _now: Timestamp, _most: u64) -> Result<Vec<Standing>, StoreError> {
        self.look(|tables| Ok(tables.standings())).await
    }

    async fn advance(&self, now: Timestamp) -> Result<(), StoreError> {
        {
            let mut tables = self.shared.tables.lock();
            tables.advance(now);
            let group = tables.observed();
            tables.tell_later(group);
        }
        self.shared.tell();
        Ok(())
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        *self.shared.listener.write() = Some(listener);
        let mut tables = self.shared.tables.lock();
        tables.notices.wanted = true;
        tables.lanes.watched = true;
    }
}
