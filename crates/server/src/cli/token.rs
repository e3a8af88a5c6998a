//! `windrow token`: tokens given, listed and taken back, in a store or through a running server.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use axum::http::Method;
use windrow_core::Timestamp;
use windrow_engine::Clock as _;

use super::ask::Server;
use super::config::Source;
use super::place::Place;
use super::{counted, data_dir, runtime, serve};
use crate::auth::{Audit, Book, Entry, Outcome, Role};
use crate::config::Config;
use crate::http::tokens::{Made, NewToken, Shown};
use crate::store::Open;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow token create --role admin
      In the store that `windrow serve` here would use, while no server runs on it.
  windrow token create --role worker --tenant acme --name ocr-1 --expires 30d
  windrow token create --role viewer --store postgres://windrow@db.example/queue
      A database may be in use by servers; they know of it within a second.
  WINDROW_TOKEN=wr_… windrow token list --server https://queue.example.com:7117
  windrow token revoke 3f2a91c07be4d815 --server http://127.0.0.1:7117
      Through a running server, with an admin's token.

The token is printed once, on standard output, and kept nowhere. As soon as there is one, every
request to the store's servers needs one; docs/reference/auth.md says what each role may do.")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Make a token and print it, once.
    Create {
        #[command(flatten)]
        at: At,
        /// What it may do.
        #[arg(long, value_enum)]
        role: Role,
        /// The only tenant whose things it may see and touch; by default all.
        #[arg(long)]
        tenant: Option<String>,
        /// What lists and the audit call it; by default the name of its role.
        #[arg(long)]
        name: Option<String>,
        /// How long it opens anything: a number with s, m, h, d or w, such as 30d; by default for
        /// ever.
        #[arg(long, value_name = "TIME", value_parser = duration_ms)]
        expires: Option<u64>,
    },
    /// Print all tokens, without what opens.
    List {
        #[command(flatten)]
        at: At,
    },
    /// End tokens. They open nothing any more, at once.
    Revoke {
        #[command(flatten)]
        at: At,
        /// The ids of the tokens, as `list` prints them: the part between the underscores.
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<String>,
        /// Take all away as if there had never been one: servers on 127.0.0.1 are then open to
        /// every program of the machine. Only in the store itself.
        #[arg(long, conflicts_with_all = ["ids", "server"])]
        all: bool,
    },
}

/// Where the tokens are.
#[derive(clap::Args, Debug)]
struct At {
    #[command(flatten)]
    source: Source,
    /// The directory that holds the store's files; by default `windrow` in your state directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["store", "server"])]
    data_dir: Option<String>,
    /// The database that holds the store, such as postgres://user@host/database.
    #[arg(long, value_name = "URL", conflicts_with = "server")]
    store: Option<String>,
    /// A running server to ask, such as http://127.0.0.1:7117, with the token in WINDROW_TOKEN.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Certificates to trust instead of the system's when the server is asked over https, in PEM.
    #[arg(long, value_name = "FILE", requires = "server")]
    ca: Option<PathBuf>,
}

/// Tokens within reach.
enum Reach {
    Store { open: Open, book: Box<Book>, audit: Audit },
    Server(Server),
}

impl At {
    /// Reaches the tokens of a store that is there; `makes` lets one be made that is not.
    async fn reach(self, makes: bool) -> anyhow::Result<Reach> {
        if let Some(address) = &self.server {
            let token = std::env::var("WINDROW_TOKEN").ok().filter(|token| !token.is_empty());
            return Ok(Reach::Server(Server::new(address, token, self.ca)?));
        }
        let layers = self.source.layers()?;
        let layers = layers.with_flag("--data-dir", "store.data_dir", self.data_dir)?;
        let layers = layers.with_flag("--store", "store.url", self.store)?;
        let place = serve::place(&Config::new(&layers)?)?;
        let is_dir = matches!(place, Place::Directory(_));
        if let Place::Directory(path) = &place
            && !makes
        {
            data_dir::to_read(path)?;
        }
        let open = Open::at(place).await.map_err(|error| {
            let hint = "; if a server runs on it, ask that: --server http://127.0.0.1:7117, with \
                        an admin's token in WINDROW_TOKEN";
            anyhow::anyhow!("{error:#}{}", if is_dir { hint } else { "" })
        })?;
        let book = Box::new(Book::open(Arc::clone(&open.queue), None, None, true).await?);
        let audit = Audit::new(Arc::clone(&open.queue));
        Ok(Reach::Store { book, audit, open })
    }
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        match args.command {
            Command::Create { at, role, tenant, name, expires } => {
                let new = NewToken { role, name, tenant, expires_at: None, expires_in_ms: expires };
                create(&at.reach(true).await?, new).await
            }
            Command::List { at } => list(&at.reach(false).await?).await,
            Command::Revoke { at, all: true, .. } => clear(&at.reach(false).await?).await,
            Command::Revoke { at, ids, .. } => revoke(&at.reach(false).await?, &ids).await,
        }
    })
}

