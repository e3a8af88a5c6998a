//! Saving: what a batch changed, one statement per table.

mod config;
mod items;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio_postgres::Transaction;
use uuid::Uuid;
use windrow_core::item::{Payload, Status};
use windrow_core::limits::REQUEST_KEPT_MS;
use windrow_core::{Body, Item, ItemId, State};

use super::Error;
use super::desk::Desk;
use crate::embedded::codec::Pack;

fn pack<T: Pack>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.put(&mut bytes);
    bytes
}

/// Writes what changed on a desk.
pub(super) async fn save(tx: &Transaction<'_>, desk: &Desk, slot: i16) -> Result<(), Error> {
    let saving = Saving { tx, desk };
    saving.removed().await?;
    saving.items().await?;
    saving.bodies().await?;
    saving.trails().await?;
    saving.links().await?;
    saving.leases().await?;
    saving.folds().await?;
    saving.requests().await?;
    saving.groups().await?;
    saving.config().await?;
    saving.counts(slot).await
}

struct Saving<'a, 'b> {
    tx: &'a Transaction<'b>,
    desk: &'a Desk,
}

fn serials<'a>(ids: impl IntoIterator<Item = &'a ItemId>) -> Vec<i64> {
    ids.into_iter().map(|id| id.serial() as i64).collect()
}

impl Saving<'_, '_> {
    fn was(&self, id: ItemId) -> Option<Item> {
        self.desk.base.items.get(&id).copied().flatten()
    }

    fn is(&self, id: ItemId) -> Option<Item> {
        self.desk.view.items.get(&id).copied().flatten()
    }

    async fn removed(&self) -> Result<(), Error> {
        if self.desk.touched.removed.is_empty() {
            return Ok(());
        }
        let gone = serials(&self.desk.touched.removed);
        for table in ["items", "history", "bodies", "trails", "tallies", "progress"] {
            let sql = format!("delete from windrow.{table} where serial = any ($1)");
            self.tx.execute(&sql, &[&gone]).await?;
        }
        let sql = "delete from windrow.successors where of_serial = any ($1)";
        self.tx.execute(sql, &[&gone]).await?;
        let sql = "delete from windrow.orphans where parent = any ($1)";
        self.tx.execute(sql, &[&gone]).await?;
        Ok(())
    }

    async fn bodies(&self) -> Result<(), Error> {
        let touched = &self.desk.touched;
        let created: BTreeSet<&ItemId> = touched.created.iter().collect();
        let kept = touched.bodies.iter().filter(|id| !touched.removed.contains(id));
        let (new, replaced): (Vec<&ItemId>, Vec<&ItemId>) =
            kept.partition(|id| created.contains(id));
        // An id that another server gave out as well is met here, and the batch is tried again.
        self.put_bodies(&new).await?;
        if !replaced.is_empty() {
            let sql = "delete from windrow.bodies where serial = any ($1)";
            self.tx.execute(sql, &[&serials(replaced.iter().copied())]).await?;
            self.put_bodies(&replaced).await?;
        }
        Ok(())
    }

