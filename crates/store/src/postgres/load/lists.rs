//! Lists that only the database can make.

use tokio_postgres::Row;
use windrow_core::ItemId;
use windrow_core::limits::FOLD_AFTER_MS;

use super::{Loading, serials};
use crate::postgres::Error;
use crate::postgres::desk::Listed;
use crate::postgres::needs::{List, Needs};

impl Loading<'_, '_> {
    pub(super) async fn children(&mut self, needs: &mut Needs) -> Result<(), Error> {
        if needs.children.is_empty() {
            return Ok(());
        }
        let wanted = std::mem::take(&mut needs.children);
        let parents = serials(wanted.iter().map(|at| at.0));
        let generations: Vec<i32> = wanted.iter().map(|at| i32::from(at.1)).collect();
        let ordinals: Vec<i64> = wanted.iter().map(|at| i64::from(at.2)).collect();
        let sql = "select w.parent, w.generation, w.ordinal, coalesce(i.serial, h.serial) \
             from unnest($1::bigint[], $2::int[], $3::bigint[]) w (parent, generation, ordinal) \
             left join windrow.items i on i.parent = w.parent \
               and i.place_generation = w.generation and i.ordinal = w.ordinal \
             left join windrow.history h on h.parent = w.parent \
               and h.place_generation = w.generation and h.ordinal = w.ordinal";
        for row in self.tx.query(sql, &[&parents, &generations, &ordinals]).await? {
            let (generation, ordinal) = (row.get::<_, i32>(1), row.get::<_, i64>(2));
            let at = (self.desk.id(row.get(0)), generation as u16, ordinal as u32);
            let child = row.get::<_, Option<i64>>(3).map(|serial| self.desk.id(serial));
            self.desk.base.children.insert(at, child);
        }
        Ok(())
    }

    pub(super) async fn list(
        &mut self,
        list: List,
        count: usize,
        needs: &mut Needs,
    ) -> Result<(), Error> {
        let limit = count as i64;
        let rows = match list {
            List::Children { parent, generation, from } => {
                let sql = "select ordinal, serial from (\
                     select ordinal, serial from windrow.items \
                     where parent = $1 and place_generation = $2 and ordinal >= $3 union all \
                     select ordinal, serial from windrow.history \
                     where parent = $1 and place_generation = $2 and ordinal >= $3) c \
                     order by ordinal limit $4";
                let (parent, generation) = (parent.serial() as i64, i32::from(generation));
                let from = i64::from(from);
                self.tx.query(sql, &[&parent, &generation, &from, &limit]).await?
            }
            List::LiveChildren { parent, generation } => {
                let sql = "select ordinal, serial from windrow.items \
                           where parent = $1 and place_generation = $2 order by ordinal limit $3";
                let (parent, generation) = (parent.serial() as i64, i32::from(generation));
                self.tx.query(sql, &[&parent, &generation, &limit]).await?
            }
            List::Ending => {
                let sql = "select generation::bigint, serial from (\
                     select generation, serial from windrow.items where marks & 2 = 2 union \
                     select generation, parent from windrow.orphans) e \
                     order by serial desc, generation desc limit $1";
                self.tx.query(sql, &[&limit]).await?
            }
            List::Foldable => {
                let sql = "select row_number() over (order by ended_s, serial), serial \
                     from windrow.history where parent is null and marks & 16 = 16 \
                     and not folded and not gaps and ended_s * 1000 + $1 < $2 \
                     order by ended_s, serial limit $3";
                let (now, after) = (self.desk.now.0 as i64, FOLD_AFTER_MS as i64);
                self.tx.query(sql, &[&after, &now, &limit]).await?
            }
            List::Overdue => self.overdue(limit).await?,
        };
        let items: Vec<(u32, ItemId)> = rows
            .iter()
            .map(|row| (row.get::<_, i64>(0) as u32, self.desk.id(row.get(1))))
            .collect();
        needs.items.extend(items.iter().map(|(_, id)| *id));
        self.desk.base.lists.insert(list, Listed { items, asked: count });
        Ok(())
    }

    /// Ended roots past their keeping: too old, or more than their queue keeps of a tenant.
    async fn overdue(&self, limit: i64) -> Result<Vec<Row>, Error> {
        let (mut queues, mut ages, mut most) = (Vec::new(), Vec::new(), Vec::new());
        {
            let names = self.desk.names.read();
            for (queue, settings) in &self.desk.base.config.settings {
                if let Some(no) = names.find(queue) {
                    queues.push(no as i32);
                    ages.push(settings.retention.max_age_ms.min(i64::MAX as u64 / 2) as i64);
                    most.push(i64::from(settings.retention.max_per_tenant));
                }
            }
        }
        let plain = self.desk.plain.retention;
        let (age, max) = (plain.max_age_ms as i64, i64::from(plain.max_per_tenant));
        let now = self.desk.now.0 as i64;
        let sql = "with keep (queue, age, most) as (\
               select * from unnest($1::int[], $2::bigint[], $3::bigint[])), \
             excess as (\
               select c.queue, c.tenant, sum(c.roots) - coalesce(k.most, $5) as excess \
               from windrow.counts c left join keep k on k.queue = c.queue \
               group by c.queue, c.tenant, k.most having sum(c.roots) > coalesce(k.most, $5)) \
             select row_number() over (order by ended_s, serial), serial from (\
               select h.ended_s, h.serial from windrow.history h \
               left join keep k on k.queue = h.queue \
               where h.parent is null and h.ended_s * 1000 + coalesce(k.age, $4) < $6 \
               union \
               select x.ended_s, x.serial from excess e cross join lateral (\
                 select ended_s, serial from windrow.history h \
                 where h.parent is null and h.queue = e.queue and h.tenant = e.tenant \
                 order by ended_s, serial limit e.excess) x) due \
             order by ended_s, serial limit $7";
        let found = self.tx.query(sql, &[&queues, &ages, &most, &age, &max, &now, &limit]).await?;
        Ok(found)
    }
}
