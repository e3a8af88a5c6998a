//! A running server: it begins, answers until somebody tells it to stop, and stops in good order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use windrow_engine::Failure;
use windrow_engine::observe::Observer;
use windrow_store::postgres::Postgres;

use super::{Signals, given, place, shown};
use crate::blobs;
use crate::bulk;
use crate::cli::data_dir::holds_a_store;
use crate::cli::exit::Stop;
use crate::cli::place::Place;
use crate::cli::reach::{Announced, Hand};
use crate::config::{Config, Rpc};
use crate::documents::{self, Beside, Documents};
use crate::health::{self, Watch};
use crate::http::{self, Access, App};
use crate::logs;
#[cfg(feature = "otel")]
use crate::otel;
use crate::rpc;
use crate::schedules;
use crate::sources;
use crate::store::{Open, Queue};
use crate::supervisor::Supervisor;
use crate::tls::Tls;
use crate::webhooks;

/// How long commands that did not end in time may take to be ended, and their items handed back.
const HANDED_BACK: Duration = Duration::from_secs(10);

/// How long the last use of tokens may take to be written.
const WRITTEN: Duration = Duration::from_secs(2);

/// A server that answers.
pub(in crate::cli) struct Running {
    app: Arc<App>,
    address: SocketAddr,
    /// Where its store is, without a password.
    shown: String,
    format: logs::Format,
    drain: Duration,
    observed: Observed,
    supervisor: Supervisor,
    ticking: JoinHandle<Failure>,
    courier: JoinHandle<()>,
    serving: JoinHandle<std::io::Result<()>>,
    _announced: Option<Announced>,
    // Last, so that everything that uses it goes first.
    _open: Open,
}

impl Running {
    /// Begins a server.
    pub(in crate::cli) async fn begin(config: &Config) -> anyhow::Result<Running> {
        let (place, listen) = (place(config)?, config.listen);
        let (dir, shown) = (directory(&place), shown(&place)?);
        let tls = config.tls.clone().map(Tls::open).transpose()?;
        let listener = bind(listen, "--listen").await?;
        let rpc_listener = match &config.rpc {
            Some(rpc) => Some((rpc, bind(rpc.listen, "--rpc-listen").await?)),
            None => None,
        };
        let observed = Observed::by(config)?;
        let (open, app) = opened(config, place, &observed).await?;
        let (format, address) = (config.log.0, listener.local_addr()?);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let rpc_address = rpc_listener.as_ref().map(|(_, listener)| listener.local_addr());
        let _announced = announce(dir, scheme, address, rpc_address.transpose()?)?;
        logs::started(format, scheme, address, &shown);
        config.seeds.iter().for_each(|(variable, key)| logs::named_otherwise(variable, key));
        let is_open = |at: SocketAddr| !at.ip().is_loopback();
        if is_open(listen) && tls.is_none()
            || config.rpc.as_ref().is_some_and(|rpc| is_open(rpc.listen))
        {
            logs::unencrypted();
        }
        tokio::spawn(health::watch(Arc::clone(&app.watch)));
        let supervisor = Supervisor::from_environment();
        supervisor.ready(&format!("serving {scheme}://{address}"));
        let ticking = begin_ticking(&open.queue).await;
        open.queue.sweep_every(config.sweep.as_millis() as u64);
        config.newcomers.clone().into_iter().for_each(|settings| open.queue.assume(settings));
        let courier = begin_beside(&app, &open, address.port());
        tokio::spawn(reload(signal(SignalKind::hangup())?, tls.clone()));
        let by_rpc = match rpc_listener {
            Some((rpc, listener)) => Some(begin_rpc(&app, rpc, listener, (format, config.drain))?),
            None => None,
        };
        let connections_max = room_for(config.connections_max);
        let by_http = http::serve(Arc::clone(&app), listener, tls, connections_max, config.drain);
        let serving = tokio::spawn(async {
            match by_rpc {
                Some(by_rpc) => tokio::try_join!(by_http, by_rpc).map(|_| ()),
                None => by_http.await,
            }
        });
        let (drain, _open) = (config.drain, open);
        Ok(Running {
            app,
            address,
            shown,
            format,
            drain,
            observed,
            supervisor,
            ticking,
            courier,
            serving,
            _announced,
            _open,
        })
    }

    /// The server, asked by this process itself.
    pub(in crate::cli) fn hand(&self) -> Hand {
        Hand::of(&self.app)
    }

