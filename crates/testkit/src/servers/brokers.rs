//! Other queues, as servers for the bench: Redis, beanstalkd and NATS with JetStream.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::place::{Place, free_port};
use super::process::{Account, spawn, until};

const PATIENCE: Duration = Duration::from_secs(30);

/// A queue that is not ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Redis,
    Beanstalkd,
    Nats,
}

/// When an answer is on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// Before it is given.
    Synced,
    /// Some time after it was given, as the program is shipped.
    Unsynced,
}

/// A running broker on a directory of its own.
#[derive(Debug)]
pub struct Broker {
    child: Child,
    port: u16,
    _place: Place,
}

impl Kind {
    /// The program; none if it is not installed.
    pub fn program(self) -> Option<PathBuf> {
        let place = match self {
            Kind::Redis => PathBuf::from("/usr/bin/redis-server"),
            Kind::Beanstalkd => PathBuf::from("/usr/bin/beanstalkd"),
            // We lie in the target directory, and so does what `cargo xtask` unpacked.
            Kind::Nats => {
                let ours = std::env::current_exe().ok()?;
                let mut above =
                    ours.ancestors().skip(1).map(|dir| dir.join("tools/nats/nats-server"));
                above.find(|program| program.is_file())?
            }
        };
        place.is_file().then_some(place)
    }

    fn words(self, promise: Promise, place: &Place, port: u16) -> anyhow::Result<Vec<String>> {
        let (dir, port) = (place.dir().display().to_string(), port.to_string());
        let is_synced = promise == Promise::Synced;
        let words = match self {
            Kind::Redis => {
                let when = if is_synced { "always" } else { "everysec" };
                let words = ["--bind", "127.0.0.1", "--port", &port, "--dir", &dir, "--save", ""];
                let log = ["--appendonly", "yes", "--appendfsync", when, "--daemonize", "no"];
                words.iter().chain(&log).map(ToString::to_string).collect()
            }
            Kind::Beanstalkd => {
                let words = ["-l", "127.0.0.1", "-p", &port, "-b", &dir];
                // What is shipped syncs at most every 50 ms.
                let synced = is_synced.then_some("-f0");
                words.into_iter().chain(synced).map(str::to_owned).collect()
            }
            Kind::Nats => {
                let when = if is_synced { "sync_interval: always" } else { "" };
                let config = place.dir().join("nats.conf");
                let text = format!("jetstream {{\n  store_dir: {dir:?}\n  {when}\n}}\n");
                fs::write(&config, text)?;
                let config = config.display().to_string();
                ["-a", "127.0.0.1", "-p", &port, "-c", &config].map(str::to_owned).to_vec()
            }
        };
        Ok(words)
    }

    /// What it calls itself.
    pub fn version(self) -> anyhow::Result<String> {
        let program = self.program().with_context(|| format!("{self:?} is not installed"))?;
        let word = if self == Kind::Beanstalkd { "-v" } else { "--version" };
        let said = Command::new(program).arg(word).output()?;
        Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
    }
}

impl Broker {
    /// Starts one, and waits until it accepts connections.
    pub fn start(kind: Kind, promise: Promise) -> anyhow::Result<Broker> {
        let Some(program) = kind.program() else {
            bail!("{kind:?} is not installed; `cargo xtask bench wire` does it")
        };
        let (place, port) = (Place::new()?, free_port()?);
        let mut command = Account::Ourselves.command(&program, "KILL");
        command.args(kind.words(promise, &place, port)?);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = spawn(command).with_context(|| format!("cannot start {kind:?}"))?;
        let broker = Broker { child, port, _place: place };
        let listens = || TcpStream::connect((Ipv4Addr::LOCALHOST, broker.port)).is_ok();
        ensure!(until(PATIENCE, listens), "{kind:?} does not listen after {PATIENCE:?}");
        Ok(broker)
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended already.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
