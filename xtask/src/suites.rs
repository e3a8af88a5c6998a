//! Suites: every test binary of the workspace, several at a time, and the examples in the docs.
//!
//! Most tests wait: for leases, for servers to start, for processes to end. So a machine runs more
//! of them at a time than it has cores. Decides how many, and prints what came of it. Which runs
//! when is in [`order`], how one is run in [`pool`], what is told of it in [`report`].

mod built;
mod order;
mod pool;
mod report;

use std::process::Command;
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::bail;

use self::order::Plan;
use self::pool::{News, Pool};
use crate::cargo;
use crate::test::shown;

const SLOWEST: usize = 10;

/// Builds and runs all of them, each with what `told` says to it. A failure stops no other.
pub(crate) fn check(told: fn(&mut Command)) -> anyhow::Result<()> {
    let began = Instant::now();
    let suites = built::build()?;
    let Plan { together, alone } = order::plan(suites)?;
    eprintln!("built in {}", shown(began.elapsed()));

    let (pool, began) = (Pool::new(told)?, Instant::now());
    let at_once = at_once();
    eprintln!("running {} suites, {at_once} at a time", together.len());
    let mut all = pool.run(&together, at_once, tell);
    eprintln!("\nrunning {} suites alone", alone.len());
    all.extend(pool.run(&alone, 1, tell));
    let took = began.elapsed();

    let examples = documented(told);
    let tests: usize = all.iter().map(|ended| report::passed(&ended.said)).sum();
    eprintln!("\n{}", report::slowest(&all, SLOWEST));
    eprintln!("{tests} tests passed in {} suites, {}", all.len(), shown(took));
    if let Some(failures) = report::failures(&all) {
        bail!("{failures}");
    }
    examples
}

/// One more than there are cores, because most of what runs waits.
fn at_once() -> usize {
    available_parallelism().map_or(1, usize::from) + 1
}

fn tell(news: News<'_>) {
    match news {
        News::Ended(ended) => eprintln!("\n{}\n{}", ended.heading(), ended.said.trim()),
        News::Waits(running) => {
            let each =
                running.iter().map(|(name, began)| format!("{name} ({})", shown(began.elapsed())));
            eprintln!("\n... still running: {}", each.collect::<Vec<_>>().join(", "));
        }
    }
}

/// The examples in the documentation of the code, which cargo builds and runs itself.
fn documented(told: fn(&mut Command)) -> anyhow::Result<()> {
    let mut tests = cargo::cargo(&["test", "--workspace", "--doc", "--no-fail-fast"]);
    told(&mut tests);
    cargo::run(&mut tests)
}
