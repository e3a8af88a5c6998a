//! `windrow enqueue`: one item, or a stream of them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _, Write as _};

use anyhow::Context as _;
use axum::body::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use windrow_core::limits::BLOB_MAX;
use windrow_wire::bytes::{Base64, Json};
use windrow_wire::item::BlobRef;
use windrow_wire::new::NewItem;
use windrow_wire::time::Time;

use super::exit::{Exit, Stop};
use super::reach::{Ask, Reach, Target};
use super::show::{Told, duration_ms, read, say, text};
use super::{counted, with_target_or_new};

/// Lines that go in one request, and their bytes.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Bytes from which on a payload goes by itself, as a blob.
const APART: usize = 1024 * 1024;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow enqueue thumbs '{\"file\": \"cat.jpg\"}' --key cat.jpg
      Prints the id of the new item. A key that waits already is not enqueued twice.
  windrow enqueue ocr @scan.pdf --content-type application/pdf --priority 8 --delay 10m
  tar c photos | windrow enqueue backup -
      The payload from a file, or from standard input.
  jq -c '{key: .name, payload: .}' files.json | windrow enqueue thumbs --ndjson
      One item per line, with the fields that the API has; several hundred in each request.

A payload that is JSON is kept as that, digit by digit; another text becomes a JSON text, and what
comes from a file or from standard input and is not JSON stays as its bytes. With a --content-type
that is not JSON's all of them stay as they are.")]
pub(super) struct Args {
    /// The queue. It begins to exist with its first item.
    #[arg(value_name = "QUEUE", add = super::complete::queues())]
    queue: String,
    /// JSON or a text, @FILE, or - for standard input.
    #[arg(value_name = "PAYLOAD", allow_hyphen_values = true)]
    payload: Option<String>,
    /// At most one item with this key waits.
    #[arg(long)]
    key: Option<String>,
    /// From 0, the lowest, to 10; 5 by default.
    #[arg(long, value_name = "N")]
    priority: Option<u8>,
    /// Not before so much time has passed: 30s, 5m, 2h.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration_ms,
        conflicts_with = "not_before",
        allow_hyphen_values = true,
    )]
    delay: Option<u64>,
    /// Not before this time, such as 2026-11-16T08:30:00Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    not_before: Option<Time>,
    /// Whose it is; `default` if nothing is said.
    #[arg(long)]
    tenant: Option<String>,
    /// What kind of item it is, which workers may ask for; `item` by default.
    #[arg(long)]
    kind: Option<String>,
    /// Items of a group wait for each other where the queue's settings limit groups.
    #[arg(long)]
    group: Option<String>,
    /// What the payload's bytes are, such as application/pdf.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Anything else about it, as JSON.
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    /// The stages that it goes through, separated by commas.
    #[arg(long, value_name = "STAGES", value_delimiter = ',')]
    route: Vec<String>,
    /// Read items from standard input, one per line.
    #[arg(
        long,
        conflicts_with_all = [
            "payload", "key", "priority", "delay", "not_before", "tenant", "kind", "group",
            "content_type", "metadata", "route",
        ]
    )]
    ndjson: bool,
    /// Make the data directory if there is no store in it yet.
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    // Read before anything is opened: what is wrong with it needs no queue to be said.
    let item = if args.ndjson { None } else { Some(item(args)?) };
    with_target_or_new(&args.reach, args.create, async |target| match item {
        Some(item) => one(target, args, item).await,
        None => lines(target, args).await,
    })
}

/// The item as the API takes it.
fn item(args: &Args) -> anyhow::Result<Fields> {
    let mut item = Fields::default();
    let texts = [
        ("key", &args.key),
        ("tenant", &args.tenant),
        ("kind", &args.kind),
        ("group", &args.group),
        ("content_type", &args.content_type),
    ];
    for (name, value) in texts {
        item.set(name, value.as_ref())?;
    }
    item.set("priority", args.priority)?;
    item.set("delay_ms", args.delay)?;
    item.set("not_before", args.not_before)?;
    if let Some(metadata) = &args.metadata {
        let read = Json::read(metadata.trim().as_bytes());
        item.set("metadata", Some(read.ok_or_else(|| Stop::usage("--metadata is not JSON"))?))?;
    }
    item.set("route", Some(&args.route).filter(|route| !route.is_empty()))?;
    Ok(item)
}

/// A time with its zone.
fn time(text: &str) -> Result<Time, &'static str> {
    serde_json::from_value(text.into()).map_err(|_| {
        "write the date, the time and its zone, such as 2026-11-16T08:30:00Z or \
         2026-11-16T09:30:00+01:00; or say with --delay how long it waits, such as 2h"
    })
}

