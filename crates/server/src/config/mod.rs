//! Configuration: what a server is told, from where, and what it makes of it.
//!
//! Every value is a text under a dotted key. Later layers win: defaults, the file, the environment,
//! flags. Where a value came from is kept, so that `windrow config show --origin` can say it. A key
//! that does not exist is refused with the one that was probably meant.

mod documents;
mod keys;
mod layers;
mod workers;

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use windrow_core::settings::{KindSettings, Policy, Settings};

use crate::rpc::Deadlines;
use crate::tls::Files;

pub(crate) use documents::{Documents, EmbedBy, ExtractBy, GraphIn, Model, OcrBy, VectorsIn};
pub(crate) use keys::{KEYS, Key, secret_variables};
pub(crate) use layers::{Layers, Origin};

use crate::health::Thresholds;
use crate::logs;
use crate::webhooks::Sender;
use crate::workers::Plan;

/// A delivery ends before its lease does.
const WEBHOOK_MAX_MS: u64 = 45_000;

/// What a server is told.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    /// None if there is no RPC.
    pub(crate) rpc: Option<Rpc>,
    /// Names by which it may be called.
    pub(crate) hosts: Vec<String>,
    /// The path below which a proxy shows it; empty if none.
    pub(crate) base_path: String,
    /// Keys whose values the console shows to nobody; none if nobody said so.
    pub(crate) redacted: Vec<String>,
    /// What it encrypts with; nothing if it does not.
    pub(crate) tls: Option<Files>,
    /// The file that holds an admin's token.
    pub(crate) token_file: Option<PathBuf>,
    /// Where the store is: one of these.
    pub(crate) store: Option<String>,
    pub(crate) data_dir: PathBuf,
    pub(crate) connections_max: usize,
    /// How long what is under way may take to end when the server stops.
    pub(crate) drain: Duration,
    pub(crate) log: (logs::Format, logs::Level),
    pub(crate) health: Thresholds,
    /// Where traces go.
    pub(crate) otel: Option<String>,
    pub(crate) webhooks: Sender,
    pub(crate) workers: Plan,
    pub(crate) documents: Documents,
    /// How much time lies between two sweeps.
    pub(crate) sweep: Duration,
    /// How queues behave that nobody has configured, if not as they do by themselves.
    pub(crate) newcomers: Option<Settings>,
    /// Variables of other systems that count, with the keys that they stand for.
    pub(crate) seeds: Vec<(String, String)>,
}

/// What a server is told about RPC.
#[derive(Debug)]
pub(crate) struct Rpc {
    pub(crate) listen: SocketAddr,
    pub(crate) queue: String,
    pub(crate) deadlines: Deadlines,
}

impl Config {
    pub(crate) fn new(layers: &Layers) -> anyhow::Result<Config> {
        let (store, data_dir) = (layers.get("store.url"), layers.get("store.data_dir"));
        if let (Some(_), Some(_)) = (store, data_dir) {
            anyhow::bail!(
                "store.url ({}) and store.data_dir ({}) are both given; a server has one store",
                layers.origin("store.url"),
                layers.origin("store.data_dir"),
            );
        }
        for name in ["store.url", "store.data_dir"] {
            let is_empty = layers.get(name).is_some_and(|value| value.trim().is_empty());
            anyhow::ensure!(!is_empty, "{name} ({}) is empty", layers.origin(name));
        }
        let data_dir = data_dir.map_or_else(state_dir, |path| Ok(path.into()))?;
        let drain_ms: u64 = layers.parse("server.drain_ms")?;
        let drain = Duration::from_millis(drain_ms);
        let listen = layers.parse::<Listen>("server.listen")?.0;
        let seeds = layers.seeds().into_iter();
        Ok(Config {
            listen,
            rpc: rpc(layers, listen)?,
            hosts: layers.list("server.hosts")?,
            base_path: base_path(layers)?,
            redacted: layers.list("console.redact")?,
            tls: tls(layers)?,
            token_file: layers.get("auth.token_file").map(PathBuf::from),
            store: store.map(str::to_owned),
            data_dir,
            connections_max: layers.parse("server.connections_max")?,
            drain,
            log: (layers.parse("log.format")?, layers.parse("log.level")?),
            health: Thresholds::new(
                layers.parse("health.oldest_s")?,
                layers.parse("health.stalled_s")?,
            ),
            otel: traces_to(layers)?,
            webhooks: webhooks(layers)?,
            workers: workers::plan(layers, drain)?,
            documents: documents::documents(layers)?,
            sweep: Duration::from_secs(layers.parse("queue.sweep_s")?),
            newcomers: newcomers(layers)?,
            seeds: seeds.map(|(name, key)| (name.to_owned(), key.to_owned())).collect(),
        })
    }
}

fn newcomers(layers: &Layers) -> anyhow::Result<Option<Settings>> {
    let lease_ms = layers.parse::<u64>("queue.page_lease_s")?.saturating_mul(1_000);
    let max_attempts = layers.parse("queue.max_attempts")?;
    let plain = Settings::default();
    if plain.policy("", "page").lease_ms == lease_ms && plain.defaults.max_attempts == max_attempts
    {
        return Ok(None);
    }
    let defaults = Policy { max_attempts, ..Policy::default() };
    let kinds = ["page", "chunk"].map(|kind| KindSettings { kind: kind.into(), lease_ms });
    Ok(Some(Settings { defaults, kinds: kinds.into(), ..plain }))
}

