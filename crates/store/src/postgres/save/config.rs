//! Settings, pauses and gates.

use std::sync::Arc;

use windrow_core::Item;
use windrow_core::settings::{Settings, Unique};

use super::{Saving, pack};
use crate::postgres::tx::step;
use crate::postgres::{Error, plain};

const SETTINGS: &str = "insert into windrow.settings (queue, settings, plain) \
     values ($1, $2, $3::text::jsonb) \
     on conflict (queue) do update set settings = excluded.settings, plain = excluded.plain";

const KEEP_KEYS: &str = "update windrow.history set keeps_key = $2 \
     where queue = $1 and key is not null and keeps_key <> $2";

impl Saving<'_> {
    pub(super) fn config(&mut self) -> Result<(), Error> {
        let decided = &self.desk.decided;
        if decided.config.is_none() {
            return Ok(());
        }
        self.step(step!("update windrow.store set configured = configured + 1"));
        for (scope, paused) in &decided.paused {
            let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
            let sql = if *paused {
                "insert into windrow.pauses values ($1, $2, $3) on conflict do nothing"
            } else {
                "delete from windrow.pauses where queue = $1 \
                 and stage is not distinct from $2 and tenant is not distinct from $3"
            };
            let (stage, tenant) = (text(&scope.stage), text(&scope.tenant));
            self.step(step!(sql, scope.queue.to_string(), stage, tenant));
        }
        for queue in &decided.settings {
            self.configure(queue)?;
        }
        Ok(())
    }

    /// New settings of a queue, and what follows from them for what is in it.
    fn configure(&mut self, queue: &Arc<str>) -> Result<(), Error> {
        let desk = self.desk;
        let no = desk.names.read().find(queue).ok_or(Error::Malformed)?;
        let Some(settings) = desk.config().settings.get(queue) else { return Ok(()) };
        self.step(step!(SETTINGS, no as i32, pack(&**settings), plain::write(settings)));
        let before = desk.config.settings.get(queue);
        let kept = |settings: Option<&Arc<Settings>>| {
            settings.is_some_and(|settings| settings.unique == Unique::Retained)
        };
        // What ended in this batch may have done so under settings between the two.
        let ended = desk.items.decided().filter_map(|(_, item)| item);
        let has_ended = ended.filter(|item| item.queue.0 == no).any(Item::is_done);
        if has_ended || kept(before) != kept(Some(settings)) {
            self.step(step!(KEEP_KEYS, no as i32, kept(Some(settings))));
        }
        for (lane_no, lane) in &desk.config().lanes {
            if lane.name.queue == no {
                let sql = "select windrow.reclass($1, $2)";
                self.step(step!(sql, *lane_no as i32, lane.policy.retry_first));
            }
        }
        Ok(())
    }
}
