//! Vectors: where the vectors of chunks are kept, and the nearest ones found.
//!
//! A store of vectors is fed from the catalog and can be made anew from it; it is never the only
//! place of anything. Everything written to it may be written again. `built_in/` keeps all of it in
//! memory, `pgvector/` in PostgreSQL, `qdrant/` in a Qdrant.

pub mod built_in;
pub mod pgvector;
pub mod qdrant;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use uuid::Uuid;

/// The id of a chunk: the same content at the same place always has the same.
pub type ChunkId = [u8; 16];

/// What a vector stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    pub id: ChunkId,
    pub document: Uuid,
    pub generation: u32,
    /// From 1.
    pub page: u32,
    pub tenant: Arc<str>,
    pub collection: Arc<str>,
}

/// Which points are looked at: those that meet all that is said here.
#[derive(Clone, Default, Debug)]
pub struct Filter {
    pub tenant: Option<Arc<str>>,
    pub collection: Option<Arc<str>>,
    pub document: Option<Uuid>,
    /// The generations that may be found. Without it all may, those not yet and no longer live
    /// included.
    pub live: Option<Arc<Live>>,
}

/// Documents, each with a generation of it.
pub type Live = HashSet<(Uuid, u32)>;

/// A point that was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Hit {
    pub point: Point,
    /// The cosine of the angle between its vector and the query's: one if they are the same.
    pub score: f32,
}

/// A store of vectors.
pub trait Vectors: fmt::Debug + Send + Sync {
    /// What it is, in a word.
    fn name(&self) -> &str;

    /// Puts points in. One that is there already is replaced, and of two with one id the last
    /// stays. What is bad is refused before anything is written; after another error some may be
    /// there, and to put them again mends it.
    fn put<'a>(
        &'a self,
        points: &'a [(Point, Vec<f32>)],
    ) -> BoxFuture<'a, Result<(), VectorsError>>;

    /// Removes all points of one generation of a document. That there are none is no error.
    fn remove_generation(
        &self,
        document: Uuid,
        generation: u32,
    ) -> BoxFuture<'_, Result<(), VectorsError>>;

    /// Removes all points of a document, whatever their generation. That there are none is no
    /// error.
    fn remove_document(&self, document: Uuid) -> BoxFuture<'_, Result<(), VectorsError>>;

    /// Removes the points of chunks. That one is not there is no error.
    fn remove_chunks<'a>(
        &'a self,
        chunks: &'a [ChunkId],
    ) -> BoxFuture<'a, Result<(), VectorsError>>;

    /// The points nearest to a vector, nearest first; of two equally near the one with the smaller
    /// id.
    fn search<'a>(
        &'a self,
        query: &'a [f32],
        filter: &'a Filter,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Hit>, VectorsError>>;

    /// How many points there are.
    fn count<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<u64, VectorsError>>;
}

/// Why vectors were not put in or found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VectorsError {
    /// The store cannot do it now: try again.
    #[error("{why}")]
    Transient { why: String, retry_after_ms: Option<u64> },
    /// This vector never works.
    #[error("{why}")]
    Bad { why: String },
    /// Vectors of different embedders cannot be compared.
    #[error(
        "collection {collection:?} of tenant {tenant:?} holds vectors of {holds} dimensions, and \
         this one has {given}: it was made by another embedder"
    )]
    Dimension { tenant: String, collection: String, holds: usize, given: usize },
}

impl Filter {
    /// Whether points of this document may be found, as far as that is not about its generation.
    fn admits(&self, tenant: &str, collection: &str, document: Uuid) -> bool {
        self.tenant.as_deref().is_none_or(|wanted| wanted == tenant)
            && self.collection.as_deref().is_none_or(|wanted| wanted == collection)
            && self.document.is_none_or(|wanted| wanted == document)
    }

    fn admits_generation(&self, document: Uuid, generation: u32) -> bool {
        self.live.as_ref().is_none_or(|live| live.contains(&(document, generation)))
    }
}

/// Refuses what is no vector of length one, because a score would then be no cosine.
fn checked(vector: &[f32]) -> Result<(), VectorsError> {
    let bad = |why: String| Err(VectorsError::Bad { why });
    if vector.is_empty() {
        return bad("a vector has at least one dimension".into());
    }
    if vector.len() > DIMENSION_MAX {
        return bad(format!("a vector has at most {DIMENSION_MAX} dimensions"));
    }
    let square: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    // True of no number at all, too.
    let is_one = (square - 1.0).abs() <= LENGTH_SLACK;
    if is_one {
        Ok(())
    } else {
        bad(format!("the length of a vector is one, not {}", square.sqrt()))
    }
}

/// The dimension of each tenant's collections that points go to. Refuses points of one collection
/// that differ in it.
fn dimensions(points: &[(Point, Vec<f32>)]) -> Result<BTreeMap<(&str, &str), usize>, VectorsError> {
    let mut dimensions = BTreeMap::new();
    for (Point { tenant, collection, .. }, vector) in points {
        let holds = *dimensions.entry((&**tenant, &**collection)).or_insert(vector.len());
        if holds != vector.len() {
            return Err(misfit(tenant, collection, holds, vector.len()));
        }
    }
    Ok(dimensions)
}

fn misfit(tenant: &str, collection: &str, holds: usize, given: usize) -> VectorsError {
    let (tenant, collection) = (tenant.to_owned(), collection.to_owned());
    VectorsError::Dimension { tenant, collection, holds, given }
}

/// The nearest first; of two equally near the one with the smaller id.
fn by_nearness(one: &Hit, other: &Hit) -> Ordering {
    other.score.total_cmp(&one.score).then_with(|| one.point.id.cmp(&other.point.id))
}

/// More than any model gives.
const DIMENSION_MAX: usize = 16_384;

/// How far the square of a length may be from one: what 16-bit numbers on the way leave.
const LENGTH_SLACK: f64 = 0.005;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_vectors_of_length_one_are_vectors() {
        assert_eq!(checked(&[0.6, -0.8]), Ok(()));
        assert_eq!(checked(&[1.001]), Ok(()));
        let long = vec![0.0; DIMENSION_MAX + 1];
        for (vector, why) in [
            (&[][..], "at least one"),
            (&[0.0, 0.0], "not 0"),
            (&[1.0, 1.0], "not 1.41"),
            (&[f32::NAN], "not NaN"),
            (&[f32::INFINITY, 0.5], "not inf"),
            (&long, "at most"),
        ] {
            let error = checked(vector).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_filter_admits_what_meets_all_of_it() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let filter = Filter {
            tenant: Some("acme".into()),
            collection: Some("papers".into()),
            document: Some(one),
            live: Some(Arc::new(Live::from([(one, 2)]))),
        };
        assert!(filter.admits("acme", "papers", one));
        for (tenant, collection, document) in
            [("other", "papers", one), ("acme", "other", one), ("acme", "papers", other)]
        {
            assert!(!filter.admits(tenant, collection, document));
            assert!(Filter::default().admits(tenant, collection, document));
        }
        for (document, generation, expected) in [(one, 2, true), (one, 1, false), (other, 2, false)]
        {
            assert_eq!(filter.admits_generation(document, generation), expected);
            assert!(Filter::default().admits_generation(document, generation));
        }
    }
}
