//! A directory in which backups of one store gather.
//!
//! ```text
//! backup.json      which moments there are
//! 0001/            a chain: the log from some place on without a gap, and snapshots of it
//!   segment-0000000003.log  segment-0000000004.log  snapshot-00000000000000000812.snap
//!   catalog-….db   the catalog of documents at some of its moments, named by its hash
//! blobs/           blobs of all moments
//! ```
//!
//! A chain grows with every backup: segments never change behind the place up to which they were
//! copied. If the store has dropped what would have to follow, or its log goes on differently
//! because it was itself restored, the next backup begins a new chain. The list is replaced as a
//! whole once everything in it is durable, so that a backup which was interrupted never counts.
//!
//! A catalog is whole in every backup, so that [`thin`] lets most of them go: a queue of any moment
//! can be had with the catalog of any later one.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use windrow_core::Timestamp;
use windrow_store::embedded::blobs::DIRECTORY;
use windrow_store::embedded::disk::RealDisk;

use super::at;
use crate::cli::data_dir::BACKUPS;
use crate::cli::exit::{Exit, Stop};

const LIST: &str = BACKUPS;
const TEMPORARY: &str = "backup.tmp";
const LOCK: &str = "LOCK";
/// Since 2 there are catalogs.
const VERSION: u32 = 2;
const OLDEST: u32 = 1;

/// Backups of one store.
#[derive(Debug)]
pub(super) struct Archive {
    dir: PathBuf,
    list: List,
    /// Held by whoever adds to it.
    _lock: Option<File>,
}

#[derive(Serialize, Deserialize, Default, Debug)]
struct List {
    version: u32,
    /// Which store it is; nothing before the first backup.
    store: String,
    chains: Vec<Chain>,
}

/// A piece of history without a gap.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(super) struct Chain {
    /// The directory with its files.
    pub(super) name: String,
    pub(super) points: Vec<Point>,
}

/// A moment of which a backup was made.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(super) struct Point {
    pub(super) at: String,
    /// The number of the first group of the log that is not in it.
    pub(super) sequence: u64,
    /// The last segment of the log, how much of it counts, and how long it was in the store.
    pub(super) segment: String,
    pub(super) bytes: u64,
    pub(super) size: u64,
    /// The snapshot that the store had then.
    pub(super) snapshot: Option<String>,
    /// The catalog of documents, if there was one and it was not let go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) catalog: Option<String>,
}

impl Chain {
    /// The catalog for a moment that is reached from a point: the first one that is not older.
    pub(super) fn catalog(&self, point: &Point) -> Option<(&Point, &str)> {
        let from = self.points.iter().position(|one| one == point)?;
        self.points[from..].iter().find_map(|one| Some((one, one.catalog.as_deref()?)))
    }
}

impl Point {
    pub(super) fn time(&self) -> anyhow::Result<Timestamp> {
        self.at.parse().map_err(|_| anyhow::anyhow!("{LIST}: {} is no time", self.at))
    }
}

impl Archive {
    /// Opens a directory that holds backups.
    pub(super) fn open(dir: &Path) -> anyhow::Result<Archive> {
        let list = read(dir)?.ok_or_else(|| {
            let none = "holds no backup; `windrow backup DIR` makes one";
            Stop::new(Exit::NotFound, format!("{} {none}", dir.display()))
        })?;
        Ok(Archive { dir: dir.to_owned(), list, _lock: None })
    }

    /// Opens a directory to add to it. One that is empty or does not exist becomes one.
    pub(super) fn open_or_new(dir: &Path) -> anyhow::Result<Archive> {
        if read(dir)?.is_none() {
            must_be_empty(dir)?;
        }
        make_dir(dir)?;
        let path = dir.join(LOCK);
        let lock = open(&path)?;
        anyhow::ensure!(
            lock.try_lock().is_ok(),
            "{}: another backup is being made there; wait for it to end",
            dir.display()
        );
        // What it says now is what nobody else changes.
        let list = read(dir)?.unwrap_or_else(|| List { version: VERSION, ..List::default() });
        Ok(Archive { dir: dir.to_owned(), list, _lock: Some(lock) })
    }

    /// Takes a directory away again in which nothing came to be.
    pub(super) fn leave_if_new(self) {
        let is_alone = fs::read_dir(&self.dir).is_ok_and(|found| found.count() == 1);
        if self.list.chains.is_empty() && is_alone {
            // What stays does no harm.
            let _gone = fs::remove_file(self.dir.join(LOCK));
            let _gone = fs::remove_dir(&self.dir);
        }
    }

