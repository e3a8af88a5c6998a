//! Scenarios: parts of a bench, each run in a process of its own.
//!
//! The parent asks itself, as a child, for one scenario and reads the rows from its output. So
//! memory is measured in a process that did nothing else before, and a store that is opened again
//! is opened by somebody new.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::limit::Limit;
use super::report::Row;

/// A named part of a bench.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub run: fn(&Stage) -> anyhow::Result<Vec<Row>>,
}

/// What a scenario works with.
#[derive(Debug)]
pub struct Stage {
    pub runtime: Runtime,
    pub limit: Limit,
    pub dir: PathBuf,
    pub quick: bool,
}

impl Stage {
    pub fn new(dir: &Path, quick: bool) -> anyhow::Result<Stage> {
        let (runtime, limit) = (super::runtime()?, Limit::beside_us(dir)?);
        Ok(Stage { runtime, limit, dir: dir.to_owned(), quick })
    }

    /// A number of items, a twentieth of it if somebody is in a hurry.
    pub fn items(&self, items: u64) -> u64 {
        if self.quick { items / 20 } else { items }
    }

    pub fn rounds(&self) -> usize {
        if self.quick { 3 } else { 7 }
    }

    /// How long one round lasts.
    pub fn seconds(&self) -> f64 {
        if self.quick { 0.3 } else { 0.5 }
    }

    /// Tells whoever watches what is going on.
    pub fn say(&self, what: &str) {
        eprintln!("  {what}");
    }
}

/// Runs a scenario here and prints its rows, for the parent.
pub fn run_here(scenario: &Scenario, stage: &Stage) -> anyhow::Result<()> {
    let rows = (scenario.run)(stage).with_context(|| format!("scenario {}", scenario.name))?;
    let rows: Vec<Value> = rows.iter().map(Row::to_json).collect();
    Ok(writeln!(std::io::stdout(), "{}", json!(rows))?)
}

/// Runs a scenario in a child of this program, called with `words` before the scenario's name.
pub fn run_in_child(
    words: &[&str],
    scenario: &Scenario,
    dir: &Path,
    quick: bool,
) -> anyhow::Result<Vec<Row>> {
    eprintln!("{} …", scenario.name);
    let begun = Instant::now();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).arg("--scenario").arg(scenario.name).arg("--dir").arg(dir);
    if quick {
        command.arg("--quick");
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    anyhow::ensure!(output.status.success(), "{} failed ({})", scenario.name, output.status);
    eprintln!("{} took {:.0} s", scenario.name, begun.elapsed().as_secs_f64());
    let Value::Array(rows) = serde_json::from_slice(&output.stdout)? else {
        anyhow::bail!("{} told no rows", scenario.name)
    };
    rows.into_iter().map(Row::from_json).collect()
}
