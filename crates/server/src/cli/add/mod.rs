//! `windrow add`: files become documents.
//!
//! They are sent over the API, so that it is all the same where the server is, and then followed
//! until search finds them or somebody knows why not.

pub(super) mod files;
mod follow;
mod send;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde::Serialize;

use super::exit::{Exit, Stop};
use super::place::Place;
use super::reach::{Reach, Target, Whom};
use super::serve::Signals;
use super::show::{Cell, Table, say};
use super::{counted, with_target};
use crate::bars::Bars;
use crate::sources::walk::id_of;
use files::{File, Meant, meant};
use follow::{Followed, Is, follow};
use send::Way;

pub(super) use follow::ended;

/// Files that are on their way at once.
const AT_ONCE: usize = 4;
/// Between two lines where there is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(30);
/// Letters of a reason that the table shows.
const REASON_MAX: usize = 100;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow add report.pdf
      Sends the file and follows it until it can be found, or says why it cannot be read.
  windrow add ~/papers --collection papers
      Everything in a folder, without what is hidden or empty. The same file again is no work; one
      that has changed is a new version of its document.
  windrow add scans --detach --server https://queue.example.com
      Only sends; the server does the rest.
  windrow add inbox --strict --json | jq -r 'select(.state == \"failed\") | .reason'

A file is known by where it is. Above 8 MiB it is sent in pieces, which go on where they were if the
connection breaks. Ctrl-C ends the command, and the server goes on. Ends with 7 if a file could not
be taken in, and with --strict also if one could not be read.")]
pub(super) struct Args {
    /// Files, and folders with all that is in them.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The collection they belong to; `default` if nothing is said.
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
    /// Whose they are; by default your own tenant's.
    #[arg(long)]
    tenant: Option<String>,
    /// Do everything again, also what has not changed.
    #[arg(long)]
    again: bool,
    /// Do not wait until they can be found.
    #[arg(long)]
    detach: bool,
    /// End with 7 also if a file was taken in and cannot be read.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let Meant { files, left_out, problems } = meant(&args.paths, &own(args)?)?;
    if !left_out.is_empty() {
        let each = left_out.iter().map(|(why, count)| format!("{count} {why}"));
        say(&format!("left out: {}", each.collect::<Vec<_>>().join(", ")));
    }
    for (path, why) in &problems {
        say(&format!("{path} {why}"));
    }
    if files.is_empty() {
        say("there is no file to add");
        return if problems.is_empty() { Ok(()) } else { Err(Stop::silent(Exit::Partly).into()) };
    }
    with_target(&args.reach, async |target| {
        let all = sent_and_followed(args, target, files).await?;
        show(&all, args.reach.json)?;
        let is_refused = |one: &Followed| matches!(one.is, Is::Refused(_));
        let has_failed = |one: &Followed| matches!(one.is, Is::Failed(_) | Is::Gone(_));
        let is_bad = !problems.is_empty() || all.iter().any(is_refused);
        if is_bad || args.strict && all.iter().any(has_failed) {
            return Err(Stop::silent(Exit::Partly).into());
        }
        Ok(())
    })
}

/// The folder of the store, which is not added to itself.
fn own(args: &Args) -> anyhow::Result<Vec<(u64, u64)>> {
    Ok(match args.reach.whom()? {
        Whom::Store(_, Place::Directory(dir)) => id_of(&dir).into_iter().collect(),
        Whom::Store(..) | Whom::Server(..) => Vec::new(),
    })
}

async fn sent_and_followed(
    args: &Args,
    target: &Target,
    files: Vec<File>,
) -> anyhow::Result<Vec<Followed>> {
    let mut signals = Signals::new()?;
    let mut bars = Bars::new(&["sent"], TOLD_EVERY);
    let mut all = Vec::new();
    let is_stopped = tokio::select! {
        sent = send_all(args, target, files, &mut all, &mut bars) => sent.map(|()| false)?,
        () = signals.next() => true,
    };
    if is_stopped {
        bars.clear();
        say(&format!(
            "stopped: {} sent, and the server goes on",
            counted(all.len() as u64, "file")
        ));
        return Ok(all);
    }
    if args.detach || target.is_alone() {
        bars.clear();
        if target.is_alone() {
            say(
                "no server uses this data directory; `windrow serve` or `windrow up` does the work",
            );
        }
        return Ok(all);
    }
    let is_stopped = tokio::select! {
        followed = follow(target, &mut all, &mut bars) => followed.map(|()| false)?,
        () = signals.next() => true,
    };
    bars.clear();
    if is_stopped {
        say("stopped following; the server goes on with what waits");
    }
    Ok(all)
}

/// Sends files, some at once, and notes what became of each in their order.
async fn send_all(
    args: &Args,
    target: &Target,
    files: Vec<File>,
    all: &mut Vec<Followed>,
    bars: &mut Bars,
) -> Result<(), Stop> {
    let (collection, tenant) = (args.collection.clone(), args.tenant.clone());
    let way = &Way { collection, tenant, again: args.again };
    let total = files.len() as u64;
    let sending = files.into_iter().map(|file| async move {
        let sent = way.send(target, &file).await;
        (file, sent)
    });
    let mut sending = futures_util::stream::iter(sending).buffered(AT_ONCE);
    bars.set("sent", 0, total);
    while let Some((file, sent)) = sending.next().await {
        let (id, is) = match sent {
            Ok(added) => (Some(added.id), Is::Waiting(added.outcome)),
            // The next file would fare no better.
            Err(stop) if matches!(stop.exit, Exit::Denied | Exit::Unreachable) => return Err(stop),
            Err(stop) => (None, Is::Refused(stop.message)),
        };
        all.push(Followed { file, id, pages: None, is });
        bars.set("sent", all.len() as u64, total);
        bars.tell();
    }
    Ok(())
}

/// What became of a file, as JSON.
#[derive(Serialize)]
struct Line<'a> {
    path: &'a str,
    document: Option<&'a str>,
    state: &'a str,
    pages: Option<u32>,
    reason: Option<&'a str>,
}

/// Says what became of each, and of all.
fn show(all: &[Followed], json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let mut table = Table::new(&["DOCUMENT", "STATE", "PAGES", "FILE", "REASON"]);
    let mut counts = BTreeMap::<&str, u64>::new();
    for Followed { file, id, pages, is } in all {
        let state = is.word();
        *counts.entry(state).or_default() += 1;
        let (id, reason) = (id.as_deref(), is.reason());
        if json {
            let line = Line { path: &file.path, document: id, state, pages: *pages, reason };
            writeln!(out, "{}", serde_json::to_string(&line)?)?;
            continue;
        }
        table.row([
            id.unwrap_or_default().into(),
            Cell::status(state),
            pages.map(|pages| pages.to_string()).unwrap_or_default().into(),
            file.shown.as_str().into(),
            super::show::short(reason.unwrap_or_default(), REASON_MAX).into(),
        ]);
    }
    if !json && !table.is_empty() {
        table.print(&mut out)?;
        let each = counts.iter().map(|(state, count)| format!("{count} {state}"));
        let each = each.collect::<Vec<_>>().join(", ");
        say(&format!("{}: {each}", counted(counts.values().sum(), "file")));
    }
    Ok(())
}
