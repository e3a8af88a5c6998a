//! `windrow serve`: the queue for any program, until it is told to stop.
//!
//! Decides what a server is told; [`Running`] is one.

mod running;
mod signals;

use std::path::Path;

use anyhow::Context as _;
use windrow_store::postgres::Address;

use super::config::Source;
use super::exit::Stop;
use super::place::{Place, database};
use crate::auth::Book;
use crate::config::{Config, Layers};
use crate::logs;

pub(super) use running::Running;
pub(super) use signals::Signals;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  windrow serve
      A queue in your state directory, on http://127.0.0.1:7117; its API is described at /docs.
  windrow serve --data-dir /var/lib/windrow --listen 127.0.0.1:8000
  windrow serve --store postgres://windrow@db.example/queue
      Any number of servers may share a database.
  windrow token create --role admin --data-dir /var/lib/windrow
  windrow serve --data-dir /var/lib/windrow --listen 0.0.0.0:7117 \\
      --tls-cert /etc/windrow/cert.pem --tls-key /etc/windrow/key.pem
      For other machines too: every request then needs a token.
  WINDROW_SERVER__LISTEN=127.0.0.1:8000 windrow serve --config /etc/windrow.toml
      Flags win over the environment, that over the file; `windrow config show --origin` says which.

Stop it with Ctrl-C or SIGTERM: it takes no new work, lets what is under way end, and stops. A
second signal stops it at once. Nothing that was acknowledged is lost either way.")]
pub(super) struct Args {
    #[command(flatten)]
    flags: Flags,
}

/// What a server can be told on the command line.
#[derive(clap::Args, Debug)]
pub(super) struct Flags {
    #[command(flatten)]
    source: Source,
    /// The directory that holds the store's files; by default `windrow` in your state directory.
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    data_dir: Option<String>,
    /// The database that holds the store, such as postgres://user@host/database. A password that is
    /// not in it is taken from PGPASSWORD.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    #[command(flatten)]
    serving: Serving,
}

/// What it can be told besides where its store is.
#[derive(clap::Args, Debug)]
pub(super) struct Serving {
    /// Where to listen, such as localhost:7117; 127.0.0.1:7117 by default. On an address that other
    /// machines can reach it starts only if there is a token (`windrow token create`).
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where to listen for Cap'n Proto RPC, or `off`; by default on the port after that of HTTP,
    /// 127.0.0.1:7118, and on this machine only. It is not encrypted.
    #[arg(long, value_name = "ADDRESS|off")]
    rpc_listen: Option<String>,
    /// The queue of the plain calls over RPC (add, poll, remove, extend), `rpc` by default. Its
    /// settings are theirs: what expires is there again at once, what is removed is gone.
    #[arg(long, value_name = "NAME")]
    rpc_queue: Option<String>,
    /// How log lines look: text (by default) or json.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// How much is logged: error, warn, info (by default) or debug.
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// The server's certificate with its chain, in PEM. SIGHUP reads it again.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The key of that certificate, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
}

impl Flags {
    /// What another command must be told to find the same queue, after its own words.
    pub(super) fn hint(&self) -> String {
        match (&self.data_dir, &self.store) {
            (Some(dir), _) => format!(" --data-dir {dir}"),
            // The address may hold a password.
            (None, Some(_)) => " --store …".to_owned(),
            (None, None) => String::new(),
        }
    }

    /// Everything that a server is told, these flags last.
    pub(super) fn layers(&self) -> anyhow::Result<Layers> {
        let layers = self.source.layers()?;
        let layers = layers.with_flag("--data-dir", "store.data_dir", self.data_dir.clone())?;
        let layers = layers.with_flag("--store", "store.url", self.store.clone())?;
        self.serving.over(layers)
    }
}

impl Serving {
    /// These flags over what was said before.
    pub(super) fn over(&self, layers: Layers) -> anyhow::Result<Layers> {
        let said = [
            ("--listen", "server.listen", &self.listen),
            ("--rpc-listen", "server.rpc_listen", &self.rpc_listen),
            ("--rpc-queue", "server.rpc_queue", &self.rpc_queue),
            ("--log-format", "log.format", &self.log_format),
            ("--log-level", "log.level", &self.log_level),
            ("--tls-cert", "server.tls_cert", &self.tls_cert),
            ("--tls-key", "server.tls_key", &self.tls_key),
        ];
        said.into_iter().try_fold(layers, |layers, (flag, key, value)| {
            layers.with_flag(flag, key, value.clone())
        })
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let config = args.flags.layers().and_then(|layers| Config::new(&layers));
    let config = config.map_err(|error| Stop::usage(format!("{error:#}")))?;
    let (format, level) = config.log;
    logs::begin(format, level);
    begin(&config).map_err(|error| logs::gave_up(format, error))
}

fn begin(config: &Config) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let running = Running::begin(config).await?;
        running.until(&mut signals, std::future::pending::<()>()).await.map(|_stopped| ())
    })
}

pub(super) fn place(config: &Config) -> anyhow::Result<Place> {
    match &config.store {
        Some(url) => Ok(Place::Database(database(url)?)),
        None => Place::parse(&config.data_dir),
    }
}

/// Where the store is, without a password.
pub(super) fn shown(place: &Place) -> anyhow::Result<String> {
    Ok(match place {
        Place::Directory(path) => path.display().to_string(),
        Place::Database(options) => {
            format!("the database at {}", Address::parse(&options.url)?.shown())
        }
    })
}

/// A token that the operator brings along.
pub(super) fn given(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("auth.token_file: cannot read {shown}"))?;
    let text = text.trim_end_matches(['\r', '\n']);
    Book::check_given(text).map_err(|why| anyhow::anyhow!("auth.token_file: {shown}: {why}"))?;
    Ok(text.to_owned())
}
