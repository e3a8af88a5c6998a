//! Making a data directory of a backup.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use windrow_core::{ItemId, Timestamp};
use windrow_store::embedded::backup::{RESTORING, RewindError, rewind};
use windrow_store::embedded::blobs::DIRECTORY;
use windrow_store::embedded::disk::{Disk, LOCK_FILE, RealDisk};
use windrow_store::embedded::overlay::Overlay;
use windrow_store::embedded::{Checked, Embedded, OpenError, Options, check, visit_log};

use super::archive::{Archive, Chain, Kind, Point, kind, make_dir, open, sync_dir};
use super::catalog::{Taken, take_up};
use super::{Bar, at, lost};
use crate::cli::blobs::{self, Compared};
use crate::cli::data_dir::{holds_a_store, is_damage, not_locked, not_opened, to_open, to_use};
use crate::documents::CATALOG;

/// What a directory holds now.
pub(super) struct Restored {
    pub(super) at: Timestamp,
    pub(super) live: u64,
    pub(super) ended: u64,
    pub(super) blobs: u64,
    /// Items whose payloads no backup has.
    pub(super) without_payload: Vec<ItemId>,
    pub(super) catalog: Option<Taken>,
}

/// Which moment is wanted, and of how much of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The last one if it is not said.
    pub(super) at: Option<Timestamp>,
    /// Items may go without payloads that no backup has.
    pub(super) without_lost_blobs: bool,
}

