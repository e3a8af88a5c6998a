//! What lies beside items: trails, tallies, progress, successors, blobs, leases, requests.

use std::collections::BTreeSet;

use rand::RngExt as _;
use uuid::Uuid;
use windrow_core::limits::REQUEST_KEPT_MS;
use windrow_core::{ItemId, Timestamp};

use super::{Saving, pack, serials};
use crate::postgres::loaded::{Granted, Noted};
use crate::postgres::trail;
use crate::postgres::tx::step;

const TRAILS: &str = "insert into windrow.trails (serial, trail) \
     select u.serial, u.trail::json from unnest($1::bigint[], $2::text[]) u (serial, trail) \
     on conflict (serial) do update set trail = excluded.trail";
const ENDED_TRAILS: &str = "update windrow.history h set trail = u.trail::json \
     from unnest($1::bigint[], $2::text[]) u (serial, trail) where h.serial = u.serial";
const TALLIES: &str = "insert into windrow.tallies (serial, tally) \
     select * from unnest($1::bigint[], $2::bytea[]) \
     on conflict (serial) do update set tally = excluded.tally";
const PROGRESS: &str = "insert into windrow.progress (serial, current, total, message) \
     select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) \
     on conflict (serial) do update set current = excluded.current, total = excluded.total, \
     message = excluded.message";
const SUCCESSORS: &str = "insert into windrow.successors (of_serial, is_serial) \
     select * from unnest($1::bigint[], $2::bigint[]) \
     on conflict (of_serial) do update set is_serial = excluded.is_serial";
const NEW_BLOB: &str =
    "insert into windrow.blobs (tenant, hash, bytes, refs) values ($1, $2, $3, $4)";
const RESOURCE: &str = "insert into windrow.gates (resource, closed_until, state) \
     values ($1, $2, $3) on conflict (resource) \
     do update set closed_until = excluded.closed_until, state = excluded.state";
const BLOB: &str =
    "update windrow.blobs set refs = $4 where tenant = $1 and hash = $2 and bytes = $3";
const NOTE: &str = "insert into windrow.notes (shelf, name, version, body) values ($1, $2, $3, $4) \
     on conflict (shelf, name) do update set version = excluded.version, body = excluded.body";
const NO_NOTE: &str = "delete from windrow.notes where shelf = $1 and name = $2";
const NO_BLOB: &str = "delete from windrow.blobs where tenant = $1 and hash = $2 and bytes = $3";

/// An array cannot have arrays of different lengths, but texts of them.
const NEW_LEASES: &str = "insert into windrow.leases \
     (id, worker, granted, renewed, expires, lease_ms, items, serials, changed) \
     select id, worker, granted, renewed, expires, lease_ms, items, serials::bigint[], changed \
     from unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
     $7::int[], $8::text[], $9::bool[]) \
     u (id, worker, granted, renewed, expires, lease_ms, items, serials, changed)";
const LEASES: &str = "update windrow.leases l set renewed = u.renewed, expires = u.expires, \
     lease_ms = u.lease_ms, serials = u.serials::bigint[], changed = u.changed \
     from unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
     $7::int[], $8::text[], $9::bool[]) \
     u (id, worker, granted, renewed, expires, lease_ms, items, serials, changed) \
     where l.id = u.id";

const FOLD: &str = "with recursive down (serial) as (\
       select serial from windrow.history where parent = $1 \
       union select h.serial from windrow.history h join down d on h.parent = d.serial), \
     gone as (delete from windrow.history h using down d where h.serial = d.serial \
       returning h.serial, h.queue, h.tenant, h.ended), \
     b as (delete from windrow.bodies x using down d where x.serial = d.serial), \
     y as (delete from windrow.tallies x using down d where x.serial = d.serial) \
     insert into windrow.counts \
       select queue, tenant, ended + 2, $2, -count(*), 0 from gone group by 1, 2, 3 \
     on conflict (queue, tenant, status, slot) do update set items = counts.items + excluded.items";

const FORGOTTEN: &str = "delete from windrow.requests where id in (\
     select id from windrow.requests where at < $1 order by at limit 10000)";
const FORGOTTEN_OF: &str = "delete from windrow.requests where at < $1 and id = any ($2)";
/// A request is remembered once. If the same is under way on another connection, which may be a
/// commit of ours that was cut off, this waits for it and meets its row.
const REQUESTS: &str = "insert into windrow.requests (id, at, fingerprint, answer) \
     select id, $2, fingerprint, answer from unnest($1::uuid[], $3::bigint[], $4::bytea[]) \
     u (id, fingerprint, answer)";

