//! `windrow queues`, `stats`, `settings`, `pause` and `resume`.

use std::io::Write as _;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use windrow_core::settings;
use windrow_wire::settings as wire;

use super::enqueue::Payload;
use super::exit::{Stop, without_place};
use super::meant::{Named, meant_by, unknown_queue};
use super::reach::{Ask, Reach, Target};
use super::shell::as_word;
use super::show::{Table, Told, plain, read, say, say_note, text};
use super::with_target;

const STATUSES: [&str; 6] =
    ["pending", "processing", "completed", "failed", "cancelled", "skipped"];
const HEAD: [&str; 6] = ["PENDING", "PROCESSING", "COMPLETED", "FAILED", "CANCELLED", "SKIPPED"];

/// The counts of a place, aligned to the right.
fn counts(of: &Value) -> [super::show::Cell; 6] {
    let mut at = 0;
    STATUSES.map(|status| {
        let count = of[status].as_u64().unwrap_or_default();
        at += 1;
        format!("{count:>width$}", width = HEAD[at - 1].len()).into()
    })
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow queues
      Every queue that has items or settings or is paused.
  windrow queues --json | jq -r 'select(.paused != []) | .queue'")]
pub(super) struct Queues {
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn queues(args: &Queues) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        let body = target.ask(Ask::get(&["queues"])).await?;
        let mut out = std::io::stdout().lock();
        let [a, b, c, d, e, f] = HEAD;
        let mut table = Table::new(&["QUEUE", a, b, c, d, e, f, "PAUSED"]);
        for queue in read::<Vec<Box<RawValue>>>(&body)? {
            let queue = Told::of(queue)?;
            if args.reach.json {
                queue.print(&mut out)?;
                continue;
            }
            let [a, b, c, d, e, f] = counts(&queue.seen);
            let paused = queue.seen["paused"].as_array().into_iter().flatten().map(part);
            let paused = paused.collect::<Vec<_>>().join(", ");
            table.row([plain(&queue.seen["queue"]).into(), a, b, c, d, e, f, paused.into()]);
        }
        if table.is_empty() && !args.reach.json {
            say("there is no queue yet; `windrow enqueue QUEUE` makes one");
        } else if !args.reach.json {
            table.print(&mut out)?;
        }
        Ok(())
    })
}

/// Says of each of these queues, or of all, what of it is paused, and which of the names may be
/// slips; and whether all of all is paused. `place` is how the caller named where they are.
pub(super) async fn remarks(
    target: &Target,
    named: &Named,
    place: &str,
) -> Result<(Vec<String>, bool), Stop> {
    let known: Vec<Value> = target.read(Ask::get(&["queues"])).await?;
    let (queues, mut whole) = (&named.queues, 0);
    let names = || known.iter().map(|queue| text(queue, "queue"));
    let mut told: Vec<String> =
        queues.iter().filter_map(|name| unknown_queue(name, names())).collect();
    told.extend(named.slips(target).await);
    for queue in &known {
        let name = text(queue, "queue");
        let pauses: Vec<&Value> = queue["paused"].as_array().into_iter().flatten().collect();
        if pauses.is_empty() || !queues.is_empty() && !queues.iter().any(|asked| asked == name) {
            continue;
        }
        let parts: Vec<String> = pauses.iter().map(|of| part(of)).collect();
        let is_whole = parts.iter().any(|part| part == "all");
        whole += usize::from(is_whole);
        let what =
            if is_whole { String::new() } else { format!(" in part ({})", parts.join(", ")) };
        let resume: Vec<String> =
            pauses.iter().map(|of| format!("`{}`", resume_line(name, of, place))).collect();
        let lets = if resume.len() > 1 { "let" } else { "lets" };
        let resume = resume.join(" and ");
        told.push(format!("{name} is paused{what}; {resume} {lets} it be handed out"));
    }
    Ok((told, !queues.is_empty() && whole == queues.len()))
}

