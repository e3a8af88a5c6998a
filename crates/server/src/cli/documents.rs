//! `windrow documents`: what was taken in, page by page, and what to do about it.

use std::io::Write;

use serde_json::Value;
use serde_json::value::RawValue;

use super::exit::{Exit, Stop};
use super::reach::{Ask, Reach, Target};
use super::show::{
    Cell, Table, Told, age, at_least_one, moment, plain, read, say, short, span, text,
};
use super::with_target;

/// Most that the API puts on a page: of documents, and of lines of a manifest.
const PAGE_MAX: usize = 200;
const LINES_MAX: &str = "200";
/// Letters of a reason that a table shows.
const REASON_MAX: usize = 80;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow documents list --state failed
  windrow documents show 01a1e554-9c99-4001-b210-29840971dd42
      What it is, how far it is, and what of it failed.
  windrow documents page 01a1e554-9c99-4001-b210-29840971dd42 3
      The Markdown of a page.
  windrow documents recover 01a1e554-9c99-4001-b210-29840971dd42
      Do again what failed of it, and nothing else.")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Documents, the latest first.
    List(List),
    /// Everything about documents: what they are, how far they are, and what of them failed.
    Show(Named),
    /// A page: its Markdown, or its chunks.
    Page(Page),
    /// What came of every page.
    Manifest(Manifest),
    /// Do again what failed of documents, and nothing else.
    Recover(Named),
    /// Do documents again from their files, as new versions; what was paid for is remembered.
    Reindex(Named),
    /// Let documents go, from everywhere.
    Delete(Named),
    /// How many pages and chunks stand where.
    Stats(Stats),
}

#[derive(clap::Args, Debug)]
struct List {
    /// Only those: building, live, updating, failed or deleting.
    #[arg(long)]
    state: Option<String>,
    /// Only those of this collection.
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
    /// Only those with this in their name, in any case.
    #[arg(long)]
    name: Option<String>,
    /// Whose; by default your own tenant's.
    #[arg(long)]
    tenant: Option<String>,
    /// How many at most.
    #[arg(long, short = 'n', default_value = "50", value_name = "N", value_parser = at_least_one)]
    limit: usize,
    /// All of them.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(clap::Args, Debug)]
struct Named {
    /// Ids of documents.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

#[derive(clap::Args, Debug)]
struct Page {
    /// The id of a document.
    #[arg(value_name = "ID")]
    id: String,
    /// The page, from 1.
    #[arg(value_name = "NUMBER")]
    number: u32,
    /// Which version; by default the newest.
    #[arg(long, value_name = "N")]
    generation: Option<u32>,
    /// Print what it was cut into.
    #[arg(long)]
    chunks: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(clap::Args, Debug)]
struct Manifest {
    /// The id of a document.
    #[arg(value_name = "ID")]
    id: String,
    /// Which version; by default the newest.
    #[arg(long, value_name = "N")]
    generation: Option<u32>,
    #[command(flatten)]
    reach: Reach,
}

#[derive(clap::Args, Debug)]
struct Stats {
    /// Whose; by default your own tenant's.
    #[arg(long)]
    tenant: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::List(args) => list(args),
        Command::Show(named) => show(named),
        Command::Page(args) => page(args),
        Command::Manifest(args) => manifest(args),
        Command::Recover(named) => {
            each(named, |id| Ask::post(&["documents", id, "recover-failed"]))
        }
        Command::Reindex(named) => each(named, |id| Ask::post(&["documents", id, "reindex"])),
        Command::Delete(named) => each(named, |id| Ask::delete(&["documents", id])),
        Command::Stats(args) => stats(args),
    }
}

fn list(args: &List) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        let mut out = std::io::stdout().lock();
        let mut left = if args.all { usize::MAX } else { args.limit.max(1) };
        let head = ["ID", "STATE", "PAGES", "AGE", "COLLECTION", "NAME", "REASON"];
        let (mut table, mut cursor) = (Table::new(&head), None::<String>);
        loop {
            let ask = Ask::get(&["documents"])
                .with("state", args.state.as_ref())
                .with("collection", args.collection.as_ref())
                .with("name", args.name.as_ref())
                .with("tenant", args.tenant.as_ref())
                .with("limit", Some(left.min(PAGE_MAX).to_string()))
                .with("cursor", cursor.as_ref());
            let told = Told::read(&target.ask(ask).await?)?;
            for document in told.each("documents")? {
                left = left.saturating_sub(1);
                match args.reach.json {
                    true => document.print(&mut out)?,
                    false => row(&mut table, &document.seen),
                }
            }
            cursor = told.seen["next"].as_str().map(str::to_owned);
            if cursor.is_none() || left == 0 {
                break;
            }
        }
        if args.reach.json {
            return Ok(());
        }
        if table.is_empty() {
            say("no document is like that");
            return Ok(());
        }
        table.print(&mut out)?;
        if cursor.is_some() {
            say("there are more; see them with --limit or --all");
        }
        Ok(())
    })
}

