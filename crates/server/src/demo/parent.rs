//! The demo's parent process: starts the child, kills it, starts it again, and audits the end.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use windrow_core::ports::Store as _;
use windrow_store::postgres::Postgres;

use super::audit::{Ledger, audit, audit_database};
use super::world::{PHASES, kill_at};
use super::{Args, CHILD, DOOMED, SPARED};
use crate::bars::Bars;
use crate::cli::counted;
use crate::cli::place::database;

/// Between two lines where there is no terminal.
const EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let home = Home::new(args).await?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut bars = Bars::new(&PHASES, EVERY);
    bars.say(&format!(
        "{}, {}, the queue is in {}",
        counted(args.documents.into(), "document"),
        counted(args.workers.into(), "worker"),
        home.shown()
    ));
    bars.say("each document splits into pages, each page into chunks; bars grow as they appear\n");
    let ledger = tokio::select! {
        ledger = lives(args, &home, &mut bars) => ledger?,
        // The child goes with the future that watches it.
        _ = interrupt.recv() => bail!("interrupted; {}", home.left()),
        _ = terminate.recv() => bail!("terminated; {}", home.left()),
    };
    bars.finish();
    let summary = match &home {
        Home::Directory { path, .. } => audit(path, &ledger).await?,
        Home::Database { url, .. } => audit_database(database(url)?, &ledger).await?,
    };
    let out = &mut std::io::stdout().lock();
    writeln!(out, "\n{summary}")?;
    if ledger.deaths == 0 || ledger.restarts == 0 {
        writeln!(out, "it was over before all of that could happen; try more documents")?;
    }
    writeln!(
        out,
        "took {:.1} s; every acknowledgement was on disk first",
        started.elapsed().as_secs_f64()
    )?;
    Ok(())
}

/// Where the demo keeps its queue.
enum Home {
    /// If it is the demo's own, it goes when the demo ends, however it ends.
    Directory {
        path: PathBuf,
        is_temporary: bool,
    },
    Database {
        url: String,
        shown: String,
    },
}

impl Home {
    async fn new(args: &Args) -> anyhow::Result<Home> {
        if let Some(url) = &args.store {
            let store = Postgres::open(database(url)?).await?;
            let (shown, is_empty) = (store.place(), store.items(None, 1).await?.is_empty());
            ensure!(is_empty, "{shown} holds items; give a database that holds none");
            return Ok(Home::Database { url: url.clone(), shown });
        }
        let temporary =
            || std::env::temp_dir().join(format!("windrow-demo-{}", std::process::id()));
        let path = args.data_dir.clone().unwrap_or_else(temporary);
        let is_empty = match path.read_dir() {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        ensure!(is_empty, "{} is not empty; give an empty one", path.display());
        Ok(Home::Directory { path, is_temporary: args.data_dir.is_none() })
    }

    fn shown(&self) -> String {
        match self {
            Home::Directory { path, .. } => path.display().to_string(),
            Home::Database { shown, .. } => shown.clone(),
        }
    }

    /// What becomes of it.
    fn left(&self) -> String {
        let is_temporary = matches!(self, Home::Directory { is_temporary: true, .. });
        let fate = if is_temporary { "is removed" } else { "keeps what was done so far" };
        format!("{} {fate}", self.shown())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let Home::Directory { path, is_temporary: true } = self else { return };
        // A child that was killed a moment ago may still make a file.
        for _ in 0..20 {
            if !path.exists() {
                return;
            }
            if std::fs::remove_dir_all(&*path).is_err() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn spawn(args: &Args, home: &Home, fate: &str) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    match home {
        Home::Directory { path, .. } => command.arg("demo").arg("--data-dir").arg(path),
        Home::Database { url, .. } => command.arg("demo").arg("--store").arg(url),
    };
    command
        .args(["--documents", &args.documents.to_string()])
        .args(["--workers", &args.workers.to_string()])
        .args(["--seed", &args.seed.to_string()])
        .env(CHILD, fate)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the child process")
}

/// All lives of the child, until it comes to the end of its work.
async fn lives(args: &Args, home: &Home, bars: &mut Bars) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::default();
    let mut first = true;
    while !life(args, home, &mut ledger, bars, first).await? {
        first = false;
        ledger.restarts += 1;
        bars.say("the process was killed with work in its hands (SIGKILL); starting it again");
    }
    Ok(ledger)
}

/// One life of the child; true if it came to the end of its work. In its first life a worker dies,
/// and then the child itself.
async fn life(
    args: &Args,
    home: &Home,
    ledger: &mut Ledger,
    bars: &mut Bars,
    first: bool,
) -> anyhow::Result<bool> {
    let mut child = spawn(args, home, if first { DOOMED } else { SPARED })?;
    let output = child.stdout.take().context("the child has no output")?;
    let mut lines = BufReader::new(output).lines();
    let mut killed = false;
    let mut finished = false;
    // Lines that were in the pipe when the child died are acknowledgements too.
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["phase", name, done, total] => {
                bars.set(name, done.parse()?, total.parse()?);
                if PHASES.last() == Some(&name) {
                    bars.tell();
                }
            }
            ["died", name] => {
                bars.say(&format!("{name} died with work in its hands; its lease will run out"));
                ledger.deaths += 1;
            }
            ["finished"] => finished = true,
            _ => ledger.note(&words)?,
        }
        if first && !killed && ledger.deaths > 0 && bars.thousandths() >= kill_at(args.seed) {
            child.start_kill().context("cannot kill the child")?;
            killed = true;
        }
    }
    let status = child.wait().await?;
    ensure!(killed || status.success(), "the child failed: {status}");
    Ok(finished)
}
