//! Settings, pauses, gates and lanes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Saving, pack};
use crate::postgres::Error;
use crate::postgres::turns::LaneName;

impl Saving<'_, '_> {
    pub(super) async fn config(&self) -> Result<(), Error> {
        let (desk, touched) = (self.desk, &self.desk.touched);
        let lanes: BTreeSet<LaneName> = touched
            .items
            .iter()
            .filter_map(|id| desk.lane(&self.is(*id)?))
            .filter(|lane| !desk.base.config.lanes.contains(lane))
            .collect();
        let changed = !lanes.is_empty()
            || !touched.settings.is_empty()
            || !touched.paused.is_empty()
            || !touched.gates.is_empty();
        if !changed {
            return Ok(());
        }
        self.tx.execute("update windrow.store set configured = configured + 1", &[]).await?;
        for LaneName { queue, stage, kind } in lanes {
            let sql = "insert into windrow.lanes values ($1, $2, $3) on conflict do nothing";
            self.tx.execute(sql, &[&(queue as i32), &(stage as i32), &(kind as i32)]).await?;
        }
        for (scope, paused) in &touched.paused {
            let (stage, tenant) = (scope.stage.as_deref(), scope.tenant.as_deref());
            let sql = if *paused {
                "insert into windrow.pauses values ($1, $2, $3) on conflict do nothing"
            } else {
                "delete from windrow.pauses where queue = $1 \
                 and stage is not distinct from $2 and tenant is not distinct from $3"
            };
            self.tx.execute(sql, &[&&*scope.queue, &stage, &tenant]).await?;
        }
        for resource in &touched.gates {
            let until = desk.view.config.gates.get(resource).map_or(0, |until| until.0 as i64);
            let sql = "insert into windrow.gates values ($1, $2) \
                 on conflict (resource) do update set closed_until = excluded.closed_until";
            self.tx.execute(sql, &[&&**resource, &until]).await?;
        }
        for queue in &touched.settings {
            self.configure(queue).await?;
        }
        Ok(())
    }

    /// New settings of a queue, and what follows from them for what waits in it.
    async fn configure(&self, queue: &Arc<str>) -> Result<(), Error> {
        let Some(no) = self.desk.names.read().find(queue).map(|no| no as i32) else {
            return Err(Error::Malformed);
        };
        let Some(settings) = self.desk.view.config.settings.get(queue) else { return Ok(()) };
        let sql = "insert into windrow.settings values ($1, $2) \
             on conflict (queue) do update set settings = excluded.settings";
        self.tx.execute(sql, &[&no, &pack(&**settings)]).await?;
        let lanes = &self.desk.base.config.lanes;
        for lane in lanes.iter().filter(|lane| lane.queue as i32 == no) {
            let first = {
                let names = self.desk.names.read();
                let (stage, kind) = (names.text(lane.stage), names.text(lane.kind));
                let (Some(stage), Some(kind)) = (stage, kind) else { continue };
                settings.policy(stage, kind).retry_first
            };
            let sql = "update windrow.items set \
                 class = priority * 2 + (case when $4 and marks & 128 = 128 then 1 else 0 end), \
                 spot = case when spot = 3 then 1 else spot end \
                 where queue = $1 and stage_name = $2 and kind = $3 and spot > 0";
            let (stage, kind) = (lane.stage as i32, lane.kind as i32);
            self.tx.execute(sql, &[&no, &stage, &kind, &first]).await?;
        }
        Ok(())
    }
}
