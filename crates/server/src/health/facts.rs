//! Facts: what is known at a moment, gathered from the engine and the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windrow_core::Timestamp;
use windrow_core::change::Lease;
use windrow_core::item::Status;
use windrow_core::ports::{Count, Store as _, StoreError};
use windrow_core::vitals::Vitals;
use windrow_engine::observe::{Flowing, OTHER, QUEUES_MAX};
use windrow_engine::presence::Worker;
use windrow_engine::window::{Commits, Flow};
use windrow_engine::{Clock as _, Pulse};

use super::{Health, Thresholds};
use crate::store::Queue;

/// Minutes of which failures and the store's speed are judged.
pub(crate) const WINDOW_MINUTES: u64 = 5;
/// How long the store may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// What was read so shortly ago is not read again, however many ask.
const FRESH_MS: u64 = 1_000;

/// What is known at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// By this server's clock.
    pub(crate) now: Timestamp,
    pub(crate) started: Timestamp,
    pub(crate) serving: Serving,
    pub(crate) store: Result<StoreFacts, Trouble>,
    /// What happened in queues lately, as far as it happened here.
    pub(crate) flows: BTreeMap<Arc<str>, QueueFlow>,
    /// When somebody last worked in a stage of a queue, as far as it was here.
    pub(crate) worked: BTreeMap<(Arc<str>, Arc<str>), Timestamp>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) pulse: Pulse,
    pub(crate) commits: Commits,
}

/// Whether requests of others are taken here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Serving {
    Yes,
    /// Until what is under way has ended.
    Stopping,
    /// A command looks at the store, and nobody serves it as long as it does.
    Nobody,
    /// A command looks at the store; whether a server does nobody here knows.
    Unknown,
}

/// What the store says.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreFacts {
    pub(crate) vitals: Vitals,
    pub(crate) leases: Vec<Lease>,
    /// By queue and status, all tenants together; beyond a limit as one.
    pub(crate) counts: BTreeMap<(Arc<str>, Status), u64>,
}

/// What happened in one queue.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct QueueFlow {
    /// In the last minutes.
    pub(crate) flow: Flow,
    pub(crate) worked: Option<Timestamp>,
}

/// Why the store says nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    Poisoned(String),
    /// It has not answered in time.
    Silent,
    Failed(String),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        match error {
            StoreError::Poisoned(why) => Trouble::Poisoned(why),
            error => Trouble::Failed(error.to_string()),
        }
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> StoreError {
        match trouble {
            Trouble::Poisoned(why) => StoreError::Poisoned(why),
            Trouble::Silent => StoreError::NotApplied("the store did not answer in time".into()),
            Trouble::Failed(why) => StoreError::NotApplied(why),
        }
    }
}

/// Whoever looks after a queue. Many may ask at once; the store is asked once.
#[derive(Debug)]
pub(crate) struct Watch {
    queue: Arc<Queue>,
    thresholds: Thresholds,
    started: Timestamp,
    /// As long as it does not stop.
    serving: Serving,
    is_stopping: std::sync::atomic::AtomicBool,
    read: tokio::sync::Mutex<Option<Read>>,
}

#[derive(Debug)]
struct Read {
    at: Timestamp,
    told: Result<StoreFacts, Trouble>,
}

impl Watch {
    pub(crate) fn new(queue: Arc<Queue>, thresholds: Thresholds) -> Watch {
        let started = queue.clock().now();
        let (serving, is_stopping) = (Serving::Yes, false.into());
        Watch { queue, thresholds, started, serving, is_stopping, read: Default::default() }
    }

    /// The server stops: it is not ready any more.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// It is no server that looks.
    pub(crate) fn without_server(self, is_alone: bool) -> Watch {
        Watch { serving: if is_alone { Serving::Nobody } else { Serving::Unknown }, ..self }
    }

    pub(crate) async fn health(&self) -> Health {
        Health::of(&self.facts().await, self.thresholds)
    }

    pub(crate) fn judge(&self, facts: &Facts) -> Health {
        Health::of(facts, self.thresholds)
    }

    /// What is known now.
    pub(crate) async fn facts(&self) -> Facts {
        let store = self.store().await;
        let now = self.queue.clock().now();
        let figures = self.queue.figures();
        // What happened is dated by the store's clock.
        let at = store.as_ref().map_or(now, |store| store.vitals.at);
        let flow = |(queue, flowing): (Arc<str>, Flowing)| {
            let flow = flowing.window.last(WINDOW_MINUTES, at);
            (queue, QueueFlow { flow, worked: flowing.worked })
        };
        let leases: &[Lease] = store.as_ref().map_or(&[], |store| &store.leases);
        Facts {
            now,
            started: self.started,
            serving: match self.is_stopping.load(std::sync::atomic::Ordering::Relaxed) {
                true => Serving::Stopping,
                false => self.serving,
            },
            flows: figures.queues().into_iter().map(flow).collect(),
            worked: figures.worked(),
            workers: self.queue.workers_with(leases),
            pulse: self.queue.pulse(),
            commits: figures.recent_commits(WINDOW_MINUTES, now),
            store,
        }
    }

