//! History: ended items, on disk, with a small index in memory.
//!
//! Twenty-two bytes per item, in chunks that are filled in the order in which items end and then
//! sorted by serial. A lookup asks each chunk whose range covers the serial; chunks cover short
//! spans of time, so that is few. Removing marks an entry dead, and a chunk that is mostly dead is
//! packed.

use std::cell::Cell;
use std::collections::BinaryHeap;

use windrow_core::Timestamp;
use windrow_core::item::End;

use crate::embedded::log::Loc;

/// Entries per chunk: as many as fit 64 KiB, which allocators hand out without a rest.
const CHUNK: usize = (64 << 10) / size_of::<Packed>();
/// Seconds that one chunk may span, because entries keep their time in sixteen bits.
const SPAN_S: u64 = u16::MAX as u64;

/// Where an ended item's record is, and what retention needs to know of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) serial: u64,
    pub(crate) at: Loc,
    /// The number of its queue and tenant together.
    pub(crate) owner: u32,
    pub(crate) end: End,
    pub(crate) root: bool,
    /// When it ended, in whole seconds, rounded up.
    pub(crate) ended_s: u64,
}

/// The index of ended items.
#[derive(Debug, Default)]
pub(crate) struct History {
    chunks: Vec<Chunk>,
    len: usize,
    made: u64,
    /// Where in the last chunk the next record that is written has its entry, most likely.
    next: usize,
}

/// Items that ended one after the other.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Counted from one; a snapshot remembers how far it came by it.
    number: u64,
    base_s: u64,
    sealed: bool,
    dead: usize,
    low: u64,
    high: u64,
    /// No root in here is past its age before; zero if nobody knows.
    pub(crate) due_ms: Cell<u64>,
    entries: Vec<Packed>,
}

/// An entry in 22 bytes: serial, place and facts, owner, and seconds after the chunk's first.
#[derive(Clone, Copy, Debug)]
struct Packed([u8; 22]);

// A place packs a segment, an offset below 2^28 and four bits of facts into 64 bits.
const DEAD: u64 = 1 << 31;
const ROOT: u64 = 1 << 30;
const END_SHIFT: u32 = 28;
const FACTS: u64 = ROOT | 3 << END_SHIFT;
const OFFSET_MASK: u64 = (1 << END_SHIFT) - 1;

impl Packed {
    fn new(entry: &Entry, base_s: u64) -> Packed {
        let root = if entry.root { ROOT } else { 0 };
        let facts = root | (entry.end as u64) << END_SHIFT;
        let mut bytes = [0; 22];
        bytes[..8].copy_from_slice(&entry.serial.to_le_bytes());
        bytes[16..20].copy_from_slice(&entry.owner.to_le_bytes());
        bytes[20..].copy_from_slice(&((entry.ended_s - base_s) as u16).to_le_bytes());
        let mut packed = Packed(bytes);
        packed.set_place(place_at(entry.at) | facts);
        packed
    }

    fn part<const N: usize>(&self, from: usize) -> [u8; N] {
        let mut part = [0; N];
        part.copy_from_slice(&self.0[from..from + N]);
        part
    }

    fn serial(&self) -> u64 {
        u64::from_le_bytes(self.part(0))
    }

    fn place(&self) -> u64 {
        u64::from_le_bytes(self.part(8))
    }

    fn set_place(&mut self, place: u64) {
        self.0[8..16].copy_from_slice(&place.to_le_bytes());
    }

    fn is_dead(&self) -> bool {
        self.place() & DEAD != 0
    }

    fn entry(&self, base_s: u64) -> Option<Entry> {
        const ENDS: [End; 4] = [End::Completed, End::Failed, End::Cancelled, End::Skipped];
        let place = self.place();
        if self.is_dead() {
            return None;
        }
        Some(Entry {
            serial: self.serial(),
            at: Loc::new((place >> 32) as u32, (place & OFFSET_MASK) as u32)?,
            owner: u32::from_le_bytes(self.part(16)),
            end: ENDS[(place >> END_SHIFT & 3) as usize],
            root: place & ROOT != 0,
            ended_s: base_s + u64::from(u16::from_le_bytes(self.part(20))),
        })
    }
}

fn place_at(at: Loc) -> u64 {
    debug_assert!(u64::from(at.offset()) <= OFFSET_MASK);
    u64::from(at.segment()) << 32 | u64::from(at.offset())
}

