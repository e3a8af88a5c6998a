//! The command line.

mod ask;
mod blobs;
mod check;
mod config;
pub(crate) mod data_dir;
mod dump;
mod import;
mod migrate;
mod moving;
pub(crate) mod place;
mod serve;
mod token;

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
    /// Run the queue as a server that any program can use over HTTP or RPC.
    Serve(serve::Args),
    /// Give tokens to programs and people, list them, and take them back.
    Token(token::Args),
    /// Show how a server would be configured.
    Config(config::Args),
    /// Watch it work: documents become pages become chunks, a worker dies, the process is killed
    /// and started again, and nothing is lost.
    Demo(demo::Args),
    /// Print what a store holds, as JSON lines, and change nothing in it. No server may have a data
    /// directory open.
    Dump(dump::Args),
    /// Verify every checksum and every count of a store, and change nothing in it. No server may be
    /// at it.
    Check(check::Args),
    /// Make the schema of a database, bring it up to date, or look how far it is.
    Migrate(migrate::Args),
    /// Take over what waits in another queue.
    Import(import::Args),
    /// Move a store from a data directory into a database, or back.
    Move(moving::Args),
}

pub(crate) fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Token(args) => token::run(args),
        Command::Config(args) => config::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Move(args) => moving::run(&args),
    }
}

/// A number of things, in words: `1 segment`, `2 segments`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Where connections live while a command runs.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}
