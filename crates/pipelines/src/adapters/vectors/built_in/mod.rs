//! The index that is built in: all vectors in memory, the nearest found exactly.
//!
//! Readers take a snapshot, a list of segments that nobody changes, and search it without a lock.
//! A writer makes new segments beside it and then puts another list in its place. Small segments
//! are joined so that there are never many, and those with dead rows are made anew, always by the
//! writer. Holds five bytes per number. Does no I/O: whoever has it feeds it from the catalog.
//!
//! `segment.rs` is what a snapshot is made of, `codes.rs` vectors in fewer bytes, `scan.rs` the
//! search.

mod codes;
mod scan;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use uuid::Uuid;

use self::codes::Query;
use self::segment::{Part, Run, Segment};
use super::{ChunkId, Filter, Hit, Point, Vectors, VectorsError, checked, dimensions, misfit};

/// Rows of the largest segments: copying one keeps the next writer waiting for a few milliseconds.
const SEGMENT_MAX: usize = 8_192;

/// Vectors in memory.
pub struct BuiltIn {
    snapshot: RwLock<Snapshot>,
    writer: Mutex<Writer>,
    segment_max: usize,
}

type Snapshot = Arc<Vec<Part>>;

/// What only whoever writes needs to know.
#[derive(Default)]
struct Writer {
    places: HashMap<ChunkId, Place>,
    last_number: u64,
    /// Up to where the catalog was read.
    sequence: u64,
}

#[derive(Clone, Copy)]
struct Place {
    number: u64,
    row: usize,
}

/// A vector as the catalog has it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Later rows have larger ones.
    pub sequence: u64,
    pub point: Point,
    pub vector: Vec<f32>,
}

impl Default for BuiltIn {
    fn default() -> BuiltIn {
        BuiltIn::with_segments(SEGMENT_MAX)
    }
}

impl BuiltIn {
    fn with_segments(segment_max: usize) -> BuiltIn {
        BuiltIn { snapshot: RwLock::default(), writer: Mutex::default(), segment_max }
    }

    /// Takes in rows of the catalog. What it has already is taken again without harm; what is no
    /// vector is left out. Says how many those were. Which dimensions belong together the catalog
    /// has decided: while a collection is embedded anew it has two.
    pub fn feed(&self, rows: impl IntoIterator<Item = Row>) -> usize {
        let mut rows = rows.into_iter();
        let mut left_out = 0;
        loop {
            let (mut sequence, mut is_end) = (0, true);
            let some = rows.by_ref().take(self.segment_max).map(|row| {
                (sequence, is_end) = (sequence.max(row.sequence), false);
                (row.point, row.vector)
            });
            let (points, unfit): (Vec<_>, Vec<_>) =
                some.partition(|(_, vector)| checked(vector).is_ok());
            left_out += unfit.len();
            if is_end {
                return left_out;
            }
            self.take(&mut self.writer.lock(), self.parts(), &points, sequence);
        }
    }

    /// Up to where the catalog was taken in.
    pub fn sequence(&self) -> u64 {
        self.writer.lock().sequence
    }

    fn put_now(&self, points: &[(Point, Vec<f32>)], sequence: u64) -> Result<(), VectorsError> {
        for (_, vector) in points {
            checked(vector)?;
        }
        let mut writer = self.writer.lock();
        let parts = self.parts();
        same_dimensions(&parts, points)?;
        self.take(&mut writer, parts, points, sequence);
        Ok(())
    }

    fn take(
        &self,
        writer: &mut Writer,
        mut parts: Vec<Part>,
        points: &[(Point, Vec<f32>)],
        sequence: u64,
    ) {
        let added = writer.replace(&mut parts, points);
        for (dimension, added) in added {
            for some in added.chunks(self.segment_max) {
                let segment = Segment::new(dimension, some);
                writer.add(&mut parts, segment);
            }
        }
        writer.join(&mut parts, self.segment_max);
        writer.sequence = writer.sequence.max(sequence);
        *self.snapshot.write() = Arc::new(parts);
    }

    /// The points nearest to a vector, of those that it can be compared with; and a collection that
    /// some others are in, if there are any.
    pub async fn search_alike(
        &self,
        query: &[f32],
        filter: &Filter,
        limit: usize,
    ) -> Result<(Vec<Hit>, Option<VectorsError>), VectorsError> {
        checked(query)?;
        let parts = self.snapshot();
        let others = comparable(&parts, query, filter).err();
        Ok((scanned(parts, query, filter, limit).await?, others))
    }