impl Chunk {
    fn new(number: u64, base_s: u64) -> Chunk {
        Chunk {
            number,
            base_s,
            sealed: false,
            dead: 0,
            low: u64::MAX,
            high: 0,
            due_ms: Cell::new(0),
            entries: Vec::with_capacity(CHUNK),
        }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn push(&mut self, entry: &Entry) {
        self.low = self.low.min(entry.serial);
        self.high = self.high.max(entry.serial);
        self.entries.push(Packed::new(entry, self.base_s));
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether nothing comes into it any more.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Nothing in it ended before this second.
    pub(crate) fn base_s(&self) -> u64 {
        self.base_s
    }

    /// Its entries in the order in which they ended.
    pub(crate) fn by_end(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.iter().collect();
        entries.sort_unstable_by_key(|entry| (entry.ended_s, entry.serial));
        entries
    }

    fn iter(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().filter_map(|entry| entry.entry(self.base_s))
    }

    /// The last of the first `below` entries: its serial, the chunk's number and its own.
    fn head(&self, at: usize, below: usize) -> Option<(u64, usize, usize)> {
        let index = below.checked_sub(1)?;
        Some((self.entries[index].serial(), at, index))
    }

    fn find(&self, serial: u64) -> Option<usize> {
        if serial < self.low || serial > self.high {
            return None;
        }
        let is = |known: &Packed| known.serial() == serial && !known.is_dead();
        if !self.sealed {
            return self.entries.iter().rposition(is);
        }
        let from = self.entries.partition_point(|known| known.serial() < serial);
        let alike = self.entries[from..].iter().take_while(|known| known.serial() == serial);
        alike.clone().position(is).map(|at| from + at)
    }

    /// Sorts the entries, drops the dead ones and gives back what is not needed.
    fn pack(&mut self) {
        self.entries.retain(|entry| !entry.is_dead());
        self.entries.sort_unstable_by_key(Packed::serial);
        self.entries.shrink_to_fit();
        self.low = self.entries.first().map_or(u64::MAX, Packed::serial);
        self.high = self.entries.last().map_or(0, Packed::serial);
        self.dead = 0;
        self.sealed = true;
    }
}

impl History {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an ended item that is not in here.
    pub(crate) fn push(&mut self, entry: Entry) {
        let fits = |chunk: &Chunk| {
            let span = chunk.base_s..=chunk.base_s + SPAN_S;
            chunk.len() < CHUNK && span.contains(&entry.ended_s)
        };
        if !self.chunks.last().is_some_and(|last| !last.sealed && fits(last)) {
            if let Some(last) = self.chunks.last_mut().filter(|last| !last.sealed) {
                last.pack();
                if last.entries.is_empty() {
                    self.chunks.pop();
                }
            }
            self.made += 1;
            self.chunks.push(Chunk::new(self.made, entry.ended_s));
        }
        if let Some(last) = self.chunks.last_mut() {
            last.push(&entry);
            self.len += 1;
        }
    }

    pub(crate) fn find(&self, serial: u64) -> Option<Entry> {
        self.chunks
            .iter()
            .rev()
            .find_map(|chunk| chunk.entries[chunk.find(serial)?].entry(chunk.base_s))
    }

    /// Says where a moved record is now.
    pub(crate) fn relocate(&mut self, serial: u64, at: Loc) {
        let History { chunks, next, .. } = self;
        for chunk in chunks.iter_mut().rev() {
            let guess = *next;
            let found = match chunk.entries.get(guess) {
                Some(known) if known.serial() == serial && !known.is_dead() => Some(guess),
                _ => chunk.find(serial),
            };
            if let Some(index) = found {
                *next = index + 1;
                let entry = &mut chunk.entries[index];
                entry.set_place(place_at(at) | entry.place() & FACTS);
                return;
            }
        }
    }

    /// Takes an item out; it comes back to life or is gone for good.
    pub(crate) fn remove(&mut self, serial: u64) -> Option<Entry> {
        for at in (0..self.chunks.len()).rev() {
            let chunk = &mut self.chunks[at];
            let Some(index) = chunk.find(serial) else { continue };
            let packed = &mut chunk.entries[index];
            let entry = packed.entry(chunk.base_s);
            packed.set_place(packed.place() | DEAD);
            chunk.dead += 1;
            self.len -= 1;
            if chunk.dead == chunk.len() && chunk.sealed {
                self.chunks.remove(at);
            } else if chunk.sealed && chunk.dead * 2 > chunk.len() {
                chunk.pack();
            }
            return entry;
        }
        None
    }

    /// Takes out every entry of an item, for replay: a snapshot that was written while the item
    /// ended, ran again and ended once more has it twice.
    pub(crate) fn remove_all(&mut self, serial: u64) {
        while self.remove(serial).is_some() {}
    }

    /// All entries, oldest chunk first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> {
        self.chunks.iter().flat_map(Chunk::iter)
    }

    /// Entries with a serial below a given one, highest first. Chunks are merged: each that may
    /// have such entries is looked at once, and then only where it is next.
    pub(crate) fn before(&self, serial: u64) -> impl Iterator<Item = Entry> {
        let mut open: Vec<Entry> = Vec::new();
        let mut heads: BinaryHeap<(u64, usize, usize)> = BinaryHeap::new();
        for (at, chunk) in self.chunks.iter().enumerate().filter(|(_, c)| c.low < serial) {
            if !chunk.sealed {
                open.extend(chunk.iter().filter(|entry| entry.serial < serial));
                continue;
            }
            let below = if chunk.high < serial {
                chunk.len()
            } else {
                chunk.entries.partition_point(|known| known.serial() < serial)
            };
            heads.extend(chunk.head(at, below));
        }
        open.sort_unstable_by_key(|entry| entry.serial);
        std::iter::from_fn(move || {
            loop {
                let sealed = heads.peek().map_or(0, |(serial, ..)| *serial);
                if open.last().is_some_and(|last| last.serial > sealed) {
                    return open.pop();
                }
                let (_, at, index) = heads.pop()?;
                let chunk = &self.chunks[at];
                heads.extend(chunk.head(at, index));
                if let Some(entry) = chunk.entries[index].entry(chunk.base_s) {
                    return Some(entry);
                }
            }
        })
    }

    /// Its chunks in the order in which they were filled.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.iter()
    }

