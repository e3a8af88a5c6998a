//! The demo's parent process: starts the child, kills it, starts it again, and audits the end.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::audit::{Ledger, audit};
use super::bars::Bars;
use super::world::kill_at;
use super::{Args, CHILD, DOOMED, SPARED};
use crate::cli::counted;

pub(super) async fn run(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let home = Home::new(args)?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut bars = Bars::new();
    bars.say(&format!(
        "{}, {}, the queue is in {}",
        counted(args.documents.into(), "document"),
        counted(args.workers.into(), "worker"),
        home.path.display()
    ));
    bars.say("each document splits into pages, each page into chunks; bars grow as they appear\n");
    let ledger = tokio::select! {
        ledger = lives(args, &home.path, &mut bars) => ledger?,
        // The child goes with the future that watches it.
        _ = interrupt.recv() => bail!("interrupted; {}", home.left()),
        _ = terminate.recv() => bail!("terminated; {}", home.left()),
    };
    bars.finish();
    let summary = audit(&home.path, &ledger).await?;
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

/// The directory of the demo. If it is the demo's own, it goes when the demo ends, however it ends.
struct Home {
    path: PathBuf,
    is_temporary: bool,
}

impl Home {
    fn new(args: &Args) -> anyhow::Result<Home> {
        let temporary =
            || std::env::temp_dir().join(format!("windrow-demo-{}", std::process::id()));
        let path = args.data_dir.clone().unwrap_or_else(temporary);
        let is_empty = match path.read_dir() {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        ensure!(is_empty, "{} is not empty; give an empty one", path.display());
        Ok(Home { path, is_temporary: args.data_dir.is_none() })
    }

    /// What becomes of the directory.
    fn left(&self) -> String {
        let path = self.path.display();
        let fate = if self.is_temporary { "is removed" } else { "keeps what was done so far" };
        format!("{path} {fate}")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A child that was killed a moment ago may still make a file.
        for _ in 0..20 {
            if !self.is_temporary || !self.path.exists() {
                return;
            }
            if std::fs::remove_dir_all(&self.path).is_err() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn spawn(args: &Args, path: &Path, fate: &str) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    Command::new(program)
        .arg("demo")
        .args(["--documents", &args.documents.to_string()])
        .args(["--workers", &args.workers.to_string()])
        .args(["--seed", &args.seed.to_string()])
        .arg("--data-dir")
        .arg(path)
        .env(CHILD, fate)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the child process")
}

/// All lives of the child, until it comes to the end of its work.
async fn lives(args: &Args, path: &Path, bars: &mut Bars) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::default();
    let mut first = true;
    while !life(args, path, &mut ledger, bars, first).await? {
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
    path: &Path,
    ledger: &mut Ledger,
    bars: &mut Bars,
    first: bool,
) -> anyhow::Result<bool> {
    let mut child = spawn(args, path, if first { DOOMED } else { SPARED })?;
    let output = child.stdout.take().context("the child has no output")?;
    let mut lines = BufReader::new(output).lines();
    let mut killed = false;
    let mut finished = false;
    // Lines that were in the pipe when the child died are acknowledgements too.
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["phase", name, done, total] => bars.set(name, done.parse()?, total.parse()?),
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
