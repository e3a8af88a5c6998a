//! `windrow sources`: folders that are watched for documents.

use std::io::{StdoutLock, Write as _};
use std::path::PathBuf;

use serde_json::Value;
use serde_json::value::RawValue;

use super::enqueue::Fields;
use super::exit::Stop;
use super::reach::{Ask, Reach, Target};
use super::show::{Cell, Table, Told, age, plain, read, say, text};
use super::with_target;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow sources list
  windrow sources watch inbox ~/inbox --collection letters --on-missing remove
  windrow sources pause inbox
  windrow sources forget inbox
      It is watched no more; its documents stay.

`windrow up FOLDER` makes a source of the folder, too.")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// All folders that are watched, and how that goes.
    List {
        /// Only this tenant's.
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
    /// One of them, with what the last look at it found.
    Show {
        #[command(flatten)]
        named: Named,
    },
    /// Watch a folder, or one file; or say anew how: what is not said anew is as by default.
    Watch {
        #[command(flatten)]
        new: Box<NewSource>,
    },
    /// Do not look at it until it is resumed.
    Pause {
        #[command(flatten)]
        named: Named,
    },
    /// Look at it again.
    Resume {
        #[command(flatten)]
        named: Named,
    },
    /// Look at it now, and read every file again to see whether it has changed.
    Rescan {
        #[command(flatten)]
        named: Named,
    },
    /// Watch it no more. Its documents stay.
    Forget {
        #[command(flatten)]
        named: Named,
    },
}

#[derive(clap::Args, Debug)]
struct Named {
    /// What the source is called, such as inbox.
    #[arg(value_name = "NAME", add = super::complete::sources())]
    name: String,
    /// Whose it is; by default your own tenant's.
    #[arg(long)]
    tenant: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

#[derive(clap::Args, Debug)]
struct NewSource {
    /// Where it is on the server's machine.
    #[arg(value_name = "PATH", index = 2)]
    path: String,
    /// The collection of its documents; by default the folder's name.
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
    /// What becomes of a document whose file is gone: keep (by default) or remove.
    #[arg(
        long,
        value_name = "HOW",
        value_parser = ["keep", "remove"],
        hide_possible_values = true,
    )]
    on_missing: Option<String>,
    /// Leave these out: names of files and folders, or endings that begin with a dot.
    #[arg(long, value_name = "NAME")]
    ignore: Vec<String>,
    // Last, as its headings would stand above everything else.
    #[command(flatten)]
    named: Named,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let of = |named: &Named, verb: &str| Ask::post(&["sources", &named.name, verb]);
    match &args.command {
        Command::List { tenant, reach } => list(tenant.as_deref(), reach),
        Command::Show { named } => asked(named, Ask::get(&["sources", &named.name]), printed),
        Command::Watch { new } => with_target(&new.named.reach, async |target| {
            let told = tell(&new.named, target, new.ask(target)?, printed).await?;
            say(&watched(&told, &new.named.name, target));
            Ok(())
        }),
        Command::Pause { named } => {
            asked(named, of(named, "pause"), |out, told| stands(out, told, "paused"))
        }
        Command::Resume { named } => {
            asked(named, of(named, "resume"), |out, told| stands(out, told, "resumed"))
        }
        Command::Rescan { named } => {
            asked(named, of(named, "rescan"), |out, told| stands(out, told, "to be read again"))
        }
        Command::Forget { named } => {
            asked(named, Ask::delete(&["sources", &named.name]), |out, _| {
                writeln!(out, "{}: forgotten; its documents stay", named.name)
            })
        }
    }
}

