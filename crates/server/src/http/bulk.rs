//! Bulk work over HTTP: begun, watched, stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::command::Command;
use windrow_core::limits::{NAME_MAX, PRIORITY_MAX};
use windrow_core::text::fits;
use windrow_core::{Refusal, RequestId, Timestamp};
use windrow_wire::filter::Said;
use windrow_wire::list::Filter;
use windrow_wire::problem::Code;
use windrow_wire::time::Time;

use super::App;
use super::items::Mode;
use super::list::filter_in;
use super::reply::{Done, Failed, Named, Read, item_id, request_id};
use crate::auth::{Denied, Scoped, Targets};
use crate::bulk::{self, Begun, Document, Kept, Stand, Verb, Wanted};

/// What to do, and to which items.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct BeginOperation {
    verb: Verb,
    /// Which items, by what `GET /queue` can be narrowed by: its fields, or one text as there.
    #[serde(default)]
    #[schemars(with = "Said")]
    filter: Option<Said>,
    /// Do it to every item there is. Needed if the filter is empty.
    #[serde(default)]
    all: bool,
    /// The new priority, to prioritise.
    priority: Option<u8>,
    /// How to retry: the same items by default, or clones of them.
    mode: Option<Mode>,
    /// The stage to begin with, to retry.
    from_stage: Option<String>,
    /// Only count what would be done.
    #[serde(default)]
    dry_run: bool,
}

impl BeginOperation {
    fn wanted(self) -> Result<Wanted, Refusal> {
        let BeginOperation { verb, filter, all, priority, mode, from_stage, dry_run } = self;
        let filter = filter.map_or(Ok(Filter::default()), filter_in)?;
        filter.to_core()?;
        if filter.is_empty() && !all {
            let why =
                "says nothing; name a status, a queue or another field, or send \"all\": true";
            return Err(Refusal::invalid("filter", why));
        }
        let why = match (verb, priority) {
            (Verb::Prioritise, Some(0..=PRIORITY_MAX)) => None,
            (Verb::Prioritise, _) => Some(format!("must be 0 to {PRIORITY_MAX} to prioritise")),
            (_, Some(_)) => Some("is only for prioritise".to_owned()),
            (_, None) => None,
        };
        if let Some(why) = why {
            return Err(Refusal::invalid("priority", why));
        }
        if verb != Verb::Retry && (mode.is_some() || from_stage.is_some()) {
            return Err(Refusal::invalid("mode", "mode and from_stage are only for retry"));
        }
        from_stage.as_deref().map_or(Ok(()), |stage| fits("from_stage", stage, NAME_MAX))?;
        let mode = mode.unwrap_or(Mode::Reset);
        Ok(Wanted { verb, filter, priority, mode, from_stage, dry_run })
    }
}

/// What would be done to an item.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Forecast {
    verb: Verb,
    /// The new priority, to prioritise.
    priority: Option<u8>,
    /// How to retry, by default as the verb does: a clone of what has ended, and else the item.
    mode: Option<Mode>,
    /// The stage to begin with, to retry.
    from_stage: Option<String>,
}

pub(super) async fn forecast(
    scoped: Scoped,
    Named(id): Named,
    Read(what): Read<Forecast>,
) -> Result<Json<Done>, Failed> {
    let Forecast { verb, priority, mode, from_stage } = what;
    let id = item_id(&id)?;
    let items = vec![id];
    let command = match verb {
        Verb::Cancel => Command::Cancel { items },
        Verb::Delete => Command::Delete { items },
        Verb::Prioritise => {
            let missing = || Refusal::invalid("priority", "is missing");
            Command::Prioritise { items, priority: priority.ok_or_else(missing)? }
        }
        Verb::Retry => {
            let seen = scoped.inspect(id).await?.ok_or(Refusal::NotFound { item: id })?;
            let mode = Mode::said_of(mode, &seen.item);
            Command::Retry { items, mode, from_stage: from_stage.map(Into::into) }
        }
    };
    scoped.forecast(id, &command).await?;
    Ok(Done::YES)
}

