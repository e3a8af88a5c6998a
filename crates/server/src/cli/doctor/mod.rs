//! `windrow doctor`: is everything as it must be, and what to do if not.
//!
//! Looks at the configuration, at this machine, at the disk and the store or the database, at ports
//! and at whoever answers, and last asks the queue itself how it is. Each part makes lines; all
//! bounds are beside the words about them. Nothing is changed, and no secret is printed.

mod answers;
mod database;
mod disk;
mod machine;
mod settings;
mod store;

use serde::Serialize;

use super::reach::{Reach, Whom};
use super::show::{Cell, Table};
use super::{Stop, counted, exit::Exit, place::Place, runtime, serve::Serving};
use crate::config::Config;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow doctor
      Looks at everything that could be in the way of a queue here: configuration, disk, store,
      clock, ports, limits, tools. Each line is ok, warn or problem, and says what to do.
  windrow doctor --data-dir /var/lib/windrow --config /etc/windrow.toml --listen 0.0.0.0:7117
      The same as the server would see it: with its flags, and as its user.
  windrow doctor --server https://queue.example:7117
      Whether that server answers, in which version, and what your token may do there.
  windrow doctor --store postgres://windrow@db.example/queue
      Also how PostgreSQL is set, and what holds it up.
  windrow doctor --json | jq 'select(.status != \"ok\")'

Ends with 0 if there is no problem, warnings or not, and with 1 if there is one.")]
pub(super) struct Args {
    #[command(flatten)]
    reach: Reach,
    #[command(flatten, next_help_heading = "What the server here is told")]
    serving: Serving,
}

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    Warn,
    Problem,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
struct Finding {
    check: String,
    status: Level,
    says: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

fn ok(check: &str, says: impl Into<String>) -> Finding {
    Finding { check: check.into(), status: Level::Ok, says: says.into(), fix: None }
}

fn warn(check: &str, says: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { status: Level::Warn, fix: Some(fix.into()), ..ok(check, says) }
}

fn problem(check: &str, says: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { status: Level::Problem, fix: Some(fix.into()), ..ok(check, says) }
}

/// What stopped a look, which says itself what to do.
fn failed(check: &str, error: &anyhow::Error) -> Finding {
    Finding { status: Level::Problem, ..ok(check, format!("{error:#}")) }
}

impl Finding {
    fn is_problem(&self) -> bool {
        self.status == Level::Problem
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let findings = runtime()?.block_on(examine(&args.reach, &args.serving));
    let mut out = std::io::stdout().lock();
    if args.reach.json {
        for finding in &findings {
            let line = serde_json::to_string(finding)?;
            std::io::Write::write_fmt(&mut out, format_args!("{line}\n"))?;
        }
    } else {
        let mut table = Table::new(&["STATUS", "CHECK", "SAYS"]);
        for Finding { check, status, says, fix } in &findings {
            let fix = fix.as_ref().map(|fix| format!(". Fix: {fix}")).unwrap_or_default();
            let line = format!("{says}{fix}");
            table.row([Cell::status(status.name()), check.as_str().into(), line.into()]);
        }
        table.print(&mut out)?;
    }
    let problems = findings.iter().filter(|finding| finding.is_problem()).count();
    if problems > 0 {
        let said = counted(problems as u64, "problem");
        return Err(Stop::new(Exit::Failed, said).into());
    }
    Ok(())
}

async fn examine(reach: &Reach, serving: &Serving) -> Vec<Finding> {
    let mut found = Vec::new();
    let config = settings::read(reach, serving, &mut found);
    found.push(machine::clock());
    if let Some(config) = &config {
        found.push(machine::files(config.connections_max));
        found.extend(machine::tools(&config.workers));
    }
    let whom = match reach.whom() {
        Ok(whom) => whom,
        // The configuration said so already.
        Err(_) if config.is_none() => return found,
        Err(error) => {
            found.push(failed("queue", &error));
            return found;
        }
    };
    match whom {
        Whom::Server(..) => found.extend(answers::examine(reach, None).await),
        Whom::Store(its, place) => {
            // Whom to ask does not depend on what only a server is told.
            let config = config.as_ref().unwrap_or(&its);
            found.extend(stored(reach, config, place).await);
        }
    }
    found
}

/// Looks at a store, and at whoever has it open.
async fn stored(reach: &Reach, config: &Config, place: Place) -> Vec<Finding> {
    let mut found = match place {
        Place::Directory(dir) => {
            let mut found = disk::examine(&dir);
            found.extend(store::examine(&dir));
            found
        }
        Place::Database(options) => database::examine(&options).await,
    };
    // A queue that cannot be opened was said to be so, and one that is not there is not made.
    let is_there = |finding: &Finding| finding.check == "store" && finding.status == Level::Ok;
    let keeps = |finding: &Finding| {
        finding.is_problem() && matches!(&*finding.check, "sync" | "durability" | "database")
    };
    if found.iter().any(is_there) && !found.iter().any(keeps) {
        found.extend(answers::examine(reach, Some(config)).await);
    } else {
        found.extend(answers::ports(config, None));
    }
    found.extend(answers::traces(config).await);
    found
}

#[cfg(test)]
mod tests;
