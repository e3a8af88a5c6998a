//! Loading: what a batch needs, locked in a fixed order.
//!
//! Candidates and groups are taken only if nobody else has them; everything else is waited for.
//! Rows are locked by one statement and read by the next, so that what is read is as young as the
//! lock. Items are locked deepest first: a child has a higher serial than its parent.

mod items;
mod lists;

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Transaction};
use uuid::Uuid;
use windrow_core::change::Lease;
use windrow_core::command::Scope;
use windrow_core::limits::REQUEST_KEPT_MS;
use windrow_core::{ItemId, LeaseId, RequestId, Timestamp};

use super::Error;
use super::desk::{Config, Desk, Granted, Members, Offer};
use super::key::KeyHash;
use super::ledger::matches;
use super::needs::{Filter, GroupKey, Needs};
use super::turns::LaneName;
use crate::embedded::codec::{Pack, Reader};

pub(super) fn unpack<T: Pack>(bytes: &[u8]) -> Result<T, Error> {
    Reader::new(bytes).get().map_err(|_| Error::Malformed)
}

/// Settings, pauses, gates and lanes, if what this server has of them is old.
pub(super) async fn config(tx: &Transaction<'_>, known: &Config) -> Result<Option<Config>, Error> {
    let row = tx.query_one("select configured from windrow.store", &[]).await?;
    let version: i64 = row.get(0);
    if version == known.version && version > 0 {
        return Ok(None);
    }
    let settings = "select n.name, s.settings from windrow.settings s join windrow.names n \
                    on n.no = s.queue";
    let pauses = "select queue, stage, tenant from windrow.pauses";
    let gates = "select resource, closed_until from windrow.gates";
    let lanes = "select queue, stage_name, kind from windrow.lanes";
    let mut config = Config { version, ..Config::default() };
    for row in tx.query(settings, &[]).await? {
        let queue: &str = row.get(0);
        config.settings.insert(queue.into(), Arc::new(unpack(row.get(1))?));
    }
    for row in tx.query(pauses, &[]).await? {
        let text = |at: usize| row.get::<_, Option<&str>>(at).map(Arc::from);
        let queue: &str = row.get(0);
        config.paused.insert(Scope { queue: queue.into(), stage: text(1), tenant: text(2) });
    }
    for row in tx.query(gates, &[]).await? {
        let resource: &str = row.get(0);
        config.gates.insert(resource.into(), Timestamp(row.get::<_, i64>(1) as u64));
    }
    for row in tx.query(lanes, &[]).await? {
        config.lanes.insert(lane(&row));
    }
    Ok(Some(config))
}

/// The lease in the first columns of a row.
pub(super) fn lease(row: &Row) -> Lease {
    let at = |column: usize| Timestamp(row.get::<_, i64>(column) as u64);
    Lease {
        id: LeaseId(row.get::<_, Uuid>(0).as_u128()),
        worker: row.get::<_, &str>(1).into(),
        granted: at(2),
        renewed: at(3),
        expires: at(4),
        lease_ms: at(5).0,
        items: row.get::<_, i32>(6) as u32,
    }
}

/// The lane in the first columns of a row.
pub(super) fn lane(row: &Row) -> LaneName {
    let no = |at: usize| row.get::<_, i32>(at) as u32;
    LaneName { queue: no(0), stage: no(1), kind: no(2) }
}

/// Puts what is missing on the desk.
pub(super) async fn fetch(
    tx: &Transaction<'_>,
    desk: &mut Desk,
    mut needs: Needs,
) -> Result<(), Error> {
    let mut loading = Loading { tx, desk };
    for (filter, count) in std::mem::take(&mut needs.offers) {
        loading.offer(filter, count, &mut needs).await?;
    }
    loading.leases(&mut needs).await?;
    loading.keys(&mut needs).await?;
    loading.children(&mut needs).await?;
    for (list, count) in std::mem::take(&mut needs.lists) {
        loading.list(list, count, &mut needs).await?;
    }
    loading.items(&needs.items).await?;
    loading.bodies(&needs.bodies).await?;
    loading.groups(&needs.groups).await?;
    loading.rest(&needs).await
}

struct Loading<'a, 'b> {
    tx: &'a Transaction<'b>,
    desk: &'a mut Desk,
}

fn serials(ids: impl IntoIterator<Item = ItemId>) -> Vec<i64> {
    ids.into_iter().map(|id| id.serial() as i64).collect()
}

