//! `windrow health`, `workers`, `sweep`, `events` and `view`: how it goes, and what happens.

use std::io::Write as _;
use std::time::Duration;

use axum::body::Body;
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::exit::{Exit, Stop};
use super::reach::{Ask, Reach, Target};
use super::show::{Cell, Table, Told, age, at_least_one, plain, read, say, text};
use super::{counted, with_target};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow health
      Every check with its colour, and what to do about what is not well.
  windrow health >/dev/null || alert
      Ends with 1 if something is red.")]
pub(super) struct Health {
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn health(args: &Health) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        let told = Told::read(&target.ask(Ask::get(&["health"])).await?)?;
        let mut out = std::io::stdout().lock();
        if args.reach.json {
            told.print(&mut out)?;
        } else {
            let mut table = Table::new(&["CHECK", "STATUS", "OF", "SAYS"]);
            let mut remedies = Vec::new();
            for check in told.seen["checks"].as_array().into_iter().flatten() {
                remedies.extend(check["remedy"].as_str().map(|remedy| (check, remedy)));
                table.row([
                    plain(&check["check"]).into(),
                    Cell::status(text(check, "status")),
                    plain(&check["of"]).into(),
                    plain(&check["says"]).into(),
                ]);
            }
            table.print(&mut out)?;
            for (check, remedy) in remedies {
                let of = check["of"].as_str().map(|of| format!(" of {of}")).unwrap_or_default();
                say(&format!("{}{of}: {remedy}", text(check, "check")));
            }
        }
        match text(&told.seen, "status") {
            "red" => Err(Stop::silent(Exit::Failed).into()),
            _ => Ok(()),
        }
    })
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow workers
      Who claims at this server or holds something, when they were last heard of, and what it is.")]
pub(super) struct Workers {
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn workers(args: &Workers) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        let body = target.ask(Ask::get(&["workers"])).await?;
        let mut out = std::io::stdout().lock();
        let mut table =
            Table::new(&["WORKER", "WAITING", "LEASES", "SEEN", "QUEUES", "STAGES", "STATE"]);
        for worker in read::<Vec<Box<RawValue>>>(&body)? {
            let worker = Told::of(worker)?;
            if args.reach.json {
                worker.print(&mut out)?;
                continue;
            }
            let names = |of: &Value| {
                let names = of.as_array().into_iter().flatten().filter_map(Value::as_str);
                names.collect::<Vec<_>>().join(", ")
            };
            table.row([
                plain(&worker.seen["name"]).into(),
                plain(&worker.seen["waiting"]).into(),
                plain(&worker.seen["leases"]).into(),
                format!("{:4}", age(&worker.seen["last_seen"])).into(),
                // Of one that is away nobody wants to know.
                if worker.seen["asked"] == false && worker.seen["leases"] != 0 {
                    "?".into()
                } else {
                    names(&worker.seen["queues"]).into()
                },
                names(&worker.seen["stages"]).into(),
                if worker.seen["drained"] == true { "drained" } else { "" }.into(),
            ]);
        }
        if args.reach.json {
            return Ok(());
        }
        if table.is_empty() {
            say("no worker is present");
            return Ok(());
        }
        Ok(table.print(&mut out)?)
    })
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow sweep
      Ends what was cancelled, folds trees, and removes what is past its keeping, now. A server does
      so by itself; a data directory without one is swept when you say so, and by `windrow cancel`
      of what has children.")]
pub(super) struct Sweep {
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn sweep(args: &Sweep) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        if let Target::Here(here) = target {
            here.reclaim().await?;
        }
        let told = Told::read(&target.ask(Ask::post(&["sweep"])).await?)?;
        let mut out = std::io::stdout().lock();
        if args.reach.json {
            return Ok(told.print(&mut out)?);
        }
        let handled = told.seen["handled"].as_u64().unwrap_or_default();
        writeln!(out, "{} swept", counted(handled, "item"))?;
        if told.seen["more"] == true {
            say("there is more; sweep again");
        }
        Ok(())
    })
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow events 01a1e554-9c99-7001-b210-29840971dd42
      The life of one item, as far as it is kept: its last attempts, and what operators did to it
      by its id.
  windrow events --follow --queue thumbs --status failed
      What happens from now on, until Ctrl-C; also across restarts of the server.
  windrow events --follow --json | jq -r 'select(.status == \"failed\") | .id'")]
