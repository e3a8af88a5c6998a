//! What the tests of the log share: a small log on a simulated disk, and a few short words for it.

use std::sync::Arc;

use windrow_store::embedded::disk::Disk;
use windrow_store::embedded::log::{
    Loc, Log, LogError, Options, Position, RECORD_OVERHEAD, Recovered, StoreId, Work,
};
use windrow_testkit::disk::SimDisk;
use windrow_testkit::random::Splitmix;

pub(crate) const SEGMENT_BYTES: u32 = 16 << 10;

/// Segments of 16 KiB, one in reserve, at most three spares.
pub(crate) fn options() -> Options {
    let mut options = Options::new(StoreId(*b"windrow test one"));
    options.segment_bytes = SEGMENT_BYTES;
    options.reserve_segments = 1;
    options.spares_max = 3;
    options
}

/// One group as recovery saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) position: Position,
    pub(crate) records: Vec<(Loc, u8, Vec<u8>)>,
}

/// Opens the log and collects what it holds.
pub(crate) fn open(disk: &SimDisk) -> Result<(Recovered, Vec<Seen>), LogError> {
    open_from(disk, None)
}

pub(crate) fn open_from(
    disk: &SimDisk,
    from: Option<Position>,
) -> Result<(Recovered, Vec<Seen>), LogError> {
    open_as(Arc::new(disk.clone()), options(), from)
}

pub(crate) fn open_as(
    disk: Arc<dyn Disk>,
    options: Options,
    from: Option<Position>,
) -> Result<(Recovered, Vec<Seen>), LogError> {
    let mut seen = Vec::new();
    let recovered = Log::open(disk, options)?.recover(from, |group| {
        let mut records = Vec::new();
        for record in group.checked_records() {
            let (loc, record) = record?;
            records.push((loc, record.tag, record.bytes.to_vec()));
        }
        seen.push(Seen { position: group.position, records });
        Ok::<(), LogError>(())
    })?;
    Ok((recovered, seen))
}

/// Appends records as one command.
pub(crate) fn push(log: &mut Recovered, records: &[&[u8]]) -> Result<Vec<Loc>, LogError> {
    log.writer.begin(records.iter().map(|bytes| bytes.len() + RECORD_OVERHEAD).sum())?;
    Ok(records.iter().zip(1..).map(|(bytes, tag)| log.writer.push(tag, bytes)).collect())
}

/// Writes and syncs every group that waits.
pub(crate) fn sync(log: &mut Recovered) -> Result<(), LogError> {
    while let Some(group) = log.writer.take() {
        group.write_and_sync()?;
        log.writer.done(group);
    }
    Ok(())
}

/// Appends records as one group and makes it durable.
pub(crate) fn commit(log: &mut Recovered, records: &[&[u8]]) -> Result<Vec<Loc>, LogError> {
    let locs = push(log, records)?;
    sync(log)?;
    Ok(locs)
}

/// Prepares spares until there is nothing left to do, or the disk refuses.
pub(crate) fn prepare(log: &mut Recovered) -> Result<Work, LogError> {
    loop {
        match log.spares.step()? {
            Work::More => {}
            work => return Ok(work),
        }
    }
}

pub(crate) fn read(log: &Recovered, loc: Loc) -> Result<Vec<u8>, LogError> {
    let mut scratch = Vec::new();
    Ok(log.segments.read(loc, &mut scratch)?.bytes.to_vec())
}

/// The bytes of each record of each group, without places.
pub(crate) fn payloads(seen: &[Seen]) -> Vec<Vec<Vec<u8>>> {
    let records = |seen: &Seen| seen.records.iter().map(|(_, _, bytes)| bytes.clone()).collect();
    seen.iter().map(records).collect()
}

/// Bytes that compress to nothing and, now and then, bytes that are all alike.
pub(crate) fn random_bytes(dice: &mut Splitmix, max: usize) -> Vec<u8> {
    let len = dice.below(max + 1);
    match dice.below(4) {
        0 => vec![dice.below(3) as u8; len],
        _ => (0..len).map(|_| dice.below(256) as u8).collect(),
    }
}