    async fn put_bodies(&self, ids: &[&ItemId]) -> Result<(), Error> {
        let bodies = ids.iter().filter_map(|id| Some((*id, self.desk.view.bodies.get(id)?)));
        let bodies: Vec<(&ItemId, &Body)> = bodies.collect();
        if bodies.is_empty() {
            return Ok(());
        }
        fn column<'a, T>(all: &[(&'a ItemId, &'a Body)], of: impl Fn(&'a Body) -> T) -> Vec<T> {
            all.iter().map(|(_, body)| of(body)).collect()
        }
        let blob = |body: &Body| body.payload.blob();
        let inline = |body: &'_ Body| match &body.payload {
            Payload::Inline(bytes) => Some(bytes.clone()),
            Payload::Blob(_) => None,
        };
        let sql = "insert into windrow.bodies (serial, op, key, collection, branch, source_type, \
             source_info, reference, content_type, payload, blob, blob_bytes, metadata, \
             cloned_from) select * from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], \
             $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bytea[], \
             $11::bytea[], $12::bigint[], $13::text[], $14::uuid[])";
        self.tx
            .execute(
                sql,
                &[
                    &serials(bodies.iter().map(|(id, _)| *id)),
                    &column(&bodies, |body| &*body.op),
                    &column(&bodies, |body| body.key.as_deref()),
                    &column(&bodies, |body| body.collection.as_deref()),
                    &column(&bodies, |body| body.branch.as_deref()),
                    &column(&bodies, |body| body.source_type.as_deref()),
                    &column(&bodies, |body| body.source_info.as_deref()),
                    &column(&bodies, |body| body.reference.as_deref()),
                    &column(&bodies, |body| body.content_type.as_deref()),
                    &column(&bodies, inline),
                    &column(&bodies, |body| blob(body).map(|blob| blob.hash.to_vec())),
                    &column(&bodies, |body| blob(body).map(|blob| blob.len as i64)),
                    &column(&bodies, |body| body.metadata.as_deref()),
                    &column(&bodies, |body| body.cloned_from.map(|id| Uuid::from_u128(id.0))),
                ],
            )
            .await?;
        Ok(())
    }

    async fn trails(&self) -> Result<(), Error> {
        let desk = self.desk;
        self.packed("trails", "trail", &desk.touched.trails, |id| {
            desk.view.trails.get(&id).map(pack)
        })
        .await?;
        self.packed("tallies", "tally", &desk.touched.tallies, |id| {
            desk.view.tallies.get(&id).map(pack)
        })
        .await?;
        let gone: Vec<i64> = {
            let over = |id: &&ItemId| !desk.view.progress.contains_key(id);
            serials(desk.touched.progress.iter().filter(over))
        };
        if !gone.is_empty() {
            let sql = "delete from windrow.progress where serial = any ($1)";
            self.tx.execute(sql, &[&gone]).await?;
        }
        for id in &desk.touched.progress {
            let Some(progress) = desk.view.progress.get(id) else { continue };
            let sql = "insert into windrow.progress values ($1, $2, $3, $4) \
                 on conflict (serial) do update set current = excluded.current, \
                 total = excluded.total, message = excluded.message";
            let (current, total) = (progress.current as i64, progress.total as i64);
            let message = progress.message.to_string();
            self.tx.execute(sql, &[&(id.serial() as i64), &current, &total, &message]).await?;
        }
        Ok(())
    }

    async fn packed(
        &self,
        table: &str,
        column: &str,
        touched: &BTreeSet<ItemId>,
        value: impl Fn(ItemId) -> Option<Vec<u8>>,
    ) -> Result<(), Error> {
        let (mut put, mut values, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for id in touched.iter().filter(|id| !self.desk.touched.removed.contains(id)) {
            match value(*id) {
                Some(bytes) => {
                    put.push(id.serial() as i64);
                    values.push(bytes);
                }
                None => gone.push(id.serial() as i64),
            }
        }
        if !put.is_empty() {
            let sql = format!(
                "insert into windrow.{table} (serial, {column}) \
                 select * from unnest($1::bigint[], $2::bytea[]) \
                 on conflict (serial) do update set {column} = excluded.{column}"
            );
            self.tx.execute(&sql, &[&put, &values]).await?;
        }
        if !gone.is_empty() {
            let sql = format!("delete from windrow.{table} where serial = any ($1)");
            self.tx.execute(&sql, &[&gone]).await?;
        }
        Ok(())
    }

    async fn links(&self) -> Result<(), Error> {
        for of in &self.desk.touched.successors {
            let serial = of.serial() as i64;
            match self.desk.view.successors.get(of) {
                Some(is) => {
                    let sql = "insert into windrow.successors values ($1, $2) \
                         on conflict (of_serial) do update set is_serial = excluded.is_serial";
                    self.tx.execute(sql, &[&serial, &(is.serial() as i64)]).await?;
                }
                None => {
                    let sql = "delete from windrow.successors where of_serial = $1";
                    self.tx.execute(sql, &[&serial]).await?;
                }
            }
        }
        for ((parent, generation), is) in &self.desk.touched.orphans {
            let sql = if *is {
                "insert into windrow.orphans values ($1, $2) on conflict do nothing"
            } else {
                "delete from windrow.orphans where parent = $1 and generation = $2"
            };
            self.tx.execute(sql, &[&(parent.serial() as i64), &i32::from(*generation)]).await?;
        }
        for (tenant, hash, bytes) in &self.desk.touched.blobs {
            let name = (Arc::clone(tenant), *hash, *bytes);
            let refs = self.desk.view.blobs.get(&name).copied().flatten();
            let (tenant, hash, bytes) = (&**tenant, &hash[..], *bytes as i64);
            match refs {
                Some(refs) => {
                    let sql = "insert into windrow.blobs values ($1, $2, $3, $4) \
                         on conflict (tenant, hash, bytes) do update set refs = excluded.refs";
                    self.tx.execute(sql, &[&tenant, &hash, &bytes, &(refs as i32)]).await?;
                }
                None => {
                    let sql = "delete from windrow.blobs \
                               where tenant = $1 and hash = $2 and bytes = $3";
                    self.tx.execute(sql, &[&tenant, &hash, &bytes]).await?;
                }
            }
        }
        Ok(())
    }

    async fn leases(&self) -> Result<(), Error> {
        let mut over = Vec::new();
        for id in &self.desk.touched.leases {
            let uuid = Uuid::from_u128(id.0);
            let Some(Some(granted)) = self.desk.view.leases.get(id) else {
                over.push(uuid);
                continue;
            };
            let lease = &granted.lease;
            let time = |at: windrow_core::Timestamp| at.0 as i64;
            let sql = "insert into windrow.leases values ($1, $2, $3, $4, $5, $6, $7, $8) \
                 on conflict (id) do update set renewed = excluded.renewed, \
                 expires = excluded.expires, lease_ms = excluded.lease_ms, \
                 serials = excluded.serials";
            self.tx
                .execute(
                    sql,
                    &[
                        &uuid,
                        &&*lease.worker,
                        &time(lease.granted),
                        &time(lease.renewed),
                        &time(lease.expires),
                        &(lease.lease_ms as i64),
                        &(lease.items as i32),
                        &serials(&granted.items),
                    ],
                )
                .await?;
        }
        if !over.is_empty() {
            self.tx.execute("delete from windrow.leases where id = any ($1)", &[&over]).await?;
        }
        Ok(())
    }

    /// An ended tree keeps only its root.
    async fn folds(&self) -> Result<(), Error> {
        for root in &self.desk.touched.folded {
            let serial = root.serial() as i64;
            let sql = "with recursive down (serial) as (\
                   select serial from windrow.history where parent = $1 \
                   union select h.serial from windrow.history h \
                   join down d on h.parent = d.serial), \
                 gone as (delete from windrow.history h using down d where h.serial = d.serial \
                   returning h.serial, h.queue, h.tenant, h.ended), \
                 b as (delete from windrow.bodies x using down d where x.serial = d.serial), \
                 t as (delete from windrow.trails x using down d where x.serial = d.serial), \
                 y as (delete from windrow.tallies x using down d where x.serial = d.serial) \
                 insert into windrow.counts \
                   select queue, tenant, ended + 2, 0, -count(*), 0 from gone group by 1, 2, 3 \
                 on conflict (queue, tenant, status, slot) \
                   do update set items = counts.items + excluded.items";
            self.tx.execute(sql, &[&serial]).await?;
            let sql = "update windrow.history set folded = true where serial = $1";
            self.tx.execute(sql, &[&serial]).await?;
        }
        Ok(())
    }

    /// A request is remembered once. If the same is under way on another connection, which may be
    /// a commit of ours that was cut off, this waits for it and meets its row.
    async fn requests(&self) -> Result<(), Error> {
        let requests = &self.desk.touched.requests;
        if requests.is_empty() {
            return Ok(());
        }
        let now = self.desk.now.0 as i64;
        let forgotten = "delete from windrow.requests where id in (\
             select id from windrow.requests where at < $1 \
             order by id = any ($2) desc, at limit greatest(100, cardinality($2)))";
        let ids: Vec<Uuid> = requests.keys().map(|id| Uuid::from_u128(id.0)).collect();
        self.tx.execute(forgotten, &[&(now - REQUEST_KEPT_MS as i64), &ids]).await?;
        let fingerprints: Vec<i64> = requests.values().map(|(print, _)| *print as i64).collect();
        let answers: Vec<Vec<u8>> = requests.values().map(|(_, answer)| pack(answer)).collect();
        let sql = "insert into windrow.requests (id, at, fingerprint, answer) \
             select id, $2, fingerprint, answer from unnest($1::uuid[], $3::bigint[], $4::bytea[]) \
             u (id, fingerprint, answer)";
        self.tx.execute(sql, &[&ids, &now, &fingerprints, &answers]).await?;
        Ok(())
    }

    /// Parks what its group holds up, and brings back what has room now.
    async fn groups(&self) -> Result<(), Error> {
        let touched = &self.desk.touched;
        let parked: Vec<i64> = touched
            .parked
            .iter()
            .filter(|id| {
                self.is(**id).is_some_and(|item| {
                    matches!(item.state, State::Pending { .. })
                        && self
                            .desk
                            .group_key(&item)
                            .is_some_and(|key| !touched.freed.contains(&key))
                })
            })
            .map(|id| id.serial() as i64)
            .collect();
        if !parked.is_empty() {
            let sql = "update windrow.items set spot = 3 where serial = any ($1) and spot = 1";
            self.tx.execute(sql, &[&parked]).await?;
        }
        for key in &touched.freed {
            let lock = "select pg_advisory_xact_lock(hashtextextended($1, 0))";
            self.tx.execute(lock, &[&key.lock_name()]).await?;
            let sql = "update windrow.items set spot = 1 where spot = 3 and queue = $1 \
                       and stage_name = $2 and tenant = $3 and grp = $4";
            let (queue, stage, tenant) = (key.queue as i32, key.stage as i32, key.tenant as i32);
            self.tx.execute(sql, &[&queue, &stage, &tenant, &&*key.group]).await?;
        }
        Ok(())
    }

    /// Counts come last: they are what servers meet at.
    async fn counts(&self, slot: i16) -> Result<(), Error> {
        let mut counts: BTreeMap<(u32, u32, u8), (i64, i64)> = BTreeMap::new();
        let mut add = |item: &Item, by: i64| {
            let count = counts.entry((item.queue.0, item.tenant.0, status(item.status())));
            let count = count.or_default();
            count.0 += by;
            count.1 += if item.is_done() && item.is_root() { by } else { 0 };
        };
        for id in &self.desk.touched.items {
            self.was(*id).iter().for_each(|item| add(item, -1));
            self.is(*id).iter().for_each(|item| add(item, 1));
        }
        counts.retain(|_, (items, roots)| *items != 0 || *roots != 0);
        if counts.is_empty() {
            return Ok(());
        }
        let (mut queues, mut tenants, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
        let (mut items, mut roots) = (Vec::new(), Vec::new());
        for ((queue, tenant, status), (more, more_roots)) in counts {
            queues.push(queue as i32);
            tenants.push(tenant as i32);
            statuses.push(i16::from(status));
            items.push(more);
            roots.push(more_roots);
        }
        let sql = "insert into windrow.counts (queue, tenant, status, slot, items, roots) \
             select queue, tenant, status, $6, items, roots from unnest($1::int[], $2::int[], \
             $3::smallint[], $4::bigint[], $5::bigint[]) u (queue, tenant, status, items, roots) \
             on conflict (queue, tenant, status, slot) do update \
             set items = counts.items + excluded.items, roots = counts.roots + excluded.roots";
        self.tx.execute(sql, &[&queues, &tenants, &statuses, &items, &roots, &slot]).await?;
        Ok(())
    }
}

/// A status as the database has it: the live ones are below two.
pub(super) fn status(status: Status) -> u8 {
    match status {
        Status::Pending => 0,
        Status::Processing => 1,
        Status::Completed => 2,
        Status::Failed => 3,
        Status::Cancelled => 4,
        Status::Skipped => 5,
    }
}
