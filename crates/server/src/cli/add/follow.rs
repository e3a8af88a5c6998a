//! Following documents until they can be found, or cannot be.

use std::time::Duration;

use serde_json::Value;
use windrow_wire::document::{AddedOutcome, Document, State};

use super::files::File;
use crate::bars::Bars;
use crate::cli::exit::{Exit, Stop};
use crate::cli::reach::{Ask, Target};

/// Between two looks, and documents that are looked at in one.
const EVERY: Duration = Duration::from_millis(200);
const AT_ONCE: usize = 32;

/// A file, and what became of it.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) file: File,
    /// Its document, if it became one.
    pub(super) id: Option<String>,
    pub(super) pages: Option<u32>,
    pub(super) is: Is,
}

/// What became of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Is {
    /// It was not taken in.
    Refused(String),
    /// It is in line, or in work.
    Waiting(AddedOutcome),
    /// Search finds it.
    Live,
    /// Search found it like this before.
    Unchanged,
    /// It cannot be read.
    Failed(String),
    /// Nobody wants it any more.
    Gone(String),
}

impl Is {
    /// In a word.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Is::Refused(_) => "refused",
            Is::Waiting(AddedOutcome::Unchanged) | Is::Unchanged => "unchanged",
            Is::Waiting(_) => "enqueued",
            Is::Live => "live",
            Is::Failed(_) => "failed",
            Is::Gone(_) => "gone",
        }
    }

    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Is::Refused(why) | Is::Failed(why) | Is::Gone(why) => Some(why),
            Is::Waiting(_) | Is::Live | Is::Unchanged => None,
        }
    }
}

/// Looks at documents again and again until none of them waits.
pub(super) async fn follow(
    target: &Target,
    all: &mut [Followed],
    bars: &mut Bars,
) -> Result<(), Stop> {
    let total = all.iter().filter(|one| one.id.is_some()).count() as u64;
    let mut next = 0;
    loop {
        let waiting: Vec<usize> =
            (0..all.len()).filter(|at| matches!(all[*at].is, Is::Waiting(_))).collect();
        bars.set("done", total - waiting.len() as u64, total);
        bars.tell();
        if waiting.is_empty() {
            return Ok(());
        }
        // Everyone has a turn, however many there are.
        let turn = waiting.iter().cycle().skip(next % waiting.len());
        for at in turn.take(AT_ONCE.min(waiting.len())) {
            look(target, &mut all[*at]).await?;
        }
        next += AT_ONCE;
        tokio::time::sleep(EVERY).await;
    }
}

/// Looks what became of a document.
async fn look(target: &Target, one: &mut Followed) -> Result<(), Stop> {
    let (Some(id), Is::Waiting(outcome)) = (one.id.as_deref(), &one.is) else { return Ok(()) };
    let document: Document = match target.read(Ask::get(&["documents", id])).await {
        Err(stop) if stop.exit == Exit::NotFound => {
            one.is = Is::Gone("it was deleted meanwhile".into());
            return Ok(());
        }
        document => document?,
    };
    one.pages = document.pages;
    one.is = match document.state {
        State::Live if *outcome == AddedOutcome::Unchanged => Is::Unchanged,
        State::Live => Is::Live,
        State::Failed => Is::Failed(document.failure.unwrap_or_default()),
        State::Deleting => Is::Gone("it is being deleted".into()),
        State::Building | State::Updating => match ended(target, id).await? {
            Some(why) => Is::Failed(why),
            None => return Ok(()),
        },
    };
    Ok(())
}

/// Why nobody works on a document any more, if that is so.
pub(in crate::cli) async fn ended(target: &Target, id: &str) -> Result<Option<String>, Stop> {
    let ask = Ask::get(&["queue"]).with("queue", Some("documents")).with("kind", Some("document"));
    let page: Value = target.read(ask.with("q", Some(id)).with("limit", Some("1"))).await?;
    let item = &page["items"][0];
    let why = item["error"]["message"].as_str().or(item["reason"].as_str());
    Ok(match item["status"].as_str() {
        Some("failed") => Some(why.unwrap_or("its item failed").to_owned()),
        Some("cancelled") => Some("its item was cancelled; retry it with `windrow retry`".into()),
        _ => None,
    })
}
