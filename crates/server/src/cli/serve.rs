//! `windrow serve`: the queue for any program, until it is told to stop.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use windrow_engine::Failure;
use windrow_engine::observe::Observer;
use windrow_store::postgres::Address;

use super::config::Source;
use super::place::{Place, database};
use super::reach::Announced;
use crate::auth::Book;
use crate::blobs;
use crate::bulk;
use crate::config::{Config, Layers, Rpc};
use crate::health::{self, Watch};
use crate::http::{self, Access, App};
use crate::logs;
#[cfg(feature = "otel")]
use crate::otel;
use crate::rpc;
use crate::schedules;
use crate::store::{Open, Queue};
use crate::supervisor::Supervisor;
use crate::tls::Tls;
use crate::webhooks;

/// How long commands that did not end in time may take to be ended, and their items handed back.
const HANDED_BACK: Duration = Duration::from_secs(10);

/// How long the last use of tokens may take to be written.
const WRITTEN: Duration = Duration::from_secs(2);

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
    /// Everything that a server is told, these flags last.
    pub(super) fn layers(&self) -> anyhow::Result<Layers> {
        let said = [
            ("--data-dir", "store.data_dir", &self.data_dir),
            ("--store", "store.url", &self.store),
            ("--listen", "server.listen", &self.listen),
            ("--rpc-listen", "server.rpc_listen", &self.rpc_listen),
            ("--rpc-queue", "server.rpc_queue", &self.rpc_queue),
            ("--log-format", "log.format", &self.log_format),
            ("--log-level", "log.level", &self.log_level),
            ("--tls-cert", "server.tls_cert", &self.tls_cert),
            ("--tls-key", "server.tls_key", &self.tls_key),
        ];
        said.into_iter().try_fold(self.source.layers()?, |layers, (flag, key, value)| {
            layers.with_flag(flag, key, value.clone())
        })
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let layers = args.flags.layers()?;
    let config = Config::new(&layers)?;
    let (format, level) = config.log;
    logs::begin(format, level);
    begin(&config).map_err(|error| logs::gave_up(format, error))
}

fn begin(config: &Config) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(config))
}

pub(super) fn place(config: &Config) -> anyhow::Result<Place> {
    match &config.store {
        Some(url) => Ok(Place::Database(database(url)?)),
        None => Place::parse(&config.data_dir),
    }
}

