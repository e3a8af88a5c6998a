//! Embedding: chunks become vectors, many at a time.
//!
//! An embedder answers for each text, so that here nobody looks for the one that is to blame when a
//! whole batch is refused: whoever asks an endpoint does (`adapters/embed/openai.rs`), and says of
//! one text that it is bad, and of a rate limit or an outage that it may pass. What an endpoint was
//! paid for is remembered by the text; the built-in embedder is quicker than remembering.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use windrow_client::worker::{Handled, Job, Undone, Unread};

use super::batch::Batches;
use super::elsewhere::{NO_TEXT, below_of};
use super::fault::Fault;
use super::{Parts, bytes_of};
use crate::adapters::vectors::Point;
use crate::catalog::{
    ChunkId, ChunkText, MemoKey, MemoOf, NewVector, content_hash, embedder, vector_bytes, vector_of,
};
use crate::text::skip::{Phase, Subject, skip};

/// Chunks that are embedded together at most.
const BATCH_MAX: usize = 128;
/// Such batches that are under way at once: one is computed or asked for while one is written.
const AT_ONCE: usize = 2;
/// The phase that vectors are remembered under.
const PHASE: &str = "vector";

/// A chunk of a tenant.
type Wanted = (Arc<str>, ChunkId);

/// Where chunks are left to be embedded.
pub(super) type Embedding = Batches<Wanted, Result<Embedded, Fault>>;

/// What became of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Embedded {
    Done,
    /// There is nothing in it to be embedded.
    Skipped(&'static str),
}

impl Parts {
    pub(super) fn embedding(&self) -> Embedding {
        let parts = self.clone();
        Batches::new(BATCH_MAX, AT_ONCE, move |wanted| {
            let parts = parts.clone();
            async move { parts.embed_all(wanted).await }.boxed()
        })
    }

    async fn embed_all(&self, wanted: Vec<Wanted>) -> Vec<Result<Embedded, Fault>> {
        let mut by_tenant = HashMap::<Arc<str>, Vec<ChunkId>>::new();
        for (tenant, id) in &wanted {
            by_tenant.entry(Arc::clone(tenant)).or_default().push(*id);
        }
        let mut all = HashMap::new();
        for (tenant, ids) in by_tenant {
            match self.embed(&tenant, ids.clone()).await {
                Ok(each) => all.extend(each),
                Err(fault) => all.extend(ids.into_iter().map(|id| (id, Err(fault.clone())))),
            }
        }
        let gone = |id: &ChunkId| Err(Fault::Gone(format!("chunk {id}")));
        wanted.iter().map(|(_, id)| all.get(id).cloned().unwrap_or_else(|| gone(id))).collect()
    }

    async fn embed(
        &self,
        tenant: &str,
        ids: Vec<ChunkId>,
    ) -> Result<HashMap<ChunkId, Result<Embedded, Fault>>, Fault> {
        let mut each = HashMap::new();
        let (mut chunks, mut vectors) = (Vec::new(), Vec::new());
        for chunk in self.catalog.chunk_texts(tenant, ids).await? {
            let text = Some(&*chunk.text);
            let subject =
                Subject { file_name: &chunk.name, document_type: None, text, disabled: false };
            match skip(Phase::Vector, &subject) {
                Some(reason) => {
                    each.insert(chunk.id, Ok(Embedded::Skipped(reason.name())));
                }
                None => chunks.push(chunk),
            }
        }
        let made = self.vectors_of(tenant, &chunks).await?;
        for (chunk, vector) in chunks.iter().zip(made) {
            match vector {
                Ok(vector) => vectors.push((chunk, vector)),
                Err(fault) => {
                    each.insert(chunk.id, Err(fault));
                }
            }
        }
        self.keep(tenant, &vectors).await?;
        each.extend(vectors.iter().map(|(chunk, _)| (chunk.id, Ok(Embedded::Done))));
        Ok(each)
    }

