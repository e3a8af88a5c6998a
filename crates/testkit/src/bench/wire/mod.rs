//! `bench wire`: Windrow over its wires beside Redis Streams, beanstalkd and NATS JetStream.
//!
//! Every rival is a server of its own on the same disk; this process is everybody's client. They
//! take turns in short rounds, so that a slow moment of the machine meets all of them. `rival.rs`
//! says who takes part, `load.rs` what they do, and a file each how a rival is spoken to.

mod beanstalkd;
mod load;
mod nats;
pub(super) mod ours;
mod redis;
mod rival;
mod workloads;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Context as _;

use self::rival::{HTTP, RPC, Rival};
use self::workloads::WORKLOADS;
use super::asked::{Asked, Words};
use super::machine;
use super::measure::Round;
use super::report::{Bar, Row, Want, check, lines, tell};
use crate::servers::brokers::Kind;

pub const HELP: &str = "\
bench wire [--json] [--quick] [--only WORKLOADS]
  Measures Windrow over HTTP and over RPC in one run beside Redis Streams, beanstalkd and NATS
  JetStream: real servers, and this process as the client of all, on one machine. Payloads of 256
  bytes that do not compress, no keys. Everybody uses its own batches: Redis pipelines XADD and
  names many ids in XREADGROUP, XACK and XDEL; NATS publishes a batch atomically and pulls many;
  what has no batch is sent in one write. They take turns in short rounds; figures are medians,
  ratios are medians of what Windrow did in a round over what the best peer that syncs before it
  answers did in the round beside it. The peers' unsynced defaults are shown too, as *_unsynced.
  Fails if a bar is not met; a wire or a peer that is not there is a bar not met.

  --only WORKLOADS  some of these, with commas between them:
      enqueue-1x1 enqueue-1x16 enqueue-100x4 claim-1x16 claim-100x4 (batch x clients), and
      life: 100 thousand items come and go, 4 producers and 4 workers in batches of 100
  --quick           fewer and shorter rounds, a tenth of the items; indicates, proves nothing
  --json            the machine, all rows and all checks as one JSON object
";

const RATIO: &str = "rpc_ratio";
const HTTP_OF_RPC: &str = "http_of_rpc";

const BARS: [Bar; 9] = [
    least("RPC, times the best synced peer: enqueue 1x1", "enqueue-1x1", RATIO, 1.0),
    least("enqueue 1x16", "enqueue-1x16", RATIO, 1.1),
    least("enqueue 100x4", "enqueue-100x4", RATIO, 1.3),
    least("claim+settle 1x16", "claim-1x16", RATIO, 1.1),
    least("claim+settle 100x4", "claim-100x4", RATIO, 1.3),
    least("life cycle", "life", RATIO, 1.3),
    least("HTTP, times RPC: enqueue 100x4", "enqueue-100x4", HTTP_OF_RPC, 0.5),
    least("claim+settle 100x4", "claim-100x4", HTTP_OF_RPC, 0.5),
    least("life cycle", "life", HTTP_OF_RPC, 0.5),
];

const fn least(name: &'static str, row: &'static str, figure: &'static str, least: f64) -> Bar {
    Bar { name, row, figure, want: Want::AtLeast(least) }
}

/// Runs the bench; false if a bar was missed.
pub fn run(words: Vec<OsString>) -> anyhow::Result<bool> {
    let Some(asked) = read(words)? else {
        write!(std::io::stdout(), "{HELP}")?;
        return Ok(true);
    };
    let mut machine = machine::describe(&std::env::temp_dir())?;
    for kind in [Kind::Redis, Kind::Beanstalkd, Kind::Nats] {
        let version = kind.version().unwrap_or_else(|error| error.to_string());
        machine[format!("{kind:?}").to_lowercase()] = version.into();
    }
    eprintln!("{machine}");
    let windrow = std::env::current_exe()?.with_file_name("windrow");
    anyhow::ensure!(windrow.is_file(), "{} is missing; build it first", windrow.display());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let rivals = Rival::start_all(&windrow)?;
    let mut rows = Vec::new();
    for workload in &WORKLOADS {
        let name = workload.name;
        if asked.wants(name) {
            eprintln!("{name} …");
            let measured = runtime.block_on(workload.measure(&rivals, asked.quick));
            rows.push(row(name, &rivals, &measured.with_context(|| name)?));
        }
    }
    drop(rivals);
    machine["fdatasync_per_s_after"] = machine::syncs_per_s(&std::env::temp_dir())?.round().into();
    let checks = check(&BARS, &rows, asked.only.is_none() && !asked.quick);
    if asked.json {
        tell(true, asked.quick, &machine, &rows, &checks)?;
    } else {
        let quick = if asked.quick { "quick: this indicates and proves nothing\n" } else { "" };
        let (table, lines) = (table(&rows), lines(&checks));
        write!(std::io::stdout(), "\n{machine}\n\n{table}\n{lines}{quick}")?;
    }
    Ok(checks.iter().all(|check| check.ok))
}

