//! A sweep that somebody asks for, besides those that happen by themselves.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use axum::routing::post;
use schemars::JsonSchema;
use serde::Serialize;

use super::App;
use super::reply::Failed;
use super::table::{Operation, Role};
use crate::auth::Scoped;

pub(super) fn operations() -> Vec<Operation> {
    let summary = "Sweep now: end what was cancelled, fold trees, and remove what is past its \
                   keeping. It stops after fifty seconds, and says whether there is more.";
    vec![
        Operation::new(Method::POST, "/sweep", Role::Operator, summary, post(sweep))
            .gives::<Swept>(200),
    ]
}

/// What a sweep came to.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Swept {
    /// Items that it ended, folded or removed.
    handled: u64,
    /// There is more to do.
    more: bool,
}

async fn sweep(State(app): State<Arc<App>>, scoped: Scoped) -> Result<Json<Swept>, Failed> {
    scoped.whole()?;
    let (handled, more) = app.workers.clean_up().await?;
    Ok(Json(Swept { handled, more }))
}
