//! One server and two on the same kind of database, each server with clients of its own.
//!
//! No loss means: what two servers do together is not below what one does alone, beyond the noise.
//! The noise is taken from the rounds: the upper end of the confidence interval of the median ratio
//! has to reach 1, and the median itself may not fall far below.

use super::contender::{BATCHES, Job, SINGLE, Side, alternate, shape};
use super::ground::Ground;
use super::ours::Ours;
use super::pairs::{median_at_most, ratios, row};
use crate::bench::clients::Load;
use crate::bench::report::Row;

/// The lowest of all sizes.
pub(super) const LOWEST: &str = "two servers, times one, the lowest";
pub(super) const WITHIN_NOISE: &str = "ratio_at_most";

const STOCK: u64 = 100_000;
const ROUNDS: usize = 15;
const ENQUEUE: Load = Load { producers: 4, workers: 0, batch: 100 };

pub(super) fn run(ground: &Ground) -> anyhow::Result<Vec<Row>> {
    let rounds = if ground.quick { 5 } else { ROUNDS };
    let mut rows = Vec::new();
    let mut lowest = (f64::INFINITY, f64::INFINITY);
    for (verb, load, stock) in
        [("enqueue", ENQUEUE, 0), ("claim+settle", SINGLE, STOCK), ("claim+settle", BATCHES, STOCK)]
    {
        let mut sides =
            [Side::new(Ours::named("one_server", 1)), Side::new(Ours::named("two_servers", 2))];
        for side in &mut sides {
            side.prepare(ground, stock)?;
            side.run(ground, &Job::rate(load, 0.2))?;
        }
        alternate(ground, &mut sides, &Job::rate(load, ground.seconds()), rounds)?;
        let (ratio, at_most) = median_at_most(&ratios(&sides));
        lowest = (lowest.0.min(ratio), lowest.1.min(at_most));
        let name = format!("{verb} {}, two servers", shape(&load));
        rows.push(row(ground, &name, &sides, ratio).with(WITHIN_NOISE, at_most));
    }
    rows.push(Row::new(LOWEST).with("ratio", lowest.0).with(WITHIN_NOISE, lowest.1));
    Ok(rows)
}