/// A path that begins with a slash and ends without one; nothing if there is none.
fn base_path(layers: &Layers) -> anyhow::Result<String> {
    let said = layers.get("server.base_path").unwrap_or_default().trim_end_matches('/');
    let is_plain =
        said.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte));
    anyhow::ensure!(
        said.is_empty() || (said.starts_with('/') && is_plain),
        "server.base_path must be a path such as /windrow"
    );
    Ok(said.to_owned())
}

fn tls(layers: &Layers) -> anyhow::Result<Option<Files>> {
    match (layers.get("server.tls_cert"), layers.get("server.tls_key")) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            Ok(Some(Files { certificate: certificate.into(), key: key.into() }))
        }
        _ => anyhow::bail!("server.tls_cert and server.tls_key go together; give both or none"),
    }
}

/// Where to listen: an address, or a name of this machine, with a port.
#[derive(Clone, Copy, Debug)]
struct Listen(SocketAddr);

impl FromStr for Listen {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Listen> {
        if let Ok(address) = text.parse() {
            return Ok(Listen(address));
        }
        let how = "write an address and a port, such as 127.0.0.1:7117 or localhost:7117";
        let has_both = text
            .rsplit_once(':')
            .is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok());
        anyhow::ensure!(has_both, "{how}");
        let found = text.to_socket_addrs().map_err(|error| anyhow::anyhow!("{error}; {how}"))?;
        let found: Vec<SocketAddr> = found.collect();
        // What most programs try first when they are given the same name.
        let chosen = found.iter().find(|address| address.is_ipv4()).or(found.first());
        chosen.copied().map(Listen).with_context(|| format!("nothing has that name; {how}"))
    }
}

fn webhooks(layers: &Layers) -> anyhow::Result<Sender> {
    let timeout_ms: u64 = layers.parse("webhooks.timeout_ms")?;
    anyhow::ensure!(
        (1..=WEBHOOK_MAX_MS).contains(&timeout_ms),
        "webhooks.timeout_ms ({}) must lie between 1 and {WEBHOOK_MAX_MS}",
        layers.origin("webhooks.timeout_ms"),
    );
    Ok(Sender {
        allowed: layers.parse("webhooks.allow")?,
        within: Duration::from_millis(timeout_ms),
        roots: layers.get("webhooks.roots").map(PathBuf::from),
    })
}

fn traces_to(layers: &Layers) -> anyhow::Result<Option<String>> {
    let endpoint = layers.get("otel.endpoint").map(str::to_owned);
    anyhow::ensure!(
        endpoint.is_none() || cfg!(feature = "otel"),
        "otel.endpoint ({}) is given, and this windrow was built without traces; build it with \
         --features otel",
        layers.origin("otel.endpoint")
    );
    Ok(endpoint)
}

fn rpc(layers: &Layers, http: SocketAddr) -> anyhow::Result<Option<Rpc>> {
    let listen = match layers.get("server.rpc_listen") {
        Some("off") => return Ok(None),
        Some(_) => layers.parse::<Listen>("server.rpc_listen")?.0,
        // It is not encrypted: whoever wants it to be reached from elsewhere says so.
        None => {
            let here = if http.ip().is_loopback() { http.ip() } else { Ipv4Addr::LOCALHOST.into() };
            // Port 0 is any that is free, for both.
            let port = if http.port() == 0 { 0 } else { http.port().checked_add(1).unwrap_or(0) };
            SocketAddr::new(here, port)
        }
    };
    let ms = |name| layers.parse::<u64>(name).map(Duration::from_millis);
    let deadlines =
        Deadlines { frame: ms("server.rpc_frame_ms")?, idle: ms("server.rpc_idle_ms")? };
    let queue = layers.parse("server.rpc_queue")?;
    Ok(Some(Rpc { listen, queue, deadlines }))
}

/// Where a user's programs keep what must survive.
fn state_dir() -> anyhow::Result<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    let home = || named("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let base = named("XDG_STATE_HOME").map(PathBuf::from).or_else(home);
    let base = base.context("there is no HOME; say where the store is with --data-dir")?;
    Ok(base.join("windrow"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_listens_on_an_address_or_a_name_with_a_port() {
        let at = |text: &str| text.parse::<Listen>().map(|listen| listen.0);
        assert_eq!(at("127.0.0.1:7").ok(), Some(SocketAddr::from(([127, 0, 0, 1], 7))));
        assert!(at("localhost:7").expect("this machine").ip().is_loopback());
        for wrong in ["", "7117", ":7117", "localhost", "localhost:", "localhost:99999"] {
            let said = at(wrong).expect_err(wrong).to_string();
            assert!(said.contains("such as 127.0.0.1:7117"), "{wrong}: {said}");
        }
    }

    #[test]
    fn names_of_the_seeds_say_how_new_queues_behave() {
        let said = |all: &[(&str, &str)]| {
            let all = all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            newcomers(&Layers::new().with_environment(all)?)
        };
        assert_eq!(said(&[]).expect("it is read"), None);
        let both = [("MAX_TASK_RETRIES", "5"), ("STALE_TASK_TIMEOUT", "300")];
        let settings = said(&both).expect("it is read").expect("they differ");
        assert_eq!(settings.policy("ocr", "page").lease_ms, 300_000);
        assert_eq!(settings.policy("work", "item").lease_ms, Policy::default().lease_ms);
        assert_eq!(settings.policy("work", "item").max_attempts, 5);
    }

    #[test]
    fn an_empty_place_is_no_place() {
        let layers = Layers::new().with_flag("--data-dir", "store.data_dir", Some(" ".into()));
        let said = Config::new(&layers.expect("it is read")).expect_err("it is empty").to_string();
        assert_eq!(said, "store.data_dir (from --data-dir) is empty");
    }
}
