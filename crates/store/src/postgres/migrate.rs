//! Migrations: the schema, forward only, each step once and by one server.

use sha2::{Digest as _, Sha256};
use tokio_postgres::Client;

use super::Error;

/// One step.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub number: i32,
    pub name: &'static str,
    pub sql: &'static str,
}

/// All steps, in order. One that has landed never changes.
pub const MIGRATIONS: [Migration; 1] =
    [Migration { number: 1, name: "queue", sql: include_str!("schema/0001_queue.sql") }];

/// Held while a server migrates, so that ten that start at once do it in turn.
const LOCK: i64 = 0x0077_696e_6472_6f77;

impl Migration {
    /// What tells whether a step that was applied is the one we know.
    pub fn checksum(&self) -> String {
        let sum = Sha256::digest(self.sql.as_bytes());
        sum[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Brings the schema up to date. Refuses one that is newer than this program.
pub(super) async fn migrate(client: &mut Client) -> Result<(), Error> {
    let tx = client.transaction().await?;
    tx.execute("select pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    let begin = "create schema if not exists windrow; \
         create table if not exists windrow.migrations (\
           number int primary key, name text not null, checksum text not null, \
           applied_at timestamptz not null default now())";
    tx.batch_execute(begin).await?;
    let applied = "select number, name, checksum from windrow.migrations order by number";
    let mut known = 0;
    for row in tx.query(applied, &[]).await? {
        let (number, name): (i32, String) = (row.get(0), row.get(1));
        let Some(ours) = MIGRATIONS.iter().find(|step| step.number == number) else {
            return Err(Error::NewerSchema { number, name });
        };
        if ours.checksum() != row.get::<_, &str>(2) {
            return Err(Error::OtherSchema { number, name });
        }
        known = number;
    }
    for step in MIGRATIONS.iter().filter(|step| step.number > known) {
        tx.batch_execute(step.sql).await?;
        let note = "insert into windrow.migrations (number, name, checksum) values ($1, $2, $3)";
        tx.execute(note, &[&step.number, &step.name, &step.checksum()]).await?;
    }
    tx.commit().await?;
    Ok(())
}
