//! How many items per second: enqueue, claim+settle, and a whole life cycle, everybody in turn.

use super::contender::{BATCHES, Job, SINGLE, Side, alternate, shape};
use super::ground::Ground;
use super::{bare, ours, peers};
use crate::bench::clients::Load;
use crate::bench::measure::Round;
use crate::bench::report::Row;

/// Batch and producers.
const ENQUEUE: [(usize, usize); 3] = [(1, 1), (1, 16), (100, 4)];
/// In place before a round of claims begins.
const STOCK: u64 = 100_000;
pub(super) const LIFE: &str = "life cycle of 100 thousand, 100x(4+4)";
const LIFE_ITEMS: u64 = 100_000;
const LIFE_LOAD: Load = Load { producers: 4, workers: 4, batch: 100 };
const LIFE_ROUNDS: usize = 3;
/// Not measured: connections are made and statements prepared.
const WARM_S: f64 = 0.2;

pub(super) fn enqueue(ground: &Ground) -> anyhow::Result<Vec<Row>> {
    let rows = ENQUEUE.map(|(batch, producers)| {
        let load = Load { producers, workers: 0, batch };
        rate(ground, format!("enqueue {batch}x{producers}"), load, 0)
    });
    rows.into_iter().collect()
}

pub(super) fn claim(ground: &Ground) -> anyhow::Result<Vec<Row>> {
    let rows = [SINGLE, BATCHES].map(|load| {
        let name = format!("claim+settle {}", shape(&load));
        rate(ground, name, load, STOCK)
    });
    rows.into_iter().collect()
}

fn rate(ground: &Ground, name: String, load: Load, stock: u64) -> anyhow::Result<Row> {
    let mut sides = sides(ground);
    sides.push(Side::new(ours::Ours::named("keyed", 1)));
    let warm = Job::rate(load, WARM_S);
    for side in &mut sides {
        side.prepare(ground, stock)?;
        side.run(ground, &warm)?;
    }
    let job = Job::rate(load, ground.seconds());
    alternate(ground, &mut sides, &job, ground.rounds())?;
    Ok(row(ground, name, sides))
}

pub(super) fn life(ground: &Ground) -> anyhow::Result<Vec<Row>> {
    let mut sides = sides(ground);
    for side in &mut sides {
        side.prepare(ground, 0)?;
        side.run(ground, &Job::Life { load: LIFE_LOAD, items: 1_000 })?;
    }
    let job = Job::Life { load: LIFE_LOAD, items: ground.items(LIFE_ITEMS) };
    alternate(ground, &mut sides, &job, LIFE_ROUNDS)?;
    Ok(vec![row(ground, LIFE.to_owned(), sides)])
}

/// Everybody who can be measured here, Windrow first.
fn sides(ground: &Ground) -> Vec<Side> {
    let mut sides = vec![Side::new(ours::Ours::new()), Side::new(bare::Bare::new())];
    if ground.has_peers {
        sides.extend(peers::PACKAGES.map(|package| Side::new(peers::Peer::new(package))));
    }
    sides
}

/// Windrow's figures, what each of the others did, and how many times that Windrow did.
fn row(ground: &Ground, name: String, sides: Vec<Side>) -> Row {
    let [ours, others @ ..] = &sides[..] else { return Row::new(name) };
    let mut row = Row::new(&name).with_round(&ours.median());
    let mut said = format!("{name}: windrow {:.0}/s", ours.median().items_per_s);
    for other in others {
        let (who, per_s) = (other.contender.name(), other.median().items_per_s);
        let ratio = Round::ratio(&ours.rounds, &other.rounds);
        said += &format!(", {ratio:.2} of {who} {per_s:.0}/s");
        row = row.with(&format!("{who}_per_s"), per_s).with(&format!("of_{who}"), ratio);
        if other.median().p50_us > 0.0 {
            row = row.with(&format!("{who}_p50_us"), other.median().p50_us);
        }
    }
    ground.say(&said);
    row
}
