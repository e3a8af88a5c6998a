//! Items: new, changed, ended, and back from history.

use std::collections::BTreeMap;

use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windrow_core::item::{End, Marks};
use windrow_core::{Item, State};

use super::Saving;
use crate::postgres::Error;
use crate::postgres::desk::Desk;
use crate::postgres::key::KeyHash;
use crate::postgres::turns::LaneName;

/// Columns of rows, to be unnested.
#[derive(Default)]
struct Rows {
    serial: Vec<i64>,
    queue: Vec<i32>,
    tenant: Vec<i32>,
    kind: Vec<i32>,
    stage_name: Vec<i32>,
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
    key: Vec<Option<Uuid>>,
    // Live ones.
    class: Vec<i16>,
    state: Vec<i16>,
    spot: Vec<i16>,
    not_before: Vec<i64>,
    lease: Vec<Option<Uuid>>,
    // Ended ones.
    ended: Vec<i16>,
    ended_s: Vec<i64>,
    gaps: Vec<bool>,
}

const COMMON: &str = "serial, queue, tenant, kind, stage_name, route, stage, priority, attempts, \
     deferrals, generation, skipped, marks, grp, parent, place_generation, ordinal, level, key";
const COMMON_TYPES: &str = "$1::bigint[], $2::int[], $3::int[], $4::int[], $5::int[], $6::int[], \
     $7::smallint[], $8::smallint[], $9::int[], $10::int[], $11::int[], $12::int[], $13::int[], \
     $14::text[], $15::bigint[], $16::int[], $17::bigint[], $18::smallint[], $19::uuid[]";

impl Rows {
    fn push(&mut self, desk: &Desk, item: &Item, stage_name: u32) {
        self.serial.push(item.id.serial() as i64);
        self.queue.push(item.queue.0 as i32);
        self.tenant.push(item.tenant.0 as i32);
        self.kind.push(item.kind.0 as i32);
        self.stage_name.push(stage_name as i32);
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
        let key = desk.view.bodies.get(&item.id).and_then(|body| {
            let key = body.key.as_deref()?;
            Some(Uuid::from_u128(KeyHash::new(&body.tenant, &body.queue, key).0))
        });
        self.key.push(key);
    }

    fn push_live(&mut self, desk: &Desk, item: &Item, lane: LaneName) {
        self.push(desk, item, lane.stage);
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
        self.state.push(state);
        self.spot.push(spot);
        self.not_before.push(not_before as i64);
        self.lease.push(lease);
    }

    fn push_ended(&mut self, desk: &Desk, item: &Item, lane: LaneName, end: End) {
        self.push(desk, item, lane.stage);
        let finished = desk.view.trails.get(&item.id).and_then(|trail| trail.finished_at);
        self.ended.push(end as i16);
        self.ended_s.push(finished.unwrap_or(desk.now).0.div_ceil(1_000) as i64);
        self.gaps.push(desk.view.tallies.get(&item.id).is_some_and(|tally| tally.gaps > 0));
    }

    fn common(&self) -> [&(dyn ToSql + Sync); 19] {
        [
            &self.serial,
            &self.queue,
            &self.tenant,
            &self.kind,
            &self.stage_name,
            &self.route,
            &self.stage,
            &self.priority,
            &self.attempts,
            &self.deferrals,
            &self.generation,
            &self.skipped,
            &self.marks,
            &self.grp,
            &self.parent,
            &self.place_generation,
            &self.ordinal,
            &self.level,
            &self.key,
        ]
    }
}