    /// Lets go of chunks. That one is not there is no error.
    pub fn remove(&self, chunks: &[ChunkId]) {
        let mut writer = self.writer.lock();
        let mut parts = self.parts();
        let mut is_changed = false;
        for chunk in chunks {
            let Some(Place { number, row }) = writer.places.remove(chunk) else { continue };
            let part = parts.iter_mut().find(|part| part.number == number);
            is_changed |= part.is_some_and(|part| part.kill(row));
        }
        if is_changed {
            writer.join(&mut parts, self.segment_max);
            *self.snapshot.write() = Arc::new(parts);
        }
    }

    /// Lets go of a generation of a document.
    pub fn remove_all(&self, document: Uuid, generation: u32) {
        self.remove_runs(|run| {
            (run.owner.document, run.owner.generation) == (document, generation)
        });
    }

    fn remove_runs(&self, is_gone: impl Fn(&Run) -> bool) {
        let mut writer = self.writer.lock();
        let mut parts = self.parts();
        let mut is_changed = false;
        for part in &mut parts {
            let segment = part.segment.clone();
            let gone = segment.runs().iter().filter(|run| is_gone(run));
            for row in gone.flat_map(|run| run.rows.clone()) {
                if part.kill(row) {
                    writer.places.remove(&segment.ids()[row]);
                    is_changed = true;
                }
            }
        }
        if is_changed {
            writer.join(&mut parts, self.segment_max);
            *self.snapshot.write() = Arc::new(parts);
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.snapshot.read().clone()
    }

    /// The snapshot, to make another of.
    fn parts(&self) -> Vec<Part> {
        self.snapshot().to_vec()
    }
}

impl Vectors for BuiltIn {
    fn name(&self) -> &str {
        "built in"
    }

    fn put<'a>(
        &'a self,
        points: &'a [(Point, Vec<f32>)],
    ) -> BoxFuture<'a, Result<(), VectorsError>> {
        Box::pin(async { self.put_now(points, 0) })
    }

    fn remove_generation(
        &self,
        document: Uuid,
        generation: u32,
    ) -> BoxFuture<'_, Result<(), VectorsError>> {
        Box::pin(async move {
            self.remove_all(document, generation);
            Ok(())
        })
    }

    fn remove_document(&self, document: Uuid) -> BoxFuture<'_, Result<(), VectorsError>> {
        Box::pin(async move {
            self.remove_runs(|run| run.owner.document == document);
            Ok(())
        })
    }

    fn remove_chunks<'a>(
        &'a self,
        chunks: &'a [ChunkId],
    ) -> BoxFuture<'a, Result<(), VectorsError>> {
        Box::pin(async move {
            self.remove(chunks);
            Ok(())
        })
    }

    fn search<'a>(
        &'a self,
        query: &'a [f32],
        filter: &'a Filter,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Hit>, VectorsError>> {
        Box::pin(async move {
            checked(query)?;
            let parts = self.snapshot();
            comparable(&parts, query, filter)?;
            scanned(parts, query, filter, limit).await
        })
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<u64, VectorsError>> {
        let parts = self.snapshot();
        let living = |part: &Part| -> usize {
            let runs = part.segment.runs().iter();
            runs.filter(|run| admits(filter, run)).map(|run| part.living_in(run)).sum()
        };
        let count: usize = parts.iter().map(living).sum();
        Box::pin(std::future::ready(Ok(count as u64)))
    }
}

/// The nearest rows, of those that are of the query's dimension.
async fn scanned(
    parts: Snapshot,
    query: &[f32],
    filter: &Filter,
    limit: usize,
) -> Result<Vec<Hit>, VectorsError> {
    let query = Query::new(query);
    let here = tokio::runtime::Handle::try_current();
    let Ok(runtime) = here else {
        return Ok(scan::search(&parts, &query, filter, limit));
    };
    if scan::is_small(scan::numbers(&parts, &query, filter)) {
        return Ok(scan::search(&parts, &query, filter, limit));
    }
    // It takes milliseconds: others are not to wait for this thread.
    let filter = filter.clone();
    let search = move || scan::search(&parts, &query, &filter, limit);
    runtime.spawn_blocking(search).await.map_err(|ended| match ended.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => {
            let why = "the program is ending".to_owned();
            VectorsError::Transient { why, retry_after_ms: None }
        }
    })
}

impl fmt::Debug for BuiltIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltIn").field("parts", &self.snapshot()).finish_non_exhaustive()
    }
}