/// An object whose values are sent as they were written.
#[derive(serde::Serialize, Default)]
#[serde(transparent)]
pub(super) struct Fields(BTreeMap<&'static str, Box<RawValue>>);

impl Fields {
    /// Says something, unless there is nothing to say.
    pub(super) fn set(
        &mut self,
        name: &'static str,
        value: Option<impl Serialize>,
    ) -> serde_json::Result<()> {
        if let Some(value) = value {
            self.0.insert(name, serde_json::value::to_raw_value(&value)?);
        }
        Ok(())
    }

    /// The same for bytes that may be JSON, under one of two names.
    pub(super) fn either(
        &mut self,
        (json, base64): (&'static str, &'static str),
        payload: Option<Payload>,
    ) -> serde_json::Result<()> {
        match payload {
            Some(Payload::Json(value)) => self.set(json, Some(value)),
            Some(Payload::Bytes(bytes)) => self.set(base64, Some(Base64(bytes))),
            None => Ok(()),
        }
    }
}

/// A payload, as text that may be JSON or as bytes.
pub(super) enum Payload {
    Json(Json),
    Bytes(Vec<u8>),
}

impl Payload {
    /// What an argument stands for.
    pub(super) fn of(said: &str) -> anyhow::Result<Payload> {
        match Payload::elsewhere(said)? {
            Some(bytes) => Ok(Payload::in_bytes(bytes)),
            None => Payload::typed(said, ""),
        }
    }

    /// The same of one that it is said of what it is. What is no JSON stays as it is, also if it
    /// looks like that.
    fn of_type(said: &str, content_type: Option<&str>) -> anyhow::Result<Payload> {
        let is_json = content_type.is_none_or(|of| of.contains("json"));
        Ok(match Payload::elsewhere(said)? {
            Some(bytes) if is_json => Payload::in_bytes(bytes),
            Some(bytes) => Payload::Bytes(bytes),
            None if is_json => {
                Payload::typed(said, " is sent as it is with --content-type text/plain, or")?
            }
            None => Payload::Bytes(said.into()),
        })
    }

    /// The bytes that an argument names: of a file, or of standard input.
    fn elsewhere(said: &str) -> anyhow::Result<Option<Vec<u8>>> {
        if said == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).context("standard input")?;
            return Ok(Some(bytes));
        }
        let Some(path) = said.strip_prefix('@') else { return Ok(None) };
        let bytes = std::fs::read(path).map_err(|error| {
            let exit = match error.kind() {
                std::io::ErrorKind::NotFound => Exit::NotFound,
                _ => Exit::Failed,
            };
            Stop::new(exit, format!("{path}: {error}; nothing was written"))
        })?;
        Ok(Some(bytes))
    }

    /// What was typed: JSON or a text, which may be sent in these ways too.
    fn typed(said: &str, ways: &str) -> anyhow::Result<Payload> {
        let is_json = Json::read(said.trim().as_bytes()).is_some();
        if !is_json && said.trim_start().starts_with(['{', '[', '"']) {
            let why = windrow_wire::read::syntax(said.as_bytes()).unwrap_or_default();
            let said = format!(
                "it begins as JSON and is none: {why}; a shell needs JSON in '…', and another \
                 text{ways} stands in quotes: '\"…\"'"
            );
            return Err(Stop::usage(said).into());
        }
        Ok(Json::of(said.trim()).map_or(Payload::Bytes(said.into()), Payload::Json))
    }

    fn len(&self) -> usize {
        match self {
            Payload::Json(json) => json.text().len(),
            Payload::Bytes(bytes) => bytes.len(),
        }
    }

    fn in_bytes(bytes: Vec<u8>) -> Payload {
        match Json::read(bytes.trim_ascii()) {
            Some(json) => Payload::Json(json),
            None => Payload::Bytes(bytes),
        }
    }
}

/// Whether somebody sends something to standard input, perhaps in vain.
fn is_piped() -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let input = std::fs::metadata("/dev/stdin");
    input.is_ok_and(|input| input.file_type().is_fifo() || input.is_file() && input.len() > 0)
}

/// Sends a large payload by itself, and gives what an item says of it.
async fn kept_apart(target: &Target, args: &Args, payload: Payload) -> anyhow::Result<BlobRef> {
    let bytes = match payload {
        Payload::Json(json) => json.into_bytes(),
        Payload::Bytes(bytes) => bytes,
    };
    let (hash, len) = (Sha256::digest(&bytes).into(), bytes.len() as u64);
    if len > BLOB_MAX {
        // Whoever sends more may see the connection end before the answer comes.
        return Err(Stop::usage(format!("{len} bytes; a blob has at most {BLOB_MAX}")).into());
    }
    let blob = BlobRef::from(windrow_core::item::BlobRef { hash, len });
    let ask = Ask::put(&["blobs", &blob.sha256]).with("tenant", args.tenant.as_ref());
    target.ask(ask.of_type("application/octet-stream", bytes.into())).await?;
    Ok(blob)
}

