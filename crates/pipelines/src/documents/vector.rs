//! Embedding: chunks become vectors, many at a time.
//!
//! An embedder answers for each text, so that here nobody looks for the one that is to blame when a
//! whole batch is refused: whoever asks an endpoint does (`adapters/embed/openai.rs`), and says of
//! one text that it is bad, and of a rate limit or an outage that it may pass. What an endpoint was
//! paid for is remembered by the text; the built-in embedder is quicker than remembering.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures_util::FutureExt as _;
use windrow_client::worker::{Handled, Job, Undone, Unread};

use super::batch::Batches;
use super::elsewhere::{NO_TEXT, below_of};
use super::fault::Fault;
use super::{Parts, Piece, bytes_of};
use crate::catalog::{ChunkId, MemoKey, MemoOf, content_hash, embedder, vector_bytes, vector_of};
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
        // One that is asked for twice is embedded once.
        let mut by_tenant = HashMap::<Arc<str>, BTreeSet<ChunkId>>::new();
        for (tenant, id) in &wanted {
            by_tenant.entry(Arc::clone(tenant)).or_default().insert(*id);
        }
        let mut all = HashMap::new();
        for (tenant, ids) in by_tenant {
            match self.embed(&tenant, ids.iter().copied().collect()).await {
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
        for chunk in self.keeping.pieces(tenant, ids).await? {
            match without_vector(&chunk.name, &chunk.text) {
                Some(reason) => {
                    each.insert(chunk.id, Ok(Embedded::Skipped(reason)));
                }
                None => chunks.push(chunk),
            }
        }
        let made = self.vectors_of(tenant, &chunks).await?;
        for (chunk, vector) in chunks.into_iter().zip(made) {
            match vector {
                Ok(vector) => vectors.push((chunk, vector)),
                Err(fault) => {
                    each.insert(chunk.id, Err(fault));
                }
            }
        }
        each.extend(self.keep(tenant, vectors).await);
        Ok(each)
    }

    /// Keeps vectors. If they are refused, those of each document by themselves: one that does not
    /// belong into its collection takes no other with it.
    async fn keep(&self, tenant: &str, mut vectors: Vec<Vector>) -> Vec<(ChunkId, Is)> {
        if vectors.is_empty() {
            return Vec::new();
        }
        let together = self.keep_together(tenant, &vectors).await;
        if !together.iter().any(|(_, is)| matches!(is, Err(Fault::Bad(_)))) {
            return together;
        }
        let mut each = Vec::new();
        vectors.sort_by_key(|(chunk, _)| chunk.page.document);
        for some in vectors.chunk_by(|(one, _), (two, _)| one.page.document == two.page.document) {
            each.extend(self.keep_together(tenant, some).await);
        }
        each
    }

    async fn keep_together(&self, tenant: &str, vectors: &[Vector]) -> Vec<(ChunkId, Is)> {
        let by = embedder(self.embedder.name(), self.embedder.version());
        let gone = self.keeping.put_vectors(tenant, vectors.to_vec(), &by).await;
        let is = |id: ChunkId| match &gone {
            Ok(gone) if gone.contains(&id) => Err(Fault::Gone(format!("chunk {id}"))),
            Ok(_) => Ok(Embedded::Done),
            Err(error) => Err(error.clone().into()),
        };
        vectors.iter().map(|(chunk, _)| (chunk.id, is(chunk.id))).collect()
    }

    /// The vector of each chunk, made now or remembered.
    async fn vectors_of(
        &self,
        tenant: &str,
        chunks: &[Piece],
    ) -> Result<Vec<Result<Vec<f32>, Fault>>, Fault> {
        let (name, version) = (self.embedder.name(), self.embedder.version());
        let of = MemoOf::new(tenant, PHASE);
        let key = |chunk: &Piece| MemoKey::of(&content_hash(&chunk.text), PHASE, name, version, "");
        let is_paid = self.embedder.is_paid();
        let keys: Vec<MemoKey> =
            if is_paid { chunks.iter().map(key).collect() } else { Vec::new() };
        let mut made: Vec<Option<Result<Vec<f32>, Fault>>> = vec![None; chunks.len()];
        if is_paid {
            let known = self.keeping.remembered(&of, keys.clone()).await?;
            let dimension = self.embedder.dimension();
            for (made, known) in made.iter_mut().zip(known) {
                let known = known.and_then(|bytes| vector_of(&bytes).ok());
                // One of another length was made by something else, whatever its version says.
                let fits = |one: &Vec<f32>| dimension.is_none_or(|length| length == one.len());
                *made = known.filter(fits).map(Ok);
            }
        }
        let missing: Vec<usize> = (0..chunks.len()).filter(|at| made[*at].is_none()).collect();
        let texts: Vec<&str> = missing.iter().map(|at| &*chunks[*at].text).collect();
        let embedded = self.embedder.embed(&texts).await;
        let mut remember = Vec::new();
        for (at, embedded) in missing.into_iter().zip(embedded) {
            if let Ok(vector) = &embedded
                && is_paid
            {
                remember.push((keys[at], vector_bytes(vector)));
            }
            made[at] = Some(embedded.map_err(Fault::from));
        }
        if !remember.is_empty() {
            self.keeping.remember(&of, remember).await?;
        }
        let unmade = || Err(Fault::passing("the embedder did not answer for this text"));
        Ok(made.into_iter().map(|made| made.unwrap_or_else(unmade)).collect())
    }
}

/// What became of a chunk, or why nothing did.
type Is = Result<Embedded, Fault>;

/// A chunk and its vector.
type Vector = (Piece, Vec<f32>);

/// Why a chunk of a file gets no vector, if it gets none.
pub(super) fn without_vector(file_name: &str, text: &str) -> Option<&'static str> {
    let subject = Subject { file_name, document_type: None, text: Some(text), disabled: false };
    skip(Phase::Vector, &subject).map(|reason| reason.name())
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
