//! A transaction that holds an old snapshot keeps vacuum from removing what is dead, for as long as
//! it is open. Items flow meanwhile; then claims are measured again, with the snapshot still held.

use super::contender::{BATCHES, Job, SINGLE, Side, alternate, shape};
use super::ground::Ground;
use super::ours::Ours;
use crate::bench::clients::Load;
use crate::bench::measure::Round;
use crate::bench::report::Row;

/// The lowest of both sizes.
pub(super) const LOWEST: &str = "after a pinned snapshot, times before, the lowest";
pub(super) const FLOW_PER_S: &str = "flow_per_s";

const STOCK: u64 = 100_000;
const PER_S: f64 = 500.0;
const FLOW: Load = Load { producers: 4, workers: 4, batch: 10 };
const SIZES: [Load; 2] = [SINGLE, BATCHES];
const NAME: &str = "pinned";

pub(super) fn run(ground: &Ground) -> anyhow::Result<Vec<Row>> {
    let mut sides = [Side::new(Ours::named(NAME, 1))];
    sides[0].prepare(ground, STOCK)?;
    sides[0].run(ground, &Job::rate(SINGLE, 0.2))?;
    let before = measure(ground, &mut sides)?;

    // Held until it is dropped.
    let holder = ground.runtime.block_on(Ground::connect(&ground.url(NAME)))?;
    let hold = "begin isolation level repeatable read; select count(*) from pg_class";
    ground.runtime.block_on(holder.batch_execute(hold))?;
    let seconds = ground.pinned_minutes * 60.0;
    ground.say(&format!("{PER_S} items/s for {seconds:.0} s under a pinned snapshot"));
    let flowed = sides[0].run(ground, &Job::Flow { load: FLOW, per_s: PER_S, seconds })?;
    let after = measure(ground, &mut sides)?;
    let held = "select count(*) from pg_stat_activity where datname = 'pinned' \
                and state = 'idle in transaction' and backend_xmin is not null";
    anyhow::ensure!(ground.count("postgres", held)? > 0, "nobody held a snapshot");
    drop(holder);

    let flow_per_s = flowed.settled as f64 / seconds;
    let mut rows = Vec::new();
    let mut lowest = f64::INFINITY;
    for ((load, before), after) in SIZES.iter().zip(before).zip(after) {
        let ratio = after.items_per_s / before.items_per_s;
        lowest = lowest.min(ratio);
        let name = format!("claim+settle {}, snapshot pinned", shape(load));
        let per_s = (after.items_per_s, before.items_per_s);
        ground.say(&format!("{name}: {:.0}/s, before {:.0}/s: {ratio:.2}", per_s.0, per_s.1));
        let row = Row::new(name).with_round(&after).with("ratio", ratio);
        rows.push(row.with("before_per_s", before.items_per_s));
    }
    let row = Row::new(LOWEST).with("ratio", lowest).with(FLOW_PER_S, flow_per_s);
    rows.push(row.with("flow_claim_p99_us", flowed.round.p99_us));
    Ok(rows)
}

/// Claims and settles of both sizes.
fn measure(ground: &Ground, sides: &mut [Side; 1]) -> anyhow::Result<Vec<Round>> {
    let each = SIZES.iter().map(|load| {
        let job = Job::rate(*load, ground.seconds());
        alternate(ground, sides, &job, ground.rounds())?;
        Ok(sides[0].median())
    });
    each.collect()
}
