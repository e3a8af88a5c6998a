//! The fleet: three servers as processes of their own, what they report, and what they are told.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use super::super::ack::Ack;
use super::child::{Order, Orders, wall_us};
use crate::random::Splitmix;
use crate::servers::process::until;

pub const SERVERS: u8 = 3;
/// How long a server may take to come back to work on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// One report of one server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Line {
    pub at_us: u64,
    pub server: u8,
    pub text: String,
}

/// What servers are started with.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program whose hidden verb is a server.
    pub program: PathBuf,
    pub url: String,
    /// The file that takes what they complain of.
    pub complaints: PathBuf,
}

/// The servers that run.
#[derive(Debug)]
pub struct Fleet {
    plan: Plan,
    servers: Vec<Server>,
    lines: Arc<Mutex<Vec<Line>>>,
    lives: u32,
    ahead_ms: u64,
}

#[derive(Debug)]
struct Server {
    number: u8,
    child: Child,
    orders: ChildStdin,
    reader: Option<JoinHandle<io::Result<()>>>,
    seen: Arc<Seen>,
}

/// What was last seen of a server, in microseconds since 1970.
#[derive(Debug, Default)]
struct Seen {
    acknowledged_us: AtomicU64,
    halted_us: AtomicU64,
}

impl Fleet {
    /// Servers for this plan, after as many lives as there were before.
    pub fn start(plan: Plan, lives: u32, ahead_ms: u64, dice: &mut Splitmix) -> io::Result<Fleet> {
        let lines = Arc::default();
        let mut fleet = Fleet { plan, servers: Vec::new(), lines, lives, ahead_ms };
        for number in 0..SERVERS {
            let server = fleet.begin(number, dice)?;
            fleet.servers.push(server);
        }
        Ok(fleet)
    }

    pub fn lives(&self) -> u32 {
        self.lives
    }

    pub fn ahead_ms(&self) -> u64 {
        self.ahead_ms
    }

    /// SIGKILL, and another in its place.
    pub fn kill(&mut self, number: u8, dice: &mut Splitmix) -> io::Result<()> {
        self.servers[usize::from(number)].end()?;
        self.servers[usize::from(number)] = self.begin(number, dice)?;
        Ok(())
    }

    /// Tells all of them.
    pub fn order(&mut self, order: Order) -> io::Result<()> {
        if let Order::Ahead(ms) = order {
            self.ahead_ms = ms;
        }
        for server in &mut self.servers {
            let sent = server.orders.write_all(order.line().as_bytes());
            sent.map_err(|_| gone(server.number))?;
        }
        Ok(())
    }

    /// Waits until nothing is under way anywhere.
    pub fn halt(&mut self) -> io::Result<()> {
        let from = wall_us();
        self.order(Order::Halt)?;
        self.wait("does not halt", |seen| seen.halted_us.load(Ordering::Relaxed) >= from)
    }

    /// Waits until every server had an answer of the store that came after this moment.
    pub fn wait_for_answers(&mut self, after_us: u64) -> io::Result<()> {
        let served = |seen: &Seen| seen.acknowledged_us.load(Ordering::Relaxed) > after_us;
        self.wait("gets no answers", served)
    }

    fn wait(&mut self, otherwise: &str, done: impl Fn(&Seen) -> bool) -> io::Result<()> {
        for server in &mut self.servers {
            let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
            let came = until(PATIENCE, || done(&server.seen) || ended(&mut server.child));
            if ended(&mut server.child) {
                return Err(gone(server.number));
            }
            if !came {
                return Err(io::Error::other(format!("server {} {otherwise}", server.number)));
            }
        }
        Ok(())
    }

    /// What was reported since the last time, in the order in which it happened.
    pub fn take_lines(&mut self) -> Vec<Line> {
        let mut lines = std::mem::take(&mut *self.lines.lock());
        // A server's own lines are in order already, even where two have the same time.
        lines.sort_by_key(|line| line.at_us);
        lines
    }

    /// Ends all of them.
    pub fn stop(&mut self) -> io::Result<()> {
        self.servers.drain(..).try_for_each(|mut server| server.end())
    }

    /// The same program again, with the hidden verb.
    fn begin(&mut self, number: u8, dice: &mut Splitmix) -> io::Result<Server> {
        self.lives += 1;
        let Plan { program, url, complaints } = &self.plan;
        let (url, ahead_ms) = (url.clone(), self.ahead_ms);
        let orders = Orders { url, server: number, life: self.lives, seed: dice.draw(), ahead_ms };
        let mut child = command(program, complaints, &orders)?.spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or_else(|| io::Error::other("a server without pipes"))?;
        let seen = Arc::new(Seen::default());
        let (lines, sees) = (Arc::clone(&self.lines), Arc::clone(&seen));
        let reader = std::thread::spawn(move || read(stdout, number, &lines, &sees));
        Ok(Server { number, child, orders: stdin, reader: Some(reader), seen })
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _they_end_when_their_orders_do = self.stop();
    }
}

fn gone(number: u8) -> io::Error {
    io::Error::other(format!("server {number} ended before anybody killed it"))
}

fn command(program: &Path, complaints: &Path, orders: &Orders) -> io::Result<Command> {
    let mut command = Command::new(program);
    command.args(["server", "--url", &orders.url, "--number", &orders.server.to_string()]);
    command.args(["--life", &orders.life.to_string(), "--seed", &orders.seed.to_string()]);
    command.args(["--ahead-ms", &orders.ahead_ms.to_string()]);
    let complaints = File::options().create(true).append(true).open(complaints)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(complaints);
    Ok(command)
}

/// Reads whole lines until the server ends; a line that was cut then is none.
fn read(from: ChildStdout, server: u8, lines: &Mutex<Vec<Line>>, seen: &Seen) -> io::Result<()> {
    let mut from = BufReader::new(from);
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let Some(whole) = line.strip_suffix('\n') else { return Ok(()) };
        let (at, text) = whole.split_once(' ').unwrap_or_default();
        let at_us = u64::from_str_radix(at, 16).map_err(io::Error::other)?;
        match Ack::parse(text) {
            Some(Ack::Halted) => seen.halted_us.store(at_us, Ordering::Relaxed),
            Some(ack) if ack.weight() > 0 => seen.acknowledged_us.store(at_us, Ordering::Relaxed),
            _ => {}
        }
        lines.lock().push(Line { at_us, server, text: text.to_owned() });
    }
}

impl Server {
    /// SIGKILL; everything that it reported has been read when this returns.
    fn end(&mut self) -> io::Result<()> {
        let _gone_is_fine = self.child.kill();
        self.child.wait()?;
        match self.reader.take().map(JoinHandle::join) {
            Some(Ok(read)) => read,
            _ => Err(io::Error::other("the reader panicked")),
        }
    }
}