async fn serve(config: &Config) -> anyhow::Result<()> {
    let (place, listen) = (place(config)?, config.listen);
    let dir = directory(&place);
    let mut signals = Signals::new()?;
    let shown = shown(&place)?;
    let tls = config.tls.clone().map(Tls::open).transpose()?;
    let given = config.token_file.as_deref().map(given).transpose()?;
    let listener = bind(listen, "--listen").await?;
    let rpc_listener = match &config.rpc {
        Some(rpc) => Some((rpc, bind(rpc.listen, "--rpc-listen").await?)),
        None => None,
    };
    let open = Open::at(place).await?;
    let observed = Observed::by(config)?;
    open.queue.observe(observed.observers());
    let watch = Arc::new(Watch::new(Arc::clone(&open.queue), config.health));
    let rpc_listen = config.rpc.as_ref().map(|rpc| rpc.listen);
    let places = [Some(listen), rpc_listen].into_iter().flatten();
    let exposed = places.into_iter().find(|at| !at.ip().is_loopback());
    let is_exposed = exposed.is_some();
    let access =
        Access { given, is_exposed, hosts: config.hosts.clone(), workers: config.workers.clone() };
    let beside = (Arc::clone(&watch), config.webhooks.clone());
    let app = App::open(Arc::clone(&open.queue), access, beside).await?;
    if let Some(exposed) = exposed {
        must_have_tokens(&app, config, exposed)?;
    }
    let (format, address) = (config.log.0, listener.local_addr()?);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let rpc_address = rpc_listener.as_ref().map(|(_, listener)| listener.local_addr());
    let _announced = announce(dir, scheme, address, rpc_address.transpose()?)?;
    logs::started(format, scheme, address, &shown);
    config.seeds.iter().for_each(|(variable, key)| logs::named_otherwise(variable, key));
    let is_open = |at: SocketAddr| !at.ip().is_loopback();
    if is_open(listen) && tls.is_none() || rpc_listen.is_some_and(is_open) {
        logs::unencrypted();
    }
    tokio::spawn(health::watch(watch));
    let supervisor = Supervisor::from_environment();
    supervisor.ready(&format!("serving {scheme}://{address}"));
    let ticking = begin_ticking(&open.queue).await;
    open.queue.sweep_every(config.sweep.as_millis() as u64);
    config.newcomers.clone().into_iter().for_each(|settings| open.queue.assume(settings));
    let courier = begin_beside(&app, &open);
    tokio::spawn(reload(signal(SignalKind::hangup())?, tls.clone()));
    let by_rpc = match rpc_listener {
        Some((rpc, listener)) => Some(begin_rpc(&app, rpc, listener, (format, config.drain))?),
        None => None,
    };
    let connections_max = room_for(config.connections_max);
    let by_http = http::serve(Arc::clone(&app), listener, tls, connections_max, config.drain);
    let mut serving = tokio::spawn(async {
        match by_rpc {
            Some(by_rpc) => tokio::try_join!(by_http, by_rpc).map(|_| ()),
            None => by_http.await,
        }
    });
    tokio::select! {
        stopped = ticking => anyhow::bail!("the queue stopped: {}", stopped?),
        ended = &mut serving => ended??,
        () = supervisor.alive() => {}
        () = signals.next() => {
            supervisor.stopping();
            logs::stopping(format);
            app.stop();
            let at_once = tokio::select! {
                ended = drained(serving, courier, &app, config.drain) => ended.map(|()| false)?,
                () = signals.next() => true,
            };
            observed.flush().await;
            logs::stopped(address, &shown, at_once);
        }
    }
    Ok(())
}

/// Waits for what is under way, for a while.
async fn drained(
    serving: JoinHandle<std::io::Result<()>>,
    courier: JoinHandle<()>,
    app: &App,
    within: Duration,
) -> anyhow::Result<()> {
    // What is being delivered now is delivered; what is not is sent again later.
    let quiet = async { tokio::join!(courier, app.workers.ended(), app.quiet()) };
    // As long as any of it lasts, whoever has work from here can report on it.
    let _in_time = tokio::time::timeout(within, quiet).await;
    app.close();
    let handed_back = tokio::time::timeout(HANDED_BACK, app.workers.ended());
    let (served, _or_not) = tokio::join!(serving, handed_back);
    let _or_not = tokio::time::timeout(WRITTEN, app.book.close()).await;
    Ok(served??)
}

/// The directory that holds the store, if one does.
fn directory(place: &Place) -> Option<PathBuf> {
    match place {
        Place::Directory(dir) => Some(dir.clone()),
        Place::Database(_) => None,
    }
}

