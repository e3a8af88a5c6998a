//! The command line.

mod check;
mod dump;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::{Parser, Subcommand};
use windrow_store::embedded::disk::{Disk, RealDisk};

use crate::demo;

/// A durable ingestion queue: every file, page, chunk, mail and row is an item that is leased,
/// retried, rolled up, explained and never lost.
#[derive(Parser, Debug)]
#[command(name = "windrow", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Watch it work: documents become pages become chunks, a worker dies, the process is killed
    /// and started again, and nothing is lost.
    Demo(demo::Args),
    /// Print what a data directory holds, as JSON lines. No server may have it open.
    Dump(dump::Args),
    /// Verify every checksum and every count of a data directory. No server may have it open.
    Check(check::Args),
}

pub(crate) fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Check(args) => check::run(&args),
    }
}

/// A data directory that must exist already.
fn existing(path: &Path) -> anyhow::Result<Arc<dyn Disk>> {
    anyhow::ensure!(
        path.is_dir(),
        "{} is not a directory; give the data directory of a store",
        path.display()
    );
    let disk = RealDisk::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Arc::new(disk))
}

/// Where a store keeps its files.
#[derive(clap::Args, Debug)]
struct DataDir {
    /// The directory that holds the store's files.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}
