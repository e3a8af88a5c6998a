//! Opening ten million items again, and draining them.

use std::time::Instant;

use anyhow::Context as _;

use super::depth::{self, DEEPEST};
use crate::bench::clients::{Client, Load, Until, run as run_clients};
use crate::bench::measure::{Round, cpu_us, rss_anon_bytes};
use crate::bench::report::Row;
use crate::bench::rig::{Housekeeping, Rig};
use crate::bench::scenario::Stage;

pub(super) const REOPEN: &str = "reopen of 10 million";

const DRAIN: Load = Load { producers: 0, workers: 4, batch: 1_000 };

pub(super) fn run(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let dir = stage.dir.join(DEEPEST);
    let items = depth::deepest_items(stage);
    if !dir.exists() {
        depth::fill(stage, DEEPEST, items)?.0.rig.close();
    }
    let maker = depth::maker(DEEPEST, items);
    let before = rss_anon_bytes()?;
    let begun = Instant::now();
    let rig = Rig::open(&dir)?;
    let opened_s = begun.elapsed().as_secs_f64();
    let mut client = Client::new(&rig.store, &maker, 0, 1);
    let first = stage.runtime.block_on(async {
        let grant = client.claim().await?.context("nothing waits after the reopen")?;
        client.settle(grant).await
    });
    first?;
    let seconds = begun.elapsed().as_secs_f64();
    let each = rss_anon_bytes()?.saturating_sub(before) as f64 / items as f64;
    stage.say(&format!("open in {opened_s:.2} s, first claim after {seconds:.2} s"));
    let row = Row::new(REOPEN).with("seconds", seconds).with("rss_bytes_per_item", each);
    let drain = drain(stage, &rig, &maker, items - 1)?;
    rig.remove()?;
    Ok(vec![row, drain])
}

fn drain(
    stage: &Stage,
    rig: &Rig,
    maker: &std::sync::Arc<crate::bench::clients::Maker>,
    items: u64,
) -> anyhow::Result<Row> {
    let (runtime, cpu, written) = (&stage.runtime, cpu_us()?, rig.written());
    let house = Housekeeping::begin(runtime, &rig.store);
    let done = run_clients(runtime, &rig.store, maker, &DRAIN, &Until::items(items))?;
    let (settled, per_s) = (done.settled as f64, done.settled as f64 / done.seconds);
    stage.say(&format!("drained {settled} at {per_s:.0}/s"));
    let removed = house.end(runtime)?;
    rig.quiet()?;
    let round = Round {
        cpu_us_per_item: (cpu_us()? - cpu) / settled,
        bytes_per_item: rig.written().since(&written).total() as f64 / settled,
        ..Round::new(done.settled, done.seconds, done.claim)
    };
    let row = Row::new("drain of 10 million, 1000x4, swept").with_round(&round);
    Ok(row.with("swept", removed as f64).with("disk_mb", rig.disk_bytes()? as f64 / 1e6))
}
