//! Which of the servers does what must happen by itself: the one whose name is in the database, as
//! long as it comes back to say so.

use windrow_core::ports::{Lead, StoreError};

use super::Postgres;
use super::tx::step;

/// Who does not come back for so long has left it to the next.
const LEADS_MS: i64 = 3_000;

/// By the clock of the database, so that servers need not agree on the time. What an earlier leader
/// left is read before it is overwritten.
const LEAD: &str = "with now as (\
       select (extract(epoch from clock_timestamp()) * 1000)::bigint as ms), \
     before as (select leader, leads_until from windrow.leader for update) \
     update windrow.leader s set leader = $1, leads_until = now.ms + $2 from now, before \
     where before.leader = $1 or before.leads_until < now.ms \
     returning now.ms - (before.leads_until - $2)";

impl Postgres {
    pub(super) async fn ask_to_lead(&self) -> Result<Lead, StoreError> {
        let client = self.shared.pool.get().await?;
        let name = self.shared.origin as i64;
        let led = client.query(step!(LEAD, name, LEADS_MS)).await?;
        Ok(match led.first() {
            Some(row) => Lead::Leads { idle_ms: row.get::<_, i64>(0).max(0) as u64 },
            None => Lead::Follows,
        })
    }
}
