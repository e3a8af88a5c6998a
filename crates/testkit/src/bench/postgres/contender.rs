//! Who is measured: each in a database of its own, asked for the same jobs in turn.

use std::time::Duration;

use anyhow::ensure;

use super::ground::Ground;
use crate::bench::clients::{Done, Load};
use crate::bench::measure::Round;

/// What everybody is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    /// Producers enqueue, or workers claim and settle, for so long.
    Rate { load: Load, seconds: f64 },
    /// So many items come and go: producers and workers side by side, until the last is settled.
    Life { load: Load, items: u64 },
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

/// A contender, and how many items it should hold.
pub(super) struct Side {
    pub(super) contender: Box<dyn Contender>,
    waiting: u64,
    finished: u64,
    pub(super) rounds: Vec<Round>,
}

impl Side {
    pub(super) fn new(contender: Box<dyn Contender>) -> Side {
        Side { contender, waiting: 0, finished: 0, rounds: Vec::new() }
    }

    /// Empty, then with so many items, and everything the planner wants to know.
    pub(super) fn prepare(&mut self, ground: &Ground, items: u64) -> anyhow::Result<()> {
        self.contender.reset(ground)?;
        (self.waiting, self.finished) = (0, 0);
        self.rounds.clear();
        self.check(ground)?;
        self.top_up(ground, items)?;
        ground.settle_down(self.contender.name())
    }

    /// Fills up to so many items.
    pub(super) fn top_up(&mut self, ground: &Ground, items: u64) -> anyhow::Result<()> {
        let items = items.min(self.contender.stock_max());
        if let Some(more) = items.checked_sub(self.waiting).filter(|more| *more > 0) {
            self.contender.fill(ground, more)?;
            self.waiting += more;
            self.check(ground)?;
        }
        Ok(())
    }

    /// Runs a job and counts what is there afterwards.
    pub(super) fn run(&mut self, ground: &Ground, job: &Job) -> anyhow::Result<Outcome> {
        let outcome = self.contender.run(ground, job)?;
        self.waiting = self.waiting + outcome.enqueued - outcome.settled;
        self.finished += outcome.settled;
        self.check(ground)?;
        Ok(outcome)
    }

    /// The same, and the round counts.
    pub(super) fn round(&mut self, ground: &Ground, job: &Job) -> anyhow::Result<()> {
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

/// How long a worker that found nothing waits before it asks again.
pub(super) const EMPTY: Duration = Duration::from_millis(1);
