//! Everything at hand: a catalog, a store of vectors and a graph, as stages see them.

use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use serde_json::Value;
use uuid::Uuid;

use super::Clock;
use super::elsewhere;
use super::keeping::{Content, Keeping, Kept, Piece, Publication, Unkept};
use super::vector::without_vector;
use crate::adapters::extract::Extracted;
use crate::adapters::graph::{Graph, GraphError, Origin};
use crate::adapters::vectors::{self, Vectors, VectorsError};
use crate::catalog::{
    Catalog, CatalogError, ChunkId, ChunkPlace, ChunkText, Deleted, DocumentState, GenerationKey,
    GenerationState, LIMIT_MAX, ManifestOutcome, MemoKey, MemoOf, NewChunk, NewVector, PageKey,
    PageOutcome, Published, Scope,
};

/// Everything at hand. The catalog knows whose a document is, so that who writes is believed.
#[derive(Clone, Debug)]
pub struct AtHand {
    pub catalog: Arc<dyn Catalog>,
    /// Where vectors go beside the catalog; none if the built-in index follows the catalog.
    pub vectors: Option<Arc<dyn Vectors>>,
    pub graph: Arc<dyn Graph>,
    pub clock: Arc<dyn Clock>,
}

/// Where a document goes from besides the catalog, as `remove` notes it.
pub(super) const SINKS: [&str; 2] = ["vectors", "graph"];

/// Chunks that are looked at for words.
const LOOKED_AT: u32 = 100;

impl AtHand {
    async fn all_read(&self, tenant: &str, of: GenerationKey) -> Result<Vec<u32>, Unkept> {
        let (mut numbers, mut after) = (Vec::new(), 0);
        loop {
            let lines = self.catalog.manifest(tenant, of, after, LIMIT_MAX).await?;
            let Some(last) = lines.last() else { return Ok(numbers) };
            after = last.number;
            let read =
                lines.iter().filter(|line| matches!(line.outcome, ManifestOutcome::Read { .. }));
            numbers.extend(read.map(|line| line.number));
        }
    }

    async fn known(&self, tenant: &str, ids: Vec<ChunkId>) -> Result<Vec<(Piece, Value)>, Unkept> {
        let texts = self.catalog.chunk_texts(tenant, ids).await?;
        let known = |mut text: ChunkText| {
            let metadata = text.metadata.take();
            (text.into(), metadata)
        };
        Ok(texts.into_iter().map(known).collect())
    }

    async fn keep_vectors(
        &self,
        tenant: &str,
        vectors: Vec<(Piece, Vec<f32>)>,
        by: &str,
    ) -> Result<Vec<ChunkId>, Unkept> {
        let ids: Vec<ChunkId> = vectors.iter().map(|(chunk, _)| chunk.id).collect();
        let marked = match &self.vectors {
            Some(store) => {
                let tenant: Arc<str> = tenant.into();
                let point = |(chunk, vector): (Piece, Vec<f32>)| {
                    let point = vectors::Point {
                        id: chunk.id.0,
                        document: chunk.page.document,
                        generation: chunk.page.generation,
                        page: chunk.page.number,
                        tenant: Arc::clone(&tenant),
                        collection: chunk.collection.into(),
                    };
                    (point, vector)
                };
                let points: Vec<_> = vectors.into_iter().map(point).collect();
                store.put(&points).await?;
                self.catalog.mark_embedded(ids.clone(), by).await?
            }
            None => {
                let new =
                    |(chunk, vector): (Piece, Vec<f32>)| NewVector { chunk: chunk.id, vector };
                self.catalog.put_embedded(vectors.into_iter().map(new).collect(), by).await?
            }
        };
        if marked as usize == ids.len() {
            return Ok(Vec::new());
        }
        self.take_back(ids, by).await
    }

    /// Removes vectors of chunks that went while they were embedded.
    async fn take_back(&self, ids: Vec<ChunkId>, by: &str) -> Result<Vec<ChunkId>, Unkept> {
        let mut gone = Vec::new();
        for id in ids {
            if self.catalog.mark_embedded(vec![id], by).await? == 1 {
                continue;
            }
            if let Some(store) = &self.vectors {
                store.remove_chunks(&[id.0]).await?;
            }
            gone.push(id);
        }
        Ok(gone)
    }

    async fn make_live(&self, tenant: &str, at: GenerationKey) -> Result<Publication, Unkept> {
        if let Some(why) = self.is_empty(tenant, at).await? {
            self.catalog.fail_generation(at, Some(why.clone())).await?;
            return Ok(Publication::Empty { why });
        }
        Ok(match self.catalog.publish(at, self.clock.now()).await? {
            Published::Live { old } => Publication::Live { old },
            Published::Superseded { live } => Publication::Superseded { live },
        })
    }

