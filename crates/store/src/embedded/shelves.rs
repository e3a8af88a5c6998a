//! Shelves: the notes that servers keep for themselves, all in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use windrow_core::note::Note;

use super::codec::Pack as _;

/// What a note takes beside its texts, at most: three lengths, a version and a mark.
const AROUND: usize = 32;

/// Versions and bodies by name.
type Shelf = BTreeMap<Arc<str>, (u64, Arc<[u8]>)>;

/// Notes by shelf and name.
#[derive(Debug, Default)]
pub(crate) struct Shelves {
    shelves: BTreeMap<Arc<str>, Shelf>,
    bytes: u64,
}

impl Shelves {
    /// Puts a note on its shelf, or takes it away.
    pub(crate) fn put(
        &mut self,
        shelf: Arc<str>,
        name: Arc<str>,
        version: u64,
        body: Option<Arc<[u8]>>,
    ) {
        let around = (shelf.len() + name.len() + AROUND) as u64;
        let bytes_of = |body: &Arc<[u8]>| around + body.len() as u64;
        let on = self.shelves.entry(shelf).or_default();
        self.bytes += body.as_ref().map_or(0, bytes_of);
        let before = match body {
            Some(body) => on.insert(name, (version, body)),
            None => on.remove(&name),
        };
        self.bytes -= before.map_or(0, |(_, body)| bytes_of(&body));
    }

    /// How many bytes all notes take in a snapshot, at most.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn version(&self, shelf: &str, name: &str) -> Option<u64> {
        self.shelves.get(shelf)?.get(name).map(|(version, _)| *version)
    }

    /// The notes on a shelf, by name.
    pub(crate) fn on(&self, shelf: &str) -> Vec<Note> {
        self.shelves.get(shelf).into_iter().flatten().map(note).collect()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Arc<str>, Note)> {
        let of = |(shelf, on)| std::iter::repeat(shelf).zip(Iterator::map(on, note));
        self.shelves.iter().map(|(shelf, on)| (shelf, on.iter())).flat_map(of)
    }
}

fn note((name, (version, body)): (&Arc<str>, &(u64, Arc<[u8]>))) -> Note {
    Note { name: Arc::clone(name), version: *version, body: Arc::clone(body) }
}

/// A note as it stands in records and snapshots.
pub(crate) fn put_note(
    out: &mut Vec<u8>,
    shelf: &Arc<str>,
    name: &Arc<str>,
    version: u64,
    body: Option<&Arc<[u8]>>,
) {
    shelf.put(out);
    name.put(out);
    version.put(out);
    body.cloned().put(out);
}