fn row(table: &mut Table, document: &Value) {
    table.row([
        text(document, "id").into(),
        Cell::status(text(document, "state")),
        plain(&document["pages"]).into(),
        format!("{:4}", age(&document["added_at"])).into(),
        plain(&document["collection"]).into(),
        plain(&document["name"]).into(),
        short(document["failure"].as_str().unwrap_or_default(), REASON_MAX).into(),
    ]);
}

fn show(named: &Named) -> anyhow::Result<()> {
    with_target(&named.reach, async |target| {
        let mut out = std::io::stdout().lock();
        of_each(&named.ids, async |at, id| {
            let told = Told::read(&target.ask(Ask::get(&["documents", id])).await?)?;
            let ask = Ask::get(&["documents", id, "progress"]);
            let progress = Told::read(&target.ask(ask).await?)?;
            if named.reach.json {
                told.print(&mut out)?;
                return Ok(progress.print(&mut out)?);
            }
            if at > 0 {
                writeln!(out)?;
            }
            Ok(described(&mut out, &told.seen, &progress.seen)?)
        })
        .await
    })
}

/// Everything about a document.
fn described(out: &mut impl Write, told: &Value, progress: &Value) -> std::io::Result<()> {
    let mut table = Table::new(&[]);
    table.pair("id", plain(&told["id"]));
    table.pair("state", Cell::status(text(told, "state")));
    for name in ["name", "source", "tenant", "collection", "media_type", "bytes", "sha256"] {
        table.pair(name, plain(&told[name]));
    }
    let (newest, live) = (plain(&told["generation"]), plain(&told["live_generation"]));
    let version = match (newest == live, live.is_empty()) {
        (true, _) => newest,
        (false, true) => format!("{newest}, none is found yet"),
        (false, false) => format!("{newest}, and {live} is found"),
    };
    table.pair("version", version);
    for (name, field) in [("pages", "total_pages"), ("chunks", "total_chunks")] {
        table.pair(name, plain(&progress[field]));
    }
    table.pair("failure", plain(&told["failure"]));
    for (name, field) in
        [("added", "added_at"), ("changed", "changed_at"), ("published", "published_at")]
    {
        table.pair(name, moment(&told[field]));
    }
    let left = progress["eta_ms"].as_u64().map(|ms| format!(", {} left", span(ms)));
    let percent = progress["percent"].as_f64().unwrap_or_default();
    table.pair("done", format!("{percent:.0} %{}", left.unwrap_or_default()));
    table.print(out)?;
    let phases = phases(&progress["phases"]);
    if !phases.is_empty() {
        writeln!(out)?;
        phases.print(out)?;
    }
    let gaps = gaps(&progress["gaps"]);
    if !gaps.is_empty() {
        writeln!(out)?;
        gaps.print(out)?;
    }
    Ok(())
}

fn phases(of: &Value) -> Table {
    let head = ["PHASE", "STATUS", "TOTAL", "COMPLETED", "FAILED", "SKIPPED", "RUNNING", "PENDING"];
    let mut table = Table::new(&head);
    for phase in of.as_array().into_iter().flatten() {
        let count = |field: &str| plain(&phase[field]).into();
        table.row([
            count("name"),
            Cell::status(text(phase, "status")),
            count("total"),
            count("completed"),
            count("failed"),
            count("skipped"),
            count("processing"),
            count("pending"),
        ]);
    }
    table
}

fn gaps(of: &Value) -> Table {
    let mut table = Table::new(&["PAGE", "CHUNK", "PHASE", "ITEM", "REASON"]);
    for gap in of.as_array().into_iter().flatten() {
        let field = |name: &str| plain(&gap[name]).into();
        table.row([field("page"), field("chunk"), field("phase"), field("item"), field("reason")]);
    }
    table
}

