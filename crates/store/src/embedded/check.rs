//! Check: everything in a data directory against its checksums and against the rules.
//!
//! Reads every group and record of every segment, then opens the store and reads every item's
//! body and trail, and recounts every tree. For a directory that no server has open, which it
//! leaves as it is: what opening writes stays in memory.

use std::sync::Arc;

use windrow_core::Timestamp;
use windrow_core::invariants::{recount, sorted};
use windrow_core::item::Marks;
use windrow_core::ledger::Ledger;

use super::codec::record::{Record, tag, tag_name};
use super::disk::Disk;
use super::log::{Loc, Log, LogError, StoreId, is_segment};
use super::overlay::Overlay;
use super::snapshot::is_snapshot;
use super::{Embedded, OpenError, Options};

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    pub segments: u32,
    pub groups: u64,
    pub records: u64,
    pub live: u64,
    pub ended: u64,
    pub trees: u64,
    /// The last group is not whole, which is normal after a crash. Opening cuts it.
    pub torn: bool,
    /// Where that group begins.
    pub torn_at: Option<Loc>,
    /// What is wrong, in words. Empty if nothing is.
    pub faults: Vec<String>,
}

/// Checks a data directory, and changes nothing in it. Damage that keeps it from being opened is an
/// error.
pub fn check(disk: &Arc<dyn Disk>, options: Options) -> Result<Checked, OpenError> {
    let mut checked = visit_log(disk, |_| {})?;
    let store = Embedded::open(Arc::new(Overlay::over(Arc::clone(disk))), options)?;
    store.check_items(&mut checked);
    Ok(checked)
}

/// Whether a directory holds a store: a segment of a log, or a snapshot.
pub fn holds_store(disk: &dyn Disk) -> std::io::Result<bool> {
    let is_part = |name: &String| is_segment(name) || is_snapshot(name);
    Ok(disk.list()?.iter().any(is_part))
}

/// One record of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRecord {
    pub at: Loc,
    /// The number of its group.
    pub group: u64,
    /// The time that the log says it is there, to the second, if it has said so before.
    pub time: Option<Timestamp>,
    pub kind: &'static str,
    pub bytes: usize,
}

/// Visits every record of the log of a directory, in order, up to its end or the first damage, and
/// verifies every checksum. The store that it makes is not looked at.
pub fn visit_log(
    disk: &Arc<dyn Disk>,
    mut visit: impl FnMut(LogRecord),
) -> Result<Checked, OpenError> {
    let (mut checked, mut time) = (Checked::default(), None);
    let log = Log::open(Arc::clone(disk), super::log::Options::new(StoreId([0; 16])))?;
    let segments = log.segments();
    let mut expected = None;
    for number in segments.numbers() {
        let verified = segments.verify_segment(number, expected, |group| {
            for record in group.records() {
                let (at, record) = record?;
                if record.tag == tag::CLOCK
                    && let Ok(Record::Clock(said)) = Record::get(record.tag, record.bytes)
                {
                    time = Some(said);
                }
                let (group, kind) = (group.position.sequence, tag_name(record.tag));
                visit(LogRecord { at, group, time, kind, bytes: record.bytes.len() });
            }
            Ok::<(), LogError>(())
        })?;
        checked.segments += 1;
        checked.groups += verified.groups;
        checked.records += verified.records;
        checked.torn |= verified.torn.is_some();
        checked.torn_at = checked.torn_at.or(verified.torn);
        expected = verified.next_sequence;
        if !verified.continues {
            break;
        }
    }
    Ok(checked)
}

impl Embedded {
    fn check_items(&self, checked: &mut Checked) {
        let tables = self.shared.tables.lock();
        let live = tables.slab.iter().map(|(_, slot)| slot.serial);
        let ended = tables.history.iter().map(|entry| entry.serial);
        let serials: Vec<u64> = live.chain(ended).collect();
        (checked.live, checked.ended) = (tables.slab.live() as u64, tables.history.len() as u64);
        for serial in serials {
            let id = tables.id(serial);
            let read = tables.item(id).and_then(|item| {
                let Some(item) = item else { return Ok(None) };
                tables.body(&item)?;
                tables.trail(&item)?;
                Ok(Some(item))
            });
            match read {
                Err(refusal) => checked.faults.push(refusal.to_string()),
                Ok(None) => checked.faults.push(format!("item {id} is listed but not there")),
                Ok(Some(item)) if item.has(Marks::PARENT) => {
                    checked.trees += u64::from(item.is_root());
                    let folded = tables.trees.parent(serial).is_some_and(|parent| parent.folded);
                    let (known, counted) = (tables.tally(id), recount(&*tables, &item));
                    if let (Some(known), Some(counted), false) = (known, counted, folded)
                        && sorted(known.clone()) != sorted(counted)
                    {
                        checked.faults.push(format!("Q5: counts of {id} differ from a recount"));
                    }
                }
                Ok(Some(_)) => {}
            }
        }
    }

    /// Visits every record of the log in order: where it lies, its kind and its length. What of it
    /// still counts is another question, which the items answer.
    pub fn records(&self, mut visit: impl FnMut(Loc, &'static str, usize)) -> Result<(), LogError> {
        for number in self.shared.segments.numbers() {
            let verified = self.shared.segments.verify_segment(number, None, |group| {
                for record in group.records() {
                    let (at, record) = record?;
                    visit(at, tag_name(record.tag), record.bytes.len());
                }
                Ok::<(), LogError>(())
            })?;
            if !verified.continues {
                break;
            }
        }
        Ok(())
    }
}
