//! `cargo xtask crash`: children die by kill -9 or by power cut, and nothing acknowledged is lost.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use lexopt::prelude::*;
use windrow_testkit::crash::child::{self, Orders, Plant};
use windrow_testkit::crash::postgres;
use windrow_testkit::crash::postgres::campaign::Summary as Survived;
use windrow_testkit::crash::postgres::child::wall_us;
use windrow_testkit::crash::postgres::program::Run;
use windrow_testkit::crash::program::{self, Death, Summary, Wanted as Campaign};
use windrow_testkit::crash::served::{self, Plant as Mistake, Wanted, Wire};
use windrow_testkit::crash::volume::Volume;
use windrow_testkit::servers::Version;
use windrow_testkit::servers::windrow::On;

const HELP: &str = "\
cargo xtask crash kill  [--cycles 300] [--seed N]
cargo xtask crash power [--cycles 200] [--seed N] [--must]
cargo xtask crash serve [--rounds 100] [--seed N] [--store URL] [--wire both]
cargo xtask crash postgres [--rounds 100] [--standby-rounds 5] [--seed N] [--version 15]

A child runs the embedded store with 8 producers and 8 workers and reports every
answer after it came. After 50 to 1000 ms it is killed; the store is opened again
and held against the reports. Nothing acknowledged may be lost, nothing may be
settled twice.

  kill      SIGKILL
  power     the file system (ext4 on a loop device) loses its power first.
            Needs root; without it the run is skipped, loudly
  --must    being skipped is an error
  --seed    draws the same times to die again

  serve     kills `windrow serve` under load through the public API, and stops it well
            every tenth time. Clients reconnect by themselves; every call is answered.
            Every five rounds: nothing acknowledged is lost or there twice, repeats by
            request id give the first answer, nothing settled is handed out again, no
            attempt was spent on a restart. On a directory, or on the database at --store;
            over http, rpc, or some clients over each at the same time

Each run begins with a control: a planted bug that the same check must catch.

  postgres  three servers, each a process with producers and workers, on one real
            PostgreSQL that they reach through a network of our own. In each round
            one or two of these: kill -9 of a server; pg_ctl stop -m immediate;
            backends terminated; connections cut around a COMMIT, so that the
            client has to find out by its request id. Every five rounds the work
            drains and everything is compared: nothing acknowledged is lost or
            settled twice, nothing that was said not to be written exists, nothing
            is stuck, trees and counts equal a recount, keys are unique, no group
            held more than its limit.
            Then the same with a synchronous standby: the primary is killed, the
            standby promoted and a new one built, and all is compared.
            Its control is a PostgreSQL with synchronous_commit = off.
";

fn main() -> ExitCode {
    match answer() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("crash: {error}");
            ExitCode::FAILURE
        }
    }
}

fn answer() -> Result<ExitCode, lexopt::Error> {
    let mut words = lexopt::Parser::from_env();
    let verb = match words.next()? {
        Some(Value(verb)) => verb.string()?,
        Some(Short('h') | Long("help")) | None => return Ok(help()),
        Some(other) => return Err(other.unexpected()),
    };
    match verb.as_str() {
        "kill" => campaign(words, Death::Kill, 300),
        "power" => campaign(words, Death::Power, 200),
        "postgres" => postgres(words),
        "serve" => served(words),
        "child" => work(words),
        "server" => serve(words),
        _ => Err(format!("no verb {verb}; try --help").into()),
    }
}

fn help() -> ExitCode {
    eprint!("{HELP}");
    ExitCode::SUCCESS
}

fn campaign(
    mut words: lexopt::Parser,
    death: Death,
    cycles: u32,
) -> Result<ExitCode, lexopt::Error> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = now.unwrap_or_default().as_micros() as u64;
    let mut wanted = Campaign { death, cycles, seed };
    let mut must = false;
    while let Some(word) = words.next()? {
        match word {
            Long("cycles") => wanted.cycles = words.value()?.parse()?,
            Long("seed") => wanted.seed = words.value()?.parse()?,
            Long("must") => must = true,
            Short('h') | Long("help") => return Ok(help()),
            other => return Err(other.unexpected()),
        }
    }
    if death == Death::Power
        && let Some(missing) = Volume::missing()
    {
        return Ok(skipped(&missing, must));
    }
    Ok(run(&wanted))
}

