//! Reading many records that lie near each other, as a claim's bodies do.

use std::sync::Arc;

use super::error::LogError;
use super::frame::{Record, record_bytes, record_matches, split_record};
use super::loc::Loc;
use super::segment::{READ_BYTES, Segment, Segments};

/// The most that is fetched at once.
const AHEAD_BYTES: usize = 64 << 10;

/// What may lie between two records that are fetched at once: copying it costs less than a call.
const GAP_BYTES: usize = 4 << 10;

/// Reads records, and fetches further ahead the longer they follow each other.
///
/// Ask only for records that were on disk when it was made: what it fetched ahead is as old as
/// that.
#[derive(Debug)]
pub struct Ahead<'a> {
    segments: &'a Segments,
    segment: Option<Arc<Segment>>,
    /// What was fetched, and where from.
    window: Vec<u8>,
    from: u32,
    fetched: usize,
    /// How much to fetch next time, if that is near.
    next: usize,
    /// How much to fetch where nothing is near: what the last record took and a little more.
    usual: usize,
}

impl<'a> Ahead<'a> {
    pub fn new(segments: &'a Segments) -> Ahead<'a> {
        let window = Vec::new();
        let (next, usual) = (READ_BYTES, READ_BYTES);
        Ahead { segments, segment: None, window, from: 0, fetched: 0, next, usual }
    }

    /// Reads one record; see [`Segment::read`].
    pub fn read(&mut self, loc: Loc) -> Result<Record<'_>, LogError> {
        let kept = self.segment.take().filter(|segment| segment.number() == loc.segment());
        let segment = match kept {
            Some(segment) => segment,
            None => {
                self.fetched = 0;
                self.segments.get(loc.segment())?
            }
        };
        let segment = self.segment.insert(segment);
        let near = self.fetched > 0
            && loc.offset() >= self.from
            && (loc.offset() - self.from) as usize <= self.fetched + GAP_BYTES;
        let skip = loc.offset().wrapping_sub(self.from) as usize;
        let known =
            if near { held(segment, &self.window[..self.fetched], skip, loc) } else { None };
        let bytes = match known {
            Some(len) => skip..skip + len,
            None => {
                self.next = if near { (self.next * 4).min(AHEAD_BYTES) } else { self.usual };
                self.from = loc.offset();
                self.fetched = 0;
                let fetch = segment.fetch_record(loc.offset(), &mut self.window, self.next)?;
                self.fetched = fetch.1;
                self.usual = (fetch.0 + fetch.0 / 4).min(READ_BYTES);
                0..fetch.0
            }
        };
        let record = split_record(&self.window[bytes]);
        Ok(record.unwrap_or_else(|| unreachable!("its length was checked")).0)
    }
}

/// The length of the record at `skip` in a window, if all of it is there and sound.
fn held(segment: &Segment, window: &[u8], skip: usize, loc: Loc) -> Option<usize> {
    let bytes = window.get(skip..)?;
    let len = record_bytes(bytes).filter(|len| *len <= bytes.len())?;
    record_matches(bytes, len, segment.salt, loc.offset()).then_some(len)
}
