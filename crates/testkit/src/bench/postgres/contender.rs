//! Who is measured: each in a database of its own, asked for the same jobs in turn.

use std::time::Duration;

use anyhow::ensure;

use super::ground::Ground;
use crate::bench::clients::{Done, Load};
use crate::bench::measure::Round;

/// What everybody is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    /// Producers enqueue, or workers claim and settle, for so long or up to so many items.
    Rate { load: Load, seconds: f64, items: Option<u64> },
    /// So many items are settled. Producers, if there are any, add as many meanwhile.
    Life { load: Load, items: u64 },
    /// So many items per second come and go, for so long.
    Flow { load: Load, per_s: f64, seconds: f64 },
}

impl Job {
    /// For so long, however many items that makes.
    pub(super) fn rate(load: Load, seconds: f64) -> Job {
        Job::Rate { load, seconds, items: None }
    }

    pub(super) fn load(&self) -> &Load {
        let (Job::Rate { load, .. } | Job::Life { load, .. } | Job::Flow { load, .. }) = self;
        load
    }
}

/// What became of a job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub(super) enqueued: u64,
    pub(super) settled: u64,
    pub(super) round: Round,
}

impl Outcome {
    /// The rate is that of settled items where there are workers; latencies are those of claims.
    pub(super) fn of(mut done: Done, load: &Load) -> Outcome {
        let (items, latencies) = if load.workers == 0 {
            (done.enqueued, std::mem::take(&mut done.enqueue))
        } else {
            (done.settled, std::mem::take(&mut done.claim))
        };
        let round = Round::new(items, done.seconds, latencies);
        Outcome { enqueued: done.enqueued, settled: done.settled, round }
    }
}

/// A queue on the server of the bench.
pub(super) trait Contender {
    fn name(&self) -> &'static str;
    /// Makes a new, empty database and everything in it.
    fn reset(&mut self, ground: &Ground) -> anyhow::Result<()>;
    /// Puts so many more items in place, as fast as it goes.
    fn fill(&mut self, ground: &Ground, items: u64) -> anyhow::Result<()>;
    fn run(&mut self, ground: &Ground, job: &Job) -> anyhow::Result<Outcome>;
    /// Items that wait to be claimed, counted in the database.
    fn waiting(&mut self, ground: &Ground) -> anyhow::Result<u64>;
    /// Items that have ended, where they are kept.
    fn finished(&mut self, _ground: &Ground) -> anyhow::Result<Option<u64>> {
        Ok(None)
    }
    /// The most that is put in place before a round of claims.
    fn stock_max(&self) -> u64 {
        u64::MAX
    }
    /// Ends its connections.
    fn close(&mut self) {}
}

/// A contender, how many items it should hold, and what its rounds measured.
pub(super) struct Side {
    pub(super) contender: Box<dyn Contender>,
    /// In place before each round.
    stock: u64,
    pub(super) waiting: u64,
    finished: u64,
    pub(super) rounds: Vec<Round>,
}

impl Side {
    pub(super) fn new(contender: impl Contender + 'static) -> Side {
        let contender = Box::new(contender);
        Side { contender, stock: 0, waiting: 0, finished: 0, rounds: Vec::new() }
    }

    /// Empty, then with so many items, and everything the planner wants to know.
    pub(super) fn prepare(&mut self, ground: &Ground, stock: u64) -> anyhow::Result<()> {
        self.contender.reset(ground)?;
        (self.stock, self.waiting, self.finished) = (stock, 0, 0);
        self.rounds.clear();
        self.check(ground)?;
        self.top_up(ground)?;
        ground.settle_down(self.contender.name())
    }

    /// So many ended items were put there by other means.
    pub(super) fn expect_finished(&mut self, ground: &Ground, items: u64) -> anyhow::Result<()> {
        self.finished += items;
        self.check(ground)
    }

    /// Fills up to what should be in place.
    pub(super) fn top_up(&mut self, ground: &Ground) -> anyhow::Result<()> {
        let wanted = self.stock.min(self.contender.stock_max());
        if let Some(more) = wanted.checked_sub(self.waiting).filter(|more| *more > 0) {
            self.contender.fill(ground, more)?;
            self.waiting += more;
            self.check(ground)?;
        }
        Ok(())
    }

    /// Nothing more is put in place.
    pub(super) fn fill_no_more(&mut self) {
        self.stock = 0;
    }

    /// Runs a job and counts what is there afterwards.
    pub(super) fn run(&mut self, ground: &Ground, job: &Job) -> anyhow::Result<Outcome> {
        let outcome = self.contender.run(ground, job)?;
        self.waiting = self.waiting + outcome.enqueued - outcome.settled;
        self.finished += outcome.settled;
        self.check(ground)?;
        Ok(outcome)
    }

    fn round(&mut self, ground: &Ground, job: &Job) -> anyhow::Result<()> {
        self.top_up(ground)?;
        let outcome = self.run(ground, job)?;
        self.rounds.push(outcome.round);
        Ok(())
    }

    /// Nothing lost and nothing twice.
    fn check(&mut self, ground: &Ground) -> anyhow::Result<()> {
        let name = self.contender.name();
        let (waiting, found) = (self.waiting, self.contender.waiting(ground)?);
        ensure!(found == waiting, "{name} has {found} items waiting; there should be {waiting}");
        if let Some(found) = self.contender.finished(ground)? {
            let finished = self.finished;
            ensure!(found == finished, "{name} has {found} ended; there should be {finished}");
        }
        Ok(())
    }

    pub(super) fn median(&self) -> Round {
        Round::median(&self.rounds)
    }
}

/// Everybody does a job in turn, every other time in the other direction: who comes after whom
/// should not matter.
pub(super) fn alternate(
    ground: &Ground,
    sides: &mut [Side],
    job: &Job,
    rounds: usize,
) -> anyhow::Result<()> {
    sides.iter_mut().for_each(|side| side.rounds.clear());
    for round in 0..rounds {
        let turn = |side: &mut Side| side.round(ground, job);
        match round % 2 {
            0 => sides.iter_mut().try_for_each(turn)?,
            _ => sides.iter_mut().rev().try_for_each(turn)?,
        }
    }
    Ok(())
}

/// How long a worker that found nothing waits before it asks again.
pub(super) const EMPTY: Duration = Duration::from_millis(1);

/// Claim and settle one at a time, and in batches.
pub(super) const SINGLE: Load = Load { producers: 0, workers: 16, batch: 1 };
pub(super) const BATCHES: Load = Load { producers: 0, workers: 4, batch: 100 };

/// As rows are named.
pub(super) fn shape(load: &Load) -> String {
    format!("{}x{}", load.batch, load.producers + load.workers)
}
