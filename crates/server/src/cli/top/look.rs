//! One look at a queue: everything that a frame or a snapshot shows, asked by the API.
//!
//! Counts by status are the server's own. What waits for its time, and which stage items are in, is
//! counted here from the newest items that live, [`LIVE_MAX`] at most; a look says whether those
//! were all.

use serde::{Deserialize, Serialize};
use windrow_core::Timestamp;
use windrow_wire::filter;
use windrow_wire::time::Time;

use crate::cli::exit::{Exit, Stop};
use crate::cli::reach::{Ask, Target};
use crate::cli::show::{printable, span};

/// Items on a page, and how many that live are looked at.
const PAGE: usize = 200;
const LIVE_MAX: usize = 1_000;
/// Failures that are shown.
const ITEMS: usize = 100;
/// What is listed if the filter names no status.
const FAILED: &str = "status:failed";

/// What was seen at a moment.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub(super) struct Look {
    /// Who answered.
    pub(super) source: String,
    /// When, by the clock of whoever answered.
    pub(super) at: Time,
    /// Nobody serves the store: it was opened for this look alone.
    pub(super) is_alone: bool,
    /// None if this caller may not know.
    pub(super) health: Option<Health>,
    pub(super) queues: Vec<Queue>,
    pub(super) stages: Vec<Stage>,
    /// Delays and stages are of the newest items only; there are more.
    pub(super) partial: bool,
    pub(super) workers: Vec<Worker>,
    /// What the filter lists: failures, unless it names other statuses.
    pub(super) items: Vec<Item>,
    /// There are more of them.
    pub(super) more: bool,
}

#[derive(Clone, PartialEq, Deserialize, Serialize, Debug)]
pub(super) struct Health {
    pub(super) status: String,
    pub(super) checks: Vec<Check>,
}

impl Health {
    /// The first line of the worst that is not well, and what to do about it.
    pub(super) fn first_ill(&self) -> Option<String> {
        let is = |status: &str| self.checks.iter().find(|check| check.status == status);
        let Check { check, of, says, remedy, .. } = is("red").or_else(|| is("yellow"))?;
        let of = of.as_ref().map(|of| format!(" of {of}")).unwrap_or_default();
        let remedy = remedy.as_ref().map(|remedy| format!(". Fix: {remedy}")).unwrap_or_default();
        Some(format!("{check}{of}: {says}{remedy}"))
    }
}

#[derive(Clone, PartialEq, Deserialize, Serialize, Debug)]
pub(super) struct Check {
    pub(super) check: String,
    pub(super) status: String,
    pub(super) of: Option<String>,
    pub(super) says: String,
    pub(super) remedy: Option<String>,
}

#[derive(Clone, Default, PartialEq, Deserialize, Serialize, Debug)]
pub(super) struct Queue {
    pub(super) queue: String,
    pub(super) pending: u64,
    /// Of those that are pending, how many wait for their time.
    #[serde(default)]
    pub(super) delayed: u64,
    pub(super) processing: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) cancelled: u64,
    pub(super) skipped: u64,
    pub(super) paused: Vec<Part>,
    pub(super) waiting_since: Option<Time>,
}

impl Queue {
    pub(super) fn is_paused(&self) -> bool {
        self.paused.contains(&Part::default())
    }

    pub(super) fn pauses_stage(&self, stage: &str) -> bool {
        let part = Part { stage: Some(stage.to_owned()), tenant: None };
        self.paused.contains(&part)
    }
}

/// What of a queue is paused.
#[derive(Clone, Default, PartialEq, Deserialize, Serialize, Debug)]
pub(super) struct Part {
    pub(super) stage: Option<String>,
    pub(super) tenant: Option<String>,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.stage, &self.tenant) {
            (None, None) => write!(f, "paused"),
            (Some(stage), None) => write!(f, "stage {stage} paused"),
            (None, Some(tenant)) => write!(f, "tenant {tenant} paused"),
            (Some(stage), Some(tenant)) => write!(f, "stage {stage} of {tenant} paused"),
        }
    }
}

