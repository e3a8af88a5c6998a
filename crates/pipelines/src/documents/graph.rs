//! Linking: what a chunk is about goes into the graph.
//!
//! What a model extracted is remembered by the text, because it is paid for each. What costs
//! nothing is read anew, and many chunks at a time: each is answered for by itself, so that one
//! that is gone or bad takes no other with it. Chunks that have nothing to say (rows of figures,
//! forms) are skipped, with the reason.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use windrow_client::worker::{Handled, Job, Undone, Unread};

use super::batch::Batches;
use super::elsewhere::{NO_TEXT, below_of};
use super::fault::Fault;
use super::vector::chunk_of;
use super::{Parts, Piece};
use crate::adapters::extract::{Context, ExtractError, Extracted, Extractor};
use crate::catalog::{ChunkId, Hash, MemoKey, MemoOf, content_hash};
use crate::text::chunk::Meta;
use crate::text::skip::{Phase, Subject, skip};

/// The phase that extractions are remembered under.
const PHASE: &str = "graph";
/// Chunks that are linked together at most, if that costs nothing.
const BATCH_MAX: usize = 128;
/// Such batches that are under way at once: one is read while one is written.
const AT_ONCE: usize = 2;
/// Chunks that are read before others have a turn.
const TURN: usize = 16;

/// A chunk of a tenant.
type Wanted = (Arc<str>, ChunkId);

/// How much a chunk said, or why it was skipped.
type Is = Result<Linked, &'static str>;

/// Where chunks are left to be linked.
pub(super) type Linking = Batches<Wanted, Result<Is, Fault>>;

impl From<ExtractError> for Fault {
    fn from(error: ExtractError) -> Fault {
        match error {
            ExtractError::Transient { why, retry_after_ms } => {
                Fault::Passing { why, retry_after_ms }
            }
            ExtractError::Bad { why } => Fault::Bad(why),
        }
    }
}

/// How much a chunk said: the item's result, in the words of the seed's columns.
#[derive(Clone, Copy, PartialEq, Eq, serde::Serialize, Debug)]
pub(super) struct Linked {
    entities_extracted: usize,
    relationships_extracted: usize,
}

impl From<&Extracted> for Linked {
    fn from(said: &Extracted) -> Linked {
        Linked {
            entities_extracted: said.entities.len(),
            relationships_extracted: said.relationships.len(),
        }
    }
}

/// What is known of a chunk before it is read.
struct Known {
    piece: Piece,
    headings: Vec<String>,
}

impl Known {
    /// Or why it is skipped.
    fn of(piece: Piece, metadata: Value) -> Result<Known, &'static str> {
        let meta: Option<Meta> = serde_json::from_value(metadata).ok();
        let subject = Subject {
            file_name: &piece.name,
            document_type: meta.as_ref().map(|meta| meta.document_type),
            text: Some(&piece.text),
            disabled: false,
        };
        if let Some(reason) = skip(Phase::Graph, &subject) {
            return Err(reason.name());
        }
        let headings = meta.map(|meta| meta.heading_path).unwrap_or_default();
        Ok(Known { piece, headings })
    }
}

impl Parts {
    pub(super) fn linking(&self) -> Linking {
        let parts = self.clone();
        Batches::new(BATCH_MAX, AT_ONCE, move |wanted| {
            let parts = parts.clone();
            async move { parts.link_all(wanted).await }.boxed()
        })
    }

    /// Puts what a chunk is about into the graph.
    pub(super) async fn link(&self, linking: &Linking, job: &Job<Unread>) -> Handled<Linked> {
        if let Some(below) = below_of(job) {
            self.chunk_elsewhere(job, &below.graph).await?;
            if below.has_no_text {
                return Err(Undone::skip(NO_TEXT));
            }
        }
        let Some(extractor) = &self.extractor else {
            return Err(Undone::skip("user_disabled"));
        };
        let id = chunk_of(job).map_err(Fault::undone)?;
        let linked = if extractor.is_paid() {
            self.linked(&**extractor, job.tenant(), id).await
        } else {
            let given_up = || Err(Fault::passing("linking was given up"));
            linking.ask((job.tenant().into(), id)).await.unwrap_or_else(given_up)
        };
        linked.map_err(Fault::undone)?.map_err(Undone::skip)
    }

