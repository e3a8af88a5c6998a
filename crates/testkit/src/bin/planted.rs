//! `cargo xtask planted`: plants the known bugs one by one, and demands that a suite catches each.
//!
//! The suites run without a bug first: one that always complains would catch everything. All of
//! them run on one thread, which is where a bug is planted.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use lexopt::prelude::*;
use windrow_core::planted::{Bug, with_bug};
use windrow_core::ports::Store;
use windrow_store::embedded::Options;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::model::Model;
use windrow_testkit::reopened::{Mortality, Reopened};
use windrow_testkit::stepped::Stepped;
use windrow_testkit::stream::{self, Difference, World};
use windrow_testkit::{moved, sim, suite};

const HELP: &str = "\
cargo xtask planted [--only BUG]

Runs every suite without a bug, which must find nothing; then plants the bugs of
crates/core/src/planted.rs one by one, runs every suite with each, and says after
how much of it the suite complained. Fails if a bug goes unnoticed by all.

  --only BUG  only this one, by its name

The suites:
";

/// What catches bugs.
struct Suite {
    name: &'static str,
    /// What it counts.
    unit: &'static str,
    meaning: &'static str,
    run: fn() -> Verdict,
}

/// How much was done without a complaint, or the first complaint.
type Verdict = Result<u64, Caught>;

struct Caught {
    after: u64,
    said: String,
}

const SUITES: &[Suite] = &[
    Suite {
        name: "rules",
        unit: "cases",
        meaning: "the conformance cases on the model",
        run: || cases(|| Model::new(1)),
    },
    Suite {
        name: "store",
        unit: "cases",
        meaning: "the conformance cases on the embedded store",
        run: || cases(embedded),
    },
    Suite {
        name: "moved",
        unit: "runs",
        meaning: "an item to which something happens at each step of being moved",
        run: moves,
    },
    Suite {
        name: "streams",
        unit: "requests",
        meaning: "random streams on the embedded store and the model",
        run: || {
            let model = || Model::new(1);
            streams(&[World::exact(), World::general()], model, |_| embedded())
        },
    },
    Suite {
        name: "reopened",
        unit: "requests",
        meaning: "the same on a store that dies all the time",
        run: || {
            let model = || Model::uncounted(1);
            streams(&[World::general()], model, |seed| Reopened::new(seed, Mortality::default()))
        },
    },
    Suite {
        name: "sim",
        unit: "operations",
        meaning: "the simulation of engine and store with power cuts and failing disks",
        run: simulation,
    },
];

/// Seeds of the simulation.
const SEEDS: u64 = 40;
/// Seeds of streams in each world.
const STREAMS: u64 = 20;
/// Requests of one stream.
const REQUESTS: usize = 300;

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
    let mut bugs = Bug::ALL.to_vec();
    let mut parser = lexopt::Parser::from_env();
    while let Some(word) = parser.next()? {
        match word {
            Long("only") => bugs = vec![named(&parser.value()?.string()?)?],
            Long("help") | Short('h') => {
                let suites = SUITES.iter().map(|s| format!("  {:<10}  {}\n", s.name, s.meaning));
                return say(&format!("{HELP}{}", suites.collect::<String>()));
            }
            other => return Err(other.unexpected().into()),
        }
    }
    // A suite that complains is what we want here; its panics would only confuse.
    std::panic::set_hook(Box::new(|_| {}));
    control(SUITES)?;
    hunt(SUITES, &bugs)
}

fn named(name: &str) -> anyhow::Result<Bug> {
    let is = |bug: &&Bug| format!("{bug:?}").eq_ignore_ascii_case(name);
    let Some(bug) = Bug::ALL.iter().find(is) else {
        let all: Vec<String> = Bug::ALL.iter().map(|bug| format!("  {bug:?}")).collect();
        bail!("no bug is called {name}; there are\n{}", all.join("\n"));
    };
    Ok(*bug)
}

/// Without a bug nobody complains.
fn control(suites: &[Suite]) -> anyhow::Result<()> {
    say("no bug planted:\n")?;
    for Suite { name, unit, run, .. } in suites {
        let started = Instant::now();
        match run() {
            Ok(done) => {
                let took = shown(started.elapsed());
                say(&format!("  {name:<10} clean after {done} {unit}, {took}\n"))?;
            }
            Err(Caught { after, said }) => {
                bail!(
                    "{name} complains after {after} {unit} although no bug is planted: {}",
                    brief(&said)
                );
            }
        }
    }
    say("\n")
}

