//! One suite over all stores of vectors, and what is special to each.
//!
//! Every case gets an empty store of its own: memory, a database of one server that all cases
//! share, or collections of their own in a Qdrant that somebody runs.

// Every function here is a test, which clippy does not see without the harness.
#![allow(clippy::print_stderr, clippy::unwrap_used)]

mod bases;
mod bed;
mod pgvector;
mod qdrant;
mod scripted;
mod suite;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::bases::{Base, Memory, Running, Server, runtime};
use crate::bed::{Bed, Case};

fn main() -> ExitCode {
    let server = Arc::new(Server::default());
    let mut trials: Vec<Trial> = Vec::new();
    for case in suite::cases().into_iter().chain(suite::transactional()) {
        trials.push(trial("built_in", &case, || Ok(Arc::new(Memory::default()))));
        let server = Arc::clone(&server);
        trials.push(trial("pgvector", &case, move || Ok(Arc::new(server.database()?))));
    }
    trials.extend(pgvector::trials(&server));
    trials.extend(qdrant::trials());
    match Running::named() {
        Some(running) => {
            let running = Arc::new(running);
            for case in suite::cases() {
                let running = Arc::clone(&running);
                trials.push(trial("qdrant", &case, move || Ok(Arc::new(running.collections()))));
            }
        }
        None => eprintln!("** SKIPPED: the suite on a real Qdrant; {}", Running::MISSING),
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(
    base: &str,
    case: &Case,
    open: impl FnOnce() -> anyhow::Result<Arc<dyn Base>> + Send + 'static,
) -> Trial {
    let run = case.run;
    Trial::test(format!("{base}::{}", case.name), move || {
        finished(|| {
            let base = open()?;
            runtime().block_on(async {
                let store = base.open().await?;
                run(&Bed { store, base }).await;
                Ok(())
            })
        })
    })
}

fn finished(test: impl FnOnce() -> anyhow::Result<()>) -> Result<(), Failed> {
    test().map_err(|error| Failed::from(format!("{error:?}")))
}