/// Says beside the store where its server is, for as long as it is there.
fn announce(
    dir: Option<PathBuf>,
    scheme: &str,
    http: SocketAddr,
    rpc: Option<SocketAddr>,
) -> std::io::Result<Option<Announced>> {
    dir.map(|dir| Announced::at(&dir, scheme, http, rpc)).transpose()
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

/// Lets happen what happens by itself. Whoever held something when the server was stopped has its
/// grace before the first of them is heard; if that fails, ticking tries again and says why.
async fn begin_ticking(queue: &Arc<Queue>) -> JoinHandle<Failure> {
    let _tried = queue.step().await;
    let queue = Arc::clone(queue);
    tokio::spawn(async move { queue.run().await })
}

/// Begins what a server does besides answering. Gives what is to be waited for when it stops; all
/// else goes with the process, as what it was about is due still at the next start.
fn begin_beside(app: &Arc<App>, open: &Open) -> JoinHandle<()> {
    tokio::spawn(bulk::run(Arc::clone(app)));
    tokio::spawn(blobs::collect(Arc::clone(&open.queue)));
    tokio::spawn(schedules::run(Arc::clone(&open.queue)));
    tokio::spawn({
        let app = Arc::clone(app);
        async move {
            tokio::select! {
                () = app.book.run() => {}
                () = app.stops() => {}
            }
        }
    });
    app.workers.begin();
    tokio::spawn(webhooks::run(Arc::clone(app)))
}

/// Who is told of every command.
struct Observed {
    #[cfg(feature = "otel")]
    tracer: Option<Arc<otel::Tracer>>,
}

impl Observed {
    #[cfg_attr(
        not(feature = "otel"),
        expect(clippy::unnecessary_wraps, reason = "only traces can fail")
    )]
    fn by(config: &Config) -> anyhow::Result<Observed> {
        #[cfg(not(feature = "otel"))]
        let _nobody_else = config;
        Ok(Observed {
            #[cfg(feature = "otel")]
            tracer: config.otel.as_deref().map(otel::begin).transpose()?,
        })
    }

    fn observers(&self) -> Vec<Arc<dyn Observer>> {
        #[cfg_attr(not(feature = "otel"), expect(unused_mut, reason = "only traces add to it"))]
        let mut all: Vec<Arc<dyn Observer>> = vec![Arc::new(logs::Lines)];
        #[cfg(feature = "otel")]
        all.extend(self.tracer.clone().map(|tracer| tracer as Arc<dyn Observer>));
        all
    }

    /// What was not sent yet is sent.
    async fn flush(&self) {
        #[cfg(feature = "otel")]
        if let Some(tracer) = &self.tracer {
            tracer.flush().await;
        }
    }
}

/// A token that the operator brings along.
fn given(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("auth.token_file: cannot read {shown}"))?;
    let text = text.trim_end_matches(['\r', '\n']);
    Book::check_given(text).map_err(|why| anyhow::anyhow!("auth.token_file: {shown}: {why}"))?;
    Ok(text.to_owned())
}

/// Refuses to be reached from other machines by whoever likes.
fn must_have_tokens(app: &App, config: &Config, exposed: SocketAddr) -> anyhow::Result<()> {
    let store = match &config.store {
        Some(_) => "--store with the address of the database".to_owned(),
        None => format!("--data-dir {}", config.data_dir.display()),
    };
    anyhow::ensure!(
        app.book.has_tokens(),
        "{exposed} can be reached from other machines, and there is no token: anybody there could \
         do anything. Make one with `windrow token create --role admin` and {store}, or name a \
         file that holds one with WINDROW_AUTH__TOKEN_FILE; or listen on 127.0.0.1"
    );
    Ok(())
}

/// Reads the certificate again whenever it is asked to.
async fn reload(mut asked: Signal, tls: Option<Tls>) {
    while asked.recv().await.is_some() {
        let Some(tls) = &tls else { continue };
        match tls.reload() {
            Ok(()) => logs::certificate_read(None),
            Err(error) => logs::certificate_read(Some(&error)),
        }
    }
}

/// How many connections the system lets us have, up to what is wanted. Files of the store and
/// connections to a database need some of the same.
fn room_for(wanted: usize) -> usize {
    const RESERVED: u64 = 256;
    let files = rlimit::increase_nofile_limit(wanted as u64 + RESERVED).unwrap_or(1_024);
    let room = files.saturating_sub(RESERVED).max(64) as usize;
    if room < wanted {
        logs::little_room(room, files);
    }
    room.min(wanted)
}

async fn bind(listen: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(listen).await.with_context(|| {
        format!("cannot listen on {listen}; is another server there? choose another with {flag}")
    })
}

/// Says where RPC is; what it gives serves it.
fn begin_rpc(
    app: &Arc<App>,
    config: &Rpc,
    listener: TcpListener,
    (format, drain): (logs::Format, Duration),
) -> anyhow::Result<impl Future<Output = std::io::Result<()>> + use<>> {
    let Rpc { queue, deadlines, .. } = config;
    logs::rpc_started(format, listener.local_addr()?, queue);
    let shared = rpc::Shared::new(Arc::clone(app), queue);
    Ok(rpc::serve(shared, listener, *deadlines, drain))
}

/// Whoever tells the process to stop.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Signals> {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Signals { interrupt: signal(interrupt)?, terminate: signal(terminate)? })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
