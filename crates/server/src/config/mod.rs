//! Configuration: what a server is told, from where, and what it makes of it.
//!
//! Every value is a text under a dotted key. Later layers win: defaults, the file, the environment,
//! flags. Where a value came from is kept, so that `windrow config show --origin` can say it. A key
//! that does not exist is refused with the one that was probably meant.

mod keys;
mod layers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

pub(crate) use keys::{KEYS, distance};
pub(crate) use layers::Layers;

/// What a server is told.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    /// Where the store is: one of these.
    pub(crate) store: Option<String>,
    pub(crate) data_dir: PathBuf,
    /// How long what is under way may take to end when the server stops.
    pub(crate) drain: Duration,
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
        let data_dir = data_dir.map_or_else(state_dir, |path| Ok(path.into()))?;
        let drain_ms: u64 = layers.parse("server.drain_ms")?;
        Ok(Config {
            listen: layers.parse("server.listen")?,
            store: store.map(str::to_owned),
            data_dir,
            drain: Duration::from_millis(drain_ms),
        })
    }
}

/// Where a user's programs keep what must survive.
fn state_dir() -> anyhow::Result<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
    let home = || named("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let base = named("XDG_STATE_HOME").map(PathBuf::from).or_else(home);
    let base = base.context("there is no HOME; say where the store is with --data-dir")?;
    Ok(base.join("windrow"))
}