/// A stage of a queue that something is in.
#[derive(Clone, Default, PartialEq, Serialize, Debug)]
pub(super) struct Stage {
    pub(super) queue: String,
    pub(super) stage: String,
    pub(super) due: u64,
    pub(super) delayed: u64,
    pub(super) processing: u64,
}

#[derive(Clone, PartialEq, Deserialize, Serialize, Debug)]
pub(super) struct Worker {
    pub(super) name: String,
    /// None of one that is drained and away.
    pub(super) last_seen: Option<Time>,
    pub(super) waiting: u64,
    pub(super) leases: u64,
    /// Whether what it takes is known.
    #[serde(default = "known")]
    pub(super) asked: bool,
    pub(super) queues: Vec<String>,
    pub(super) stages: Vec<String>,
    pub(super) kinds: Vec<String>,
    /// It is handed nothing new.
    #[serde(default)]
    pub(super) drained: bool,
}

/// Servers that do not say so list nobody else.
fn known() -> bool {
    true
}

impl Worker {
    /// The queues it takes from; none named if from all, or if it is away.
    pub(super) fn takes(&self) -> String {
        let is_known = self.asked || self.leases == 0;
        if is_known { self.queues.join(", ") } else { "?".to_owned() }
    }

    /// Its name, and a word if it is drained.
    pub(super) fn titled(&self) -> String {
        let name = printable(&self.name);
        if self.drained { format!("{name} (drained)") } else { name }
    }

    /// How long ago it was last seen.
    pub(super) fn seen(&self, now: Time) -> String {
        self.last_seen.map_or_else(|| "-".to_owned(), |seen| span(now.0.since(seen.0)))
    }
}

#[derive(Clone, PartialEq, Deserialize, Serialize, Debug)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) queue: String,
    pub(super) stage: String,
    pub(super) attempts: u64,
    pub(super) updated_at: Time,
    pub(super) finished_at: Option<Time>,
    pub(super) not_before: Option<Time>,
    pub(super) key: Option<String>,
    pub(super) error: Option<Wrong>,
    /// Why it ended, if no error says so.
    pub(super) reason: Option<String>,
}

#[derive(Clone, PartialEq, Deserialize, Serialize, Debug)]
pub(super) struct Wrong {
    pub(super) message: String,
}

impl Item {
    /// When it ended, or something last happened to it.
    pub(super) fn since(&self) -> Timestamp {
        self.finished_at.unwrap_or(self.updated_at).0
    }

