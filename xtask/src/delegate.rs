//! The long proofs and the bench: programs of `windrow-testkit`, built as users get Windrow.
//!
//! They live there because they need the queue; xtask stays small and builds in seconds.

use std::ffi::OsString;

use crate::setup::{self, Need};
use crate::{Verb, cargo};

pub(crate) const CRASH: Verb = Verb {
    name: "crash",
    summary: "kill -9, power cuts and failovers, with a ledger of acknowledgements",
    help: None,
    run: |words| {
        if words.first().is_some_and(|what| what == "documents") {
            return crash_documents(words);
        }
        if words.first().is_some_and(|what| what == "serve") {
            build_windrow()?;
        }
        testkit("crash", words)
    },
};

pub(crate) const SIM: Verb = Verb {
    name: "sim",
    summary: "seeded simulation of engine and store; a failure prints its seed",
    help: None,
    run: |words| testkit("sim", words),
};

pub(crate) const PLANTED: Verb = Verb {
    name: "planted",
    summary: "plants known bugs and demands that the suites catch each",
    help: None,
    run: |words| {
        let program = ["--features", "planted", "--bin", "planted", "--"];
        cargo::run(cargo::cargo(&RUN).args(program).args(words))
    },
};

pub(crate) const BENCH: Verb = Verb {
    name: "bench",
    summary: "measures Windrow beside the limit of the machine, and beside its peers",
    help: None,
    run: |words| {
        match words.first().and_then(|bench| bench.to_str()) {
            Some("postgres") => return bench_postgres(words),
            Some("wire") => return bench_wire(words),
            Some("clients" | "console") => build_windrow()?,
            Some("documents") => {
                setup::ensure(&[Need::Poppler, Need::Tesseract])?;
                build_windrow()?;
            }
            // The bench runs the limit as a program of its own, which lies beside it.
            _ => build("limit")?,
        }
        testkit("bench", words)
    },
};

/// A test of the server, which kills it more often than the tests do.
fn crash_documents(words: Vec<OsString>) -> anyhow::Result<()> {
    let rounds = match words.get(1..).unwrap_or_default() {
        [] => "50".into(),
        [flag, rounds] if flag == "--rounds" => rounds.clone(),
        _ => anyhow::bail!("crash documents takes --rounds N, 50 by default"),
    };
    setup::ensure(&[Need::Poppler, Need::Tesseract])?;
    let test = ["test", "--release", "--package", "windrow-server", "--test", "documents"];
    let which = ["--", "--nocapture", "a_server_that_is_killed_on_the_way"];
    cargo::run(cargo::cargo(&test).args(which).env("WINDROW_KILLS", rounds))
}

/// Needs a PostgreSQL, the newest that can be had. Peers that cannot be had are missing from the
/// rows, and the bench says that their bars were not met.
fn bench_postgres(words: Vec<OsString>) -> anyhow::Result<()> {
    let asks_for_help = words.iter().any(|word| word == "--help" || word == "-h");
    if !asks_for_help {
        if let Err(error) = setup::ensure(&[Need::Postgres18]) {
            eprintln!("set-up: {error:#}; trying PostgreSQL 15");
            setup::ensure(&[Need::Postgres15])?;
        }
        if let Err(error) = setup::ensure(&[Need::Peers]) {
            eprintln!("set-up: {error:#}; the bench goes on without them");
        }
    }
    let mut bench = cargo::cargo(&RUN);
    cargo::run(setup::postgres::told(bench.args(["--bin", "bench", "--"]).args(words)))
}

/// Needs other queues to be measured beside. Those that cannot be had are missing from the table.
fn bench_wire(words: Vec<OsString>) -> anyhow::Result<()> {
    let asks_for_help = words.iter().any(|word| word == "--help" || word == "-h");
    if !asks_for_help {
        for need in [Need::Redis, Need::Beanstalkd, Need::Nats] {
            if let Err(error) = setup::ensure(&[need]) {
                eprintln!("set-up: {error:#}; the bench goes on without it");
            }
        }
        build_windrow()?;
    }
    testkit("bench", words)
}

/// The program itself, as users get it, beside those of the test kit.
fn build_windrow() -> anyhow::Result<()> {
    let build = [
        "build",
        "--quiet",
        "--profile",
        "dist",
        "--package",
        "windrow-server",
        "--bin",
        "windrow",
    ];
    cargo::run(&mut cargo::cargo(&build))
}

fn build(program: &str) -> anyhow::Result<()> {
    let build = ["build", "--quiet", "--profile", "dist", "--package", "windrow-testkit", "--bin"];
    cargo::run(cargo::cargo(&build).arg(program))
}

const RUN: [&str; 6] = ["run", "--quiet", "--profile", "dist", "--package", "windrow-testkit"];

fn testkit(program: &str, words: Vec<OsString>) -> anyhow::Result<()> {
    cargo::run(cargo::cargo(&RUN).args(["--bin", program, "--"]).args(words))
}