    /// The vector of each chunk, made now or remembered.
    async fn vectors_of(
        &self,
        tenant: &str,
        chunks: &[ChunkText],
    ) -> Result<Vec<Result<Vec<f32>, Fault>>, Fault> {
        let (name, version) = (self.embedder.name(), self.embedder.version());
        let (of, now) = (MemoOf::new(tenant, PHASE), self.clock.now());
        let key =
            |chunk: &ChunkText| MemoKey::of(&content_hash(&chunk.text), PHASE, name, version, "");
        let keys: Vec<MemoKey> = chunks.iter().map(key).collect();
        let mut made: Vec<Option<Result<Vec<f32>, Fault>>> = vec![None; chunks.len()];
        if self.embedder.is_paid() {
            let known = self.catalog.memo_get(&of, keys.clone(), now).await?;
            for (made, known) in made.iter_mut().zip(known) {
                *made = known.and_then(|bytes| vector_of(&bytes).ok()).map(Ok);
            }
        }
        let missing: Vec<usize> = (0..chunks.len()).filter(|at| made[*at].is_none()).collect();
        let texts: Vec<&str> = missing.iter().map(|at| &*chunks[*at].text).collect();
        let embedded = self.embedder.embed(&texts).await;
        let mut remember = Vec::new();
        for (at, embedded) in missing.into_iter().zip(embedded) {
            if let Ok(vector) = &embedded {
                remember.push((keys[at], vector_bytes(vector)));
            }
            made[at] = Some(embedded.map_err(Fault::from));
        }
        if self.embedder.is_paid() && !remember.is_empty() {
            self.catalog.memo_put(&of, remember, now).await?;
        }
        let unmade = || Err(Fault::passing("the embedder did not answer for this text"));
        Ok(made.into_iter().map(|made| made.unwrap_or_else(unmade)).collect())
    }

    /// Puts vectors where they are searched, and notes that they are there.
    async fn keep(&self, tenant: &str, vectors: &[(&ChunkText, Vec<f32>)]) -> Result<(), Fault> {
        if vectors.is_empty() {
            return Ok(());
        }
        match &self.vectors {
            Some(store) => {
                let tenant: Arc<str> = tenant.into();
                let point = |chunk: &ChunkText| Point {
                    id: chunk.id.0,
                    document: chunk.page.document,
                    generation: chunk.page.generation,
                    page: chunk.page.number,
                    tenant: Arc::clone(&tenant),
                    collection: chunk.collection.as_str().into(),
                };
                let points: Vec<_> =
                    vectors.iter().map(|(chunk, vector)| (point(chunk), vector.clone())).collect();
                store.put(&points).await?;
            }
            None => {
                let new = |(chunk, vector): &(&ChunkText, Vec<f32>)| NewVector {
                    chunk: chunk.id,
                    vector: vector.clone(),
                };
                self.catalog.put_vectors(vectors.iter().map(new).collect()).await?;
            }
        }
        let ids = vectors.iter().map(|(chunk, _)| chunk.id).collect();
        let by = embedder(self.embedder.name(), self.embedder.version());
        self.catalog.mark_embedded(ids, &by).await?;
        Ok(())
    }
}

/// The chunk that an item is about.
pub(super) fn chunk_of(job: &Job<Unread>) -> Result<ChunkId, Fault> {
    let id = job.work().body.reference.as_deref().and_then(bytes_of).map(ChunkId);
    id.ok_or_else(|| Fault::bad("the item does not say which chunk it is about"))
}

/// Embeds a chunk, together with others.
pub(super) async fn vector(parts: &Parts, embedding: &Embedding, job: &Job<Unread>) -> Handled<()> {
    let id = chunk_of(job).map_err(Fault::undone)?;
    if let Some(below) = below_of(job) {
        parts.chunk_elsewhere(job, &below.vector).await?;
        if below.has_no_text {
            return Err(Undone::skip(NO_TEXT));
        }
    }
    let given_up = || Err(Fault::passing("embedding was given up"));
    let embedded = embedding.ask((job.tenant().into(), id)).await;
    match embedded.unwrap_or_else(given_up).map_err(Fault::undone)? {
        Embedded::Done => Ok(()),
        Embedded::Skipped(reason) => Err(Undone::skip(reason)),
    }
}