/// An operation, and how far it is.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct OperationShown {
    id: String,
    verb: Verb,
    filter: Filter,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_stage: Option<String>,
    dry_run: bool,
    state: Stand,
    /// Items that the filter admitted so far.
    matched: u64,
    /// Items to which it was done.
    done: u64,
    /// Items to which it could not be done.
    refused: u64,
    /// The same by the code of the refusal.
    refusals: BTreeMap<String, u64>,
    started_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl OperationShown {
    fn new(id: &str, document: Document) -> OperationShown {
        OperationShown {
            id: id.to_owned(),
            verb: document.verb,
            mode: (document.verb == Verb::Retry).then_some(document.mode),
            filter: document.filter,
            priority: document.priority,
            from_stage: document.from_stage,
            dry_run: document.dry_run,
            state: document.stand,
            matched: document.matched,
            done: document.done,
            refused: document.refused.values().sum(),
            refusals: document.refused,
            started_at: Timestamp(document.started_ms).into(),
            ended_at: document.ended_ms.map(|at| Timestamp(at).into()),
            message: document.message,
        }
    }
}

pub(super) async fn begin(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    headers: HeaderMap,
    Read(begin): Read<BeginOperation>,
) -> Result<(StatusCode, Extension<Targets>, Json<OperationShown>), Failed> {
    let id = scoped.request(request_id(&headers)?).unwrap_or_else(bulk::new_id);
    let mut wanted = begin.wanted()?;
    narrow(&scoped, &mut wanted.filter)?;
    let targets = Targets(vec![id.to_string(), format!("verb={}", wanted.verb.name())]);
    let document = match app.bulk.begin(app.queue.for_the_server(), id, wanted).await? {
        Begun::New(document) | Begun::Before(document) => document,
        Begun::Reused => return Err(Refusal::RequestReused.into()),
    };
    let shown = OperationShown::new(&id.to_string(), document);
    Ok((StatusCode::ACCEPTED, Extension(targets), Json(shown)))
}

/// An operation of a caller with a tenant is about that tenant's items.
fn narrow(scoped: &Scoped, filter: &mut Filter) -> Result<(), Denied> {
    match filter.tenant.as_deref() {
        Some(tenant) if !tenant.is_empty() => scoped.own(tenant),
        _ if scoped.whole().is_ok() => Ok(()),
        _ => {
            filter.tenant = Some(scoped.tenant().to_string());
            Ok(())
        }
    }
}

/// Whether the caller may know of an operation: all its items are of one tenant that it sees.
fn is_seen(scoped: &Scoped, document: &Document) -> bool {
    match document.filter.tenant.as_deref() {
        Some(tenant) if !tenant.is_empty() => scoped.sees(tenant),
        _ => scoped.whole().is_ok(),
    }
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    scoped: Scoped,
) -> Result<Json<Vec<OperationShown>>, Failed> {
    let mut all = bulk::all(app.queue.for_the_server()).await?;
    all.retain(|kept| is_seen(&scoped, &kept.document));
    all.sort_by_key(|kept| std::cmp::Reverse(kept.document.started_ms));
    let shown = |kept: Kept| OperationShown::new(&kept.name, kept.document);
    Ok(Json(all.into_iter().map(shown).collect()))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(id): Named,
) -> Result<Json<OperationShown>, Failed> {
    let kept = seen(&app, &scoped, &id).await?;
    Ok(Json(OperationShown::new(&kept.name, kept.document)))
}

pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(id): Named,
) -> Result<Json<OperationShown>, Failed> {
    let Kept { name, .. } = seen(&app, &scoped, &id).await?;
    let document = app.bulk.cancel(app.queue.for_the_server(), &name).await?;
    document.map(|document| Json(OperationShown::new(&name, document))).ok_or_else(absent)
}

/// An operation that the caller may know of.
async fn seen(app: &App, scoped: &Scoped, id: &str) -> Result<Kept, Failed> {
    let kept = bulk::read(app.queue.for_the_server(), &name(id)?).await?;
    kept.filter(|kept| is_seen(scoped, &kept.document)).ok_or_else(absent)
}

/// The name of an operation, however its id is spelt.
fn name(id: &str) -> Result<String, Failed> {
    let parsed = id.parse::<RequestId>().map(|id| id.to_string());
    parsed.map_err(|_| Failed::new(Code::NotFound, format!("{id:?} is not an operation's id")))
}

fn absent() -> Failed {
    Failed::not_found("such operation")
}
