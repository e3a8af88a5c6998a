//! Items: new, changed, ended, and back from history.

use uuid::Uuid;
use windrow_core::item::{End, Marks, Payload};
use windrow_core::{Body, Item, ItemId, State};

use super::{Saving, serials};
use crate::postgres::Error;
use crate::postgres::desk::Desk;
use crate::postgres::trail;
use crate::postgres::tx::{Step, Value, step};

/// Columns of rows, to be unnested.
#[derive(Default)]
struct Rows {
    serial: Vec<i64>,
    queue: Vec<i32>,
    tenant: Vec<i32>,
    lane: Vec<i32>,
    route: Vec<i32>,
    stage: Vec<i16>,
    priority: Vec<i16>,
    attempts: Vec<i32>,
    deferrals: Vec<i32>,
    generation: Vec<i32>,
    skipped: Vec<i32>,
    marks: Vec<i32>,
    grp: Vec<Option<String>>,
    parent: Vec<Option<i64>>,
    place_generation: Vec<i32>,
    ordinal: Vec<i64>,
    level: Vec<i16>,
    key: Vec<Option<String>>,
    // Live ones.
    class: Vec<i16>,
    state: Vec<i16>,
    spot: Vec<i16>,
    not_before: Vec<i64>,
    lease: Vec<Option<Uuid>>,
    // Ended ones.
    ended: Vec<i16>,
    ended_s: Vec<i64>,
    keeps_key: Vec<bool>,
    gaps: Vec<bool>,
    folded: Vec<bool>,
    trail: Vec<Option<String>>,
    /// One of them has what most items have not: a group, a parent, deferrals, another place than
    /// the line.
    is_unusual: bool,
}

const NEW: &str = "insert into windrow.items (serial, queue, tenant, lane, route, priority, class, \
     marks, key) select * from unnest($1::bigint[], $2::int[], $3::int[], $4::int[], $5::int[], \
     $6::smallint[], $7::smallint[], $8::int[], $9::text[])";

const NEW_UNUSUAL: &str = "insert into windrow.items (serial, queue, tenant, lane, route, stage, \
     priority, attempts, deferrals, generation, skipped, marks, grp, parent, place_generation, \
     ordinal, level, key, class, state, spot, not_before, lease) \
     select * from unnest($1::bigint[], $2::int[], $3::int[], $4::int[], $5::int[], \
     $6::smallint[], $7::smallint[], $8::int[], $9::int[], $10::int[], $11::int[], $12::int[], \
     $13::text[], $14::bigint[], $15::int[], $16::bigint[], $17::smallint[], $18::text[], \
     $19::smallint[], $20::smallint[], $21::smallint[], $22::bigint[], $23::uuid[])";

const CHANGED: &str = "update windrow.items i set lane = u.lane, stage = u.stage, \
     priority = u.priority, class = u.class, state = u.state, spot = u.spot, \
     not_before = u.not_before, lease = u.lease, attempts = u.attempts, \
     deferrals = u.deferrals, generation = u.generation, skipped = u.skipped, marks = u.marks \
     from unnest($1::bigint[], $2::int[], $3::smallint[], $4::smallint[], $5::smallint[], \
     $6::smallint[], $7::smallint[], $8::bigint[], $9::uuid[], $10::int[], $11::int[], \
     $12::int[], $13::int[], $14::int[]) \
     u (serial, lane, stage, priority, class, state, spot, not_before, lease, attempts, \
     deferrals, generation, skipped, marks) where i.serial = u.serial";

const ENDED: &str = "insert into windrow.history (serial, queue, tenant, lane, route, stage, \
     priority, attempts, marks, key, ended, ended_s, keeps_key, trail) \
     select u.serial, u.queue, u.tenant, u.lane, u.route, u.stage, u.priority, u.attempts, \
     u.marks, u.key, u.ended, u.ended_s, u.keeps_key, u.trail::json \
     from unnest($1::bigint[], $2::int[], $3::int[], $4::int[], $5::int[], $6::smallint[], \
     $7::smallint[], $8::int[], $9::int[], $10::text[], $11::smallint[], $12::bigint[], \
     $13::bool[], $14::text[]) u (serial, queue, tenant, lane, route, stage, priority, attempts, \
     marks, key, ended, ended_s, keeps_key, trail)";