async fn create(reach: &Reach, new: NewToken) -> anyhow::Result<()> {
    let made: Made = match reach {
        Reach::Server(server) => {
            let body = serde_json::to_string(&new)?;
            server.ask(Method::POST, "/api/v1/tokens", Some(body)).await?
        }
        Reach::Store { book, audit, open } => {
            let fresh = book.create(new.wanted(open.queue.clock().now())?).await?;
            audit.record(by_hand("POST /tokens", &fresh.id)).await;
            fresh.into()
        }
    };
    let Shown { id, role, tenant, expires_at, .. } = &made.shown;
    let whose = tenant.as_ref().map_or("all tenants".to_owned(), |tenant| format!("{tenant:?}"));
    let until = expires_at.map_or("revoked".to_owned(), |at| at.0.to_string());
    eprintln!("windrow: token {id}: {} of {whose}, until {until}. It is shown once:", role.name());
    writeln!(std::io::stdout().lock(), "{}", made.token)?;
    Ok(())
}

async fn list(reach: &Reach) -> anyhow::Result<()> {
    let all: Vec<Shown> = match reach {
        Reach::Server(server) => server.ask(Method::GET, "/api/v1/tokens", None).await?,
        Reach::Store { book, .. } => {
            let all = book.list().await?;
            all.iter().map(|(id, kept)| Shown::new(id, kept)).collect()
        }
    };
    let mut out = std::io::stdout().lock();
    for token in all {
        let at = |at: Option<windrow_wire::time::Time>| {
            at.map_or_else(|| "-".to_owned(), |at| at.0.to_string())
        };
        let stand = match (token.revoked_at, token.expires_at) {
            (Some(_), _) => format!("revoked {}", at(token.revoked_at)),
            (None, Some(_)) => format!("expires {}", at(token.expires_at)),
            (None, None) => "for ever".to_owned(),
        };
        writeln!(
            out,
            "{}  {:8}  {}  {}  created {}  used {}  {stand}",
            token.id,
            token.role.name(),
            token.tenant.as_deref().unwrap_or("(all tenants)"),
            token.name,
            at(Some(token.created_at)),
            at(token.last_used_at),
        )?;
    }
    Ok(())
}

async fn revoke(reach: &Reach, ids: &[String]) -> anyhow::Result<()> {
    for id in ids {
        anyhow::ensure!(
            !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            "{id:?} is not the id of a token; it is the part between the underscores"
        );
        match reach {
            Reach::Server(server) => {
                let path = format!("/api/v1/tokens/{id}");
                let _done: serde_json::Value = server.ask(Method::DELETE, &path, None).await?;
            }
            Reach::Store { book, audit, .. } => {
                let revoked = book.revoke(id).await?;
                revoked.with_context(|| format!("there is no token {id}, or it is revoked"))?;
                audit.record(by_hand("DELETE /tokens/{token}", id)).await;
            }
        }
        writeln!(std::io::stdout().lock(), "{id} is revoked")?;
    }
    Ok(())
}

async fn clear(reach: &Reach) -> anyhow::Result<()> {
    let Reach::Store { book, audit, .. } = reach else {
        anyhow::bail!("only in the store itself: a server that has no token left is open");
    };
    let gone = book.clear().await?;
    audit.record(by_hand("DELETE /tokens/{token}", "(all)")).await;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} taken away; there is none any more", counted(gone as u64, "token"))?;
    Ok(())
}

/// What the audit says of whoever has the store itself in hand.
fn by_hand(operation: &str, target: &str) -> Entry {
    Entry {
        at_ms: 0,
        caller: "(windrow token)".into(),
        token: None,
        tenant: None,
        operation: operation.to_owned(),
        targets: vec![target.to_owned()],
        outcome: Outcome::Done,
    }
}

/// A number with its unit: s, m, h, d or w.
fn duration_ms(text: &str) -> Result<u64, String> {
    let wrong = || "write a number with s, m, h, d or w, such as 30d".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    let ms = number.checked_mul(seconds * 1_000).filter(|ms| *ms > 0).ok_or_else(wrong)?;
    if Timestamp(ms) > Timestamp(100 * 366 * 86_400_000) {
        return Err("is more than a hundred years; leave it out instead".to_owned());
    }
    Ok(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_with_its_unit() {
        assert_eq!(duration_ms("30d"), Ok(30 * 86_400_000));
        assert_eq!((duration_ms("1s"), duration_ms("2w")), (Ok(1_000), Ok(14 * 86_400_000)));
        for wrong in ["", "d", "30", "30y", "-1d", "0d", "1.5d", "99999999999999999w", "1000000w"] {
            assert!(duration_ms(wrong).is_err(), "{wrong}");
        }
    }
}
