//! Leases, keys, groups, blobs, remembered requests and counts.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio_postgres::Row;
use uuid::Uuid;
use windrow_core::limits::REQUEST_KEPT_MS;
use windrow_core::{ItemId, RequestId};

use super::{Asked, Loading, Round, unpack};
use crate::postgres::Error;
use crate::postgres::loaded::Members;
use crate::postgres::needs::{Blob, GroupKey, Key, Needs, NoteName};
use crate::postgres::tx::{Step, step};

macro_rules! leases {
    ($which:literal) => {
        concat!(
            "select id, worker, granted, renewed, expires, lease_ms, items, serials, changed \
             from windrow.leases where ",
            $which
        )
    };
}
const LEASES: Sql =
    Sql { locks: leases!("id = any ($1) order by id for update"), reads: leases!("id = any ($1)") };
const EXPIRED: &str =
    leases!("expires <= $1 order by expires, granted, id limit $2 for update skip locked");
/// Whoever has one of them locked renews it, or works on what it holds.
const EXPIRING: &str = leases!("expires < $1 order by id for update skip locked");

const KEYS: &str = "select i.queue, i.tenant, i.key, i.serial \
     from unnest($1::int[], $2::int[], $3::text[]) k (queue, tenant, key) \
     join windrow.items i on i.queue = k.queue and i.tenant = k.tenant \
       and i.key = k.key and i.key is not null and i.state <> 1";
/// Of queues in which ended items block their key. No index refuses a second one there: it could
/// end between being looked for among the live and among the ended. So they are enqueued one by
/// one.
const LOCK_KEYS: &str = "select pg_advisory_xact_lock(hashtextextended(name, 0)) \
     from unnest($1::text[]) with ordinality l (name, at) order by at";
const KEPT_KEYS: &str = "select k.queue, k.tenant, k.key, h.serial \
     from unnest($1::int[], $2::int[], $3::text[]) k (queue, tenant, key) \
     cross join lateral (select serial from windrow.history h \
       where h.queue = k.queue and h.tenant = k.tenant and h.key = k.key and h.keeps_key \
       order by h.ended_s desc, h.serial desc limit 1) h";

const TRY_GROUPS: &str = "select pg_try_advisory_xact_lock(hashtextextended(name, 0)) \
     from unnest($1::text[]) with ordinality l (name, at) order by at";
/// Who of some groups is in their stages.
pub(in crate::postgres) const MEMBERS: &str = "select g.at, i.serial, \
       i.state = 2 or (i.state = 0 and i.spot = 1 and w.serial is null) \
     from unnest($1::int[], $2::int[], $3::int[], $4::text[]) with ordinality \
       g (queue, stage_name, tenant, grp, at) \
     join windrow.items i on i.queue = g.queue and i.tenant = g.tenant and i.grp = g.grp \
     join windrow.lanes l on l.no = i.lane and l.stage_name = g.stage_name \
     left join windrow.line w on w.lane = i.lane and w.class = i.class \
       and w.tenant = i.tenant and w.serial = i.serial";

const RESOURCE: &str = "select closed_until, state from windrow.gates where resource = $1";
const BLOB: Sql = Sql {
    locks: "select refs from windrow.blobs \
            where tenant = $1 and hash = $2 and bytes = $3 for update",
    reads: "select refs from windrow.blobs where tenant = $1 and hash = $2 and bytes = $3",
};
const NOTE: &str = "select version from windrow.notes where shelf = $1 and name = $2";
const REQUESTS: &str = "select w.id, r.fingerprint, r.answer from unnest($1::uuid[]) w (id) \
     left join windrow.requests r on r.id = w.id and r.at >= $2";
const LIVE: &str = "select coalesce(sum(items), 0)::bigint from windrow.counts \
     where queue = $1 and status < 2";
const WAITING: &str = "select windrow.waiting_in($1, $2)";

/// A statement for what is to be changed, and for what is only looked at.
struct Sql {
    locks: &'static str,
    reads: &'static str,
}

