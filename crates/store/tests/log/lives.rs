//! Many lives of one log: random work, ended by a power cut at any operation, a kill or a failed
//! sync, over and over, beside a ledger of what was acknowledged.

use std::collections::BTreeMap;

use windrow_store::embedded::log::{Loc, LogError, Position, RECORD_OVERHEAD, Recovered};
use windrow_testkit::disk::SimDisk;
use windrow_testkit::random::Splitmix;

use crate::rig::{Seen, open_from, random_bytes, read};

type Records = Vec<Vec<u8>>;

/// What the outside knows: groups that were acknowledged, and at most one that may have made it.
#[derive(Default)]
struct Ledger {
    acknowledged: BTreeMap<u64, (Vec<Loc>, Records)>,
    unknown: Option<(u64, Vec<Loc>, Records)>,
    from: Option<Position>,
}

impl Ledger {
    /// Holds what recovery saw against the ledger. What was seen is served, so it counts from then
    /// on.
    fn compare(&mut self, seen: &[Seen]) -> Result<(), String> {
        if let Some((sequence, locs, records)) = self.unknown.take()
            && seen.last().is_some_and(|last| last.position.sequence == sequence)
        {
            self.acknowledged.insert(sequence, (locs, records));
        }
        let first = self.from.map_or(1, |from| from.sequence);
        let mut expected = self.acknowledged.range(first..);
        for group in seen {
            let Some((sequence, (locs, records))) = expected.next() else {
                return Err(format!("group {} was never acknowledged", group.position.sequence));
            };
            let (found, bytes): (Vec<Loc>, Records) =
                group.records.iter().map(|(loc, _, bytes)| (*loc, bytes.clone())).unzip();
            if (group.position.sequence, &found, &bytes) != (*sequence, locs, records) {
                return Err(format!("group {sequence} is not what was written"));
            }
        }
        match expected.next() {
            Some((lost, _)) => Err(format!("acknowledged group {lost} is lost")),
            None => Ok(()),
        }
    }

    /// Reads one acknowledged record back, if its segment is still kept.
    fn read_some(&self, log: &Recovered, dice: &mut Splitmix) -> Result<(), String> {
        let oldest = *log.segments.numbers().start();
        let kept = self.acknowledged.values().filter(|(locs, _)| locs[0].segment() >= oldest);
        let kept: Vec<_> = kept.collect();
        if kept.is_empty() {
            return Ok(());
        }
        let (locs, records) = kept[dice.below(kept.len())];
        let which = dice.below(locs.len());
        match read(log, locs[which]) {
            Ok(bytes) if bytes == records[which] => Ok(()),
            Ok(_) => Err(format!("{:?} reads as something else", locs[which])),
            Err(LogError::Damage(damage)) => Err(damage.to_string()),
            Err(_) => Ok(()),
        }
    }
}

/// Pushes one to three commands into a group and makes it durable.
fn commit(log: &mut Recovered, ledger: &mut Ledger, dice: &mut Splitmix) -> Result<(), LogError> {
    let (mut locs, mut records) = (Vec::new(), Vec::new());
    let group = log.writer.group_no();
    for _ in 0..=dice.below(3) {
        let bytes = match dice.below(8) {
            0 => random_bytes(dice, 7000),
            _ => random_bytes(dice, 600),
        };
        match log.writer.begin(bytes.len() + RECORD_OVERHEAD) {
            Ok(()) if log.writer.group_no() == group => {}
            Ok(()) | Err(LogError::NoSpace { .. }) => break,
            Err(error) => return Err(error),
        }
        locs.push(log.writer.push(1, &bytes));
        records.push(bytes);
    }
    while let Some(sealed) = log.writer.take() {
        ledger.unknown = Some((sealed.sequence(), locs.clone(), records.clone()));
        sealed.write_and_sync()?;
        ledger.unknown = None;
        ledger.acknowledged.insert(sealed.sequence(), (locs.clone(), records.clone()));
        log.writer.done(sealed);
    }
    Ok(())
}

/// Works until the disk says no.
fn work(
    disk: &SimDisk,
    log: &mut Recovered,
    ledger: &mut Ledger,
    dice: &mut Splitmix,
) -> Result<(), String> {
    while !disk.is_off() {
        let done = match dice.below(10) {
            0..=4 => commit(log, ledger, dice),
            5..=7 => log.spares.step().map(drop),
            8 => {
                // As after a snapshot: recovery will start here, and older segments may go.
                ledger.from = Some(log.writer.position());
                Ok(())
            }
            _ => {
                let oldest = *log.segments.numbers().start();
                match ledger.from {
                    Some(from) if oldest < from.segment => {
                        log.spares.drop_segment(oldest).map(drop)
                    }
                    _ => Ok(()),
                }
            }
        };
        match done {
            Ok(()) => ledger.read_some(log, dice)?,
            Err(LogError::Damage(damage)) => return Err(damage.to_string()),
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// One log through eight lives; says what went wrong, and how many groups were acknowledged.
fn live(seed: u64, lie: bool) -> Result<u64, String> {
    let mut dice = Splitmix(seed);
    let mut disk = SimDisk::new(seed);
    let mut ledger = Ledger::default();
    disk.set_lie(lie);
    for _ in 0..8 {
        match dice.below(4) {
            0 => disk.fail_sync(1 + dice.below(60) as u64),
            1 => disk.set_capacity(Some(disk.used() + ((16 << 10) * dice.below(4)) as u64)),
            _ => {}
        }
        disk.cut_power_after(dice.below(250) as u64);
        match open_from(&disk, ledger.from) {
            Ok((mut log, seen)) => {
                ledger.compare(&seen)?;
                work(&disk, &mut log, &mut ledger, &mut dice)?;
            }
            Err(LogError::Damage(damage)) => return Err(damage.to_string()),
            Err(_) => {}
        }
        disk = if dice.below(3) == 0 { disk.kill() } else { disk.crash() };
        disk.set_capacity(None);
        disk.set_lie(lie);
    }
    disk.set_lie(false);
    let (log, seen) = open_from(&disk, ledger.from).map_err(|error| error.to_string())?;
    ledger.compare(&seen)?;
    Ok(log.writer.durable())
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_else_appears_over_many_lives() {
    let mut groups = 0;
    for seed in 0..300 {
        groups += live(seed, false).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    assert!(groups > 10_000, "only {groups} groups: the lives are too short to prove anything");
}

#[test]
fn the_same_lives_on_a_lying_disk_are_caught() {
    let caught = (0..40).filter(|seed| live(*seed, true).is_err()).count();
    assert!(caught > 30, "only {caught} of 40 lies were caught");
}
