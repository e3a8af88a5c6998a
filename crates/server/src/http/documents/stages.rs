//! Stages that are done elsewhere: what their workers must know, read and write.
//!
//! A call is about documents of one tenant, which it names and which the caller must be for. What
//! it names of another tenant is answered as if it were not there, whoever asks.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use serde::Deserialize;
use uuid::Uuid;
use windrow_core::{Refusal, text};
use windrow_pipelines::catalog::{
    CatalogError, ChunkId, GenerationKey, GenerationState, MemoKey, MemoOf, embedder, vector_of,
};
use windrow_pipelines::documents::{Publication, Unkept};
use windrow_wire::bytes::Base64;
use windrow_wire::problem::{Code, Problem};
use windrow_wire::stage::{
    Call, Embedder, Hex, Memo, Reading, StageAnswer, StageCall, StagesHere, VERSION, Vector,
    Version, Writing,
};

use super::super::App;
use super::super::reply::{Asked, Failed, Read};
use crate::auth::Scoped;
use crate::documents::{Opened, said};

pub(super) const PARAMETERS: &[(&str, &str)] =
    &[("version", "the calls that are spoken, as GET /documents/stages says them")];

/// What a worker must know before it begins.
pub(super) async fn here(State(app): State<Arc<App>>) -> Result<Json<StagesHere>, Failed> {
    let embedder = app.documents.opened().await?.embedder();
    let embedder =
        Embedder { name: embedder.name().to_owned(), version: embedder.version().to_owned() };
    let stages = app.documents.stages().names().map(str::to_owned).collect();
    Ok(Json(StagesHere { version: VERSION, stages, embedder }))
}

/// Somebody who speaks the calls of this server. Looked at before the body, which nobody could read
/// otherwise.
pub(super) struct Speaks;

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Said {
    version: Option<String>,
}

impl FromRequestParts<Arc<App>> for Speaks {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Speaks, Failed> {
        let Asked(Said { version }) = Asked::from_request_parts(parts, app).await?;
        let ours = VERSION.to_string();
        match version.as_deref() {
            Some(version) if version == ours => Ok(Speaks),
            Some(_) => Err(Refusal::invalid(
                "version",
                format!("this server speaks {ours}; run the same windrow here and there"),
            )
            .into()),
            None => Err(Refusal::invalid("version", format!("must be said: {ours}")).into()),
        }
    }
}

/// Does what a stage asks.
pub(super) async fn call(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    _speaks: Speaks,
    Read(asked): Read<StageCall>,
) -> Result<Json<StageAnswer>, Failed> {
    let StageCall { tenant, call } = asked;
    text::name("tenant", &tenant, true)?;
    scoped.own(&tenant)?;
    if !app.documents.is_begun().await? {
        return Ok(Json(StageAnswer::Gone { what: "every document".to_owned() }));
    }
    let opened = app.documents.opened().await?;
    match (Desk { opened, tenant: &tenant }).does(call).await {
        Ok(answer) => Ok(Json(answer)),
        Err(Not::Unkept(Unkept::Gone { what })) => Ok(Json(StageAnswer::Gone { what })),
        Err(Not::Unkept(Unkept::Bad { why })) => Ok(Json(StageAnswer::Bad { why })),
        Err(Not::Unkept(Unkept::Passing { why, retry_after_ms })) => {
            let problem = Problem::new(Code::StoreFailed, why);
            Err(Failed(problem.retry_after(retry_after_ms.unwrap_or(1_000))))
        }
        Err(Not::Refused(failed)) => Err(failed),
    }
}

/// Why a call was not done.
enum Not {
    Unkept(Unkept),
    Refused(Failed),
}

impl From<Unkept> for Not {
    fn from(error: Unkept) -> Not {
        Not::Unkept(error)
    }
}

impl From<CatalogError> for Not {
    fn from(error: CatalogError) -> Not {
        Not::Unkept(error.into())
    }
}

fn refused(refusal: Refusal) -> Not {
    Not::Refused(refusal.into())
}