fn page(args: &Page) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        let number = args.number.to_string();
        let ask = Ask::get(&["documents", &args.id, "pages", &number]);
        let ask = ask.with("generation", args.generation.map(|number| number.to_string()));
        let told = Told::read(&target.ask(ask).await?)?;
        let mut out = std::io::stdout().lock();
        if args.reach.json {
            return Ok(told.print(&mut out)?);
        }
        let page = &told.seen;
        match text(page, "outcome") {
            "read" => {}
            "without" => say(&format!("it has no text: {}", text(page, "reason"))),
            _ => say("nobody has read it yet"),
        }
        if !args.chunks {
            let markdown = page["markdown"].as_str().unwrap_or_default();
            // As it is for whoever reads it as a file, but nothing for a terminal to do.
            let is_safe = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t');
            let markdown: String = markdown.chars().filter(|letter| is_safe(*letter)).collect();
            let end = if markdown.is_empty() || markdown.ends_with('\n') { "" } else { "\n" };
            return Ok(write!(out, "{markdown}{end}")?);
        }
        let mut table = Table::new(&["CHUNK", "KIND", "TOKENS", "VECTOR", "GRAPH", "TEXT"]);
        for chunk in page["chunks"].as_array().into_iter().flatten() {
            table.row([
                plain(&chunk["index"]).into(),
                plain(&chunk["kind"]).into(),
                plain(&chunk["tokens"]).into(),
                plain(&chunk["embedded_by"]).into(),
                if chunk["is_linked"] == true { "yes" } else { "no" }.into(),
                short(text(chunk, "text"), REASON_MAX).into(),
            ]);
        }
        Ok(table.print(&mut out)?)
    })
}

fn manifest(args: &Manifest) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        let mut out = std::io::stdout().lock();
        let mut table = Table::new(&["PAGE", "OUTCOME", "HOW", "BYTES", "CHUNKS", "REASON"]);
        let mut after = None::<String>;
        loop {
            let ask = Ask::get(&["documents", &args.id, "manifest"])
                .with("generation", args.generation.map(|number| number.to_string()))
                .with("limit", Some(LINES_MAX))
                .with("after", after.as_ref());
            let told = Told::read(&target.ask(ask).await?)?;
            for line in told.each("pages")? {
                if args.reach.json {
                    line.print(&mut out)?;
                    continue;
                }
                let field = |name: &str| plain(&line.seen[name]).into();
                table.row([
                    field("number"),
                    Cell::status(text(&line.seen, "outcome")),
                    field("how"),
                    field("bytes"),
                    field("chunks"),
                    field("reason"),
                ]);
            }
            after = told.seen["next"].as_u64().map(|next| next.to_string());
            if after.is_none() {
                break;
            }
        }
        if args.reach.json {
            return Ok(());
        }
        if table.is_empty() {
            say("nobody knows its pages yet");
            return Ok(());
        }
        Ok(table.print(&mut out)?)
    })
}

/// Begins something with each document, and prints the item that does it.
fn each(named: &Named, ask: impl Fn(&str) -> Ask) -> anyhow::Result<()> {
    with_target(&named.reach, async |target: &Target| {
        let mut out = std::io::stdout().lock();
        of_each(&named.ids, async |_, id| {
            let told = Told::read(&target.ask(ask(id)).await?)?;
            if named.reach.json {
                return Ok(told.print(&mut out)?);
            }
            Ok(writeln!(out, "{id}: item {}", text(&told.seen, "item"))?)
        })
        .await?;
        if target.is_alone() {
            say(
                "no server uses this data directory; `windrow serve` or `windrow up` does the work",
            );
        }
        Ok(())
    })
}

/// Does something with several documents, one after the other; what could not be done with one is
/// said, and the others are done.
async fn of_each(
    ids: &[String],
    mut one: impl AsyncFnMut(usize, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut refused = None;
    for (at, id) in ids.iter().enumerate() {
        let done = one(at, id).await;
        let Err(error) = done else { continue };
        match error.downcast::<Stop>() {
            Ok(stop) if ids.len() > 1 && is_its_own(&stop) => {
                say(&format!("{id}: {stop}"));
                refused = Some(stop.exit);
            }
            Ok(stop) => return Err(stop.into()),
            Err(error) => return Err(error),
        }
    }
    match refused {
        None => Ok(()),
        Some(_) => Err(Stop::silent(Exit::Partly).into()),
    }
}

/// Whether it is about one document, and the next may fare better.
fn is_its_own(stop: &Stop) -> bool {
    !matches!(stop.exit, Exit::Denied | Exit::Unreachable)
}

fn stats(args: &Stats) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        let ask = Ask::get(&["documents", "stats"]).with("tenant", args.tenant.as_ref());
        let body = target.ask(ask).await?;
        let mut out = std::io::stdout().lock();
        let mut table = Table::new(&["TASK", "STATUS", "COUNT"]);
        for stat in read::<Vec<Box<RawValue>>>(&body)? {
            let stat = Told::of(stat)?;
            if args.reach.json {
                stat.print(&mut out)?;
                continue;
            }
            table.row([
                plain(&stat.seen["task_type"]).into(),
                Cell::status(text(&stat.seen, "status")),
                plain(&stat.seen["count"]).into(),
            ]);
        }
        if args.reach.json {
            return Ok(());
        }
        if table.is_empty() {
            say("there is no document yet; `windrow add` takes one in");
            return Ok(());
        }
        Ok(table.print(&mut out)?)
    })
}
