//! Copying what is new in a store into an archive.

use std::cell::Cell;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use windrow_core::Timestamp;

use super::archive::{Archive, Chain, Kind, Point, kind, make_dir, open, sync_dir, write};
use super::restore::earliest;
use super::{Bar, at};
use crate::cli::reach::{Ask, Target};
use crate::http::backups::{Begun, File, Files};

/// Bytes that are asked for at once.
const PIECE: u64 = 4 << 20;

/// How long a server may take to copy its catalog.
const CATALOG: Duration = Duration::from_secs(3_600);

/// What was copied.
pub(super) struct Made {
    pub(super) at: Timestamp,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) copied: u64,
    /// It could not go on from an earlier backup.
    pub(super) is_new: bool,
    /// The earliest moment that can be restored, from here on without a gap.
    pub(super) since: Timestamp,
}

/// Makes a backup: what the archive lacks is copied.
pub(super) async fn copy(target: &Target, archive: &mut Archive) -> anyhow::Result<Made> {
    let begun: Begun = target.read(Ask::post(&["backups"]).waits(CATALOG)).await?;
    let copying = Copying { target, begun: &begun, asked: Cell::new(Instant::now()) };
    let made = copying.run(archive).await;
    // If this is not heard, it ends by itself.
    let _ended = target.ask(Ask::delete(&["backups", &begun.backup])).await;
    made
}

struct Copying<'a> {
    target: &'a Target,
    begun: &'a Begun,
    /// When something of it was last asked for.
    asked: Cell<Instant>,
}

