//! Claims with 10 thousand, 1 and 10 million items waiting, and what each costs in memory.
//!
//! The three queues are open at the same time and take turns, so that a slow moment of the disk
//! meets them all.

use std::sync::Arc;

use windrow_core::settings::{Policy, Settings};

use crate::bench::clients::{Client, Done, Maker, PLAIN, Shape, Until, run_all};
use crate::bench::measure::{Latencies, Round, rss_anon_bytes};
use crate::bench::report::Row;
use crate::bench::rig::Rig;
use crate::bench::scenario::Stage;

/// The larger of the two ratios.
pub(super) const WORST: &str = "claim p99 at 10 million of 10 thousand, the worse";
pub(super) const MEMORY: &str = "waiting items in memory";
/// The directory and queue of the ten million, which `reopen` opens again.
pub(super) const DEEPEST: &str = "10 million";

const DEPTHS: [(&str, u64); 3] =
    [("10 thousand", 10_000), ("1 million", 1_000_000), (DEEPEST, 10_000_000)];
const TENANTS: u64 = 100;
const GROUP_OF: u64 = 10;
const GROUP_LIMIT: u32 = 10;
const CLIENTS: [usize; 2] = [1, 64];

pub(super) struct Depth {
    pub(super) rig: Rig,
    pub(super) maker: Arc<Maker>,
    pub(super) items: u64,
}

/// A queue with so many items waiting, in groups of ten with a limit.
pub(super) fn fill(stage: &Stage, name: &str, items: u64) -> anyhow::Result<(Depth, f64)> {
    let rig = Rig::fresh(stage.dir.join(name))?;
    let maker = maker(name, items);
    let defaults = Policy { group_limit: Some(GROUP_LIMIT), ..Policy::default() };
    rig.configure(&stage.runtime, &maker, Settings { defaults, ..Settings::default() })?;
    let done = rig.fill(&stage.runtime, &maker, items)?;
    let per_s = done.enqueued as f64 / done.seconds;
    stage.say(&format!("{name}: {} waiting, loaded at {per_s:.0}/s", done.enqueued));
    Ok((Depth { rig, maker, items: done.enqueued }, per_s))
}

pub(super) fn maker(name: &str, items: u64) -> Arc<Maker> {
    let groups = (items / TENANTS / GROUP_OF).max(1);
    Maker::new(name, Shape { tenants: TENANTS, groups, ..PLAIN })
}

/// How many items the deepest queue has.
pub(super) fn deepest_items(stage: &Stage) -> u64 {
    stage.items(DEPTHS[2].1)
}

pub(super) fn run(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let mut depths = Vec::new();
    let mut rows = Vec::new();
    for (name, items) in DEPTHS {
        // The smallest stays as it is even in a hurry: it is what the others are measured by.
        let items = if items > 10_000 { stage.items(items) } else { items };
        let before = rss_anon_bytes()?;
        let (depth, per_s) = fill(stage, name, items)?;
        let each = rss_anon_bytes()?.saturating_sub(before) as f64 / depth.items as f64;
        if name == DEEPEST {
            stage.say(&format!("{each:.1} bytes of memory for each"));
            let row = Row::new(MEMORY).with("rss_bytes_per_item", each);
            let disk = depth.rig.disk_bytes()? as f64 / depth.items as f64;
            rows.push(row.with("load_per_s", per_s).with("disk_bytes_per_item", disk));
        }
        depths.push(depth);
    }
    rows.extend(claims(stage, &depths)?);
    for (depth, (name, _)) in depths.into_iter().zip(DEPTHS) {
        if name == DEEPEST { depth.rig.close() } else { depth.rig.remove()? }
    }
    Ok(rows)
}

fn claims(stage: &Stage, depths: &[Depth]) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut worst = 0.0f64;
    for clients in CLIENTS {
        let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); depths.len()];
        for _ in 0..stage.rounds() {
            for (depth, rounds) in depths.iter().zip(&mut rounds) {
                rounds.push(round(stage, depth, clients)?);
            }
        }
        let rounds: Vec<Round> = rounds.iter().map(|rounds| Round::median(rounds)).collect();
        for (round, (name, _)) in rounds.iter().zip(DEPTHS) {
            let name = format!("claim at {name} waiting, {clients} clients");
            stage.say(&format!("{name}: p50 {:.0} us, p99 {:.0} us", round.p50_us, round.p99_us));
            rows.push(Row::new(name).with_round(round));
        }
        worst = worst.max(rounds[2].p99_us / rounds[0].p99_us);
    }
    rows.push(Row::new(WORST).with("ratio", worst));
    Ok(rows)
}

fn round(stage: &Stage, depth: &Depth, clients: usize) -> anyhow::Result<Round> {
    let until = Until::seconds(stage.seconds());
    let work = || {
        let cycle = |number| {
            let client = Client::new(&depth.rig.store, &depth.maker, number, 1);
            client.cycle(until.clone())
        };
        run_all(&stage.runtime, (0..clients).map(cycle))
    };
    let latencies = |done: &mut Done| -> Latencies { std::mem::take(&mut done.claim) };
    depth.rig.round(work, latencies).map(|(round, _)| round)
}