/// Every bug is caught by some suite. Says for each suite after how much it was caught, and what
/// the cheapest one said.
fn hunt(suites: &[Suite], bugs: &[Bug]) -> anyhow::Result<()> {
    let started = Instant::now();
    let names = suites.iter().map(|suite| format!("{:>10}", suite.name));
    say(&format!("{:<23}{}\n", "caught after", names.collect::<String>()))?;
    let mut missed = Vec::new();
    for bug in bugs {
        let caught: Vec<_> = suites.iter().map(|suite| catch(suite, *bug)).collect();
        let after = caught.iter().map(|caught| match caught {
            Some(caught) => format!("{:>10}", caught.after),
            None => format!("{:>10}", "-"),
        });
        let name = format!("{bug:?}");
        let first = caught.iter().flatten().next();
        let said = first.map_or_else(|| "NOBODY NOTICES".into(), |caught| brief(&caught.said));
        say(&format!("{name:<23}{}  {said}\n", after.collect::<String>()))?;
        if first.is_none() {
            missed.push(format!("{name}: {}", bug.describe()));
        }
    }
    if !missed.is_empty() {
        bail!("a suite is missing a case; nobody notices\n{}", missed.join("\n"));
    }
    say(&format!("\n{} bugs, all caught, {}\n", bugs.len(), shown(started.elapsed())))
}

fn catch(suite: &Suite, bug: Bug) -> Option<Caught> {
    with_bug(bug, || (suite.run)()).err()
}

fn embedded() -> Stepped {
    let options = Options { segment_bytes: 1 << 20, seed: Some(1), ..Options::default() };
    Stepped::open(Arc::new(SimDisk::new(1)), options).expect("an empty disk can be opened")
}

fn cases<S: Store>(open: impl Fn() -> S) -> Verdict {
    let mut done = 0;
    for case in suite::cases::<S>() {
        let run = AssertUnwindSafe(|| case.run(Arc::new(open())));
        if let Err(panic) = catch_unwind(run) {
            let said = format!("{}: {}", case.name, words(panic.as_ref()));
            return Err(Caught { after: done, said });
        }
        done += 1;
    }
    Ok(done)
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without words".into())
}

fn moves() -> Verdict {
    let mut runs = 0;
    match catch_unwind(AssertUnwindSafe(|| moved::explore(&mut runs))) {
        Ok(Ok(())) => Ok(runs),
        Ok(Err(said)) => Err(Caught { after: runs, said }),
        Err(panic) => Err(Caught { after: runs, said: words(panic.as_ref()) }),
    }
}

fn streams<S: Store>(
    worlds: &[World],
    model: impl Fn() -> Model,
    open: impl Fn(u64) -> S,
) -> Verdict {
    let mut done = 0;
    for seed in 0..STREAMS {
        for world in worlds {
            let run = || stream::run(seed, REQUESTS, world.clone(), &model(), &open(seed));
            let ran = catch_unwind(AssertUnwindSafe(run));
            let caught = |after: usize, said| Caught { after: done + after as u64, said };
            match ran {
                Ok(Ok(report)) => done += report.requests as u64,
                Ok(Err(Difference { after, what, .. })) => return Err(caught(after, what)),
                Err(panic) => return Err(caught(0, words(panic.as_ref()))),
            }
        }
    }
    Ok(done)
}

fn simulation() -> Verdict {
    let mut done = 0;
    for seed in 0..SEEDS {
        match sim::run(seed, sim::OPS_PER_SEED) {
            Ok(report) => done += report.ops,
            Err(broken) => {
                let (after, said) = (done + broken.op, broken.finding.to_string());
                return Err(Caught { after, said });
            }
        }
    }
    Ok(done)
}

/// One line of what may be many.
fn brief(said: &str) -> String {
    const MOST: usize = 70;
    let line: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn shown(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

fn say(text: &str) -> anyhow::Result<()> {
    let _a_closed_pipe_is_no_error = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLIND: Suite = Suite { name: "blind", unit: "looks", meaning: "", run: || Ok(1) };

    fn nervous() -> Verdict {
        Err(Caught { after: 0, said: "something".into() })
    }

    const NERVOUS: Suite = Suite { name: "nervous", unit: "looks", meaning: "", run: nervous };

    #[test]
    fn a_bug_that_no_suite_notices_is_named() {
        let missed = hunt(&[BLIND], &[Bug::OneWakeUp]).unwrap_err().to_string();
        assert!(missed.contains("OneWakeUp"), "{missed}");
        hunt(&[BLIND, NERVOUS], &[Bug::OneWakeUp]).unwrap();
    }

    #[test]
    fn a_suite_that_complains_without_a_bug_is_named() {
        control(&[BLIND]).unwrap();
        let refused = control(&[BLIND, NERVOUS]).unwrap_err().to_string();
        assert!(refused.contains("nervous"), "{refused}");
    }

    #[test]
    fn a_bug_is_found_by_its_name_in_any_case() {
        assert_eq!(named("onewakeup").unwrap(), Bug::OneWakeUp);
        assert!(named("none").is_err());
    }
}