/// The command that ends a pause.
fn resume_line(queue: &str, of: &Value, place: &str) -> String {
    let mut flags = String::new();
    for (flag, name) in [("--stage", &of["stage"]), ("--tenant", &of["tenant"])] {
        if let Some(name) = name.as_str() {
            flags.push_str(&format!(" {flag}={}", as_word(name)));
        }
    }
    let (queue, flags) = (as_word(queue), flags + place);
    if queue.starts_with('-') {
        return format!("windrow resume{flags} -- {queue}");
    }
    format!("windrow resume {queue}{flags}")
}

/// What of a queue is paused.
fn part(of: &Value) -> String {
    match (of["stage"].as_str(), of["tenant"].as_str()) {
        (None, None) => "all".to_owned(),
        (Some(stage), None) => format!("stage {stage}"),
        (None, Some(tenant)) => format!("tenant {tenant}"),
        (Some(stage), Some(tenant)) => format!("stage {stage} of tenant {tenant}"),
    }
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow stats
      Items by status, by queue and tenant, and in all.
  windrow stats --queue thumbs --json | jq .failed")]
pub(super) struct Stats {
    /// Only this queue.
    #[arg(long, add = super::complete::queues())]
    queue: Option<String>,
    /// Only this tenant.
    #[arg(long)]
    tenant: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn stats(args: &Stats) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        let ask = Ask::get(&["queue", "stats"]).with("queue", args.queue.as_ref());
        let told = Told::read(&target.ask(ask.with("tenant", args.tenant.as_ref())).await?)?;
        let mut out = std::io::stdout().lock();
        let places = told.seen["queues"].as_array();
        if places.is_none_or(Vec::is_empty)
            && let Some(meant) =
                meant_by(target, args.queue.as_deref(), args.tenant.as_deref()).await
        {
            say(&meant);
        }
        if args.reach.json {
            return Ok(told.print(&mut out)?);
        }
        let [a, b, c, d, e, f] = HEAD;
        let mut table = Table::new(&["QUEUE", "TENANT", a, b, c, d, e, f]);
        for place in places.into_iter().flatten() {
            let [a, b, c, d, e, f] = counts(place);
            let (queue, tenant) = (plain(&place["queue"]), plain(&place["tenant"]));
            table.row([queue.into(), tenant.into(), a, b, c, d, e, f]);
        }
        let [a, b, c, d, e, f] = counts(&told.seen);
        table.row(["(all)".into(), "(all)".into(), a, b, c, d, e, f]);
        Ok(table.print(&mut out)?)
    })
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow settings thumbs
      How the queue behaves, as JSON.
  windrow settings thumbs lease_ms=60000 max_attempts=5 retention.max_age_ms=604800000
      Changes these, and leaves the others as they are.
  windrow settings thumbs --set @thumbs.json
      Replaces them all; what is left out is as it is by default.
  windrow settings thumbs --reset
      What a new queue has.")]
