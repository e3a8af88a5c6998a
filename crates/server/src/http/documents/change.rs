//! Documents done again, and let go.

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use windrow_core::Refusal;
use windrow_core::item::BlobRef;
use windrow_pipelines::documents::{Gate, NewFile};
use windrow_wire::document::Added;

use super::super::reply::Failed;
use super::Known;
use super::add::shown;
use crate::auth::Scoped;
use crate::blobs::known as tell;

/// What was begun.
#[derive(Serialize, JsonSchema, Debug)]
pub(in super::super) struct Begun {
    pub(super) document: String,
    /// The item that does it.
    pub(super) item: String,
}

pub(super) async fn remove(known: Known) -> Result<(StatusCode, Json<Begun>), Failed> {
    let (document, tenant) = (known.document.id, &known.document.scope.tenant);
    let item = known.app.documents.remove(tenant, document).await?;
    let item = item.ok_or_else(|| Failed::not_found("such document"))?;
    let begun = Begun { document: document.to_string(), item: item.to_string() };
    Ok((StatusCode::ACCEPTED, Json(begun)))
}

pub(super) async fn reindex(
    scoped: Scoped,
    known: Known,
) -> Result<(StatusCode, Json<Added>), Failed> {
    let (document, content) = (&known.document, known.newest()?.content.clone());
    let file = BlobRef { hash: content.hash, len: content.bytes };
    let tenant: Arc<str> = document.scope.tenant.as_str().into();
    tell(scoped.of(&tenant)?, &tenant, file).await.map_err(|_| {
        Failed::from(Refusal::invalid("document", "its file is gone; add it again"))
    })?;
    let new = NewFile {
        scope: document.scope.clone(),
        source: document.source.clone(),
        name: document.name.clone(),
        media_type: content.media_type,
        file,
        again: true,
        gate: Gate::default(),
    };
    let (_, added) = shown(known.app.documents.add(new).await?)?;
    Ok((StatusCode::ACCEPTED, Json(added)))
}
