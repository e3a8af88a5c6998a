//! The audit, read. For admins of all tenants.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::{Refusal, Timestamp};
use windrow_wire::time::Time;

use super::App;
use super::reply::{Asked, Failed};
use crate::auth::{Entry, Outcome, Scoped};

const PAGE: usize = 50;
const PAGE_MAX: usize = 200;

/// Something that an operator or an admin did.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Deed {
    at: Time,
    /// The name of the token.
    caller: String,
    /// Its id, if it has one.
    token: Option<String>,
    /// The tenant that it is for, if it is for one.
    tenant: Option<String>,
    /// The method and the path, as they are described here.
    operation: String,
    /// Ids and names of what it was done to.
    targets: Vec<String>,
    outcome: Outcome,
}

impl From<Entry> for Deed {
    fn from(entry: Entry) -> Deed {
        let text = |text: Option<Arc<str>>| text.map(|text| text.to_string());
        Deed {
            at: Time(Timestamp(entry.at_ms)),
            caller: entry.caller.to_string(),
            token: text(entry.token),
            tenant: text(entry.tenant),
            operation: entry.operation,
            targets: entry.targets,
            outcome: entry.outcome,
        }
    }
}

/// A page, newest first.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Deeds {
    entries: Vec<Deed>,
    /// What to send as `before` for the next page, if there may be one.
    next: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    caller: Option<String>,
    operation: Option<String>,
    target: Option<String>,
    before: Option<String>,
    limit: Option<usize>,
}

impl Which {
    fn admits(&self, entry: &Entry) -> bool {
        let is = |asked: &Option<String>, said: &str| {
            asked.as_deref().is_none_or(|asked| *asked == *said)
        };
        let target = self.target.as_ref();
        is(&self.caller, &entry.caller)
            && is(&self.operation, &entry.operation)
            && target.is_none_or(|target| entry.targets.contains(target))
    }
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Asked(which): Asked<Which>,
) -> Result<Json<Deeds>, Failed> {
    scoped.whole()?;
    let limit = which.limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        let why = format!("must lie between 1 and {PAGE_MAX}");
        return Err(Refusal::invalid("limit", why).into());
    }
    let entries = app.audit.entries(which.before.as_deref()).await?;
    let page: Vec<_> = entries.filter(|(_, entry)| which.admits(entry)).take(limit).collect();
    let last = page.last().filter(|_| page.len() == limit);
    let next = last.map(|(name, _)| name.to_string());
    Ok(Json(Deeds { entries: page.into_iter().map(|(_, entry)| entry.into()).collect(), next }))
}
