//! What a finished item costs in memory while it is kept.

use windrow_core::settings::{Retention, Settings};

use super::churn::turn_over;
use crate::bench::clients::{Maker, PLAIN};
use crate::bench::measure::rss_anon_bytes;
use crate::bench::report::Row;
use crate::bench::rig::Rig;
use crate::bench::scenario::Stage;

pub(super) const NAME: &str = "finished items in memory";

const LIVE: u64 = 20_000;
/// Finished before the measurement, so that buffers and tables have their size.
const BEFORE: u64 = 500_000;
const FINISHED: u64 = 4_000_000;

pub(super) fn run(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let rig = Rig::fresh(stage.dir.join("finished"))?;
    let maker = Maker::new("queue", PLAIN);
    let retention = Retention { max_per_tenant: u32::MAX, ..Retention::default() };
    rig.configure(&stage.runtime, &maker, Settings { retention, ..Settings::default() })?;
    rig.fill(&stage.runtime, &maker, LIVE)?;
    turn_over(stage, &rig, &maker, stage.items(BEFORE))?;
    rig.quiet()?;
    let before = rss_anon_bytes()?;
    let done = turn_over(stage, &rig, &maker, stage.items(FINISHED))?;
    rig.quiet()?;
    let grown = rss_anon_bytes()?.saturating_sub(before) as f64 / done.settled as f64;
    stage.say(&format!("{} finished: {grown:.1} bytes each", done.settled));
    rig.remove()?;
    let row = Row::new(NAME).with("rss_bytes_per_item", grown);
    Ok(vec![row.with("items", done.settled as f64)])
}
