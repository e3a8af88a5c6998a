//! `windrow list`, `show`, `explain` and `tree`: looking at items.

use std::io::Write as _;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use windrow_wire::filter;

use super::exit::{Exit, Stop};
use super::meant::meant;
use super::reach::{Ask, Reach, Target};
use super::show::{Cell, Table, Told, age, at_least_one, moment, plain, say, short, text};
use super::{counted, with_target};

/// Most items that the API puts on a page.
const PAGE_MAX: usize = 200;
/// Letters of bytes in base64 that are shown of an item.
const BYTES_MAX: usize = 100;
/// Letters of an error that a list shows.
const ERROR_MAX: usize = 60;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow list
  windrow list status:failed,cancelled queue:thumbs
  windrow list tenant:acme no space
      Words with a colon narrow the list; all others are looked for in key, kind, source_info and
      error. A value with spaces stands in quotes: 'queue:\"my queue\"'.
  windrow list status:failed --all --json | jq -r .id

Keys: status, queue, stage, kind, tenant, collection, branch, source_type, q.")]
pub(super) struct List {
    /// What to list, such as status:failed queue:thumbs.
    #[arg(value_name = "FILTER", add = super::complete::filters())]
    filter: Vec<String>,
    /// How many items at most.
    #[arg(long, short = 'n', default_value = "50", value_name = "N", value_parser = at_least_one)]
    limit: usize,
    /// All of them.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    #[command(flatten)]
    reach: Reach,
}

/// The words of a filter as one text, read once so that whoever wrote it sees the word.
pub(super) fn filter_of(words: &[String]) -> Result<String, Stop> {
    let text = words.join(" ");
    match filter::parse(&text) {
        Ok(_) => Ok(text),
        Err(wrong) => Err(Stop::usage(format!("{:?}: {}", wrong.word, wrong.why))),
    }
}

/// A page of a list, as far as it is needed here.
#[derive(Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next: Option<String>,
}

pub(super) fn list(args: &List) -> anyhow::Result<()> {
    let filter = filter_of(&args.filter)?;
    with_target(&args.reach, async |target| {
        let mut out = std::io::stdout().lock();
        let mut left = if args.all { usize::MAX } else { args.limit };
        let (mut table, mut cursor) = (list_table(), None::<String>);
        loop {
            let limit = left.min(PAGE_MAX).to_string();
            let ask = Ask::get(&["queue"]).with("filter", Some(&filter));
            let ask = ask.with("limit", Some(limit)).with("cursor", cursor.as_ref());
            let page: Page = target.read(ask).await?;
            left = left.saturating_sub(page.items.len());
            for item in page.items {
                let item = Told::of(item)?;
                if args.reach.json {
                    item.print(&mut out)?;
                } else {
                    row(&mut table, &item.seen);
                }
            }
            cursor = page.next;
            if cursor.is_none() || left == 0 {
                break;
            }
        }
        if args.reach.json {
            return Ok(());
        }
        if table.is_empty() {
            let meant = meant(target, &filter).await.map(|meant| format!("; {meant}"));
            say(&format!("no item is like that{}", meant.unwrap_or_default()));
            return Ok(());
        }
        table.print(&mut out)?;
        if cursor.is_some() {
            say("there are more; see them with --limit or --all");
        }
        Ok(())
    })
}

fn list_table() -> Table {
    Table::new(&["ID", "STATUS", "QUEUE", "STAGE", "TRIES", "AGE", "KEY", "ERROR"])
}