impl Saving<'_, '_> {
    pub(super) async fn items(&self) -> Result<(), Error> {
        let (mut new, mut changed, mut ended) = Default::default();
        let (mut left, mut revived) = (Vec::new(), Vec::new());
        for id in &self.desk.touched.items {
            let (was, Some(is)) = (self.was(*id), self.is(*id)) else { continue };
            let Some(lane) = self.desk.lane(&is) else { return Err(Error::Malformed) };
            let was_live = was.is_some_and(|item| !item.is_done());
            let was_ended = was.is_some_and(|item| item.is_done());
            let serial = id.serial() as i64;
            match is.state {
                State::Done(end) => {
                    if was_live {
                        left.push(serial);
                    }
                    if was_ended {
                        revived.push(serial);
                    }
                    Rows::push_ended(&mut ended, self.desk, &is, lane, end);
                }
                _ => {
                    if was_ended {
                        revived.push(serial);
                    }
                    let rows: &mut Rows = if was_live { &mut changed } else { &mut new };
                    rows.push_live(self.desk, &is, lane);
                }
            }
        }
        if !left.is_empty() {
            // The key of an item whose body was not looked at is in its row.
            let keep = "delete from windrow.items i where serial = any ($1) returning serial, key";
            let keys: BTreeMap<i64, Option<Uuid>> = self
                .tx
                .query(keep, &[&left])
                .await?
                .iter()
                .map(|row| (row.get(0), row.get(1)))
                .collect();
            for (at, serial) in ended.serial.iter().enumerate() {
                if ended.key[at].is_none() {
                    ended.key[at] = keys.get(serial).copied().flatten();
                }
            }
        }
        if !revived.is_empty() {
            let gone = "delete from windrow.history where serial = any ($1) returning serial, key";
            for row in self.tx.query(gone, &[&revived]).await? {
                let (serial, key): (i64, Option<Uuid>) = (row.get(0), row.get(1));
                for rows in [&mut new, &mut ended] {
                    if let Some(at) = rows.serial.iter().position(|known| *known == serial) {
                        rows.key[at] = rows.key[at].or(key);
                    }
                }
            }
        }
        // One that leaves its key to its successor does so before that one takes it.
        self.insert_ended(&ended).await?;
        self.update(&changed).await?;
        self.insert(&new).await
    }

    async fn insert(&self, rows: &Rows) -> Result<(), Error> {
        if rows.serial.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "insert into windrow.items ({COMMON}, class, state, spot, not_before, lease) \
             select * from unnest({COMMON_TYPES}, $20::smallint[], $21::smallint[], \
             $22::smallint[], $23::bigint[], $24::uuid[])"
        );
        let mut values: Vec<&(dyn ToSql + Sync)> = rows.common().to_vec();
        values.extend([&rows.class as &(dyn ToSql + Sync), &rows.state, &rows.spot]);
        values.extend([&rows.not_before as &(dyn ToSql + Sync), &rows.lease]);
        self.tx.execute(&sql, &values).await?;
        Ok(())
    }

    async fn update(&self, rows: &Rows) -> Result<(), Error> {
        if rows.serial.is_empty() {
            return Ok(());
        }
        let sql = "update windrow.items i set stage_name = u.stage_name, stage = u.stage, \
             priority = u.priority, class = u.class, state = u.state, spot = u.spot, \
             not_before = u.not_before, lease = u.lease, attempts = u.attempts, \
             deferrals = u.deferrals, generation = u.generation, skipped = u.skipped, \
             marks = u.marks, key = coalesce(u.key, i.key) \
             from unnest($1::bigint[], $2::int[], $3::smallint[], $4::smallint[], \
             $5::smallint[], $6::smallint[], $7::smallint[], $8::bigint[], $9::uuid[], \
             $10::int[], $11::int[], $12::int[], $13::int[], $14::int[], $15::uuid[]) \
             u (serial, stage_name, stage, priority, class, state, spot, not_before, lease, \
             attempts, deferrals, generation, skipped, marks, key) \
             where i.serial = u.serial";
        let values: [&(dyn ToSql + Sync); 15] = [
            &rows.serial,
            &rows.stage_name,
            &rows.stage,
            &rows.priority,
            &rows.class,
            &rows.state,
            &rows.spot,
            &rows.not_before,
            &rows.lease,
            &rows.attempts,
            &rows.deferrals,
            &rows.generation,
            &rows.skipped,
            &rows.marks,
            &rows.key,
        ];
        self.tx.execute(sql, &values).await?;
        Ok(())
    }

    async fn insert_ended(&self, rows: &Rows) -> Result<(), Error> {
        if rows.serial.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "insert into windrow.history ({COMMON}, ended, ended_s, gaps) \
             select * from unnest({COMMON_TYPES}, $20::smallint[], $21::bigint[], $22::bool[])"
        );
        let mut values: Vec<&(dyn ToSql + Sync)> = rows.common().to_vec();
        values.extend([&rows.ended as &(dyn ToSql + Sync), &rows.ended_s, &rows.gaps]);
        self.tx.execute(&sql, &values).await?;
        Ok(())
    }
}