const ENDED_UNUSUAL: &str = "insert into windrow.history (serial, queue, tenant, lane, route, \
     stage, priority, attempts, deferrals, generation, skipped, marks, grp, parent, \
     place_generation, ordinal, level, key, ended, ended_s, keeps_key, gaps, folded, trail) \
     select u.serial, u.queue, u.tenant, u.lane, u.route, u.stage, u.priority, u.attempts, \
     u.deferrals, u.generation, u.skipped, u.marks, u.grp, u.parent, u.place_generation, \
     u.ordinal, u.level, u.key, u.ended, u.ended_s, u.keeps_key, u.gaps, u.folded, u.trail::json \
     from unnest($1::bigint[], $2::int[], $3::int[], $4::int[], $5::int[], $6::smallint[], \
     $7::smallint[], $8::int[], $9::int[], $10::int[], $11::int[], $12::int[], $13::text[], \
     $14::bigint[], $15::int[], $16::bigint[], $17::smallint[], $18::text[], $19::smallint[], \
     $20::bigint[], $21::bool[], $22::bool[], $23::bool[], $24::text[]) u (serial, queue, tenant, \
     lane, route, stage, priority, attempts, deferrals, generation, skipped, marks, grp, parent, \
     place_generation, ordinal, level, key, ended, ended_s, keeps_key, gaps, folded, trail)";

/// Collects boxed columns.
macro_rules! columns {
    ($rows:expr, $($column:ident),*) => {
        vec![$(Box::new($rows.$column) as Value),*]
    };
}

/// What live and ended items have in common, and then the rest.
macro_rules! all_columns {
    ($rows:expr, $($rest:ident),* $(,)?) => {
        columns!(
            $rows, serial, queue, tenant, lane, route, stage, priority, attempts, deferrals,
            generation, skipped, marks, grp, parent, place_generation, ordinal, level, key,
            $($rest),*
        )
    };
}

impl Rows {
    fn push(&mut self, desk: &Desk, item: &Item, lane: u32) {
        self.serial.push(item.id.serial() as i64);
        self.queue.push(item.queue.0 as i32);
        self.tenant.push(item.tenant.0 as i32);
        self.lane.push(lane as i32);
        self.route.push(item.route.0 as i32);
        self.stage.push(i16::from(item.stage));
        self.priority.push(i16::from(item.priority));
        self.attempts.push(i32::from(item.attempts));
        self.deferrals.push(i32::from(item.deferrals));
        self.generation.push(i32::from(item.generation));
        self.skipped.push(i32::from(item.skipped));
        self.marks.push(i32::from(item.marks.bits()));
        self.grp.push(item.group.and_then(|no| desk.group_name(no)).map(|name| name.to_string()));
        self.parent.push(item.place.map(|place| place.parent.serial() as i64));
        self.place_generation.push(item.place.map_or(0, |place| i32::from(place.generation)));
        self.ordinal.push(item.place.map_or(0, |place| i64::from(place.ordinal)));
        self.level.push(i16::from(item.level()));
        self.key.push(desk.keyed.get(&item.id).map(|key| key.to_string()));
        self.is_unusual |= item.group.is_some()
            || item.place.is_some()
            || item.deferrals > 0
            || item.generation > 0
            || item.skipped > 0;
    }