fn row(table: &mut Table, item: &Value) {
    // Why a stage on the way was skipped is no error of what completed.
    let is_well = item["status"] == "completed";
    let error = item["error"]["message"].as_str().or(item["reason"].as_str());
    let error = error.filter(|_| !is_well).unwrap_or_default();
    table.row([
        text(item, "id").into(),
        Cell::status(text(item, "status")),
        plain(&item["queue"]).into(),
        plain(&item["stage"]).into(),
        plain(&item["attempts"]).into(),
        format!("{:4}", age(&item["created_at"])).into(),
        plain(&item["key"]).into(),
        short(error, ERROR_MAX).into(),
    ]);
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow show 01a1e554-9c99-7001-b210-29840971dd42
      Everything about an item: what it is, where it is, every attempt and its result.
  windrow show 01a1e554-9c99-7001-b210-29840971dd42 --json | jq .result")]
pub(super) struct Show {
    /// Ids of items.
    #[arg(value_name = "ID", required = true, add = super::complete::items())]
    ids: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn show(args: &Show) -> anyhow::Result<()> {
    each(&args.ids, &args.reach, &[], details)
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow explain 01a1e554-9c99-7001-b210-29840971dd42
      Why it is where it is, what went wrong last, when it is tried again, and what would move it
      on.
  windrow explain 01a1e554-9c99-7001-b210-29840971dd42 --json | jq -r '.reasons[].code'")]
pub(super) struct Explain {
    /// Ids of items.
    #[arg(value_name = "ID", required = true, add = super::complete::items())]
    ids: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn explain(args: &Explain) -> anyhow::Result<()> {
    each(&args.ids, &args.reach, &["explain"], |out, told| {
        explained(&told.seen).iter().try_for_each(|line| writeln!(out, "{line}"))
    })
}

/// What is run again as it is; of others a clone is.
const RESETTABLE: [&str; 2] = ["failed", "cancelled"];

/// Why an item is where it is, in lines.
pub(super) fn explained(said: &Value) -> Vec<String> {
    let mut lines = vec![format!("{} is {}", text(said, "id"), text(said, "status"))];
    for why in said["reasons"].as_array().into_iter().flatten() {
        let (code, until) = (text(why, "code"), text(why, "unblocked_by"));
        lines.push(match code {
            "ended" if RESETTABLE.contains(&text(said, "status")) => {
                format!("  {code}; {until} runs it again")
            }
            "ended" => format!("  {code}; {until} with --clone runs the same again"),
            _ => format!("  {code}; waits for {until}"),
        });
    }
    if let Some(message) = said["error"]["message"].as_str() {
        lines.push(format!("  last error ({}): {message}", text(&said["error"], "class")));
    }
    // What is due waits for a worker, which was said above.
    let waits = |why: &Value| text(why, "code") == "not_visible";
    let is_early = said["reasons"].as_array().is_some_and(|all| all.iter().any(waits));
    if is_early && said["retry_at"].is_string() {
        lines.push(format!("  tried again {}", moment(&said["retry_at"])));
    }
    lines
}

/// Asks about several items, one after the other; those that do not exist are said at the end.
fn each(
    ids: &[String],
    reach: &Reach,
    what: &[&str],
    print: impl Fn(&mut std::io::StdoutLock<'static>, &Told) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    with_target(reach, async |target| {
        let (mut out, mut missing) = (std::io::stdout().lock(), 0);
        for (at, id) in ids.iter().enumerate() {
            let path = [&["queue", id.as_str()], what].concat();
            let body = match target.ask(Ask::get(&path)).await {
                Err(stop) if stop.exit == Exit::NotFound => {
                    say(&format!("{id}: {stop}{}", beginning(id)));
                    missing += 1;
                    continue;
                }
                body => body?,
            };
            let told = Told::read(&body)?;
            if reach.json {
                told.print(&mut out)?;
            } else {
                if at > 0 {
                    writeln!(out)?;
                }
                print(&mut out, &told)?;
            }
        }
        match missing {
            0 => Ok(()),
            _ => Err(Stop::silent(Exit::NotFound).into()),
        }
    })
}

/// What to do with what may be the beginning of an id.
fn beginning(id: &str) -> String {
    const WHOLE: usize = 36;
    let is_part = |letter: u8| letter.is_ascii_hexdigit() || letter == b'-';
    match id.len() < WHOLE && id.bytes().all(is_part) {
        true => format!("; `windrow list {id}` finds items by the beginning of their ids"),
        false => String::new(),
    }
}

fn details(out: &mut impl std::io::Write, told: &Told) -> std::io::Result<()> {
    described(told).print(out)?;
    let attempts = attempts(&told.seen["log"]);
    if attempts.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    attempts.print(out)
}

/// Everything about an item.
pub(super) fn described(told: &Told) -> Table {
    let item = &told.seen;
    let mut table = Table::new(&[]);
    table.pair("id", plain(&item["id"]));
    table.pair("status", Cell::status(text(item, "status")).with(&held_by(item)));
    table.pair("queue", plain(&item["queue"]));
    let route: Vec<String> = item["route"].as_array().into_iter().flatten().map(plain).collect();
    if route.len() > 1 {
        let stage = plain(&item["stage"]);
        let at = route.iter().position(|name| *name == stage).map_or(0, |at| at + 1);
        table.pair("stage", format!("{stage}, {at} of {}", route.len()));
        table.pair("route", route.join(", "));
    } else {
        table.pair("stage", plain(&item["stage"]));
    }
    for name in ["tenant", "kind", "op", "key", "group", "collection", "branch"] {
        table.pair(name, plain(&item[name]));
    }
    for name in ["source_type", "source_info", "ref", "priority", "attempts", "lease"] {
        table.pair(name, plain(&item[name]));
    }
    table.pair("parent", plain(&item["place"]["parent"]));
    for name in ["cloned_from", "successor"] {
        table.pair(name, plain(&item[name]));
    }
    table.pair("created", moment(&item["created_at"]));
    // A time that has passed holds nothing up any more.
    table.pair(
        "not before",
        Some(moment(&item["not_before"])).filter(|at| at.starts_with("in ")).unwrap_or_default(),
    );
    table.pair("finished", moment(&item["finished_at"]));
    // Nobody reads bytes; where all of them are is said.
    let bytes = |name| {
        let bytes = told.verbatim(name);
        let is_long = bytes.len() > BYTES_MAX;
        let more = if is_long { " (--json has all of it)" } else { "" };
        format!("{}{more}", short(&bytes, BYTES_MAX))
    };
    table.pair("payload", told.verbatim("payload"));
    table.pair("payload_base64", bytes("payload_base64"));
    for name in ["payload_ref", "content_type", "metadata", "result"] {
        table.pair(name, told.verbatim(name));
    }
    table.pair("result_base64", bytes("result_base64"));
    if item["progress"].is_object() {
        let said = &item["progress"];
        let (current, total) = (plain(&said["current"]), plain(&said["total"]));
        let words = format!("{current} of {total} {}", plain(&said["message"]));
        table.pair("progress", words.trim_end());
    }
    table.pair("reason", plain(&item["reason"]));
    table.pair("error", plain(&item["error"]["message"]));
    if item["children"].is_object() {
        table.pair("children", buckets(&item["children"]));
    }
    table
}

/// In whose hands an item is, and until when.
fn held_by(item: &Value) -> String {
    let (worker, ends) = (plain(&item["worker"]), moment(&item["expires_at"]));
    match (worker.is_empty(), ends.strip_suffix(" ago")) {
        (true, _) => String::new(),
        (false, _) if ends.is_empty() => format!(" by {worker}"),
        (false, None) => format!(" by {worker}, lease ends {ends}"),
        (false, Some(_)) => format!(" by {worker}, lease ended {ends}; it is taken back soon"),
    }
}

/// Every attempt of an item.
pub(super) fn attempts(log: &Value) -> Table {
    let mut table = Table::new(&["STAGE", "TRY", "ENDED", "WORKER", "AGE", "ERROR"]);
    for attempt in log.as_array().into_iter().flatten() {
        table.row([
            plain(&attempt["stage"]).into(),
            plain(&attempt["number"]).into(),
            Cell::status(text(attempt, "ending")),
            plain(&attempt["worker"]).into(),
            format!("{:4}", age(&attempt["ended_at"])).into(),
            plain(&attempt["error"]["message"]).into(),
        ]);
    }
    table
}

/// How many children are where.
fn buckets(of: &Value) -> String {
    let names =
        ["pending", "processing", "completed", "failed", "cancelled", "skipped", "unreached"];
    let some = names.iter().filter_map(|name| {
        let count = of[*name].as_u64().filter(|count| *count > 0)?;
        Some(format!("{count} {name}"))
    });
    let mut some: Vec<String> = some.collect();
    if of["more"] == true {
        some.push("more to come".to_owned());
    }
    some.join(", ")
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow tree 01a1e554-9c99-7001-b210-29840971dd42
      An item with what it split into, and what that split into.
  windrow tree 01a1e554-9c99-7001-b210-29840971dd42 --depth 1 --children 200 --json
      One line for each item whose children were looked at.")]
pub(super) struct Tree {
    /// The id of an item.
    #[arg(value_name = "ID", add = super::complete::items())]
    id: String,
    /// How many levels to go down.
    #[arg(long, default_value_t = 3, value_name = "N")]
    depth: usize,
    /// How many children of each item to show.
    #[arg(
        long,
        default_value_t = 20,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=200),
    )]
    children: u16,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Deserialize)]