    pub(super) fn chains(&self) -> &[Chain] {
        &self.list.chains
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.dir.join(DIRECTORY)
    }

    pub(super) fn chain_dir(&self, chain: &Chain) -> PathBuf {
        self.dir.join(&chain.name)
    }

    /// Whether it may hold backups of this store.
    pub(super) fn must_be_of(&self, store: &str) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.list.store.is_empty() || self.list.store == store,
            "{} holds backups of another store; give another directory",
            self.dir.display()
        );
        Ok(())
    }

    /// The chain that comes after all others.
    pub(super) fn next_chain(&self) -> Chain {
        Chain { name: format!("{:04}", self.list.chains.len() + 1), points: Vec::new() }
    }

    /// Removes what no backup counts from the directory of a chain: what an interrupted one left.
    pub(super) fn clean(&self, chain: &Chain) -> anyhow::Result<()> {
        let dir = self.chain_dir(chain);
        make_dir(&dir)?;
        let last = chain.points.last();
        for entry in fs::read_dir(&dir).map_err(at(&dir))? {
            let name = entry.map_err(at(&dir))?.file_name();
            let counts = name.to_str().is_some_and(|name| match kind(name) {
                Some(Kind::Segment) => last.is_some_and(|last| name <= last.segment.as_str()),
                Some(Kind::Snapshot) => {
                    chain.points.iter().any(|point| point.snapshot.as_deref() == Some(name))
                }
                Some(Kind::Catalog) => {
                    chain.points.iter().any(|point| point.catalog.as_deref() == Some(name))
                }
                _ => false,
            });
            let path = dir.join(&name);
            if !counts {
                fs::remove_file(&path).map_err(at(&path))?;
            }
        }
        Ok(())
    }

    /// Takes note of a new moment of a chain whose files are all durable.
    pub(super) fn add(&mut self, store: &str, mut chain: Chain) -> anyhow::Result<()> {
        thin(&mut chain.points)?;
        self.list.version = VERSION;
        self.list.store = store.to_owned();
        self.list.chains.retain(|known| known.name != chain.name);
        self.list.chains.push(chain.clone());
        let (from, to) = (self.dir.join(TEMPORARY), self.dir.join(LIST));
        let _stale = fs::remove_file(&from);
        let mut file = open(&from)?;
        file.write_all(&serde_json::to_vec_pretty(&self.list)?).map_err(at(&from))?;
        file.sync_all().map_err(at(&from))?;
        fs::rename(&from, &to).map_err(at(&to))?;
        sync_dir(&self.dir)?;
        self.clean(&chain)
    }
}

/// Lets catalogs go that lie close to others, the closer the older: one goes if between those
/// before and after it no more time passed than since the later of the two. So a catalog is newer
/// than the moment it is restored with by at most half of the time that passed since, and twice the
/// time takes two more of them.
fn thin(points: &mut [Point]) -> anyhow::Result<()> {
    let mut kept = Vec::new();
    for (at, point) in points.iter().enumerate().filter(|(_, point)| point.catalog.is_some()) {
        kept.push((at, point.time()?.0));
    }
    let now = kept.last().map_or(0, |(_, time)| *time);
    let mut later = 0;
    for three in kept.windows(3).rev() {
        let [(_, before), (at, time), _] = *three else { continue };
        if now.saturating_sub(before).saturating_sub(later) <= later {
            points[at].catalog = None;
        } else {
            later = now.saturating_sub(time);
        }
    }
    Ok(())
}

fn read(dir: &Path) -> anyhow::Result<Option<List>> {
    let path = dir.join(LIST);
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            let said = format!("{} is no directory; backups are kept in one", dir.display());
            return Err(Stop::usage(said).into());
        }
        bytes => bytes.map_err(at(&path))?,
    };
    let list: List = serde_json::from_slice(&bytes)
        .with_context(|| format!("{}: cannot be read", path.display()))?;
    anyhow::ensure!(
        (OLDEST..=VERSION).contains(&list.version),
        "{}: has version {}, and this program knows up to {VERSION}; use the program that wrote it",
        path.display(),
        list.version
    );
    Ok(Some(list))
}