    /// What is past its age must be found out anew.
    pub(crate) fn forget_ages(&self) {
        self.chunks.iter().for_each(|chunk| chunk.due_ms.set(0));
    }

    /// The entries of the first chunk after a given one, and its number.
    pub(crate) fn chunk_after(&self, number: u64) -> Option<(u64, Vec<Entry>)> {
        let chunk = self.chunks.iter().find(|chunk| chunk.number > number)?;
        Some((chunk.number, chunk.iter().collect()))
    }
}

/// A moment in whole seconds, rounded up, as retention reckons.
pub(crate) fn seconds(at: Timestamp) -> u64 {
    at.0.div_ceil(1_000)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn entry(serial: u64) -> Entry {
        Entry {
            serial,
            at: Loc::new(3, serial as u32 * 8).unwrap(),
            owner: 9,
            end: End::Failed,
            root: serial.is_multiple_of(2),
            ended_s: 1_000_000 + serial / 100,
        }
    }

    #[test]
    fn ended_items_are_found_moved_and_removed_in_any_order() {
        let mut history = History::default();
        for serial in (1..=20_000).rev() {
            history.push(entry(serial));
        }
        assert_eq!(history.len(), 20_000);
        assert_eq!(history.find(12_345), Some(entry(12_345)));
        assert_eq!(history.find(20_001), None);
        let there = Loc::new(77, 160).unwrap();
        history.relocate(12_345, there);
        assert_eq!(history.find(12_345), Some(Entry { at: there, ..entry(12_345) }));
        for serial in (1..=20_000).filter(|serial| serial % 3 != 0) {
            let at = if serial == 12_345 { there } else { entry(serial).at };
            assert_eq!(history.remove(serial), Some(Entry { at, ..entry(serial) }));
            assert_eq!(history.remove(serial), None);
        }
        assert_eq!(history.iter().count(), history.len());
        assert_eq!(history.find(6), Some(entry(6)));
        assert_eq!(history.find(7), None);
    }

    #[test]
    fn entries_are_walked_by_serial_however_they_ended() {
        let mut history = History::default();
        let shuffled = (1..=10_000u64).map(|n| n * 7_919 % 10_007);
        shuffled.for_each(|serial| history.push(entry(serial)));
        for serial in (1..=10_000).filter(|serial| serial % 3 == 0) {
            history.remove(serial);
        }
        assert!(history.chunks.iter().any(|chunk| chunk.sealed && chunk.dead > 0));
        let mut all: Vec<u64> = history.iter().map(|entry| entry.serial).collect();
        all.sort_unstable();
        for serial in [0, 1, 2, 5_000, 9_999, u64::MAX] {
            let walked: Vec<u64> = history.before(serial).map(|entry| entry.serial).collect();
            let below = all.iter().rev().copied().filter(|known| *known < serial);
            assert_eq!(walked, below.collect::<Vec<_>>(), "below {serial}");
        }
        assert_eq!(history.before(u64::MAX).next().map(|e| (e.at, e.end)).unwrap().1, End::Failed);
    }

    #[test]
    fn an_item_that_ended_long_after_the_others_begins_a_chunk() {
        let mut history = History::default();
        history.push(entry(1));
        history.push(Entry { ended_s: 9_000_000, ..entry(2) });
        assert_eq!(history.chunks.len(), 2);
        assert_eq!(history.find(1), Some(entry(1)));
    }

    #[test]
    fn all_of_an_item_goes_even_if_one_chunk_has_it_twice() {
        for sealed in [false, true] {
            let mut history = History::default();
            history.push(entry(7));
            history.push(entry(8));
            history.push(entry(7));
            if sealed {
                history.chunks[0].pack();
            }
            history.remove_all(7);
            let left = (history.find(7), history.iter().count(), history.len());
            assert_eq!(left, (None, 1, 1), "sealed {sealed}");
        }
    }

    #[test]
    fn chunks_of_which_nothing_is_left_go() {
        let mut history = History::default();
        for serial in 1..=10 * CHUNK as u64 {
            history.push(Entry { serial, ..entry(1) });
            history.remove(serial);
        }
        assert!(history.chunks.len() <= 2, "{} chunks", history.chunks.len());
    }
}
