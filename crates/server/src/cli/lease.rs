//! `windrow claim`, `renew` and `settle`: work by hand.

use std::io::Write as _;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use windrow_core::limits::COMMAND_ITEMS_MAX;

use super::drain::drained;
use super::enqueue::{Fields, Payload};
use super::exit::{Exit, Stop, exit_of};
use super::meant::Named;
use super::queues::remarks;
use super::reach::{Ask, Reach, Target};
use super::show::{Table, Told, duration_ms, lease_ms, moment, plain, read, short, text};
use super::with_target;

/// Longest wait of one request; the server has a limit of its own, above this.
const WAIT_SLICE_MS: u64 = 30_000;
/// Letters of a payload that a table shows.
const PAYLOAD_MAX: usize = 60;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow claim thumbs
      Takes one item and shows it with its lease. Ends with 6 if there is nothing.
  windrow claim
      Takes one of any queue; QUEUE says which it is of.
  windrow claim thumbs ocr --max 10 --wait 1m --lease 5m --json
  windrow settle LEASE ID complete --result '{\"pages\": 3}'
      What was claimed is settled by its lease, before that runs out.

To run a command for every item, use `windrow work`, which renews and settles by itself.")]
pub(super) struct Claim {
    /// The queues to take from; all but Windrow's own if none is named.
    #[arg(value_name = "QUEUE", add = super::complete::queues())]
    queues: Vec<String>,
    /// How many items at most.
    #[arg(
        long,
        default_value_t = 1,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1000),
    )]
    max: u32,
    /// How long the lease lasts: 30s, 5m, 2h; by default as the queue's settings say.
    #[arg(long, value_name = "TIME", value_parser = lease_ms)]
    lease: Option<u64>,
    /// How long to wait for work if there is none.
    #[arg(long, value_name = "TIME", value_parser = duration_ms, default_value = "0s")]
    wait: u64,
    /// Who claims, as others see it.
    #[arg(long, default_value = "windrow claim")]
    worker: String,
    /// Only items in these stages.
    #[arg(long = "stage", value_name = "STAGE", add = super::complete::stages())]
    stages: Vec<String>,
    /// Only items of these kinds.
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// Only items of these tenants.
    #[arg(long = "tenant", value_name = "TENANT")]
    tenants: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

impl Claim {
    fn named(&self) -> Named {
        Named {
            queues: self.queues.clone(),
            stages: self.stages.clone(),
            kinds: self.kinds.clone(),
            tenants: self.tenants.clone(),
        }
    }
}

pub(super) fn claim(args: &Claim) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        if let Target::Here(here) = target {
            here.reclaim().await?;
        }
        if args.wait > 0 {
            target.keeps_time();
        }
        let mut left = args.wait;
        let told = loop {
            let wait = left.min(WAIT_SLICE_MS);
            let body = json!({
                "queues": args.queues, "stages": args.stages, "kinds": args.kinds,
                "tenants": args.tenants, "max": args.max, "lease_ms": args.lease,
                "wait_ms": wait, "worker": args.worker,
            });
            let ask = Ask::post(&["claims"]).json(&body)?.once();
            let ask = ask.waits(Duration::from_millis(wait));
            let told = Told::read(&target.ask(ask).await?)?;
            left -= wait;
            if !told.seen["lease"].is_null() || left == 0 {
                break told;
            }
        };
        let mut out = std::io::stdout().lock();
        if args.reach.json {
            told.print(&mut out)?;
        } else if !told.seen["lease"].is_null() {
            granted(&mut out, &told)?;
        }
        if told.seen["lease"].is_null() {
            // Not everybody may know who is drained.
            let drained = drained(target, &[&args.worker]).await.unwrap_or_default().pop();
            let why = drained.unwrap_or_else(|| "there is nothing to claim".to_owned());
            let remarks = remarks(target, &args.named(), &args.reach.named()).await;
            let (remarks, _) = remarks.unwrap_or_default();
            let why = [&[why], &remarks[..]].concat().join("; ");
            return Err(Stop::new(Exit::Nothing, why).into());
        }
        Ok(())
    })
}

