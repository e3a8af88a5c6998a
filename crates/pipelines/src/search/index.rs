//! The built-in index, following the catalog.
//!
//! Everything that happens to vectors has a sequence in the catalog; whoever searches first takes
//! in what happened since. So several servers on one database each have an index of their own, and
//! one that starts has it from the catalog.

use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Mutex;

use crate::adapters::vectors::built_in::{BuiltIn, Row};
use crate::adapters::vectors::{self, Filter, Hit, Live, Vectors as _, VectorsError};
use crate::catalog::{Catalog, CatalogError, VectorChange, VectorCursor, VectorsSince};

/// Changes that are read at once.
const PIECE: u32 = 1_000;

/// All vectors of a catalog, in memory.
#[derive(Debug)]
pub struct Index {
    catalog: Arc<dyn Catalog>,
    /// How far the catalog was followed. Held by the one who follows.
    cursor: Mutex<VectorCursor>,
    seen: RwLock<Seen>,
}

/// What a search looks at.
#[derive(Clone, Debug, Default)]
struct Seen {
    vectors: Arc<BuiltIn>,
    live: Arc<Live>,
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
        let (cursor, seen) = (Mutex::default(), RwLock::default());
        Index { catalog, cursor, seen }
    }

    /// Takes in what happened since the last time. Says how much that was.
    pub async fn follow(&self) -> Result<u64, IndexError> {
        let mut cursor = self.cursor.lock().await;
        let mut taken = 0;
        loop {
            match self.catalog.vectors_since(*cursor, PIECE).await? {
                VectorsSince::Changes { changes, .. } if changes.is_empty() => return Ok(taken),
                VectorsSince::Changes { changes, next } => {
                    taken += changes.len() as u64;
                    self.take(changes)?;
                    *cursor = next;
                }
                VectorsSince::BeginAgain => {
                    *self.seen.write() = Seen::default();
                    *cursor = VectorCursor::default();
                }
            }
        }
    }

    fn take(&self, changes: Vec<(u64, VectorChange)>) -> Result<(), IndexError> {
        let Seen { vectors, live } = self.seen.read().clone();
        let (mut live, mut rows) = (live, Vec::new());
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
                    continue;
                }
                VectorChange::Live(at) => {
                    let live = Arc::make_mut(&mut live);
                    live.retain(|(document, _)| *document != at.document);
                    live.insert((at.document, at.generation));
                }
                // What was put before goes in before something goes.
                VectorChange::ChunkRemoved(chunk) => {
                    vectors.feed(rows.drain(..))?;
                    vectors.remove(&[chunk.0]);
                }
                VectorChange::GenerationRemoved(at) => {
                    vectors.feed(rows.drain(..))?;
                    Arc::make_mut(&mut live).remove(&(at.document, at.generation));
                    vectors.remove_all(at.document, at.generation);
                }
            }
        }
        vectors.feed(rows)?;
        self.seen.write().live = live;
        Ok(())
    }

    /// The chunks of live documents that are nearest to a vector.
    pub async fn search(
        &self,
        query: &[f32],
        filter: Filter,
        limit: usize,
    ) -> Result<Vec<Hit>, IndexError> {
        self.follow().await?;
        let Seen { vectors, live } = self.seen.read().clone();
        let filter = Filter { live: Some(live), ..filter };
        Ok(vectors.search(query, &filter, limit).await?)
    }
}
