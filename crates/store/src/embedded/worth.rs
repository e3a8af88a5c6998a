//! Worth: whether a full disk gains by moving what lives out of its oldest segment.
//!
//! Sees the records of that segment and the room that is left. Writes nothing.

use super::Shared;
use super::log::{Position, RECORD_OVERHEAD};
use super::space::{Candidate, Keeper, SLICE};

/// Whether it is worth it to reclaim the oldest segment of a full disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    segment: u32,
    /// Items there were then. With fewer of them it may become worth it.
    items: usize,
    is_worth_it: bool,
}

impl Shared {
    /// Whether less than half of a segment lives, and that finds room above one whole segment, so
    /// that commands never lack what moving takes.
    pub(super) fn is_worth_it(&self, keeper: &mut Keeper, segment: u32, end: Position) -> bool {
        let items = self.tables.lock().items();
        let known = keeper.verdict.filter(|known| {
            known.segment == segment && (known.is_worth_it || items > known.items / 16 * 15)
        });
        if let Some(known) = known {
            return known.is_worth_it;
        }
        let living = self.candidates(segment).map(|records| self.living_bytes(&records));
        let sizes = [segment, end.segment].map(|number| self.segments.get(number));
        let is_worth_it = match (living, sizes) {
            (Ok(living), [Ok(whole), Ok(current)]) => {
                let left = u64::from(current.bytes().saturating_sub(end.offset));
                let room = (left + keeper.spares.prepared_bytes())
                    .saturating_sub(self.options.segment_bytes.into());
                living <= u64::from(whole.bytes()) / 2 && living <= room
            }
            _ => false,
        };
        keeper.verdict = Some(Verdict { segment, items, is_worth_it });
        is_worth_it
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
