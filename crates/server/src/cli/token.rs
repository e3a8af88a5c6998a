//! `windrow token`: tokens given, listed and taken back.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use serde_json::Value;
use serde_json::value::RawValue;
use windrow_core::Timestamp;
use windrow_store::postgres::{Error, Postgres};

use super::exit::{Exit, Stop};
use super::place::Place;
use super::reach::{Ask, Reach, Target, Whom};
use super::show::{Table, Told, duration_ms, now, plain, read, say};
use super::{counted, runtime, with_target, with_target_or_new};
use crate::auth::Role;
use crate::http::tokens::{Made, NewToken};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow token create --role admin
      For the queue that `windrow serve` here would use; its server may run or not.
  windrow token create --role worker --tenant acme --name ocr-1 --expires 30d --out ocr-1.token
  windrow token create --role viewer --store postgres://windrow@db.example/queue
      Servers on a database know of it within a second.
  WINDROW_TOKEN=wr_… windrow token list --server https://queue.example.com
  windrow token revoke 3f2a91c07be4d815

The token is printed once, on standard output, and kept nowhere. As soon as there is one, every
request to the store's servers needs one, so the first must be an admin's of all tenants;
docs/reference/auth.md says what each role may do.")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Make a token and print it, once.
    Create {
        /// What it may do.
        #[arg(long, value_enum)]
        role: Role,
        /// The only tenant whose things it may see and touch; by default all.
        #[arg(long)]
        tenant: Option<String>,
        /// What lists and the audit call it; by default the name of its role.
        #[arg(long)]
        name: Option<String>,
        /// How long it opens anything, such as 30d; by default for ever.
        #[arg(long, value_name = "TIME", value_parser = duration_ms)]
        expires: Option<u64>,
        /// Write it into a new file that only you can read, instead of printing it.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Print all tokens, without what opens.
    List {
        #[command(flatten)]
        reach: Reach,
    },
    /// End tokens. They open nothing any more, at once.
    Revoke {
        /// The ids of the tokens, as `list` prints them: the part between the underscores.
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<String>,
        /// Take all away as if there had never been one: servers on 127.0.0.1 are then open to
        /// every program of the machine. Only in the store itself.
        #[arg(long, conflicts_with_all = ["ids", "server", "profile"])]
        all: bool,
        #[command(flatten)]
        reach: Reach,
    },
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Create { role, tenant, name, expires, out, reach } => {
            let new = NewToken { role, name, tenant, expires_at: None, expires_in_ms: expires };
            let into = Receiver::of(out)?;
            // The first token of a store may be there before its first server. No other may be the
            // first, and what is refused leaves no store behind.
            let may_be_first = new.role == Role::Admin && new.tenant.is_none();
            with_target_or_new(&reach, may_be_first, async |target| {
                create(target, &new, into, reach.json).await
            })
        }
        Command::List { reach } => {
            with_target(&reach, async |target| list(target, reach.json).await)
        }
        Command::Revoke { all: true, reach, .. } => {
            // Before this command connects, and looks like one of them.
            runtime()?.block_on(nobody_serves(&reach))?;
            with_target(&reach, async |target| {
                let Target::Here(here) = target else { return Err(served("").into()) };
                let gone = counted(here.clear_tokens().await? as u64, "token");
                let mut out = std::io::stdout().lock();
                Ok(writeln!(out, "{gone} taken away; there is none any more")?)
            })
        }
        Command::Revoke { ids, reach, .. } => {
            with_target(&reach, async |target| revoke(target, &ids, reach.json).await)
        }
    }
}

/// Refuses while servers are at a database. At a directory there is one, and it is found.
async fn nobody_serves(reach: &Reach) -> anyhow::Result<()> {
    let Whom::Store(_, Place::Database(options)) = reach.whom()? else { return Ok(()) };
    match Postgres::ensure_unserved(&options).await {
        Err(error @ Error::Served { .. }) => Err(served(&format!("; {error}")).into()),
        unserved => Ok(unserved?),
    }
}

/// What is said of a store that somebody serves.
fn served(why: &str) -> Stop {
    let said = "only in the store itself, with its servers stopped: a server that has no token \
                left is open";
    Stop::new(Exit::Failed, format!("{said}{why}; nothing was taken away"))
}

/// Where a new token goes.
struct Receiver {
    /// A file that was made for it, and goes again unless it gets one.
    file: Option<(File, PathBuf)>,
}

impl Receiver {
    /// Makes the file before the token: one that could not be written would be lost.
    fn of(path: Option<PathBuf>) -> anyhow::Result<Receiver> {
        let Some(path) = path else { return Ok(Receiver { file: None }) };
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = made.map_err(|error| {
            let shown = path.display();
            match error.kind() {
                ErrorKind::AlreadyExists => {
                    Stop::usage(format!("{shown} is there already; name a new file with --out"))
                }
                _ => Stop::usage(format!("--out {shown} cannot be written: {error}")),
            }
        })?;
        Ok(Receiver { file: Some((file, path)) })
    }

