//! Finding items: a window of rows at a time, by serial, downwards.
//!
//! One statement looks at so many rows, live and ended together, and says which of them may be in
//! the list and how far it came; so none takes long, however little is found. What it finds is then
//! read as whatever is inspected, and the filter decides. Names in the statement that are null do
//! not matter.

use windrow_core::find::{Filter, Page, Text};
use windrow_core::item::Status;
use windrow_core::ports::{Enough, Inspected};
use windrow_core::{ItemId, Timestamp};

use super::desk::Desk;
use super::queries::inspected;
use super::tx::{Step, step};
use super::{Error, Postgres};

/// Rows that one statement looks at, and how many if it must look into bodies and trails.
const WINDOW: i64 = 5_000;
const READ_WINDOW: i64 = 1_000;

/// The statement, with what ended rows must be to be looked at: a condition that an index has, so
/// it cannot be a parameter.
macro_rules! window {
    ($ended:literal) => {
        concat!(
            "with looked as (select * from (\
               (select serial, queue, tenant, lane, marks, key, class, state, spot, \
                 null::smallint as ended, null::json as trail \
                from windrow.items where serial < $1 and $3 order by serial desc limit $2) \
              union all \
               (select serial, queue, tenant, lane, marks, key, null, null, null, ended, trail \
                from windrow.history where serial < $1 and $4 ",
            $ended,
            " order by serial desc limit $2)) b order by serial desc limit $2), \
             lanes as materialized (select l.no, k.name as kind from windrow.lanes l \
               join windrow.names k on k.no = l.kind join windrow.names s on s.no = l.stage_name \
               where ($8::text is null or k.name = $8) and ($9::text is null or s.name = $9)), \
             found as (select l.serial from looked l join lanes n on n.no = l.lane \
               left join windrow.bodies b on b.serial = case when $13 then l.serial end \
               left join windrow.trails t on t.serial = \
                 case when $14::text is not null and l.marks & 8 = 8 then l.serial end \
               where ($6::text is null \
                   or l.queue = (select no from windrow.names where name = $6)) \
                 and ($7::text is null \
                   or l.tenant = (select no from windrow.names where name = $7)) \
                 and (l.state = 3 or case \
                   when l.ended is not null then 2 + l.ended \
                   when l.state = 2 then 1 \
                   when l.state = 1 or l.spot <> 1 then 0 \
                   when $15 then case when exists (select from windrow.line w \
                       where w.lane = l.lane and w.class = l.class and w.tenant = l.tenant \
                         and w.serial = l.serial) then 0 else 1 end \
                   else 0 end = any ($5)) \
                 and ($10::text is null or b.collection = $10) \
                 and ($11::text is null or b.branch = $11) \
                 and ($12::text is null or b.source_type = $12) \
                 and ($14::text is null or strpos(lower(n.kind collate \"C\"), $14) > 0 \
                   or strpos(lower(l.key collate \"C\"), $14) > 0 \
                   or strpos(lower(b.source_info collate \"C\"), $14) > 0 \
                   or (length($14) >= 8 \
                     and starts_with(windrow.item_id(l.serial, $16)::text, $14)) \
                   or strpos(lower(coalesce(l.trail, t.trail)->>'reason' collate \"C\"), $14) > 0 \
                   or exists (select \
                       from json_array_elements(coalesce(l.trail, t.trail)->'stages') s \
                       where strpos(lower(s->'error'->>'message' collate \"C\"), $14) > 0)) \
               order by l.serial desc limit $17) \
             select array(select serial from found order by serial desc), \
               (select min(serial) from looked), (select count(*) from looked)"
        )
    };
}

const ANY: &str = window!("");
const UNWELL: &str = window!("and ended <> 0");

/// What one statement found.
struct Window {
    ids: Vec<ItemId>,
    /// How far it came; none at the end.
    reached: Option<ItemId>,
}

impl Postgres {
    pub(super) async fn find_items(
        &self,
        filter: &Filter,
        after: Option<ItemId>,
        limit: usize,
        enough: Enough<'_>,
    ) -> Result<Page, Error> {
        let mut page = Page { items: Vec::new(), next: after };
        if filter.texts().any(|text| text.contains('\0')) {
            // No text in the database has one.
            return Ok(Page::default());
        }
        loop {
            let room = limit.saturating_sub(page.items.len());
            let window = self.window(filter, page.next, room).await?;
            let ask = |desk: &Desk| -> Vec<Inspected> {
                window.ids.iter().filter_map(|id| inspected(desk, *id)).collect()
            };
            let seen = if window.ids.is_empty() {
                Vec::new()
            } else {
                self.look(Timestamp::ZERO, ask).await?
            };
            page.items.extend(seen.into_iter().filter(|s| filter.admits(s)).map(Into::into));
            page.next = window.reached;
            if page.next.is_none() || page.items.len() >= limit || enough() {
                return Ok(page);
            }
        }
    }

    async fn window(
        &self,
        filter: &Filter,
        after: Option<ItemId>,
        room: usize,
    ) -> Result<Window, Error> {
        let rows = if filter.needs_body() { READ_WINDOW } else { WINDOW };
        let room = room.clamp(1, rows as usize) as i64;
        let client = self.shared.pool.get().await?;
        let tag = self.shared.tag.bits() as i64;
        let row = client.query_one(statement(filter, after, rows, room, tag)).await?;
        let id = |serial: i64| ItemId::from_serial(serial as u64, self.shared.tag);
        let ids: Vec<ItemId> = row.get::<_, Vec<i64>>(0).into_iter().map(id).collect();
        let is_full = ids.len() as i64 == room;
        let reached = if is_full {
            ids.last().copied()
        } else {
            let low = row.get::<_, Option<i64>>(1).filter(|_| row.get::<_, i64>(2) == rows);
            low.map(id)
        };
        Ok(Window { ids, reached })
    }
}

fn statement(filter: &Filter, after: Option<ItemId>, rows: i64, room: i64, tag: i64) -> Step {
    let text = |name: &Option<std::sync::Arc<str>>| name.as_ref().map(|name| name.to_string());
    let has = |status: Status| filter.admits_status(status);
    // What lives shows one of these, also if it waits for children.
    let lives = has(Status::Pending) || has(Status::Processing);
    let ends = [Status::Completed, Status::Failed, Status::Cancelled, Status::Skipped];
    let sql = if has(Status::Completed) { ANY } else { UNWELL };
    // Whether somebody waits or is out on a lease is looked up only if that matters.
    let tells_apart = has(Status::Pending) != has(Status::Processing);
    let numbers = (0..).zip(Status::ALL).filter(|(_, status)| has(*status));
    let statuses: Vec<i16> = numbers.map(|(number, _)| number).collect();
    step!(
        sql,
        after.map_or(i64::MAX, |id| id.serial() as i64),
        rows,
        lives,
        ends.into_iter().any(has),
        statuses,
        text(&filter.queue),
        text(&filter.tenant),
        text(&filter.kind),
        text(&filter.stage),
        text(&filter.collection),
        text(&filter.branch),
        text(&filter.source_type),
        filter.needs_body(),
        filter.text.as_ref().map(|text: &Text| text.as_str().to_owned()),
        tells_apart,
        tag,
        room,
    )
}