fn skipped(missing: &str, must: bool) -> ExitCode {
    let rule = "*".repeat(72);
    eprintln!("{rule}\n** SKIPPED: no power was cut, because {missing}.");
    eprintln!("** Nothing is known about power loss. Run it as root on Linux.\n{rule}");
    if must { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn run(wanted: &Campaign) -> ExitCode {
    let started = Instant::now();
    eprintln!("crash {:?}: {} cycles, seed {}", wanted.death, wanted.cycles, wanted.seed);
    let summary = match program::run(wanted) {
        Ok(summary) => summary,
        Err(failure) => {
            eprintln!("\nFAILED: {failure}");
            return ExitCode::FAILURE;
        }
    };
    let Summary { cycles, acks, directories, worst_open_ms, read, parents, repeated, .. } = summary;
    let Summary { died_opening, snapshots, reclaimed, .. } = summary;
    eprintln!(
        "\n{cycles} cycles on {directories} directories in {:.0} s\n\
         {acks} acknowledgements, lost 0, settled twice 0\n\
         {read} items read whole, {parents} parents recounted, {repeated} requests repeated\n\
         {snapshots} snapshots, {reclaimed} segments reclaimed, {died_opening} died while opening\n\
         worst open {worst_open_ms} ms; 0 failures in {cycles} bound the rate at {:.2} % (95 %)",
        started.elapsed().as_secs_f64(),
        300.0 / f64::from(cycles.max(1)),
    );
    ExitCode::SUCCESS
}

fn postgres(mut words: lexopt::Parser) -> Result<ExitCode, lexopt::Error> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let (version, seed) = (Version::V15, wall_us());
    let mut wanted = Run { program, version, rounds: 100, standby_rounds: 5, seed };
    while let Some(word) = words.next()? {
        match word {
            Long("rounds") => wanted.rounds = words.value()?.parse()?,
            Long("standby-rounds") => wanted.standby_rounds = words.value()?.parse()?,
            Long("seed") => wanted.seed = words.value()?.parse()?,
            Long("version") => {
                wanted.version = match words.value()?.string()?.as_str() {
                    "15" => Version::V15,
                    "18" => Version::V18,
                    other => return Err(format!("no version {other}; 15 or 18").into()),
                }
            }
            Short('h') | Long("help") => return Ok(help()),
            other => return Err(other.unexpected()),
        }
    }
    let started = Instant::now();
    let Run { version, rounds, standby_rounds, seed, .. } = &wanted;
    eprintln!(
        "crash postgres: {version}, {rounds} rounds, {standby_rounds} with a standby, seed {seed}"
    );
    match postgres::program::run(&wanted) {
        Ok(summaries) => {
            summaries.iter().filter(|summary| summary.rounds > 0).for_each(show);
            eprintln!("\nin {:.0} s, seed {seed}", started.elapsed().as_secs_f64());
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            eprintln!("\nFAILED: {failure}");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn show(summary: &Survived) {
    let disasters = summary.disasters.iter();
    let disasters: Vec<String> =
        disasters.map(|(what, count)| format!("{count} {}", what.name())).collect();
    let [unsent, sent, answered] = summary.cuts;
    let [resolved, left] = summary.unknown;
    let Survived { rounds, checks, databases, terminated, acks, claims, settled, .. } = summary;
    let Survived { declined, items, read, parents, repeated, holds, .. } = summary;
    eprintln!(
        "\n{rounds} rounds on {databases} databases: {}\n\
         {terminated} backends terminated; cut: {unsent} before COMMIT arrived, {sent} after it \
         was sent, {answered} after it was done\n\
         {acks} acknowledgements of {items} items ({claims} claims, {settled} settled), lost 0, \
         settled twice 0, stuck 0\n\
         outcomes unknown: {resolved} asked again by request id, {left} without one; \
         {declined} batches declined, none of them written\n\
         {checks} checks: {read} items read whole, {parents} parents recounted, \
         {repeated} requests repeated, {holds} holds of groups, at most {} at once\n\
         worst time until all servers worked again {} ms; 0 failures in {rounds} bound the rate \
         at {:.2} % (95 %)",
        disasters.join(", "),
        summary.most_held,
        summary.worst_back_ms,
        300.0 / f64::from((*rounds).max(1)),
    );
}

/// Kills the program that lies beside this one.
fn served(mut words: lexopt::Parser) -> Result<ExitCode, lexopt::Error> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let (mut rounds, mut seed, mut on, mut wire) = (100, wall_us(), On::Directory, Wire::Both);
    while let Some(word) = words.next()? {
        match word {
            Long("rounds") => rounds = words.value()?.parse()?,
            Long("seed") => seed = words.value()?.parse()?,
            Long("store") => on = On::Database(words.value()?.string()?),
            Long("wire") => {
                wire = match words.value()?.string()?.as_str() {
                    "http" => Wire::Http,
                    "rpc" => Wire::Rpc,
                    "both" => Wire::Both,
                    other => return Err(format!("no wire {other}; http, rpc or both").into()),
                }
            }
            Short('h') | Long("help") => return Ok(help()),
            other => return Err(other.unexpected()),
        }
    }
    let (program, stops) = (program.with_file_name("windrow"), rounds / 10);
    let (kills, plant, started) = (rounds - stops, Mistake::Nothing, Instant::now());
    eprintln!("crash serve: {kills} kills and {stops} stops, over {wire:?}, seed {seed}");
    let wanted = Wanted { program, on, wire, kills, stops, seed, plant };
    let control =
        Wanted { on: On::Directory, kills: 5, stops: 0, plant: Mistake::Forgets, ..wanted.clone() };
    if served::run(&control).is_ok() {
        eprintln!("\nFAILED: a server that forgets what it acknowledged was not noticed");
        return Ok(ExitCode::FAILURE);
    }
    match served::run(&wanted) {
        Ok(summary) => {
            let served::Summary { kills, stops, checks, enqueued, settled, .. } = summary;
            eprintln!(
                "\n{kills} kills and {stops} stops in {:.0} s; {enqueued} items enqueued, \
                 {settled} settled, lost 0, twice 0, attempts burnt 0; {checks} checks, \
                 {} requests repeated; back within {} ms at worst",
                started.elapsed().as_secs_f64(),
                summary.repeated,
                summary.worst_back.as_millis(),
            );
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            eprintln!("\nFAILED: {failure:#}; seed {seed}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The hidden verb: one server of several.
fn serve(mut words: lexopt::Parser) -> Result<ExitCode, lexopt::Error> {
    let mut orders = postgres::child::Orders::default();
    while let Some(word) = words.next()? {
        match word {
            Long("url") => orders.url = words.value()?.string()?,
            Long("number") => orders.server = words.value()?.parse()?,
            Long("life") => orders.life = words.value()?.parse()?,
            Long("seed") => orders.seed = words.value()?.parse()?,
            Long("ahead-ms") => orders.ahead_ms = words.value()?.parse()?,
            other => return Err(other.unexpected()),
        }
    }
    postgres::child::run(&orders).map(|()| ExitCode::SUCCESS).map_err(Into::into)
}

/// The hidden verb: what dies.
fn work(mut words: lexopt::Parser) -> Result<ExitCode, lexopt::Error> {
    let (dir, complaints) = (PathBuf::new(), PathBuf::new());
    let mut orders = Orders { dir, complaints, life: 0, seed: 0, plant: Plant::Nothing };
    while let Some(word) = words.next()? {
        match word {
            Long("dir") => orders.dir = words.value()?.into(),
            Long("life") => orders.life = words.value()?.parse()?,
            Long("seed") => orders.seed = words.value()?.parse()?,
            Long("no-sync") => orders.plant = Plant::NoSync,
            Long("ack-early") => orders.plant = Plant::AckEarly,
            other => return Err(other.unexpected()),
        }
    }
    child::run(&orders).map(|()| ExitCode::SUCCESS).map_err(Into::into)
}
