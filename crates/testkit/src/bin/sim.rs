//! `cargo xtask sim`: many seeds of the simulation, on all cores.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use lexopt::prelude::*;
use parking_lot::Mutex;
use windrow_testkit::sim::{self, Broken, OPS_PER_SEED, Sometimes};

const HELP: &str = "\
cargo xtask sim [--ops N] [--from SEED | --seed SEED] [--each N] [--threads N]

Simulates engine and store with a simulated clock and disk: clients in any order,
power cuts and kills at any operation, failed writes and syncs, a full disk. What
was acknowledged is checked against a ledger after every crash.

  --ops N      operations in all, over as many seeds as that takes (1000000)
  --from SEED  the first seed (0)
  --seed SEED  only this seed, for --ops operations (20000): repeats a failure
  --each N     operations of one seed (20000)
  --threads N  seeds at once (one per core)

A run of a million operations or more also fails if something rare never happened.
";

/// Runs shorter than this need not have seen everything.
const LONG: u64 = 1_000_000;

struct Words {
    ops: Option<u64>,
    from: u64,
    seed: Option<u64>,
    each: u64,
    threads: usize,
}

fn main() -> ExitCode {
    match answer() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn answer() -> anyhow::Result<()> {
    let Some(words) = read_words()? else { return say(HELP) };
    if let Some(seed) = words.seed {
        return repeat(seed, words.ops.unwrap_or(words.each));
    }
    let ops = words.ops.unwrap_or(LONG);
    // A store that loses its disk in the middle of a change panics, as it should, and a panic that
    // matters is a finding with its words.
    std::panic::set_hook(Box::new(|_| {}));
    let started = Instant::now();
    let run = Run { words, ops, next: AtomicU64::new(0), done: Mutex::default() };
    std::thread::scope(|scope| {
        for _ in 0..run.words.threads {
            scope.spawn(|| run.work(started));
        }
    });
    let Done { ops, seeds, sometimes, broken } = run.done.into_inner();
    if let Some(broken) = broken {
        bail!("{broken}");
    }
    let (took, rate) = (started.elapsed(), ops as f64 / started.elapsed().as_secs_f64());
    let from = run.words.from;
    say(&format!(
        "{ops} operations in {seeds} seeds from {from}, {:.0} s, {rate:.0} a second, all clean\n\
         \nwhat happened on the way:\n{sometimes}",
        took.as_secs_f64()
    ))?;
    let never = sometimes.never();
    if ops >= LONG && !never.is_empty() {
        bail!("this never happened, so the run proves nothing about it: {}", never.join(", "));
    }
    Ok(())
}

fn read_words() -> anyhow::Result<Option<Words>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut words = Words { ops: None, from: 0, seed: None, each: OPS_PER_SEED, threads };
    let mut parser = lexopt::Parser::from_env();
    while let Some(word) = parser.next()? {
        match word {
            Long("ops") => words.ops = Some(parser.value()?.parse().context("--ops")?),
            Long("from") => words.from = parser.value()?.parse().context("--from")?,
            Long("seed") => words.seed = Some(parser.value()?.parse().context("--seed")?),
            Long("each") => words.each = parser.value()?.parse().context("--each")?,
            Long("threads") => words.threads = parser.value()?.parse().context("--threads")?,
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Some(words))
}

fn repeat(seed: u64, ops: u64) -> anyhow::Result<()> {
    match sim::run(seed, ops) {
        Ok(report) => say(&format!("seed {seed} is clean\n{}", report.sometimes)),
        Err(broken) => bail!("{broken}"),
    }
}

/// A run over many seeds.
struct Run {
    words: Words,
    ops: u64,
    next: AtomicU64,
    done: Mutex<Done>,
}

#[derive(Default)]
struct Done {
    ops: u64,
    seeds: u64,
    sometimes: Sometimes,
    broken: Option<Box<Broken>>,
}

impl Run {
    /// Takes seeds until enough was done or something broke.
    fn work(&self, started: Instant) {
        let every = Duration::from_secs(15);
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number * self.words.each >= self.ops || self.done.lock().broken.is_some() {
                return;
            }
            let each = self.words.each.min(self.ops - number * self.words.each);
            let report = sim::run(self.words.from + number, each);
            let mut done = self.done.lock();
            let before = started.elapsed().as_secs() / every.as_secs();
            match report {
                Ok(report) => {
                    done.ops += report.ops;
                    done.seeds += 1;
                    done.sometimes.add(&report.sometimes);
                }
                Err(broken) => {
                    done.broken.get_or_insert(broken);
                }
            }
            if number % 50 == 49 {
                eprintln!(
                    "{} of {} operations, {} s",
                    done.ops,
                    self.ops,
                    before * every.as_secs()
                );
            }
        }
    }
}

fn say(text: &str) -> anyhow::Result<()> {
    let _a_closed_pipe_is_no_error = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}