    pub(super) fn why(&self) -> &str {
        let message = self.error.as_ref().map(|error| error.message.as_str());
        message.or(self.reason.as_deref()).unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Item>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct System {
    workers: Vec<Worker>,
    timestamp: Time,
}

impl Look {
    /// Looks. The filter must be one.
    pub(super) async fn at(target: &Target, filter: &str) -> Result<Look, Stop> {
        let system: System = target.read(Ask::get(&["system", "status"])).await?;
        let queues: Vec<Queue> = target.read(Ask::get(&["queues"])).await?;
        let health = match target.read(Ask::get(&["health"])).await {
            Ok(health) => Some(health),
            // It is about all tenants, and this caller has one.
            Err(stop) if stop.exit == Exit::Denied => None,
            Err(stop) => return Err(stop),
        };
        let (listed, living) = filters(filter)?;
        let (mut items, more) = pages(target, &listed, ITEMS).await?;
        items.sort_by_key(|item| std::cmp::Reverse(item.since()));
        let (live, partial) = pages(target, &living, LIVE_MAX).await?;
        let mut look = Look {
            source: target.shown(),
            at: system.timestamp,
            is_alone: target.is_alone(),
            health,
            queues,
            stages: Vec::new(),
            partial,
            workers: system.workers,
            items,
            more,
        };
        look.count(&live);
        look.only(filter);
        Ok(look)
    }

    /// Counts what lives by stage, and what waits for its time.
    fn count(&mut self, live: &[Item]) {
        for item in live {
            let is_same = |stage: &Stage| stage.queue == item.queue && stage.stage == item.stage;
            let at = self.stages.iter().position(is_same).unwrap_or_else(|| {
                let (queue, stage) = (item.queue.clone(), item.stage.clone());
                self.stages.push(Stage { queue, stage, ..Stage::default() });
                self.stages.len() - 1
            });
            let stage = &mut self.stages[at];
            let is_delayed = item.not_before.is_some_and(|until| until > self.at);
            match item.status.as_str() {
                "processing" => stage.processing += 1,
                _ if is_delayed => stage.delayed += 1,
                _ => stage.due += 1,
            }
        }
        self.stages.sort_by(|a, b| (&a.queue, &a.stage).cmp(&(&b.queue, &b.stage)));
        for queue in &mut self.queues {
            let of = self.stages.iter().filter(|stage| stage.queue == queue.queue);
            queue.delayed = of.map(|stage| stage.delayed).sum();
        }
    }

    /// Leaves out the queues that a filter does not name.
    fn only(&mut self, filter: &str) {
        if let Some(name) = filter::parse(filter).ok().and_then(|filter| filter.queue) {
            self.queues.retain(|queue| queue.queue == name);
        }
    }

    /// How many items ended, well and not, in each queue.
    pub(super) fn ended(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.queues
            .iter()
            .map(|queue| (queue.queue.as_str(), queue.completed + queue.skipped, queue.failed))
    }

    /// Since when the first of all waits.
    pub(super) fn waiting_since(&self) -> Option<Timestamp> {
        self.queues.iter().filter_map(|queue| queue.waiting_since).min().map(|time| time.0)
    }
}

/// What lists the items that are shown, and what lists those that live.
fn filters(filter: &str) -> Result<(String, String), Stop> {
    let read = filter::parse(filter);
    let read = read.map_err(|wrong| Stop::usage(format!("{:?}: {}", wrong.word, wrong.why)))?;
    let listed = match read.status {
        Some(_) => filter.to_owned(),
        None => format!("{FAILED} {filter}"),
    };
    // Whatever the filter says of statuses or texts: what lives is counted whole.
    let mut living = "status:pending,processing".to_owned();
    let fields = [("queue", &read.queue), ("stage", &read.stage), ("tenant", &read.tenant)];
    for (key, value) in fields {
        let quoted = |value: &String| value.replace('\\', "\\\\").replace('"', "\\\"");
        living.extend(value.iter().map(|value| format!(" {key}:\"{}\"", quoted(value))));
    }
    Ok((listed.trim_end().to_owned(), living))
}

/// So many items of a list at most, and whether there are more.
async fn pages(target: &Target, filter: &str, most: usize) -> Result<(Vec<Item>, bool), Stop> {
    let (mut items, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let limit = PAGE.min(most - items.len()).to_string();
        let ask = Ask::get(&["queue"]).with("filter", Some(filter)).with("limit", Some(limit));
        let page: Page = target.read(ask.with("cursor", cursor.as_ref())).await?;
        let is_empty = page.items.is_empty();
        items.extend(page.items);
        cursor = page.next;
        // A search that found nothing in its time is not waited for.
        if cursor.is_none() || is_empty || items.len() >= most {
            return Ok((items, cursor.is_some()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_listed_unless_the_filter_names_a_status() {
        let of = |filter: &str| filters(filter).expect("it is read");
        let living = "status:pending,processing".to_owned();
        assert_eq!(of(""), ("status:failed".to_owned(), living));
        let (listed, living) = of("queue:\"a \\\"b\\\" c\" no space");
        assert_eq!(listed, "status:failed queue:\"a \\\"b\\\" c\" no space");
        assert_eq!(living, "status:pending,processing queue:\"a \\\"b\\\" c\"");
        assert!(filter::parse(&living).is_ok());
        assert_eq!(of("status:cancelled").0, "status:cancelled");
        assert_eq!(filters("quuee:x").expect_err("no key").exit, Exit::Usage);
    }
}
