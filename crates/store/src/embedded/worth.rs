//! Worth: whether a full disk gains by moving what lives out of its oldest segment.
//!
//! Sees the records of that segment and the room that is left. Writes nothing.

use windrow_core::Timestamp;

use super::Shared;
use super::log::{Position, RECORD_OVERHEAD};
use super::space::{Candidate, Keeper, SLICE};

/// For so long nobody reads a segment again only because something may have gone from it that is
/// no item.
const STANDS_MS: u64 = 5 * 60_000;

/// What lived in the oldest segment of a full disk when it was read. Nothing comes to it, so what
/// lives now is no more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    segment: u32,
    /// The bytes of it, as moving would write them.
    living: u64,
    /// Items there were then.
    items: usize,
    at: Timestamp,
}

impl Verdict {
    /// Whether less may live by now: a sixteenth of the items went, or some time.
    fn is_old(&self, items: usize, now: Timestamp) -> bool {
        let went = self.items.saturating_sub(items);
        went > self.items / 16 || now.since(self.at) > STANDS_MS
    }
}

impl Shared {
    /// Whether less than half of a segment lives, and that finds room above one whole segment, so
    /// that commands never lack what moving takes.
    pub(super) fn is_worth_it(&self, keeper: &mut Keeper, segment: u32, end: Position) -> bool {
        let sizes = [segment, end.segment].map(|number| self.segments.get(number));
        let [Ok(whole), Ok(current)] = sizes else { return false };
        let left = u64::from(current.bytes().saturating_sub(end.offset));
        let room = (left + keeper.spares.prepared_bytes())
            .saturating_sub(self.options.segment_bytes.into());
        let most = room.min(u64::from(whole.bytes()) / 2);
        let (items, now) = {
            let tables = self.tables.lock();
            (tables.items(), tables.now)
        };
        let known = keeper.verdict.filter(|known| known.segment == segment);
        if let Some(known) = known.filter(|known| known.living <= most || !known.is_old(items, now))
        {
            return known.living <= most;
        }
        // What cannot be read stays.
        let living = self.candidates(segment).map(|records| self.living_bytes(&records));
        let living = living.unwrap_or(u64::MAX);
        keeper.verdict = Some(Verdict { segment, living, items, at: now });
        living <= most
    }

    /// How many bytes of records live, and take when they are moved.
    fn living_bytes(&self, records: &[Candidate]) -> u64 {
        let each = |some: &[Candidate]| {
            let tables = self.tables.lock();
            let living = some.iter().filter(|record| tables.lives(record).unwrap_or(true));
            living.map(|record| u64::from(record.bytes) + 2 * RECORD_OVERHEAD as u64).sum::<u64>()
        };
        records.chunks(SLICE).map(each).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few items were forgotten never to be looked at again, and so was what is no item.
    #[test]
    fn a_segment_is_read_again_once_items_or_minutes_have_gone() {
        let read = |items| Verdict { segment: 1, living: 9, items, at: Timestamp(1_000) };
        let soon = Timestamp(1_000 + STANDS_MS);
        assert!(!read(1_600).is_old(1_500, soon) && read(1_600).is_old(1_499, soon));
        assert!(!read(10).is_old(10, soon) && read(10).is_old(9, soon));
        assert!(!read(0).is_old(0, soon) && !read(10).is_old(1_000, soon));
        assert!(read(10).is_old(10, soon.plus(1)));
    }
}