/// The columns of some keys.
fn keys(sql: &'static str, keys: &BTreeSet<Key>) -> Step {
    let queues: Vec<i32> = keys.iter().map(|key| key.queue as i32).collect();
    let tenants: Vec<i32> = keys.iter().map(|key| key.tenant as i32).collect();
    let texts: Vec<String> = keys.iter().map(|key| key.key.to_string()).collect();
    step!(sql, queues, tenants, texts)
}

/// The columns of some groups, for [`MEMBERS`] and alike.
pub(in crate::postgres) fn groups<'a>(
    sql: &'static str,
    keys: impl IntoIterator<Item = &'a GroupKey> + Clone,
) -> Step {
    let column = |of: fn(&GroupKey) -> u32| -> Vec<i32> {
        keys.clone().into_iter().map(|key| of(key) as i32).collect()
    };
    let (queues, stages) = (column(|key| key.queue), column(|key| key.stage));
    let texts: Vec<String> = keys.clone().into_iter().map(|key| key.group.to_string()).collect();
    step!(sql, queues, stages, column(|key| key.tenant), texts)
}

impl Loading<'_> {
    pub(super) fn ask_keys(&self, needs: &Needs, round: &mut Round) {
        if self.locks && !needs.kept_keys.is_empty() {
            let name = |key: &Key| format!("windrow key {} {} {}", key.queue, key.tenant, key.key);
            let names: Vec<String> = needs.kept_keys.iter().map(name).collect();
            round.ask(Asked::KeyLocks, step!(LOCK_KEYS, names));
        }
        if !needs.keys.is_empty() {
            let step = keys(KEYS, &needs.keys);
            round.ask(Asked::Keys(needs.keys.clone()), step);
        }
        if !needs.kept_keys.is_empty() {
            let step = keys(KEPT_KEYS, &needs.kept_keys);
            round.ask(Asked::KeptKeys(needs.kept_keys.clone()), step);
        }
    }

    fn either(&self, sql: Sql) -> &'static str {
        if self.locks { sql.locks } else { sql.reads }
    }

    pub(super) fn ask_leases(&self, needs: &Needs, round: &mut Round) {
        if let Some(limit) = needs.expired {
            let now = self.desk.now.0 as i64;
            round.ask(Asked::Expired, step!(EXPIRED, now, limit as i64 + 1));
        }
        if let Some(until) = needs.expiring {
            round.ask(Asked::Expiring(until), step!(EXPIRING, until as i64));
        }
        if !needs.leases.is_empty() {
            let ids: Vec<Uuid> = needs.leases.iter().map(|id| Uuid::from_u128(id.0)).collect();
            round.ask(Asked::Leases(needs.leases.clone()), step!(self.either(LEASES), ids));
        }
    }

    pub(super) fn keys(&mut self, keys: BTreeSet<Key>, rows: &[Row], needs: &mut Needs) {
        for key in keys {
            self.desk.keys.load_none(key);
        }
        for row in rows {
            let id = self.desk.id(row.get(3));
            if !self.desk.items.is_known(&id) {
                needs.items.insert(id);
            }
            self.desk.keys.load(key(row), Some(id));
        }
    }

    /// Whoever has a key is locked after it was found. If it ended meanwhile, of which nothing may
    /// be kept, somebody else may have the key.
    pub(super) fn check_keys(&self) -> Result<(), Error> {
        let desk = &*self.desk;
        let holders = desk.keys.loaded().filter_map(|key| desk.keys.was(key));
        let is_live = |id: &ItemId| desk.items.was(id).is_some_and(|item| !item.is_done());
        if holders.copied().all(|id| is_live(&id)) { Ok(()) } else { Err(Error::Changed) }
    }

    pub(super) fn kept_keys(&mut self, keys: BTreeSet<Key>, rows: &[Row]) {
        for key in keys {
            self.desk.kept_keys.load_none(key);
        }
        for row in rows {
            let id = self.desk.id(row.get(3));
            self.desk.kept_keys.load(key(row), Some(id));
        }
    }

    /// Groups are taken only if no other server is at them.
    pub(super) fn ask_groups(&self, keys: &BTreeSet<GroupKey>, round: &mut Round) {
        if keys.is_empty() {
            return;
        }
        let all: Vec<GroupKey> = keys.iter().cloned().collect();
        let names: Vec<String> = all.iter().map(GroupKey::lock_name).collect();
        round.ask(Asked::GroupLocks(all.clone()), step!(TRY_GROUPS, names));
        round.ask(Asked::Members(all), groups(MEMBERS, keys));
    }

    pub(super) fn group_locks(&mut self, keys: &[GroupKey], rows: &[Row]) {
        for (key, row) in keys.iter().zip(rows) {
            let busy = !row.get::<_, bool>(0);
            self.desk.groups.load(key.clone(), Some(Members { busy, ..Members::default() }));
        }
    }

    pub(super) fn members(&mut self, keys: &[GroupKey], rows: &[Row]) {
        for row in rows {
            let Some(key) = keys.get(row.get::<_, i64>(0) as usize - 1) else { continue };
            let id = self.desk.id(row.get(1));
            let Some(members) = self.desk.groups.loaded_mut(key) else { continue };
            members.live.insert(id);
            if row.get(2) {
                members.leased.insert(id);
            }
        }
    }

    pub(super) fn ask_rest(
        &self,
        blobs: BTreeSet<Blob>,
        requests: BTreeSet<RequestId>,
        live: BTreeSet<Arc<str>>,
        waiting: BTreeSet<(u32, Arc<str>)>,
        round: &mut Round,
    ) {
        for (tenant, hash, bytes) in blobs {
            let step = step!(self.either(BLOB), tenant.to_string(), hash.to_vec(), bytes as i64);
            round.ask(Asked::Blob((tenant, hash, bytes)), step);
        }
        if !requests.is_empty() {
            let since = self.desk.now.0.saturating_sub(REQUEST_KEPT_MS) as i64;
            let ids: Vec<Uuid> = requests.iter().map(|id| Uuid::from_u128(id.0)).collect();
            round.ask(Asked::Requests, step!(REQUESTS, ids, since));
        }
        let names = self.desk.names.read();
        let number = |text: &str| names.find(text).map_or(-1, |no| no as i32);
        for queue in live {
            let step = step!(LIVE, number(&queue));
            round.ask(Asked::Live(queue), step);
        }
        for (queue, stage) in waiting {
            let step = step!(WAITING, queue as i32, number(&stage));
            round.ask(Asked::Waiting((queue, stage)), step);
        }
    }

    /// Resources are changed one by one, also those of which nothing is known yet.
    pub(super) fn ask_resources(&self, names: BTreeSet<Arc<str>>, round: &mut Round) {
        if self.locks && !names.is_empty() {
            let locks = names.iter().map(|name| format!("windrow resource {name}")).collect();
            let locks: Vec<String> = locks;
            round.ask(Asked::KeyLocks, step!(LOCK_KEYS, locks));
        }
        for name in names {
            let step = step!(RESOURCE, name.to_string());
            round.ask(Asked::Resource(name), step);
        }
    }

    /// Notes are written one by one, also those that do not exist yet.
    pub(super) fn ask_notes(&self, names: BTreeSet<NoteName>, round: &mut Round) {
        if self.locks && !names.is_empty() {
            let locks = names.iter().map(|(shelf, name)| format!("windrow note {shelf} {name}"));
            let locks: Vec<String> = locks.collect();
            round.ask(Asked::KeyLocks, step!(LOCK_KEYS, locks));
        }
        for (shelf, name) in names {
            let step = step!(NOTE, shelf.to_string(), name.to_string());
            round.ask(Asked::Note((shelf, name)), step);
        }
    }

    pub(super) fn requests(&mut self, rows: &[Row]) -> Result<(), Error> {
        for row in rows {
            let id = RequestId(row.get::<_, Uuid>(0).as_u128());
            let known = match row.get::<_, Option<&[u8]>>(2) {
                Some(answer) => Some((row.get::<_, i64>(1) as u64, unpack(answer)?)),
                None => None,
            };
            self.desk.requests.load(id, known);
        }
        Ok(())
    }
}

/// The key in the first columns of a row.
fn key(row: &Row) -> Key {
    let no = |at: usize| row.get::<_, i32>(at) as u32;
    Key { queue: no(0), tenant: no(1), key: row.get::<_, &str>(2).into() }
}
