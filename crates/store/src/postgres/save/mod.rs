//! Saving: what a batch changed, one statement per table, all sent with the commit.

mod beside;
mod config;
mod items;
mod line;

use std::collections::BTreeMap;

use windrow_core::item::{Marks, Status};
use windrow_core::{Item, ItemId};

use super::Error;
use super::desk::Desk;
use super::load::groups;
use super::tx::{Step, step};
use crate::embedded::codec::Pack;

fn pack<T: Pack>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.put(&mut bytes);
    bytes
}

fn serials<'a>(ids: impl IntoIterator<Item = &'a ItemId>) -> Vec<i64> {
    ids.into_iter().map(|id| id.serial() as i64).collect()
}

/// The steps that write what changed on a desk.
pub(super) struct Saved {
    pub(super) steps: Vec<Step>,
    /// The step whose rows are the items that came back in line because their group has room.
    pub(super) freed: Option<usize>,
}

/// Counts are added to in a slot of their own, so that those who save at the same time do not wait
/// for each other.
pub(super) fn save(desk: &Desk, slot: i32) -> Result<Saved, Error> {
    let mut saving = Saving { desk, steps: Vec::new(), freed: None };
    saving.removed();
    saving.out_of_line();
    saving.items()?;
    saving.in_line();
    saving.bodies();
    saving.trails();
    saving.beside();
    saving.leases();
    saving.folds(slot);
    saving.requests();
    saving.groups();
    saving.config()?;
    saving.counts(slot);
    let Saving { steps, freed, .. } = saving;
    Ok(Saved { steps, freed })
}

struct Saving<'a> {
    desk: &'a Desk,
    steps: Vec<Step>,
    freed: Option<usize>,
}

const FREED: &str = "with back as (update windrow.items i set spot = 1 \
       from unnest($1::int[], $2::int[], $3::int[], $4::text[]) \
         g (queue, stage_name, tenant, grp), windrow.lanes l \
       where i.spot = 3 and i.queue = g.queue and i.tenant = g.tenant and i.grp = g.grp \
         and l.no = i.lane and l.stage_name = g.stage_name \
       returning i.lane, i.class, i.tenant, i.serial) \
     insert into windrow.line select * from back returning lane, class, tenant, serial";

/// Of items that are still as they were when they came in line.
const OUT_OF_LINE: &str = "delete from windrow.line l using windrow.items i \
     where i.serial = any ($1) and l.lane = i.lane and l.class = i.class \
       and l.tenant = i.tenant and l.serial = i.serial";

/// What is left of items that are removed: of all, of those that were live when the batch began, of
/// parents, and of those that somebody waits behind.
const GONE: [&str; 2] = [
    "delete from windrow.history where serial = any ($1)",
    "delete from windrow.bodies where serial = any ($1)",
];
const GONE_LIVE: [&str; 4] = [
    OUT_OF_LINE,
    "delete from windrow.items where serial = any ($1)",
    "delete from windrow.trails where serial = any ($1)",
    "delete from windrow.progress where serial = any ($1)",
];
const GONE_PARENTS: [&str; 2] = [
    "delete from windrow.tallies where serial = any ($1)",
    "delete from windrow.orphans where parent = any ($1)",
];
const GONE_SUCCEEDED: [&str; 1] = ["delete from windrow.successors where of_serial = any ($1)"];

const COUNTS: &str = "insert into windrow.counts (queue, tenant, status, slot, items, roots) \
     select queue, tenant, status, $6, items, roots from unnest($1::int[], $2::int[], \
     $3::smallint[], $4::bigint[], $5::bigint[]) u (queue, tenant, status, items, roots) \
     on conflict (queue, tenant, status, slot) do update \
     set items = counts.items + excluded.items, roots = counts.roots + excluded.roots";

impl Saving<'_> {
    fn step(&mut self, step: Step) {
        self.steps.push(step);
    }

    fn removed(&mut self) {
        let desk = self.desk;
        let was = |id: &ItemId| desk.items.was(id).filter(|item| item.is_done());
        let lacks = |id: &ItemId, mark| was(id).is_some_and(|item| !item.has(mark));
        // Most have ended before, and have nothing beside them.
        let all = || desk.decided.removed.iter();
        self.remove(all(), &GONE);
        self.remove(all().filter(|id| was(id).is_none()), &GONE_LIVE);
        self.remove(all().filter(|id| !lacks(id, Marks::PARENT)), &GONE_PARENTS);
        self.remove(all().filter(|id| !lacks(id, Marks::SUCCEEDED)), &GONE_SUCCEEDED);
    }

    fn remove<'a>(&mut self, ids: impl Iterator<Item = &'a ItemId>, from: &[&'static str]) {
        let gone = serials(ids);
        if !gone.is_empty() {
            from.iter().for_each(|sql| self.step(step!(sql, gone.clone())));
        }
    }

    /// Parks what its group holds up, and brings back what has room now.
    fn groups(&mut self) {
        let (desk, decided) = (self.desk, &self.desk.decided);
        let parked = serials(decided.parked.iter().filter(|id| desk.is_parked(**id)));
        if !parked.is_empty() {
            self.step(step!("select windrow.park($1)", parked));
        }
        if !decided.freed.is_empty() {
            let names: Vec<String> = decided.freed.iter().map(|key| key.lock_name()).collect();
            let lock = "select pg_advisory_xact_lock(hashtextextended(name, 0)) \
                        from unnest($1::text[]) with ordinality l (name, at) order by at";
            self.step(step!(lock, names));
            self.freed = Some(self.steps.len());
            self.step(groups(FREED, &decided.freed));
        }
    }

    /// Counts come last: they are what batches meet at.
    fn counts(&mut self, slot: i32) {
        let mut counts: BTreeMap<(u32, u32, u8), (i64, i64)> = BTreeMap::new();
        let mut add = |item: &Item, by: i64| {
            let count = counts.entry((item.queue.0, item.tenant.0, status(item.status())));
            let count = count.or_default();
            count.0 += by;
            count.1 += if item.is_done() && item.is_root() { by } else { 0 };
        };
        for (id, is) in self.desk.items.decided() {
            self.desk.items.was(id).into_iter().for_each(|item| add(item, -1));
            is.into_iter().for_each(|item| add(item, 1));
        }
        counts.retain(|_, (items, roots)| *items != 0 || *roots != 0);
        if counts.is_empty() {
            return;
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
        self.step(step!(COUNTS, queues, tenants, statuses, items, roots, slot));
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
