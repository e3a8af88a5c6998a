//! Claims with 10 million ended items kept, and with none.

use std::time::Instant;

use super::contender::{Job, SINGLE, Side};
use super::ground::Ground;
use super::history;
use super::ours::Ours;
use super::pairs::slower;
use crate::bench::report::Row;

pub(super) const WORST: &str = "times slower with 10 million finished kept than with none";

const KEPT: u64 = 10_000_000;
const STOCK: u64 = 20_000;
const NAME: &str = "kept_10m";

pub(super) fn run(ground: &Ground) -> anyhow::Result<Vec<Row>> {
    let kept = ground.items(KEPT);
    let mut none = Side::new(Ours::named("kept_none", 1));
    let mut many = Side::new(Ours::named(NAME, 1));
    for side in [&mut none, &mut many] {
        side.prepare(ground, STOCK)?;
        side.run(ground, &Job::Life { load: SINGLE, items: 100 })?;
    }
    let begun = Instant::now();
    history::load(ground, NAME, kept)?;
    many.expect_finished(ground, kept)?;
    ground.say(&format!("{kept} finished items in place after {} s", begun.elapsed().as_secs()));
    slower(ground, [none, many], WORST)
}
