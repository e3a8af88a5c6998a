//! `windrow demo`: a small world that loses a worker and then its whole process, and nothing else.
//!
//! The parent process watches and keeps a ledger of every acknowledgement; a child process runs
//! the queue and its workers. Half way one worker dies with work in its hands; later the child is
//! killed and started again on the same data directory. At the end the parent compares its ledger
//! with what the store says.

mod audit;
mod child;
mod parent;
mod world;

use std::path::PathBuf;

/// What the demo is to do.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How many documents to ingest.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    documents: u32,
    /// How many workers share the work.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..=64))]
    workers: u32,
    /// Keep the queue in this empty directory instead of a temporary one, to look at it afterwards.
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    data_dir: Option<PathBuf>,
    /// Keep the queue in this database, which must hold no items yet, such as
    /// postgres://user@host/database. It stays there.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Shifts the two moments: when a worker dies, and when the process is killed.
    #[arg(long, default_value_t = 7)]
    seed: u64,
}

const EXAMPLES: &str = "\
Examples:
  windrow demo
  windrow demo --documents 100 --data-dir /tmp/demo
  windrow demo --store postgres://windrow@db.example/demo";

/// Set for the process that runs the queue and its workers, to what becomes of it. No flag, because
/// it is nothing for people to set.
const CHILD: &str = "WINDROW_DEMO_CHILD";
/// One of the child's workers is to die.
const DOOMED: &str = "doomed";
/// Nobody is to die.
const SPARED: &str = "spared";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match std::env::var(CHILD) {
        Ok(fate) => runtime.block_on(child::run(args, fate == DOOMED)),
        Err(_) => runtime.block_on(parent::run(args)),
    }
}
