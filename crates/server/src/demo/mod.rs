//! `windrow demo`: a small world that loses a worker and then its whole process, and nothing else.
//!
//! The parent process watches and keeps a ledger of every acknowledgement; a child process runs
//! the queue and its workers. Half way one worker dies with work in its hands; later the child is
//! killed and started again on the same data directory. At the end the parent compares its ledger
//! with what the store says.

mod audit;
mod bars;
mod child;
mod parent;
mod world;

use std::path::PathBuf;

/// What the demo is to do.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// How many documents to ingest.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    documents: u32,
    /// How many workers share the work.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..=64))]
    workers: u32,
    /// Keep the queue here instead of in a temporary directory, to look at it afterwards.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Seed of the random choices: which worker dies, when the process is killed.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Run the queue and its workers, for a parent that watches.
    #[arg(long, hide = true)]
    child: bool,
    /// Let one of the child's workers die.
    #[arg(long, hide = true)]
    doom: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if args.child {
        runtime.block_on(child::run(args))
    } else {
        runtime.block_on(parent::run(args))
    }
}