    /// Why a generation is not to be seen: nothing came of it.
    async fn is_empty(&self, tenant: &str, at: GenerationKey) -> Result<Option<String>, Unkept> {
        let Some(progress) = self.catalog.progress(tenant, at).await? else { return Ok(None) };
        if progress.pages_read == 0 && progress.pages_without > 0 {
            let first = self.catalog.manifest(tenant, at, 0, 1).await?.pop();
            let why = match first.map(|line| line.outcome) {
                Some(ManifestOutcome::Without { reason }) => reason,
                _ => "the manifest has the reasons".to_owned(),
            };
            return Ok(Some(format!("no page could be read; the first: {why}")));
        }
        let known = self.catalog.generation(tenant, at).await?;
        // One that was read elsewhere may be of no pages that anybody knows of.
        let is_read_here =
            known.is_some_and(|known| known.content.media_type != elsewhere::MEDIA_TYPE);
        if progress.pages.is_none() && is_read_here {
            let why = "nobody split it into pages: whoever completed that stage was no worker of \
                       documents; add it again";
            return Ok(Some(why.to_owned()));
        }
        let known = self.catalog.document(tenant, at.document).await?;
        let replaces = known.and_then(|known| known.live).is_some_and(|live| live != at.generation);
        if replaces && progress.chunks_embedded == 0 && self.has_words(tenant, at).await? {
            let why = "nothing of it could be embedded; the version before stays";
            return Ok(Some(why.to_owned()));
        }
        Ok(None)
    }

    /// Whether one of the first chunks has words, of which there should be a vector.
    async fn has_words(&self, tenant: &str, at: GenerationKey) -> Result<bool, Unkept> {
        let places = self.catalog.chunk_places(tenant, at, (0, 0), LOOKED_AT).await?;
        let ids = places.into_iter().map(|place| place.id).collect();
        let texts = self.catalog.chunk_texts(tenant, ids).await?;
        Ok(texts.iter().any(|chunk| without_vector(&chunk.name, &chunk.text).is_none()))
    }

    pub(super) async fn remove_old(&self, at: GenerationKey) -> Result<(), Unkept> {
        if let Some(vectors) = &self.vectors {
            vectors.remove_generation(at.document, at.generation).await?;
        }
        self.graph.remove_generation(at).await?;
        Ok(self.catalog.remove_generation(at).await?)
    }

    async fn remove_all(&self, tenant: &str, document: Uuid) -> Result<bool, Unkept> {
        let known = self.catalog.document(tenant, document).await?;
        match known.map(|known| known.state) {
            None => return Err(Unkept::Gone { what: format!("document {document}") }),
            Some(DocumentState::Deleting) => {}
            Some(_) => return Ok(false),
        }
        let [in_vectors, in_graph] = SINKS;
        if let Some(vectors) = &self.vectors {
            vectors.remove_document(document).await?;
        }
        self.catalog.confirm_delete(document, in_vectors).await?;
        self.graph.remove_document(document).await?;
        self.catalog.confirm_delete(document, in_graph).await?;
        match self.catalog.delete_document(document).await? {
            Deleted::Gone => Ok(true),
            Deleted::Waiting { sinks } => {
                let why = format!("not confirmed yet: {}", sinks.join(", "));
                Err(Unkept::Passing { why, retry_after_ms: None })
            }
        }
    }
}

impl Keeping for AtHand {
    fn begin_pages<'a>(&'a self, _tenant: &'a str, of: GenerationKey, pages: u32) -> Kept<'a, ()> {
        Box::pin(async move { Ok(self.catalog.begin_pages(of, pages).await?) })
    }

