//! Graphs: a real graph database, peers that are none, and the catalog.
//!
//! Cases share one server, each with a tenant of its own. The one that kills its server has one for
//! itself.

// Every function here is a test, which clippy does not see without the harness.
#![allow(clippy::unwrap_used)]

mod bed;
mod catalog;
mod killed;
mod real;
mod scripted;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;
use windrow_testkit::servers::ArcadeDb;

use crate::bed::Bed;

fn main() -> ExitCode {
    let shared: Arc<OnceLock<Result<ArcadeDb, String>>> = Arc::default();
    let mut trials = Vec::new();
    for (name, case) in real::cases() {
        let shared = Arc::clone(&shared);
        trials.push(Trial::test(format!("arcadedb::{name}"), move || {
            let start = || ArcadeDb::start().map_err(|error| format!("{error:?}"));
            let server = shared.get_or_init(start).as_ref().map_err(Failed::from)?;
            Runtime::new()?.block_on(case(&Bed { server, tenant: name }));
            Ok(())
        }));
    }
    let others = scripted::cases().into_iter().chain(catalog::cases()).chain(killed::cases());
    for (name, case) in others {
        trials.push(Trial::test(name, move || {
            Runtime::new()?.block_on(case());
            Ok(())
        }));
    }
    let exit = libtest_mimic::run(&Arguments::from_args(), trials).exit_code();
    drop(shared);
    exit
}
