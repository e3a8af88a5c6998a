//! `windrow schedule`: items that are enqueued by the clock.

use std::io::Write as _;

use serde_json::Value;
use serde_json::value::RawValue;

use super::enqueue::{Fields, Payload};
use super::reach::{Ask, Reach};
use super::show::{Table, Told, moment, plain, read, say, text};
use super::with_target;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow schedule put nightly --cron '0 3 * * *' --zone Europe/Berlin --queue reports
  windrow schedule put poll --cron '*/5 * * * *' --queue mail --payload '\"in\"' --overlap skip
  windrow schedule list
  windrow schedule preview nightly --count 3
  windrow schedule run nightly")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// All schedules, with their last and next runs.
    List {
        /// Only this tenant's.
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// One of them.
    Show {
        #[command(flatten)]
        named: Named,
    },
    /// Make one, or put another in its place: what is not said anew is gone.
    Put {
        #[command(flatten)]
        put: Box<NewSchedule>,
    },
    /// Take one away. Items that it enqueued stay.
    Delete {
        #[command(flatten)]
        named: Named,
    },
    /// Run one now. Its next run comes as it would have.
    Run {
        #[command(flatten)]
        named: Named,
    },
    /// When one will run.
    Preview {
        /// How many runs.
        #[arg(long, default_value_t = 10, value_name = "N")]
        count: u32,
        #[command(flatten)]
        named: Named,
    },
}

#[derive(clap::Args, Debug)]
struct Named {
    /// What the schedule is called, such as nightly.
    name: String,
    /// Whose it is; by default your own tenant's.
    #[arg(long)]
    tenant: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

#[derive(clap::Args, Debug)]
struct NewSchedule {
    /// When, as minute, hour, day, month and weekday: '0 3 * * *' is every night at three, and
    /// '*/5 * * * *' every five minutes.
    #[arg(long)]
    cron: String,
    /// By whose clock, such as Europe/Berlin; UTC by default.
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// The queue that the item goes to.
    #[arg(long, add = super::complete::queues())]
    queue: String,
    /// JSON or a text, @FILE, or - for standard input.
    #[arg(long)]
    payload: Option<String>,
    /// The key of the item, under which at most one waits.
    #[arg(long)]
    key: Option<String>,
    /// What kind of item it is, which workers may ask for; `item` by default.
    #[arg(long)]
    kind: Option<String>,
    /// From 0, the lowest, to 10; 5 by default.
    #[arg(long, value_name = "N")]
    priority: Option<u8>,
    /// If the item of the last run has not ended: allow (by default), skip or replace.
    #[arg(
        long,
        value_name = "HOW",
        value_parser = ["allow", "skip", "replace"],
        hide_possible_values = true,
    )]
    overlap: Option<String>,
    /// What becomes of runs that were missed while no server ran: skip (by default), one or all.
    #[arg(
        long,
        value_name = "HOW",
        value_parser = ["skip", "one", "all"],
        hide_possible_values = true,
    )]
    missed: Option<String>,
    /// Keep it, and let it run only when you say so.
    #[arg(long)]
    disabled: bool,
    // Last, as its headings would stand above everything else.
    #[command(flatten)]
    named: Named,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::List { tenant, reach } => list(tenant.as_deref(), reach),
        Command::Show { named } => asked(named, Ask::get(&["schedules", &named.name]), printed),
        Command::Put { put } => asked(&put.named, put.ask()?, |out, told| {
            say("the schedule is kept, and runs while a server does");
            printed(out, told)
        }),
        Command::Delete { named } => {
            asked(named, Ask::delete(&["schedules", &named.name]), |out, _| {
                writeln!(out, "{}: deleted", named.name)
            })
        }
        Command::Run { named } => {
            asked(named, Ask::post(&["schedules", &named.name, "run"]), |out, told| {
                let item = told["item"].as_str().or(told["reason"].as_str()).unwrap_or_default();
                writeln!(out, "{} {item}", text(told, "outcome"))
            })
        }
        Command::Preview { named, count } => {
            let ask = Ask::get(&["schedules", &named.name, "preview"]);
            asked(named, ask.with("count", Some(count.to_string())), |out, told| {
                let runs = told["runs"].as_array().or(told["next_runs"].as_array());
                runs.into_iter().flatten().try_for_each(|at| writeln!(out, "{}", plain(at)))
            })
        }
    }
}