async fn one(target: &Target, args: &Args, mut item: Fields) -> anyhow::Result<()> {
    let content_type = args.content_type.as_deref();
    let payload = args.payload.as_deref();
    let payload = payload.map(|said| Payload::of_type(said, content_type)).transpose()?;
    if payload.is_none() && is_piped() {
        say("the item has no payload; standard input is read where - is given");
    }
    match payload {
        Some(payload) if payload.len() > APART => {
            let kind = match payload {
                Payload::Json(_) => "application/json",
                Payload::Bytes(_) => "application/octet-stream",
            };
            item.set("content_type", Some(content_type.unwrap_or(kind)))?;
            item.set("payload_ref", Some(kept_apart(target, args, payload).await?))?;
        }
        payload => item.either(("payload", "payload_base64"), payload)?,
    }
    let ask = Ask::post(&["queues", &args.queue, "items"]).json(&item)?.once();
    let told = Told::read(&target.ask(ask).await?)?;
    let mut out = std::io::stdout().lock();
    if args.reach.json {
        return Ok(told.print(&mut out)?);
    }
    match text(&told.seen, "outcome") {
        "duplicate" => say("an item with this key waits already, and is kept"),
        "replaced" => say("an item with this key waits already, and took this payload"),
        "successor" => say("an item with this key is being worked on; this one waits for its end"),
        _ => {}
    }
    Ok(writeln!(out, "{}", text(&told.seen, "id"))?)
}

/// What became of a stream.
#[derive(Default)]
struct Sum {
    outcomes: BTreeMap<String, u64>,
    refused: u64,
}

async fn lines(target: &Target, args: &Args) -> anyhow::Result<()> {
    let mut sum = Sum::default();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let mut lines = std::io::stdin().lock().lines().enumerate();
    loop {
        let next = lines.next();
        let is_over = next.is_none();
        if let Some((at, line)) = next {
            let line = line.with_context(|| format!("standard input, line {}", at + 1))?;
            if line.trim().is_empty() {
                continue;
            }
            match windrow_wire::read::object::<NewItem>(line.as_bytes()) {
                Ok(_) => {
                    bytes += line.len() + 1;
                    batch.push((at + 1, line));
                }
                Err(why) => {
                    // Each line is read alone, where it is the first.
                    let why = why.replace(" at line 1 column ", " at column ");
                    say(&format!("line {}: {why}", at + 1));
                    sum.refused += 1;
                }
            }
        }
        let is_full = batch.len() >= BATCH || bytes >= BATCH_BYTES;
        if (is_full || is_over) && !batch.is_empty() {
            send(target, args, &std::mem::take(&mut batch), &mut sum).await?;
            bytes = 0;
        }
        if is_over {
            break;
        }
    }
    let is_any_enqueued = !sum.outcomes.is_empty();
    if !args.reach.json {
        let parts = sum.outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}"));
        let mut parts: Vec<String> = parts.collect();
        if parts.is_empty() {
            parts.push("nothing enqueued".to_owned());
        }
        writeln!(std::io::stdout().lock(), "{}", parts.join(", "))?;
    }
    match sum.refused {
        0 => Ok(()),
        refused => {
            let lines = counted(refused, "line");
            let others = if is_any_enqueued { "the others are" } else { "nothing is" };
            let said = format!("{lines} refused; {others} enqueued");
            Err(Stop::new(Exit::Partly, said).into())
        }
    }
}

async fn send(
    target: &Target,
    args: &Args,
    batch: &[(usize, String)],
    sum: &mut Sum,
) -> anyhow::Result<()> {
    let mut body = String::new();
    for (_, line) in batch {
        body.push_str(line);
        body.push('\n');
    }
    let ask = Ask::post(&["queues", &args.queue, "items"]);
    let ask = ask.of_type("application/x-ndjson", Bytes::from(body)).once();
    let first = batch.first().map_or(1, |(at, _)| *at);
    let answer = target.ask(ask).await.map_err(|stop| {
        Stop::new(stop.exit, format!("from line {first} on nothing is enqueued: {stop}"))
    })?;
    let each: Vec<Box<RawValue>> = read(&answer)?;
    let mut out = std::io::stdout().lock();
    for ((line, _), answer) in batch.iter().zip(each) {
        let answer = Told::of(answer)?;
        match answer.seen["outcome"].as_str() {
            Some(outcome) => *sum.outcomes.entry(outcome.to_owned()).or_default() += 1,
            None => {
                sum.refused += 1;
                say(&format!("line {line}: {}", text(&answer.seen, "detail")));
            }
        }
        if args.reach.json {
            answer.print(&mut out)?;
        }
    }
    Ok(())
}