fn granted(out: &mut impl std::io::Write, told: &Told) -> anyhow::Result<()> {
    let granted = &told.seen;
    let (lease, ends) = (text(granted, "lease"), moment(&granted["expires_at"]));
    writeln!(out, "lease {lease}, ends {ends}")?;
    let mut table = Table::new(&["ID", "QUEUE", "STAGE", "TRY", "KEY", "PAYLOAD"]);
    for told in told.each("items")? {
        let item = &told.seen;
        let names = ["input", "input_base64", "payload", "payload_base64", "payload_ref"];
        let payload = names.iter().find(|name| !item[**name].is_null());
        let payload = payload.map(|name| told.verbatim(name)).unwrap_or_default();
        table.row([
            text(item, "id").into(),
            plain(&item["queue"]).into(),
            plain(&item["stage"]).into(),
            plain(&item["attempt"]).into(),
            plain(&item["key"]).into(),
            short(&payload, PAYLOAD_MAX).into(),
        ]);
    }
    Ok(table.print(out)?)
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow renew 7f8cf7a9-1c5e-4b8e-9d53-0d1c1f6f2b77
      As much time again as it was granted for. Ends with 8 if the lease holds nothing any more.
  windrow renew 7f8cf7a9-1c5e-4b8e-9d53-0d1c1f6f2b77 --lease 10m")]
pub(super) struct Renew {
    /// The lease, as `windrow claim` shows it.
    #[arg(value_name = "LEASE")]
    lease_id: String,
    /// How long from now on.
    #[arg(long, value_name = "TIME", value_parser = lease_ms)]
    lease: Option<u64>,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn renew(args: &Renew) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        let ask = Ask::post(&["leases", &args.lease_id, "renew"]);
        let ask = ask.json(&json!({ "lease_ms": args.lease }))?;
        let told = Told::read(&target.ask(ask).await?)?;
        let mut out = std::io::stdout().lock();
        if args.reach.json {
            return Ok(told.print(&mut out)?);
        }
        let held = told.seen["held"].as_array().map_or(0, Vec::len) as u64;
        let (held, ends) = (super::counted(held, "item"), moment(&told.seen["expires_at"]));
        Ok(writeln!(out, "holds {held}, ends {ends}")?)
    })
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow settle LEASE ID complete --result '{\"pages\": 3}'
  windrow settle LEASE ID retry --error 'the printer is on fire' --delay 10m
  windrow settle LEASE ID fail --class bad_data --error 'not a picture'
  windrow settle LEASE ID split --children '[{\"ordinal\": 0, \"kind\": \"page\"}]'
  windrow settle LEASE ID release
      Back in line, at no attempt's cost.

Ends with 8 if the lease does not hold the item: it is somebody else's by now.")]
pub(super) struct Settle {
    /// The lease, as `windrow claim` shows it.
    #[arg(value_name = "LEASE")]
    lease: String,
    /// The item.
    #[arg(value_name = "ID")]
    id: String,
    /// How the work ended.
    #[arg(value_enum, value_name = "OUTCOME")]
    outcome: Outcome,
    /// For complete: what it came to, as JSON, a text, @FILE or -.
    #[arg(long, value_name = "JSON")]
    result: Option<String>,
    /// For complete and split: what the next stage gets, as JSON, a text, @FILE or -.
    #[arg(long, value_name = "JSON")]
    output: Option<String>,
    /// For retry and fail: what went wrong.
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// For retry and fail: what kind of error it is; other by default.
    #[arg(
        long,
        value_parser = ["other", "gone", "bad_data", "resource", "infrastructure", "rate_limit"],
    )]
    class: Option<String>,
    /// For skip: why.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// For retry and release: how long to wait.
    #[arg(long, value_name = "TIME", value_parser = duration_ms, allow_hyphen_values = true)]
    delay: Option<u64>,
    /// For snooze: until when, such as 2026-11-16T08:30:00Z.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// For split: the children as a JSON array, or @FILE or -.
    #[arg(long, value_name = "JSON")]
    children: Option<String>,
    /// For split: more children will come.
    #[arg(long)]
    more: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, Debug)]
enum Outcome {
    /// On to the next stage, or completed.
    Complete,
    /// Waits for its children.
    Split,
    /// Tried again after a while, or failed after its last attempt.
    Retry,
    /// Failed.
    Fail,
    /// Skipped in this stage.
    Skip,
    /// Back in line; costs no attempt.
    Release,
    /// Back in line at a time; costs no attempt.
    Snooze,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Outcome::Complete => "complete",
            Outcome::Split => "split",
            Outcome::Retry => "retry",
            Outcome::Fail => "fail",
            Outcome::Skip => "skip",
            Outcome::Release => "release",
            Outcome::Snooze => "snooze",
        }
    }
}

