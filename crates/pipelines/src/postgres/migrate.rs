//! Migrations: a schema, forward only, each step once and by one server.

use sha2::{Digest as _, Sha256};
use tokio_postgres::Client;

use super::Trouble;
use super::value::{Tx, values};
use crate::catalog::CatalogError;

/// A schema of ours in a database.
pub(crate) struct Schema {
    pub(crate) name: &'static str,
    /// What is kept in it.
    pub(crate) what: &'static str,
    /// Held while a server migrates, so that ten that start at once do it in turn.
    pub(crate) lock: i64,
    /// All steps, in order. One that has landed never changes.
    pub(crate) steps: &'static [Step],
}

pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

impl Step {
    /// What tells whether a step that was applied is the one we know.
    fn checksum(&self) -> String {
        let sum = Sha256::digest(self.sql.as_bytes());
        sum[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Schema {
    /// Brings the schema up to date. Refuses one that is newer than this program, or another one.
    pub(crate) async fn migrate(&self, client: &mut Client) -> Result<(), Trouble> {
        let tx = Tx(client.transaction().await?);
        tx.run("select pg_advisory_xact_lock($1)", values![self.lock]).await?;
        tx.0.batch_execute(&self.begin()).await?;
        let name = self.name;
        let applied = format!("select number, name, checksum from {name}.migrations order by 1");
        let mut last = 0;
        for row in tx.rows(&applied, &[]).await? {
            last = usize::try_from(row.get::<_, i32>(0)).unwrap_or_default();
            self.known(last, row.get(1), row.get(2))?;
        }
        for (at, step) in self.steps.iter().enumerate().skip(last) {
            tx.0.batch_execute(step.sql).await?;
            let note = format!(
                "insert into {name}.migrations (number, name, checksum) values ($1, $2, $3)"
            );
            tx.run(&note, values![at as i32 + 1, step.name, step.checksum()]).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Asked for only if it is not there: who may not create it may still use it.
    fn begin(&self) -> String {
        let name = self.name;
        format!(
            "do $$ begin \
               if to_regclass('{name}.migrations') is null then \
                 create schema if not exists {name}; \
                 create table {name}.migrations (\
                   number int primary key, name text not null, checksum text not null, \
                   applied_at timestamptz not null default now()); \
               end if; \
             end $$"
        )
    }

    fn known(&self, number: usize, name: &str, checksum: &str) -> Result<(), CatalogError> {
        let what = self.what;
        let Some(ours) = number.checked_sub(1).and_then(|at| self.steps.get(at)) else {
            let newest = self.steps.len();
            let why = format!(
                "the {what} has step {number} ({name}) of its schema, and this program knows up \
                 to {newest}: use a newer one"
            );
            return Err(CatalogError::Bad { why });
        };
        if ours.checksum() != checksum {
            let why =
                format!("step {number} ({name}) of the {what}'s schema is not this program's");
            return Err(CatalogError::Bad { why });
        }
        Ok(())
    }
}
