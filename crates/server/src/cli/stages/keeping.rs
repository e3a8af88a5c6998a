//! What stages read and write, at a server.

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;
use uuid::Uuid;
use windrow_core::Refusal;
use windrow_core::queue::Error;
use windrow_pipelines::adapters::extract::Extracted;
use windrow_pipelines::catalog::{
    ChunkId, ChunkPlace, GenerationKey, MemoKey, MemoOf, NewChunk, PageKey, PageOutcome,
    vector_bytes,
};
use windrow_pipelines::documents::{Content, Keeping, Kept, Piece, Publication, Unkept};
use windrow_wire::bytes::Base64;
use windrow_wire::stage::{
    Call, Hex, Memo, Reading, StageAnswer, StageCall, VERSION, Vector, Writing,
};

use super::line::Line;
use crate::cli::reach::Ask;
use crate::documents::said;

/// Bytes that a server reads of one call.
const CALL_MAX: usize = 16 << 20;
/// Calls about the chunks of one batch that are under way at once.
const AT_ONCE: usize = 16;

/// What a server keeps.
#[derive(Clone, Debug)]
pub(super) struct AtServer(pub(super) Line);

impl AtServer {
    async fn call(&self, tenant: &str, call: Call) -> Result<StageAnswer, Unkept> {
        let bad = |why: &dyn std::fmt::Display| Unkept::Bad { why: why.to_string() };
        let said = StageCall { tenant: tenant.to_owned(), call };
        let body = serde_json::to_vec(&said).map_err(|error| bad(&error))?;
        if body.len() > CALL_MAX {
            return match said.call {
                // Whoever needs it again does it again.
                Call::Write(Writing::Remember { .. }) => Ok(StageAnswer::Done),
                _ => Err(bad(&format!(
                    "it has {} bytes, and at most {CALL_MAX} can be sent to the server; let the \
                     server do this stage itself",
                    body.len()
                ))),
            };
        }
        let ask = Ask::post(&["documents", "stage-calls"]);
        let ask = ask.with("version", Some(VERSION.to_string()));
        let answered = self.0.ask(ask.of_type("application/json", body.into())).await;
        let body = answered.map_err(|error| match error {
            Error::Refused(refused) if &*refused.code == "too_large" => bad(&refused.message),
            error => Unkept::Passing { why: error.to_string(), retry_after_ms: None },
        })?;
        match serde_json::from_slice(&body) {
            Ok(StageAnswer::Gone { what }) => Err(Unkept::Gone { what }),
            Ok(StageAnswer::Bad { why }) => Err(Unkept::Bad { why }),
            Ok(answer) => Ok(answer),
            Err(_) => Err(strange()),
        }
    }

    async fn read(&self, tenant: &str, reading: Reading) -> Result<StageAnswer, Unkept> {
        self.call(tenant, Call::Read(reading)).await
    }

    async fn write(&self, tenant: &str, writing: Writing) -> Result<StageAnswer, Unkept> {
        self.call(tenant, Call::Write(writing)).await
    }

    /// Writes something to which there is nothing more to say.
    fn done<'a>(&'a self, tenant: &'a str, writing: Writing) -> BoxFuture<'a, Result<(), Unkept>> {
        Box::pin(async move {
            match self.write(tenant, writing).await? {
                StageAnswer::Done => Ok(()),
                _ => Err(strange()),
            }
        })
    }
}

/// An answer to something else.
fn strange() -> Unkept {
    let why = "the server's answer is not understood; run the same windrow here and there";
    Unkept::Passing { why: why.to_owned(), retry_after_ms: None }
}

fn unread(_: Refusal) -> Unkept {
    strange()
}

/// Takes the one answer that fits a question.
macro_rules! answered {
    ($answer:expr, $fits:pat => $given:expr) => {
        match $answer {
            $fits => Ok($given),
            _ => Err(strange()),
        }
    };
}

