//! The long proofs and the bench: programs of `windrow-testkit`, built as users get Windrow.
//!
//! They live there because they need the queue; xtask stays small and builds in seconds.

use std::ffi::OsString;

use crate::{Verb, cargo};

pub(crate) const CRASH: Verb = Verb {
    name: "crash",
    summary: "kill -9 and power-cut cycles with a ledger of acknowledgements",
    help: None,
    run: |words| testkit("crash", words),
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
    summary: "measures Windrow beside the limit of the machine",
    help: None,
    run: |words| {
        // The bench runs the limit as a program of its own, which lies beside it.
        build("limit")?;
        testkit("bench", words)
    },
};

fn build(program: &str) -> anyhow::Result<()> {
    let build = ["build", "--quiet", "--release", "--package", "windrow-testkit", "--bin"];
    cargo::run(cargo::cargo(&build).arg(program))
}

const RUN: [&str; 5] = ["run", "--quiet", "--release", "--package", "windrow-testkit"];

fn testkit(program: &str, words: Vec<OsString>) -> anyhow::Result<()> {
    cargo::run(cargo::cargo(&RUN).args(["--bin", program, "--"]).args(words))
}
