//! A running store, held for whoever copies it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use windrow_core::Timestamp;

use crate::embedded::blobs::{Files, HeldBlobs};
use crate::embedded::disk::DiskFile;
use crate::embedded::log::{Position, Segment, StoreId};
use crate::embedded::{Embedded, snapshot};

/// The files of a store at one moment. Everything that was answered before is in them; the store
/// goes on meanwhile.
#[derive(Debug)]
pub struct Held {
    store: StoreId,
    at: Timestamp,
    end: Position,
    files: BTreeMap<String, HeldFile>,
    /// Dropped last: until then no blob goes that the log of that moment refers to.
    blobs: HeldBlobs,
}

#[derive(Debug)]
struct HeldFile {
    source: Source,
    /// What of it belongs to that moment, and how long it is in the store.
    bytes: u64,
    size: u64,
}

#[derive(Debug)]
enum Source {
    Segment(Arc<Segment>),
    Snapshot(Box<dyn DiskFile>),
    Beside(File),
    Blob,
}

/// A file of somebody else beside the store, which does not change any more.
#[derive(Debug)]
pub struct Beside {
    pub name: String,
    pub file: File,
}

impl Held {
    /// Holds a store and the blobs beside it, and what somebody else keeps there.
    ///
    /// The order is what makes a whole of these. `beside` is asked once it is settled where the log
    /// ends: whoever writes there before it settles an item wrote before that, so that an item
    /// which this log calls completed has its effects in that file. The file may know more than
    /// the log does. Blobs are held before all and listed after all: what either of the two
    /// refers to was stored before, and stays.
    pub fn begin(
        store: &Embedded,
        blobs: &Arc<Files>,
        beside: impl FnOnce() -> io::Result<Option<Beside>>,
    ) -> io::Result<Held> {
        // First, so that whatever the log of that moment refers to is still there.
        let blobs = blobs.hold();
        let shared = &store.shared;
        let keeper = shared.keeper.lock();
        let mut files = BTreeMap::new();
        if let Some(start) = keeper.snapshot() {
            let name = snapshot::file_name(start.position.sequence);
            let file = shared.disk.open(&name)?;
            let bytes = file.len()?;
            files.insert(name, HeldFile { source: Source::Snapshot(file), bytes, size: bytes });
        }
        let at = shared.tables.lock().now;
        let reached = shared.durable.reached();
        let end = shared.writer.lock().end_of(reached);
        let segments = shared.segments.until(end.segment);
        // Nothing is dropped before this: the keeper drops, and nobody else.
        drop(keeper);
        let is_only = segments.len() == 1;
        for segment in segments {
            let is_last = segment.number() == end.segment;
            // One that was just begun holds nothing yet.
            if is_last && end.is_beginning() && !is_only {
                continue;
            }
            let (name, size) = (segment.name().to_owned(), segment.bytes().into());
            let bytes = if is_last { end.offset.into() } else { size };
            files.insert(name, HeldFile { source: Source::Segment(segment), bytes, size });
        }
        if let Some(Beside { name, file }) = beside()? {
            let bytes = file.metadata()?.len();
            files.insert(name, HeldFile { source: Source::Beside(file), bytes, size: bytes });
        }
        for (name, bytes) in blobs.list()? {
            files.insert(name, HeldFile { source: Source::Blob, bytes, size: bytes });
        }
        Ok(Held { store: shared.segments.store_id(), at, end, files, blobs })
    }

    /// Whose files they are.
    pub fn store(&self) -> StoreId {
        self.store
    }

    /// The store's time at that moment.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Where the log ends.
    pub fn end(&self) -> Position {
        self.end
    }

    /// The files behind `after` by name, in order: what there is to read, and how long each is in
    /// the store. What lies between may be left zero.
    pub fn files<'a>(&'a self, after: &'a str) -> impl Iterator<Item = (&'a str, u64, u64)> {
        let from = (Bound::Excluded(after), Bound::Unbounded);
        let files = self.files.range::<str, _>(from);
        files.map(|(name, file)| (name.as_str(), file.bytes, file.size))
    }

    /// How many bytes there are to read of a file, if there is such a file.
    pub fn len(&self, name: &str) -> Option<u64> {
        self.files.get(name).map(|file| file.bytes)
    }

    /// How many files there are, and how many bytes.
    pub fn size(&self) -> (u64, u64) {
        (self.files.len() as u64, self.files.values().map(|file| file.bytes).sum())
    }

    /// Reads from a file, at most to its end; none if there is no such file.
    pub fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Option<Vec<u8>>> {
        let Some(HeldFile { source, bytes, .. }) = self.files.get(name) else { return Ok(None) };
        let mut read = vec![0; bytes.saturating_sub(offset).min(len as u64) as usize];
        if !read.is_empty() {
            match source {
                Source::Segment(segment) => segment.read_bytes(&mut read, offset)?,
                Source::Snapshot(file) => file.read_at(&mut read, offset)?,
                Source::Beside(file) => file.read_exact_at(&mut read, offset)?,
                Source::Blob => self.blobs.read(name, &mut read, offset)?,
            }
        }
        Ok(Some(read))
    }
}