    /// What the store says, or said a moment ago.
    async fn store(&self) -> Result<StoreFacts, Trouble> {
        let mut read = self.read.lock().await;
        let now = self.queue.clock().now();
        if let Some(Read { at, told }) = &*read
            && now.since(*at) < FRESH_MS
        {
            return told.clone();
        }
        let told = match tokio::time::timeout(ANSWERS_WITHIN, self.ask(now)).await {
            Ok(told) => told.map_err(Trouble::from),
            Err(_) => Err(Trouble::Silent),
        };
        *read = Some(Read { at: self.queue.clock().now(), told: told.clone() });
        told
    }

    async fn ask(&self, now: Timestamp) -> Result<StoreFacts, StoreError> {
        let store = self.queue.store();
        let vitals = store.vitals(now).await?;
        let leases = store.leases().await?;
        let counts = by_queue(&store.counts().await?);
        Ok(StoreFacts { vitals, leases, counts })
    }
}

/// Counts of all tenants together, of at most so many queues.
fn by_queue(counts: &[Count]) -> BTreeMap<(Arc<str>, Status), u64> {
    let mut names: Vec<&Arc<str>> = counts.iter().map(|count| &count.queue).collect();
    names.dedup();
    let is_beyond = |queue: &Arc<str>| {
        names.len() > QUEUES_MAX && names.get(QUEUES_MAX).is_none_or(|first| queue >= first)
    };
    let mut by_queue = BTreeMap::new();
    for Count { queue, status, items, .. } in counts {
        let name = if is_beyond(queue) { Arc::from(OTHER) } else { Arc::clone(queue) };
        *by_queue.entry((name, *status)).or_default() += items;
    }
    by_queue
}

impl StoreFacts {
    /// Whether something of a queue is in work, or may be: beyond a limit queues count as one.
    fn in_work(&self, queue: &str) -> bool {
        let mut names = [Arc::from(queue), Arc::from(OTHER)].into_iter();
        let is_counted = |name: &Arc<str>| {
            Status::ALL.iter().any(|status| self.counts.contains_key(&(Arc::clone(name), *status)))
        };
        let name = names.find(is_counted);
        let count = name.and_then(|name| self.counts.get(&(name, Status::Processing)));
        count.is_some_and(|count| *count > 0)
    }
}

impl Facts {
    /// Whether a worker may have work of this stage in hand, or one that is known here has work of
    /// another after which it takes from this one.
    pub(super) fn is_busy(&self, queue: &str, stage: &str) -> bool {
        let Ok(store) = &self.store else { return false };
        let in_work = store.in_work(queue);
        store.leases.iter().any(|lease| {
            let here = self.workers.iter().find(|worker| worker.name == lease.worker);
            match here {
                Some(worker) if worker.has_asked() => claims(worker, queue, Some(stage)),
                // Of a worker at another server, or of before this one began, nobody here knows
                // what it asked for; but if nothing of the queue is in work, it was something else.
                _ => in_work,
            }
        })
    }

    /// When somebody last worked who takes from a stage. What workers of other stages do does not
    /// help it.
    pub(super) fn worked(&self, queue: &Arc<str>, stage: &Arc<str>) -> Option<Timestamp> {
        if self.workers_of(queue, Some(stage)).0 > 0 {
            return self.flows.get(queue)?.worked;
        }
        let of = |stage: Arc<str>| self.worked.get(&(Arc::clone(queue), stage));
        of(Arc::clone(stage)).or_else(|| of(OTHER.into())).copied()
    }

    /// Workers that take from a queue, in a stage if one is named, and how many of them wait for
    /// work right now.
    pub(super) fn workers_of(&self, queue: &str, stage: Option<&str>) -> (usize, usize) {
        let is_for = |worker: &&Worker| claims(worker, queue, stage) && !worker.is_drained;
        let there = self.workers.iter().filter(is_for);
        there.fold((0, 0), |(all, idle), worker| (all + 1, idle + usize::from(worker.waiting > 0)))
    }

    /// Whether workers that are drained would take from a stage.
    pub(super) fn has_drained(&self, queue: &str, stage: &str) -> bool {
        self.workers.iter().any(|worker| worker.is_drained && claims(worker, queue, Some(stage)))
    }
}

fn claims(worker: &Worker, queue: &str, stage: Option<&str>) -> bool {
    let takes = |names: &[Arc<str>], name: &str| {
        names.is_empty() || names.iter().any(|known| **known == *name)
    };
    worker.offers.iter().any(|offer| {
        takes(&offer.queues, queue) && stage.is_none_or(|stage| takes(&offer.stages, stage))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_counted_together_and_queues_beyond_the_limit_too() {
        let count = |queue: String, tenant: &str, items| Count {
            queue: queue.into(),
            tenant: tenant.into(),
            status: Status::Pending,
            items,
        };
        let mut counts = vec![count("a".into(), "t", 1), count("a".into(), "u", 2)];
        let told = by_queue(&counts);
        assert_eq!(told.len(), 1);
        assert_eq!(told[&("a".into(), Status::Pending)], 3);
        counts.extend((0..QUEUES_MAX + 9).map(|number| count(format!("q{number:04}"), "t", 1)));
        let told = by_queue(&counts);
        assert_eq!(told.len(), QUEUES_MAX + 1);
        assert_eq!(told[&(OTHER.into(), Status::Pending)], 10);
    }
}
