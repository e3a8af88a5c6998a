//! Logs: what the server says of itself, a line at a time, on standard error.
//!
//! This is the only module that writes log lines, and each kind of line is a function that takes
//! ids, numbers and codes. Of what a caller asked, nothing else is ever said: no payload, result,
//! key, name or text of an error. Sentences are logged only of what the server does by itself, such
//! as opening its store. Lines of other crates are left out, because they might say more.

mod operations;
mod requests;

use std::net::SocketAddr;
use std::str::FromStr;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{FilterFn, LevelFilter};
use tracing_subscriber::layer::SubscriberExt as _;
use windrow_client::worker::Event;
use windrow_core::RequestId;
use windrow_engine::Failure;

pub(crate) use operations::Lines;
pub(crate) use requests::request;

use crate::cli::{Exit, Stop};
use crate::health::Status;
use crate::workers::hand::{Did, Done};

/// How lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Text,
    Json,
}

impl FromStr for Format {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Format, &'static str> {
        match word {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            _ => Err("must be text or json"),
        }
    }
}

/// How much is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Level(tracing::Level);

impl FromStr for Level {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Level, &'static str> {
        Ok(Level(match word {
            "error" => tracing::Level::ERROR,
            "warn" => tracing::Level::WARN,
            "info" => tracing::Level::INFO,
            "debug" => tracing::Level::DEBUG,
            _ => return Err("must be error, warn, info or debug"),
        }))
    }
}

/// From here on lines are written.
pub(crate) fn begin(format: Format, level: Level) {
    let ours: FilterFn = FilterFn::new(|line| line.target().starts_with("windrow"));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = match format {
        Format::Text => lines.with_ansi(false).boxed(),
        Format::Json => {
            lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
        }
    };
    let lines = lines.with_filter(ours).with_filter(LevelFilter::from_level(level.0));
    let lines = tracing_subscriber::registry().with(lines);
    // A second call, as tests of one process make, changes nothing.
    let _first_stays = tracing::subscriber::set_global_default(lines);
}

/// The server takes requests. `store` is a path, or an address without a password.
pub(crate) fn started(format: Format, scheme: &str, address: SocketAddr, store: &str) {
    if format == Format::Text {
        eprintln!("windrow: the queue in {store} is at {scheme}://{address}, described at /docs");
    }
    tracing::info!(scheme, %address, store, version = env!("CARGO_PKG_VERSION"), "started");
}

/// The same over RPC.
pub(crate) fn rpc_started(format: Format, address: SocketAddr, queue: &str) {
    // Who wants to hear of what goes wrong only does not want to hear of this.
    if format == Format::Text && tracing::enabled!(tracing::Level::INFO) {
        eprintln!("windrow: RPC is at {address}, its plain calls on queue {queue}");
    }
    tracing::info!(%address, "started RPC");
}

/// The certificate was to be read again; why it was not, if so.
pub(crate) fn certificate_read(error: Option<&anyhow::Error>) {
    match error {
        None => tracing::info!("the certificate was read again"),
        Some(error) => {
            let reason = format!("{error:#}");
            tracing::error!(reason, "the certificate stays as it was");
        }
    }
}

/// There can be fewer connections than there may be.
pub(crate) fn little_room(connections: usize, files: u64) {
    tracing::warn!(connections, files, "few files may be open, and so few connections");
}

/// Other machines reach the server, and whoever is in between reads along.
pub(crate) fn unencrypted() {
    tracing::warn!(
        "tokens and payloads cross the network unencrypted; give --tls-cert and --tls-key, or let \
         a proxy in front of it speak TLS; over RPC that is always so"
    );
}

/// A variable that another system has a name for is used.
pub(crate) fn named_otherwise(variable: &str, key: &str) {
    tracing::info!(variable, key, "configured by a name of another system");
}

/// Whoever made a backup went away before it was done.
pub(crate) fn backup_let_go(id: RequestId) {
    tracing::warn!(backup = %id, "nobody went on with a backup, so it was let go");
}

/// What a worker of the server did with an item.
pub(crate) fn worked(worker: &str, done: &Done) {
    let (item, attempt) = (done.work.id.to_string(), done.work.attempt);
    let ms = done.took.as_millis() as u64;
    let outcome = match &done.did {
        Did::Settled(settled, _) => settled.ending.name(),
        Did::Lost(_) => "lost",
        Did::Unknown(_) => "unknown",
    };
    match &done.not_started {
        // Of the command, which is the operator's, everything may be said.
        Some(reason) => tracing::error!(worker, reason, "the command cannot be started"),
        None => tracing::info!(worker, item, attempt, outcome, ms, "worked"),
    }
}

/// Nobody works on documents yet.
pub(crate) fn documents_wait(error: &anyhow::Error) {
    let reason = format!("{error:#}");
    tracing::error!(reason, "documents wait: the catalog cannot be opened; trying again");
}

