//! The command line.
//!
//! `serve`, `up` and what looks into a store (`dump`, `check`, `migrate`, `move`, `import`) stand
//! alone. All other commands ask a queue, wherever it is: [`reach`] finds it, [`show`] prints what
//! it says, and [`exit`] has the codes with which they end.

mod add;
mod backup;
mod blobs;
mod change;
mod check;
pub(crate) mod complete;
mod config;
pub(crate) mod data_dir;
#[cfg(test)]
mod docs;
mod doctor;
mod documents;
mod drain;
mod dump;
mod enqueue;
mod exit;
mod import;
mod items;
mod lease;
mod log;
mod man;
mod meant;
mod migrate;
mod moving;
pub(crate) mod place;
mod queues;
mod reach;
mod schedule;
mod search;
mod serve;
pub(crate) mod shell;
pub(crate) mod show;
mod sources;
mod stages;
mod token;
mod top;
mod up;
mod watch;
mod work;
mod worker;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use windrow_wire::filter;

pub(crate) use exit::{Exit, Stop};
use reach::{Reach, Target};

use crate::demo;

/// A durable ingestion queue: every file, page, chunk, mail and row is an item that is leased,
/// retried, rolled up, explained and never lost.
#[derive(Parser, Debug)]
#[command(
    name = "windrow",
    version,
    arg_required_else_help = true,
    after_help = "\
Begin:
  windrow up ~/papers
  windrow search 'what you look for'

Or with work of your own:
  windrow serve
  windrow enqueue thumbs '{\"file\": \"cat.jpg\"}'
  windrow work --queue thumbs -- ./make-thumb.sh
  windrow list status:failed

Commands find the queue that `windrow serve` would use here, whether its server runs or not;
--server or --data-dir name another. Data goes to standard output, words to standard error. Exit
codes: 0 done, 1 failed, 2 wrong command line, 3 not found, 4 denied, 5 unreachable, 6 nothing to
claim, 7 some refused, 8 lease lost."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run the queue as a server that any program can use over HTTP or RPC.
    Serve(serve::Args),
    /// Serve the queue, read what is in some folders, and watch them.
    Up(up::Args),
    /// Take files in as documents, and follow them until they can be found.
    Add(add::Args),
    /// Find passages of documents, by words and by meaning.
    Search(search::Args),
    /// Look at documents page by page, do them again, or let them go.
    Documents(Box<documents::Args>),
    /// List the folders that are watched, watch one, or no more.
    Sources(sources::Args),
    /// Put an item into a queue, or a stream of them.
    Enqueue(Box<enqueue::Args>),
    /// Run a command for every item of a queue.
    Work(Box<work::Args>),
    /// Do a server's work here: stages of documents, and what a configuration declares.
    Worker(Box<worker::Args>),
    /// Take items, with a lease on them.
    Claim(lease::Claim),
    /// Get more time for a lease.
    Renew(lease::Renew),
    /// Say how the work on an item ended.
    Settle(Box<lease::Settle>),
    /// List items.
    List(items::List),
    /// Show everything about items.
    Show(items::Show),
    /// Say why items are where they are, and what would move them on.
    Explain(items::Explain),
    /// Show an item with everything that it split into.
    Tree(items::Tree),
    /// Show the life of an item, or follow what happens.
    Events(watch::Events),
    /// Run ended items again, or at once what waits for its time.
    Retry(change::Retry),
    /// End items that have not ended.
    Cancel(change::Cancel),
    /// Remove ended items for good.
    Delete(change::Delete),
    /// Give items another priority.
    Prioritise(change::Prioritise),
    /// List the queues.
    Queues(queues::Queues),
    /// Count items by status.
    Stats(queues::Stats),
    /// Show how a queue behaves, or change it.
    Settings(queues::Settings),
    /// Hold back what waits in a queue.
    Pause(queues::Pause),
    /// Hand it out again.
    Resume(queues::Resume),
    /// List the workers that are present.
    Workers(watch::Workers),
    /// Hand a worker nothing new, or work again.
    Drain(drain::Args),
    /// Enqueue items by the clock.
    Schedule(schedule::Args),
    /// Show items in the shapes of other systems.
    View(watch::View),
    /// Watch queues, stages, workers and failures live; explain, retry and pause from there.
    Top(top::Args),
    /// Say whether work gets done, and what to do if not.
    Health(watch::Health),
    /// Look for whatever could be in the way, and say what to do.
    Doctor(doctor::Args),
    /// Remove what is past its keeping, now.
    Sweep(watch::Sweep),
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
    /// Copy a store while it is used, so that it can be restored.
    Backup(backup::Backup),
    /// Make a store of a backup, as it was then or at a moment before.
    Restore(backup::Restore),
    /// Look into the log of a data directory.
    Log(log::Args),
    /// Make the schema of a database, bring it up to date, or look how far it is.
    Migrate(migrate::Args),
    /// Take over what another system holds: documents, or what waits in a queue.
    Import(import::Args),
    /// Move a store from a data directory into a database, or back.
    Move(moving::Args),
    /// Print what a shell needs to complete commands, ids and queues.
    Completions(complete::Args),
    /// Print the manual, or write its pages.
    Man(man::Args),
}

