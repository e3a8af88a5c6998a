//! This machine: its clock, how many files a process may open, and the programs of workers.

use std::path::{Path, PathBuf};

use windrow_core::Timestamp;

use super::{Finding, ok, problem, warn};
use crate::cli::show::now;
use crate::workers::Plan;

/// A clock that stands before this was never set: 2026-01-01.
const NEVER_SET: Timestamp = Timestamp(1_767_225_600_000);
/// How far two clocks may be apart.
const APART_MS: u64 = 2_000;
/// Files that a server needs besides its connections.
const FILES: u64 = 256;

/// Whether the clock can be right, and whether somebody keeps it so.
pub(super) fn clock() -> Finding {
    let now = now();
    if now < NEVER_SET {
        let said = format!("this machine believes that it is {now}");
        return problem("clock", said, "set it, best by NTP: leases and delays go by it");
    }
    // Where systemd keeps the time it leaves this file as soon as it has it; others leave none.
    let is_kept = Path::new("/run/systemd/timesync/synchronized").exists();
    let by = if is_kept { "kept by NTP" } else { "whether NTP keeps it cannot be told here" };
    ok("clock", format!("{now}, {by}"))
}

/// Says how far another clock is from ours. `round_trip_ms` is how long asking took.
pub(super) fn apart(whose: &str, theirs: Timestamp, ours: Timestamp, asked_ms: u64) -> Finding {
    let ms = theirs.since(ours).max(ours.since(theirs));
    if ms <= APART_MS.max(asked_ms) {
        return ok("clock", format!("{whose} clock and ours agree"));
    }
    let way = if theirs > ours { "ahead of" } else { "behind" };
    let said = format!("{whose} clock is {} s {way} this machine's", ms / 1_000);
    warn("clock", said, "keep both by NTP: times that are said on one side mean another there")
}

/// Says whether our clock stands before what a store has seen.
pub(super) fn jumped(latest: Timestamp, now: Timestamp) -> Finding {
    let behind = latest.since(now);
    if behind <= APART_MS {
        return ok("clock", "it is not behind what the store has seen");
    }
    let said = format!(
        "it is {} s behind what the store has seen: until it gets there, leases do not run out \
         and delays do not end",
        behind / 1_000
    );
    warn("clock", said, "if the clock is wrong, set it by NTP; if it was, wait")
}

/// Whether a server may open as many files as its connections need.
pub(super) fn files(connections: usize) -> Finding {
    let wanted = connections as u64 + FILES;
    match rlimit::Resource::NOFILE.get() {
        Ok((_, hard)) if hard < wanted => {
            let room = hard.saturating_sub(FILES).max(64);
            let said = format!("a process may open {hard} files: room for {room} connections");
            let fix = format!(
                "raise it (ulimit -Hn {wanted}, or LimitNOFILE={wanted} for systemd), or lower \
                 server.connections_max"
            );
            warn("files", said, fix)
        }
        Ok((_, hard)) => ok("files", format!("a process may open {hard}, a server wants {wanted}")),
        Err(error) => {
            warn("files", format!("the limit cannot be read: {error}"), "see `ulimit -n`")
        }
    }
}

/// Whether the commands of declared workers are there.
pub(super) fn tools(plan: &Plan) -> Vec<Finding> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let each = plan.declared.values().map(|worker| {
        let program = worker.command.first().map_or("", String::as_str);
        tool(&worker.name, program, &dirs)
    });
    each.collect()
}

fn tool(worker: &str, program: &str, dirs: &[PathBuf]) -> Finding {
    let places: Vec<PathBuf> = match program.contains('/') {
        true => vec![PathBuf::from(program)],
        false => dirs.iter().map(|dir| dir.join(program)).collect(),
    };
    let Some(found) = places.iter().find(|place| place.is_file()) else {
        let said = format!("{program}, the command of worker {worker}, is not there");
        let fix = format!("install it, or correct workers.{worker}.command");
        return problem("tools", said, fix);
    };
    let shown = found.display();
    if !places.iter().any(|place| is_executable(place)) {
        let said = format!("{shown}, the command of worker {worker}, may not be executed");
        return problem("tools", said, format!("chmod +x {shown}"));
    }
    ok("tools", format!("worker {worker} runs {shown}"))
}

fn is_executable(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}