/// What was in work when the last process was killed is in line again.
pub(crate) fn documents_taken_back(items: usize) {
    tracing::info!(items, "handed back what the last process held of documents");
}

/// What the catalog wants done and the queue did not know is enqueued.
pub(crate) fn documents_resumed(documents: usize) {
    tracing::info!(documents, "enqueued documents that nobody worked on");
}

/// The same could not be done yet.
pub(crate) fn documents_not_resumed(error: &anyhow::Error) {
    let reason = format!("{error:#}");
    tracing::error!(reason, "documents that nobody works on were not enqueued; trying again");
}

/// Workers of documents say only ids and codes.
pub(crate) fn documents_told(event: Event) {
    let told = event.to_string();
    match event {
        // That its own store does not answer, the server says itself.
        Event::Away(_) | Event::Back => {}
        Event::Lost(_) | Event::HandedBack { .. } => tracing::info!(told, "documents"),
        _ => tracing::warn!(told, "documents"),
    }
}

pub(crate) fn documents_not_stopped(error: &windrow_core::queue::Error) {
    tracing::warn!(reason = error.to_string(), "not all that was in work was handed back");
}

pub(crate) fn documents_left_over(error: &windrow_pipelines::documents::StillThere) {
    let reason = error.to_string();
    tracing::warn!(reason, "something removed may still lie in a store outside; it is tried again");
}

/// What an operator did is not in the audit.
pub(crate) fn not_audited(operation: &str, failure: &Failure) {
    tracing::error!(operation, reason = code(failure), "the audit could not be written");
}

pub(crate) fn stopping(format: Format) {
    if format == Format::Text {
        eprintln!("windrow: stopping; a second signal stops at once");
    }
    tracing::info!("stopping");
}

/// It has stopped as it was told.
pub(crate) fn stopped(address: SocketAddr, store: &str, at_once: bool) {
    tracing::info!(%address, store, at_once, "stopped");
}

/// It did not start, or could not go on. In text the program says why at its end anyway.
pub(crate) fn gave_up(format: Format, error: anyhow::Error) -> anyhow::Error {
    if format == Format::Text {
        return error;
    }
    tracing::error!(reason = format!("{error:#}"), "gave up");
    let exit = error.downcast_ref::<Stop>().map_or(Exit::Failed, |stop| stop.exit);
    Stop::silent(exit).into()
}

/// Spans were not taken where they should go. Nothing of them is said.
#[cfg(feature = "otel")]
pub(crate) fn not_exported(spans: usize, reason: &str) {
    tracing::warn!(spans, reason, "traces not exported");
}

/// A check of health turned to another colour. What it says names queues and resources at most.
pub(crate) fn health_changed(check: &str, of: Option<&str>, status: Status, says: &str) {
    match status {
        Status::Green => tracing::info!(check, of, status = status.name(), says, "health"),
        _ => tracing::warn!(check, of, status = status.name(), says, "health"),
    }
}

/// What happens by itself did not happen this time.
fn did_not_tick(failure: &Failure) {
    tracing::warn!(code = code(failure), reason = failure.to_string(), "tick failed");
}

/// What went wrong, by the name that callers see.
pub(crate) fn code(failure: &Failure) -> &'static str {
    use windrow_core::ports::StoreError;
    match failure {
        Failure::Refused(refusal) => refusal.code(),
        Failure::Overloaded { .. } => "overloaded",
        Failure::Store(StoreError::NotApplied(_)) => "store_failed",
        Failure::Store(StoreError::Closed) => "stopping",
        Failure::Store(StoreError::OutcomeUnknown(_)) => "outcome_unknown",
        Failure::Store(StoreError::Poisoned(_)) => "poisoned",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn only_words_that_mean_something_are_understood() {
        assert_eq!("json".parse(), Ok(Format::Json));
        assert_eq!("JSON".parse::<Format>(), Err("must be text or json"));
        assert_eq!("debug".parse(), Ok(Level(tracing::Level::DEBUG)));
        assert_eq!("trace".parse::<Level>(), Err("must be error, warn, info or debug"));
    }

    /// Files of the program outside this module that write a line of the log.
    fn writers(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with("logs") {
                writers(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).expect("a text");
                if text.contains("tracing::") || text.contains("log::info!") {
                    found.push(path.display().to_string());
                }
            }
        }
    }

    #[test]
    fn no_other_module_writes_log_lines() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut found = Vec::new();
        for folder in ["src", "../engine/src", "../core/src", "../store/src", "../wire/src"] {
            writers(&here.join(folder), &mut found);
        }
        assert_eq!(found, Vec::<String>::new());
        // The search finds what it looks for.
        writers(&here.join("src/logs"), &mut found);
        assert_eq!(found.len(), 3);
    }
}
