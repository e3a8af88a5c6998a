//! A database server as somebody finds it who has not opened a store there: what it is set to, and
//! what of that endangers the queue is for the reader to say. Changes nothing.

use windrow_core::Timestamp;

use super::health::{Limits, held_back};
use super::pool::Pool;
use super::tx::step;
use super::{Error, Options, Postgres};

/// What a server is set to, and how it stands.
#[derive(Clone, Debug)]
pub struct Server {
    /// As `server_version` says it: `15.14 (Debian 15.14-0+deb12u1)`.
    pub version: String,
    /// As `server_version_num` does: 150014.
    pub version_number: i32,
    pub fsync: bool,
    pub full_page_writes: bool,
    /// `on`, `off`, `local`, `remote_write` or `remote_apply`.
    pub synchronous_commit: String,
    pub autovacuum: bool,
    /// Connections that it takes from roles like ours, and how many there are.
    pub connections_max: i64,
    pub connections: i64,
    /// Connections that a server of ours opens, the one that listens included.
    pub wanted: usize,
    /// Its time.
    pub now: Timestamp,
    /// What holds back vacuum, one sentence each.
    pub held_back: Vec<String>,
}

const SETTINGS: &str = "select current_setting('server_version'), \
       current_setting('server_version_num')::int, current_setting('fsync') = 'on', \
       current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'), \
       current_setting('autovacuum') = 'on', \
       current_setting('max_connections')::bigint \
         - current_setting('superuser_reserved_connections')::bigint, \
       (select count(*) from pg_stat_activity where backend_type = 'client backend'), \
       (extract(epoch from clock_timestamp()) * 1000)::bigint";

impl Postgres {
    /// Looks at a server.
    pub async fn server(options: &Options) -> Result<Server, Error> {
        let pool = Pool::new(options)?;
        let wanted = pool.address().connections.unwrap_or(options.connections) + 1;
        let client = pool.get().await?;
        let row = client.query_one(step!(SETTINGS)).await?;
        Ok(Server {
            version: row.get(0),
            version_number: row.get(1),
            fsync: row.get(2),
            full_page_writes: row.get(3),
            synchronous_commit: row.get(4),
            autovacuum: row.get(5),
            connections_max: row.get(6),
            connections: row.get(7),
            wanted,
            now: Timestamp(row.get::<_, i64>(8).max(0) as u64),
            held_back: held_back(&client, Limits::default()).await?,
        })
    }
}