pub(crate) fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Up(args) => up::run(&args),
        Command::Add(args) => add::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Documents(args) => documents::run(&args),
        Command::Sources(args) => sources::run(&args),
        Command::Enqueue(args) => enqueue::run(&args),
        Command::Work(args) => work::run(&args),
        Command::Worker(args) => worker::run(&args),
        Command::Claim(args) => lease::claim(&args),
        Command::Renew(args) => lease::renew(&args),
        Command::Settle(args) => lease::settle(&args),
        Command::List(args) => items::list(&args),
        Command::Show(args) => items::show(&args),
        Command::Explain(args) => items::explain(&args),
        Command::Tree(args) => items::tree(&args),
        Command::Events(args) => watch::events(&args),
        Command::Retry(args) => change::retry(&args),
        Command::Cancel(args) => change::cancel(&args),
        Command::Delete(args) => change::delete(&args),
        Command::Prioritise(args) => change::prioritise(&args),
        Command::Queues(args) => queues::queues(&args),
        Command::Stats(args) => queues::stats(&args),
        Command::Settings(args) => queues::settings(&args),
        Command::Pause(args) => queues::pause(&args),
        Command::Resume(args) => queues::resume(&args),
        Command::Workers(args) => watch::workers(&args),
        Command::Drain(args) => drain::run(&args),
        Command::Schedule(args) => schedule::run(&args),
        Command::View(args) => watch::view(&args),
        Command::Top(args) => top::run(&args),
        Command::Health(args) => watch::health(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Sweep(args) => watch::sweep(&args),
        Command::Token(args) => token::run(args),
        Command::Config(args) => config::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Log(args) => log::run(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Move(args) => moving::run(&args),
        Command::Completions(args) => complete::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// What is wrong with a command line, with what is meant where a queue stands by itself, or where a
/// word of a filter was taken for a flag.
pub(crate) fn explained(mut wrong: clap::Error) -> clap::Error {
    let Some(ContextValue::String(word)) = wrong.get(ContextKind::InvalidArg) else { return wrong };
    let said: Vec<_> = std::env::args_os().skip(1).collect();
    let verb = said.first().and_then(|verb| verb.to_str()).unwrap_or_default();
    let tip = match word.strip_prefix("--") {
        _ if wrong.kind() != ErrorKind::UnknownArgument => None,
        Some(flag) => narrowing(verb, flag, &said),
        None => standing_alone(verb, word, &said),
    };
    if let Some(tip) = tip {
        // What only looks like it is no help beside that.
        wrong.remove(ContextKind::SuggestedArg);
        wrong.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    wrong
}

/// What is meant by a word that is neither a flag nor a flag's value.
fn standing_alone(verb: &str, word: &str, said: &[OsString]) -> Option<String> {
    let queue = word.strip_prefix("queue:").unwrap_or(word);
    Some(match verb {
        _ if word.starts_with('-') => return None,
        "work" if said.iter().any(is_queue_flag) || work::is_there(word) => {
            format!("the command comes after '--': 'windrow work --queue NAME -- {word}'")
        }
        "work" | "stats" => format!("a queue is named with '--queue {queue}'"),
        "queues" => format!("'windrow stats --queue {queue}' counts the items of one queue"),
        _ => return None,
    })
}

/// What is meant by a flag that is a word of a filter elsewhere.
fn narrowing(verb: &str, flag: &str, said: &[OsString]) -> Option<String> {
    const FILTERED: [&str; 5] = ["list", "retry", "cancel", "delete", "prioritise"];
    let (key, _) = filter::KEYS.iter().find(|(key, _)| *key == flag && *key != "q")?;
    let mut words = said.iter().map(|word| word.to_string_lossy());
    let at =
        words.position(|word| word.strip_prefix("--").is_some_and(|it| it.starts_with(flag)))?;
    let value = match said[at].to_string_lossy().split_once('=') {
        Some((_, value)) => value.to_owned(),
        None => words.next().map_or("…".to_owned(), |value| value.into_owned()),
    };
    FILTERED.contains(&verb).then(|| format!("a filter is written as words: '{key}:{value}'"))
}

/// Whether a word of the command line names a queue.
fn is_queue_flag(word: &OsString) -> bool {
    word.to_str().is_some_and(|word| word == "--queue" || word.starts_with("--queue="))
}

/// A number of things, in words: `1 segment`, `2 segments`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Where connections live while a command runs.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// Does something with a queue, which must be there, and lets it go in good order.
fn with_target(
    reach: &Reach,
    command: impl AsyncFnOnce(&Target) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    with_target_or_new(reach, false, command)
}

/// The same; a data directory without a store may become one.
fn with_target_or_new(
    reach: &Reach,
    create: bool,
    command: impl AsyncFnOnce(&Target) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let target = if create { reach.target_or_new().await? } else { reach.target().await? };
        let done = command(&target).await;
        target.close().await;
        done
    })
}
