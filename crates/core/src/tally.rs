//! The tally: what a split item knows of its children without asking them.
//!
//! It is kept by addition and subtraction in the commit that changes a child, never by recount,
//! so it costs the same for ten children and for ten thousand. [`Share`] is what one item adds to
//! its parent; a transition takes the old share away and adds the new one.

use std::sync::Arc;

use crate::item::{End, Item, State, Status};
use crate::route::Route;

/// How one child stands in one phase.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Bucket {
    Pending,
    Processing,
    Completed,
    Failed,
    Cancelled,
    Skipped,
    /// A phase after the one where the child failed. Failed for the parent, pending on retry.
    Unreached,
}

impl Bucket {
    pub const ALL: [Bucket; 7] = [
        Bucket::Pending,
        Bucket::Processing,
        Bucket::Completed,
        Bucket::Failed,
        Bucket::Cancelled,
        Bucket::Skipped,
        Bucket::Unreached,
    ];
}

impl From<Status> for Bucket {
    fn from(status: Status) -> Bucket {
        match status {
            Status::Pending => Bucket::Pending,
            Status::Processing => Bucket::Processing,
            Status::Completed => Bucket::Completed,
            Status::Failed => Bucket::Failed,
            Status::Cancelled => Bucket::Cancelled,
            Status::Skipped => Bucket::Skipped,
        }
    }
}

/// How many children stand where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts(pub [u32; 7]);

impl Counts {
    /// One child that stands here.
    pub fn one(bucket: Bucket) -> Counts {
        let mut counts = Counts::default();
        counts.add(bucket);
        counts
    }

    pub fn of(&self, bucket: Bucket) -> u32 {
        self.0[bucket as usize]
    }

    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }

    pub fn add(&mut self, bucket: Bucket) {
        self.0[bucket as usize] += 1;
    }

    /// Takes one away. Taking from nothing means that the tally is wrong, which is a bug.
    pub fn take(&mut self, bucket: Bucket) {
        let count = &mut self.0[bucket as usize];
        assert!(*count > 0, "Q5: a count of {bucket:?} never falls below zero");
        *count -= 1;
    }

    /// Seed 001's rule: what the parts make of the whole.
    pub fn status(&self) -> Status {
        let some = |bucket| self.of(bucket) > 0;
        let total = self.total();
        if some(Bucket::Processing) {
            Status::Processing
        } else if some(Bucket::Pending) {
            Status::Pending
        } else if self.of(Bucket::Completed) + self.of(Bucket::Skipped) == total {
            Status::Completed
        } else if self.of(Bucket::Cancelled) == total {
            Status::Cancelled
        } else {
            Status::Failed
        }
    }

    /// Of a hundred, how many have ended well.
    pub fn percent(&self) -> u32 {
        let total = u64::from(self.total());
        let good = u64::from(self.of(Bucket::Completed) + self.of(Bucket::Skipped));
        (good * 100).checked_div(total).unwrap_or(100) as u32
    }
}

/// Whether an item goes on when some of its children failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnGaps {
    /// One bad page does not hide 299 good ones.
    #[default]
    Continue,
    /// The item fails.
    Stop,
}

/// What a split item knows of the children of its current generation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// The stage in which it was split.
    pub stage: u8,
    /// More slices of children were announced.
    pub more: bool,
    pub on_gaps: OnGaps,
    /// Children by how they stand as a whole.
    pub children: Counts,
    /// Ended children with a failure or a cancellation in or below them.
    pub gaps: u32,
    /// Children by how they stand in each phase, in the order in which phases appeared.
    pub phases: Vec<(Arc<str>, Counts)>,
    /// Everything below, by level and own stage.
    pub levels: Vec<Level>,
}

/// The descendants on one level, by how they stand in one stage of their own route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Level {
    pub level: u8,
    pub phase: Arc<str>,
    pub counts: Counts,
}

