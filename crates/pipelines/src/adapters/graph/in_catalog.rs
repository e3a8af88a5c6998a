//! The graph in the catalog: rows beside the chunks that they belong to.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use uuid::Uuid;

use super::{Graph, GraphError, Origin, as_said};
use crate::adapters::extract::Extracted;
use crate::catalog::{Catalog, CatalogError, ChunkId, GenerationKey};

/// The graph of a catalog. It removes nothing: what a chunk says leaves with the chunk, when the
/// catalog removes a generation or a document, and no sooner. Who reads sees live generations only.
#[derive(Clone, Debug)]
pub struct InCatalog {
    catalog: Arc<dyn Catalog>,
}

impl InCatalog {
    pub fn new(catalog: Arc<dyn Catalog>) -> InCatalog {
        InCatalog { catalog }
    }
}

impl Graph for InCatalog {
    fn name(&self) -> &str {
        "catalog"
    }

    fn put<'a>(
        &'a self,
        origin: &'a Origin,
        said: &'a Extracted,
    ) -> BoxFuture<'a, Result<(), GraphError>> {
        Box::pin(async move {
            let graph = as_said(said)?;
            Ok(self.catalog.put_graph(origin.chunk, graph).await?)
        })
    }

    fn remove_chunks<'a>(
        &'a self,
        _chunks: &'a [ChunkId],
    ) -> BoxFuture<'a, Result<(), GraphError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn remove_generation(&self, _at: GenerationKey) -> BoxFuture<'_, Result<(), GraphError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn remove_document(&self, _document: Uuid) -> BoxFuture<'_, Result<(), GraphError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl From<CatalogError> for GraphError {
    fn from(error: CatalogError) -> GraphError {
        match error {
            CatalogError::Transient { retry_after_ms, .. } => {
                GraphError::Transient { why: error.to_string(), retry_after_ms }
            }
            CatalogError::Bad { why } => GraphError::Bad { why },
            CatalogError::Gone { what } => GraphError::Gone { what },
        }
    }
}
