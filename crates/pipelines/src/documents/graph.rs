//! Linking: what a chunk is about goes into the graph.
//!
//! What was extracted is remembered by the text, because a model is paid for each. Chunks that have
//! nothing to say (rows of figures, forms) are skipped, with the reason.

use sha2::{Digest as _, Sha256};
use windrow_client::worker::{Handled, Job, Undone, Unread};

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
#[derive(serde::Serialize, Debug)]
pub(super) struct Linked {
    entities_extracted: usize,
    relationships_extracted: usize,
}

impl Parts {
    /// Puts what a chunk is about into the graph.
    pub(super) async fn link(&self, job: &Job<Unread>) -> Handled<Linked> {
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
        match self.linked(&**extractor, job.tenant(), id).await {
            Ok(Ok(linked)) => Ok(linked),
            Ok(Err(reason)) => Err(Undone::skip(reason)),
            Err(fault) => Err(fault.undone()),
        }
    }

    /// How much a chunk said, or why it is skipped.
    async fn linked(
        &self,
        extractor: &dyn Extractor,
        tenant: &str,
        id: ChunkId,
    ) -> Result<Result<Linked, &'static str>, Fault> {
        let gone = || Fault::Gone(format!("chunk {id}"));
        let (piece, metadata) = self.keeping.piece(tenant, id).await?.ok_or_else(gone)?;
        let meta: Option<Meta> = serde_json::from_value(metadata).ok();
        let subject = Subject {
            file_name: &piece.name,
            document_type: meta.as_ref().map(|meta| meta.document_type),
            text: Some(&piece.text),
            disabled: false,
        };
        if let Some(reason) = skip(Phase::Graph, &subject) {
            return Ok(Err(reason.name()));
        }
        let headings = meta.map(|meta| meta.heading_path).unwrap_or_default();
        let said = self.said(extractor, tenant, &piece, &headings).await?;
        self.keeping.put_graph(tenant, &piece, &said).await?;
        Ok(Ok(Linked {
            entities_extracted: said.entities.len(),
            relationships_extracted: said.relationships.len(),
        }))
    }

    /// What a chunk says, read now or remembered.
    async fn said(
        &self,
        extractor: &dyn Extractor,
        tenant: &str,
        piece: &Piece,
        headings: &[String],
    ) -> Result<Extracted, Fault> {
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let context = Context { document: &piece.name, headings: &headings };
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
