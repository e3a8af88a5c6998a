//! The workloads, and how long everybody works on each.

use super::super::clients::{Done, Load, Until};
use super::super::measure::{Latencies, Round};
use super::load::Lane;
use super::rival::Rival;

/// Something that every rival does in turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    kind: Kind,
    batch: usize,
    clients: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Enqueue,
    Claim,
    Life,
}

pub(super) const WORKLOADS: [Workload; 6] = [
    Workload { name: "enqueue-1x1", kind: Kind::Enqueue, batch: 1, clients: 1 },
    Workload { name: "enqueue-1x16", kind: Kind::Enqueue, batch: 1, clients: 16 },
    Workload { name: "enqueue-100x4", kind: Kind::Enqueue, batch: 100, clients: 4 },
    Workload { name: "claim-1x16", kind: Kind::Claim, batch: 1, clients: 16 },
    Workload { name: "claim-100x4", kind: Kind::Claim, batch: 100, clients: 4 },
    Workload { name: "life", kind: Kind::Life, batch: 100, clients: 8 },
];

const LIFE_ITEMS: u64 = 100_000;
/// A rival that takes longer is measured by what it did until then.
const LIFE_SECONDS: f64 = 20.0;
/// What waits before workers begin, at least and at most.
const STOCK: (f64, f64) = (2_000.0, 300_000.0);

impl Workload {
    /// What each rival did, round by round.
    pub(super) async fn measure(
        &self,
        rivals: &[Rival],
        quick: bool,
    ) -> anyhow::Result<Vec<Vec<Round>>> {
        let (rounds, seconds) = if quick { (3, 0.5) } else { (7, 2.0) };
        let rounds = if self.kind == Kind::Life && !quick { 3 } else { rounds };
        let mut lanes = Vec::new();
        for rival in rivals {
            lanes.push(Lane::open(rival, self.name, self.clients).await?);
        }
        let mut measured = vec![Vec::new(); rivals.len()];
        for _ in 0..rounds {
            for (lane, measured) in lanes.iter_mut().zip(&mut measured) {
                measured.push(self.round(lane, quick, seconds).await?);
            }
        }
        Ok(measured)
    }

    async fn round(&self, lane: &mut Lane, quick: bool, seconds: f64) -> anyhow::Result<Round> {
        let Workload { batch, clients, .. } = *self;
        let (producers, workers) = match self.kind {
            Kind::Enqueue => (clients, 0),
            Kind::Claim => (0, clients),
            Kind::Life => {
                let scale = if quick { 10 } else { 1 };
                let within = LIFE_SECONDS / if quick { 4.0 } else { 1.0 };
                let done = lane.live(LIFE_ITEMS / scale, within).await?;
                return Ok(told(done.settled, done, |done| done.settle));
            }
        };
        let load = Load { producers, workers, batch };
        if self.kind == Kind::Enqueue {
            let done = lane.run(load, Until::seconds(seconds), None).await?;
            return Ok(told(done.enqueued, done, |done| done.enqueue));
        }
        // Enough to last: nobody takes faster than it puts in, at this batch.
        let tried = Load { producers: clients, workers: 0, batch };
        let put_in = lane.run(tried, Until::seconds(seconds / 4.0), None).await?;
        let rate = put_in.enqueued as f64 / put_in.seconds;
        lane.fill((rate * seconds * 1.5).clamp(STOCK.0, STOCK.1) as u64).await?;
        let done = lane.run(load, Until::seconds(seconds), None).await?;
        Ok(told(done.settled, done, |done| done.settle))
    }
}

/// A round of so many items, with the latencies of one kind of call.
fn told(items: u64, done: Done, latencies: fn(Done) -> Latencies) -> Round {
    let seconds = done.seconds;
    Round::new(items, seconds, latencies(done))
}
