//! Segments: rows of vectors that never change once they are made.
//!
//! The rows of one generation of a document lie beside each other, so that a filter is asked once
//! for all of them. Which rows are dead is kept outside, in the [`Part`] that a snapshot has of a
//! segment; rows go away when segments are joined.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use uuid::Uuid;

use super::super::{ChunkId, Point};
use super::codes::{Coded, encode, stride};

/// Whose rows they are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Owner {
    pub(super) tenant: Arc<str>,
    pub(super) collection: Arc<str>,
    pub(super) document: Uuid,
    pub(super) generation: u32,
}

impl Owner {
    pub(super) fn of(point: &Point) -> Owner {
        let Point { document, generation, .. } = *point;
        let (tenant, collection) = (point.tenant.clone(), point.collection.clone());
        Owner { tenant, collection, document, generation }
    }

    fn owns(&self, point: &Point) -> bool {
        self.document == point.document
            && self.generation == point.generation
            && self.tenant == point.tenant
            && self.collection == point.collection
    }
}

/// Rows of one owner.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) owner: Arc<Owner>,
    pub(super) rows: Range<usize>,
}

/// Rows of one dimension, column by column.
pub(super) struct Segment {
    pub(super) dimension: usize,
    ids: Vec<ChunkId>,
    pages: Vec<u32>,
    vectors: Vec<f32>,
    codes: Vec<i8>,
    coded: Vec<Coded>,
    runs: Vec<Run>,
}

impl Segment {
    /// A segment of new points, which must all have this dimension.
    pub(super) fn new(dimension: usize, points: &[(&Point, &[f32])]) -> Segment {
        let mut segment = Segment::with_capacity(dimension, points.len());
        let mut owned: Vec<(Owner, &Point, &[f32])> =
            points.iter().map(|(point, vector)| (Owner::of(point), *point, *vector)).collect();
        owned.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        for (owner, point, vector) in owned {
            assert_eq!(vector.len(), dimension, "a segment has one dimension");
            segment.vectors.extend_from_slice(vector);
            let coded = encode(vector, &mut segment.codes);
            segment.push(point.id, point.page, coded, || Arc::new(owner.clone()), &owner);
        }
        segment
    }

    /// One segment of what lives in several, which must all have the same dimension.
    pub(super) fn joined(parts: &[&Part]) -> Segment {
        let dimension = parts[0].segment.dimension;
        let rows = parts.iter().map(|part| part.living()).sum();
        let mut joined = Segment::with_capacity(dimension, rows);
        let mut runs: Vec<(&Run, &Part)> = parts
            .iter()
            .flat_map(|part| part.segment.runs.iter().map(move |run| (run, *part)))
            .collect();
        runs.sort_by(|one, other| one.0.owner.cmp(&other.0.owner));
        for (run, part) in runs {
            for row in run.rows.clone().filter(|row| !part.dead.has(*row)) {
                let from = &part.segment;
                assert_eq!(from.dimension, dimension, "a segment has one dimension");
                joined.vectors.extend_from_slice(from.vector(row));
                joined.codes.extend_from_slice(from.codes(row));
                let (id, page, coded) = (from.ids[row], from.pages[row], from.coded[row]);
                joined.push(id, page, coded, || run.owner.clone(), &run.owner);
            }
        }
        joined
    }

    fn with_capacity(dimension: usize, rows: usize) -> Segment {
        Segment {
            dimension,
            ids: Vec::with_capacity(rows),
            pages: Vec::with_capacity(rows),
            vectors: Vec::with_capacity(rows * dimension),
            codes: Vec::with_capacity(rows * stride(dimension)),
            coded: Vec::with_capacity(rows),
            runs: Vec::new(),
        }
    }

    /// Ends a row whose vector and codes are there already.
    fn push(
        &mut self,
        id: ChunkId,
        page: u32,
        coded: Coded,
        shared: impl FnOnce() -> Arc<Owner>,
        owner: &Owner,
    ) {
        let row = self.ids.len();
        self.ids.push(id);
        self.pages.push(page);
        self.coded.push(coded);
        match self.runs.last_mut() {
            Some(run) if *run.owner == *owner => run.rows.end = row + 1,
            _ => self.runs.push(Run { owner: shared(), rows: row..row + 1 }),
        }
    }

    pub(super) fn ids(&self) -> &[ChunkId] {
        &self.ids
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    pub(super) fn vector(&self, row: usize) -> &[f32] {
        &self.vectors[row * self.dimension..][..self.dimension]
    }

    fn codes(&self, row: usize) -> &[i8] {
        let stride = stride(self.dimension);
        &self.codes[row * stride..][..stride]
    }

    /// The codes of rows that lie beside each other.
    pub(super) fn coded(&self, rows: Range<usize>) -> impl Iterator<Item = (&[i8], Coded)> {
        let stride = stride(self.dimension);
        let codes = &self.codes[rows.start * stride..rows.end * stride];
        codes.chunks_exact(stride).zip(self.coded[rows].iter().copied())
    }

    pub(super) fn point(&self, row: usize) -> Point {
        let run = self.run_of(row);
        let Owner { tenant, collection, document, generation } = (*run.owner).clone();
        let (id, page) = (self.ids[row], self.pages[row]);
        Point { id, document, generation, page, tenant, collection }
    }

    /// Whether a row is this point with this vector.
    pub(super) fn is(&self, row: usize, point: &Point, vector: &[f32]) -> bool {
        self.ids[row] == point.id
            && self.pages[row] == point.page
            && self.run_of(row).owner.owns(point)
            && self.vector(row) == vector
    }

    fn run_of(&self, row: usize) -> &Run {
        &self.runs[self.runs.partition_point(|run| run.rows.end <= row)]
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segment({} rows of {})", self.ids.len(), self.dimension)
    }
}

/// A segment as one snapshot has it.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// No other segment ever has it.
    pub(super) number: u64,
    pub(super) segment: Arc<Segment>,
    pub(super) dead: Arc<Dead>,
}

impl Part {
    pub(super) fn new(number: u64, segment: Segment) -> Part {
        Part { number, segment: Arc::new(segment), dead: Arc::default() }
    }

    pub(super) fn rows(&self) -> usize {
        self.segment.ids.len()
    }

    pub(super) fn living(&self) -> usize {
        self.rows() - self.dead.count
    }

    pub(super) fn living_in(&self, run: &Run) -> usize {
        if self.dead.count == 0 {
            return run.rows.len();
        }
        run.rows.clone().filter(|row| !self.dead.has(*row)).count()
    }

    /// Lets a row be dead from now on, for snapshots that are taken later. False if it was.
    pub(super) fn kill(&mut self, row: usize) -> bool {
        !self.dead.has(row) && Arc::make_mut(&mut self.dead).add(row)
    }
}

/// Rows that are no longer there.
#[derive(Clone, Default, Debug)]
pub(super) struct Dead {
    bits: Vec<u64>,
    pub(super) count: usize,
}

impl Dead {
    pub(super) fn has(&self, row: usize) -> bool {
        self.bits.get(row / 64).is_some_and(|bits| bits >> (row % 64) & 1 == 1)
    }

    fn add(&mut self, row: usize) -> bool {
        if self.bits.len() <= row / 64 {
            self.bits.resize(row / 64 + 1, 0);
        }
        self.bits[row / 64] |= 1 << (row % 64);
        self.count += 1;
        true
    }
}