/// Asks about one source, and prints the answer.
fn asked(
    named: &Named,
    ask: Ask,
    print: impl Fn(&mut StdoutLock<'static>, &Value) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    with_target(&named.reach, async |target| tell(named, target, ask, print).await.map(drop))
}

async fn tell(
    named: &Named,
    target: &Target,
    ask: Ask,
    print: impl Fn(&mut StdoutLock<'static>, &Value) -> std::io::Result<()>,
) -> anyhow::Result<Value> {
    let ask = ask.with("tenant", named.tenant.as_ref());
    let told = Told::read(&target.ask(ask).await?)?;
    let mut out = std::io::stdout().lock();
    match named.reach.json {
        true => told.print(&mut out)?,
        false => print(&mut out, &told.seen)?,
    }
    Ok(told.seen)
}

/// What becomes of a source that was just named.
fn watched(told: &Value, name: &str, target: &Target) -> String {
    let host = text(told, "host");
    match (text(told, "state"), target) {
        ("paused", _) => {
            format!("the source is kept, and paused; `windrow sources resume {name}` ends that")
        }
        // A database has servers on other machines, which do not see this folder.
        (_, Target::Here(_)) if !target.is_alone() => {
            format!("the source is kept, and watched while a server runs on {host}")
        }
        _ => "the source is kept, and watched while a server runs".to_owned(),
    }
}

impl NewSource {
    fn ask(&self, target: &Target) -> anyhow::Result<Ask> {
        let mut path = PathBuf::from(&self.path);
        if path.is_relative() {
            let wrong = |why: String| Stop::usage(format!("{}: {why}", path.display()));
            if !target.is_of_this_machine() {
                let why = "is a path here, and the server seems to be on another machine; give one \
                           of that, from / on";
                return Err(wrong(why.to_owned()).into());
            }
            path = path.canonicalize().map_err(|error| wrong(error.to_string()))?;
        }
        let mut source = Fields::default();
        source.set("path", Some(path))?;
        source.set("collection", self.collection.as_ref())?;
        source.set("on_missing", self.on_missing.as_ref())?;
        source.set("ignore", Some(&self.ignore).filter(|names| !names.is_empty()))?;
        Ok(Ask::put(&["sources", &self.named.name]).json(&source)?)
    }
}

fn list(tenant: Option<&str>, reach: &Reach) -> anyhow::Result<()> {
    with_target(reach, async |target| {
        let body = target.ask(Ask::get(&["sources"]).with("tenant", tenant)).await?;
        let mut out = std::io::stdout().lock();
        let mut table =
            Table::new(&["NAME", "TENANT", "STATE", "FILES", "SEEN", "COLLECTION", "PATH"]);
        let mut failures = Vec::new();
        for source in read::<Vec<Box<RawValue>>>(&body)? {
            let source = Told::of(source)?;
            if reach.json {
                source.print(&mut out)?;
                continue;
            }
            let seen = &source.seen;
            failures.extend(failure(seen));
            table.row([
                plain(&seen["name"]).into(),
                plain(&seen["tenant"]).into(),
                Cell::status(text(seen, "state")),
                plain(&seen["scan"]["files"]).into(),
                seen["last_scan"]
                    .as_str()
                    .map(|_| age(&seen["last_scan"]))
                    .unwrap_or_default()
                    .into(),
                plain(&seen["collection"]).into(),
                plain(&seen["path"]).into(),
            ]);
        }
        if reach.json {
            return Ok(());
        }
        if table.is_empty() {
            say("no folder is watched; `windrow up FOLDER` or `windrow sources watch` begins it");
            return Ok(());
        }
        table.print(&mut out)?;
        failures.iter().for_each(|failure| say(failure));
        Ok(())
    })
}

/// Why a source cannot be looked at, if that is so.
fn failure(seen: &Value) -> Option<String> {
    Some(format!("{}: {}", text(seen, "name"), seen["last_error"].as_str()?))
}

/// Says what was done to a source, and its state if that says more.
fn stands(out: &mut StdoutLock<'static>, told: &Value, done: &str) -> std::io::Result<()> {
    let (name, state) = (text(told, "name"), text(told, "state"));
    match state == done {
        true => writeln!(out, "{name}: {done}"),
        false => writeln!(out, "{name}: {done} ({state})"),
    }
}

fn printed(out: &mut StdoutLock<'static>, told: &Value) -> std::io::Result<()> {
    let mut table = Table::new(&[]);
    for name in ["name", "tenant", "path", "collection", "on_missing"] {
        table.pair(name, plain(&told[name]));
    }
    let ignored = told["ignore"].as_array().into_iter().flatten().map(plain);
    let ignored = ignored.collect::<Vec<_>>().join(", ");
    if !ignored.is_empty() {
        table.pair("ignore", ignored);
    }
    for name in ["host", "state", "last_error", "last_scan", "next_scan"] {
        if !told[name].is_null() {
            table.pair(name, plain(&told[name]));
        }
    }
    let scan = &told["scan"];
    for name in ["files", "added", "changed", "unchanged", "removed", "unsettled", "not_taken"] {
        if !scan[name].is_null() {
            table.pair(name, plain(&scan[name]));
        }
    }
    for (reason, count) in scan["left_out"].as_object().into_iter().flatten() {
        table.pair(&format!("left out: {reason}"), plain(count));
    }
    table.print(out)?;
    for problem in scan["problems"].as_array().into_iter().flatten() {
        say(&format!("{}: {}", text(problem, "path"), text(problem, "reason")));
    }
    Ok(())
}