    /// Links a chunk by itself: a model that is asked about one holds up no other.
    async fn linked(
        &self,
        extractor: &dyn Extractor,
        tenant: &str,
        id: ChunkId,
    ) -> Result<Is, Fault> {
        let known = self.keeping.known_pieces(tenant, vec![id]).await?.pop();
        let (piece, metadata) = known.ok_or_else(|| gone(id))?;
        let known = match Known::of(piece, metadata) {
            Ok(known) => known,
            Err(reason) => return Ok(Err(reason)),
        };
        let said = self.said(extractor, tenant, &known).await?;
        self.keeping.put_graph(tenant, &known.piece, &said).await?;
        Ok(Ok(Linked::from(&said)))
    }

    async fn link_all(&self, wanted: Vec<Wanted>) -> Vec<Result<Is, Fault>> {
        // One that is asked for twice is linked once.
        let mut by_tenant = HashMap::<Arc<str>, BTreeSet<ChunkId>>::new();
        for (tenant, id) in &wanted {
            by_tenant.entry(Arc::clone(tenant)).or_default().insert(*id);
        }
        let mut all = HashMap::new();
        for (tenant, ids) in by_tenant {
            match self.link_some(&tenant, ids.iter().copied().collect()).await {
                Ok(each) => all.extend(each),
                Err(fault) => all.extend(ids.into_iter().map(|id| (id, Err(fault.clone())))),
            }
        }
        wanted
            .iter()
            .map(|(_, id)| all.get(id).cloned().unwrap_or_else(|| Err(gone(*id))))
            .collect()
    }

    /// What became of each chunk that is there.
    async fn link_some(
        &self,
        tenant: &str,
        ids: Vec<ChunkId>,
    ) -> Result<Vec<(ChunkId, Result<Is, Fault>)>, Fault> {
        let Some(extractor) = &self.extractor else { return Ok(Vec::new()) };
        let (mut each, mut said) = (Vec::new(), Vec::new());
        for (nth, (piece, metadata)) in (1..).zip(self.keeping.known_pieces(tenant, ids).await?) {
            let id = piece.id;
            match Known::of(piece, metadata) {
                Err(reason) => each.push((id, Ok(Err(reason)))),
                Ok(known) => match self.said(&**extractor, tenant, &known).await {
                    Ok(extracted) => said.push((known.piece, extracted)),
                    Err(fault) => each.push((id, Err(fault))),
                },
            }
            if nth % TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        let kept = self.keeping.put_graphs(tenant, &said).await;
        for ((piece, extracted), kept) in said.iter().zip(kept) {
            each.push((piece.id, kept.map(|()| Ok(extracted.into())).map_err(Fault::from)));
        }
        Ok(each)
    }

    /// What a chunk says, read now or remembered.
    async fn said(
        &self,
        extractor: &dyn Extractor,
        tenant: &str,
        Known { piece, headings }: &Known,
    ) -> Result<Extracted, Fault> {
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let context = Context { document: &piece.name, headings: &headings };
        if !extractor.is_paid() {
            return Ok(extractor.extract(&piece.text, context).await?);
        }
        let of = MemoOf::new(tenant, PHASE);
        let seen = seen(&content_hash(&piece.text), &context);
        let parameters = extractor.parameters();
        let (name, version) = (extractor.name(), extractor.version());
        let key = MemoKey::of(&seen, PHASE, name, version, &parameters);
        let known = self.keeping.remembered(&of, vec![key]).await?.pop().flatten();
        if let Some(said) = known.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            return Ok(said);
        }
        let said = extractor.extract(&piece.text, context).await?;
        let bytes = serde_json::to_vec(&said).map_err(Fault::bad)?;
        self.keeping.remember(&of, vec![(key, bytes)]).await?;
        Ok(said)
    }
}

fn gone(id: ChunkId) -> Fault {
    Fault::Gone(format!("chunk {id}"))
}

/// Everything that an extractor sees.
fn seen(content: &Hash, context: &Context<'_>) -> Hash {
    let mut sum = Sha256::new();
    sum.update(content);
    for part in [context.document].iter().chain(context.headings) {
        sum.update((part.len() as u64).to_be_bytes());
        sum.update(part);
    }
    sum.finalize().into()
}
