//! `windrow log`: the log of a data directory, without the store that it makes. Changes nothing.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use windrow_core::Timestamp;
use windrow_store::embedded::{LogRecord, visit_log};

use super::config::Source;
use super::counted;
use super::data_dir::{BACKUPS, not_opened, to_read};
use super::exit::Stop;
use super::place::{Place, by_default};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Print every record: where it lies, when it was written, its kind and its length.
    #[command(after_help = "\
Examples:
  windrow log dump /var/lib/windrow | tail
  windrow log dump /var/lib/windrow --since 2026-11-17T08:30:00Z | jq -r .record | sort | uniq -c
  windrow log dump /backups/windrow/0001

Of a damaged log, everything before the damage is printed. `windrow dump` prints items.")]
    Dump {
        #[command(flatten)]
        of: Of,
        /// Leave out what was written before.
        #[arg(long, value_name = "TIME")]
        since: Option<Timestamp>,
        /// Leave out what was written after.
        #[arg(long, value_name = "TIME")]
        until: Option<Timestamp>,
    },
    /// Verify every checksum of the log.
    #[command(after_help = "\
Examples:
  windrow log check /var/lib/windrow
  windrow log check /backups/windrow/0001

`windrow check` also opens the store and counts everything again.")]
    Check {
        #[command(flatten)]
        of: Of,
    },
}

#[derive(clap::Args, Debug)]
struct Of {
    /// A data directory that no server has open, or one of the directories of a backup; by default
    /// what `windrow serve` would use here.
    #[arg(value_name = "DIR", conflicts_with = "data_dir")]
    dir: Option<PathBuf>,
    /// The same.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (Command::Dump { of, .. } | Command::Check { of }) = &args.command;
    let dir = match of.dir.as_ref().or(of.data_dir.as_ref()) {
        Some(dir) => dir.clone(),
        None => match by_default(&of.source)? {
            Place::Directory(dir) => dir,
            Place::Database(_) => {
                let said = "a database has no log of ours; name a data directory";
                return Err(Stop::usage(said).into());
            }
        },
    };
    anyhow::ensure!(
        !dir.join(BACKUPS).exists(),
        "{0} is an archive of backups; give one of the directories in it, such as {0}/0001",
        dir.display()
    );
    match &args.command {
        Command::Dump { since, until, .. } => dump(&dir, *since, *until),
        Command::Check { .. } => check(&dir),
    }
}

fn dump(dir: &Path, since: Option<Timestamp>, until: Option<Timestamp>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut failed = None;
    let visited = visit_log(&to_read(dir)?, |record| {
        let LogRecord { at, group, time, kind, bytes } = record;
        let is_early = since.is_some_and(|since| time.is_none_or(|time| time < since));
        let is_late = until.is_some_and(|until| time.is_some_and(|time| time > until));
        if is_early || is_late || failed.is_some() {
            return;
        }
        let line = json!({
            "segment": at.segment(), "offset": at.offset(), "group": group,
            "at": time.map(|time| time.to_string()), "record": kind, "bytes": bytes,
        });
        failed = writeln!(out, "{line}").err();
    });
    failed.map_or(Ok(()), Err)?;
    out.flush()?;
    visited.map(|_| ()).map_err(|error| not_opened(dir, &error))
}

fn check(dir: &Path) -> anyhow::Result<()> {
    let (mut first, mut last) = (None, None);
    let visited = visit_log(&to_read(dir)?, |record| {
        first = first.or(record.time);
        last = record.time.or(last);
    });
    let checked = visited.map_err(|error| not_opened(dir, &error))?;
    let out = &mut std::io::stdout().lock();
    let segments = counted(u64::from(checked.segments), "segment");
    let (groups, records) = (counted(checked.groups, "group"), counted(checked.records, "record"));
    writeln!(out, "{segments}, {groups}, {records}: every checksum is right")?;
    if let (Some(first), Some(last)) = (first, last) {
        writeln!(out, "from {first} to {last}")?;
    }
    if let Some(at) = checked.torn_at {
        writeln!(out, "the last group is torn, {at}: opening will cut it")?;
    }
    Ok(())
}