/// One in so many batches with request ids looks for those that are old.
const FORGET_EVERY: u32 = 64;

impl Saving<'_> {
    /// A live item's trail lies in a table of its own, an ended one's in its row.
    pub(super) fn trails(&mut self) {
        let desk = self.desk;
        let ids: BTreeSet<ItemId> =
            desk.trails.changed().into_iter().chain(desk.items.changed()).collect();
        let (mut put, mut texts, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        let (mut of_ended, mut ended_texts) = (Vec::new(), Vec::new());
        for id in ids.into_iter().filter(|id| !desk.decided.removed.contains(id)) {
            let Some(item) = desk.items.get(&id) else { continue };
            let (was, is) = (desk.items.was(&id), desk.trails.get(&id));
            let was_live = was.is_some_and(|item| !item.is_done());
            let had_own = was_live && desk.trails.was(&id).is_some();
            let serial = id.serial() as i64;
            match is {
                Some(is) if !item.is_done() && (desk.trails.is_changed(&id) || !was_live) => {
                    put.push(serial);
                    texts.push(trail::write(is));
                }
                Some(is) if item.is_done() && !desk.items.is_changed(&id) => {
                    of_ended.push(serial);
                    ended_texts.push(trail::write(is));
                }
                _ if had_own && (item.is_done() || is.is_none()) => gone.push(serial),
                _ => {}
            }
        }
        if !put.is_empty() {
            self.step(step!(TRAILS, put, texts));
        }
        if !of_ended.is_empty() {
            self.step(step!(ENDED_TRAILS, of_ended, ended_texts));
        }
        if !gone.is_empty() {
            self.step(step!("delete from windrow.trails where serial = any ($1)", gone));
        }
    }

    /// Tallies, progress, successors, orphans and blobs.
    pub(super) fn beside(&mut self) {
        let desk = self.desk;
        let stays = |id: &ItemId| !desk.decided.removed.contains(id);
        let split = |changed: Vec<ItemId>, is: &dyn Fn(&ItemId) -> bool| {
            changed.into_iter().filter(stays).partition::<Vec<ItemId>, _>(|id| is(id))
        };

        let (put, gone) = split(desk.tallies.changed(), &|id| desk.tallies.get(id).is_some());
        if !put.is_empty() {
            let tallies: Vec<Vec<u8>> =
                put.iter().filter_map(|id| desk.tallies.get(id)).map(pack).collect();
            self.step(step!(TALLIES, serials(&put), tallies));
        }
        if !gone.is_empty() {
            let sql = "delete from windrow.tallies where serial = any ($1)";
            self.step(step!(sql, serials(&gone)));
        }

        let (put, gone) = split(desk.progress.changed(), &|id| desk.progress.get(id).is_some());
        if !put.is_empty() {
            let all: Vec<_> = put.iter().filter_map(|id| desk.progress.get(id)).collect();
            let current: Vec<i64> = all.iter().map(|progress| progress.current as i64).collect();
            let total: Vec<i64> = all.iter().map(|progress| progress.total as i64).collect();
            let message: Vec<String> = all.iter().map(|p| p.message.clone()).collect();
            self.step(step!(PROGRESS, serials(&put), current, total, message));
        }
        if !gone.is_empty() {
            let sql = "delete from windrow.progress where serial = any ($1)";
            self.step(step!(sql, serials(&gone)));
        }

        let (put, gone) = split(desk.successors.changed(), &|id| desk.successors.get(id).is_some());
        if !put.is_empty() {
            let is = serials(put.iter().filter_map(|id| desk.successors.get(id)));
            self.step(step!(SUCCESSORS, serials(&put), is));
        }
        if !gone.is_empty() {
            let sql = "delete from windrow.successors where of_serial = any ($1)";
            self.step(step!(sql, serials(&gone)));
        }
        self.orphans_and_blobs();
        self.notes();
        self.resources();
    }

    fn resources(&mut self) {
        let desk = self.desk;
        for (name, state) in desk.resources.decided() {
            let name = name.to_string();
            self.step(match state {
                Some(state) => step!(RESOURCE, name, state.closed_until.0 as i64, pack(state)),
                None => step!("delete from windrow.gates where resource = $1", name),
            });
        }
    }

    fn notes(&mut self) {
        let desk = self.desk;
        for ((shelf, name), is) in desk.notes.decided() {
            let (shelf, name) = (shelf.to_string(), name.to_string());
            self.step(match is {
                Some(Noted { version, body: Some(body) }) => {
                    step!(NOTE, shelf, name, *version as i64, body.to_vec())
                }
                _ => step!(NO_NOTE, shelf, name),
            });
        }
    }

    fn orphans_and_blobs(&mut self) {
        let desk = self.desk;
        for ((parent, generation), is) in &desk.decided.orphans {
            let sql = if *is {
                "insert into windrow.orphans values ($1, $2) on conflict do nothing"
            } else {
                "delete from windrow.orphans where parent = $1 and generation = $2"
            };
            self.step(step!(sql, parent.serial() as i64, i32::from(*generation)));
        }
        for (name, references) in desk.blobs.decided() {
            let (tenant, hash, bytes) = name;
            let (tenant, hash, bytes) = (tenant.to_string(), hash.to_vec(), *bytes as i64);
            // What two store at the same time, one of them reads again.
            let is_new = desk.blobs.was(name).is_none();
            self.step(match references {
                Some(references) if is_new => {
                    step!(NEW_BLOB, tenant, hash, bytes, *references as i32)
                }
                Some(references) => step!(BLOB, tenant, hash, bytes, *references as i32),
                None => step!(NO_BLOB, tenant, hash, bytes),
            });
        }
    }

    pub(super) fn leases(&mut self) {
        let desk = self.desk;
        let (mut new, mut changed, mut over) = (Vec::new(), Vec::new(), Vec::new());
        for id in desk.leases.changed() {
            match (desk.leases.was(&id), desk.leases.get(&id)) {
                (None, Some(granted)) => new.push(granted),
                (Some(_), Some(granted)) => changed.push(granted),
                (Some(_), None) => over.push(Uuid::from_u128(id.0)),
                (None, None) => {}
            }
        }
        self.put_leases(NEW_LEASES, &new);
        self.put_leases(LEASES, &changed);
        if !over.is_empty() {
            self.step(step!("delete from windrow.leases where id = any ($1)", over));
        }
    }

    fn put_leases(&mut self, sql: &'static str, all: &[&Granted]) {
        if all.is_empty() {
            return;
        }
        let time = |of: fn(&Granted) -> Timestamp| -> Vec<i64> {
            all.iter().map(|granted| of(granted).0 as i64).collect()
        };
        let ids: Vec<Uuid> = all.iter().map(|g| Uuid::from_u128(g.lease.id.0)).collect();
        let workers: Vec<String> = all.iter().map(|g| g.lease.worker.to_string()).collect();
        let lease_ms: Vec<i64> = all.iter().map(|g| g.lease.lease_ms as i64).collect();
        let items: Vec<i32> = all.iter().map(|g| g.lease.items as i32).collect();
        let list = |granted: &&Granted| {
            let serials: Vec<String> =
                granted.items.iter().map(|id| id.serial().to_string()).collect();
            format!("{{{}}}", serials.join(","))
        };
        let held: Vec<String> = all.iter().map(list).collect();
        let (granted, renewed) = (time(|g| g.lease.granted), time(|g| g.lease.renewed));
        let expires = time(|g| g.lease.expires);
        let changed: Vec<bool> = all.iter().map(|granted| granted.is_changed).collect();
        let step =
            step!(sql, ids, workers, granted, renewed, expires, lease_ms, items, held, changed);
        self.step(step);
    }

    /// An ended tree keeps only its root.
    pub(super) fn folds(&mut self, slot: i32) {
        let folded = self.desk.decided.folded.iter().filter(|(_, is)| **is);
        for (root, _) in folded {
            let serial = root.serial() as i64;
            self.steps.push(step!(FOLD, serial, slot));
            let sql = "update windrow.history set folded = true where serial = $1";
            self.steps.push(step!(sql, serial));
        }
    }

    pub(super) fn requests(&mut self) {
        let desk = self.desk;
        let all = desk.requests.changed();
        if all.is_empty() {
            return;
        }
        let now = desk.now.0 as i64;
        let since = now - REQUEST_KEPT_MS as i64;
        let ids: Vec<Uuid> = all.iter().map(|id| Uuid::from_u128(id.0)).collect();
        let known = || all.iter().filter_map(|id| desk.requests.get(id));
        let fingerprints: Vec<i64> = known().map(|(print, _)| *print as i64).collect();
        let answers: Vec<Vec<u8>> = known().map(|(_, answer)| pack(answer)).collect();
        if rand::rng().random_ratio(1, FORGET_EVERY) {
            self.step(step!(FORGOTTEN, since));
        }
        self.step(step!(FORGOTTEN_OF, since, ids.clone()));
        self.step(step!(REQUESTS, ids, now, fingerprints, answers));
    }
}
