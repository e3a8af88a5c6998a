//! Observation: what the engine does is counted once, here, whoever asked for it and however.
//!
//! Latency and outcome of every command, how long the store takes, which attempt a hand-out is, and
//! per queue what happened in the last minutes. Whoever wants to know of each command as it ends
//! (logs, traces) is an [`Observer`]. Nothing here decides anything.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use windrow_core::command::{Answer, Command};
use windrow_core::ports::{Happened, Work};
use windrow_core::{ItemId, LeaseId, Timestamp};

use crate::engine::Failure;
use crate::histogram::{Histogram, Reading};
use crate::window::{Commits, Flow, Window};

/// Queues that are told apart; what is beyond counts together as [`OTHER`].
pub const QUEUES_MAX: usize = 200;
/// The name under which the queues beyond the limit count.
pub const OTHER: &str = "other";

/// Bounds of times, in microseconds.
const MICROS: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];
/// Bounds of attempts.
const ATTEMPTS: [u64; 8] = [1, 2, 3, 4, 5, 10, 20, 50];

/// Every verb, as [`Command::verb`] spells it.
pub const VERBS: [&str; 22] = [
    "enqueue",
    "claim",
    "renew",
    "progress",
    "settle",
    "cancel",
    "retry",
    "delete",
    "prioritise",
    "pause",
    "resume",
    "configure",
    "introduce",
    "notify",
    "gate",
    "limit",
    "blob",
    "forget_blob",
    "note",
    "reclaim",
    "grace",
    "sweep",
];

/// How a command ended as a whole. Single items of it may have been refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    Ok,
    Refused,
    /// Too much was under way.
    Overloaded,
    /// The store did not do it, or nobody knows.
    Failed,
}

impl Ending {
    pub const ALL: [Ending; 4] = [Ending::Ok, Ending::Refused, Ending::Overloaded, Ending::Failed];

    pub const fn name(self) -> &'static str {
        match self {
            Ending::Ok => "ok",
            Ending::Refused => "refused",
            Ending::Overloaded => "overloaded",
            Ending::Failed => "failed",
        }
    }

    fn of<T>(answered: &Result<T, Failure>) -> Ending {
        match answered {
            Ok(_) => Ending::Ok,
            Err(Failure::Refused(_)) => Ending::Refused,
            Err(Failure::Overloaded { .. }) => Ending::Overloaded,
            Err(Failure::Store(_)) => Ending::Failed,
        }
    }
}

/// Whoever wants to know of every command.
pub trait Observer: Send + Sync + fmt::Debug {
    /// A command has ended.
    fn ended(&self, operation: &Operation<'_>);
    /// What happens by itself did not happen this time.
    fn did_not_tick(&self, failure: &Failure);
}

/// A command that has ended.
#[derive(Debug)]
pub struct Operation<'a> {
    pub verb: &'static str,
    pub ending: Ending,
    pub micros: u64,
    pub asked: &'a Asked,
    pub answered: &'a Result<Answer<Work>, Failure>,
}

/// What is kept of a command until it has ended: names and ids, never what somebody wrote.
#[derive(Clone, Default, Debug)]
pub struct Asked {
    pub lease: Option<LeaseId>,
    pub items: Vec<ItemId>,
    /// The queue and the trace context of what is enqueued; the first, if they differ.
    pub queue: Option<Arc<str>>,
    pub trace: Option<String>,
}

impl Asked {
    fn of(command: &Command) -> Asked {
        let none = Asked::default();
        match command {
            Command::Enqueue(new) => {
                let body = new.first().map(|new| &new.body);
                let metadata = body.and_then(|body| body.metadata.as_deref());
                let trace = metadata.and_then(windrow_core::trace::kept).map(str::to_owned);
                Asked { queue: body.map(|body| Arc::clone(&body.queue)), trace, ..none }
            }
            Command::Settle { lease, items } => {
                let items = items.iter().map(|(id, _)| *id).collect();
                Asked { lease: Some(*lease), items, ..none }
            }
            Command::Progress { lease, items } => {
                let items = items.iter().map(|(id, _)| *id).collect();
                Asked { lease: Some(*lease), items, ..none }
            }
            Command::Renew { lease, .. } => Asked { lease: Some(*lease), ..none },
            Command::Cancel { items }
            | Command::Retry { items, .. }
            | Command::Delete { items }
            | Command::Prioritise { items, .. } => Asked { items: items.clone(), ..none },
            _ => none,
        }
    }
}

/// Everything that is counted.
#[derive(Debug)]
pub struct Figures {
    operations: [[Histogram<16>; 4]; VERBS.len()],
    commits: Histogram<16>,
    attempts: Histogram<8>,
    recent: Mutex<Recent>,
    observers: OnceLock<Vec<Arc<dyn Observer>>>,
}

#[derive(Debug, Default)]
struct Recent {
    queues: BTreeMap<Arc<str>, Flowing>,
    commits: Window<Commits>,
}

/// What happens in one queue.
#[derive(Clone, Default, Debug)]
pub struct Flowing {
    pub window: Window<Flow>,
    /// When a worker last took something or said how it ended.
    pub worked: Option<Timestamp>,
}

impl Default for Figures {
    fn default() -> Figures {
        Figures {
            operations: [const { [const { Histogram::new(&MICROS) }; 4] }; VERBS.len()],
            commits: Histogram::new(&MICROS),
            attempts: Histogram::new(&ATTEMPTS),
            recent: Mutex::default(),
            observers: OnceLock::new(),
        }
    }
}

/// A command that is under way.
#[derive(Debug)]
pub(crate) struct Begun {
    verb: &'static str,
    micros: u64,
    asked: Option<Asked>,
}

