//! `windrow backup`: a copy of an embedded store, made while it is used; `windrow restore`: a store
//! made of it again, as it was then or at some moment before.
//!
//! [`archive`] is the directory in which backups gather, [`copy`] fills it from a server or a data
//! directory, [`restore`] makes a data directory of it, [`catalog`] takes the catalog up again, and
//! [`lost`] knows what no backup has.

mod archive;
mod catalog;
mod copy;
mod lost;
mod restore;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use windrow_core::Timestamp;

use super::data_dir::holds_a_store;
use super::exit::Stop;
use super::reach::Reach;
use super::show::{Table, duration_ms};
use super::{counted, runtime, with_target};

use archive::Archive;
use lost::named;
use restore::Wanted;

/// What is in no backup, however many there are.
const BUT: &str =
    ", but for payloads above 16 KiB that were enqueued and deleted between two backups";

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow backup /backups/windrow
      Everything that was answered before this began is in it. Workers go on meanwhile.
  windrow backup /backups/windrow
      The same directory again: only what is new is copied, and every moment in between can be
      restored too.
  windrow backup /backups/far --server https://queue.example --token-file admin.token
  windrow restore /backups/windrow --list

A backup holds everything: payloads, blobs, settings, schedules, hashes of tokens, documents with
all that was made of them. Keep it as you keep the data directory. A database is backed up with its
own tools.")]
pub(super) struct Backup {
    /// A directory for backups of this store; a new one, or one with earlier backups.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn backup(args: &Backup) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        must_be_elsewhere(&args.directory)?;
        let mut archive = Archive::open_or_new(&args.directory)?;
        let made = match copy::copy(target, &mut archive).await {
            Ok(made) => made,
            Err(error) => {
                archive.leave_if_new();
                return Err(error);
            }
        };
        let out = &mut std::io::stdout().lock();
        if args.reach.json {
            let copy::Made { at, files, bytes, copied, is_new, since } = made;
            let (directory, at) = (args.directory.display().to_string(), at.to_string());
            let line = json!({
                "directory": directory, "at": at, "since": since.to_string(), "files": files,
                "bytes": bytes, "copied_bytes": copied, "begins_anew": is_new,
            });
            writeln!(out, "{line}")?;
            return Ok(());
        }
        let (files, copied) = (counted(made.files, "file"), size(made.copied));
        writeln!(out, "{}: {files}, {}, of which {copied} were copied", made.at, size(made.bytes))?;
        writeln!(out, "every moment since {} can be restored{BUT}", made.since)?;
        Ok(())
    })
}