/// The earliest moment that can be restored from a chain. Nothing is changed in it.
pub(super) fn earliest(archive: &Archive, chain: &Chain) -> anyhow::Result<Timestamp> {
    let dir = archive.chain_dir(chain);
    let mut moment = Timestamp::ZERO;
    loop {
        // What is cut off to reach a moment is cut off in memory.
        let disk = RealDisk::open_to_read(&dir).map_err(at(&dir))?;
        let disk: Arc<dyn Disk> = Arc::new(Overlay::over(Arc::new(disk)));
        match rewind(&disk, moment) {
            Ok(rewound) => return Ok(rewound.at),
            // The first time that is known may be one that a snapshot has seen the half of.
            Err(RewindError::TooEarly { earliest }) if earliest > moment => moment = earliest,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Makes a data directory of the last backup, or of the one from which a moment can be reached.
pub(super) async fn restore(
    archive: &Archive,
    to: &Path,
    wanted: Wanted,
) -> anyhow::Result<Restored> {
    let (chain, point) = choose(archive, wanted.at)?;
    let was_there = to.exists();
    let disk = make_room(to)?;
    let restored = fill(archive, (chain, point), to, &disk, wanted).await;
    if restored.is_err() && !was_there {
        // If something stays, the next restore takes it away: the sign of it goes last.
        let _gone = clear(to).and_then(|()| Ok(fs::remove_dir_all(to)?));
    }
    restored
}

async fn fill(
    archive: &Archive,
    (chain, point): (&Chain, &Point),
    to: &Path,
    disk: &Arc<dyn Disk>,
    wanted: Wanted,
) -> anyhow::Result<Restored> {
    copy(archive, chain, point, to)?;
    let from = archive.chain_dir(chain);
    must_reach(point, (&from, to), disk)?;
    let reached = match wanted.at {
        Some(moment) => rewind(disk, moment).map_err(|why| not_rewound(archive, point, why))?.at,
        None => point.time()?,
    };
    let catalog = match chain.catalog(point) {
        Some((of, name)) => Some((of.time()?, name)),
        None => None,
    };
    let verified = verify((&from, to), disk, catalog).await?;
    let Verified { checked, kept, without_payload, catalog } = verified;
    if !without_payload.is_empty() && !wanted.without_lost_blobs {
        return Err(lost::refused(&without_payload, wanted.at.map(|_| reached)));
    }
    // From here on it counts.
    disk.remove(RESTORING).map_err(at(to))?;
    disk.sync_dir().map_err(at(to))?;
    let (live, ended) = (checked.live, checked.ended);
    Ok(Restored { at: reached, live, ended, blobs: kept, without_payload, catalog })
}

/// The first backup that was made at a moment or after it; the last one if none is said.
fn choose(archive: &Archive, moment: Option<Timestamp>) -> anyhow::Result<(&Chain, &Point)> {
    let points =
        || archive.chains().iter().flat_map(|chain| chain.points.iter().map(move |p| (chain, p)));
    let last = points().last().ok_or_else(|| anyhow::anyhow!("there is no backup yet"))?;
    let Some(moment) = moment else { return Ok(last) };
    for (chain, point) in points() {
        if point.time()? >= moment {
            return Ok((chain, point));
        }
    }
    anyhow::bail!(
        "the last backup is of {}, and {moment} is later; leave --at out to restore the last one",
        last.1.at
    )
}

fn not_rewound(archive: &Archive, point: &Point, why: RewindError) -> anyhow::Error {
    let RewindError::TooEarly { earliest } = why else { return why.into() };
    let points: Vec<&Point> = archive.chains().iter().flat_map(|chain| &chain.points).collect();
    let before =
        points.iter().position(|one| *one == point).and_then(|at| points.get(at.wrapping_sub(1)));
    match before {
        Some(before) => anyhow::anyhow!(
            "nothing is known of that moment: it lies between the backup of {} and {earliest}, \
             where the next one begins; give one of these times",
            before.at
        ),
        None => anyhow::anyhow!("the backup reaches back to {earliest}, and no further"),
    }
}

/// A directory that is empty, or in which a restore was begun; empty then, but for the sign of it,
/// and nobody else's for as long as the disk is there.
fn make_room(to: &Path) -> anyhow::Result<Arc<dyn Disk>> {
    // First, so that nothing is left in a directory that is used for something else.
    must_be_free(to)?;
    let disk = to_open(to)?.hold().map_err(|why| not_locked(to, why))?;
    // Whoever had it meanwhile may have left something.
    must_be_free(to)?;
    let sign = to.join(RESTORING);
    if sign.exists() {
        clear(to)?;
    }
    open(&sign)?.sync_all().map_err(at(to))?;
    sync_dir(to)?;
    Ok(Arc::new(disk))
}

fn must_be_free(to: &Path) -> anyhow::Result<()> {
    if to.join(RESTORING).exists() {
        return Ok(());
    }
    to_use(to)?;
    anyhow::ensure!(
        !holds_a_store(to)?,
        "{} holds a store already; give a directory that is empty or does not exist yet",
        to.display()
    );
    Ok(())
}

/// Removes all that a restore brought, but not the sign of it, nor the lock.
fn clear(to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(to).map_err(at(to))? {
        let entry = entry.map_err(at(to))?;
        let path = entry.path();
        if [RESTORING, LOCK_FILE, "lost+found"].iter().any(|kept| path.ends_with(kept)) {
            continue;
        }
        let is_dir = entry.file_type().map_err(at(&path))?.is_dir();
        let gone = if is_dir { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        gone.map_err(at(&path))?;
    }
    sync_dir(to)
}

fn copy(archive: &Archive, chain: &Chain, point: &Point, to: &Path) -> anyhow::Result<()> {
    let until = chain.points.iter().position(|one| one == point).unwrap_or_default();
    let snapshots: Vec<&String> =
        chain.points[..=until].iter().filter_map(|point| point.snapshot.as_ref()).collect();
    let from = archive.chain_dir(chain);
    let mut files = Vec::new();
    for entry in fs::read_dir(&from).map_err(at(&from))? {
        let entry = entry.map_err(at(&from))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let bytes = entry.metadata().map_err(at(&from))?.len();
        let (counts, size) = match kind(&name) {
            Some(Kind::Segment) if name < point.segment => (bytes, bytes),
            // A backup that was interrupted may have begun to go on with it.
            Some(Kind::Segment) if name == point.segment => (point.bytes, point.size),
            Some(Kind::Snapshot) if snapshots.contains(&&name) => (bytes, bytes),
            _ => continue,
        };
        files.push((from.join(&name), to.join(&name), counts, size));
    }
    for wanted in snapshots.into_iter().chain([&point.segment]) {
        let is_there = files.iter().any(|(_, to, ..)| to.ends_with(wanted));
        anyhow::ensure!(is_there, "{}: {wanted} is missing", from.display());
    }
    if let Some((_, name)) = chain.catalog(point) {
        let path = from.join(name);
        let bytes = path.metadata().map_err(at(&path))?.len();
        files.push((path, to.join(CATALOG), bytes, bytes));
    }
    let (from, apart) = (archive.blobs(), to.join(DIRECTORY));
    make_dir(&apart)?;
    for entry in fs::read_dir(&from).map_err(at(&from))? {
        let entry = entry.map_err(at(&from))?;
        let bytes = entry.metadata().map_err(at(&from))?.len();
        let name = entry.file_name();
        if name.to_str().and_then(kind) == Some(Kind::Blob) {
            files.push((from.join(&name), apart.join(&name), bytes, bytes));
        }
    }
    let bar = Bar::new("restoring", files.iter().map(|(_, _, counts, _)| counts).sum());
    for (from, to, counts, size) in &files {
        let mut source = File::open(from).map_err(at(from))?.take(*counts);
        let mut target = open(to)?;
        let copied = io::copy(&mut source, &mut target).map_err(at(to))?;
        anyhow::ensure!(copied == *counts, "{}: is cut short", from.display());
        target.set_len(*size).map_err(at(to))?;
        target.sync_all().map_err(at(to))?;
        bar.add(*counts);
    }
    [&apart, to].into_iter().try_for_each(|dir: &Path| sync_dir(dir))
}

/// A log that lacks its end looks like one that ended earlier, but the backup knows better.
fn must_reach(
    point: &Point,
    (from, to): (&Path, &Path),
    disk: &Arc<dyn Disk>,
) -> anyhow::Result<()> {
    let mut last = 0;
    let visited = visit_log(disk, |record| last = record.group);
    let checked = visited.map_err(|why| unopened(from, to, &why))?;
    anyhow::ensure!(
        last + 1 == point.sequence && !checked.torn,
        "{}: the backup is damaged: the log ends with group {last}, and should with {}; restore \
         another moment",
        from.display(),
        point.sequence - 1
    );
    Ok(())
}

/// What was read once, and is as it should be.
struct Verified {
    checked: Checked,
    kept: u64,
    without_payload: Vec<ItemId>,
    catalog: Option<Taken>,
}

/// Reads everything once: checksums, counts, the catalog, and the blobs that any of it refers to.
async fn verify(
    (from, path): (&Path, &Path),
    disk: &Arc<dyn Disk>,
    catalog: Option<(Timestamp, &str)>,
) -> anyhow::Result<Verified> {
    let whole = Overlay::over(Arc::clone(disk));
    whole.remove(RESTORING).map_err(at(path))?;
    let whole: Arc<dyn Disk> = Arc::new(whole);
    let checked = check(&whole, Options::default()).map_err(|why| unopened(from, path, &why))?;
    let store = Embedded::open(Arc::new(Overlay::over(whole)), Options::default());
    let store = store.map_err(|why| unopened(from, path, &why))?;
    let bytes = blobs::to_read(path)?;
    let items = store.outgoing();
    let Compared { right, missing, faults: wrong } = blobs::compare(&items, &bytes).await?;
    let (without_payload, nobodys) = lost::items_of(&items, missing).await?;
    let mut faults: Vec<String> = checked.faults.iter().cloned().chain(wrong).collect();
    faults.extend(nobodys.iter().map(|(tenant, blob)| blobs::missing(tenant, *blob)));
    let mut taken = None;
    if let Some(of) = catalog {
        let (catalog, wrong) = take_up(&path.join(CATALOG), of, &store, &bytes).await?;
        taken = Some(catalog);
        faults.extend(wrong);
    }
    anyhow::ensure!(
        faults.is_empty(),
        "{}: the backup is not whole, and nothing is restored: {}",
        from.display(),
        faults.join("; ")
    );
    Ok(Verified { checked, kept: right, without_payload, catalog: taken })
}

/// Why what was copied cannot be opened. What is damaged is the backup, which is still there.
fn unopened(from: &Path, to: &Path, why: &OpenError) -> anyhow::Error {
    match is_damage(why) {
        true => anyhow::anyhow!(
            "{}: the backup is damaged: {why}; restore another moment, or another backup",
            from.display()
        ),
        false => not_opened(to, why),
    }
}
