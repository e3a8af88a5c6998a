//! The store that a command is about: a data directory, or a database.

use std::path::{Path, PathBuf};

use windrow_store::postgres::{Address, Options};

use super::config::Source;
use super::exit::Stop;
use super::serve;
use crate::config::Config;

/// Where the store is: one of these.
#[derive(clap::Args, Debug)]
pub(super) struct PlaceArgs {
    /// The directory that holds the store's files; by default what `windrow serve` would use here.
    #[arg(value_name = "DIR", conflicts_with_all = ["data_dir", "store"])]
    dir: Option<PathBuf>,
    /// The same.
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    data_dir: Option<PathBuf>,
    /// The database that holds the store, such as postgres://user@host/database. A password that is
    /// not in it is taken from PGPASSWORD.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    #[command(flatten)]
    source: Source,
}

/// A store by its place.
pub(crate) enum Place {
    Directory(PathBuf),
    Database(Options),
}

impl PlaceArgs {
    pub(super) fn place(&self) -> anyhow::Result<Place> {
        match (&self.store, self.dir.as_ref().or(self.data_dir.as_ref())) {
            (Some(url), _) => Ok(Place::Database(database(url)?)),
            (None, Some(path)) => Place::parse(path),
            (None, None) => by_default(&self.source),
        }
    }
}

impl Place {
    /// A directory, or an address where a directory was asked for.
    pub(crate) fn parse(text: &Path) -> anyhow::Result<Place> {
        match text.to_str() {
            Some(url) if Address::is_meant(url) => Ok(Place::Database(database(url)?)),
            Some(url) if url.contains("://") => Err(unknown_scheme(url)),
            _ => Ok(Place::Directory(text.to_owned())),
        }
    }
}

/// What a server here would use.
pub(super) fn by_default(source: &Source) -> anyhow::Result<Place> {
    let config = source.layers().and_then(|layers| Config::new(&layers));
    serve::place(&config.map_err(|error| Stop::usage(format!("{error:#}")))?)
}

/// The database at an address.
pub(crate) fn database(url: &str) -> anyhow::Result<Options> {
    if !Address::is_meant(url) {
        return Err(unknown_scheme(url));
    }
    // What is wrong with it is said here, before anything is tried.
    let address = Address::parse(url).map_err(|error| Stop::usage(error.to_string()))?;
    if !address.names_database() {
        let shown = address.shown();
        eprintln!("windrow: the address names no database, so it is the user's: {shown}");
    }
    let mut options = Options::new(url);
    options.password = std::env::var("PGPASSWORD").ok();
    Ok(options)
}

/// What was meant is not known; nothing of it is repeated but its scheme, because the rest may hold
/// a password.
fn unknown_scheme(url: &str) -> anyhow::Error {
    let said = match url.split_once("://") {
        Some((scheme, _)) => format!("{scheme}:// is not a kind of store"),
        None => "--store takes the address of a database".to_owned(),
    };
    let write = "write postgres://user@host:port/database, or give a directory with --data-dir";
    Stop::usage(format!("{said}; {write}")).into()
}
