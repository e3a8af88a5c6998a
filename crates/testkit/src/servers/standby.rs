//! A synchronous standby: a second server that has everything before anybody hears of it.

use anyhow::ensure;

use super::postgres::{PATIENCE, Postgres};
use super::process::{output, until};

/// By what name the primary knows its standby.
const NAME: &str = "standby";

impl Postgres {
    /// A standby of this server, for which its commits wait from now on.
    pub fn standby(&self) -> anyhow::Result<Postgres> {
        let standby = Postgres::placed(self.version, self.durability)?;
        let from =
            format!("host=127.0.0.1 port={} user=postgres application_name={NAME}", self.port());
        let mut copy = standby.program("pg_basebackup");
        copy.args(["--dbname", &from, "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
        output(copy.arg("--pgdata").arg(standby.data()))?;
        let standby = standby.started()?;
        // A cluster that was copied from one with a standby already waits for the next.
        let wait = format!("alter system set synchronous_standby_names = '{NAME}'");
        self.psql("postgres", &wait)?;
        self.psql("postgres", "select pg_reload_conf()")?;
        let synchronous = "select count(*) from pg_stat_replication where sync_state = 'sync'";
        let is_waited_for = || self.psql("postgres", synchronous).is_ok_and(|count| count == "1");
        ensure!(until(PATIENCE, is_waited_for), "nobody waits for the standby");
        Ok(standby)
    }

    /// Makes a standby the primary, and waits until it takes writes.
    pub fn promote(&self) -> anyhow::Result<()> {
        let mut promote = self.program("pg_ctl");
        output(promote.args(["promote", "--wait", "--pgdata"]).arg(self.data())).map(drop)
    }
}