    fn push_live(&mut self, desk: &Desk, item: &Item, lane: u32) {
        self.push(desk, item, lane);
        self.class.push(i16::from(desk.class(item)));
        let (state, not_before, lease) = match item.state {
            State::Pending { not_before } => (0, not_before.0, None),
            State::Held { not_before } => (1, not_before.0, None),
            State::Leased { lease } => (2, 0, Some(Uuid::from_u128(lease.0))),
            State::Split | State::Done(_) => (3, 0, None),
        };
        let spot = match item.state {
            State::Pending { .. } if item.has(Marks::QUARANTINED) => 0,
            State::Pending { not_before } if not_before > desk.now => 2,
            State::Pending { .. } => 1,
            _ => 0,
        };
        self.is_unusual |= spot != 1 || not_before > 0 || item.attempts > 0 || item.stage > 0;
        self.state.push(state);
        self.spot.push(spot);
        self.not_before.push(not_before as i64);
        self.lease.push(lease);
    }

    fn push_ended(&mut self, desk: &Desk, item: &Item, lane: u32, end: End) {
        self.push(desk, item, lane);
        let known = desk.trails.get(&item.id);
        let finished = known.and_then(|trail| trail.finished_at).unwrap_or(desk.now);
        let keeps = desk.keeps_keys(item.queue.0);
        let gaps = desk.tallies.get(&item.id).is_some_and(|tally| tally.gaps > 0);
        let folded = desk.decided.folded.get(&item.id).copied();
        let folded = folded.unwrap_or_else(|| desk.loaded_folded.contains(&item.id));
        self.is_unusual |= gaps || folded;
        self.ended.push(end as i16);
        self.ended_s.push(finished.0.div_ceil(1_000) as i64);
        self.keeps_key.push(keeps && item.has(Marks::KEYED));
        self.gaps.push(gaps);
        self.folded.push(folded);
        self.trail.push(known.map(trail::write));
    }

    fn insert(self) -> Option<Step> {
        if self.serial.is_empty() {
            return None;
        }
        Some(if self.is_unusual {
            let columns = all_columns!(self, class, state, spot, not_before, lease);
            Step::new(NEW_UNUSUAL, columns)
        } else {
            let columns =
                columns!(self, serial, queue, tenant, lane, route, priority, class, marks, key);
            Step::new(NEW, columns)
        })
    }

    fn update(self) -> Option<Step> {
        if self.serial.is_empty() {
            return None;
        }
        let columns = columns!(
            self, serial, lane, stage, priority, class, state, spot, not_before, lease, attempts,
            deferrals, generation, skipped, marks
        );
        Some(Step::new(CHANGED, columns))
    }

    fn end(self) -> Option<Step> {
        if self.serial.is_empty() {
            return None;
        }
        Some(if self.is_unusual {
            let columns = all_columns!(self, ended, ended_s, keeps_key, gaps, folded, trail);
            Step::new(ENDED_UNUSUAL, columns)
        } else {
            let columns = columns!(
                self, serial, queue, tenant, lane, route, stage, priority, attempts, marks, key,
                ended, ended_s, keeps_key, trail
            );
            Step::new(ENDED, columns)
        })
    }
}

