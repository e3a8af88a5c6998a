//! What can be asked of the store without changing anything.

use std::sync::Arc;

use tokio_postgres::Row;
use uuid::Uuid;
use windrow_core::change::Lease;
use windrow_core::command::{Command, Request};
use windrow_core::explain::{Explanation, explain};
use windrow_core::find::{Configured, Filter, Page};
use windrow_core::item::{Marks, Status};
use windrow_core::note::Note;
use windrow_core::ports::{Count, Enough, Inspected, Lead, Listener, Now, Store, StoreError, Work};
use windrow_core::resource::Resource;
use windrow_core::rules::forecast::forecast;
use windrow_core::settings::Settings;
use windrow_core::vitals::{Standing, Vitals};
use windrow_core::{Answer, Item, ItemId, LeaseId, Ledger as _, Refusal, Timestamp};

use super::desk::Desk;
use super::load::{self, Loading};
use super::needs::Needs;
use super::notify::{Came, add};
use super::tx::{Failed, Tx, step};
use super::{Error, Postgres};

impl Postgres {
    /// Asks the desk, loading whatever turns out to be missing. Writes nothing.
    pub(super) async fn look<T>(
        &self,
        now: Timestamp,
        ask: impl Fn(&Desk) -> T,
    ) -> Result<T, Error> {
        loop {
            let mut tx = Tx::to_read(self.shared.pool.get().await?);
            let mut desk = self.desk(Now::Given(now));
            let mut loading = Loading { locks: false, ..self.loading(&mut tx, &mut desk, false) };
            let answer = self.consider(&mut loading, Needs::default(), |desk| ask(desk)).await;
            tx.roll_back().await;
            if !matches!(answer, Err(Error::Unnumbered)) {
                return answer;
            }
            self.number_lanes(&desk).await?;
        }
    }

    /// What exists, by id, after a given one.
    pub(super) async fn ids(
        &self,
        after: Option<ItemId>,
        limit: usize,
    ) -> Result<Vec<ItemId>, Error> {
        let client = self.shared.pool.get().await?;
        let sql = "select serial from (\
             (select serial from windrow.items where serial > $1 order by serial limit $2) \
             union (select serial from windrow.history where serial > $1 \
               order by serial limit $2)) s order by serial limit $2";
        let after = after.map_or(0, |id| id.serial() as i64);
        let limit = limit.min(i32::MAX as usize) as i64;
        let rows = client.query(step!(sql, after, limit)).await?;
        let id = |serial: i64| ItemId::from_serial(serial as u64, self.shared.tag);
        Ok(rows.iter().map(|row| id(row.get(0))).collect())
    }

    /// What has not ended, by id, after a given one.
    async fn live_ids(&self, after: Option<ItemId>, limit: usize) -> Result<Vec<ItemId>, Error> {
        let client = self.shared.pool.get().await?;
        let sql = "select serial from windrow.items where serial > $1 order by serial limit $2";
        let after = after.map_or(0, |id| id.serial() as i64);
        let rows = client.query(step!(sql, after, limit.min(i32::MAX as usize) as i64)).await?;
        let id = |serial: i64| ItemId::from_serial(serial as u64, self.shared.tag);
        Ok(rows.iter().map(|row| id(row.get(0))).collect())
    }
}

/// Everything about an item, as far as the desk has it.
pub(super) fn inspected(desk: &Desk, id: ItemId) -> Option<Inspected> {
    let item = desk.item(id).ok().flatten()?;
    Some(Inspected {
        item,
        body: desk.body(&item).ok()?,
        trail: desk.trail(&item).ok()?,
        tally: desk.tally(id).filter(|_| item.has(Marks::PARENT)).cloned(),
        successor: desk.successor(id),
    })
}

/// Whatever is parked is looked at again: settings may have changed while its group was in use.
/// Claims park it anew.
const UNPARK: &str = "with back as (update windrow.items set spot = 1 where serial in (\
         select serial from windrow.items where spot = 3 limit 10000 for update skip locked) \
       returning lane, class, tenant, serial) \
     insert into windrow.line select * from back returning lane, class, tenant, serial";

/// The note in a row.
pub(super) fn note(row: &Row) -> Note {
    Note {
        name: row.get::<_, &str>(0).into(),
        version: row.get::<_, i64>(1) as u64,
        body: row.get::<_, &[u8]>(2).into(),
    }
}

