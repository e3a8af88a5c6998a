//! How the store itself is: what waits, what is closed, how much it takes.
//!
//! Reads the first of each seat by the index and small tables; never what has ended.

use std::sync::Arc;

use tokio_postgres::Row;
use windrow_core::Timestamp;
use windrow_core::vitals::{Closed, InLine, Standing, Standings, Vitals, Waiting};

use super::health::held_back;
use super::tx::step;
use super::{Error, HealthLimits, Postgres};

/// The first in line of each seat, by queue, stage and whether a pause or a closed resource holds
/// it back. A serial has the millisecond of its item's creation in its upper bits.
const WAITING: &str = "select f.queue_name, f.is_held, min(f.since), f.stage from (\
       select p.queue_name, p.stage, greatest(s.first >> 16, i.not_before) as since, \
         exists (select from windrow.pauses x where x.queue = p.queue_name \
             and (x.stage is null or x.stage = p.stage) \
             and (x.tenant is null or x.tenant = t.name)) \
           or exists (select from windrow.gates g \
             where g.resource = p.resource and g.closed_until > $1) as is_held \
       from windrow.policies p cross join lateral windrow.seats(p.lane) s \
       join windrow.items i on i.serial = s.first join windrow.names t on t.no = s.tenant) f \
     group by 1, 2, 4";

const CLOSED: &str = "select resource, closed_until from windrow.gates where closed_until > $1 \
     order by resource collate \"C\"";

const FIGURES: &str = "select \
       (select count(*) from windrow.items where marks & 4 = 4), \
       (select sum(pg_total_relation_size(c.oid))::bigint from pg_class c \
         where c.relnamespace = 'windrow'::regnamespace and c.relkind = 'r'), \
       coalesce((select leads_until + 5000 > extract(epoch from clock_timestamp()) * 1000 \
         from windrow.leader), false)";

/// What waits in each stage, counted so far: in line by its index, and aside by its own.
const PENDING: &str = "select p.queue_name, p.stage, sum(w.pending)::bigint, \
       bool_or(w.pending > $1) \
     from windrow.policies p cross join lateral (select \
       (select count(*) from (select from windrow.line x where x.lane = p.lane limit $1 + 1) l) \
       + (select count(*) from (select from windrow.items i where i.lane = p.lane \
           and i.state = 0 and i.spot <> 1 limit $1 + 1) a) as pending) w \
     group by 1, 2";

/// What leases hold in each stage.
const RUNNING: &str = "select q.name, s.name, count(*) \
     from windrow.leases e cross join lateral unnest(e.serials) held (serial) \
     join windrow.items i on i.serial = held.serial join windrow.lanes l on l.no = i.lane \
     join windrow.names q on q.no = l.queue join windrow.names s on s.no = l.stage_name \
     group by 1, 2";

const NOW: &str = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";

impl Postgres {
    pub(super) async fn standings(
        &self,
        now: Timestamp,
        most: u64,
    ) -> Result<Vec<Standing>, Error> {
        let client = self.shared.pool.get().await?;
        let text = |row: &Row, column: usize| Arc::from(row.get::<_, &str>(column));
        let mut all = Standings::default();
        for row in client.query(step!(PENDING, most as i64)).await? {
            let standing = all.of(text(&row, 0), text(&row, 1));
            standing.waiting = row.get::<_, i64>(2) as u64;
            standing.is_capped = row.get(3);
        }
        for row in client.query(step!(RUNNING)).await? {
            all.of(text(&row, 0), text(&row, 1)).running = row.get::<_, i64>(2) as u64;
        }
        for row in client.query(step!(WAITING, now.0 as i64)).await? {
            let since = Timestamp(row.get::<_, i64>(2) as u64);
            all.of(text(&row, 0), text(&row, 3)).add_first(since);
        }
        Ok(all.told())
    }

    pub(super) async fn look_after(&self, now: Timestamp) -> Result<Vitals, Error> {
        let client = self.shared.pool.get().await?;
        let at = match self.shared.keeps_time {
            true => Timestamp(client.query_one(step!(NOW)).await?.get::<_, i64>(0) as u64),
            false => now.max(self.shared.latest()),
        };
        let ms = at.0 as i64;
        let waiting = client.query(step!(WAITING, ms)).await?;
        let waiting = waiting.iter().map(|row| InLine {
            queue: Arc::from(row.get::<_, &str>(0)),
            stage: Arc::from(row.get::<_, &str>(3)),
            since: Timestamp(row.get::<_, i64>(2) as u64),
            is_held: row.get::<_, bool>(1),
        });
        let closed = client.query(step!(CLOSED, ms)).await?;
        let closed = closed.iter().map(|row| Closed {
            resource: Arc::from(row.get::<_, &str>(0)),
            until: Timestamp(row.get::<_, i64>(1) as u64),
        });
        let figures = client.query_one(step!(FIGURES)).await?;
        let mut warnings = self.warnings().to_vec();
        warnings.extend(held_back(&client, HealthLimits::default()).await?);
        Ok(Vitals {
            at,
            waiting: Waiting::first_of(waiting),
            closed: closed.collect(),
            quarantined: figures.get::<_, i64>(0) as u64,
            used_bytes: figures.get::<_, Option<i64>>(1).map(|bytes| bytes as u64),
            is_led: Some(figures.get(2)),
            warnings,
            ..Vitals::default()
        })
    }
}
