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

/// One step of a schema.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub name: &'static str,
    pub sql: &'static str,
}

/// How far a schema is, for whoever looks at it.
#[derive(Clone, Debug)]
pub struct State {
    pub schema: &'static str,
    /// What is to be done before its first step.
    pub begin: String,
    pub applied: Vec<Applied>,
    /// Steps that are missing, by their numbers.
    pub pending: Vec<(i32, Step)>,
}

/// A step that a database has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applied {
    pub number: i32,
    pub name: String,
    pub checksum: String,
    /// In UTC, to the second.
    pub at: String,
}

impl Step {
    /// What tells whether a step that was applied is the one we know.
    pub fn checksum(&self) -> String {
        let sum = Sha256::digest(self.sql.as_bytes());
        sum[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Schema {
    /// How far it is where nothing is.
    pub(crate) fn nowhere(&self) -> State {
        let numbered = (1..).zip(self.steps.iter().copied());
        let (schema, begin) = (self.name, self.begin());
        State { schema, begin, applied: Vec::new(), pending: numbered.collect() }
    }

    /// How far it is in a database. Changes nothing, and refuses what this program does not know.
    pub(crate) async fn look(&self, client: &Client) -> Result<State, Trouble> {
        let (mut state, name) = (self.nowhere(), self.name);
        let is_there = format!("select to_regclass('{name}.migrations') is not null");
        if !client.query_typed_one(&is_there, &[]).await?.get::<_, bool>(0) {
            return Ok(state);
        }
        let applied = format!(
            "select number, name, checksum, \
             to_char(applied_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') \
             from {name}.migrations order by 1"
        );
        for row in client.query_typed(&applied, &[]).await? {
            let (number, name): (i32, String) = (row.get(0), row.get(1));
            let (checksum, at): (String, String) = (row.get(2), row.get(3));
            self.known(usize::try_from(number).unwrap_or_default(), &name, &checksum)?;
            state.pending.retain(|(pending, _)| *pending > number);
            state.applied.push(Applied { number, name, checksum, at });
        }
        Ok(state)
    }

    /// Brings the schema up to date. Refuses one that is newer than this program, or another one.
    /// Says which steps were applied.
    pub(crate) async fn migrate(&self, client: &mut Client) -> Result<Vec<(i32, Step)>, Trouble> {
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
        let mut applied = Vec::new();
        for (number, step) in (1_i32..).zip(self.steps.iter().copied()).skip(last) {
            tx.0.batch_execute(step.sql).await?;
            let note = format!(
                "insert into {name}.migrations (number, name, checksum) values ($1, $2, $3)"
            );
            tx.run(&note, values![number, step.name, step.checksum()]).await?;
            applied.push((number, step));
        }
        tx.commit().await?;
        Ok(applied)
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
