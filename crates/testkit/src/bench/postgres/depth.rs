//! Claims with 10 thousand and with 1 million items waiting.

use super::contender::Side;
use super::ground::Ground;
use super::ours::Ours;
use super::pairs::slower;
use crate::bench::report::Row;

pub(super) const WORST: &str = "times slower with 1 million waiting than with 10 thousand";

const FEW: u64 = 10_000;
const MANY: u64 = 1_000_000;

pub(super) fn run(ground: &Ground) -> anyhow::Result<Vec<Row>> {
    let mut few = Side::new(Ours::named("waiting_10k", 1));
    let mut many = Side::new(Ours::named("waiting_1m", 1));
    few.prepare(ground, FEW)?;
    many.prepare(ground, ground.items(MANY))?;
    slower(ground, [few, many], WORST)
}
