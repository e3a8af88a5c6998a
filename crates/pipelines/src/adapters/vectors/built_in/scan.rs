//! Scanning: the nearest of all rows, by their codes first and then exactly.
//!
//! Decides which rows have to be looked at exactly: each row's codes say where its score surely
//! lies, and a row whose interval ends below the begin of enough others cannot be among the
//! nearest. What is left are a few dozen rows of a hundred thousand. So the result is that of
//! looking at everything, which the tests demand.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::num::NonZero;
use std::sync::atomic::{self, AtomicUsize};
use std::thread;

use super::super::{Filter, Hit};
use super::codes::Query;
use super::segment::{Part, Run};

/// So many numbers one thread looks through in less time than it takes to begin another.
const THREAD_NUMBERS: usize = 4 << 20;
const THREADS_MAX: usize = 8;

/// Candidates that are kept before those that can no longer win are dropped.
const DROP_FROM: usize = 4_096;

/// How many numbers a search has to look through.
pub(super) fn numbers(parts: &[Part], query: &Query, filter: &Filter) -> usize {
    let rows: usize = parts.iter().flat_map(|part| runs(part, query, filter)).map(rows).sum();
    rows * query.dimension()
}

fn rows(run: &Run) -> usize {
    run.rows.len()
}

/// Whether one thread is enough for it.
pub(super) fn is_small(numbers: usize) -> bool {
    numbers < 2 * THREAD_NUMBERS
}

/// The nearest rows of all parts, nearest first; of equals the one with the smaller id.
pub(super) fn search(parts: &[Part], query: &Query, filter: &Filter, limit: usize) -> Vec<Hit> {
    if limit == 0 {
        return Vec::new();
    }
    let cores = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    let threads = (numbers(parts, query, filter) / THREAD_NUMBERS).clamp(1, cores);
    let next = AtomicUsize::new(0);
    let scan = || {
        let mut sieve = Sieve::new(limit);
        loop {
            let nth = next.fetch_add(1, atomic::Ordering::Relaxed);
            let Some(part) = parts.get(nth) else {
                return sieve;
            };
            sieve.take(nth, part, query, filter);
        }
    };
    let sieve = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(scan)).collect();
        let mut sieve = scan();
        for other in others {
            match other.join() {
                Ok(other) => sieve.absorb(other),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        sieve
    });
    sieve.nearest(parts, query)
}

/// The runs of a part that a filter admits, as far as that is not about generations.
fn runs<'a>(
    part: &'a Part,
    query: &Query,
    filter: &'a Filter,
) -> impl Iterator<Item = &'a Run> + 'a {
    let is_alike = part.segment.dimension == query.dimension();
    part.segment.runs().iter().filter(move |run| {
        is_alike && filter.admits(&run.owner.tenant, &run.owner.collection, run.owner.document)
    })
}

/// A score that can be put in order: none is not a number.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Score(f32);

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Score) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The largest scores of many.
#[derive(Debug)]
struct Largest {
    limit: usize,
    scores: BinaryHeap<Reverse<Score>>,
    /// The smallest of them, once there are enough.
    floor: f32,
}

impl Largest {
    fn new(limit: usize) -> Largest {
        Largest { limit, scores: BinaryHeap::new(), floor: f32::NEG_INFINITY }
    }

    fn add(&mut self, score: f32) {
        if score <= self.floor {
            return;
        }
        self.scores.push(Reverse(Score(score)));
        if self.scores.len() > self.limit {
            self.scores.pop();
        }
        if self.scores.len() == self.limit {
            self.floor = self.scores.peek().map_or(f32::NEG_INFINITY, |lowest| lowest.0.0);
        }
    }
}

/// A row that may be among the nearest.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    at_most: f32,
    part: usize,
    row: usize,
}

#[derive(Debug)]
struct Sieve {
    /// What the nearest so far score at least.
    surely: Largest,
    candidates: Vec<Candidate>,
    drop_from: usize,
}

impl Sieve {
    fn new(limit: usize) -> Sieve {
        Sieve { surely: Largest::new(limit), candidates: Vec::new(), drop_from: DROP_FROM }
    }

    fn take(&mut self, nth: usize, part: &Part, query: &Query, filter: &Filter) {
        for run in runs(part, query, filter) {
            self.take_run(nth, part, run, query, filter);
        }
    }

    fn take_run(&mut self, nth: usize, part: &Part, run: &Run, query: &Query, filter: &Filter) {
        let mut is_admitted = false;
        for (row, (codes, coded)) in run.rows.clone().zip(part.segment.coded(run.rows.clone())) {
            let (score, wrong) = query.about(codes, coded);
            if score + wrong < self.surely.floor || part.dead.has(row) {
                continue;
            }
            // Most runs have no row that comes this far, and are never asked for.
            if !is_admitted {
                if !filter.admits_generation(run.owner.document, run.owner.generation) {
                    return;
                }
                is_admitted = true;
            }
            self.surely.add(score - wrong);
            self.candidates.push(Candidate { at_most: score + wrong, part: nth, row });
        }
        if self.candidates.len() > self.drop_from {
            self.drop_lost();
        }
    }

    fn drop_lost(&mut self) {
        let floor = self.surely.floor;
        self.candidates.retain(|candidate| candidate.at_most >= floor);
        self.drop_from = DROP_FROM.max(2 * self.candidates.len());
    }

    fn absorb(&mut self, other: Sieve) {
        for Reverse(Score(score)) in other.surely.scores {
            self.surely.add(score);
        }
        self.candidates.extend(other.candidates);
    }

    fn nearest(mut self, parts: &[Part], query: &Query) -> Vec<Hit> {
        self.drop_lost();
        let Sieve { surely: Largest { limit, .. }, mut candidates, .. } = self;
        candidates.sort_unstable_by(|one, other| other.at_most.total_cmp(&one.at_most));
        let mut scores = Largest::new(limit);
        let mut nearest: Vec<(f32, Candidate)> = Vec::new();
        for candidate in candidates {
            if candidate.at_most < scores.floor {
                break;
            }
            let score = query.exactly(parts[candidate.part].segment.vector(candidate.row));
            scores.add(score);
            nearest.push((score, candidate));
        }
        let id = |candidate: &Candidate| &parts[candidate.part].segment.ids()[candidate.row];
        nearest.sort_unstable_by(|one, other| {
            other.0.total_cmp(&one.0).then_with(|| id(&one.1).cmp(id(&other.1)))
        });
        nearest.truncate(limit);
        let hit = |(score, Candidate { part, row, .. })| {
            let point = parts[part].segment.point(row);
            Hit { point, score }
        };
        nearest.into_iter().map(hit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_the_smallest_of_the_largest() {
        let mut largest = Largest::new(3);
        let nothing = f32::NEG_INFINITY;
        for (score, floor) in [
            (0.5, nothing),
            (-0.25, nothing),
            (0.5, -0.25),
            (-0.5, -0.25),
            (0.125, 0.125),
            (0.125, 0.125),
            (0.75, 0.5),
        ] {
            largest.add(score);
            assert_eq!(largest.floor, floor, "after {score}");
        }
    }
}