    fn fail_generation<'a>(
        &'a self,
        _tenant: &'a str,
        at: GenerationKey,
        why: String,
    ) -> Kept<'a, ()> {
        Box::pin(async move { Ok(self.catalog.fail_generation(at, Some(why)).await?) })
    }

    fn content<'a>(&'a self, tenant: &'a str, at: GenerationKey) -> Kept<'a, Option<Content>> {
        Box::pin(async move {
            let known = self.catalog.generation(tenant, at).await?;
            let known = known.filter(|known| known.state != GenerationState::Old);
            let content = |hash, bytes| Content { hash, bytes };
            Ok(known.map(|known| content(known.content.hash, known.content.bytes)))
        })
    }

    fn put_page<'a>(
        &'a self,
        _tenant: &'a str,
        page: PageKey,
        outcome: PageOutcome,
    ) -> Kept<'a, ()> {
        Box::pin(async move { Ok(self.catalog.put_page(page, outcome).await?) })
    }

    fn markdown<'a>(&'a self, tenant: &'a str, page: PageKey) -> Kept<'a, Option<String>> {
        Box::pin(async move {
            let known = self.catalog.page(tenant, page).await?;
            Ok(known.and_then(|known| match known.outcome {
                PageOutcome::Read { markdown, .. } => Some(markdown),
                PageOutcome::Waiting | PageOutcome::Without { .. } => None,
            }))
        })
    }

    fn pages_read<'a>(&'a self, tenant: &'a str, of: GenerationKey) -> Kept<'a, Vec<u32>> {
        Box::pin(self.all_read(tenant, of))
    }

    fn put_chunks<'a>(
        &'a self,
        _tenant: &'a str,
        page: PageKey,
        chunks: Vec<NewChunk>,
    ) -> Kept<'a, Vec<ChunkId>> {
        Box::pin(async move { Ok(self.catalog.put_chunks(page, chunks).await?) })
    }

    fn places<'a>(
        &'a self,
        tenant: &'a str,
        of: GenerationKey,
        after: (u32, u32),
    ) -> Kept<'a, Vec<ChunkPlace>> {
        Box::pin(async move { Ok(self.catalog.chunk_places(tenant, of, after, LIMIT_MAX).await?) })
    }

    fn pieces<'a>(&'a self, tenant: &'a str, ids: Vec<ChunkId>) -> Kept<'a, Vec<Piece>> {
        Box::pin(async move {
            let texts = self.catalog.chunk_texts(tenant, ids).await?;
            Ok(texts.into_iter().map(Piece::from).collect())
        })
    }

    fn known_pieces<'a>(
        &'a self,
        tenant: &'a str,
        ids: Vec<ChunkId>,
    ) -> Kept<'a, Vec<(Piece, Value)>> {
        Box::pin(self.known(tenant, ids))
    }

    fn put_vectors<'a>(
        &'a self,
        tenant: &'a str,
        vectors: Vec<(Piece, Vec<f32>)>,
        by: &'a str,
    ) -> Kept<'a, Vec<ChunkId>> {
        Box::pin(self.keep_vectors(tenant, vectors, by))
    }

    fn put_graph<'a>(
        &'a self,
        tenant: &'a str,
        chunk: &'a Piece,
        said: &'a Extracted,
    ) -> Kept<'a, ()> {
        Box::pin(async move {
            let scope = Scope::new(tenant, chunk.collection.as_str());
            let origin = Origin { chunk: chunk.id, at: chunk.page.of(), scope };
            Ok(self.graph.put(&origin, said).await?)
        })
    }

    fn put_graphs<'a>(
        &'a self,
        tenant: &'a str,
        said: &'a [(Piece, Extracted)],
    ) -> BoxFuture<'a, Vec<Result<(), Unkept>>> {
        // A catalog that writes alone has them all before its next commit.
        Box::pin(join_all(said.iter().map(|(chunk, said)| self.put_graph(tenant, chunk, said))))
    }

    fn remembered<'a>(
        &'a self,
        of: &'a MemoOf,
        keys: Vec<MemoKey>,
    ) -> Kept<'a, Vec<Option<Vec<u8>>>> {
        Box::pin(async move { Ok(self.catalog.memo_get(of, keys, self.clock.now()).await?) })
    }

    fn remember<'a>(&'a self, of: &'a MemoOf, values: Vec<(MemoKey, Vec<u8>)>) -> Kept<'a, ()> {
        Box::pin(async move { Ok(self.catalog.memo_put(of, values, self.clock.now()).await?) })
    }

    fn publish<'a>(&'a self, tenant: &'a str, at: GenerationKey) -> Kept<'a, Publication> {
        Box::pin(self.make_live(tenant, at))
    }

    fn remove_generation<'a>(&'a self, _tenant: &'a str, at: GenerationKey) -> Kept<'a, ()> {
        Box::pin(self.remove_old(at))
    }

    fn remove_document<'a>(&'a self, tenant: &'a str, document: Uuid) -> Kept<'a, bool> {
        Box::pin(self.remove_all(tenant, document))
    }
}

impl From<ChunkText> for Piece {
    fn from(text: ChunkText) -> Piece {
        let ChunkText { id, page, collection, name, text, .. } = text;
        Piece { id, page, collection, name, text }
    }
}

impl From<CatalogError> for Unkept {
    fn from(error: CatalogError) -> Unkept {
        match error {
            CatalogError::Transient { retry_after_ms, .. } => {
                Unkept::Passing { why: error.to_string(), retry_after_ms }
            }
            CatalogError::Bad { why } => Unkept::Bad { why },
            CatalogError::Gone { what } => Unkept::Gone { what },
        }
    }
}

impl From<VectorsError> for Unkept {
    fn from(error: VectorsError) -> Unkept {
        match error {
            VectorsError::Transient { why, retry_after_ms } => {
                Unkept::Passing { why, retry_after_ms }
            }
            VectorsError::Bad { .. } | VectorsError::Dimension { .. } => {
                Unkept::Bad { why: error.to_string() }
            }
        }
    }
}

impl From<GraphError> for Unkept {
    fn from(error: GraphError) -> Unkept {
        match error {
            GraphError::Transient { why, retry_after_ms } => {
                Unkept::Passing { why, retry_after_ms }
            }
            GraphError::Bad { why } => Unkept::Bad { why },
            GraphError::Gone { what } => Unkept::Gone { what },
        }
    }
}
