//! `windrow retry`, `cancel`, `delete` and `prioritise`: by id, or everything that a filter admits.
//!
//! Many items are one operation of the server: counted first, asked about on a terminal, and
//! watched until it ends.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use axum::body::Bytes;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use windrow_core::ItemId;
use windrow_wire::filter;
use windrow_wire::problem::Code;

use super::enqueue::Fields;
use super::exit::{Exit, Stop};
use super::items::filter_of;
use super::meant::meant;
use super::reach::{Ask, Reach, Target};
use super::show::{Told, say, text};
use super::{counted, with_target};

/// How often a running operation is asked how far it is.
const LOOK: Duration = Duration::from_millis(100);

/// Which items, and how sure the caller is.
#[derive(clap::Args, Debug)]
pub(super) struct Which {
    /// Ids of items; or a filter, such as status:failed queue:thumbs.
    #[arg(
        value_name = "ID|FILTER",
        required_unless_present = "all",
        add = super::complete::either(),
    )]
    words: Vec<String>,
    /// Every item there is.
    #[arg(long, conflicts_with = "words")]
    all: bool,
    /// Only count what would be changed.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow retry 01a1e554-9c99-7001-b210-29840971dd42
      Runs it again; one that waits for its next attempt or its time is due at once.
  windrow retry status:failed queue:thumbs no space --dry-run
      How many items that would be.
  windrow retry status:failed queue:thumbs no space --yes
  windrow retry 01a1e554-9c99-7001-b210-29840971dd42 --from-stage ocr --clone
      As a new item, which leaves the old one as it ended.")]
pub(super) struct Retry {
    /// The stage to begin with; by default the one that failed.
    #[arg(long, value_name = "STAGE", add = super::complete::stages())]
    from_stage: Option<String>,
    /// Run a clone, and leave the item as it is; also for items that completed.
    #[arg(long)]
    clone: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow cancel 01a1e554-9c99-7001-b210-29840971dd42
      Ends it with everything below it; a worker that has it learns so with its next heartbeat.
  windrow cancel status:pending tenant:acme --dry-run")]
pub(super) struct Cancel {
    #[command(flatten)]
    which: Which,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow delete 01a1e554-9c99-7001-b210-29840971dd42
      Removes an item that has ended, with everything below it, for good.
  windrow delete status:completed,skipped queue:thumbs --yes")]
pub(super) struct Delete {
    #[command(flatten)]
    which: Which,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow prioritise --priority 9 01a1e554-9c99-7001-b210-29840971dd42
  windrow prioritise --priority 0 status:pending kind:thumbnail --yes")]
pub(super) struct Prioritise {
    /// From 0, the lowest, to 10.
    #[arg(long, value_name = "N")]
    priority: u8,
    #[command(flatten)]
    which: Which,
}

/// What is done, in words and as the API has it.
struct Verb {
    name: &'static str,
    /// `Retry them?`
    asked: &'static str,
    done: &'static str,
    from_stage: Option<String>,
    mode: Option<&'static str>,
    priority: Option<u8>,
}

impl Verb {
    fn new(name: &'static str, asked: &'static str, done: &'static str) -> Verb {
        Verb { name, asked, done, from_stage: None, mode: None, priority: None }
    }

    /// What an item must be like that no status was named of.
    fn needs(&self) -> &'static str {
        match self.name {
            "cancel" | "prioritise" => " and has not ended",
            "retry" if self.from_stage.is_some() => " and came as far as that stage",
            "retry" if self.mode == Some("reset") => {
                " and failed, was cancelled or waits for its time"
            }
            _ => " and has ended",
        }
    }

    /// The request for one item.
    fn of_one(&self, id: &str) -> serde_json::Result<Ask> {
        let ask = match self.name {
            "retry" => {
                let body = json!({ "mode": self.mode, "from_stage": self.from_stage });
                Ask::post(&["queue", id, "retry"]).json(&body)?
            }
            "delete" => Ask::delete(&["queue", id]),
            "prioritise" => {
                let body = json!({ "priority": self.priority });
                Ask::post(&["queue", id, "prioritise"]).json(&body)?
            }
            name => Ask::post(&["queue", id, name]),
        };
        Ok(ask.once())
    }

    /// The request that says whether it would be done to one item.
    fn forecast_of_one(&self, id: &str) -> serde_json::Result<Ask> {
        let mut body = Fields::default();
        body.set("verb", Some(self.name))?;
        body.set("priority", self.priority)?;
        body.set("mode", self.mode)?;
        body.set("from_stage", self.from_stage.as_ref())?;
        Ask::post(&["queue", id, "forecast"]).json(&body)
    }