impl Copying<'_> {
    async fn run(&self, archive: &mut Archive) -> anyhow::Result<Made> {
        let begun = self.begun;
        archive.must_be_of(&begun.store)?;
        let files = self.files().await?;
        let going_on = self.going_on(archive, &files).await?;
        let is_new = going_on.is_none();
        let mut chain = going_on.unwrap_or_else(|| archive.next_chain());
        let (dir, blobs) = (archive.chain_dir(&chain), archive.blobs());
        archive.clean(&chain)?;
        make_dir(&blobs)?;
        let (mut copied, bar) = (0, Bar::new("copying", begun.bytes));
        for (kind, file) in &files {
            copied += match kind {
                Kind::Segment => self.segment(&dir, chain.points.last(), file, &bar).await?,
                Kind::Snapshot | Kind::Catalog => self.whole(&dir, file, &bar).await?,
                Kind::Blob => self.whole(&blobs, file, &bar).await?,
            };
        }
        [&dir, &blobs].into_iter().try_for_each(|dir| sync_dir(dir))?;
        let last = files.iter().rfind(|(kind, _)| *kind == Kind::Segment);
        let (_, last) = last.ok_or_else(|| anyhow::anyhow!("the store has no log"))?;
        let named = |of: Kind| {
            let found = files.iter().find(|(kind, _)| *kind == of);
            found.map(|(_, file)| file.name.clone())
        };
        chain.points.push(Point {
            at: begun.at.0.to_string(),
            sequence: begun.sequence,
            segment: last.name.clone(),
            bytes: last.bytes,
            size: last.size,
            snapshot: named(Kind::Snapshot),
            catalog: named(Kind::Catalog),
        });
        archive.add(&begun.store, chain.clone())?;
        let since = earliest(archive, &chain)?;
        let (at, files, bytes) = (begun.at.0, begun.files, begun.bytes);
        Ok(Made { at, files, bytes, copied, is_new, since })
    }

    /// The files that there are, each of a kind that we know: the server is not believed more.
    async fn files(&self) -> anyhow::Result<Vec<(Kind, File)>> {
        let (mut all, mut after): (Vec<(Kind, File)>, _) = (Vec::new(), None);
        loop {
            let ask = Ask::get(&["backups", &self.begun.backup, "files"]).with("after", after);
            let page: Files = self.target.read(ask).await?;
            for file in page.files {
                let is_next = all.last().is_none_or(|(_, last)| last.name < file.name);
                let kind = kind(&file.name).filter(|_| is_next && file.bytes <= file.size);
                let kind = kind.ok_or_else(|| {
                    anyhow::anyhow!("the server names a file that is none of a store's")
                })?;
                all.push((kind, file));
            }
            after = page.next;
            if after.is_none() {
                // Blobs last: most of them are here already, and nothing is asked for these.
                all.sort_by_key(|(kind, _)| *kind == Kind::Blob);
                return Ok(all);
            }
        }
    }

    async fn read(&self, name: &str, from: u64, to: u64) -> anyhow::Result<Bytes> {
        let ask = Ask::get(&["backups", &self.begun.backup, "files", name]).range(from, to);
        self.asked.set(Instant::now());
        let bytes = self.target.ask(ask).await?;
        anyhow::ensure!(
            bytes.len() as u64 == to - from,
            "{name}: {} bytes came where {} were asked for",
            bytes.len(),
            to - from
        );
        Ok(bytes)
    }

    /// Says now and then that somebody is still there, while nothing has to be read.
    async fn stay(&self) -> anyhow::Result<()> {
        let idle = Duration::from_millis(self.begun.idle_ms) / 3;
        if self.asked.get().elapsed() > idle {
            self.asked.set(Instant::now());
            let files = Ask::get(&["backups", &self.begun.backup, "files"]);
            self.target.ask(files.with("limit", Some("1"))).await?;
        }
        Ok(())
    }

    /// The last chain, if the log of the store is the one that it holds the beginning of.
    async fn going_on(
        &self,
        archive: &Archive,
        files: &[(Kind, File)],
    ) -> anyhow::Result<Option<Chain>> {
        let Some(chain) = archive.chains().last() else { return Ok(None) };
        let Some(point) = chain.points.last() else { return Ok(None) };
        let there = files.iter().find(|(_, file)| file.name == point.segment);
        if there.is_none_or(|(_, there)| there.bytes < point.bytes) {
            return Ok(None);
        }
        let path = archive.chain_dir(chain).join(&point.segment);
        // An archive that lost it is not gone on with.
        let Ok(mut here) = std::fs::File::open(&path) else { return Ok(None) };
        let mut from = 0;
        while from < point.bytes {
            let to = (from + PIECE).min(point.bytes);
            let mut known = vec![0; (to - from) as usize];
            if here.read_exact(&mut known).is_err() {
                return Ok(None);
            }
            if self.read(&point.segment, from, to).await? != known {
                return Ok(None);
            }
            from = to;
        }
        Ok(Some(chain.clone()))
    }

    /// Copies a segment of the log, from where the last backup ended. How many bytes.
    async fn segment(
        &self,
        dir: &Path,
        last: Option<&Point>,
        file: &File,
        bar: &Bar,
    ) -> anyhow::Result<u64> {
        let from = match last {
            Some(last) if file.name < last.segment => file.bytes,
            Some(last) if file.name == last.segment => last.bytes,
            _ => 0,
        };
        bar.add(from);
        if from == file.bytes {
            return Ok(0);
        }
        let path = dir.join(&file.name);
        let here = open(&path)?;
        // What an interrupted backup left behind does not count.
        here.set_len(from).map_err(at(&path))?;
        self.pieces(&here, &path, file, from, bar).await?;
        // Behind what counts there are zeros, and a hole is enough.
        here.set_len(file.size).map_err(at(&path))?;
        here.sync_all().map_err(at(&path))?;
        Ok(file.bytes - from)
    }

    /// Copies a file that never changes under its name.
    async fn whole(&self, dir: &Path, file: &File, bar: &Bar) -> anyhow::Result<u64> {
        let path = dir.join(&file.name);
        if path.metadata().is_ok_and(|known| known.len() == file.bytes) {
            bar.add(file.bytes);
            self.stay().await?;
            return Ok(0);
        }
        let unfinished = path.with_extension("tmp");
        let here = open(&unfinished)?;
        here.set_len(0).map_err(at(&unfinished))?;
        self.pieces(&here, &unfinished, file, 0, bar).await?;
        here.sync_all().map_err(at(&unfinished))?;
        std::fs::rename(&unfinished, &path).map_err(at(&path))?;
        Ok(file.bytes)
    }

    async fn pieces(
        &self,
        here: &std::fs::File,
        path: &Path,
        file: &File,
        mut from: u64,
        bar: &Bar,
    ) -> anyhow::Result<()> {
        while from < file.bytes {
            let to = (from + PIECE).min(file.bytes);
            let bytes = self.read(&file.name, from, to).await?;
            write(here, path, from, &bytes)?;
            bar.add(to - from);
            from = to;
        }
        Ok(())
    }
}
