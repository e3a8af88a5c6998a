//! The command line.

mod check;
pub(crate) mod data_dir;
mod dump;

use clap::{Parser, Subcommand};

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
    /// Print what a data directory holds, as JSON lines, and change nothing in it. No server may
    /// have it open.
    Dump(dump::Args),
    /// Verify every checksum and every count of a data directory, and change nothing in it. No
    /// server may have it open.
    Check(check::Args),
}

pub(crate) fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Check(args) => check::run(&args),
    }
}

/// A number of things, in words: `1 segment`, `2 segments`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
