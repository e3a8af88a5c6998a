//! Which queue a command is about, and who answers for it.
//!
//! What the command line says wins over the environment, and that over what a server here would
//! use. A data directory is asked through its server if one holds it; else it is opened.

use std::path::{Path, PathBuf};

use windrow_client::http::Client;
use windrow_client::{Finder, Options, Token};
use windrow_store::embedded::disk::LockError;

use super::announced::{last_in, server_of};
use super::profile::{self, Profile};
use super::{ATTEMPT, Here, Reach, Target};
use crate::cli::data_dir::{Locked, holds_a_store, is_running, not_locked, to_read};
use crate::cli::exit::{Exit, Stop};
use crate::cli::place::Place;
use crate::cli::serve;
use crate::config::{Config, Layers};
use crate::tls::certificates;

/// A variable that says something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Who is to answer.
pub(crate) enum Whom {
    /// A server that is named.
    Server(String, Option<Profile>),
    /// A store, with what a server of it would be told.
    Store(Box<Config>, Place),
}

/// Who is to answer, by what was said.
pub(super) fn whom(reach: &Reach) -> anyhow::Result<Whom> {
    let says_where = reach.data_dir.is_some() || reach.store.is_some();
    let from_environment = |name| if says_where { None } else { variable(name) };
    let server = match (&reach.server, &reach.profile) {
        (Some(server), _) => Some(server.clone()),
        (None, Some(_)) => None,
        (None, None) => from_environment("WINDROW_SERVER"),
    };
    if let Some(server) = server {
        return Ok(Whom::Server(server, None));
    }
    if let Some(name) = reach.profile.clone().or_else(|| from_environment("WINDROW_PROFILE")) {
        let profile = profile::named(&name)?;
        return Ok(Whom::Server(profile.server.clone(), Some(profile)));
    }
    let config = configured(reach)?;
    let place = serve::place(&config)?;
    Ok(Whom::Store(Box::new(config), place))
}

pub(super) async fn find(reach: &Reach, create: bool) -> anyhow::Result<Target> {
    match whom(reach)? {
        Whom::Server(address, profile) => wire(reach, &address, profile, None),
        Whom::Store(config, Place::Directory(dir)) => directory(reach, &config, dir, create).await,
        Whom::Store(config, place) => {
            Ok(Target::Here(Box::new(Here::begin(place, &config, create).await?)))
        }
    }
}

/// What a server here would be told, with these flags.
fn configured(reach: &Reach) -> anyhow::Result<Config> {
    let config = layers(reach).and_then(|layers| Config::new(&layers));
    config.map_err(|error| Stop::usage(format!("{error:#}")).into())
}

/// The same, by who said it.
pub(super) fn layers(reach: &Reach) -> anyhow::Result<Layers> {
    let layers = reach.source.layers()?;
    let layers = layers.with_flag("--data-dir", "store.data_dir", reach.data_dir.clone())?;
    layers.with_flag("--store", "store.url", reach.store.clone())
}

async fn directory(
    reach: &Reach,
    config: &Config,
    dir: PathBuf,
    create: bool,
) -> anyhow::Result<Target> {
    if !create && !holds_a_store(&dir)? {
        let said = format!(
            "there is no queue in {}; start one with `windrow serve` or `windrow enqueue \
             --create`, or say where it is with --data-dir, --store or --server",
            dir.display()
        );
        return Err(Stop::new(Exit::NotFound, said).into());
    }
    match Here::begin(Place::Directory(dir.clone()), config, create).await {
        Ok(here) => Ok(Target::Here(Box::new(here))),
        Err(error) => match error.downcast_ref::<Locked>() {
            Some(locked) => through_its_server(reach, &dir, locked),
            None => Err(error),
        },
    }
}

/// Asks whoever has the directory open.
fn through_its_server(reach: &Reach, dir: &Path, locked: &Locked) -> anyhow::Result<Target> {
    match server_of(dir, &locked.by) {
        // Whoever waits for it to come back finds it wherever it listens then.
        Some(said) => wire(reach, &said.http, None, Some(finder_in(dir.to_owned()))),
        None => {
            let said = format!(
                "{} is in use by {}, which is no server that can be asked; wait until it ends, or \
                 stop it and run `windrow serve`, which many can use",
                dir.display(),
                locked.by
            );
            Err(Stop::new(Exit::Failed, said).into())
        }
    }
}

/// Says where the server of a data directory is now. It takes no lock, which whoever starts a
/// server there would meet.
fn finder_in(dir: PathBuf) -> Finder {
    let running = move || last_in(&dir).filter(|said| is_running(said.pid));
    Finder::new(move || running()?.http.parse().ok())
}

/// The server that uses a data directory now, if one does.
pub(in crate::cli) fn server_in(dir: &Path) -> anyhow::Result<Option<Target>> {
    if !holds_a_store(dir)? {
        return Ok(None);
    }
    match to_read(dir)?.lock() {
        Ok(_nobody) => Ok(None),
        Err(LockError::Held { by }) => match server_of(dir, &by) {
            Some(said) => connected(&said.http, None, None, token(None, None)?).map(Some),
            None => Err(not_locked(dir, LockError::Held { by })),
        },
        Err(error) => Err(not_locked(dir, error)),
    }
}

fn wire(
    reach: &Reach,
    address: &str,
    profile: Option<Profile>,
    finder: Option<Finder>,
) -> anyhow::Result<Target> {
    let (profile_token, profile_ca) = match profile {
        Some(profile) => (profile.token_file, profile.ca),
        None => (None, None),
    };
    let roots = reach.ca.clone().or(profile_ca);
    if let Some(path) = &roots {
        certificates(path).map_err(|error| Stop::usage(format!("--ca: {error}")))?;
    }
    connected(address, finder, roots, token(reach.token_file.as_deref(), profile_token)?)
}

fn connected(
    address: &str,
    finder: Option<Finder>,
    roots: Option<PathBuf>,
    token: Option<Token>,
) -> anyhow::Result<Target> {
    let options = Options { token, attempt: ATTEMPT, roots, ..Options::default() };
    let client = match finder {
        Some(finder) => Client::found_by(finder, address, options),
        None => Client::new(address, options),
    };
    let client = client.map_err(|error| Stop::usage(error.to_string()))?;
    Ok(Target::Wire(Box::new(client)))
}

/// The token, from the nearest place that has one.
fn token(named: Option<&Path>, of_profile: Option<PathBuf>) -> anyhow::Result<Option<Token>> {
    let in_file = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| {
            let path = path.display();
            Stop::usage(format!("the token cannot be read from {path}: {error}"))
        })
    };
    let (text, from) = match (named, variable("WINDROW_TOKEN")) {
        (Some(path), _) => (Some(in_file(path)?), path.display().to_string()),
        (None, Some(token)) => (Some(token), "WINDROW_TOKEN".to_owned()),
        (None, None) => {
            let path = variable("WINDROW_TOKEN_FILE").map(PathBuf::from).or(of_profile);
            let from = path.as_deref().map(|path| path.display().to_string());
            (path.as_deref().map(in_file).transpose()?, from.unwrap_or_default())
        }
    };
    let read = |text: String| {
        Token::new(text.trim()).map_err(|error| Stop::usage(format!("{from}: {error}")))
    };
    Ok(text.map(read).transpose()?)
}
