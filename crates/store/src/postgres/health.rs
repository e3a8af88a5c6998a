//! Health: what of the database's own state endangers the queue.

use std::time::Duration;

use windrow_core::ports::StoreError;

use super::pool::Used;
use super::tx::step;
use super::{Error, Postgres};

/// From when on an old snapshot is worth a warning: either is enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub age: Duration,
    pub transactions: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { age: Duration::from_secs(300), transactions: 1_000_000 }
    }
}

/// Looks at a server before a store is opened on it; says what is not as it should be.
pub(super) async fn begin(client: &Used, accept_no_fsync: bool) -> Result<Vec<String>, Error> {
    let sql = "select current_setting('fsync'), current_setting('synchronous_commit')";
    let row = client.query_one(step!(sql)).await?;
    if row.get::<_, &str>(0) == "off" && !accept_no_fsync {
        return Err(Error::NotDurable);
    }
    let mut warnings = Vec::new();
    if row.get::<_, &str>(1) == "off" {
        warnings.push(
            "synchronous_commit is off: what was acknowledged in the last moments before a crash \
             of the database is lost; set it to on"
                .to_owned(),
        );
    }
    Ok(warnings)
}

impl Postgres {
    /// What was not as it should be when the store was opened. None of it keeps the queue from
    /// working.
    pub fn warnings(&self) -> &[String] {
        &self.shared.warnings
    }

    /// What holds back vacuum: rows that are dead stay in the way of every claim as long as
    /// somebody may still want to see them. One sentence for each that is beyond the limits.
    pub async fn health(&self, limits: Limits) -> Result<Vec<String>, StoreError> {
        let client = self.shared.pool.get().await?;
        Ok(held_back(&client, limits).await?)
    }
}

/// One sentence for each that holds back vacuum.
pub(super) async fn held_back(client: &Used, limits: Limits) -> Result<Vec<String>, Error> {
    let sql = "select what, age_s, transactions from (\
         select format('session %s (%s)', pid, coalesce(nullif(application_name, ''), \
             backend_type)) as what, \
           extract(epoch from clock_timestamp() - coalesce(xact_start, backend_start))::bigint \
             as age_s, \
           age(backend_xmin)::bigint as transactions \
         from pg_stat_activity where backend_xmin is not null and pid <> pg_backend_pid() \
           and (datname = current_database() or backend_type = 'walsender') \
         union all \
         select format('prepared transaction %s', gid), \
           extract(epoch from clock_timestamp() - prepared)::bigint, \
           age(transaction)::bigint \
         from pg_prepared_xacts where database = current_database() \
         union all \
         select format('replication slot %s', slot_name), null, age(xmin)::bigint \
         from pg_replication_slots where xmin is not null) held \
         where age_s >= $1 or transactions >= $2 order by transactions desc";
    let age_s = limits.age.as_secs().min(i64::MAX as u64) as i64;
    let transactions = limits.transactions.min(i64::MAX as u64) as i64;
    let rows = client.query(step!(sql, age_s, transactions)).await?;
    let said = rows.iter().map(|row| {
        let (what, transactions): (&str, i64) = (row.get(0), row.get(2));
        let since = row.get::<_, Option<i64>>(1);
        let since = since.map_or(String::new(), |age_s| format!("for {age_s} s and "));
        format!(
            "{what} holds back vacuum, {since}over {transactions} transactions; end it, or \
             claims become slow"
        )
    });
    Ok(said.collect())
}
