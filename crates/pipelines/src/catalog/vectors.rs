//! Vectors of the built-in store, and the order in which they changed.
//!
//! Every change has a sequence that no later commit undercuts, so that who has seen all up to one
//! has missed nothing, also where many servers write. Vectors of generations that are not live are
//! among them: an index takes them in while they are built and shows them once they are live.
//!
//! Decides which vectors belong together. Those of a generation are of one dimension, and so are
//! those of a collection, but for documents that are embedded anew: whoever changes the embedder
//! reindexes one document after the other, and until the last one there are both.

use uuid::Uuid;

use super::bounds::{BATCH_MAX, DIMENSIONS_MAX, count};
use super::chunk::ChunkId;
use super::document::{GenerationKey, Scope};
use super::error::CatalogError;

/// A vector of a chunk.
#[derive(Clone, PartialEq, Debug)]
pub struct NewVector {
    pub chunk: ChunkId,
    pub vector: Vec<f32>,
}

impl NewVector {
    pub(super) fn check_all(vectors: &[NewVector]) -> Result<(), CatalogError> {
        count("vectors", vectors.len(), BATCH_MAX)?;
        let mut seen = std::collections::HashSet::new();
        for NewVector { chunk, vector } in vectors {
            if vector.is_empty() || vector.len() > DIMENSIONS_MAX {
                let why = format!("the vector of chunk {chunk} has {} numbers", vector.len());
                return Err(CatalogError::Bad { why });
            }
            if !vector.iter().all(|number| number.is_finite()) {
                let why = format!("the vector of chunk {chunk} has something else than numbers");
                return Err(CatalogError::Bad { why });
            }
            if !seen.insert(chunk) {
                return Err(CatalogError::bad(format!("chunk {chunk} has two vectors at once")));
            }
        }
        Ok(())
    }
}

/// Whose vectors are put in, and of which dimension they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Given {
    pub(super) at: GenerationKey,
    pub(super) scope: Scope,
    pub(super) dimension: usize,
}

/// What there is already, of generations that are not old.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Held {
    /// The dimension of this generation's vectors.
    pub(super) of_generation: Option<usize>,
    /// Whether an older generation of the document has vectors, of whatever dimension.
    pub(super) has_older: bool,
    /// Another dimension that another document of the collection has.
    pub(super) of_others: Option<usize>,
}

impl Given {
    /// Refuses vectors that could not be compared with those beside them.
    pub(super) fn check(&self, held: Held) -> Result<(), CatalogError> {
        let Given { at, scope: Scope { collection, .. }, dimension } = self;
        match held {
            Held { of_generation: Some(holds), .. } if holds == *dimension => Ok(()),
            Held { of_generation: Some(holds), .. } => Err(CatalogError::bad(format!(
                "{at} has vectors of {holds} dimensions and this one has {dimension}: the embedder \
                 was changed meanwhile; reindex the document"
            ))),
            Held { has_older: true, .. } | Held { of_others: None, .. } => Ok(()),
            Held { of_others: Some(holds), .. } => Err(CatalogError::bad(format!(
                "collection {collection:?} has vectors of {holds} dimensions and this one has \
                 {dimension}: it was made by another embedder; add the document to another \
                 collection, or reindex all others of this one and then this"
            ))),
        }
    }
}

/// A vector, and where it is from.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    pub chunk: ChunkId,
    pub document: Uuid,
    pub generation: u32,
    pub page: u32,
    pub scope: Scope,
}

/// What happened to the vectors.
#[derive(Clone, PartialEq, Debug)]
pub enum VectorChange {
    /// A chunk has this vector from now on.
    Put { point: Point, vector: Vec<f32> },
    /// Of this document, search sees this generation and no other.
    Live(GenerationKey),
    /// A chunk is gone.
    ChunkRemoved(ChunkId),
    /// A generation is no longer seen by search, and is being removed.
    GenerationRemoved(GenerationKey),
}

/// How far somebody has followed the vectors. The default has seen nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VectorCursor {
    /// Everything up to here has been seen.
    pub sequence: u64,
    /// Removals up to here were forgotten when it began, and need not be known.
    pub(super) forgotten: u64,
}

impl VectorCursor {
    /// The cursor as it goes on where removals up to `forgotten` are no longer known; None if one
    /// that it should have seen may be among them.
    pub(super) fn go_on(self, forgotten: u64) -> Option<VectorCursor> {
        let misses_nothing =
            self.sequence == 0 || self.sequence >= forgotten || self.forgotten == forgotten;
        misses_nothing.then_some(VectorCursor { forgotten, ..self })
    }
}

