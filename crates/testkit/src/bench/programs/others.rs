//! Workers that are programs of their own.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::Value;

const PYTHON: &str = "clients/python/bench/worker.py";

/// Items per second of one process of the Python client's worker.
pub(super) fn python(url: &str, items: u64) -> anyhow::Result<f64> {
    ensure!(Path::new(PYTHON).is_file(), "no {PYTHON} here; run it at the root of the repository");
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(python);
    command.args([PYTHON, "--items", &items.to_string()]).env("WINDROW_SERVER", url);
    let output = command.stderr(Stdio::inherit()).output().context("cannot start python")?;
    ensure!(output.status.success(), "{PYTHON} failed ({})", output.status);
    let said: Value = serde_json::from_slice(&output.stdout).context("it told no JSON")?;
    said["items_per_s"].as_f64().context("it told no figure")
}

/// How many seconds `windrow work` takes to run `true` for everything that waits.
pub(super) fn work(program: &Path, url: &str, queue: &str) -> anyhow::Result<f64> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let mut command = Command::new(program);
    command.args(["work", "--server", url, "--queue", queue, "--until-empty"]);
    command.args(["--concurrency", &(2 * cores).to_string(), "--", "true"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let begun = Instant::now();
    let status = command.status().context("cannot start windrow work")?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(status.success(), "windrow work failed ({status})");
    Ok(seconds)
}
