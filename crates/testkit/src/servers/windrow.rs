//! `windrow serve` itself, as users run it: started, killed, stopped and started again at the same
//! address.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::place::{Place, free_port};
use super::process::{Account, output, spawn, until};

const PATIENCE: Duration = Duration::from_secs(60);

/// Where a server keeps its items.
#[derive(Clone, Debug)]
pub enum On {
    /// A directory of its own, which goes with it.
    Directory,
    /// A database by its address.
    Database(String),
}

/// A server, running or not.
#[derive(Debug)]
pub struct Windrow {
    program: PathBuf,
    on: On,
    place: Place,
    port: u16,
    rpc_port: u16,
    child: Option<Child>,
}

impl Windrow {
    /// Starts the program, and waits until it is ready.
    pub fn start(program: &Path, on: On) -> anyhow::Result<Windrow> {
        let (program, place) = (program.to_owned(), Place::new()?);
        let (port, rpc_port) = (free_port()?, free_port()?);
        let mut server = Windrow { program, on, place, port, rpc_port, child: None };
        server.start_again()?;
        Ok(server)
    }

    /// Where clients find it, now and after it was started again.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The same over RPC.
    pub fn rpc_url(&self) -> String {
        format!("rpc://127.0.0.1:{}", self.rpc_port)
    }

    /// The same store at the same address, after it was killed or stopped.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        ensure!(self.child.is_none(), "it runs already");
        let mut command = Account::Ourselves.command(&self.program, "KILL");
        command.args(["serve", "--listen", &format!("127.0.0.1:{}", self.port)]);
        command.args(["--rpc-listen", &format!("127.0.0.1:{}", self.rpc_port)]);
        match &self.on {
            On::Directory => command.arg("--data-dir").arg(self.data()),
            On::Database(url) => command.args(["--store", url]),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(spawn(command).context("cannot start windrow")?);
        ensure!(until(PATIENCE, || self.is_ready()), "windrow is not ready after {PATIENCE:?}");
        Ok(())
    }

    /// Copies its data aside, as they are now. It stops for that, and goes on.
    pub fn keep_copy(&mut self) -> anyhow::Result<PathBuf> {
        self.stop()?;
        let copy = self.place.dir().join("copy");
        output(Command::new("cp").arg("-a").arg(self.data()).arg(&copy))?;
        self.start_again()?;
        Ok(copy)
    }

    /// Puts a copy in the place of the data, while it does not run.
    pub fn put_back(&mut self, copy: &Path) -> anyhow::Result<()> {
        ensure!(self.child.is_none(), "it runs");
        std::fs::remove_dir_all(self.data())?;
        output(Command::new("cp").arg("-a").arg(copy).arg(self.data())).map(drop)
    }

    fn data(&self) -> PathBuf {
        self.place.dir().join("data")
    }

    /// As if the machine had no time for a farewell.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let mut child = self.child.take().context("it does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Asks it to stop, and waits until it has.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let mut child = self.child.take().context("it does not run")?;
        let told = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status()?;
        ensure!(told.success(), "it cannot be told to stop");
        let ended = child.wait()?;
        ensure!(ended.success(), "it did not stop well: {ended}");
        Ok(())
    }

    fn is_ready(&self) -> bool {
        let asked = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            let (host, path) = ("localhost", "/readyz");
            write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")?;
            let mut all = Vec::new();
            stream.read_to_end(&mut all)?;
            Ok(all)
        };
        asked().is_ok_and(|reply| reply.starts_with(b"HTTP/1.1 200"))
    }
}

impl Drop for Windrow {
    fn drop(&mut self) {
        // It may have ended already.
        let _gone = self.kill();
    }
}