pub(super) struct Events {
    /// An item, whose life is shown; with --follow only what happens to it.
    #[arg(value_name = "ID", add = super::complete::items())]
    id: Option<String>,
    /// Show what happens from now on.
    #[arg(long, short)]
    follow: bool,
    /// Only these queues.
    #[arg(
        long = "queue",
        value_name = "QUEUE",
        requires = "follow",
        add = super::complete::queues(),
    )]
    queues: Vec<String>,
    /// Only these tenants.
    #[arg(long = "tenant", value_name = "TENANT", requires = "follow")]
    tenants: Vec<String>,
    /// Only changes to these statuses.
    #[arg(long = "status", value_name = "STATUS", requires = "follow")]
    statuses: Vec<String>,
    /// End after so many events.
    #[arg(long, value_name = "N", requires = "follow")]
    max: Option<u64>,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn events(args: &Events) -> anyhow::Result<()> {
    if args.id.is_none() && !args.follow {
        let said = "name an item to see its life, or say --follow to see what happens from now on";
        return Err(Stop::usage(said).into());
    }
    with_target(&args.reach, async |target| {
        if args.follow {
            return follow(target, args).await;
        }
        let id = args.id.as_deref().unwrap_or_default();
        let body = target.ask(Ask::get(&["queue", id, "events"])).await?;
        let mut out = std::io::stdout().lock();
        let mut table = Table::new(&["AGE", "EVENT", "STAGE", "TRY", "WORKER", "BY", "WHY"]);
        for moment in read::<Vec<Box<RawValue>>>(&body)? {
            let moment = Told::of(moment)?;
            if args.reach.json {
                moment.print(&mut out)?;
                continue;
            }
            let seen = &moment.seen;
            let event = match seen["status"].as_str() {
                Some(status) => format!("{} {status}", text(seen, "event")),
                None => text(seen, "event").to_owned(),
            };
            let why =
                if seen["reason"].is_null() { &seen["error"]["message"] } else { &seen["reason"] };
            table.row([
                format!("{:4}", age(&seen["at"])).into(),
                event.into(),
                plain(&seen["stage"]).into(),
                plain(&seen["attempt"]).into(),
                plain(&seen["worker"]).into(),
                plain(&seen["by"]).into(),
                plain(why).into(),
            ]);
        }
        if args.reach.json { Ok(()) } else { Ok(table.print(&mut out)?) }
    })
}

