//! Migrations: the schema, forward only, each step once and by one server.

use sha2::{Digest as _, Sha256};
use tokio_postgres::{Client, Transaction};

use super::address::Address;
use super::pool::{Pool, Used};
use super::tx::step;
use super::{Error, Options, Postgres};

/// One step.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub number: i32,
    pub name: &'static str,
    pub sql: &'static str,
}

/// All steps, in order. One that has landed never changes.
pub const MIGRATIONS: [Migration; 11] = [
    Migration { number: 1, name: "queue", sql: include_str!("schema/0001_queue.sql") },
    Migration { number: 2, name: "views", sql: include_str!("schema/0002_views.sql") },
    Migration { number: 3, name: "documents", sql: include_str!("schema/0003_documents.sql") },
    Migration { number: 4, name: "enqueue", sql: include_str!("schema/0004_enqueue.sql") },
    Migration { number: 5, name: "claim", sql: include_str!("schema/0005_claim.sql") },
    Migration { number: 6, name: "notes", sql: include_str!("schema/0006_notes.sql") },
    Migration { number: 7, name: "find", sql: include_str!("schema/0007_find.sql") },
    Migration { number: 8, name: "quarantine", sql: include_str!("schema/0008_quarantine.sql") },
    Migration {
        number: 9,
        name: "blobs_and_resources",
        sql: include_str!("schema/0009_blobs_and_resources.sql"),
    },
    Migration {
        number: 10,
        name: "scheduled_for",
        sql: include_str!("schema/0010_scheduled_for.sql"),
    },
    Migration { number: 11, name: "extracted", sql: include_str!("schema/0011_extracted.sql") },
];

/// Held while a server migrates, so that ten that start at once do it in turn.
const LOCK: i64 = 0x0077_696e_6472_6f77;

impl Migration {
    /// What comes before the first.
    ///
    /// Asked for only if it is not there: who may not create it may still use it.
    pub const BEGIN: &'static str = "do $$ begin \
           if to_regclass('windrow.migrations') is null then \
             create schema if not exists windrow; \
             create table windrow.migrations (\
               number int primary key, name text not null, checksum text not null, \
               applied_at timestamptz not null default now()); \
           end if; \
         end $$";

    /// What tells whether a step that was applied is the one we know.
    pub fn checksum(&self) -> String {
        let sum = Sha256::digest(self.sql.as_bytes());
        sum[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
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

/// How far a database is.
#[derive(Clone, Debug)]
pub struct Schema {
    pub applied: Vec<Applied>,
    pub pending: Vec<Migration>,
}

impl Schema {
    /// Steps that are missing, in words: `step 2 (views), step 3 (sql)`.
    pub fn missing(&self) -> String {
        let each = self.pending.iter().map(|step| format!("step {} ({})", step.number, step.name));
        each.collect::<Vec<_>>().join(", ")
    }
}

impl Postgres {
    /// How far a database is. Changes nothing, and refuses what is newer than this program.
    pub async fn schema(options: &Options) -> Result<Schema, Error> {
        schema(&Pool::new(options)?.get().await?).await
    }

    /// Applies the steps that are missing, and says which.
    pub async fn migrate(options: &Options) -> Result<Vec<Migration>, Error> {
        migrate(Pool::new(options)?.get().await?.client_mut()).await
    }
}

async fn schema(client: &Used) -> Result<Schema, Error> {
    let exists = "select to_regclass('windrow.migrations') is not null";
    let mut applied = Vec::new();
    if client.query_one(step!(exists)).await?.get(0) {
        let sql = "select number, name, checksum, \
             to_char(applied_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') \
             from windrow.migrations order by number";
        for row in client.query(step!(sql)).await? {
            let (number, name): (i32, String) = (row.get(0), row.get(1));
            known(number, &name, row.get(2))?;
            applied.push(Applied { number, name, checksum: row.get(2), at: row.get(3) });
        }
    }
    let last = applied.last().map_or(0, |step| step.number);
    let pending = MIGRATIONS.into_iter().filter(|step| step.number > last).collect();
    Ok(Schema { applied, pending })
}

/// Refuses a database whose schema is not this program's.
pub(super) async fn ensure(client: &Used, address: &Address) -> Result<(), Error> {
    let (schema, address) = (schema(client).await?, address.shown());
    match (schema.applied.is_empty(), schema.pending.is_empty()) {
        (true, _) => Err(Error::NoStore { address }),
        (false, false) => Err(Error::OlderSchema { address, steps: schema.missing() }),
        (false, true) => Ok(()),
    }
}

/// Refuses a step that is not one of ours.
fn known(number: i32, name: &str, checksum: &str) -> Result<(), Error> {
    let name = name.to_owned();
    let Some(ours) = MIGRATIONS.iter().find(|step| step.number == number) else {
        return Err(Error::NewerSchema { number, name });
    };
    if ours.checksum() != checksum {
        return Err(Error::OtherSchema { number, name });
    }
    Ok(())
}

/// Brings the schema up to date. Refuses one that is newer than this program.
pub(super) async fn migrate(client: &mut Client) -> Result<Vec<Migration>, Error> {
    let tx = client.transaction().await?;
    let applied = apply(&tx).await?;
    tx.commit().await?;
    Ok(applied)
}

/// The same as a part of what somebody does there.
pub(super) async fn apply(tx: &Transaction<'_>) -> Result<Vec<Migration>, Error> {
    tx.execute("select pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    tx.batch_execute(Migration::BEGIN).await?;
    let applied = "select number, name, checksum from windrow.migrations order by number";
    let mut last = 0;
    for row in tx.query(applied, &[]).await? {
        last = row.get(0);
        known(last, row.get(1), row.get(2))?;
    }
    let pending: Vec<Migration> =
        MIGRATIONS.into_iter().filter(|step| step.number > last).collect();
    for step in &pending {
        tx.batch_execute(step.sql).await?;
        let note = "insert into windrow.migrations (number, name, checksum) values ($1, $2, $3)";
        tx.execute(note, &[&step.number, &step.name, &step.checksum()]).await?;
    }
    Ok(pending)
}