    /// Answers until a signal comes or something else is over, and stops. Gives what came of that,
    /// unless the signal was first.
    pub(in crate::cli) async fn until<T>(
        mut self,
        signals: &mut Signals,
        over: impl Future<Output = T>,
    ) -> anyhow::Result<Option<T>> {
        let came = tokio::select! {
            stopped = &mut self.ticking => anyhow::bail!("the queue stopped: {}", stopped?),
            ended = &mut self.serving => {
                ended??;
                return Ok(None);
            }
            () = self.supervisor.alive() => return Ok(None),
            came = over => Some(came),
            () = signals.next() => None,
        };
        self.supervisor.stopping();
        if came.is_none() {
            logs::stopping(self.format);
        }
        self.app.stop();
        let at_once = tokio::select! {
            ended = drained(self.serving, self.courier, &self.app, self.drain) => {
                ended.map(|()| false)?
            }
            () = signals.next() => true,
        };
        self.observed.flush().await;
        logs::stopped(self.address, &self.shown, at_once);
        Ok(came)
    }
}

/// Opens the store, unless others could do to it what they like.
async fn opened(
    config: &Config,
    place: Place,
    observed: &Observed,
) -> anyhow::Result<(Open, Arc<App>)> {
    let beside = Beside::from(&place);
    documents::check(&config.documents, &beside)
        .map_err(|misfit| Stop::usage(misfit.to_string()))?;
    let given = config.token_file.as_deref().map(given).transpose()?;
    let rpc_listen = config.rpc.as_ref().map(|rpc| rpc.listen);
    let places = [Some(config.listen), rpc_listen].into_iter().flatten();
    let exposed = places.into_iter().find(|at| !at.ip().is_loopback());
    if let Some(exposed) = exposed.filter(|_| given.is_none()) {
        // Where there is no store there is no token, and none is made to find that out.
        anyhow::ensure!(holds_a_queue(&place).await?, needs_tokens(config, exposed));
    }
    let open = Open::at(place).await?;
    open.queue.observe(observed.observers());
    let watch = Arc::new(Watch::new(Arc::clone(&open.queue), config.health));
    let is_exposed = exposed.is_some();
    let access = Access {
        is_by_hand: false,
        given,
        is_exposed,
        hosts: config.hosts.clone(),
        base_path: config.base_path.clone(),
        is_secure: config.tls.is_some(),
        redacted: config.redacted.clone(),
        workers: config.workers.clone(),
    };
    let documents = Documents::new(config.documents.clone(), beside, Arc::clone(&open.queue));
    let beside = (watch, config.webhooks.clone(), Arc::new(documents));
    let app = App::open(Arc::clone(&open.queue), access, beside).await?;
    if let Some(exposed) = exposed {
        anyhow::ensure!(app.book.has_tokens(), needs_tokens(config, exposed));
    }
    Ok((open, app))
}

/// Waits for what is under way, for a while.
async fn drained(
    serving: JoinHandle<std::io::Result<()>>,
    courier: JoinHandle<()>,
    app: &App,
    within: Duration,
) -> anyhow::Result<()> {
    // What is being delivered now is delivered; what is not is sent again later.
    let quiet =
        async { tokio::join!(courier, app.workers.ended(), app.documents.stop(), app.quiet()) };
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

/// Lets happen what happens by itself. Whoever held something when the server was stopped has its
/// grace before the first of them is heard; if that fails, ticking tries again and says why.
async fn begin_ticking(queue: &Arc<Queue>) -> JoinHandle<Failure> {
    let _tried = queue.step().await;
    let queue = Arc::clone(queue);
    tokio::spawn(async move { queue.run().await })
}

/// Begins what a server does besides answering. Gives what is to be waited for when it stops; all
/// else goes with the process, as what it was about is due still at the next start.
fn begin_beside(app: &Arc<App>, open: &Open, port: u16) -> JoinHandle<()> {
    tokio::spawn(bulk::run(Arc::clone(app)));
    tokio::spawn(blobs::collect(Arc::clone(&open.queue), Arc::clone(&app.documents)));
    tokio::spawn(documents::run(Arc::clone(app), port));
    tokio::spawn(sources::run(Arc::clone(app)));
    tokio::spawn(schedules::run(Arc::clone(&open.queue)));
    tokio::spawn({
        let app = Arc::clone(app);
        async move {
            tokio::select! {
                () = app.book.run() => {}
                () = app.drained.run() => {}
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

/// Whether there is a store already.
async fn holds_a_queue(place: &Place) -> anyhow::Result<bool> {
    match place {
        Place::Directory(dir) => holds_a_store(dir),
        Place::Database(options) => Ok(!Postgres::schema(options).await?.applied.is_empty()),
    }
}

/// Why a server is not reached from other machines by whoever likes, and what to do.
fn needs_tokens(config: &Config, exposed: SocketAddr) -> String {
    let store = match &config.store {
        Some(_) => "--store with the address of the database".to_owned(),
        None => format!("--data-dir {}", config.data_dir.display()),
    };
    format!(
        "{exposed} can be reached from other machines, and there is no token: anybody there could \
         do anything. Make one with `windrow token create --role admin` and {store}, or name a \
         file that holds one with WINDROW_AUTH__TOKEN_FILE; or listen on 127.0.0.1"
    )
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