async fn follow(target: &Target, args: &Events) -> anyhow::Result<()> {
    if target.is_alone() {
        let said = "no server uses this data directory, so nothing happens in it while this \
                    command holds it; start one with `windrow serve`";
        return Err(Stop::new(Exit::Failed, said).into());
    }
    let several = |names: &[String]| (!names.is_empty()).then(|| names.join(","));
    let ask = Ask::get(&["events"]).with("queue", several(&args.queues));
    let ask = ask.with("tenant", several(&args.tenants)).with("status", several(&args.statuses));
    let ask = ask.with("item", args.id.as_ref()).events();
    let body = target.follow(ask.clone()).await?;
    args.reach.say("following; Ctrl-C ends it");
    let (left, json) = (args.max.unwrap_or(u64::MAX), args.reach.json);
    let following = Following { target, ask, place: None, left, json };
    tokio::select! {
        ended = following.run(body) => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// A server says something every four seconds; one that says nothing for so long is away.
const SILENCE: Duration = Duration::from_secs(16);
/// Pauses before it is asked again: the first one, and the longest.
const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(2);

/// What is followed, on as many connections as it takes.
struct Following<'a> {
    target: &'a Target,
    ask: Ask,
    /// Up to where it was told.
    place: Option<String>,
    left: u64,
    json: bool,
}

impl Following<'_> {
    async fn run(mut self, mut body: Body) -> anyhow::Result<()> {
        while let Some(why) = self.read(body).await? {
            // Nobody comes back within this process.
            if !matches!(self.target, Target::Wire(_)) {
                return Err(Stop::new(Exit::Unreachable, why).into());
            }
            say(&format!("the server is away, asking again: {why}"));
            body = self.again().await?;
            say("the server answers again");
        }
        Ok(())
    }

    /// Tells what comes. Why nothing comes any more; none if it was enough.
    async fn read(&mut self, body: Body) -> anyhow::Result<Option<String>> {
        // What the last connection left unfinished comes again.
        let (mut stream, mut text_so_far) = (body.into_data_stream(), String::new());
        while self.left > 0 {
            let piece = match tokio::time::timeout(SILENCE, stream.next()).await {
                Ok(Some(Ok(piece))) => piece,
                Ok(Some(Err(error))) => return Ok(Some(error.to_string())),
                Ok(None) => return Ok(Some("it ended the stream".to_owned())),
                Err(_) => return Ok(Some("nothing came any more".to_owned())),
            };
            text_so_far.push_str(&String::from_utf8_lossy(&piece));
            while let Some(end) = text_so_far.find("\n\n").filter(|_| self.left > 0) {
                let event: String = text_so_far.drain(..end + 2).collect();
                self.left -= u64::from(tell(&event, self.json)?);
                self.place = field(&event, "id").map(str::to_owned).or(self.place.take());
            }
        }
        Ok(None)
    }

    /// Goes on where it was, once there is a server. One that says no is not asked again.
    async fn again(&self) -> Result<Body, Stop> {
        let ask = self.ask.clone().with("last_event_id", self.place.as_ref());
        let mut pause = FIRST;
        loop {
            tokio::time::sleep(pause).await;
            pause = LONGEST.min(pause * 2);
            match tokio::time::timeout(SILENCE, self.target.follow(ask.clone())).await {
                Ok(Err(stop)) if !may_pass(&stop) => return Err(stop),
                Ok(Ok(body)) => return Ok(body),
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }
}

/// Whether the same question may be answered later.
fn may_pass(stop: &Stop) -> bool {
    let passing = ["stopping", "overloaded", "store_failed", "timeout"];
    let code = stop.code.as_deref();
    stop.exit == Exit::Unreachable || code.is_some_and(|code| passing.contains(&code))
}

/// What an event of the stream says in a field.
fn field<'a>(event: &'a str, name: &str) -> Option<&'a str> {
    event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Prints an event of the stream. Whether it was one of an item.
fn tell(event: &str, json: bool) -> anyhow::Result<bool> {
    match (field(event, "event"), field(event, "data")) {
        (Some("reset"), _) => {
            say("something was missed; look at everything again");
            Ok(false)
        }
        (Some("item"), Some(data)) => {
            let mut out = std::io::stdout().lock();
            let told = Told::read(data.as_bytes())?;
            if json {
                told.print(&mut out)?;
            } else {
                let seen = &told.seen;
                let (id, status) = (text(seen, "id"), text(seen, "status"));
                writeln!(out, "{id} {} {} {status}", text(seen, "queue"), text(seen, "event"))?;
            }
            out.flush()?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow view unified_queue status:failed
  windrow view documents tenant:acme --json
      Items in the shapes that other systems have for them; docs/reference/seeds.md lists the views.
  windrow view task_queue_page document_id:01a1e554-9c99-7001-b210-29840971dd42")]
pub(super) struct View {
    /// unified_queue, stale_items, job_queue, documents, task_queue_page, task_queue_chunk or
    /// queue_stats.
    #[arg(value_name = "NAME")]
    name: String,
    /// What it is narrowed by, such as status:failed.
    #[arg(value_name = "KEY:VALUE")]
    filter: Vec<String>,
    /// How many rows at most.
    #[arg(long, short = 'n', default_value = "50", value_name = "N", value_parser = at_least_one)]
    limit: usize,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Deserialize)]
struct Rows {
    rows: Vec<Box<RawValue>>,
    next: Option<String>,
}

pub(super) fn view(args: &View) -> anyhow::Result<()> {
    let pair = |word: &String| {
        let (key, value) = word.split_once(':')?;
        Some((key.to_owned(), value.trim_matches('"').to_owned()))
    };
    let pairs: Option<Vec<(String, String)>> = args.filter.iter().map(pair).collect();
    let pairs = pairs.ok_or_else(|| Stop::usage("a view is narrowed by KEY:VALUE only"))?;
    with_target(&args.reach, async |target| {
        let (mut out, mut left, mut cursor) = (std::io::stdout().lock(), args.limit, None);
        let mut is_empty = true;
        loop {
            let limit = left.min(200).to_string();
            let mut ask = Ask::get(&["views", &args.name]).with("limit", Some(limit));
            for (key, value) in &pairs {
                ask = ask.with(key, Some(value));
            }
            let rows: Rows = target.read(ask.with("cursor", cursor.as_ref())).await?;
            left = left.saturating_sub(rows.rows.len());
            is_empty &= rows.rows.is_empty();
            for row in rows.rows {
                let row = Told::of(row)?;
                if args.reach.json {
                    row.print(&mut out)?;
                } else {
                    fields(&mut out, &row.seen)?;
                }
            }
            cursor = rows.next;
            if cursor.is_none() || left == 0 {
                break;
            }
        }
        if is_empty {
            let like = if pairs.is_empty() { "" } else { " that is like that" };
            say(&format!("there is nothing in {}{like}", args.name));
        }
        Ok(())
    })
}

/// A row with what is in it, one field per line.
fn fields(out: &mut impl std::io::Write, row: &Value) -> std::io::Result<()> {
    let mut table = Table::new(&[]);
    for (name, value) in row.as_object().into_iter().flatten() {
        table.pair(name, plain(value));
    }
    table.print(out)?;
    writeln!(out)
}
