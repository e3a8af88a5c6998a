//! Documents shown: lists, one, its pages, its file.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use windrow_core::{Refusal, Timestamp};
use windrow_pipelines::catalog::{
    Chunk, Counted, Document, DocumentCursor, DocumentFilter, DocumentState, MemoStats, PageKey,
    PageOutcome,
};
use windrow_pipelines::documents::elsewhere;
use windrow_store::blobs::Hex;
use windrow_wire::document as wire;
use windrow_wire::problem::Code;
use windrow_wire::time::Time;

use super::super::App;
use super::super::blobs::give;
use super::super::reply::{Asked, Failed, no_cursor, within};
use super::progress::phases;
use super::{Known, Number, TENANT, tenant};
use crate::auth::Scoped;

/// Documents on a page, and at most.
const LISTED: u64 = 50;
const LISTED_MAX: u64 = 200;

pub(super) const PARAMETERS: &[(&str, &str)] = &[
    ("state", "only those: building, live, updating, failed or deleting"),
    ("collection", "only those of this collection"),
    ("name", "only those with this in their name, in any case (also q)"),
    ("with", "progress: each with its phases"),
    ("cursor", "`next` of the page before"),
    ("limit", "how many; 50, at most 200"),
    TENANT,
];
pub(super) const GENERATION: &[(&str, &str)] =
    &[("generation", "which version; the newest if left out")];

/// Which documents are meant.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    state: Option<String>,
    collection: Option<String>,
    #[serde(alias = "q")]
    name: Option<String>,
    with: Option<String>,
    cursor: Option<String>,
    limit: Option<u64>,
    #[serde(alias = "user_id")]
    tenant: Option<String>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Asked(which): Asked<Which>,
) -> Result<Json<wire::Documents>, Failed> {
    let limit = within("limit", which.limit.unwrap_or(LISTED), LISTED_MAX)? as usize;
    let after = match which.cursor.as_deref() {
        None | Some("") => None,
        Some(cursor) => Some(read_cursor(cursor).ok_or_else(no_cursor)?),
    };
    let with_progress = match which.with.as_deref() {
        None | Some("") => false,
        Some("progress") => true,
        Some(_) => return Err(Refusal::invalid("with", "must be progress").into()),
    };
    let said = |text: Option<String>| text.filter(|text| !text.is_empty());
    let state = said(which.state).map(|word| {
        let unknown = "must be building, live, updating, failed or deleting";
        DocumentState::of_word(&word).ok_or_else(|| Refusal::invalid("state", unknown))
    });
    let filter = DocumentFilter {
        tenant: tenant(which.tenant.as_deref(), &scoped)?.to_string(),
        collection: said(which.collection),
        state: state.transpose()?,
        name: said(which.name),
    };
    if !app.documents.is_begun().await? {
        return Ok(Json(wire::Documents { documents: Vec::new(), next: None }));
    }
    let catalog = &app.documents.opened().await?.catalog;
    // One more than is shown says whether there are more.
    let mut found = catalog.documents(filter, after, limit as u32 + 1).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|last| cursor(last.cursor()));
    let mut documents: Vec<wire::Document> = found.iter().map(document).collect();
    if with_progress {
        let all = app.documents.phases(&found).await?;
        for (document, of) in documents.iter_mut().zip(all) {
            document.phases = of.as_ref().map(phases);
        }
    }
    Ok(Json(wire::Documents { documents, next }))
}

pub(super) async fn counts(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Asked(whose): Asked<Whose>,
) -> Result<Json<Vec<wire::StateCount>>, Failed> {
    let tenant = tenant(whose.tenant.as_deref(), &scoped)?;
    let counted = if app.documents.is_begun().await? {
        app.documents.opened().await?.catalog.count_documents(&tenant).await?
    } else {
        let none = |state| Counted { state, documents: 0, is_capped: false };
        DocumentState::ALL.map(none).to_vec()
    };
    let told = |Counted { state: of, documents, is_capped }| wire::StateCount {
        state: state(of),
        documents,
        is_capped,
    };
    Ok(Json(counted.into_iter().map(told).collect()))
}

/// A cursor as it is given out.
fn cursor(at: DocumentCursor) -> String {
    format!("{}.{}", at.added_at.0, at.id.simple())
}

fn read_cursor(text: &str) -> Option<DocumentCursor> {
    let (added_at, id) = text.split_once('.')?;
    Some(DocumentCursor { added_at: Timestamp(added_at.parse().ok()?), id: id.parse().ok()? })
}

pub(super) async fn one(known: Known) -> Json<wire::Document> {
    Json(document(&known.document))
}

