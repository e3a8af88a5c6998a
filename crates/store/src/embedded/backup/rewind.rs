//! Taking a data directory back in time, by cutting its log.
//!
//! Every state of a store is a snapshot and the groups behind it, up to some group. So an earlier
//! state is had by leaving groups out, as long as there is a snapshot that saw none of them, or the
//! log is there from its beginning.

use std::sync::Arc;

use windrow_core::Timestamp;

use crate::embedded::codec::record::{Record, tag};
use crate::embedded::disk::Disk;
use crate::embedded::log::{self, Group, Log, LogError, Op, Position, StoreId};
use crate::embedded::snapshot::{self, Base, SnapshotError};

/// What became of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rewound {
    /// The time of what is left, to the second.
    pub at: Timestamp,
    /// Whether something was cut.
    pub cut: bool,
}

/// Why a directory was not taken back. Before `Disk` nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum RewindError {
    #[error("it does not reach back that far; the earliest moment in it is {earliest}")]
    TooEarly { earliest: Timestamp },
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("{0}")]
    Disk(#[from] std::io::Error),
}

/// Takes a directory back to a moment: what happened up to then stays, what happened later goes.
/// For a copy, which nobody else has open.
pub fn rewind(disk: &Arc<dyn Disk>, to: Timestamp) -> Result<Rewound, RewindError> {
    let log = Log::open(Arc::clone(disk), log::Options::new(StoreId([0; 16])))?;
    let bases = snapshot::bases(&**disk)?;
    let mut earliest = None;
    for base in bases.iter().map(Some).chain([None]) {
        if base.is_none() && *log.segments().numbers().start() != 1 {
            break;
        }
        // One that is younger has seen what is to be left out.
        if let Some(base) = base.filter(|base| base.at > to) {
            earliest = Some(base.at);
            continue;
        }
        let found = find(&log, base, to)?;
        match (found.at, found.cut) {
            (None, _) => earliest = found.first.or(earliest),
            (_, Some(cut)) if base.is_some_and(|base| cut.sequence <= base.start.until) => {
                earliest = found.first.or(earliest);
            }
            (Some(at), cut) => {
                let newest = base.map_or(0, |base| base.start.position.sequence);
                if let Some(cut) = cut {
                    apply(&**disk, &log, cut, newest)?;
                }
                return Ok(Rewound { at, cut: cut.is_some() });
            }
        }
    }
    Err(RewindError::TooEarly { earliest: earliest.unwrap_or(to) })
}

/// What a walk along the log found.
#[derive(Default)]
struct Found {
    /// The first time that counts: before it, a snapshot has seen more than it should have.
    first: Option<Timestamp>,
    /// The last time that is not too late.
    at: Option<Timestamp>,
    /// The first group that is too late.
    cut: Option<Position>,
}

/// A walk ends early, with the place that was looked for, or with damage.
enum Ended {
    Enough,
    Log(LogError),
}

impl From<LogError> for Ended {
    fn from(error: LogError) -> Ended {
        Ended::Log(error)
    }
}

fn find(log: &Log, base: Option<&Base>, to: Timestamp) -> Result<Found, LogError> {
    let mut found = Found { at: base.map(|base| base.at), ..Found::default() };
    let until = base.map_or(0, |base| base.start.until);
    let walked = log.visit(base.map(|base| base.start.position), |group| {
        let Some(time) = time_of(&group) else { return Ok(()) };
        if group.position.sequence > until {
            found.first.get_or_insert(time);
        }
        if time > to {
            found.cut.get_or_insert(group.position);
        } else {
            found.at = found.at.max(Some(time));
        }
        let is_enough = found.cut.is_some() && found.first.is_some();
        if is_enough { Err(Ended::Enough) } else { Ok(()) }
    });
    match walked {
        Ok(()) | Err(Ended::Enough) => Ok(found),
        Err(Ended::Log(error)) => Err(error),
    }
}

/// The time that a group says it is. Most say nothing: it is a second later at most.
fn time_of(group: &Group<'_>) -> Option<Timestamp> {
    let clocks = group.records().filter_map(|record| match record {
        Ok((_, record)) if record.tag == tag::CLOCK => Record::get(record.tag, record.bytes).ok(),
        _ => None,
    });
    clocks.filter_map(|record| if let Record::Clock(at) = record { Some(at) } else { None }).last()
}

/// Cuts the log before a group, and takes away snapshots that came after the one to begin with.
fn apply(disk: &dyn Disk, log: &Log, cut: Position, newest: u64) -> Result<(), RewindError> {
    for name in snapshot::names_after(disk, newest)? {
        disk.remove(&name)?;
    }
    // The youngest first, so that the row never has a hole.
    for number in (cut.segment + 1..=*log.segments().numbers().end()).rev() {
        disk.remove(log.segments().get(number)?.name())?;
    }
    let segment = log.segments().get(cut.segment)?;
    let file = disk.open(segment.name()).map_err(|source| LogError::Io {
        file: segment.name().to_owned(),
        op: Op::Open,
        source,
    })?;
    // What is behind reads as zeros then.
    file.set_len(cut.offset.into())?;
    file.set_len(segment.bytes().into())?;
    file.sync()?;
    disk.sync_dir()?;
    Ok(())
}