impl Writer {
    /// Lets go of points that come again, and gives by dimension those that are not there yet. Of
    /// those that come twice, the last.
    fn replace<'a>(
        &mut self,
        parts: &mut [Part],
        points: &'a [(Point, Vec<f32>)],
    ) -> BTreeMap<usize, Vec<(&'a Point, &'a [f32])>> {
        let numbered = parts.iter().enumerate().map(|(nth, part)| (part.number, nth));
        let numbered: HashMap<u64, usize> = numbered.collect();
        let last: HashMap<ChunkId, usize> =
            points.iter().enumerate().map(|(nth, (point, _))| (point.id, nth)).collect();
        let mut added: BTreeMap<usize, Vec<(&Point, &[f32])>> = BTreeMap::new();
        for (nth, (point, vector)) in points.iter().enumerate() {
            if last[&point.id] != nth {
                continue;
            }
            if let Some(Place { number, row }) = self.places.get(&point.id).copied() {
                let part = &mut parts[numbered[&number]];
                if part.segment.is(row, point, vector) {
                    continue;
                }
                part.kill(row);
            }
            added.entry(vector.len()).or_default().push((point, vector));
        }
        added
    }

    fn add(&mut self, parts: &mut Vec<Part>, segment: Segment) {
        self.last_number += 1;
        let number = self.last_number;
        let places = segment.ids().iter().enumerate();
        self.places.extend(places.map(|(row, id)| (*id, Place { number, row })));
        parts.push(Part::new(number, segment));
    }

    /// Makes few segments of many, and lets dead rows go once they are a quarter of a segment. A
    /// row is copied as often as its segment doubles.
    fn join(&mut self, parts: &mut Vec<Part>, segment_max: usize) {
        parts.retain(|part| part.living() > 0);
        loop {
            let is_wasteful = |part: &Part| part.dead.count * 4 >= part.rows();
            let some: Vec<Part> = if let Some(nth) = parts.iter().position(is_wasteful) {
                vec![parts.swap_remove(nth)]
            } else if let Some((one, other)) = alike(parts, segment_max) {
                // The later one first, which leaves the other where it is.
                vec![parts.swap_remove(one.max(other)), parts.swap_remove(one.min(other))]
            } else {
                return;
            };
            let segment = Segment::joined(&some.iter().collect::<Vec<_>>());
            self.add(parts, segment);
        }
    }
}

/// Two segments of about the same size that fit into one.
fn alike(parts: &[Part], segment_max: usize) -> Option<(usize, usize)> {
    let mut by_size: Vec<(usize, usize, usize)> = parts
        .iter()
        .enumerate()
        .map(|(nth, part)| (part.segment.dimension, part.living(), nth))
        .collect();
    by_size.sort_unstable();
    by_size.windows(2).find_map(|two| {
        let [(dimension, small, one), (other_dimension, large, other)] = *two else {
            return None;
        };
        let fits = small + large <= segment_max && large <= 2 * small;
        (dimension == other_dimension && fits).then_some((one, other))
    })
}

fn admits(filter: &Filter, run: &Run) -> bool {
    filter.admits(&run.owner.tenant, &run.owner.collection, run.owner.document)
        && filter.admits_generation(run.owner.document, run.owner.generation)
}

/// Refuses a query that some of what it is to be compared with was not made for.
fn comparable(parts: &[Part], query: &[f32], filter: &Filter) -> Result<(), VectorsError> {
    match other_dimension(parts, query.len(), |run| admits(filter, run)) {
        Some((run, holds)) => {
            Err(misfit(&run.owner.tenant, &run.owner.collection, holds, query.len()))
        }
        None => Ok(()),
    }
}

/// Refuses vectors for a collection that holds others.
fn same_dimensions(parts: &[Part], points: &[(Point, Vec<f32>)]) -> Result<(), VectorsError> {
    for ((tenant, collection), given) in dimensions(points)? {
        let is_of =
            |run: &Run| *run.owner.tenant == *tenant && *run.owner.collection == *collection;
        if let Some((_, holds)) = other_dimension(parts, given, is_of) {
            return Err(misfit(tenant, collection, holds, given));
        }
    }
    Ok(())
}

/// A run of another dimension that something lives in.
fn other_dimension(
    parts: &[Part],
    dimension: usize,
    is_meant: impl Fn(&Run) -> bool,
) -> Option<(&Run, usize)> {
    let others = parts.iter().filter(|part| part.segment.dimension != dimension);
    let mut runs = others.flat_map(|part| part.segment.runs().iter().map(move |run| (part, run)));
    let (part, run) = runs.find(|(part, run)| is_meant(run) && part.living_in(run) > 0)?;
    Some((run, part.segment.dimension))
}