/// What happened since.
#[derive(Clone, PartialEq, Debug)]
pub enum VectorsSince {
    /// In order, each with its sequence; none when there is nothing new.
    Changes { changes: Vec<(u64, VectorChange)>, next: VectorCursor },
    /// What was removed since is no longer known: begin with nothing, from the default cursor.
    BeginAgain,
}

impl VectorsSince {
    pub(super) fn new(
        after: VectorCursor,
        mut changes: Vec<(u64, VectorChange)>,
        limit: usize,
    ) -> VectorsSince {
        changes.sort_by_key(|(sequence, _)| *sequence);
        changes.truncate(limit);
        let sequence = changes.last().map_or(after.sequence, |(sequence, _)| *sequence);
        VectorsSince::Changes { changes, next: VectorCursor { sequence, ..after } }
    }
}

/// Four bytes for each number, the lowest first.
pub fn vector_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A vector that was bytes.
pub fn vector_of(bytes: &[u8]) -> Result<Vec<f32>, CatalogError> {
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(CatalogError::bad("a vector in the catalog ends in the middle of a number"));
    }
    Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

/// A change as a row has it: the columns `kind, document, generation, chunk`.
pub(super) fn change_of(
    kind: &str,
    document: Uuid,
    generation: u32,
    chunk: Option<Vec<u8>>,
) -> Result<VectorChange, CatalogError> {
    let at = GenerationKey { document, generation };
    match (kind, chunk) {
        ("live", _) => Ok(VectorChange::Live(at)),
        ("removed", None) => Ok(VectorChange::GenerationRemoved(at)),
        ("removed", Some(chunk)) => Ok(VectorChange::ChunkRemoved(ChunkId::read(&chunk)?)),
        _ => Err(CatalogError::bad(format!("`{kind}` in the catalog is no word of this program"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_the_same_after_it_was_bytes() {
        let vector = vec![0.0, -1.5, f32::MIN_POSITIVE, 3.25e7];
        assert_eq!(vector_of(&vector_bytes(&vector)), Ok(vector));
        assert!(vector_of(&[1, 2, 3]).is_err());
    }

    #[test]
    fn vectors_are_of_one_dimension_but_for_documents_that_are_embedded_anew() {
        let check = |of_generation, has_older, of_others, refused: Option<&str>| {
            let at = GenerationKey { document: Uuid::from_u128(7), generation: 2 };
            let given = Given { at, scope: Scope::new("t", "books"), dimension: 3 };
            let said = given.check(Held { of_generation, has_older, of_others }).err();
            let said = said.map(|error| error.to_string());
            match (&said, refused) {
                (None, None) => {}
                (Some(said), Some(part)) if said.contains(part) => {}
                _ => panic!("{said:?}, not {refused:?}"),
            }
        };
        check(None, false, None, None);
        check(
            None,
            false,
            Some(2),
            Some("\"books\" has vectors of 2 dimensions and this one has 3"),
        );
        check(None, false, Some(2), Some("add the document to another collection, or reindex"));
        check(None, true, Some(2), None);
        check(Some(3), false, Some(2), None);
        check(Some(3), true, None, None);
        check(Some(2), true, None, Some("reindex the document"));
    }

    #[test]
    fn who_may_have_missed_a_removal_begins_again() {
        let at = |sequence, forgotten| VectorCursor { sequence, forgotten };
        // Whoever begins misses nothing, also while it reads what is older than that.
        assert_eq!(at(0, 0).go_on(50), Some(at(0, 50)));
        assert_eq!(at(10, 50).go_on(50), Some(at(10, 50)));
        assert_eq!(at(10, 50).go_on(60), None);
        assert_eq!(at(10, 0).go_on(50), None);
        assert_eq!(at(60, 50).go_on(60), Some(at(60, 60)));
    }

    #[test]
    fn what_is_no_vector_is_refused() {
        let check = |vectors: &[(u8, Vec<f32>)], part: &str| {
            let vectors: Vec<NewVector> = vectors
                .iter()
                .map(|(id, vector)| NewVector { chunk: ChunkId([*id; 16]), vector: vector.clone() })
                .collect();
            let why = NewVector::check_all(&vectors).unwrap_err().to_string();
            assert!(why.contains(part), "{why}");
        };
        check(&[(1, vec![])], "has 0 numbers");
        check(&[(1, vec![f32::NAN])], "something else than numbers");
        check(&[(1, vec![1.0]), (1, vec![1.0])], "two vectors at once");
    }
}
