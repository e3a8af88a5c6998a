//! Following documents until they can be found, or cannot be.

use std::time::Duration;

use serde_json::Value;
use windrow_core::Timestamp;
use windrow_wire::document::{AddedOutcome, Document, State};

use super::files::File;
use crate::bars::Bars;
use crate::cli::exit::{Exit, Stop};
use crate::cli::reach::{Ask, Target};
use crate::cli::show::now;
use crate::cli::up::stuck::{self, Live, live};

/// Between two looks, and documents that are looked at in one.
const EVERY: Duration = Duration::from_millis(200);
const AT_ONCE: usize = 32;

/// So many looks in a row nothing may move before somebody is told why.
const SAID_LOOKS: u32 = 25;

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
    let (mut next, mut still) = (0, Still { began: now(), last: [0; 3], looks: 0, said: None });
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
        let mut tenant = None;
        for at in turn.take(AT_ONCE.min(waiting.len())) {
            tenant = look(target, &mut all[*at]).await?.or(tenant);
        }
        next += AT_ONCE;
        if let Some(why) = still.look(target, tenant.as_deref()).await? {
            bars.say(&format!("windrow: {why}"));
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Whether anything moves.
struct Still {
    began: Timestamp,
    /// What was there at the last look, and since how many looks.
    last: Live,
    looks: u32,
    /// What was said of why nothing moves.
    said: Option<String>,
}

impl Still {
    /// Why nothing has moved for a while in a tenant whose documents wait, unless that was said.
    async fn look(
        &mut self,
        target: &Target,
        tenant: Option<&str>,
    ) -> Result<Option<String>, Stop> {
        let Some(tenant) = tenant else { return Ok(None) };
        let live = live(target, tenant).await?;
        self.looks = if live == self.last { self.looks + 1 } else { 0 };
        self.last = live;
        if self.looks == 0 || !self.looks.is_multiple_of(SAID_LOOKS) {
            return Ok(None);
        }
        let stuck = stuck::look(target, tenant, self.began).await?;
        let why = stuck::why(target, &stuck).await?.filter(|why| self.said.as_ref() != Some(why));
        if why.is_some() {
            self.said.clone_from(&why);
        }
        Ok(why)
    }
}

/// Looks what became of a document. Gives its tenant while it waits.
async fn look(target: &Target, one: &mut Followed) -> Result<Option<String>, Stop> {
    let (Some(id), Is::Waiting(outcome)) = (one.id.as_deref(), &one.is) else { return Ok(None) };
    let document: Document = match target.read(Ask::get(&["documents", id])).await {
        Err(stop) if stop.exit == Exit::NotFound => {
            one.is = Is::Gone("it was deleted meanwhile".into());
            return Ok(None);
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
            None => return Ok(Some(document.tenant)),
        },
    };
    Ok(None)
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