/// One workload: what everybody did, and ours beside the best peer that syncs before it answers.
fn row(name: &str, rivals: &[Rival], measured: &[Vec<Round>]) -> Row {
    let mut row = Row::new(name);
    for (rival, rounds) in rivals.iter().zip(measured) {
        row = row.with(rival.name, Round::median(rounds).items_per_s);
    }
    let rounds_of = |name| {
        let at = rivals.iter().position(|rival| rival.name == name);
        at.map(|at| &measured[at])
    };
    let synced = rivals.iter().zip(measured).filter(|(rival, _)| rival.is_synced_peer());
    let rate = |rounds: &[Round]| Round::median(rounds).items_per_s;
    let best = synced.map(|(_, rounds)| rounds).max_by(|a, b| rate(a).total_cmp(&rate(b)));
    for (ours, figure) in [(HTTP, "http_ratio"), (RPC, RATIO)] {
        if let (Some(ours), Some(best)) = (rounds_of(ours), best) {
            row = row.with(figure, Round::ratio(ours, best));
        }
    }
    if let (Some(http), Some(rpc)) = (rounds_of(HTTP), rounds_of(RPC)) {
        row = row.with(HTTP_OF_RPC, Round::ratio(http, rpc));
    }
    for (ours, p50, p99) in
        [(HTTP, "http_p50_us", "http_p99_us"), (RPC, "rpc_p50_us", "rpc_p99_us")]
    {
        if let Some(rounds) = rounds_of(ours) {
            let median = Round::median(rounds);
            row = row.with(p50, median.p50_us).with(p99, median.p99_us);
        }
    }
    row
}

/// Figures in columns: items per second of everybody, and the ratios.
const COLUMNS: [&str; 15] = [
    "rpc",
    "http",
    "redis",
    "beanstalkd",
    "nats",
    "redis_unsynced",
    "beanstalkd_unsynced",
    "nats_unsynced",
    "rpc_ratio",
    "http_ratio",
    "http_of_rpc",
    "http_p50_us",
    "http_p99_us",
    "rpc_p50_us",
    "rpc_p99_us",
];

fn table(rows: &[Row]) -> String {
    let mut text = format!("{:14}", "items/s");
    for column in COLUMNS {
        let _infallible = write!(text, " {:>width$}", column, width = column.len().max(9));
    }
    for row in rows {
        let _infallible = write!(text, "\n{:14}", row.name);
        for column in COLUMNS {
            let digits = if column.contains("ratio") || column.contains("_of_") { 2 } else { 0 };
            let figure = row.figure(column).map(|value| format!("{value:.digits$}"));
            let width = column.len().max(9);
            let _infallible = write!(text, " {:>width$}", figure.unwrap_or("-".into()));
        }
    }
    text + "\n"
}

fn read(words: Vec<OsString>) -> anyhow::Result<Option<Asked>> {
    let parts = WORKLOADS.iter().map(|workload| workload.name).collect();
    Words { help: HELP, part: "workload", parts }.read(words, |_, _| Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_held_against_workloads_that_exist_and_the_help_names() {
        for bar in &BARS {
            assert!(WORKLOADS.iter().any(|workload| workload.name == bar.row), "{}", bar.row);
        }
        for workload in &WORKLOADS {
            assert!(HELP.contains(workload.name), "{}", workload.name);
        }
    }

    #[test]
    fn a_wire_that_was_not_measured_misses_its_bars() {
        let row = Row::new("enqueue-100x4").with("http", 9.0).with("redis", 3.0);
        let checks = check(&BARS, &[row], false);
        assert_eq!(checks.iter().map(|check| check.ok).collect::<Vec<_>>(), [false, false]);
    }
}