impl Loading<'_, '_> {
    /// What is first in line for a claim. Items whose time has come are shown before.
    async fn offer(
        &mut self,
        filter: Filter,
        count: usize,
        needs: &mut Needs,
    ) -> Result<(), Error> {
        show_due(self.tx, self.desk.now).await?;
        let lanes: Vec<LaneName> = {
            let names = self.desk.names.read();
            let known = self.desk.base.config.lanes.iter().copied();
            known.filter(|lane| matches(&filter, *lane, |text| names.find(text))).collect()
        };
        let mut offer = Offer { asked: count, ..Offer::default() };
        let aside = serials(needs.aside.iter().copied());
        let only: Option<Vec<i32>> = (!filter.tenants.is_empty()).then(|| {
            let names = self.desk.names.read();
            filter.tenants.iter().filter_map(|text| names.find(text)).map(|no| no as i32).collect()
        });
        for lane in lanes {
            let Some(not) = self.closed_to(lane) else { continue };
            let after = self.desk.turns.last_tenant(lane).map_or(-1, |tenant| tenant as i32);
            let (queue, stage, kind) = (lane.queue as i32, lane.stage as i32, lane.kind as i32);
            let sql = "select windrow.offer($1, $2, $3, $4, $5, $6, $7, $8)";
            let wanted = count as i32;
            let values: [&(dyn ToSql + Sync); 8] =
                [&queue, &stage, &kind, &wanted, &after, &only, &not, &aside];
            let rows = self.tx.query(sql, &values).await?;
            let found: BTreeSet<ItemId> = rows.iter().map(|row| self.desk.id(row.get(0))).collect();
            offer.more |= found.len() >= count;
            offer.items.extend(found);
        }
        needs.items.extend(offer.items.iter().copied());
        self.desk.base.offers.insert(filter, offer);
        Ok(())
    }

    /// Tenants that are paused in a lane; none if the whole lane is closed.
    fn closed_to(&self, lane: LaneName) -> Option<Vec<i32>> {
        let names = self.desk.names.read();
        let (queue, stage) = (names.text(lane.queue)?, names.text(lane.stage)?);
        let here = |scope: &&Scope| {
            scope.queue == *queue && scope.stage.as_ref().is_none_or(|only| only == stage)
        };
        let mut tenants = Vec::new();
        for scope in self.desk.base.config.paused.iter().filter(here) {
            tenants.extend(names.find(scope.tenant.as_deref()?).map(|no| no as i32));
        }
        Some(tenants)
    }

    async fn leases(&mut self, needs: &mut Needs) -> Result<(), Error> {
        const LEASE: &str = "select id, worker, granted, renewed, expires, lease_ms, items, \
                             serials from windrow.leases";
        if let Some(limit) = needs.expired {
            let sql = format!(
                "{LEASE} where expires <= $1 order by expires, granted, id limit $2 \
                 for update skip locked"
            );
            let limit = limit as i64 + 1;
            let rows = self.tx.query(&sql, &[&(self.desk.now.0 as i64), &limit]).await?;
            let expired = rows.iter().map(|row| self.lease(row, Some(needs))).collect();
            self.desk.base.expired = Some(expired);
        }
        if let Some(until) = needs.expiring {
            let sql = format!("{LEASE} where expires < $1 order by id for update");
            let rows = self.tx.query(&sql, &[&(until as i64)]).await?;
            let expiring = rows.iter().map(|row| self.lease(row, None)).collect();
            self.desk.base.expiring = Some((until, expiring));
        }
        if !needs.leases.is_empty() {
            let ids: Vec<Uuid> = needs.leases.iter().map(|id| Uuid::from_u128(id.0)).collect();
            let sql = format!("{LEASE} where id = any ($1) order by id for update");
            for id in &needs.leases {
                self.desk.base.leases.insert(*id, None);
            }
            for row in self.tx.query(&sql, &[&ids]).await? {
                self.lease(&row, None);
            }
        }
        Ok(())
    }

    fn lease(&mut self, row: &Row, needs: Option<&mut Needs>) -> LeaseId {
        let lease = lease(row);
        let id = lease.id;
        let serials: Vec<i64> = row.get(7);
        let items: Vec<ItemId> = serials.into_iter().map(|serial| self.desk.id(serial)).collect();
        if let Some(needs) = needs {
            needs.items.extend(items.iter().copied());
        }
        self.desk.base.leases.insert(id, Some(Granted { lease, items }));
        id
    }

    async fn keys(&mut self, needs: &mut Needs) -> Result<(), Error> {
        let uuids = |keys: &BTreeSet<KeyHash>| -> Vec<Uuid> {
            keys.iter().map(|key| Uuid::from_u128(key.0)).collect()
        };
        if !needs.keys.is_empty() {
            let sql = "select key, serial from windrow.items \
                       where key = any ($1) and state <> 1 order by serial desc for update";
            let rows = self.tx.query(sql, &[&uuids(&needs.keys)]).await?;
            needs.keys.iter().for_each(|key| {
                self.desk.base.keys.insert(*key, None);
            });
            for row in rows {
                let id = self.desk.id(row.get(1));
                needs.items.insert(id);
                self.desk.base.keys.insert(KeyHash(row.get::<_, Uuid>(0).as_u128()), Some(id));
            }
        }
        if !needs.kept_keys.is_empty() {
            let sql = "select distinct on (key) key, serial from windrow.history \
                       where key = any ($1) order by key, ended_s desc, serial desc";
            let rows = self.tx.query(sql, &[&uuids(&needs.kept_keys)]).await?;
            needs.kept_keys.iter().for_each(|key| {
                self.desk.base.kept_keys.insert(*key, None);
            });
            for row in rows {
                let id = self.desk.id(row.get(1));
                let key = KeyHash(row.get::<_, Uuid>(0).as_u128());
                self.desk.base.kept_keys.insert(key, Some(id));
            }
        }
        Ok(())
    }