    /// Writes what is secret, and nothing else, into the file or to standard output.
    fn write(mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let Some((mut file, path)) = self.file.take() else {
            let mut out = io::stdout().lock();
            write(&mut out)?;
            out.flush()?;
            if is_read_by_others(&out) {
                say("the file that it went to can be read by others: `chmod 600` it, or use --out");
            }
            return Ok(());
        };
        let written = write(&mut file).and_then(|()| file.sync_all());
        if written.is_err() {
            self.file = Some((file, path));
        }
        written
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some((_, path)) = self.file.take() {
            // It is empty; if it stays, it says so.
            let _removed = std::fs::remove_file(path);
        }
    }
}

/// Whether what is written there stands in a file that others may read.
fn is_read_by_others(out: &impl AsFd) -> bool {
    let Ok(file) = out.as_fd().try_clone_to_owned().map(File::from) else { return false };
    let Ok(found) = file.metadata() else { return false };
    found.is_file() && found.mode() & 0o077 != 0
}

async fn create(target: &Target, new: &NewToken, into: Receiver, json: bool) -> anyhow::Result<()> {
    // Whoever may not see them is not the first.
    let known = target.read::<Vec<Value>>(Ask::get(&["tokens"])).await;
    let is_first = known.is_ok_and(|known| known.is_empty());
    let body = target.ask(Ask::post(&["tokens"]).json(new)?).await?;
    if json {
        let told = Told::read(&body)?;
        return Ok(into.write(|mut out| told.print(&mut out))?);
    }
    let Made { token, shown } = read(&body)?;
    let whose = shown.tenant.map_or("all tenants".to_owned(), |tenant| format!("{tenant:?}"));
    let until = shown.expires_at.map_or("revoked".to_owned(), |at| at.0.to_string());
    let (id, role) = (shown.id, shown.role.name());
    let where_to = match &into.file {
        Some((_, path)) => format!("It is in {}, and nowhere else", path.display()),
        None => "It is shown once:".to_owned(),
    };
    say(&format!("token {id}: {role} of {whose}, until {until}. {where_to}"));
    into.write(|out| writeln!(out, "{token}"))?;
    if is_first {
        say("from now on every request needs a token: what runs without one is refused");
    }
    Ok(())
}

async fn list(target: &Target, json: bool) -> anyhow::Result<()> {
    let body = target.ask(Ask::get(&["tokens"])).await?;
    let mut out = std::io::stdout().lock();
    let mut table = Table::new(&["ID", "ROLE", "TENANT", "NAME", "CREATED", "USED", "UNTIL"]);
    for token in read::<Vec<Box<RawValue>>>(&body)? {
        let token = Told::of(token)?;
        if json {
            token.print(&mut out)?;
            continue;
        }
        let seen = &token.seen;
        let until = match (seen["revoked_at"].as_str(), seen["expires_at"].as_str()) {
            (Some(at), _) => format!("revoked {at}"),
            (None, Some(at)) => format!("expires {at}"),
            (None, None) => "for ever".to_owned(),
        };
        table.row([
            plain(&seen["id"]).into(),
            plain(&seen["role"]).into(),
            seen["tenant"].as_str().unwrap_or("(all tenants)").into(),
            plain(&seen["name"]).into(),
            plain(&seen["created_at"]).into(),
            seen["last_used_at"].as_str().unwrap_or("-").into(),
            until.into(),
        ]);
    }
    if json {
        return Ok(());
    }
    if table.is_empty() {
        say("there is no token; `windrow token create --role admin` makes the first");
        return Ok(());
    }
    Ok(table.print(&mut out)?)
}

async fn revoke(target: &Target, ids: &[String], json: bool) -> anyhow::Result<()> {
    // Afterwards whoever asks may not be let in any more.
    let before: Vec<Value> = target.read(Ask::get(&["tokens"])).await.unwrap_or_default();
    let mut admins = before.iter().filter(|token| is_admin(token)).peekable();
    let is_last = admins.peek().is_some()
        && admins.all(|token| ids.iter().any(|id| token["id"] == id.as_str()));
    let is_id = |id: &String| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if let Some(id) = ids.iter().find(|id| !is_id(id)) {
        let said =
            format!("{id:?} is not the id of a token; it is the part between the underscores");
        return Err(Stop::usage(said).into());
    }
    for id in ids {
        let told = Told::read(&target.ask(Ask::delete(&["tokens", id])).await?)?;
        let mut out = std::io::stdout().lock();
        match json {
            true => told.print(&mut out)?,
            false => writeln!(out, "{id} is revoked")?,
        }
    }
    // A token of the configuration is in no list, and is never taken away.
    let is_open = match target {
        Target::Here(here) => here.has_given_token(),
        _ => target.ask(Ask::get(&["tokens"])).await.is_ok(),
    };
    if is_last && !is_open {
        say("no admin's token of all tenants is listed any more, and requests go on needing one; \
             unless the server's configuration has one, whoever stops the server and names its \
             store makes another with `windrow token create --role admin`");
    }
    Ok(())
}

/// Whether a token opens everything now.
fn is_admin(token: &Value) -> bool {
    let ends = |at: &str| at.parse::<Timestamp>().is_ok_and(|at| at <= now());
    token["role"] == "admin"
        && token["tenant"].is_null()
        && token["revoked_at"].is_null()
        && !token["expires_at"].as_str().is_some_and(ends)
}
