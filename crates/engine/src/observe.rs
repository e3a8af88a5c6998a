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
/// Stages of a queue that are told apart; what is beyond counts together as [`OTHER`].
pub const STAGES_MAX: usize = 16;
/// The name under which the queues and stages beyond the limits count.
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
    queues: BTreeMap<Arc<str>, InQueue>,
    commits: Window<Commits>,
}

/// What happens in one queue, or in one of its stages.
#[derive(Clone, Default, Debug)]
pub struct Flowing {
    pub window: Window<Flow>,
    /// When a worker last took something or said how it ended.
    pub worked: Option<Timestamp>,
}

impl Flowing {
    fn add(&mut self, flow: Flow, at: Timestamp) {
        *self.window.at(at) += flow;
        if flow.is_work() {
            self.worked = self.worked.max(Some(at));
        }
    }
}

/// What happens in one queue and in each of its stages.
#[derive(Default, Debug)]
struct InQueue {
    all: Flowing,
    /// In the order in which something first happened in them.
    stages: Vec<(Arc<str>, Flowing)>,
}

/// What happened in one queue, minute by minute.
#[derive(Clone, Debug)]
pub struct Minutes {
    pub queue: Arc<str>,
    pub all: Vec<Flow>,
    pub stages: Vec<(Arc<str>, Vec<Flow>)>,
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
            let queue = recent.of(&first.queue);
            for happened in of_queue {
                let flow = Flow::of(happened);
                queue.all.add(flow, happened.at);
                if flow.is_work() {
                    queue.stage(&happened.in_stage).add(flow, happened.at);
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
        let recent = self.recent.lock();
        recent.queues.iter().map(|(name, queue)| (Arc::clone(name), queue.all.clone())).collect()
    }

    /// When a worker last took something or said how it ended, in each stage of each queue.
    pub fn worked(&self) -> BTreeMap<(Arc<str>, Arc<str>), Timestamp> {
        let recent = self.recent.lock();
        let each = recent.queues.iter().flat_map(|(queue, of)| {
            let stages = of.stages.iter();
            stages.filter_map(move |(stage, of)| {
                Some(((Arc::clone(queue), Arc::clone(stage)), of.worked?))
            })
        });
        each.collect()
    }

    /// What happened minute by minute, and by stage, the queues by name. Nobody who counts is held
    /// up for longer than it takes to copy one queue.
    pub fn minutes(&self, now: Timestamp) -> Vec<Minutes> {
        let names: Vec<Arc<str>> = self.recent.lock().queues.keys().cloned().collect();
        let read = |queue: Arc<str>| {
            let recent = self.recent.lock();
            let InQueue { all, stages } = recent.queues.get(&queue)?;
            let stages = stages.iter();
            let stages = stages.map(|(name, of)| (Arc::clone(name), of.window.minutes(now)));
            Some(Minutes { all: all.window.minutes(now), stages: stages.collect(), queue })
        };
        names.into_iter().filter_map(read).collect()
    }

    /// How long the store took lately.
    pub fn recent_commits(&self, minutes: u64, now: Timestamp) -> Commits {
        self.recent.lock().commits.last(minutes, now)
    }
}

impl Recent {
    fn of(&mut self, queue: &Arc<str>) -> &mut InQueue {
        let is_new = !self.queues.contains_key(queue);
        let name = if is_new && self.queues.len() >= QUEUES_MAX {
            Arc::from(OTHER)
        } else {
            Arc::clone(queue)
        };
        self.queues.entry(name).or_default()
    }
}

impl InQueue {
    fn stage(&mut self, name: &Arc<str>) -> &mut Flowing {
        let place = |name: &str| self.stages.iter().position(|(known, _)| **known == *name);
        let is_full = self.stages.len() >= STAGES_MAX;
        let at = place(name).or_else(|| place(OTHER).filter(|_| is_full));
        let at = at.unwrap_or_else(|| {
            let name = if is_full { Arc::from(OTHER) } else { Arc::clone(name) };
            self.stages.push((name, Flowing::default()));
            self.stages.len() - 1
        });
        &mut self.stages[at].1
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
            in_stage: "work".into(),
            since: None,
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

    #[test]
    fn what_happened_counts_in_its_minute_and_in_the_stage_that_it_happened_in() {
        let figures = Figures::default();
        let one = |event, in_stage: &str, at, since: Option<u64>| Happened {
            in_stage: in_stage.into(),
            since: since.map(Timestamp),
            ..happened("q", event, at)
        };
        figures.happened(&[
            one(None, "read", 1_000, None),
            one(Some(Event::Claim), "read", 3_000, Some(1_000)),
            one(Some(Event::Advance), "read", 3_500, Some(3_000)),
            one(Some(Event::Claim), "write", 61_000, Some(3_500)),
            one(Some(Event::Fail), "write", 61_250, Some(61_000)),
        ]);
        let minutes = figures.minutes(Timestamp(61_500));
        let [Minutes { queue, all, stages }] = &minutes[..] else { panic!("{minutes:?}") };
        let last = |flows: &[Flow]| {
            let shown = |flow: &Flow| (flow.claimed, flow.went_well, flow.failed);
            (shown(&flows[58]), shown(&flows[59]))
        };
        assert_eq!((&**queue, all[58].enqueued), ("q", 1));
        assert_eq!(last(all), ((1, 1, 0), (1, 0, 1)));
        let stages: Vec<_> = stages.iter().map(|(name, flows)| (&**name, last(flows))).collect();
        assert_eq!(stages, [("read", ((1, 1, 0), (0, 0, 0))), ("write", ((0, 0, 0), (1, 0, 1)))]);
        let worked: Vec<_> = figures.worked().into_iter().map(|(of, at)| (of.1, at.0)).collect();
        assert_eq!(worked, [("read".into(), 3_500), ("write".into(), 61_250)]);
        let means = |flow: &Flow| (flow.mean_wait_ms(), flow.mean_run_ms());
        assert_eq!(means(&all[58]), (Some(2_000), Some(500)));
        assert_eq!(means(&all[59]), (Some(57_500), Some(250)));
    }

    #[test]
    fn stages_beyond_the_limit_count_together() {
        let figures = Figures::default();
        for number in 0..STAGES_MAX + 3 {
            let in_stage = format!("s{number}").into();
            figures.happened(&[Happened { in_stage, ..happened("q", Some(Event::Claim), 0) }]);
        }
        let minutes = figures.minutes(Timestamp(0));
        let stages = &minutes[0].stages;
        assert_eq!(stages.len(), STAGES_MAX + 1);
        let (name, flows) = &stages[STAGES_MAX];
        assert_eq!((&**name, flows[59].claimed), (OTHER, 3));
    }
}