struct Family {
    item: Value,
    children: Vec<Value>,
    next: Option<u64>,
}

pub(super) fn tree(args: &Tree) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        let mut out = std::io::stdout().lock();
        let (root, told) = family(target, args, &args.id).await?;
        if args.reach.json {
            told.print(&mut out)?;
        } else {
            writeln!(out, "{}", branch(&root.item))?;
        }
        // Who is still to be shown, the next one last.
        let mut open = Vec::new();
        unfold(&mut open, root, 1);
        while let Some(leaf) = open.pop() {
            match leaf {
                Leaf::More(level) => {
                    if !args.reach.json {
                        writeln!(out, "{:width$}…", "", width = level * 2)?;
                    }
                }
                Leaf::Child(level, child) => {
                    if !args.reach.json {
                        writeln!(out, "{:width$}{}", "", branch(&child), width = level * 2)?;
                    }
                    if child["children"].is_object() && level < args.depth {
                        let (below, told) = family(target, args, text(&child, "id")).await?;
                        if args.reach.json {
                            told.print(&mut out)?;
                        }
                        unfold(&mut open, below, level + 1);
                    }
                }
            }
        }
        Ok(())
    })
}

enum Leaf {
    Child(usize, Value),
    /// More than are shown.
    More(usize),
}

fn unfold(open: &mut Vec<Leaf>, family: Family, level: usize) {
    open.extend(family.next.map(|_| Leaf::More(level)));
    open.extend(family.children.into_iter().rev().map(|child| Leaf::Child(level, child)));
}

async fn family(target: &Target, args: &Tree, id: &str) -> Result<(Family, Told), Stop> {
    let ask = Ask::get(&["queue", id, "tree"]).with("limit", Some(args.children.to_string()));
    let body = target.ask(ask).await?;
    Ok((super::show::read(&body)?, Told::read(&body)?))
}

/// An item in a line of its tree.
fn branch(item: &Value) -> String {
    let mut line = format!(
        "{} {} {} {}",
        text(item, "id"),
        text(item, "kind"),
        text(item, "stage"),
        text(item, "status")
    );
    if item["children"].is_object() {
        let all = ["pending", "processing", "completed", "failed", "cancelled", "skipped"];
        let sum: u64 = all.iter().filter_map(|name| item["children"][*name].as_u64()).sum();
        let below = counted(sum, "child").replace("childs", "children");
        line.push_str(&format!(" ({below}: {})", buckets(&item["children"])));
    }
    line
}