impl Figures {
    pub(crate) fn observe(&self, observers: Vec<Arc<dyn Observer>>) {
        // The first ones stay.
        let _set = self.observers.set(observers);
    }

    fn observers(&self) -> &[Arc<dyn Observer>] {
        self.observers.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn begin(&self, command: &Command, micros: u64) -> Begun {
        let asked = (!self.observers().is_empty()).then(|| Asked::of(command));
        Begun { verb: command.verb(), micros, asked }
    }

    pub(crate) fn end(&self, begun: Begun, answered: &Result<Answer<Work>, Failure>, micros: u64) {
        let Begun { verb, micros: since, asked } = begun;
        let (micros, ending) = (micros.saturating_sub(since), Ending::of(answered));
        let no = VERBS.iter().position(|known| *known == verb);
        debug_assert!(no.is_some(), "{verb} is not among the verbs");
        if let Some(no) = no {
            self.operations[no][ending as usize].record(micros);
        }
        if let Ok(Answer::Claimed(Some(grant))) = answered {
            for work in &grant.items {
                self.attempts.record(u64::from(work.item.attempts));
            }
        }
        if let Some(asked) = &asked {
            let operation = Operation { verb, ending, micros, asked, answered };
            self.observers().iter().for_each(|observer| observer.ended(&operation));
        }
    }

    pub(crate) fn did_not_tick(&self, failure: &Failure) {
        self.observers().iter().for_each(|observer| observer.did_not_tick(failure));
    }

    pub(crate) fn committed(&self, micros: u64, now: Timestamp) {
        self.commits.record(micros);
        *self.recent.lock().commits.at(now) += Commits { count: 1, micros };
    }

    pub(crate) fn happened(&self, happened: &[Happened]) {
        let mut recent = self.recent.lock();
        for of_queue in happened.chunk_by(|a, b| a.queue == b.queue) {
            let Some(first) = of_queue.first() else { continue };
            let flowing = recent.of(&first.queue);
            for happened in of_queue {
                let flow = Flow::of(happened.event);
                *flowing.window.at(happened.at) += flow;
                if flow.is_work() {
                    flowing.worked = flowing.worked.max(Some(happened.at));
                }
            }
        }
    }

    /// Latencies, by verb and ending, of what was asked at least once.
    pub fn operations(&self) -> Vec<(&'static str, Ending, Reading)> {
        let by_verb = VERBS.iter().zip(&self.operations);
        let each = by_verb.flat_map(|(verb, endings)| {
            Ending::ALL.into_iter().map(|ending| (*verb, ending, endings[ending as usize].read()))
        });
        each.filter(|(_, _, read)| read.count > 0).collect()
    }

    /// How long batches took to become durable.
    pub fn commits(&self) -> Reading {
        self.commits.read()
    }

    /// Which attempt of its stage each hand-out was.
    pub fn attempts(&self) -> Reading {
        self.attempts.read()
    }

    /// What happened in each queue lately, as far as this server did it.
    pub fn queues(&self) -> BTreeMap<Arc<str>, Flowing> {
        self.recent.lock().queues.clone()
    }

    /// How long the store took lately.
    pub fn recent_commits(&self, minutes: u64, now: Timestamp) -> Commits {
        self.recent.lock().commits.last(minutes, now)
    }
}

impl Recent {
    fn of(&mut self, queue: &Arc<str>) -> &mut Flowing {
        let is_new = !self.queues.contains_key(queue);
        let name = if is_new && self.queues.len() >= QUEUES_MAX {
            Arc::from(OTHER)
        } else {
            Arc::clone(queue)
        };
        self.queues.entry(name).or_default()
    }
}

#[cfg(test)]
mod tests {
    use windrow_core::id::StoreTag;
    use windrow_core::transitions::Event;
    use windrow_core::{Refusal, Status};

    use super::*;

    fn happened(queue: &str, event: Option<Event>, at: u64) -> Happened {
        Happened {
            id: ItemId::from_serial(1, StoreTag::default()),
            at: Timestamp(at),
            queue: queue.into(),
            tenant: "t".into(),
            stage: 0,
            status: Status::Pending,
            event,
        }
    }

    #[test]
    fn a_command_counts_once_by_its_verb_and_how_it_ended() {
        let figures = Figures::default();
        let command = Command::Cancel { items: vec![ItemId(1)] };
        let begun = figures.begin(&command, 1_000);
        figures.end(begun, &Ok(Answer::Cancelled(vec![])), 1_400);
        let begun = figures.begin(&command, 1_000);
        let refused = Err(Failure::Refused(Refusal::RequestReused));
        figures.end(begun, &refused, 3_001_000);
        let told = figures.operations();
        let told: Vec<_> =
            told.iter().map(|(verb, ending, read)| (*verb, *ending, read.sum)).collect();
        assert_eq!(told, [("cancel", Ending::Ok, 400), ("cancel", Ending::Refused, 3_000_000)]);
    }

    #[test]
    fn queues_beyond_the_limit_count_together() {
        let figures = Figures::default();
        for number in 0..QUEUES_MAX + 5 {
            figures.happened(&[happened(&format!("q{number}"), None, 0)]);
        }
        figures.happened(&[happened("q3", Some(Event::Claim), 7)]);
        let queues = figures.queues();
        assert_eq!(queues.len(), QUEUES_MAX + 1);
        let enqueued = |name: &str| queues[name].window.last(1, Timestamp(0)).enqueued;
        assert_eq!((enqueued(OTHER), enqueued("q3")), (5, 1));
        assert_eq!((queues["q3"].worked, queues["q4"].worked), (Some(Timestamp(7)), None));
    }
}