    /// The request for everything that a filter admits.
    fn of_many(&self, filter: &str, all: bool, dry_run: bool) -> serde_json::Result<Ask> {
        let mut body = Fields::default();
        body.set("verb", Some(self.name))?;
        body.set("filter", Some(filter).filter(|filter| !filter.is_empty()))?;
        body.set("all", all.then_some(true))?;
        body.set("dry_run", dry_run.then_some(true))?;
        body.set("priority", self.priority)?;
        body.set("mode", self.mode)?;
        body.set("from_stage", self.from_stage.as_ref())?;
        Ok(Ask::post(&["operations"]).json(&body)?.once())
    }
}

pub(super) fn retry(args: &Retry) -> anyhow::Result<()> {
    let mode = Some(if args.clone { "clone" } else { "reset" });
    let verb = Verb::new("retry", "Retry", "retried");
    run(&args.which, Verb { from_stage: args.from_stage.clone(), mode, ..verb })
}

pub(super) fn cancel(args: &Cancel) -> anyhow::Result<()> {
    run(&args.which, Verb::new("cancel", "Cancel", "cancelled"))
}

pub(super) fn delete(args: &Delete) -> anyhow::Result<()> {
    run(&args.which, Verb::new("delete", "Delete", "deleted"))
}

pub(super) fn prioritise(args: &Prioritise) -> anyhow::Result<()> {
    let verb = Verb::new("prioritise", "Prioritise", "prioritised");
    run(&args.which, Verb { priority: Some(args.priority), ..verb })
}

fn run(which: &Which, verb: Verb) -> anyhow::Result<()> {
    let is_id = |word: &String| word.parse::<ItemId>().is_ok();
    if !which.all && which.words.iter().all(is_id) {
        return with_target(&which.reach, async |target| by_id(target, which, &verb).await);
    }
    if let Some(word) = which.words.iter().find(|word| !is_id(word))
        && which.words.iter().any(is_id)
    {
        let said = format!("{word:?} is no id of an item, and others here are");
        return Err(Stop::usage(format!("{said}; nothing was changed")).into());
    }
    let filter = filter_of(&which.words)?;
    with_target(&which.reach, async |target| many(target, which, &verb, &filter).await)
}

/// Does it to each item that is named.
async fn by_id(target: &Target, which: &Which, verb: &Verb) -> anyhow::Result<()> {
    let (mut out, mut refused, mut last) = (std::io::stdout().lock(), 0, None);
    let mut has_children = false;
    for id in &which.words {
        let answer = match which.dry_run {
            true => forecast(target, verb, id).await?,
            false => target.ask(verb.of_one(id)?).await,
        };
        let body = match answer {
            Ok(body) => body,
            Err(stop) if matches!(stop.exit, Exit::Denied | Exit::Unreachable) => {
                return Err(stop.into());
            }
            Err(stop) => {
                let names_it = stop.message.contains(id.as_str());
                let root = match stop.code.as_deref() {
                    Some("not_a_root") => root_of(target, id).await,
                    _ => None,
                };
                let root = root.map(|root| format!("; that is {root}"));
                let root = root.unwrap_or_default();
                say(&match names_it {
                    true => format!("{stop}{root}"),
                    false => format!("{id}: {stop}{root}"),
                });
                refused += 1;
                last = Some(stop.exit);
                continue;
            }
        };
        let told = Told::read(&body)?;
        has_children |= told.seen["ongoing"] == true;
        if which.reach.json {
            told.print(&mut out)?;
        } else if which.dry_run {
            writeln!(out, "{id} {} would be {}", text(&told.seen, "status"), verb.done)?;
        } else {
            by_id_done(&mut out, verb, id, &told.seen, target)?;
        }
    }
    if has_children {
        target.ends_trees().await?;
    }
    match (refused, which.words.len()) {
        (0, _) => Ok(()),
        (1, 1) => Err(Stop::silent(last.unwrap_or(Exit::Failed)).into()),
        _ => Err(Stop::silent(Exit::Partly).into()),
    }
}

/// What an item is to which a verb would be done, or what would be said instead.
async fn forecast(target: &Target, verb: &Verb, id: &str) -> anyhow::Result<Result<Bytes, Stop>> {
    if let Err(stop) = target.ask(verb.forecast_of_one(id)?).await {
        return Ok(Err(stop));
    }
    Ok(target.ask(Ask::get(&["queue", id])).await)
}

/// The root of the tree that an item is part of.
async fn root_of(target: &Target, id: &str) -> Option<String> {
    let mut root = id.to_owned();
    loop {
        let item: Value = target.read(Ask::get(&["queue", &root])).await.ok()?;
        match item["place"]["parent"].as_str() {
            Some(parent) => root = parent.to_owned(),
            None => return Some(root),
        }
    }
}

fn by_id_done(
    out: &mut impl std::io::Write,
    verb: &Verb,
    id: &str,
    told: &Value,
    target: &Target,
) -> std::io::Result<()> {
    let new = told["id"].as_str().filter(|new| *new != id);
    match new {
        Some(new) => writeln!(out, "{id} {} as {new}", verb.done),
        None if told["ongoing"] == true && !target.is_alone() => {
            writeln!(out, "{id} {}; its children follow", verb.done)
        }
        None => writeln!(out, "{id} {}", verb.done),
    }
}

/// Does it to everything that a filter admits, after it was counted.
async fn many(target: &Target, which: &Which, verb: &Verb, filter: &str) -> anyhow::Result<()> {
    target.runs_operations();
    let counted_first = operation(target, verb.of_many(filter, which.all, true)?, None).await?;
    let matched = counted_first.seen["matched"].as_u64().unwrap_or_default();
    let items = counted(matched, "item");
    let matches = if matched == 1 { "matches" } else { "match" };
    let mut out = std::io::stdout().lock();
    // A slip in an id makes a word to look for.
    let is_id_meant = matched == 0 && matches!(&which.words[..], [word] if !word.contains(':'));
    let hint = match which.words.as_slice() {
        [word] if is_id_meant => format!("; {word:?} is no id"),
        _ if matched == 0 => {
            meant(target, filter).await.map(|meant| format!("; {meant}")).unwrap_or_default()
        }
        _ => String::new(),
    };
    if which.dry_run {
        match which.reach.json {
            true => counted_first.print(&mut out)?,
            false => writeln!(out, "{items} {matches}; nothing was changed{hint}")?,
        }
        say_refusals(&counted_first.seen, "would be refused");
        return Ok(());
    }
    if matched == 0 {
        let names_status = filter::parse(filter).is_ok_and(|filter| filter.status.is_some());
        let needs = if names_status { "" } else { verb.needs() };
        let said = format!("no item is like that{needs}; nothing was changed{hint}");
        if is_id_meant {
            return Err(Stop::new(Exit::NotFound, said).into());
        }
        say(&said);
        return Ok(());
    }
    if !which.yes {
        say_refusals(&counted_first.seen, "would be refused");
    }
    if !which.yes && !agreed(&format!("{items} {matches}. {} them? [y/N] ", verb.asked))? {
        return Ok(());
    }
    let bar = bar(matched);
    let told = operation(target, verb.of_many(filter, which.all, false)?, bar.as_ref()).await?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    if verb.name == "cancel" {
        target.ends_trees().await?;
    }
    if which.reach.json {
        told.print(&mut out)?;
    }
    concluded(&mut out, which, verb, matched, &told.seen)
}

fn concluded(
    out: &mut impl std::io::Write,
    which: &Which,
    verb: &Verb,
    matched: u64,
    told: &Value,
) -> anyhow::Result<()> {
    let number = |name: &str| told[name].as_u64().unwrap_or_default();
    let (done, refused) = (counted(number("done"), "item"), number("refused"));
    // By itself, or with what was above it.
    let is_all = verb.name != "cancel" || number("done") + refused >= matched;
    if !which.reach.json {
        let rest = if is_all { "" } else { "; the others had ended when it was their turn" };
        writeln!(out, "{done} {}{rest}", verb.done)?;
    }
    say_refusals(told, "refused");
    match text(told, "state") {
        "done" if refused == 0 => Ok(()),
        "done" => Err(Stop::silent(Exit::Partly).into()),
        state => {
            let why = told["message"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
            let said = format!("the operation {state}{why}; what it did stays done");
            Err(Stop::new(Exit::Failed, said).into())
        }
    }
}

/// How many items are refused, by why.
fn say_refusals(told: &Value, refused: &str) {
    for (code, count) in told["refusals"].as_object().into_iter().flatten() {
        let said = Code::ALL.iter().find(|known| known.name() == code).map(|code| code.title());
        say(&match said {
            Some(said) => format!("{count} {refused}: {} ({code})", lowered(said)),
            None => format!("{count} {refused}: {code}"),
        });
    }
}

/// A sentence that goes on behind a colon.
fn lowered(said: &str) -> String {
    let mut letters = said.chars();
    letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect()
}

/// Begins an operation and waits until it has ended.
async fn operation(target: &Target, ask: Ask, bar: Option<&ProgressBar>) -> anyhow::Result<Told> {
    let mut told = Told::read(&target.ask(ask).await?)?;
    while matches!(text(&told.seen, "state"), "running" | "cancelling") {
        if let Some(bar) = bar {
            let done = ["done", "refused"].iter().filter_map(|name| told.seen[*name].as_u64());
            bar.set_position(done.sum());
        }
        tokio::time::sleep(LOOK).await;
        let ask = Ask::get(&["operations", text(&told.seen, "id")]);
        told = Told::read(&target.ask(ask).await?)?;
    }
    Ok(told)
}

/// A bar, where somebody can see it.
fn bar(total: u64) -> Option<ProgressBar> {
    let style = ProgressStyle::with_template("  {bar:36} {pos:>6} of {len:<6} {eta}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─");
    let is_seen = std::io::stderr().is_terminal();
    is_seen.then(|| ProgressBar::new(total).with_style(style))
}

/// Asks whoever sits at the terminal.
fn agreed(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let said = format!(
            "{} Nothing was changed: say --yes to do it, or --dry-run to count only",
            question.split(". ").next().map(|first| format!("{first}.")).unwrap_or_default()
        );
        return Err(Stop::usage(said).into());
    }
    let mut err = std::io::stderr().lock();
    write!(err, "{question}")?;
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    let agreed = matches!(answer.trim(), "y" | "Y" | "yes");
    if !agreed {
        say("nothing was changed");
    }
    Ok(agreed)
}
