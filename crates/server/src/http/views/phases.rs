//! Phases: how a document, a page or a chunk stands in the three phases of seed 001.
//!
//! A stage of an item's route is part of a phase. What an item itself does in a phase and what is
//! below it make up the whole, by the seed's rule: any processing, else any pending, else all
//! completed or skipped, else failed. The views in PostgreSQL work it out in the same way.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use windrow_core::item::{End, State};
use windrow_core::{Status, Timestamp};

use super::fact::Fact;

/// The phases, in the order in which a document passes them.
pub(super) const PHASES: usize = 3;

/// The phase that a stage is part of.
fn phase_of(stage: &str) -> Option<usize> {
    match stage {
        "pages" | "ocr" => Some(0),
        "chunk" | "vector" => Some(1),
        "graph" | "graphrag" => Some(2),
        _ => None,
    }
}

/// How something stands in a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stand {
    Pending,
    Processing,
    Completed,
    Failed,
    Cancelled,
    Skipped,
    /// Behind the stage in which it failed: a failure for whatever is above, and pending again if
    /// it is retried.
    Unreached,
}

/// The words that seed 001 has for it, and ours.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    Pending,
    Processing,
    Completed,
    Failed,
    Skipped,
    Cancelled,
}

impl From<Stand> for Task {
    fn from(stand: Stand) -> Task {
        match stand {
            Stand::Pending | Stand::Unreached => Task::Pending,
            Stand::Processing => Task::Processing,
            Stand::Completed => Task::Completed,
            Stand::Failed => Task::Failed,
            Stand::Cancelled => Task::Cancelled,
            Stand::Skipped => Task::Skipped,
        }
    }
}

impl From<Status> for Task {
    fn from(status: Status) -> Task {
        match status {
            Status::Pending => Task::Pending,
            Status::Processing => Task::Processing,
            Status::Completed => Task::Completed,
            Status::Failed => Task::Failed,
            Status::Cancelled => Task::Cancelled,
            Status::Skipped => Task::Skipped,
        }
    }
}

impl Stand {
    /// How an item stands in a stage of its route.
    fn of(fact: &Fact, index: usize) -> Stand {
        let item = &fact.seen.item;
        let (is_here, is_passed) =
            (index == usize::from(item.stage), index < usize::from(item.stage));
        if item.skipped >> index & 1 == 1 {
            return Stand::Skipped;
        }
        match item.state {
            _ if is_passed => Stand::Completed,
            State::Done(End::Completed) => Stand::Completed,
            State::Done(End::Skipped) => Stand::Skipped,
            State::Done(End::Cancelled) => Stand::Cancelled,
            State::Done(End::Failed) if is_here => Stand::Failed,
            State::Done(End::Failed) => Stand::Unreached,
            State::Split if is_here => Stand::Completed,
            State::Leased { .. } if is_here => Stand::Processing,
            _ => Stand::Pending,
        }
    }

    /// How an item without children stands in the phases that those would have passed.
    fn below(fact: &Fact) -> Stand {
        match fact.seen.item.state {
            State::Done(End::Completed) => Stand::Completed,
            State::Done(End::Skipped) => Stand::Skipped,
            State::Done(End::Cancelled) => Stand::Cancelled,
            State::Done(End::Failed) => Stand::Unreached,
            _ => Stand::Pending,
        }
    }

    /// What one more part makes of the parts before it.
    fn with(before: Option<Stand>, more: Stand) -> Stand {
        let first = before.unwrap_or(more);
        let is_well = |stand| matches!(stand, Stand::Completed | Stand::Skipped);
        match (first, more) {
            (Stand::Processing, _) | (_, Stand::Processing) => Stand::Processing,
            (Stand::Pending, _) | (_, Stand::Pending) => Stand::Pending,
            (Stand::Cancelled, Stand::Cancelled) => Stand::Cancelled,
            (first, more) if is_well(first) && is_well(more) => Stand::Completed,
            _ => Stand::Failed,
        }
    }

    /// What parts make of the whole; nothing if there are none.
    fn together(parts: impl Iterator<Item = Stand>) -> Option<Stand> {
        parts.fold(None, |before, more| Some(Stand::with(before, more)))
    }
}

/// An item's own part in a phase.
#[derive(Clone, Default, Debug)]
pub(super) struct Own {
    /// None if no stage of its route is part of the phase.
    stand: Option<Stand>,
    pub(super) worker: Option<Arc<str>>,
    pub(super) started: Option<Timestamp>,
    pub(super) completed: Option<Timestamp>,
    pub(super) heartbeat: Option<Timestamp>,
    pub(super) error: Option<String>,
    /// Attempts that did not succeed.
    pub(super) retries: u32,
}

impl Own {
    /// An item's own part in each phase.
    pub(super) fn of(fact: &Fact) -> [Own; PHASES] {
        std::array::from_fn(|phase| Own::in_phase(fact, phase))
    }