pub(super) struct Settings {
    #[arg(value_name = "QUEUE", add = super::complete::queues())]
    queue: String,
    /// What to change; a value is JSON or a text, and a dot leads into an object.
    #[arg(value_name = "NAME=VALUE")]
    changes: Vec<String>,
    /// All settings as JSON, @FILE, or - for standard input.
    #[arg(long, value_name = "JSON", conflicts_with = "changes")]
    set: Option<String>,
    /// Take back all that was set.
    #[arg(long, conflicts_with_all = ["changes", "set"])]
    reset: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn settings(args: &Settings) -> anyhow::Result<()> {
    with_target(&args.reach, async |target| {
        let path = ["queues", &args.queue, "settings"];
        let mut out = std::io::stdout().lock();
        if args.reset {
            let told = Told::read(&target.ask(Ask::delete(&path)).await?)?;
            if args.reach.json {
                told.print(&mut out)?;
            }
            say(&format!("the settings of {} are as they are by default", args.queue));
            return Ok(());
        }
        if args.set.is_none() && args.changes.is_empty() {
            let told = Told::read(&target.ask(Ask::get(&path)).await?)?;
            let named = Named { queues: vec![args.queue.clone()], ..Named::default() };
            let remarks = remarks(target, &named, &args.reach.named()).await;
            if args.reach.json {
                told.print(&mut out)?;
            } else {
                writeln!(out, "{:#}", told.seen)?;
                say(&set_of(&told.seen));
            }
            // Not everybody may know which queues there are.
            remarks.unwrap_or_default().0.iter().for_each(|remark| say(remark));
            return Ok(());
        }
        let ask = match &args.set {
            Some(said) => match Payload::of(said)? {
                Payload::Json(settings) => Ask::put(&path).json(&settings)?,
                Payload::Bytes(_) => return Err(Stop::usage("the settings are not JSON").into()),
            },
            None => {
                let mut settings: Value = target.read(Ask::get(&path)).await?;
                args.changes.iter().try_for_each(|change| apply(&mut settings, change))?;
                Ask::put(&path).json(&settings)?
            }
        };
        let told = Told::read(&target.ask(ask).await?)?;
        if args.reach.json {
            told.print(&mut out)?;
        }
        say(&format!("the settings of {} are changed", args.queue));
        say_note(&told);
        Ok(())
    })
}

/// What of these settings is otherwise than by default, by whomever it was said: for this queue, or
/// in the configuration of its server.
fn set_of(settings: &Value) -> String {
    let default = settings::Settings::default().in_force();
    let default = serde_json::to_value(wire::Settings::from(default)).unwrap_or_default();
    let mut names = Vec::new();
    differing("", settings, &default, &mut names);
    match names.is_empty() {
        true => "all as Windrow has it by default".to_owned(),
        false => format!("other than Windrow has it by default: {}", names.join(", ")),
    }
}

/// The names of what differs, by dots.
fn differing(name: &str, value: &Value, default: &Value, names: &mut Vec<String>) {
    match (value, default) {
        (Value::Object(fields), Value::Object(defaults)) => {
            for (field, value) in fields {
                let name = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                differing(&name, value, defaults.get(field).unwrap_or(&Value::Null), names);
            }
        }
        _ if value == default => {}
        _ => names.push(name.to_owned()),
    }
}

/// Changes one value; its name leads there by dots.
fn apply(settings: &mut Value, change: &str) -> Result<(), Stop> {
    let wrong = || Stop::usage(format!("{change:?} is not NAME=VALUE, such as max_attempts=5"));
    let (name, said) = change.split_once('=').ok_or_else(wrong)?;
    let value = serde_json::from_str(said).unwrap_or_else(|_| json!(said));
    fits(name, &value)?;
    let mut place = settings;
    for part in name.split('.') {
        let inside = place.as_object_mut().ok_or_else(wrong)?;
        place = inside.entry(part).or_insert(Value::Null);
    }
    *place = value;
    Ok(())
}

/// Refuses a value that its setting cannot have. What is not known here the server may know.
fn fits(name: &str, value: &Value) -> Result<(), Stop> {
    let inside = |value: Value, part: &str| json!({ part: value });
    let alone = name.rsplit('.').fold(value.clone(), inside).to_string();
    let read = windrow_wire::read::object::<wire::Settings>(alone.as_bytes());
    let Err(why) = read else { return Ok(()) };
    if why.contains("unknown field") {
        return Ok(());
    }
    // Who typed it may see it; the API keeps to itself what stood there.
    let why = without_place(&why).replace("it is something else", &format!("it is {value}"));
    let why = why.strip_prefix(&format!("{name}: ")).unwrap_or(&why);
    let unit = if name.ends_with("_ms") { " (milliseconds, such as 60000)" } else { "" };
    Err(Stop::usage(format!("{name}: {why}{unit}")))
}

/// A queue, or a part of it.
#[derive(clap::Args, Debug)]
struct Scope {
    #[arg(value_name = "QUEUE", add = super::complete::queues())]
    queue: String,
    /// Only this stage of it.
    #[arg(long, add = super::complete::stages())]
    stage: Option<String>,
    /// Only this tenant's items.
    #[arg(long)]
    tenant: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow pause thumbs
      Nothing of it is handed out any more; what workers have they may finish.
  windrow pause documents --stage ocr
  windrow pause documents --tenant acme")]
pub(super) struct Pause {
    #[command(flatten)]
    scope: Scope,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow resume thumbs
  windrow resume documents --stage ocr
      Ends the pause that was made with the same words.")]
pub(super) struct Resume {
    #[command(flatten)]
    scope: Scope,
}

pub(super) fn pause(args: &Pause) -> anyhow::Result<()> {
    scoped(&args.scope, "pause", "paused")
}

pub(super) fn resume(args: &Resume) -> anyhow::Result<()> {
    scoped(&args.scope, "resume", "resumed")
}

fn scoped(scope: &Scope, verb: &str, done: &str) -> anyhow::Result<()> {
    with_target(&scope.reach, async |target| {
        let body = json!({ "stage": scope.stage, "tenant": scope.tenant });
        let ask = Ask::post(&["queues", &scope.queue, verb]).json(&body)?;
        let told = Told::read(&target.ask(ask).await?)?;
        let mut out = std::io::stdout().lock();
        if scope.reach.json {
            told.print(&mut out)?;
        } else {
            let of = match part(&body).as_str() {
                "all" => scope.queue.clone(),
                part => format!("{}, {part}", scope.queue),
            };
            writeln!(out, "{of}: {done}")?;
        }
        let still: Vec<String> =
            told.seen["paused"].as_array().into_iter().flatten().map(part).collect();
        if verb == "resume" && !still.is_empty() {
            say(&format!("still paused: {}", still.join(", ")));
        }
        say_note(&told);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_ended_by_a_line_that_names_it() {
        let line = |queue, of: Value| resume_line(queue, &of, "");
        assert_eq!(line("scans", json!({})), "windrow resume scans");
        let of = json!({"stage": "fetch", "tenant": "o'neill & sons"});
        let want = "windrow resume scans --stage=fetch --tenant='o'\\''neill & sons'";
        assert_eq!(line("scans", of), want);
        let elsewhere = resume_line("-x", &json!({"stage": "fetch"}), " --server=http://b:7117");
        assert_eq!(elsewhere, "windrow resume --stage=fetch --server=http://b:7117 -- -x");
    }

    #[test]
    fn a_change_goes_where_its_name_leads() {
        let mut settings = json!({"max_attempts": 3, "retention": {"failed_ms": 1}});
        for change in ["max_attempts=5", "retention.failed_ms=null", "resource=mail"] {
            apply(&mut settings, change).expect("it is read");
        }
        let changed =
            json!({"max_attempts": 5, "retention": {"failed_ms": null}, "resource": "mail"});
        assert_eq!(settings, changed);
        let wrong = |change| apply(&mut json!({}), change).expect_err("it is wrong").message;
        let lease = "lease_ms: expected a whole number, 0 or more, and it is a text (milliseconds, \
                     such as 60000)";
        assert_eq!(wrong("lease_ms=5m"), lease);
        let most = "max_attempts: expected a whole number from 0 to 65535, and it is 70000";
        assert_eq!(wrong("max_attempts=70000"), most);
        let kept = wrong("retention.max_age_ms=[1]");
        assert!(kept.starts_with("retention.max_age_ms: expected a whole number"), "{kept}");
        assert!(apply(&mut settings, "max_attempts").is_err());
        assert!(apply(&mut settings, "max_attempts.x=1").is_err());
    }
}
