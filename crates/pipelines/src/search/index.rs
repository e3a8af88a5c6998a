//! The built-in index, following the catalog.
//!
//! Everything that happens to vectors has a sequence in the catalog; whoever searches first takes
//! in what happened since. So several servers on one database each have an index of their own, and
//! one that starts has it from the catalog.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::adapters::vectors::built_in::{BuiltIn, Row};
use crate::adapters::vectors::{self, Filter, Hit, Live, VectorsError};
use crate::catalog::{Catalog, CatalogError, VectorChange, VectorCursor, VectorsSince};

/// Changes that are read at once.
const PIECE: u32 = 1_000;

/// All vectors of a catalog, in memory.
#[derive(Debug)]
pub struct Index {
    catalog: Arc<dyn Catalog>,
    /// Held by the one who follows.
    followed: Mutex<Followed>,
    seen: RwLock<Seen>,
}

/// What is nearest to a question.
#[derive(Clone, PartialEq, Debug)]
pub struct Near {
    /// The nearest first.
    pub hits: Vec<Hit>,
    /// Why there was something that could not be compared with it, if there was.
    pub passed_over: Option<String>,
}

/// What a search looks at.
#[derive(Clone, Debug, Default)]
struct Seen {
    vectors: Arc<BuiltIn>,
    live: Arc<Live>,
    /// How many rows of the catalog were no vectors.
    left_out: usize,
}

/// How far the catalog was followed, and what is known by then.
#[derive(Debug, Default)]
struct Followed {
    cursor: VectorCursor,
    known: Seen,
    /// What of each document is live, to find it among all that is.
    generations: HashMap<Uuid, u32>,
}

/// Why nothing was found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IndexError {
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[error(transparent)]
    Vectors(#[from] VectorsError),
}

impl Index {
    /// An index that has seen nothing yet.
    pub fn new(catalog: Arc<dyn Catalog>) -> Index {
        let (followed, seen) = (Mutex::default(), RwLock::default());
        Index { catalog, followed, seen }
    }

    /// Takes in what happened since the last time. Says how much that was.
    pub async fn follow(&self) -> Result<u64, IndexError> {
        let mut followed = self.followed.lock().await;
        let mut taken = 0;
        loop {
            match self.catalog.vectors_since(followed.cursor, PIECE).await? {
                VectorsSince::Changes { changes, .. } if changes.is_empty() => break,
                VectorsSince::Changes { changes, next } => {
                    taken += changes.len() as u64;
                    followed.take(changes);
                    followed.cursor = next;
                }
                VectorsSince::BeginAgain => *followed = Followed::default(),
            }
        }
        // Only now: what is live is copied as often as it is shown.
        *self.seen.write() = followed.known.clone();
        Ok(taken)
    }

    /// Follows the catalog if anybody has ever searched, so that what was removed can be forgotten
    /// without this index having to begin again.
    pub async fn keep_up(&self) -> Result<u64, IndexError> {
        let is_used = self.followed.lock().await.cursor != VectorCursor::default();
        if is_used { self.follow().await } else { Ok(0) }
    }

    /// The chunks of live documents that are nearest to a vector. Vectors of another dimension are
    /// passed over, as long as there are others.
    pub async fn search(
        &self,
        query: &[f32],
        filter: Filter,
        limit: usize,
    ) -> Result<Near, IndexError> {
        self.follow().await?;
        let Seen { vectors, live, left_out } = self.seen.read().clone();
        let filter = Filter { live: Some(live), ..filter };
        let (hits, others) = vectors.search_alike(query, &filter, limit).await?;
        let passed_over = match others {
            Some(others) if hits.is_empty() => return Err(others.into()),
            Some(others) => Some(others.to_string()),
            None if left_out > 0 => Some(format!("{left_out} in the catalog are no vectors")),
            None => None,
        };
        Ok(Near { hits, passed_over })
    }
}

impl Followed {
    /// Takes in what it can. What is refused here would be refused for ever, and nobody would find
    /// anything that came after it.
    fn take(&mut self, changes: Vec<(u64, VectorChange)>) {
        let vectors = Arc::clone(&self.known.vectors);
        let (mut rows, mut left_out) = (Vec::new(), 0);
        for (sequence, change) in changes {
            match change {
                VectorChange::Put { point, vector } => {
                    let point = vectors::Point {
                        id: point.chunk.0,
                        document: point.document,
                        generation: point.generation,
                        page: point.page,
                        tenant: point.scope.tenant.into(),
                        collection: point.scope.collection.into(),
                    };
                    rows.push(Row { sequence, point, vector });
                }
                VectorChange::Live(at) => {
                    let live = Arc::make_mut(&mut self.known.live);
                    if let Some(before) = self.generations.insert(at.document, at.generation) {
                        live.remove(&(at.document, before));
                    }
                    live.insert((at.document, at.generation));
                }
                // What was put before goes in before something goes.
                VectorChange::ChunkRemoved(chunk) => {
                    left_out += vectors.feed(rows.drain(..));
                    vectors.remove(&[chunk.0]);
                }
                VectorChange::GenerationRemoved(at) => {
                    left_out += vectors.feed(rows.drain(..));
                    if self.generations.get(&at.document) == Some(&at.generation) {
                        self.generations.remove(&at.document);
                        Arc::make_mut(&mut self.known.live).remove(&(at.document, at.generation));
                    }
                    vectors.remove_all(at.document, at.generation);
                }
            }
        }
        self.known.left_out += left_out + vectors.feed(rows);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::catalog::GenerationKey;

    fn at(document: u128, generation: u32) -> GenerationKey {
        GenerationKey { document: Uuid::from_u128(document), generation }
    }

    #[test]
    fn of_a_document_one_generation_is_live_until_it_goes() {
        let mut followed = Followed::default();
        let mut check = |change: VectorChange, want: &[(u128, u32)]| {
            followed.take(vec![(1, change)]);
            let want = want.iter().map(|(document, number)| (Uuid::from_u128(*document), *number));
            assert_eq!(*followed.known.live, want.collect::<Live>());
            assert_eq!(followed.generations.len(), followed.known.live.len());
        };
        check(VectorChange::Live(at(1, 1)), &[(1, 1)]);
        check(VectorChange::Live(at(2, 1)), &[(1, 1), (2, 1)]);
        check(VectorChange::Live(at(1, 3)), &[(1, 3), (2, 1)]);
        check(VectorChange::GenerationRemoved(at(1, 1)), &[(1, 3), (2, 1)]);
        check(VectorChange::Live(at(1, 3)), &[(1, 3), (2, 1)]);
        check(VectorChange::GenerationRemoved(at(1, 3)), &[(2, 1)]);
        check(VectorChange::GenerationRemoved(at(1, 3)), &[(2, 1)]);
    }

    /// Each looked at all others, and a large catalog took minutes to begin.
    #[test]
    fn what_is_live_is_taken_in_without_looking_at_all_that_is() {
        let (done, is_done) = mpsc::channel();
        let taking = std::thread::spawn(move || {
            let mut followed = Followed::default();
            for piece in 0..150 {
                let documents = piece * 1_000..(piece + 1) * 1_000;
                let live = documents.map(|n| (1 + n as u64, VectorChange::Live(at(n, 1))));
                followed.take(live.collect());
            }
            // Nobody may wait any more.
            let _gone = done.send(followed.known.live.len());
        });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(15)), Ok(150_000));
        taking.join().unwrap();
    }
}
