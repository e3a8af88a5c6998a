//! ArcadeDB, a graph database that speaks Bolt and Cypher: started, killed, and started again at
//! the same address on what it kept.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::place::{Place, free_port};
use super::process::{Account, spawn, until};

/// Names the directory of the server, where it is not the usual one.
const VARIABLE: &str = "WINDROW_ARCADEDB";
/// Java starts slowly, and on a machine that is busy very slowly.
const PATIENCE: Duration = Duration::from_secs(120);

/// User and password, as HTTP wants them.
const BASIC: &str = "cm9vdDphIHBhc3N3b3JkIGZvciB0ZXN0cw==";

/// A server, running or not. Dropping it ends it.
#[derive(Debug)]
pub struct ArcadeDb {
    home: PathBuf,
    place: Place,
    port: u16,
    http_port: u16,
    child: Option<Child>,
}

impl ArcadeDb {
    pub const USER: &str = "root";
    pub const PASSWORD: &str = "a password for tests";
    /// The one database that it has.
    pub const DATABASE: &str = "graph";

    /// A new, empty server.
    pub fn start() -> anyhow::Result<ArcadeDb> {
        let (home, place) = (home()?, Place::new()?);
        let (port, http_port) = (free_port()?, free_port()?);
        let mut server = ArcadeDb { home, place, port, http_port, child: None };
        server.start_again()?;
        Ok(server)
    }

    /// Where clients find it, now and after it was started again.
    pub fn url(&self) -> String {
        format!("bolt://127.0.0.1:{}", self.port)
    }

    /// What a statement in Cypher answers, as JSON. Over HTTP, so that what is under test is not
    /// asked about itself.
    pub fn asked(&self, cypher: &str) -> anyhow::Result<Value> {
        let body = json!({"language": "cypher", "command": cypher}).to_string();
        let head = format!(
            "POST /api/v1/command/{} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\nauthorization: Basic {BASIC}\r\n\
             content-length: {}\r\n\r\n",
            ArcadeDb::DATABASE,
            body.len()
        );
        let reply = self.http(&(head + &body))?;
        let reply = String::from_utf8(reply)?;
        let (head, body) = reply.split_once("\r\n\r\n").context("no answer")?;
        ensure!(head.starts_with("HTTP/1.1 200"), "{reply}");
        let answer: Value = serde_json::from_str(body).with_context(|| reply.clone())?;
        Ok(answer["result"].clone())
    }

    /// The same server on what it kept, after it was killed.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        ensure!(self.child.is_none(), "it runs already");
        let said = self.place.dir().join("said");
        let log = OpenOptions::new().create(true).append(true).open(&said)?;
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut child = spawn(command).context("cannot start ArcadeDB")?;
        let mut ended = None;
        let is_ready = until(PATIENCE, || {
            ended = child.try_wait().ok().flatten();
            ended.is_some() || self.is_ready()
        });
        self.child = Some(child);
        if is_ready && ended.is_none() {
            return Ok(());
        }
        // It may have ended already.
        let _gone = self.kill();
        let said = fs::read_to_string(said).unwrap_or_default();
        bail!("ArcadeDB does not start, and said: {said}");
    }

    /// As if the machine had no time for a farewell.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let mut child = self.child.take().context("it does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = Account::Ourselves.command(&self.home.join("jre/bin/java"), "KILL");
        // It lives for seconds: starting fast is worth more than running fast.
        command.args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]);
        command.args(["--add-modules", "jdk.incubator.vector"]);
        command.arg("--enable-native-access=ALL-UNNAMED");
        for part in ["java.util.concurrent.atomic", "java.nio.channels.spi", "java.lang"] {
            command.args(["--add-opens", &format!("java.base/{part}=ALL-UNNAMED")]);
        }
        let settings = [
            ("server.rootPath", self.place.dir().display().to_string()),
            ("server.rootPassword", ArcadeDb::PASSWORD.to_owned()),
            ("server.httpIncomingHost", "127.0.0.1".to_owned()),
            ("server.httpIncomingPort", self.http_port.to_string()),
            ("server.plugins", "Bolt:com.arcadedb.bolt.BoltProtocolPlugin".to_owned()),
            ("server.defaultDatabases", format!("{}[{}]", ArcadeDb::DATABASE, ArcadeDb::USER)),
            ("bolt.host", "127.0.0.1".to_owned()),
            ("bolt.port", self.port.to_string()),
        ];
        for (name, value) in settings {
            command.arg(format!("-Darcadedb.{name}={value}"));
        }
        command.arg("-cp").arg(self.home.join("jars/*"));
        command.arg("com.arcadedb.server.ArcadeDBServer").current_dir(self.place.dir());
        command
    }

    /// It says so over HTTP, and only after that its other ports are of use.
    fn is_ready(&self) -> bool {
        let path = "/api/v1/ready";
        let asked = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        self.http(&asked).is_ok_and(|reply| reply.starts_with(b"HTTP/1.1 204"))
            && TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
    }

    fn http(&self, request: &str) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.http_port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.write_all(request.as_bytes())?;
        let mut all = Vec::new();
        stream.read_to_end(&mut all)?;
        Ok(all)
    }
}

impl Drop for ArcadeDb {
    fn drop(&mut self) {
        // It may have ended already.
        let _gone = self.kill();
    }
}

/// Where the server and its Java are.
fn home() -> anyhow::Result<PathBuf> {
    let places = match std::env::var_os(VARIABLE) {
        Some(named) => vec![PathBuf::from(named)],
        // We lie in the target directory, and so does what xtask unpacked.
        None => {
            let program = std::env::current_exe()?;
            let above = program.ancestors().skip(1);
            above.map(|dir| dir.join("tools/arcadedb/arcadedb_embedded")).collect()
        }
    };
    let found = places.into_iter().find(|home| home.join("jre/bin/java").is_file());
    found.with_context(|| {
        format!(
            "ArcadeDB is not here: `cargo xtask test` unpacks the wheel of \
             xtask/requirements-arcadedb.txt; or set {VARIABLE} to its directory"
        )
    })
}
