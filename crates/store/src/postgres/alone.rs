//! Whether servers are at a database, for whoever must be alone there.

use std::time::Duration;

use super::migrate;
use super::pool::{Pool, Used};
use super::tx::{Step, step};
use super::{Error, Options, Postgres, SERVER_NAME};

/// How the program names itself while it must be alone, so that it does not take itself for a
/// server.
pub(super) const LONER_NAME: &str = "windrow move";

/// How often, and how far apart, one looks whether the servers are gone: for longer than one that
/// is gone seems to lead.
const LOOKS: u32 = 34;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

const CONNECTED: &str = "select count(*) from pg_stat_activity \
     where datname = current_database() and application_name = $1";
const LEADING: &str = "select count(*) from windrow.leader \
     where leads_until > (extract(epoch from clock_timestamp()) * 1000)::bigint";

impl Postgres {
    /// Refuses while servers are at a store, which must be there. Those behind a pooler, which has
    /// connections of its own, are known by one of them leading, which seems to last a little
    /// longer than it does.
    pub async fn ensure_unserved(options: &Options) -> Result<(), Error> {
        let pool = Pool::new(&options.clone().for_move())?;
        let client = pool.get().await?;
        migrate::ensure(&client, pool.address()).await?;
        ensure_unserved(&client, &pool).await
    }
}

/// The same of a database in which there may be no store yet.
pub(super) async fn ensure_unserved(client: &Used, pool: &Pool) -> Result<(), Error> {
    ensure_alone(client, pool).await?;
    let is_there = "select to_regclass('windrow.leader') is not null";
    if !client.query_one(step!(is_there)).await?.get::<_, bool>(0) {
        return Ok(());
    }
    ensure_none(client, pool, || step!(LEADING)).await
}

/// Refuses while servers are connected. One that was just stopped is given a moment. Behind a
/// pooler nobody can be told from who was there before.
async fn ensure_alone(client: &Used, pool: &Pool) -> Result<(), Error> {
    if pool.address().pooled {
        return Ok(());
    }
    ensure_none(client, pool, || step!(CONNECTED, SERVER_NAME.to_owned())).await
}

async fn ensure_none(client: &Used, pool: &Pool, count: impl Fn() -> Step) -> Result<(), Error> {
    for _ in 0..LOOKS {
        if client.query_one(count()).await?.get::<_, i64>(0) == 0 {
            return Ok(());
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    Err(Error::Served { address: pool.address().shown() })
}