impl Store for Postgres {
    async fn submit(&self, batch: Vec<Request>, now: Now) -> Result<Vec<Answer<Work>>, StoreError> {
        self.submit_batch(batch, now).await
    }

    async fn inspect(&self, id: ItemId) -> Result<Option<Inspected>, StoreError> {
        Ok(self.look(Timestamp::ZERO, |desk| inspected(desk, id)).await?)
    }

    async fn inspect_all(&self, ids: &[ItemId]) -> Result<Vec<Inspected>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ask = |desk: &Desk| -> Vec<Inspected> {
            ids.iter().filter_map(|id| inspected(desk, *id)).collect()
        };
        Ok(self.look(Timestamp::ZERO, ask).await?)
    }

    async fn explain(&self, id: ItemId, now: Timestamp) -> Result<Option<Explanation>, StoreError> {
        match self.look(now, |desk| explain(desk, id, now)).await? {
            Ok(explanation) => Ok(Some(explanation)),
            Err(Refusal::NotFound { .. }) => Ok(None),
            Err(refusal) => Err(StoreError::NotApplied(refusal.to_string())),
        }
    }

    async fn forecast(
        &self,
        command: &Command,
        now: Timestamp,
    ) -> Result<Result<(), Refusal>, StoreError> {
        Ok(self.look(now, |desk| forecast(desk, command, now)).await?)
    }

    async fn children(
        &self,
        id: ItemId,
        from: u32,
        limit: usize,
    ) -> Result<Vec<ItemId>, StoreError> {
        let ask = |desk: &Desk| {
            let item = desk.item(id).ok().flatten();
            item.map_or(Vec::new(), |item| desk.children(id, item.generation, from, limit))
        };
        Ok(self.look(Timestamp::ZERO, ask).await?)
    }

    async fn items(&self, after: Option<ItemId>, limit: usize) -> Result<Vec<Item>, StoreError> {
        let ids = self.ids(after, limit).await?;
        let ask = |desk: &Desk| -> Vec<Item> {
            ids.iter().filter_map(|id| desk.item(*id).ok().flatten()).collect()
        };
        Ok(self.look(Timestamp::ZERO, ask).await?)
    }

    async fn live(&self, after: Option<ItemId>, limit: usize) -> Result<Vec<Item>, StoreError> {
        let ids = self.live_ids(after, limit).await?;
        let ask = |desk: &Desk| -> Vec<Item> {
            let items = ids.iter().filter_map(|id| desk.item(*id).ok().flatten());
            items.filter(|item| !item.is_done()).collect()
        };
        Ok(self.look(Timestamp::ZERO, ask).await?)
    }

    async fn find(
        &self,
        filter: &Filter,
        after: Option<ItemId>,
        limit: usize,
        enough: Enough<'_>,
    ) -> Result<Page, StoreError> {
        Ok(self.find_items(filter, after, limit, enough).await?)
    }

    async fn configured(&self) -> Result<Configured, StoreError> {
        let ask = |desk: &Desk| {
            let config = desk.config();
            let named = |(queue, set): (&Arc<str>, &Arc<Settings>)| {
                (Arc::clone(queue), Settings::clone(set))
            };
            let mut settings: Vec<_> = config.settings.iter().map(named).collect();
            settings.sort_by(|a, b| a.0.cmp(&b.0));
            Configured { settings, paused: config.paused.iter().cloned().collect() }
        };
        Ok(self.look(Timestamp::ZERO, ask).await?)
    }

    async fn counts(&self) -> Result<Vec<Count>, StoreError> {
        let client = self.shared.pool.get().await?;
        let sql = "select q.name, t.name, c.status, sum(c.items)::bigint from windrow.counts c \
             join windrow.names q on q.no = c.queue join windrow.names t on t.no = c.tenant \
             group by 1, 2, 3 having sum(c.items) <> 0";
        let rows = client.query(step!(sql)).await?;
        let mut counts: Vec<Count> = rows
            .iter()
            .filter_map(|row| {
                let status = *Status::ALL.get(row.get::<_, i16>(2) as usize)?;
                let text = |at: usize| Arc::from(row.get::<_, &str>(at));
                let items = row.get::<_, i64>(3) as u64;
                Some(Count { queue: text(0), tenant: text(1), status, items })
            })
            .collect();
        counts.sort();
        Ok(counts)
    }

    async fn leases(&self) -> Result<Vec<Lease>, StoreError> {
        let client = self.shared.pool.get().await?;
        let sql = "select id, worker, granted, renewed, expires, lease_ms, items \
                   from windrow.leases";
        let rows = client.query(step!(sql)).await?;
        Ok(rows.iter().map(load::lease).collect())
    }

    async fn held_by(
        &self,
        leases: &[LeaseId],
        limit: usize,
    ) -> Result<Vec<(LeaseId, Vec<ItemId>)>, StoreError> {
        let client = self.shared.pool.get().await?;
        let sql = "select id, serials[:$2] from windrow.leases where id = any ($1)";
        let ids: Vec<Uuid> = leases.iter().map(|lease| Uuid::from_u128(lease.0)).collect();
        let rows = client.query(step!(sql, ids, limit.min(i32::MAX as usize) as i32)).await?;
        let held = rows.iter().map(|row| {
            let serials: Vec<i64> = row.get(1);
            let id = |serial: i64| ItemId::from_serial(serial as u64, self.shared.tag);
            let items = serials.into_iter().map(id);
            (LeaseId(row.get::<_, Uuid>(0).as_u128()), items.collect::<Vec<_>>())
        });
        Ok(held.filter(|(_, items)| !items.is_empty()).collect())
    }

    async fn notes(&self, shelf: &str) -> Result<Vec<Note>, StoreError> {
        let client = self.shared.pool.get().await?;
        let sql = "select name, version, body from windrow.notes where shelf = $1";
        let rows = client.query(step!(sql, shelf.to_owned())).await?;
        let mut notes: Vec<Note> = rows.iter().map(note).collect();
        // In the order of bytes, whatever the database's language is.
        notes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(notes)
    }

    async fn resources(&self) -> Result<Vec<(Arc<str>, Resource)>, StoreError> {
        let client = self.shared.pool.get().await?;
        let sql = "select closed_until, state, resource from windrow.gates";
        let rows = client.query(step!(sql)).await?;
        let known = rows.iter().map(|row| {
            let name: &str = row.get(2);
            Ok((Arc::from(name), load::resource(row)?))
        });
        let mut known = known.collect::<Result<Vec<(Arc<str>, Resource)>, Error>>()?;
        known.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(known)
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let client = self.shared.pool.get().await?;
        let sql = "select least((select min(not_before) from windrow.items where spot = 2), \
                   (select min(expires) from windrow.leases))";
        let row = client.query_one(step!(sql)).await?;
        let due = row.get::<_, Option<i64>>(0).map(|at| Timestamp(at as u64));
        let (config, latest) = (Arc::clone(&self.shared.config.lock()), self.shared.latest());
        let closed = config.gates.values().map(|state| state.closed_until);
        Ok(closed.filter(|until| *until > latest).chain(due).min())
    }

    async fn vitals(&self, now: Timestamp) -> Result<Vitals, StoreError> {
        Ok(self.look_after(now).await?)
    }

    async fn stages(&self, now: Timestamp, most: u64) -> Result<Vec<Standing>, StoreError> {
        Ok(self.standings(now, most).await?)
    }

    async fn advance(&self, now: Timestamp) -> Result<(), StoreError> {
        let tx = Tx::new(self.shared.pool.get().await?);
        let now = (!self.shared.keeps_time).then_some(now);
        let mut steps = vec![load::show_due(now)];
        steps.extend(self.shared.looks_at_parked().then(|| step!(UNPARK)));
        let shown = tx.commit(steps).await.map_err(Failed::into_inner)?;
        let mut came = Came::new();
        {
            let mut seats = self.shared.seats.lock();
            let mut shown = shown.iter();
            for (spot, serial) in shown.next().into_iter().flatten().map(load::came) {
                seats.came(spot, serial);
                add(&mut came, spot, serial, 1);
            }
            for (spot, serial) in shown.flatten().map(load::came) {
                seats.came(spot, serial);
            }
        }
        self.opened(&mut came).await?;
        self.tell(&[], came);
        Ok(())
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        *self.shared.listener.write() = Some(listener);
    }

    fn keeps_time(&self) -> bool {
        self.shared.keeps_time
    }

    async fn watch(&self) -> Result<(), StoreError> {
        self.say_watching().await
    }

    async fn lead(&self) -> Result<Lead, StoreError> {
        self.ask_to_lead().await
    }
}