    fn in_phase(fact: &Fact, phase: usize) -> Own {
        let stages = fact.seen.body.route.stages.iter().enumerate();
        let parts: Vec<Part<'_>> = stages
            .filter(|(_, stage)| phase_of(&stage.name) == Some(phase))
            .map(|(index, _)| Part::of(fact, index))
            .collect();
        let all_completed = parts.iter().all(|part| part.completed.is_some());
        let completed = parts.iter().filter_map(|part| part.completed).max();
        Own {
            stand: match parts.as_slice() {
                [only] => Some(only.stand),
                several => Stand::together(several.iter().map(|part| part.stand)),
            },
            worker: parts.iter().rev().find_map(|part| part.worker.cloned()),
            started: parts.iter().filter_map(|part| part.started).min(),
            completed: completed.filter(|_| all_completed),
            heartbeat: parts.iter().filter_map(|part| part.heartbeat).max(),
            error: parts.iter().rev().find_map(|part| part.error.map(str::to_owned)),
            retries: parts.iter().map(Part::retries).sum(),
        }
    }

    /// How it stands, also if the item has no part in the phase.
    pub(super) fn stand(&self, fact: &Fact) -> Stand {
        self.stand.unwrap_or_else(|| Stand::below(fact))
    }
}

/// One stage of a phase.
struct Part<'a> {
    stand: Stand,
    worker: Option<&'a Arc<str>>,
    started: Option<Timestamp>,
    completed: Option<Timestamp>,
    heartbeat: Option<Timestamp>,
    error: Option<&'a str>,
    attempts: u16,
}

impl<'a> Part<'a> {
    fn of(fact: &'a Fact, index: usize) -> Part<'a> {
        let (item, trail) = (&fact.seen.item, &fact.seen.trail);
        let is_here = index == usize::from(item.stage);
        let lease = fact.lease.as_ref().filter(|_| is_here);
        let record = trail.stages.get(index);
        Part {
            stand: Stand::of(fact, index),
            worker: lease.map(|lease| &lease.worker).or(record.and_then(|r| r.worker.as_ref())),
            started: lease.map(|lease| lease.granted).or(record.and_then(|r| r.started)),
            completed: record.and_then(|r| r.completed).filter(|_| lease.is_none()),
            heartbeat: lease.map(|lease| lease.renewed).or(record.and_then(|r| r.renewed)),
            error: record.and_then(|r| r.error.as_ref()).map(|fault| &*fault.message),
            attempts: if is_here { item.attempts } else { record.map_or(0, |r| r.attempts) },
        }
    }

    fn retries(&self) -> u32 {
        let succeeds = matches!(self.stand, Stand::Completed | Stand::Processing);
        u32::from(self.attempts).saturating_sub(u32::from(succeeds))
    }
}

/// A phase of an item and of what is below it.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) stand: Stand,
    pub(super) started: Option<Timestamp>,
    pub(super) completed: Option<Timestamp>,
    pub(super) error: Option<String>,
}

/// What is below an item, in one phase.
#[derive(Clone, Default, Debug)]
pub(super) struct Below {
    stand: Option<Stand>,
    started: Option<Timestamp>,
    completed: Option<Timestamp>,
    error: Option<String>,
}

impl Below {
    /// Adds a child that has no children itself. Without a part in the phase it says nothing of it.
    pub(super) fn add_own(&mut self, own: &Own) {
        if let Some(stand) = own.stand {
            self.stand = Some(Stand::with(self.stand, stand));
        }
        self.note(own.started, own.completed, own.error.as_ref());
    }

    /// Adds a child with what is below it.
    pub(super) fn add_whole(&mut self, whole: &Whole) {
        self.stand = Some(Stand::with(self.stand, whole.stand));
        self.note(whole.started, whole.completed, whole.error.as_ref());
    }

    fn note(
        &mut self,
        started: Option<Timestamp>,
        completed: Option<Timestamp>,
        error: Option<&String>,
    ) {
        self.started = [self.started, started].into_iter().flatten().min();
        self.completed = self.completed.max(completed);
        self.error = [self.error.as_ref(), error].into_iter().flatten().min().cloned();
    }
}

impl Whole {
    /// What an item and what is below it make of a phase. An error below is shown where there is
    /// none above.
    pub(super) fn of(fact: &Fact, own: &Own, below: &Below) -> Whole {
        let stand = match (own.stand, below.stand) {
            (None, Some(below)) => below,
            (own, None) => own.unwrap_or_else(|| Stand::below(fact)),
            (Some(own), Some(below)) => Stand::with(Some(Stand::with(None, own)), below),
        };
        let is_over = !matches!(stand, Stand::Pending | Stand::Processing);
        Whole {
            stand,
            started: [own.started, below.started].into_iter().flatten().min(),
            completed: own.completed.max(below.completed).filter(|_| is_over),
            error: own.error.clone().or_else(|| below.error.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Stand::*;
    use super::*;

    #[test]
    fn parts_make_the_whole_by_the_seeds_rule() {
        let check = |parts: &[Stand], whole| {
            assert_eq!(Stand::together(parts.iter().copied()), whole, "{parts:?}");
        };
        check(&[], None);
        check(&[Skipped], Some(Completed));
        check(&[Completed, Skipped], Some(Completed));
        check(&[Completed, Pending, Failed], Some(Pending));
        check(&[Pending, Processing, Failed], Some(Processing));
        check(&[Cancelled, Cancelled], Some(Cancelled));
        check(&[Cancelled, Completed], Some(Failed));
        check(&[Completed, Unreached], Some(Failed));
        assert_eq!(Task::from(Unreached), Task::Pending);
    }
}