    /// Groups are taken only if no other server is at them.
    async fn groups(&mut self, keys: &BTreeSet<GroupKey>) -> Result<(), Error> {
        for key in keys {
            let lock = "select pg_try_advisory_xact_lock(hashtextextended($1, 0))";
            let free: bool = self.tx.query_one(lock, &[&key.lock_name()]).await?.get(0);
            let members = members(self.tx, self.desk, key).await?;
            self.desk.base.groups.insert(key.clone(), Members { busy: !free, ..members });
        }
        Ok(())
    }

    async fn rest(&mut self, needs: &Needs) -> Result<(), Error> {
        for (tenant, hash, bytes) in &needs.blobs {
            let sql = "select refs from windrow.blobs \
                       where tenant = $1 and hash = $2 and bytes = $3 for update";
            let found = self.tx.query_opt(sql, &[&&**tenant, &&hash[..], &(*bytes as i64)]).await?;
            let name = (Arc::clone(tenant), *hash, *bytes);
            let references = found.map(|row| row.get::<_, i32>(0) as u32);
            self.desk.base.blobs.insert(name, references);
        }
        for request in &needs.requests {
            let sql = "select fingerprint, answer from windrow.requests \
                       where id = $1 and at >= $2";
            let since = self.desk.now.0.saturating_sub(REQUEST_KEPT_MS) as i64;
            let id = Uuid::from_u128(request.0);
            let known = match self.tx.query_opt(sql, &[&id, &since]).await? {
                Some(row) => Some((row.get::<_, i64>(0) as u64, unpack(row.get(1))?)),
                None => None,
            };
            self.desk.base.requests.insert(RequestId(request.0), known);
        }
        for queue in &needs.live {
            let no = self.desk.names.read().find(queue).map_or(-1, |no| no as i32);
            let sql = "select coalesce(sum(items), 0)::bigint from windrow.counts \
                       where queue = $1 and status < 2";
            let live: i64 = self.tx.query_one(sql, &[&no]).await?.get(0);
            self.desk.base.live.insert(Arc::clone(queue), live.max(0) as u64);
        }
        for (queue, stage) in &needs.waiting {
            let no = self.desk.names.read().find(stage).map_or(-1, |no| no as i32);
            let sql = "select count(*) from windrow.items \
                       where queue = $1 and stage_name = $2 and state = 0";
            let waiting: i64 = self.tx.query_one(sql, &[&(*queue as i32), &no]).await?.get(0);
            self.desk.base.waiting.insert((*queue, Arc::clone(stage)), waiting as u64);
        }
        Ok(())
    }
}

/// Who of a group is in a stage, after everything was decided.
pub(super) async fn group(
    tx: &Transaction<'_>,
    desk: &mut Desk,
    key: &GroupKey,
) -> Result<(), Error> {
    let mut members = members(tx, desk, key).await?;
    for id in &desk.touched.items {
        members.live.remove(id);
        members.leased.remove(id);
        let is = desk.view.items.get(id).copied().flatten();
        if let Some(item) = is.filter(|item| desk.group_key(item).as_ref() == Some(key)) {
            if item.lease().is_some() {
                members.leased.insert(*id);
            }
            if !item.is_done() {
                members.live.insert(*id);
            }
        }
    }
    desk.view.groups.insert(key.clone(), members);
    Ok(())
}

async fn members(tx: &Transaction<'_>, desk: &Desk, key: &GroupKey) -> Result<Members, Error> {
    let sql = "select serial, state from windrow.items \
               where queue = $1 and stage_name = $2 and tenant = $3 and grp = $4";
    let (queue, stage, tenant) = (key.queue as i32, key.stage as i32, key.tenant as i32);
    let mut members = Members::default();
    for row in tx.query(sql, &[&queue, &stage, &tenant, &&*key.group]).await? {
        let id = desk.id(row.get(0));
        members.live.insert(id);
        if row.get::<_, i16>(1) == 2 {
            members.leased.insert(id);
        }
    }
    Ok(members)
}

/// Puts items in line whose time has come.
pub(super) async fn show_due(tx: &Transaction<'_>, now: Timestamp) -> Result<Vec<Row>, Error> {
    let sql = "update windrow.items set spot = 1 where serial in (\
                 select serial from windrow.items where spot = 2 and not_before <= $1 \
                 order by not_before limit 10000 for update skip locked) \
               returning queue, stage_name, kind, tenant";
    Ok(tx.query(sql, &[&(now.0 as i64)]).await?)
}
