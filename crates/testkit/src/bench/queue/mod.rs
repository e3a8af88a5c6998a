//! `bench queue`: the embedded store beside the limit of the machine.
//!
//! One configuration for all rows (the store's defaults), 256-byte payloads that do not compress, a
//! key on every item, and a sync before every answer.

mod churn;
mod depth;
mod finished;
mod rates;
mod reopen;
mod shapes;
mod trees;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use lexopt::ValueExt as _;
use serde_json::Value;

use super::asked::{self, Words};
use super::machine;
use super::report::{Bar, Row, Want, check, tell};
use super::scenario::{Scenario, Stage, run_here, run_in_child};

pub const HELP: &str = "\
bench queue [--json] [--quick] [--only NAMES] [--dir DIR]
  Measures the embedded store beside the limit of this machine, and holds it against its bars.
  --only NAMES  some of these, with commas between them: rates shapes depth reopen finished trees
                churn
  --quick       a twentieth of the items, shorter rounds; indicates, proves nothing
  --json        prints {machine, rows, checks} instead of a table
  --dir DIR     where the data goes (about 10 GB for a while); by default beside this program
";

const SCENARIOS: [Scenario; 7] = [
    Scenario { name: "rates", run: rates::run },
    Scenario { name: "shapes", run: shapes::run },
    Scenario { name: "finished", run: finished::run },
    Scenario { name: "trees", run: trees::run },
    Scenario { name: "churn", run: churn::run },
    Scenario { name: "depth", run: depth::run },
    // After depth, whose ten million items it opens.
    Scenario { name: "reopen", run: reopen::run },
];

const BARS: [Bar; 12] = [
    ratio("ratio to the limit, enqueue 1x64", "enqueue 1x64", 0.7),
    ratio("ratio to the limit, claim+settle 1x64", "claim+settle 1x64", 0.7),
    ratio("ratio to the limit, enqueue 100x4", "enqueue 100x4", 0.3),
    ratio("ratio to the limit, claim+settle 100x4", "claim+settle 100x4", 0.4),
    Bar {
        name: "1,000 tenants and group limits, of the plain figure",
        row: shapes::WORST,
        figure: "ratio",
        want: Want::AtLeast(0.8),
    },
    Bar {
        name: "claim p99 at 10 million, times that at 10 thousand",
        row: depth::WORST,
        figure: "ratio",
        want: Want::AtMost(1.3),
    },
    Bar {
        name: "worst claim in a churn of 5 million, ms",
        row: churn::NAME,
        figure: "worst_ms",
        want: Want::AtMostOr { value: 150.0, times: 3.0, of: "limit_worst_ms" },
    },
    Bar {
        name: "RSS per waiting item, bytes",
        row: depth::MEMORY,
        figure: "rss_bytes_per_item",
        want: Want::AtMost(160.0),
    },
    Bar {
        name: "RSS per finished item, bytes",
        row: finished::NAME,
        figure: "rss_bytes_per_item",
        want: Want::AtMost(24.0),
    },
    Bar {
        name: "reopen of 10 million, s",
        row: reopen::REOPEN,
        figure: "seconds",
        want: Want::AtMost(10.0),
    },
    Bar {
        name: "written over the churn, times its payload bytes",
        row: churn::NAME,
        figure: "written_per_payload",
        want: Want::AtMost(2.5),
    },
    Bar {
        name: "roll-up per settle up to 10,000 children, times that of 10",
        row: trees::FLAT,
        figure: "ratio",
        want: Want::AtMost(1.5),
    },
];

const fn ratio(name: &'static str, row: &'static str, least: f64) -> Bar {
    Bar { name, row, figure: "ratio", want: Want::AtLeast(least) }
}

/// Free bytes without which a full run does not begin.
const NEEDED_BYTES: u64 = 12 << 30;

#[derive(Debug)]
struct Asked {
    common: asked::Asked,
    /// Set in a child: the scenario to run here.
    scenario: Option<String>,
    dir: PathBuf,
}

/// Runs the bench; false if a bar was missed.
pub fn run(words: Vec<OsString>) -> anyhow::Result<bool> {
    let Some(asked) = read(words)? else {
        write!(std::io::stdout(), "{HELP}")?;
        return Ok(true);
    };
    if let Some(name) = &asked.scenario {
        let stage = Stage::new(&asked.dir, asked.common.quick)?;
        run_here(find(name)?, &stage)?;
        return Ok(true);
    }
    std::fs::create_dir_all(&asked.dir)?;
    let measured = measure(&asked);
    std::fs::remove_dir_all(&asked.dir)?;
    let (machine, rows) = measured?;
    let checks = check(&BARS, &rows, asked.common.only.is_none());
    tell(asked.common.json, asked.common.quick, &machine, &rows, &checks)?;
    Ok(asked.common.quick || checks.iter().all(|check| check.ok))
}

fn read(words: Vec<OsString>) -> anyhow::Result<Option<Asked>> {
    let program = std::env::current_exe()?;
    let beside = program.parent().and_then(|dir| dir.parent()).unwrap_or(&program);
    let (mut scenario, mut dir) = (None, beside.to_owned());
    let parts = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    let common = Words { help: HELP, part: "scenario", parts }.read(words, |option, words| {
        match option {
            "scenario" => scenario = Some(words.value()?.string()?),
            "dir" => dir = words.value()?.into(),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    // A directory of our own in the one that was given: it is removed at the end.
    let dir = if scenario.is_some() { dir } else { dir.join("bench") };
    Ok(common.map(|common| Asked { common, scenario, dir }))
}

fn find(name: &str) -> anyhow::Result<&'static Scenario> {
    let found = SCENARIOS.iter().find(|scenario| scenario.name == name);
    found.ok_or_else(|| anyhow::anyhow!("no scenario {name}\n\n{HELP}"))
}

fn measure(asked: &Asked) -> anyhow::Result<(Value, Vec<Row>)> {
    if let Some(free) = machine::free_bytes(&asked.dir)
        && free < NEEDED_BYTES
        && !asked.common.quick
    {
        anyhow::bail!("{} has {} MB free; 12 GB are needed", asked.dir.display(), free >> 20);
    }
    let machine = machine::describe(&asked.dir)?;
    eprintln!("{machine}");
    let mut rows = Vec::new();
    for scenario in &SCENARIOS {
        if asked.common.wants(scenario.name) {
            rows.extend(run_in_child(&["queue"], scenario, &asked.dir, asked.common.quick)?);
        }
    }
    Ok((machine, rows))
}