fn must_be_empty(dir: &Path) -> anyhow::Result<()> {
    let others = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        others => others.map_err(at(dir))?,
    };
    // What a first backup leaves that was interrupted.
    let ours = ["0001", DIRECTORY, LOCK, TEMPORARY, "lost+found"];
    for other in others {
        let name = other.map_err(at(dir))?.file_name();
        anyhow::ensure!(
            name.to_str().is_some_and(|name| ours.contains(&name)),
            "{} holds other files and no backup; give a directory that is empty or does not \
             exist yet",
            dir.display()
        );
    }
    Ok(())
}

/// Makes a directory for its owner alone, durably.
pub(super) fn make_dir(dir: &Path) -> anyhow::Result<()> {
    if !dir.is_dir() {
        RealDisk::open(dir).map_err(at(dir))?;
    }
    Ok(())
}

/// Opens a file to read and write, for its owner alone.
pub(super) fn open(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(at(path))
}

/// Writes a piece of a file.
pub(super) fn write(file: &File, path: &Path, from: u64, bytes: &[u8]) -> anyhow::Result<()> {
    file.write_all_at(bytes, from).map_err(at(path))
}

pub(super) fn sync_dir(dir: &Path) -> anyhow::Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(at(dir))
}

/// What a file of a backup is, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Segment,
    Snapshot,
    Catalog,
    Blob,
}

/// Any other name is none of ours, wherever it would lead.
pub(super) fn kind(name: &str) -> Option<Kind> {
    let all = |text: &str, len: usize, is: fn(&u8) -> bool| {
        text.len() == len && text.as_bytes().iter().all(is)
    };
    let digits = |text, len| all(text, len, u8::is_ascii_digit);
    let hex = |text, len| all(text, len, u8::is_ascii_hexdigit);
    let within = |before, after| name.strip_prefix(before)?.strip_suffix(after);
    if within("segment-", ".log").is_some_and(|number| digits(number, 10)) {
        return Some(Kind::Segment);
    }
    if within("snapshot-", ".snap").is_some_and(|number| digits(number, 20)) {
        return Some(Kind::Snapshot);
    }
    if within("catalog-", ".db").is_some_and(|hash| hex(hash, 64)) {
        return Some(Kind::Catalog);
    }
    let (tenant, hash) = name.strip_suffix(".blob")?.split_once('-')?;
    (hex(tenant, 16) && hex(hash, 64)).then_some(Kind::Blob)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_a_store_are_taken_from_a_server() {
        assert_eq!(kind("segment-0000000012.log"), Some(Kind::Segment));
        assert_eq!(kind("snapshot-00000000000000000812.snap"), Some(Kind::Snapshot));
        let blob = format!("{}-{}.blob", "0a".repeat(8), "f0".repeat(32));
        assert_eq!(kind(&blob), Some(Kind::Blob));
        assert_eq!(kind(&format!("catalog-{}.db", "0f".repeat(32))), Some(Kind::Catalog));
        for wrong in [
            "../../.ssh/authorized_keys",
            "/etc/cron.d/x",
            "segment-../000001.log",
            "segment-1.log",
            "x/segment-0000000012.log",
            "snapshot-0.snap",
            "0a-f0.blob",
            "backup.json",
            "catalog.db",
            "catalog-../../0.db",
            "",
        ] {
            assert_eq!(kind(wrong), None, "{wrong}");
        }
    }

    fn point(minute: u64) -> Point {
        let catalog = Some(format!("catalog-{minute}"));
        let (segment, snapshot) = ("segment".to_owned(), None);
        let at = Timestamp(minute * 60_000).to_string();
        Point { at, sequence: 1, segment, bytes: 1, size: 1, snapshot, catalog }
    }

    #[test]
    fn of_a_catalog_a_minute_few_stay_and_none_is_much_newer_than_what_it_is_restored_with() {
        let mut points = Vec::new();
        for minute in 0..3_000 {
            points.push(point(minute));
            thin(&mut points).expect("they have times");
            let chain = Chain { name: "0001".to_owned(), points: points.clone() };
            for of in chain.points.iter().step_by(97) {
                let (later, _) = chain.catalog(of).expect("the last one stays");
                let time = |point: &Point| point.time().expect("a time").0;
                let newer = time(later) - time(of);
                assert!(2 * newer <= minute * 60_000 - time(of), "{later:?} for {of:?}");
            }
        }
        let kept = points.iter().filter(|point| point.catalog.is_some()).count();
        assert!((10..=26).contains(&kept), "{kept} of 3000");
        assert!(points[0].catalog.is_some(), "the first one stays");
    }
}