/// A document as it is told.
pub(super) fn document(known: &Document) -> wire::Document {
    let newest = known.newest.as_ref();
    let content = newest.map(|newest| &newest.content);
    wire::Document {
        id: known.id.to_string(),
        tenant: known.scope.tenant.clone(),
        collection: known.scope.collection.clone(),
        source: known.source.clone(),
        name: known.name.clone(),
        state: state(known.state),
        media_type: content.map(|content| content.media_type.clone()),
        bytes: content.map(|content| content.bytes),
        sha256: content.map(|content| Hex(&content.hash).to_string()),
        pages: newest.and_then(|newest| newest.pages),
        failure: newest.and_then(|newest| newest.failure.clone()),
        generation: newest.map(|newest| newest.number),
        live_generation: known.live,
        added_at: Time(known.added_at),
        changed_at: Time(known.changed_at),
        published_at: newest.and_then(|newest| newest.published_at).map(Time),
        phases: None,
    }
}

pub(super) fn state(state: DocumentState) -> wire::State {
    match state {
        DocumentState::Building => wire::State::Building,
        DocumentState::Live => wire::State::Live,
        DocumentState::Updating => wire::State::Updating,
        DocumentState::Failed => wire::State::Failed,
        DocumentState::Deleting => wire::State::Deleting,
    }
}

/// Which version is meant.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Version {
    generation: Option<u32>,
}

pub(super) async fn page(
    known: Known,
    Number(number): Number,
    Asked(version): Asked<Version>,
) -> Result<Json<wire::Page>, Failed> {
    let generation =
        version.generation.map_or_else(|| Ok(known.newest()?.number), Ok::<_, Failed>)?;
    let failure = known.version(generation).await?.and_then(|version| version.failure);
    let (catalog, tenant) = (&known.opened().await?.catalog, &known.document.scope.tenant);
    let key = PageKey { document: known.document.id, generation, number };
    let Some(page) = catalog.page(tenant, key).await? else {
        return Err(no_page(failure));
    };
    let chunks = catalog.chunks(tenant, key).await?;
    let (outcome, how, markdown, reason) = match page.outcome {
        PageOutcome::Waiting => (wire::PageOutcome::Waiting, None, None, None),
        PageOutcome::Read { markdown, how, .. } => {
            (wire::PageOutcome::Read, Some(how), Some(markdown), None)
        }
        PageOutcome::Without { reason } => (wire::PageOutcome::Without, None, None, Some(reason)),
    };
    let document = known.document.id.to_string();
    let chunks = chunks.into_iter().map(chunk).collect();
    Ok(Json(wire::Page {
        document,
        generation,
        number,
        outcome,
        how,
        markdown,
        reason,
        failure,
        chunks,
    }))
}

/// That there is no such page, and why the document has none.
fn no_page(failure: Option<String>) -> Failed {
    match failure {
        Some(why) => Failed::new(Code::NotFound, format!("the document could not be read: {why}")),
        None => Failed::not_found("such page"),
    }
}

fn chunk(chunk: Chunk) -> wire::Chunk {
    wire::Chunk {
        id: chunk.id.to_string(),
        index: chunk.index,
        kind: chunk.kind,
        text: chunk.text,
        tokens: chunk.tokens,
        begins: chunk.begins,
        ends: chunk.ends,
        metadata: chunk.metadata,
        embedded_by: chunk.embedded_by,
        is_linked: chunk.is_linked,
    }
}

pub(super) async fn image(known: Known, Number(number): Number) -> Result<Response, Failed> {
    let (opened, newest) = (known.opened().await?, known.newest()?);
    let png = opened.picture(&known.document.scope.tenant, newest, number).await?;
    let png = png.ok_or_else(|| Failed::not_found("picture of a text"))?;
    let kind = [(CONTENT_TYPE, HeaderValue::from_static("image/png"))];
    Ok((kind, Body::from(png)).into_response())
}

pub(super) async fn file(
    scoped: Scoped,
    known: Known,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let content = &known.newest()?.content;
    let tenant: Arc<str> = known.document.scope.tenant.as_str().into();
    let blob = windrow_core::item::BlobRef { hash: content.hash, len: content.bytes };
    give(scoped.of(&tenant)?, &tenant, blob, &content.media_type, &headers).await
}

/// Whose documents are meant.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Whose {
    #[serde(alias = "user_id")]
    tenant: Option<String>,
}

pub(super) async fn memo(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Asked(whose): Asked<Whose>,
) -> Result<Json<Vec<wire::Memo>>, Failed> {
    let tenant = tenant(whose.tenant.as_deref(), &scoped)?;
    if !app.documents.is_begun().await? {
        return Ok(Json(Vec::new()));
    }
    let stats = app.documents.opened().await?.catalog.memo_stats(&tenant).await?;
    let told = |MemoStats { phase, entries, bytes, hits, misses }| wire::Memo {
        phase,
        entries,
        bytes,
        hits,
        misses,
    };
    // What was said once is remembered too, and saves no work.
    let saves = |stats: &MemoStats| stats.phase != elsewhere::SAID;
    Ok(Json(stats.into_iter().filter(saves).map(told).collect()))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_given_out() {
        let at = DocumentCursor { added_at: Timestamp(12), id: Uuid::from_u128(7) };
        assert_eq!(read_cursor(&cursor(at)), Some(at));
        for wrong in ["", "12", "12.", ".7", "x.00000000000000000000000000000007", "12.7.7"] {
            assert_eq!(read_cursor(wrong), None, "{wrong}");
        }
    }
}
