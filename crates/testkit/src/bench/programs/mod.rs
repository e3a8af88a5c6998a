//! `bench clients`: what programs get of what the wire can do, on the real server.
//!
//! `wire.rs` is the measure: clients that claim and settle by hand. `rust.rs` is the worker of the
//! Rust client beside it, `others.rs` the worker of the Python client and `windrow work`, as
//! processes of their own.

mod others;
mod rust;
mod wire;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use tokio::runtime::Runtime;

use super::asked::{Asked, Words};
use super::machine;
use super::measure::{Round, median};
use super::report::{Bar, Row, Want, check, tell};
use crate::servers::windrow::{On, Windrow};

pub const HELP: &str = "\
bench clients [--json] [--quick] [--only PROGRAMS]
  Measures on one running server what its clients make of it. The wire: four clients that claim and
  settle 100 items at a time over RPC, by hand. The worker of the Rust client: the same batches and
  the same wire, a handler that does nothing. They take turns, each draining as many items as the
  other; the ratio is the median of what the worker did of the round beside it. Then one process of
  the Python client's worker, in batches over HTTP (bench/worker.py), and `windrow work` running
  `true` for each item, two commands at once for each core. Payloads of 256 bytes that do not
  compress, 100 of JSON for Python. Fails if a bar is not met. Run it at the root of the repository.

  --only PROGRAMS  some of these, with commas between them: rust python work
  --quick          fewer rounds and a tenth of the items; indicates, proves nothing
  --json           the machine, all rows and all checks as one JSON object
";

const PROGRAMS: [&str; 3] = ["rust", "python", "work"];

const BARS: [Bar; 3] = [
    least("Rust worker, times the wire: claim+settle 100x4", "rust", "ratio", 0.8),
    least("Python worker, items/s of one process", "python", "items_per_s", 3_000.0),
    least("windrow work, commands/s", "work", "items_per_s", 300.0),
];

const fn least(name: &'static str, row: &'static str, figure: &'static str, least: f64) -> Bar {
    Bar { name, row, figure, want: Want::AtLeast(least) }
}

/// A number of items, a tenth of it if somebody is in a hurry.
fn items(asked: &Asked, items: u64) -> u64 {
    if asked.quick { items / 10 } else { items }
}

/// What is measured with.
struct Ground {
    server: Windrow,
    program: PathBuf,
    runtime: Runtime,
}

type Measure = fn(&Ground, &Asked) -> anyhow::Result<Vec<Row>>;

/// Runs the bench; false if a bar was missed.
pub fn run(words: Vec<OsString>) -> anyhow::Result<bool> {
    let Some(asked) = read(words)? else {
        write!(std::io::stdout(), "{HELP}")?;
        return Ok(true);
    };
    let machine = machine::describe(&std::env::temp_dir())?;
    eprintln!("{machine}");
    let program = std::env::current_exe()?.with_file_name("windrow");
    anyhow::ensure!(program.is_file(), "{} is missing; build it first", program.display());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let server = Windrow::start(&program, On::Directory)?;
    let ground = Ground { server, program, runtime };
    let mut rows = Vec::new();
    let measures: [Measure; 3] = [beside_the_wire, python, work];
    for (name, measure) in PROGRAMS.into_iter().zip(measures) {
        if asked.wants(name) {
            eprintln!("{name} …");
            rows.extend(measure(&ground, &asked).with_context(|| name)?);
        }
    }
    let checks = check(&BARS, &rows, asked.only.is_none());
    tell(asked.json, asked.quick, &machine, &rows, &checks)?;
    Ok(checks.iter().all(|check| check.ok))
}

/// The Rust worker, in turns with the wire.
fn beside_the_wire(ground: &Ground, asked: &Asked) -> anyhow::Result<Vec<Row>> {
    let (items, rounds) = (items(asked, 100_000), if asked.quick { 3 } else { 21 });
    let url = ground.server.rpc_url();
    let (mut wires, mut workers) = (Vec::new(), Vec::new());
    ground.runtime.block_on(async {
        let mut lane = wire::Lane::open(&url, "wire")?;
        for number in 0..rounds {
            lane.fill(items).await?;
            let seconds = lane.drain(items).await?;
            wires.push(rate(items, seconds));
            let queue = format!("rust-{number}");
            wire::Lane::open(&url, &queue)?.fill(items).await?;
            let seconds = rust::drain(&url, &queue, items).await?;
            workers.push(rate(items, seconds));
        }
        anyhow::Ok(())
    })?;
    let wire = Round::median(&wires).items_per_s;
    let worker = Round::median(&workers).items_per_s;
    Ok(vec![
        Row::new("wire").with("items_per_s", wire),
        Row::new("rust")
            .with("items_per_s", worker)
            .with("limit_per_s", wire)
            .with("ratio", Round::ratio(&workers, &wires)),
    ])
}

fn rate(items: u64, seconds: f64) -> Round {
    Round { items_per_s: items as f64 / seconds, ..Round::default() }
}

fn python(ground: &Ground, asked: &Asked) -> anyhow::Result<Vec<Row>> {
    let (items, rounds) = (items(asked, 50_000), if asked.quick { 1 } else { 3 });
    let rounds = (0..rounds).map(|_| others::python(&ground.server.url(), items));
    let rounds: Vec<f64> = rounds.collect::<anyhow::Result<_>>()?;
    Ok(vec![Row::new("python").with("items_per_s", median(rounds))])
}

fn work(ground: &Ground, asked: &Asked) -> anyhow::Result<Vec<Row>> {
    let (items, rounds) = (items(asked, 3_000), if asked.quick { 1 } else { 3 });
    let url = ground.server.url();
    let mut rates = Vec::new();
    for number in 0..rounds {
        let queue = format!("work-{number}");
        let mut lane = wire::Lane::open(&ground.server.rpc_url(), &queue)?;
        ground.runtime.block_on(lane.fill(items))?;
        let seconds = others::work(&ground.program, &url, &queue)?;
        ground.runtime.block_on(lane.is_empty())?;
        rates.push(items as f64 / seconds);
    }
    Ok(vec![Row::new("work").with("items_per_s", median(rates))])
}

fn read(words: Vec<OsString>) -> anyhow::Result<Option<Asked>> {
    let bench = Words { help: HELP, part: "program", parts: PROGRAMS.to_vec() };
    bench.read(words, |_, _| Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_held_against_programs_that_exist_and_the_help_names() {
        for bar in &BARS {
            assert!(PROGRAMS.contains(&bar.row), "{}", bar.row);
        }
        for program in PROGRAMS {
            assert!(HELP.contains(program), "{program}");
        }
    }

    #[test]
    fn a_program_that_was_not_measured_misses_its_bar_in_a_whole_run() {
        let rows = [Row::new("rust").with("ratio", 0.9), Row::new("work")];
        let ok =
            |whole| check(&BARS, &rows, whole).iter().map(|check| check.ok).collect::<Vec<bool>>();
        assert_eq!((ok(true), ok(false)), (vec![true, false, false], vec![true, false]));
    }

    #[test]
    fn only_what_exists_can_be_asked_for() {
        let asked = |words: &[&str]| read(words.iter().map(OsString::from).collect());
        let only = asked(&["--only", "rust,work", "--quick"]).unwrap().unwrap();
        assert!(only.wants("rust") && !only.wants("python") && only.quick);
        assert!(asked(&["--only", "java"]).is_err());
    }
}
