//! `windrow dump`: what a store holds, as JSON lines. Changes nothing in it.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use windrow_core::item::{Payload, State};
use windrow_core::tally::{Bucket, Counts};
use windrow_core::{ItemId, Timestamp};
use windrow_store::embedded::overlay::Overlay;
use windrow_store::embedded::{Embedded, Entry, Family, Options};
use windrow_store::moving::{Export, Moved, PAGE};
use windrow_store::postgres::{self, Postgres};

use super::data_dir::{not_opened, to_read};
use super::place::{Place, PlaceArgs};
use super::runtime;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    place: PlaceArgs,
    /// What to print. A database has only items.
    #[arg(long = "as", value_enum, default_value_t = Shape::Items)]
    shape: Shape,
}

const EXAMPLES: &str = "\
Examples:
  windrow dump /var/lib/windrow
  windrow dump /var/lib/windrow --as records
  windrow dump --store postgres://windrow@db.example/queue

An item is the same line, whichever kind of store it is in.";

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, Debug)]
enum Shape {
    /// One line per item, oldest first: what was enqueued and what became of it.
    Items,
    /// The keys of `available`, `in_progress`, `visibility_index`, `leases` and `lease_expiry`,
    /// in key order.
    Families,
    /// One line per record of the log: where it lies, its kind, its length.
    Records,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args.place.place()? {
        Place::Directory(path) => directory(&path, args.shape),
        Place::Database(options) => {
            anyhow::ensure!(
                args.shape == Shape::Items,
                "a database has no log and no families; --as items is what it has"
            );
            runtime()?.block_on(database(options))
        }
    }
}

fn directory(path: &Path, shape: Shape) -> anyhow::Result<()> {
    // What opening writes stays in memory.
    let disk = Arc::new(Overlay::over(to_read(path)?));
    let opened = Embedded::open(disk, Options::default());
    let store = opened.map_err(|error| not_opened(path, &error))?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    match shape {
        Shape::Items => runtime()?.block_on(items(&store.outgoing(), &mut out))?,
        Shape::Families => families(&store, &mut out)?,
        Shape::Records => records(&store, &mut out)?,
    }
    out.flush()?;
    Ok(())
}

async fn database(mut options: postgres::Options) -> anyhow::Result<()> {
    options.migrate = false;
    let store = Postgres::open(options).await?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    items(&store, &mut out).await?;
    out.flush()?;
    Ok(())
}

async fn items<S: Export>(store: &S, out: &mut impl Write) -> anyhow::Result<()> {
    let mut after: Option<ItemId> = None;
    loop {
        let page = store.moved(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.item.id);
        for moved in &page {
            writeln!(out, "{}", describe(moved))?;
        }
    }
}

fn time(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, |at| at.to_string().into())
}

fn counts(counts: &Counts) -> Value {
    let each = Bucket::ALL.into_iter().filter(|bucket| counts.of(*bucket) > 0);
    each.map(|bucket| (format!("{bucket:?}").to_lowercase(), counts.of(bucket).into()))
        .collect::<serde_json::Map<String, Value>>()
        .into()
}

fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "bytes": bytes.len() }),
    }
}

fn describe(seen: &Moved) -> Value {
    let Moved { item, body, trail, tally, successor, .. } = seen;
    let trail = trail.clone().unwrap_or_default();
    let stages: Vec<Value> = trail
        .stages
        .iter()
        .zip(&body.route.stages)
        .map(|(record, stage)| {
            json!({
                "stage": *stage.name,
                "status": record.status.name(),
                "attempts": record.attempts,
                "worker": record.worker.as_deref(),
                "started_at": time(record.started),
                "completed_at": time(record.completed),
                "error": record.error.as_ref().map(|fault| {
                    json!({ "class": fault.class.name(), "message": fault.message })
                }),
            })
        })
        .collect();
    let not_before = match item.state {
        State::Pending { not_before } | State::Held { not_before } if not_before.0 > 0 => {
            Some(not_before)
        }
        _ => None,
    };
    let payload = match &body.payload {
        Payload::Inline(payload) => bytes(payload),
        Payload::Blob(blob) => json!({ "blob_bytes": blob.len }),
    };
    json!({
        "id": item.id.to_string(),
        "tenant": *body.tenant,
        "queue": *body.queue,
        "kind": *body.kind,
        "op": *body.op,
        "key": body.key,
        "group": body.group.as_deref(),
        "priority": item.priority,
        "status": tally.as_ref().filter(|_| item.state == State::Split)
            .map_or(item.status(), |tally| tally.status()).name(),
        "stage": *body.route.stage(item.stage).name,
        "attempts": item.attempts,
        "not_before": time(not_before),
        "created_at": item.id.created_at().to_string(),
        "finished_at": time(trail.finished_at),
        "parent": item.place.map(|place| place.parent.to_string()),
        "ordinal": item.place.map(|place| place.number()),
        "successor": successor.map(|id| id.to_string()),
        "stages": stages,
        "children": tally.as_ref().map(|tally| counts(&tally.children)),
        "phases": tally.as_ref().map(|tally| {
            tally.phases.iter().map(|(name, of)| (name.to_string(), counts(of)))
                .collect::<serde_json::Map<String, Value>>()
        }),
        "payload": payload,
        "result": trail.result.as_deref().map(bytes),
    })
}

/// A key as people read it: its text, then hexadecimal digits.
fn readable(key: &[u8]) -> String {
    let name = key.iter().position(|byte| *byte == b'/').unwrap_or(key.len());
    let (name, rest) = key.split_at(name);
    let mut text = String::from_utf8_lossy(name).into_owned();
    let parts: Vec<&[u8]> = match rest.len() {
        17 => vec![&rest[1..]],
        26 => vec![&rest[1..9], &rest[10..]],
        _ => vec![rest],
    };
    for part in parts {
        text.push('/');
        part.iter().for_each(|byte| text.push_str(&format!("{byte:02x}")));
    }
    text
}

fn families(store: &Embedded, out: &mut impl Write) -> anyhow::Result<()> {
    let families = store.families();
    let print = |family: &Family, out: &mut dyn Write| -> anyhow::Result<()> {
        for (key, entry) in family {
            let value = match entry {
                Entry::Item { payload_bytes } => json!({ "payload_bytes": payload_bytes }),
                Entry::Reference(key) => json!(readable(key)),
                Entry::Lease { ids, expires_s } => {
                    let ids: Vec<String> =
                        ids.iter().map(|id| ItemId(u128::from_be_bytes(*id)).to_string()).collect();
                    json!({ "ids": ids, "expires_s": expires_s })
                }
            };
            writeln!(out, "{}", json!({ "key": readable(key), "value": value }))?;
        }
        Ok(())
    };
    print(&families.available, out)?;
    print(&families.in_progress, out)?;
    print(&families.visibility_index, out)?;
    print(&families.leases, out)?;
    print(&families.lease_expiry, out)?;
    match families.broken() {
        Some(what) => anyhow::bail!("{what}"),
        None => Ok(()),
    }
}

fn records(store: &Embedded, out: &mut impl Write) -> anyhow::Result<()> {
    let mut failed = None;
    store.records(|at, kind, bytes| {
        let line = json!({
            "segment": at.segment(), "offset": at.offset(), "record": kind, "bytes": bytes,
        });
        if let Err(error) = writeln!(out, "{line}") {
            failed.get_or_insert(error);
        }
    })?;
    failed.map_or(Ok(()), |error| Err(error.into()))
}
