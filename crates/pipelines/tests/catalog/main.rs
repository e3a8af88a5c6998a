//! One suite over both catalogs, and what is special to each.
//!
//! Every case gets an empty catalog of its own: a file, or a database of one server that all cases
//! share.

// Every function here is a test, which clippy does not see without the harness.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod bases;
mod bed;
mod copied;
mod crash;
mod full;
mod moved;
mod suite;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::bases::{Base, Server, SqliteBase};
use crate::bed::{Bed, Case};

fn main() -> ExitCode {
    if let Some(file) = std::env::var_os(crash::CHILD) {
        crash::child(file.as_ref());
        return ExitCode::FAILURE;
    }
    if let Some(file) = std::env::var_os(full::CHILD) {
        full::child(file.as_ref());
        return ExitCode::SUCCESS;
    }
    let server = Arc::new(Server::default());
    let mut trials: Vec<Trial> = Vec::new();
    for case in suite::cases() {
        trials.push(trial("sqlite", &case, |name| Ok(SqliteBase::shared(name))));
        let server = Arc::clone(&server);
        trials.push(trial("postgres", &case, move |_| server.database()));
    }
    trials.push(Trial::test("both::one_collection_has_one_fingerprint_in_both", {
        let server = Arc::clone(&server);
        move || {
            finished(|| {
                suite::fingerprint::is_the_same(SqliteBase::shared("both"), server.database()?)
            })
        }
    }));
    trials.push(Trial::test("sqlite::what_was_answered_survives_a_kill", || {
        finished(crash::what_was_answered_survives_a_kill)
    }));
    trials.push(Trial::test("sqlite::after_a_refused_commit_nothing_is_written", || {
        finished(full::after_a_refused_commit_nothing_is_written)
    }));
    trials.extend(copied::trials());
    trials.extend(moved::trials(&server));
    trials.extend(bases::trials(&server));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(
    base: &str,
    case: &Case,
    open: impl FnOnce(&str) -> anyhow::Result<Arc<dyn Base>> + Send + 'static,
) -> Trial {
    let (name, run) = (case.name.clone(), case.run);
    Trial::test(format!("{base}::{name}"), move || {
        finished(|| {
            let bed = Bed::new(open(&name)?)?;
            bed.base.runtime().block_on(run(&bed));
            Ok(())
        })
    })
}

fn finished(test: impl FnOnce() -> anyhow::Result<()>) -> Result<(), Failed> {
    test().map_err(|error| Failed::from(format!("{error:?}")))
}