pub(super) fn settle(args: &Settle) -> anyhow::Result<()> {
    let item = ended(args)?;
    with_target(&args.reach, async |target| {
        let ask = Ask::post(&["leases", &args.lease, "settle"]);
        let ask = ask.json(&json!({ "items": [&item] }))?.once();
        let answer = target.ask(ask).await.map_err(|stop| match stop.exit {
            Exit::Usage => Stop::usage(as_flag(&stop.message).unwrap_or(stop.message)),
            _ => stop,
        })?;
        let mut each: Vec<Box<RawValue>> = read(&answer)?;
        let Some(answer) = each.pop() else {
            return Err(Stop::new(Exit::Failed, "the server did not answer for the item").into());
        };
        let told = Told::of(answer)?;
        let mut out = std::io::stdout().lock();
        if args.reach.json {
            told.print(&mut out)?;
        }
        if let Some(code) = told.seen["error"].as_str() {
            let detail = text(&told.seen, "detail");
            if let Some(said) = as_flag(detail).filter(|_| code == "invalid") {
                return Err(Stop::usage(said).into());
            }
            if let Some(why) = detail.strip_prefix("id: ").filter(|_| code == "invalid") {
                return Err(Stop::new(Exit::NotFound, format!("{:?} {why}", args.id)).into());
            }
            let exit = match (exit_of(409, code), code) {
                (_, "not_found") => Exit::NotFound,
                (Exit::Failed, _) => Exit::Partly,
                (exit, _) => exit,
            };
            return Err(Stop::new(exit, text(&told.seen, "detail")).into());
        }
        if !args.reach.json {
            writeln!(out, "{} {}", text(&told.seen, "id"), text(&told.seen, "ending"))?;
        }
        Ok(())
    })
}

/// What is said of a field of the API, as of the flag that it comes from.
fn as_flag(detail: &str) -> Option<String> {
    const FLAGS: [&str; 8] =
        ["children", "class", "delay", "error", "output", "reason", "result", "until"];
    let (field, why) = detail.strip_prefix("items[0].").unwrap_or(detail).split_once(": ")?;
    let (name, place) = field.split_at(field.find(['[', '.']).unwrap_or(field.len()));
    let flag = name.trim_end_matches("_base64").trim_end_matches("_ms");
    let goes_on = ["is ", "must ", "cannot "].iter().any(|begins| why.starts_with(begins));
    let joint = if goes_on { "" } else { ":" };
    FLAGS.contains(&flag).then(|| format!("--{flag}{place}{joint} {why}"))
}

/// How the attempt ended, as the API takes it.
fn ended(args: &Settle) -> anyhow::Result<Fields> {
    if args.outcome == Outcome::Split && args.children.is_none() {
        let said = "--children is missing; what has none is settled with complete";
        return Err(Stop::usage(said).into());
    }
    let said = |said: &Option<String>| said.as_deref().map(Payload::of).transpose();
    let mut item = Fields::default();
    item.set("id", Some(&args.id))?;
    item.set("outcome", Some(args.outcome.name()))?;
    item.set("error", args.error.as_ref())?;
    item.set("class", args.class.as_ref())?;
    item.set("reason", args.reason.as_ref())?;
    item.set("until", args.until.as_ref())?;
    item.set("delay_ms", args.delay)?;
    item.either(("result", "result_base64"), said(&args.result)?)?;
    item.either(("output", "output_base64"), said(&args.output)?)?;
    match said(&args.children)? {
        Some(Payload::Json(children)) => {
            let count =
                serde_json::from_str::<Vec<&RawValue>>(children.text()).map_or(0, |c| c.len());
            if count > COMMAND_ITEMS_MAX {
                let said =
                    format!("--children has {count}, of at most {COMMAND_ITEMS_MAX} at once");
                let more = "give them in slices with --more, the last one without it";
                return Err(Stop::usage(format!("{said}; {more}")).into());
            }
            item.set("children", Some(children))?;
        }
        Some(Payload::Bytes(_)) => {
            return Err(Stop::usage("--children is not JSON; give an array of children").into());
        }
        None => {}
    }
    item.set("more", args.more.then_some(true))?;
    Ok(item)
}