impl Tally {
    pub fn new(stage: u8, on_gaps: OnGaps) -> Tally {
        Tally {
            stage,
            more: true,
            on_gaps,
            children: Counts::default(),
            gaps: 0,
            phases: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// Children that have not ended.
    pub fn open(&self) -> u32 {
        self.children.of(Bucket::Pending) + self.children.of(Bucket::Processing)
    }

    /// Nothing is left to wait for.
    pub fn is_over(&self) -> bool {
        !self.more && self.open() == 0
    }

    /// Children that ended without success.
    pub fn failed(&self) -> u32 {
        self.children.of(Bucket::Failed) + self.children.of(Bucket::Cancelled)
    }

    /// The status that people see of an item that waits for its children.
    pub fn status(&self) -> Status {
        if self.more && self.open() == 0 { Status::Processing } else { self.children.status() }
    }

    /// What the children make of one phase.
    fn phase(&self, counts: &Counts) -> Bucket {
        let mut counts = *counts;
        if self.more {
            counts.add(Bucket::Pending);
        }
        counts.status().into()
    }

    /// Adds what a child brings.
    pub fn add(&mut self, share: &Share<'_>) {
        self.children.add(share.whole);
        self.gaps += u32::from(share.gap);
        for (phase, bucket) in &share.phases {
            self.phase_mut(phase).add(*bucket);
        }
        for (level, phase, counts) in &share.levels {
            let known = self.level_mut(*level, phase);
            known.0.iter_mut().zip(counts.0).for_each(|(known, more)| *known += more);
        }
    }

    /// Takes away what a child brought.
    pub fn take(&mut self, share: &Share<'_>) {
        self.children.take(share.whole);
        assert!(self.gaps >= u32::from(share.gap), "Q5: gaps never fall below zero");
        self.gaps -= u32::from(share.gap);
        for (phase, bucket) in &share.phases {
            self.phase_mut(phase).take(*bucket);
        }
        for (level, phase, counts) in &share.levels {
            let known = self.level_mut(*level, phase);
            for (known, less) in known.0.iter_mut().zip(counts.0) {
                assert!(*known >= less, "Q5: a level's count never falls below zero");
                *known -= less;
            }
        }
    }

    fn phase_mut(&mut self, phase: &Arc<str>) -> &mut Counts {
        let at = self.phases.iter().position(|(name, _)| name == phase).unwrap_or_else(|| {
            self.phases.push((Arc::clone(phase), Counts::default()));
            self.phases.len() - 1
        });
        &mut self.phases[at].1
    }

    fn level_mut(&mut self, level: u8, phase: &Arc<str>) -> &mut Counts {
        let same = |known: &Level| known.level == level && known.phase == *phase;
        let at = self.levels.iter().position(same).unwrap_or_else(|| {
            self.levels.push(Level { level, phase: Arc::clone(phase), counts: Counts::default() });
            self.levels.len() - 1
        });
        &mut self.levels[at].counts
    }
}

/// What one item brings to its parent's tally.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share<'a> {
    pub whole: Bucket,
    /// It ended with a failure or cancellation in it or below it.
    pub gap: bool,
    pub phases: Vec<(&'a Arc<str>, Bucket)>,
    /// The item itself and everything below it, by level and own stage.
    pub levels: Vec<(u8, &'a Arc<str>, Counts)>,
}

impl<'a> Share<'a> {
    /// The share of an item with this route and, if it has children, this tally.
    pub fn of(item: &Item, route: &'a Route, tally: Option<&'a Tally>) -> Share<'a> {
        let mut phases = own_stages(item, route);
        let own = phases.iter().map(|(name, bucket)| (item.level(), *name, Counts::one(*bucket)));
        let below_it = tally.into_iter().flat_map(|tally| &tally.levels);
        let levels = own.chain(below_it.map(|l| (l.level, &l.phase, l.counts))).collect();
        match tally {
            Some(tally) => {
                // A phase that all children have left is not there any more.
                let known = || tally.phases.iter().filter(|(_, counts)| counts.total() > 0);
                for (name, counts) in known() {
                    merge(&mut phases, name, tally.phase(counts));
                }
                for (index, stage) in route.stages.iter().enumerate() {
                    let bucket = match usize::from(tally.stage) {
                        at if index > at => below(item),
                        at if index == at && tally.more => Bucket::Pending,
                        _ => Bucket::Completed,
                    };
                    let ahead = index > usize::from(tally.stage);
                    let absent = |name: &&Arc<str>| ahead || !known().any(|(n, _)| n == *name);
                    let announced = stage.below.iter().filter(absent);
                    announced.for_each(|name| merge(&mut phases, name, bucket));
                }
            }
            None => {
                let bucket = below(item);
                let announced = route.stages.iter().flat_map(|stage| &stage.below);
                announced.for_each(|name| merge(&mut phases, name, bucket));
            }
        }
        let gap = match item.state {
            State::Done(End::Failed | End::Cancelled) => true,
            State::Done(_) => tally.is_some_and(|tally| tally.gaps > 0),
            _ => false,
        };
        Share { whole: item.status().into(), gap, phases, levels }
    }

    /// The share of an item that begins to exist.
    pub fn newborn(route: &'a Route, level: u8) -> Share<'a> {
        let mut phases: Vec<(&Arc<str>, Bucket)> = Vec::with_capacity(route.len());
        phases.extend(route.stages.iter().map(|stage| (&stage.name, Bucket::Pending)));
        let one = Counts::one(Bucket::Pending);
        let levels = phases.iter().map(|(name, _)| (level, *name, one)).collect();
        let announced = route.stages.iter().flat_map(|stage| &stage.below);
        announced.for_each(|name| merge(&mut phases, name, Bucket::Pending));
        Share { whole: Bucket::Pending, gap: false, phases, levels }
    }
}

/// How an item stands in each stage of its own route.
pub fn own_stages<'a>(item: &Item, route: &'a Route) -> Vec<(&'a Arc<str>, Bucket)> {
    let stage_bucket = |index: usize| {
        let at = usize::from(item.stage);
        if item.skipped >> index & 1 == 1 {
            return Bucket::Skipped;
        }
        match item.state {
            _ if index < at => Bucket::Completed,
            State::Done(End::Completed) => Bucket::Completed,
            State::Done(End::Skipped) => Bucket::Skipped,
            State::Done(End::Cancelled) => Bucket::Cancelled,
            State::Done(End::Failed) if index == at => Bucket::Failed,
            State::Done(End::Failed) => Bucket::Unreached,
            State::Split if index == at => Bucket::Completed,
            State::Leased { .. } if index == at => Bucket::Processing,
            _ => Bucket::Pending,
        }
    };
    let stages = route.stages.iter().enumerate();
    stages.map(|(index, stage)| (&stage.name, stage_bucket(index))).collect()
}

/// How an item without children stands in the phases it announced.
fn below(item: &Item) -> Bucket {
    match item.state {
        State::Done(End::Completed) => Bucket::Completed,
        State::Done(End::Skipped) => Bucket::Skipped,
        State::Done(End::Cancelled) => Bucket::Cancelled,
        State::Done(End::Failed) => Bucket::Unreached,
        _ => Bucket::Pending,
    }
}

/// Adds a phase; one that is there already stands as the two make it together.
fn merge<'a>(phases: &mut Vec<(&'a Arc<str>, Bucket)>, name: &'a Arc<str>, bucket: Bucket) {
    match phases.iter_mut().find(|(known, _)| **known == *name) {
        Some((_, known)) => {
            let mut both = Counts::default();
            both.add(*known);
            both.add(bucket);
            *known = both.status().into();
        }
        None => phases.push((name, bucket)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(Bucket, u32)]) -> Counts {
        let mut counts = Counts::default();
        of.iter().for_each(|(bucket, n)| counts.0[*bucket as usize] = *n);
        counts
    }

    #[test]
    fn the_parts_make_the_status_of_the_whole_as_seed_001_says() {
        use Bucket::*;
        let check = |of: &[(Bucket, u32)], want: Status| {
            assert_eq!(counts(of).status(), want, "{of:?}");
        };
        check(&[], Status::Completed);
        check(&[(Completed, 99), (Processing, 1), (Failed, 3)], Status::Processing);
        check(&[(Completed, 99), (Pending, 1)], Status::Pending);
        check(&[(Completed, 99), (Skipped, 1)], Status::Completed);
        check(&[(Skipped, 2)], Status::Completed);
        check(&[(Completed, 99), (Failed, 1)], Status::Failed);
        check(&[(Completed, 99), (Unreached, 1)], Status::Failed);
        check(&[(Completed, 1), (Cancelled, 1)], Status::Failed);
        check(&[(Cancelled, 4)], Status::Cancelled);
    }

    #[test]
    fn percent_counts_what_ended_well() {
        assert_eq!(counts(&[(Bucket::Completed, 2), (Bucket::Failed, 1)]).percent(), 66);
        assert_eq!(Counts::default().percent(), 100);
    }
}
