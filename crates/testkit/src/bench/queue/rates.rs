//! How many items per second, beside the limit: enqueue, claim+settle, and both at once.

use std::sync::Arc;

use crate::bench::clients::{Load, Maker, PLAIN, Until, run as run_clients};
use crate::bench::measure::Round;
use crate::bench::report::Row;
use crate::bench::rig::{Housekeeping, Rig};
use crate::bench::scenario::Stage;

/// Batch and clients.
const SIZES: [(usize, usize); 4] = [(1, 1), (1, 16), (1, 64), (100, 4)];
/// Faster than any store drains; so much is put in place before a round of claims.
const CLAIMS_PER_S: [f64; 4] = [20e3, 100e3, 400e3, 900e3];

pub(super) fn run(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let rig = Rig::fresh(stage.dir.join("rates"))?;
    let bench = Bench { stage, rig: &rig, maker: Maker::new("queue", PLAIN) };
    let mut rows = Vec::new();
    for (batch, clients) in SIZES {
        let load = Load { producers: clients, workers: 0, batch };
        rows.push(bench.row(&format!("enqueue {batch}x{clients}"), &load, 0.0, false)?);
    }
    for ((batch, clients), per_s) in SIZES.into_iter().zip(CLAIMS_PER_S) {
        let load = Load { producers: 0, workers: clients, batch };
        rows.push(bench.row(&format!("claim+settle {batch}x{clients}"), &load, per_s, false)?);
    }
    for (batch, each) in [(1, 32), (50, 8)] {
        let load = Load { producers: each, workers: each, batch };
        rows.push(bench.row(&format!("mixed {batch}x({each}+{each})"), &load, 300e3, false)?);
    }
    let load = Load { producers: 0, workers: 4, batch: 100 };
    rows.push(bench.row("claim+settle 100x4, swept", &load, CLAIMS_PER_S[3], true)?);
    rig.remove()?;
    Ok(rows)
}

struct Bench<'a> {
    stage: &'a Stage,
    rig: &'a Rig,
    maker: Arc<Maker>,
}

impl Bench<'_> {
    /// Alternates with the limit; `per_s` items are in place for each second of claims.
    fn row(&self, name: &str, load: &Load, per_s: f64, swept: bool) -> anyhow::Result<Row> {
        let Bench { stage, rig, maker } = self;
        let (runtime, seconds) = (&stage.runtime, stage.seconds());
        let (mut ours, mut limits) = (Vec::new(), Vec::new());
        let mut stock = 0;
        for _ in 0..stage.rounds() {
            let wanted = (per_s * seconds) as u64;
            if stock < wanted {
                stock += rig.fill(runtime, maker, wanted - stock)?.enqueued;
            }
            limits.push(stage.limit.round(load, seconds)?);
            let work = || {
                let house = swept.then(|| Housekeeping::begin(runtime, &rig.store));
                let until = Until::seconds(seconds);
                let done = run_clients(runtime, &rig.store, maker, load, &until)?;
                house.map_or(Ok(0), |house| house.end(runtime))?;
                Ok(done)
            };
            let producing = load.workers == 0;
            let (round, done) = rig.round(work, |done| {
                std::mem::take(if producing { &mut done.enqueue } else { &mut done.claim })
            })?;
            stock = (stock + done.enqueued).saturating_sub(done.settled);
            ours.push(round);
        }
        let (per_s, ratio) = (Round::median(&ours).items_per_s, Round::ratio(&ours, &limits));
        stage.say(&format!("{name}: {per_s:.0}/s, {ratio:.2} of the limit"));
        Ok(Row::new(name).beside(&ours, &limits))
    }
}
