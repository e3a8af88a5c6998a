//! All priorities, 1,000 tenants and group limits, beside a plain queue.

use std::sync::Arc;

use windrow_core::settings::{Policy, Settings};

use crate::bench::clients::{Load, Maker, PLAIN, Shape, Until, run as run_clients};
use crate::bench::measure::Round;
use crate::bench::report::Row;
use crate::bench::rig::Rig;
use crate::bench::scenario::Stage;

/// The lowest ratio of all.
pub(super) const WORST: &str = "rich of plain, the lowest";

const RICH: Shape = Shape { tenants: 1_000, groups: 50, all_priorities: true, has_keys: true };
const GROUP_LIMIT: u32 = 4;
/// In place before anything is claimed: twenty per group.
const STOCK: u64 = 1_000_000;
/// Twice what a store claims in one round.
const CLAIMS_PER_S: f64 = 900e3;

struct Side {
    rig: Rig,
    maker: Arc<Maker>,
    stock: u64,
}

impl Side {
    fn new(stage: &Stage, name: &str, shape: Shape) -> anyhow::Result<Side> {
        let rig = Rig::fresh(stage.dir.join(name))?;
        let maker = Maker::new(name, shape);
        if shape.groups > 0 {
            let defaults = Policy { group_limit: Some(GROUP_LIMIT), ..Policy::default() };
            rig.configure(&stage.runtime, &maker, Settings { defaults, ..Settings::default() })?;
        }
        let stock = rig.fill(&stage.runtime, &maker, stage.items(STOCK))?.enqueued;
        Ok(Side { rig, maker, stock })
    }

    fn round(&mut self, stage: &Stage, load: &Load) -> anyhow::Result<Round> {
        let (runtime, seconds) = (&stage.runtime, stage.seconds());
        let wanted = (load.workers.min(1) as f64 * CLAIMS_PER_S * seconds) as u64;
        if self.stock < wanted {
            let more = wanted - self.stock;
            self.stock += self.rig.fill(runtime, &self.maker, more)?.enqueued;
        }
        let until = Until::seconds(seconds);
        let work = || run_clients(runtime, &self.rig.store, &self.maker, load, &until);
        let producing = load.workers == 0;
        let (round, done) = self.rig.round(work, |done| {
            std::mem::take(if producing { &mut done.enqueue } else { &mut done.claim })
        })?;
        self.stock = (self.stock + done.enqueued).saturating_sub(done.settled);
        Ok(round)
    }
}

pub(super) fn run(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let mut plain = Side::new(stage, "plain", PLAIN)?;
    let mut rich = Side::new(stage, "rich", RICH)?;
    let mut rows = Vec::new();
    let mut worst = f64::INFINITY;
    for (verb, producers) in [("enqueue", true), ("claim+settle", false)] {
        for (batch, clients) in [(1, 64), (100, 4)] {
            let (producers, workers) = if producers { (clients, 0) } else { (0, clients) };
            let load = Load { producers, workers, batch };
            let (mut plains, mut riches) = (Vec::new(), Vec::new());
            for _ in 0..stage.rounds() {
                plains.push(plain.round(stage, &load)?);
                riches.push(rich.round(stage, &load)?);
            }
            let ratio = Round::ratio(&riches, &plains);
            let (ours, plain) = (Round::median(&riches), Round::median(&plains));
            worst = worst.min(ratio);
            let name = format!("rich {verb} {batch}x{clients}");
            stage.say(&format!("{name}: {:.0}/s, {ratio:.2} of plain", ours.items_per_s));
            let row = Row::new(name).with_round(&ours).with("ratio", ratio);
            rows.push(row.with("plain_per_s", plain.items_per_s));
        }
    }
    rows.push(Row::new(WORST).with("ratio", worst));
    plain.rig.remove()?;
    rich.rig.remove()?;
    Ok(rows)
}