impl Saving<'_> {
    pub(super) fn items(&mut self) -> Result<(), Error> {
        let (mut new, mut changed, mut ended): (Rows, Rows, Rows) = Default::default();
        let (mut left, mut revived) = (Vec::new(), Vec::new());
        for id in self.desk.items.changed() {
            let was = self.desk.items.was(&id);
            let Some(is) = self.desk.items.get(&id) else { continue };
            let lane = self.desk.lane(is).ok_or(Error::Malformed)?;
            let was_live = was.is_some_and(|item| !item.is_done());
            if was.is_some_and(Item::is_done) {
                revived.push(id.serial() as i64);
            }
            match is.state {
                State::Done(end) => {
                    left.extend(was_live.then_some(id.serial() as i64));
                    ended.push_ended(self.desk, is, lane, end);
                }
                _ if was.is_some_and(|was| self.goes_out(was, is)) => {}
                _ if was_live => changed.push_live(self.desk, is, lane),
                _ => new.push_live(self.desk, is, lane),
            }
        }
        if !left.is_empty() {
            self.step(step!("delete from windrow.items where serial = any ($1)", left));
        }
        if !revived.is_empty() {
            self.step(step!("delete from windrow.history where serial = any ($1)", revived));
        }
        // One that leaves its key to its successor does so before that one takes it.
        let steps = [ended.end(), changed.update(), new.insert()];
        self.steps.extend(steps.into_iter().flatten());
        Ok(())
    }

    pub(super) fn bodies(&mut self) {
        let desk = self.desk;
        let changed = desk.bodies.changed();
        let kept = changed.iter().filter(|id| !desk.decided.removed.contains(*id));
        let (new, replaced): (Vec<ItemId>, Vec<ItemId>) =
            kept.partition(|id| desk.items.was(id).is_none());
        // An id that another server gave out as well is met here, and the batch is tried again.
        self.put_bodies(&new);
        if !replaced.is_empty() {
            let gone = "delete from windrow.bodies where serial = any ($1)";
            self.step(step!(gone, serials(&replaced)));
            self.put_bodies(&replaced);
        }
    }

    fn put_bodies(&mut self, ids: &[ItemId]) {
        let desk = self.desk;
        let bodies: Vec<(&ItemId, &Body)> =
            ids.iter().filter_map(|id| Some((id, desk.bodies.get(id)?))).collect();
        if bodies.is_empty() {
            return;
        }
        let serial = serials(bodies.iter().map(|(id, _)| *id));
        let column = |of: fn(&Body) -> Option<String>| -> Vec<Option<String>> {
            bodies.iter().map(|(_, body)| of(body)).collect()
        };
        let op: Vec<String> = bodies.iter().map(|(_, body)| body.op.to_string()).collect();
        let inline = |body: &Body| match &body.payload {
            Payload::Inline(bytes) => Some(bytes.clone()),
            Payload::Blob(_) => None,
        };
        let payload: Vec<Option<Vec<u8>>> = bodies.iter().map(|(_, body)| inline(body)).collect();
        if bodies.iter().all(|(_, body)| is_short(body)) {
            return self.step(step!(SHORT_BODIES, serial, op, payload));
        }
        let blob = |body: &Body| body.payload.blob();
        let hash: Vec<_> = bodies.iter().map(|(_, b)| blob(b).map(|b| b.hash.to_vec())).collect();
        let bytes: Vec<_> = bodies.iter().map(|(_, b)| blob(b).map(|b| b.len as i64)).collect();
        let from = |body: &Body| body.cloned_from.map(|id| Uuid::from_u128(id.0));
        let cloned_from: Vec<Option<Uuid>> = bodies.iter().map(|(_, b)| from(b)).collect();
        self.step(step!(
            BODIES,
            serial,
            op,
            column(|body| body.collection.as_deref().map(Into::into)),
            column(|body| body.branch.as_deref().map(Into::into)),
            column(|body| body.source_type.as_deref().map(Into::into)),
            column(|body| body.source_info.clone()),
            column(|body| body.reference.clone()),
            column(|body| body.content_type.as_deref().map(Into::into)),
            payload,
            hash,
            bytes,
            column(|body| body.metadata.clone()),
            cloned_from,
        ));
    }
}

const SHORT_BODIES: &str = "insert into windrow.bodies (serial, op, payload) \
     select * from unnest($1::bigint[], $2::text[], $3::bytea[])";

const BODIES: &str = "insert into windrow.bodies (serial, op, collection, branch, source_type, \
     source_info, reference, content_type, payload, blob, blob_bytes, metadata, cloned_from) \
     select * from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], \
     $6::text[], $7::text[], $8::text[], $9::bytea[], $10::bytea[], $11::bigint[], $12::text[], \
     $13::uuid[])";

/// Whether a body has nothing but a payload.
fn is_short(body: &Body) -> bool {
    let texts = [&body.collection, &body.branch, &body.source_type, &body.content_type];
    texts.iter().all(|text| text.is_none())
        && [&body.source_info, &body.reference, &body.metadata].iter().all(|t| t.is_none())
        && body.payload.blob().is_none()
        && body.cloned_from.is_none()
}
