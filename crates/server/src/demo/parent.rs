//! The demo's parent process: starts the child, kills it, starts it again, and audits the end.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::Args;
use super::audit::{Ledger, audit};
use super::bars::Bars;

/// The child is killed when this much of what is known is done, of a thousand.
const KILL_AT: u64 = 550;

pub(super) async fn run(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let (path, temporary) = match &args.data_dir {
        Some(path) => (path.clone(), false),
        None => (temporary(), true),
    };
    let mut bars = Bars::new();
    let (documents, workers) = (args.documents, args.workers);
    bars.say(&format!(
        "{documents} documents, {workers} workers, the queue is in {}",
        path.display()
    ));
    bars.say("each document splits into pages, each page into chunks; bars grow as they appear\n");
    let mut ledger = Ledger::default();
    let mut first = true;
    while !life(args, &path, &mut ledger, &mut bars, first).await? {
        first = false;
        ledger.restarts += 1;
        bars.say("the process was killed with work in its hands (SIGKILL); starting it again");
    }
    bars.finish();
    let verdict = audit(&path, &ledger).await;
    if temporary {
        let _best_effort = std::fs::remove_dir_all(&path);
    }
    let summary = verdict?;
    bars.say(&format!("\n{summary}"));
    bars.say(&format!(
        "took {:.1} s; every acknowledgement was on disk first",
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

fn temporary() -> PathBuf {
    std::env::temp_dir().join(format!("windrow-demo-{}", std::process::id()))
}

fn spawn(args: &Args, path: &Path, doom: bool) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    Command::new(program)
        .args(["demo", "--child"])
        .args(doom.then_some("--doom"))
        .args(["--documents", &args.documents.to_string()])
        .args(["--workers", &args.workers.to_string()])
        .args(["--seed", &args.seed.to_string()])
        .arg("--data-dir")
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the child process")
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
    let mut child = spawn(args, path, first)?;
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
        if first && !killed && ledger.deaths > 0 && bars.thousandths() >= KILL_AT {
            child.start_kill().context("cannot kill the child")?;
            killed = true;
        }
    }
    let status = child.wait().await?;
    ensure!(killed || status.success(), "the child failed: {status}");
    Ok(finished)
}