impl Keeping for AtServer {
    fn begin_pages<'a>(&'a self, tenant: &'a str, of: GenerationKey, pages: u32) -> Kept<'a, ()> {
        self.done(tenant, Writing::BeginPages { of: said::version(of), pages })
    }

    fn fail_generation<'a>(
        &'a self,
        tenant: &'a str,
        at: GenerationKey,
        why: String,
    ) -> Kept<'a, ()> {
        self.done(tenant, Writing::FailGeneration { of: said::version(at), why })
    }

    fn content<'a>(&'a self, tenant: &'a str, at: GenerationKey) -> Kept<'a, Option<Content>> {
        Box::pin(async move {
            let asked = Reading::Content { of: said::version(at) };
            let answer = self.read(tenant, asked).await?;
            answered!(answer, StageAnswer::Content { content } => content.map(said::content_of))
        })
    }

    fn put_page<'a>(
        &'a self,
        tenant: &'a str,
        page: PageKey,
        outcome: PageOutcome,
    ) -> Kept<'a, ()> {
        let (page, outcome) = (said::page(page), said::outcome(outcome));
        self.done(tenant, Writing::PutPage { page, outcome })
    }

    fn markdown<'a>(&'a self, tenant: &'a str, page: PageKey) -> Kept<'a, Option<String>> {
        Box::pin(async move {
            let answer = self.read(tenant, Reading::Markdown { page: said::page(page) }).await?;
            answered!(answer, StageAnswer::Markdown { markdown } => markdown)
        })
    }

    fn pages_read<'a>(&'a self, tenant: &'a str, of: GenerationKey) -> Kept<'a, Vec<u32>> {
        Box::pin(async move {
            let answer = self.read(tenant, Reading::PagesRead { of: said::version(of) }).await?;
            answered!(answer, StageAnswer::Numbers(numbers) => numbers)
        })
    }

    fn put_chunks<'a>(
        &'a self,
        tenant: &'a str,
        page: PageKey,
        chunks: Vec<NewChunk>,
    ) -> Kept<'a, Vec<ChunkId>> {
        Box::pin(async move {
            let chunks: Result<_, Unkept> = chunks.into_iter().map(said::chunk).collect();
            let writing = Writing::PutChunks { page: said::page(page), chunks: chunks? };
            let answer = self.write(tenant, writing).await?;
            let ids = answered!(answer, StageAnswer::Chunks(ids) => ids)?;
            Ok(ids.into_iter().map(|id| ChunkId(id.0)).collect())
        })
    }

    fn places<'a>(
        &'a self,
        tenant: &'a str,
        of: GenerationKey,
        (after_page, after_index): (u32, u32),
    ) -> Kept<'a, Vec<ChunkPlace>> {
        Box::pin(async move {
            let asked = Reading::Places { of: said::version(of), after_page, after_index };
            let answer = self.read(tenant, asked).await?;
            let places = answered!(answer, StageAnswer::Places(places) => places)?;
            Ok(places.into_iter().map(said::place_of).collect())
        })
    }

    fn pieces<'a>(&'a self, tenant: &'a str, ids: Vec<ChunkId>) -> Kept<'a, Vec<Piece>> {
        Box::pin(async move {
            let chunks = ids.into_iter().map(|id| Hex(id.0)).collect();
            let answer = self.read(tenant, Reading::Pieces { chunks }).await?;
            let pieces = answered!(answer, StageAnswer::Pieces(pieces) => pieces)?;
            let piece = |piece| said::piece_of(piece).map(|(piece, _)| piece).map_err(unread);
            pieces.into_iter().map(piece).collect()
        })
    }

    fn known_pieces<'a>(
        &'a self,
        tenant: &'a str,
        ids: Vec<ChunkId>,
    ) -> Kept<'a, Vec<(Piece, Value)>> {
        let known = move |id: ChunkId| async move {
            let answer = self.read(tenant, Reading::Piece { chunk: Hex(id.0) }).await?;
            let piece = answered!(answer, StageAnswer::Piece { piece } => piece)?;
            piece.map(said::piece_of).transpose().map_err(unread)
        };
        Box::pin(async move {
            let known: Vec<Option<(Piece, Value)>> =
                stream::iter(ids).map(known).buffered(AT_ONCE).try_collect().await?;
            Ok(known.into_iter().flatten().collect())
        })
    }

    fn put_vectors<'a>(
        &'a self,
        tenant: &'a str,
        vectors: Vec<(Piece, Vec<f32>)>,
        by: &'a str,
    ) -> Kept<'a, Vec<ChunkId>> {
        let vector = |(piece, vector): (Piece, Vec<f32>)| Vector {
            chunk: Hex(piece.id.0),
            vector: Base64(vector_bytes(&vector)),
        };
        let vectors = vectors.into_iter().map(vector).collect();
        Box::pin(async move {
            let writing = Writing::PutVectors { by: by.to_owned(), vectors };
            let answer = self.write(tenant, writing).await?;
            let gone = answered!(answer, StageAnswer::Chunks(gone) => gone)?;
            Ok(gone.into_iter().map(|id| ChunkId(id.0)).collect())
        })
    }

    fn put_graph<'a>(
        &'a self,
        tenant: &'a str,
        chunk: &'a Piece,
        said: &'a Extracted,
    ) -> Kept<'a, ()> {
        let (entities, relationships) = said::graph(said);
        let chunk = Hex(chunk.id.0);
        self.done(tenant, Writing::PutGraph { chunk, entities, relationships })
    }

    fn put_graphs<'a>(
        &'a self,
        tenant: &'a str,
        said: &'a [(Piece, Extracted)],
    ) -> BoxFuture<'a, Vec<Result<(), Unkept>>> {
        let put = move |(chunk, said): &'a (Piece, Extracted)| self.put_graph(tenant, chunk, said);
        Box::pin(stream::iter(said).map(put).buffered(AT_ONCE).collect())
    }

    fn remembered<'a>(
        &'a self,
        of: &'a MemoOf,
        keys: Vec<MemoKey>,
    ) -> Kept<'a, Vec<Option<Vec<u8>>>> {
        Box::pin(async move {
            let keys = keys.into_iter().map(|key| Hex(key.0)).collect();
            let asked = Reading::Remembered { phase: of.phase.clone(), keys };
            let answer = self.read(&of.tenant, asked).await?;
            let known = answered!(answer, StageAnswer::Remembered(known) => known)?;
            Ok(known.into_iter().map(|one| one.map(|bytes| bytes.0)).collect())
        })
    }

    fn remember<'a>(&'a self, of: &'a MemoOf, values: Vec<(MemoKey, Vec<u8>)>) -> Kept<'a, ()> {
        let memo =
            |(key, value): (MemoKey, Vec<u8>)| Memo { key: Hex(key.0), value: Base64(value) };
        let values = values.into_iter().map(memo).collect();
        self.done(&of.tenant, Writing::Remember { phase: of.phase.clone(), values })
    }

    fn publish<'a>(&'a self, tenant: &'a str, at: GenerationKey) -> Kept<'a, Publication> {
        Box::pin(async move {
            match self.write(tenant, Writing::Publish { of: said::version(at) }).await? {
                StageAnswer::Live { old } => Ok(Publication::Live { old }),
                StageAnswer::Superseded { live } => Ok(Publication::Superseded { live }),
                StageAnswer::Empty { why } => Ok(Publication::Empty { why }),
                _ => Err(strange()),
            }
        })
    }

    fn remove_generation<'a>(&'a self, tenant: &'a str, at: GenerationKey) -> Kept<'a, ()> {
        self.done(tenant, Writing::RemoveGeneration { of: said::version(at) })
    }

    fn remove_document<'a>(&'a self, tenant: &'a str, document: Uuid) -> Kept<'a, bool> {
        Box::pin(async move {
            let writing = Writing::RemoveDocument { document: document.to_string() };
            let answer = self.write(tenant, writing).await?;
            answered!(answer, StageAnswer::Removed(removed) => removed)
        })
    }
}
