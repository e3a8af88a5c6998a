//! Lists that only the database can make.

use tokio_postgres::Row;
use windrow_core::limits::FOLD_AFTER_MS;
use windrow_core::rules::notify::EVERY_QUEUE;
use windrow_core::settings::Retention;
use windrow_core::{ItemId, Ledger as _};

use super::{Asked, Loading, Round, serials};
use crate::postgres::loaded::Listed;
use crate::postgres::needs::{List, Needs};
use crate::postgres::tx::{Step, step};

const CHILDREN: &str = "select w.parent, w.generation, w.ordinal, coalesce(i.serial, h.serial) \
     from unnest($1::bigint[], $2::int[], $3::bigint[]) w (parent, generation, ordinal) \
     left join windrow.items i on i.parent = w.parent \
       and i.place_generation = w.generation and i.ordinal = w.ordinal \
     left join windrow.history h on h.parent = w.parent \
       and h.place_generation = w.generation and h.ordinal = w.ordinal";

const CHILDREN_FROM: &str = "select ordinal, serial from (\
     select ordinal, serial from windrow.items \
     where parent = $1 and place_generation = $2 and ordinal >= $3 union all \
     select ordinal, serial from windrow.history \
     where parent = $1 and place_generation = $2 and ordinal >= $3) c \
     order by ordinal limit $4";

const LIVE_CHILDREN: &str = "select ordinal, serial from windrow.items \
     where parent = $1 and place_generation = $2 order by ordinal limit $3";

const ENDING: &str = "select generation::bigint, serial from (\
     select generation, serial from windrow.items where marks & 2 = 2 union \
     select generation, parent from windrow.orphans) e \
     order by serial desc, generation desc limit $1";

const FOLDABLE: &str = "select row_number() over (order by ended_s, serial), serial \
     from windrow.history where parent is null and marks & 16 = 16 \
     and not folded and not gaps and ended_s < ($2::bigint - $1::bigint + 999) / 1000 \
     order by ended_s, serial limit $3";

/// Too old, or more than its queue keeps of a tenant. Both read the index from its beginning and
/// no further than they must.
const OVERDUE: &str = "with keep (queue, age, most) as (\
       select * from unnest($1::int[], $2::bigint[], $3::bigint[])), \
     kept as (\
       select c.queue, c.tenant, sum(c.roots) - coalesce(k.most, $5) as excess, \
         ($6 - coalesce(k.age, $4)) as since \
       from windrow.counts c left join keep k on k.queue = c.queue \
       group by c.queue, c.tenant, k.most, k.age having sum(c.roots) > 0) \
     select row_number() over (order by ended_s, serial), serial from (\
       select x.ended_s, x.serial from kept cross join lateral (\
         select ended_s, serial from windrow.history h \
         where h.parent is null and h.queue = kept.queue and h.tenant = kept.tenant \
         and h.ended_s < (kept.since + 999) / 1000 \
         order by ended_s, serial limit $7) x \
       union \
       select x.ended_s, x.serial from kept cross join lateral (\
         select ended_s, serial from windrow.history h \
         where h.parent is null and h.queue = kept.queue and h.tenant = kept.tenant \
         order by ended_s, serial limit least(kept.excess, $7)) x where kept.excess > 0) due \
     order by ended_s, serial limit $7";

pub(super) fn ask_children(needs: &Needs, round: &mut Round) {
    if needs.children.is_empty() {
        return;
    }
    let parents = serials(needs.children.iter().map(|at| at.0));
    let generations: Vec<i32> = needs.children.iter().map(|at| i32::from(at.1)).collect();
    let ordinals: Vec<i64> = needs.children.iter().map(|at| i64::from(at.2)).collect();
    round.ask(Asked::Children, step!(CHILDREN, parents, generations, ordinals));
}

impl Loading<'_> {
    pub(super) fn children(&mut self, rows: &[Row]) {
        for row in rows {
            let (generation, ordinal) = (row.get::<_, i32>(1), row.get::<_, i64>(2));
            let at = (self.desk.id(row.get(0)), generation as u16, ordinal as u32);
            let child = row.get::<_, Option<i64>>(3).map(|serial| self.desk.id(serial));
            self.desk.children.load(at, child);
        }
    }

    pub(super) fn list(&self, list: List, count: usize) -> Step {
        let limit = count as i64;
        match list {
            List::Children { parent, generation, from } => {
                let (parent, generation) = (parent.serial() as i64, i32::from(generation));
                step!(CHILDREN_FROM, parent, generation, i64::from(from), limit)
            }
            List::LiveChildren { parent, generation } => {
                step!(LIVE_CHILDREN, parent.serial() as i64, i32::from(generation), limit)
            }
            List::Ending => step!(ENDING, limit),
            List::Foldable => {
                step!(FOLDABLE, FOLD_AFTER_MS as i64, self.desk.now.0 as i64, limit)
            }
            List::Overdue => self.overdue(limit),
        }
    }

    pub(super) fn listed(&mut self, list: List, count: usize, rows: &[Row], needs: &mut Needs) {
        let items: Vec<(u32, ItemId)> = rows
            .iter()
            .map(|row| (row.get::<_, i64>(0) as u32, self.desk.id(row.get(1))))
            .collect();
        let wanted = match list {
            List::Foldable | List::Overdue => &mut needs.ended,
            _ => &mut needs.items,
        };
        let ids = items.iter().map(|(_, id)| *id);
        wanted.extend(ids.filter(|id| !self.desk.items.is_known(id)));
        self.desk.lists.insert(list, Listed { items, asked: count });
    }

    /// Ended roots past their keeping.
    fn overdue(&self, limit: i64) -> Step {
        let (mut queues, mut ages, mut most) = (Vec::new(), Vec::new(), Vec::new());
        let names = self.desk.names.read();
        let every = self.desk.settings(EVERY_QUEUE).retention;
        let columns = |keep: Retention| {
            let age = keep.max_age_ms.min(i64::MAX as u64 / 2) as i64;
            (age, i64::from(keep.max_per_tenant))
        };
        for (queue, settings) in &self.desk.config().settings {
            if let Some(no) = names.find(queue) {
                let (age, max) = columns(settings.retention.or(every));
                queues.push(no as i32);
                ages.push(age);
                most.push(max);
            }
        }
        let (age, max) = columns(every);
        step!(OVERDUE, queues, ages, most, age, max, self.desk.now.0 as i64, limit)
    }
}