/// Where calls about one tenant's documents are done.
struct Desk<'a> {
    opened: &'a Opened,
    tenant: &'a str,
}

impl Desk<'_> {
    async fn does(&self, call: Call) -> Result<StageAnswer, Not> {
        match call {
            Call::Read(reading) => self.reads(reading).await,
            Call::Write(writing) => self.writes(writing).await,
        }
    }

    /// What is only read. The catalog shows nothing of another tenant.
    async fn reads(&self, asked: Reading) -> Result<StageAnswer, Not> {
        let (keeping, tenant) = (self.opened.keeping(), self.tenant);
        let at = |of| said::generation(of).map_err(refused);
        Ok(match asked {
            Reading::Content { of } => {
                let content = keeping.content(tenant, at(&of)?).await?;
                StageAnswer::Content { content: content.map(said::content) }
            }
            Reading::Markdown { page } => {
                let page = said::page_key(&page).map_err(refused)?;
                StageAnswer::Markdown { markdown: keeping.markdown(tenant, page).await? }
            }
            Reading::PagesRead { of } => {
                StageAnswer::Numbers(keeping.pages_read(tenant, at(&of)?).await?)
            }
            Reading::Places { of, after_page, after_index } => {
                let places = keeping.places(tenant, at(&of)?, (after_page, after_index)).await?;
                StageAnswer::Places(places.into_iter().map(said::place).collect())
            }
            Reading::Pieces { chunks } => {
                let pieces = keeping.pieces(tenant, ids(&chunks)).await?.into_iter();
                let pieces: Result<_, Unkept> =
                    pieces.map(|piece| said::piece(piece, None)).collect();
                StageAnswer::Pieces(pieces?)
            }
            Reading::Piece { chunk } => {
                let found = keeping.known_pieces(tenant, ids(&[chunk])).await?.pop();
                let piece = found.map(|(piece, known)| said::piece(piece, Some(&known)));
                StageAnswer::Piece { piece: piece.transpose()? }
            }
            Reading::Remembered { phase, keys } => {
                let keys = keys.into_iter().map(|key| MemoKey(key.0)).collect();
                let known = keeping.remembered(&MemoOf::new(tenant, phase), keys).await?;
                StageAnswer::Remembered(known.into_iter().map(|one| one.map(Base64)).collect())
            }
        })
    }

    async fn writes(&self, made: Writing) -> Result<StageAnswer, Not> {
        let (keeping, tenant) = (self.opened.keeping(), self.tenant);
        match made {
            Writing::BeginPages { of, pages } => {
                keeping.begin_pages(tenant, self.own(&of).await?, pages).await?;
            }
            Writing::FailGeneration { of, why } => {
                keeping.fail_generation(tenant, self.own(&of).await?, why).await?;
            }
            Writing::PutPage { page, outcome } => {
                let page = said::page_key(&page).map_err(refused)?;
                self.must_own(page.document, &page).await?;
                keeping.put_page(tenant, page, said::outcome_of(outcome)).await?;
            }
            Writing::PutChunks { page, chunks } => {
                let page = said::page_key(&page).map_err(refused)?;
                self.must_own(page.document, &page).await?;
                let chunks: Result<_, Refusal> = chunks.into_iter().map(said::chunk_of).collect();
                let ids = keeping.put_chunks(tenant, page, chunks.map_err(refused)?).await?;
                return Ok(StageAnswer::Chunks(ids.into_iter().map(|id| Hex(id.0)).collect()));
            }
            Writing::PutVectors { by, vectors } => {
                let gone = self.put_vectors(&by, vectors).await?;
                return Ok(StageAnswer::Chunks(gone.into_iter().map(|id| Hex(id.0)).collect()));
            }
            Writing::PutGraph { chunk, entities, relationships } => {
                let id = ChunkId(chunk.0);
                let gone = || Unkept::Gone { what: format!("chunk {id}") };
                let piece = keeping.pieces(tenant, vec![id]).await?.pop().ok_or_else(gone)?;
                let said = said::graph_of(entities, relationships);
                keeping.put_graph(tenant, &piece, &said).await?;
            }
            Writing::Remember { phase, values } => {
                let value = |Memo { key, value }: Memo| (MemoKey(key.0), value.0);
                let values = values.into_iter().map(value).collect();
                keeping.remember(&MemoOf::new(tenant, phase), values).await?;
            }
            Writing::Publish { of } => {
                return Ok(match keeping.publish(tenant, self.own(&of).await?).await? {
                    Publication::Live { old } => StageAnswer::Live { old },
                    Publication::Superseded { live } => StageAnswer::Superseded { live },
                    Publication::Empty { why } => StageAnswer::Empty { why },
                });
            }
            Writing::RemoveGeneration { of } => self.remove_generation(&of).await?,
            Writing::RemoveDocument { document } => {
                let document = said::document(&document).map_err(refused)?;
                self.must_own(document, &document).await?;
                let removed = keeping.remove_document(tenant, document).await?;
                return Ok(StageAnswer::Removed(removed));
            }
        }
        Ok(StageAnswer::Done)
    }

    /// Vectors of chunks that are this tenant's; of others it is as if they were not there. Says
    /// which are not.
    async fn put_vectors(&self, by: &str, vectors: Vec<Vector>) -> Result<Vec<ChunkId>, Not> {
        let ours = self.opened.embedder();
        let ours = embedder(ours.name(), ours.version());
        if by != ours {
            let detail = format!(
                "this server searches with {ours}, and these vectors are by {by:?}; start the \
                 worker with the documents.embed settings of the server"
            );
            return Err(Not::Refused(Failed::new(Code::Changed, detail)));
        }
        let mut by_chunk = HashMap::new();
        for Vector { chunk, vector } in vectors {
            if by_chunk.insert(chunk.0, vector_of(&vector.0)?).is_some() {
                let why = format!("chunk {} has two vectors at once", ChunkId(chunk.0));
                return Err(Unkept::Bad { why }.into());
            }
        }
        let keeping = self.opened.keeping();
        let ids = by_chunk.keys().copied().map(ChunkId).collect();
        let pieces = keeping.pieces(self.tenant, ids).await?.into_iter();
        let vectors = pieces.filter_map(|piece| Some((by_chunk.remove(&piece.id.0)?, piece)));
        let vectors: Vec<_> = vectors.map(|(vector, piece)| (piece, vector)).collect();
        let mut gone: Vec<ChunkId> = by_chunk.into_keys().map(ChunkId).collect();
        if !vectors.is_empty() {
            gone.extend(keeping.put_vectors(self.tenant, vectors, by).await?);
        }
        Ok(gone)
    }

    /// Only what is old is removed, also from where the catalog does not look.
    async fn remove_generation(&self, of: &Version) -> Result<(), Not> {
        let (keeping, at) = (self.opened.keeping(), self.own(of).await?);
        let known = self.opened.catalog.generation(self.tenant, at).await?;
        match known.map(|known| known.state) {
            Some(GenerationState::Old) | None => {
                Ok(keeping.remove_generation(self.tenant, at).await?)
            }
            Some(_) => Err(Unkept::Bad { why: format!("{at} is not old") }.into()),
        }
    }

    /// A version of a document that is not another tenant's.
    async fn own(&self, of: &Version) -> Result<GenerationKey, Not> {
        let at = said::generation(of).map_err(refused)?;
        self.must_own(at.document, &at).await?;
        Ok(at)
    }

    /// A document that is not there is the catalog's to answer for.
    async fn must_own(&self, document: Uuid, what: &impl std::fmt::Display) -> Result<(), Not> {
        match self.opened.catalog.owner(document).await? {
            Some(owner) if owner != self.tenant => {
                Err(Unkept::Gone { what: what.to_string() }.into())
            }
            _ => Ok(()),
        }
    }
}

fn ids(chunks: &[Hex<16>]) -> Vec<ChunkId> {
    chunks.iter().map(|chunk| ChunkId(chunk.0)).collect()
}
