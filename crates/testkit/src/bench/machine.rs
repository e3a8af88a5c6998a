//! The machine that a bench ran on, and how fast its disk syncs.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::measure::field;

const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 256;
const PROBE: Duration = Duration::from_secs(1);

/// Cores, memory, kernel, and the syncs per second measured beside the bench.
pub fn describe(dir: &Path) -> anyhow::Result<Value> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let memory_kib = field("/proc/meminfo", "MemTotal:")?;
    Ok(json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory_gib": (memory_kib as f64 / (1 << 20) as f64 * 10.0).round() / 10.0,
        "kernel": kernel.trim(),
        "fdatasync_per_s": syncs_per_s(dir)?.round(),
    }))
}

/// Overwrites of 4 KiB in written space, each with an fdatasync, by one thread.
pub fn syncs_per_s(dir: &Path) -> anyhow::Result<f64> {
    // Of its own, for two may measure at the same time.
    let path = dir.join(format!("windrow-probe-{}", std::process::id()));
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
    let block = [0x5a; BLOCK_BYTES];
    for at in 0..BLOCKS {
        file.write_all_at(&block, at * BLOCK_BYTES as u64)?;
    }
    file.sync_all()?;
    let begun = Instant::now();
    let mut syncs = 0;
    while begun.elapsed() < PROBE {
        file.write_all_at(&block, syncs % BLOCKS * BLOCK_BYTES as u64)?;
        file.sync_data()?;
        syncs += 1;
    }
    let per_s = syncs as f64 / begun.elapsed().as_secs_f64();
    drop(file);
    std::fs::remove_file(path)?;
    Ok(per_s)
}

/// Bytes free where a directory lies; none if nobody tells.
pub fn free_bytes(dir: &Path) -> Option<u64> {
    let told = Command::new("df").args(["--output=avail", "-B1"]).arg(dir).output().ok()?;
    String::from_utf8(told.stdout).ok()?.lines().nth(1)?.trim().parse().ok()
}
