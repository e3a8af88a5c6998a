//! PgBouncer in front of a server, giving each transaction another connection.

use std::fs::{self, OpenOptions};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::place::{Place, free_port};
use super::postgres::Postgres;
use super::process::{Account, spawn, until};

/// Names the program, where it is not the usual one.
const VARIABLE: &str = "WINDROW_PGBOUNCER";
const USUAL: &str = "/usr/sbin/pgbouncer";
const PATIENCE: Duration = Duration::from_secs(60);

/// Fewer than a store has connections, so that they change hands all the time.
const SERVER_CONNECTIONS: u32 = 3;

/// A running pooler. Dropping it ends it.
#[derive(Debug)]
pub struct PgBouncer {
    child: Child,
    port: u16,
    _place: Place,
}

impl PgBouncer {
    pub fn start(server: &Postgres) -> anyhow::Result<PgBouncer> {
        let program = std::env::var_os(VARIABLE).map_or_else(|| USUAL.into(), PathBuf::from);
        ensure!(
            program.exists(),
            "pgbouncer is not here: `cargo xtask test` installs the Debian package `pgbouncer`; \
             or set {VARIABLE} to the program"
        );
        let (account, place, port) = (Account::find()?, Place::new()?, free_port()?);
        let settings = place.dir().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=postgres\n\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = transaction\nmax_client_conn = 200\n\
             default_pool_size = {SERVER_CONNECTIONS}\n",
            server.port()
        );
        fs::write(&settings, text)?;
        account.own(place.dir())?;
        let log = OpenOptions::new().create(true).append(true).open(place.dir().join("log"))?;
        let mut command = account.command(&program, "QUIT");
        command.arg("--quiet").arg(&settings).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log).current_dir(place.dir());
        let child = spawn(command).context("cannot start pgbouncer")?;
        let bouncer = PgBouncer { child, port, _place: place };
        let answers = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        ensure!(until(PATIENCE, answers), "pgbouncer does not start");
        Ok(bouncer)
    }

    /// Where clients find a database of the server.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?pooler=transaction", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _it_may_have_ended = self.child.kill();
        let _it_is_gone_either_way = self.child.wait();
    }
}