/// Asks about one schedule, and prints the answer.
fn asked(
    named: &Named,
    ask: Ask,
    print: impl Fn(&mut std::io::StdoutLock<'static>, &Value) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    with_target(&named.reach, async |target| {
        let ask = ask.with("tenant", named.tenant.as_ref());
        let told = Told::read(&target.ask(ask).await?)?;
        let mut out = std::io::stdout().lock();
        match named.reach.json {
            true => told.print(&mut out)?,
            false => print(&mut out, &told.seen)?,
        }
        Ok(())
    })
}

impl NewSchedule {
    fn ask(&self) -> anyhow::Result<Ask> {
        let mut item = Fields::default();
        item.set("queue", Some(&self.queue))?;
        item.set("key", self.key.as_ref())?;
        item.set("kind", self.kind.as_ref())?;
        item.set("priority", self.priority)?;
        let payload = self.payload.as_deref().map(Payload::of).transpose()?;
        item.either(("payload", "payload_base64"), payload)?;
        let mut schedule = Fields::default();
        schedule.set("cron", Some(&self.cron))?;
        schedule.set("time_zone", self.zone.as_ref())?;
        schedule.set("item", Some(item))?;
        schedule.set("overlap", self.overlap.as_ref())?;
        schedule.set("missed", self.missed.as_ref())?;
        schedule.set("enabled", self.disabled.then_some(false))?;
        Ok(Ask::put(&["schedules", &self.named.name]).json(&schedule)?)
    }
}

fn list(tenant: Option<&str>, reach: &Reach) -> anyhow::Result<()> {
    with_target(reach, async |target| {
        let body = target.ask(Ask::get(&["schedules"]).with("tenant", tenant)).await?;
        let mut out = std::io::stdout().lock();
        let mut table = Table::new(&["NAME", "TENANT", "CRON", "ZONE", "QUEUE", "NEXT", "LAST"]);
        for schedule in read::<Vec<Box<RawValue>>>(&body)? {
            let schedule = Told::of(schedule)?;
            if reach.json {
                schedule.print(&mut out)?;
                continue;
            }
            let seen = &schedule.seen;
            let next = match seen["enabled"] == false {
                true => "disabled".to_owned(),
                false => plain(&seen["next_runs"][0]),
            };
            table.row([
                plain(&seen["name"]).into(),
                plain(&seen["tenant"]).into(),
                plain(&seen["cron"]).into(),
                plain(&seen["time_zone"]).into(),
                plain(&seen["item"]["queue"]).into(),
                next.into(),
                plain(&seen["last_run"]["outcome"]).into(),
            ]);
        }
        if reach.json {
            return Ok(());
        }
        if table.is_empty() {
            say("there is no schedule; `windrow schedule put` makes one");
            return Ok(());
        }
        Ok(table.print(&mut out)?)
    })
}

fn printed(out: &mut std::io::StdoutLock<'static>, told: &Value) -> std::io::Result<()> {
    let mut table = Table::new(&[]);
    for name in ["name", "tenant", "cron", "time_zone", "overlap", "missed", "enabled"] {
        table.pair(name, plain(&told[name]));
    }
    table.pair("queue", plain(&told["item"]["queue"]));
    table.pair("payload", plain(&told["item"]["payload"]));
    table.pair("next run", plain(&told["next_runs"][0]));
    if told["last_run"].is_object() {
        let last = &told["last_run"];
        table.pair("last run", format!("{} {}", moment(&last["run_at"]), plain(&last["outcome"])));
    }
    table.print(out)
}