/// Refuses a place that goes when the store goes: the directory of a store, or one in it.
fn must_be_elsewhere(directory: &Path) -> anyhow::Result<()> {
    let whole = std::path::absolute(directory).map_err(at(directory))?;
    // What does not exist yet has a parent that does.
    let there = whole.ancestors().find_map(|above| above.canonicalize().ok());
    for above in there.iter().flat_map(|there| there.ancestors()) {
        // What cannot be looked into is nothing that this user has a store in.
        if holds_a_store(above).unwrap_or(false) {
            let said = format!(
                "{} lies in {}, which holds a store: what takes one away takes the other too. Give \
                 a directory elsewhere, on another disk at best",
                directory.display(),
                above.display()
            );
            return Err(Stop::usage(said).into());
        }
    }
    Ok(())
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow restore /backups/windrow --list
  windrow restore /backups/windrow --data-dir /var/lib/windrow-restored
  windrow restore /backups/windrow --data-dir /tmp/before --at 2026-11-17T08:30:00Z
  windrow restore /backups/windrow --data-dir /tmp/before --at 2h
      As it was two hours ago, to the second.

What was restored is checked before it counts: every checksum, every count, every blob. Documents
are as the first backup at that moment or after it has them. Leases of the moment run out as they do
after any restart. Stop the server of the old directory before you start one on the new, or both
hand out the same items.")]
pub(super) struct Restore {
    /// The directory with the backups.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Where the store is to be: a directory that is empty or does not exist yet.
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    data_dir: Option<PathBuf>,
    /// The moment to go back to: a time, or how long ago. The last one if it is not given.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<Timestamp>,
    /// Restore also if no backup has the payloads of some items, which are named: what is above
    /// 16 KiB and was enqueued and deleted between two backups.
    #[arg(long)]
    without_lost_blobs: bool,
    /// Show which moments there are, and restore nothing.
    #[arg(long, conflicts_with_all = ["data_dir", "at", "without_lost_blobs"])]
    list: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A time, or how long ago.
fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let ago = duration_ms(text)
        .map_err(|_| "write a time such as 2026-11-17T08:30:00Z, or how long ago, such as 2h")?;
    let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
    Ok(Timestamp(now.saturating_sub(ago)))
}

pub(super) fn restore(args: &Restore) -> anyhow::Result<()> {
    let archive = Archive::open(&args.backup)?;
    let Some(to) = &args.data_dir else { return list(&archive, args.json) };
    let wanted = Wanted { at: args.at, without_lost_blobs: args.without_lost_blobs };
    let restored = runtime()?.block_on(restore::restore(&archive, to, wanted))?;
    let out = &mut std::io::stdout().lock();
    let restore::Restored { at, live, ended, blobs, without_payload, catalog } = restored;
    if args.json {
        let directory = to.display().to_string();
        let mut line = json!({
            "directory": directory, "at": at.to_string(), "live": live, "ended": ended,
            "blobs": blobs,
        });
        if !without_payload.is_empty() {
            let items = without_payload.iter().map(ToString::to_string);
            line["without_payload"] = items.collect::<Vec<_>>().into();
        }
        if let Some(catalog) = catalog {
            line["documents"] = json!(catalog.documents);
            line["documents_at"] = json!(catalog.at.to_string());
            line["files_missing"] = json!(catalog.missing);
        }
        writeln!(out, "{line}")?;
        return Ok(());
    }
    let (live, blobs) = (counted(live, "live item"), counted(blobs, "blob"));
    writeln!(out, "{}: as it was at {at}", to.display())?;
    writeln!(out, "{live}, {ended} ended, {blobs}: every checksum is right")?;
    if !without_payload.is_empty() {
        let items = counted(without_payload.len() as u64, "item");
        writeln!(out, "{items} without the payload, which is lost: {}", named(&without_payload))?;
    }
    if let Some(catalog) = catalog {
        let documents = counted(catalog.documents, "document");
        writeln!(out, "{documents}, as the catalog had them at {}", catalog.at)?;
        if catalog.missing > 0 {
            let files = counted(catalog.missing, "file");
            writeln!(out, "{files} of them had been lost before, and cannot be read again")?;
        }
    }
    writeln!(out, "start it with `windrow serve --data-dir {}`", to.display())?;
    Ok(())
}

fn list(archive: &Archive, as_json: bool) -> anyhow::Result<()> {
    let out = &mut std::io::stdout().lock();
    let mut table = Table::new(&["BACKUP", "OF", "EVERY MOMENT SINCE"]);
    for chain in archive.chains() {
        // Of a chain that is damaged it is not known; whoever restores it is told what is wrong.
        let since = restore::earliest(archive, chain).ok().map(|since| since.to_string());
        for point in &chain.points {
            if as_json {
                let line = json!({ "backup": chain.name, "at": point.at, "since": since });
                writeln!(out, "{line}")?;
            } else {
                let since = since.clone().unwrap_or_default();
                table.row([chain.name.clone().into(), point.at.clone().into(), since.into()]);
            }
        }
    }
    if !as_json {
        table.print(out)?;
        writeln!(out, "every moment since then{BUT}")?;
    }
    Ok(())
}

/// Bytes as people say them.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["bytes", "KiB", "MiB", "GiB"];
    let unit = (bytes.max(1).ilog2() / 10).min(3);
    match unit {
        0 => format!("{bytes} bytes"),
        _ => format!("{:.1} {}", bytes as f64 / f64::from(1 << (10 * unit)), UNITS[unit as usize]),
    }
}

/// Progress in bytes, on a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new(what: &'static str, bytes: u64) -> Bar {
        let style =
            ProgressStyle::with_template("  {prefix:<9} {bar:36} {bytes:>10} of {total_bytes}")
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("━╸─");
        Bar(ProgressBar::new(bytes).with_style(style).with_prefix(what))
    }

    fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// What the system says about a path, with the path.
fn at(path: &Path) -> impl FnOnce(std::io::Error) -> anyhow::Error {
    move |error| anyhow::anyhow!("{}: {error}", path.display())
}
