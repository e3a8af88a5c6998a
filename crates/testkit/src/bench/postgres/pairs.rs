//! Windrow beside itself: two databases that differ in one thing take turns.

use super::contender::{BATCHES, Job, SINGLE, Side, alternate, shape};
use super::ground::Ground;
use crate::bench::clients::Load;
use crate::bench::measure::{Round, median};
use crate::bench::report::Row;

/// Items that one round settles at most: few enough to leave a small queue small.
const SETTLED: [(Load, u64); 2] = [(SINGLE, 2_000), (BATCHES, 4_000)];

/// Claims and settles on both sides. A row for each size, with how many times slower the second
/// side is; the last row has the worst of that and is called `worst`.
pub(super) fn slower(
    ground: &Ground,
    [first, second]: [Side; 2],
    worst: &str,
) -> anyhow::Result<Vec<Row>> {
    let mut sides = [first, second];
    let mut rows = Vec::new();
    let mut highest = 0.0f64;
    for (load, items) in SETTLED {
        // The rounds are short, so there are more of them.
        let job = Job::Rate { load, seconds: ground.seconds(), items: Some(items) };
        alternate(ground, &mut sides, &job, 2 * ground.rounds() + 1)?;
        let [first, second] = &sides;
        let slower = Round::ratio(&first.rounds, &second.rounds);
        highest = highest.max(slower);
        let (shape, name) = (shape(&load), second.contender.name());
        rows.push(row(ground, &format!("claim+settle {shape}, {name}"), &sides, slower));
    }
    rows.push(Row::new(worst).with("ratio", highest));
    Ok(rows)
}

/// The second side's figures beside the first's.
pub(super) fn row(ground: &Ground, name: &str, sides: &[Side; 2], ratio: f64) -> Row {
    let [first, second] = sides;
    let (who, other, ours) = (first.contender.name(), first.median(), second.median());
    ground.say(&format!(
        "{name}: {:.0}/s, {who} {:.0}/s: {ratio:.2}",
        ours.items_per_s, other.items_per_s
    ));
    let row = Row::new(name).with_round(&ours).with("ratio", ratio);
    row.with(&format!("{who}_per_s"), other.items_per_s)
}

/// What each round of the second side did of the first's beside it, in order.
pub(super) fn ratios([first, second]: &[Side; 2]) -> Vec<f64> {
    let pairs = second.rounds.iter().zip(&first.rounds);
    let mut ratios: Vec<f64> = pairs.map(|(two, one)| two.items_per_s / one.items_per_s).collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

/// The median of some ratios, and the upper end of its confidence interval: of 15 rounds the
/// twelfth (96 %), of other numbers what corresponds.
pub(super) fn median_at_most(ratios: &[f64]) -> (f64, f64) {
    let count = ratios.len();
    let above = (count as f64 / 2.0 + (count as f64).sqrt()).ceil() as usize;
    let upper = ratios.get(above.min(count).saturating_sub(1)).copied().unwrap_or(0.0);
    (median(ratios.iter().copied()), upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_confidence_interval_of_a_median_ends_at_the_twelfth_of_fifteen() {
        let ratios: Vec<f64> = (1..=15).map(f64::from).collect();
        assert_eq!(median_at_most(&ratios), (8.0, 12.0));
        assert_eq!(median_at_most(&[1.0, 2.0, 3.0]), (2.0, 3.0));
    }
}
