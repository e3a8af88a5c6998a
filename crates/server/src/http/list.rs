//! Lists: items by filter and text, and the queues that are known.
//!
//! A search looks on for [`SEARCH`] at most. What it has not looked at by then is behind the
//! cursor, and the page says that it is partial.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use windrow_core::command::Scope;
use windrow_core::find;
use windrow_core::ports::{Store, StoreError};
use windrow_core::rules::notify::EVERY_QUEUE;
use windrow_core::{ItemId, Refusal};
use windrow_wire::filter::Said;
use windrow_wire::list::{Filter, Page};
use windrow_wire::settings::Settings;
use windrow_wire::time::Time;

use super::App;
use super::reply::{Asked, Failed, Named, no_cursor, within};
use super::status::Counts;
use crate::auth::{Denied, Scoped};

/// Items on a page, and at most.
const PAGE: usize = 50;
const PAGE_MAX: usize = 200;

/// How long a search looks on.
const SEARCH: Duration = Duration::from_millis(50);
/// How long before others on the same thread get their turn.
const TURN: Duration = Duration::from_millis(10);

/// What can be asked of a list, with what it is.
pub(super) const PARAMETERS: &[(&str, &str)] = &[
    ("filter", "all of the following in one text, such as status:failed queue:thumbs no space"),
    ("status", "only these, separated by commas; also queued, in_progress and done, in any case"),
    ("queue", "only this queue"),
    ("stage", "only items in this stage"),
    ("kind", "only this kind"),
    ("tenant", "only this tenant (also user_id)"),
    ("collection", "only this collection"),
    ("branch", "only this branch"),
    ("source_type", "only what came from such a source"),
    (
        "q",
        "only with this text in key, kind, source_info or error, or with an id that begins so; \
         answers partially after 50 ms",
    ),
    ("limit", "how many; 50, at most 200"),
    ("cursor", "where to go on: next of the page before"),
];

#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    filter: Option<String>,
    status: Option<String>,
    queue: Option<String>,
    stage: Option<String>,
    kind: Option<String>,
    #[serde(alias = "user_id")]
    tenant: Option<String>,
    collection: Option<String>,
    branch: Option<String>,
    source_type: Option<String>,
    q: Option<String>,
    limit: Option<u64>,
    cursor: Option<String>,
}

pub(super) async fn list(
    scoped: Scoped,
    Asked(asked): Asked<ListQuery>,
) -> Result<Json<Page>, Failed> {
    let ListQuery { filter: text, status, queue, stage, kind, tenant, .. } = asked;
    let ListQuery { collection, branch, source_type, q, limit, cursor, .. } = asked;
    let said = Filter { status, queue, stage, kind, tenant, collection, branch, source_type, q };
    let filter = either(text, said)?.to_core()?;
    let limit = within("limit", limit.unwrap_or(PAGE as u64), PAGE_MAX as u64)? as usize;
    let after = match cursor.as_deref() {
        None | Some("") => None,
        Some(text) => Some(text.parse().map_err(|_| no_cursor())?),
    };
    if let Some(only) = by_id(&scoped, &filter, after).await? {
        return Ok(Json(shown(only, limit)));
    }
    // One more than is shown says whether there are more.
    let page = scoped.search(filter, after, limit + 1, SEARCH).await?;
    Ok(Json(shown(page, limit)))
}

/// What is asked for in one text, or field by field, and not both.
fn either(text: Option<String>, fields: Filter) -> Result<Filter, Refusal> {
    match text {
        Some(_) if !fields.is_empty() => {
            Err(Refusal::invalid("filter", "says it all in one text; leave the other fields out"))
        }
        Some(text) => filter_in(Said::Text(text)),
        None => Ok(fields),
    }
}

/// A filter in either form.
pub(super) fn filter_in(said: Said) -> Result<Filter, Refusal> {
    said.read().map_err(|wrong| Refusal::invalid("filter", wrong.to_string()))
}

/// Looks for so many, for so long.
pub(crate) async fn search(
    store: &impl Store,
    filter: &find::Filter,
    after: Option<ItemId>,
    limit: usize,
    within: Duration,
) -> Result<find::Page, StoreError> {
    let until = Instant::now() + within;
    let mut found = find::Page { items: Vec::new(), next: after };
    loop {
        let turn = until.min(Instant::now() + TURN);
        let is_over = || Instant::now() >= turn;
        let room = limit - found.items.len();
        let page = store.find(filter, found.next, room, &is_over).await?;
        found.items.extend(page.items);
        found.next = page.next;
        if found.next.is_none() || found.items.len() >= limit || Instant::now() >= until {
            return Ok(found);
        }
        tokio::task::yield_now().await;
    }
}

/// The item whose whole id was asked for, if it exists: nobody who asks so means another.
async fn by_id(
    scoped: &Scoped,
    filter: &find::Filter,
    after: Option<ItemId>,
) -> Result<Option<find::Page>, Denied> {
    let id = filter.text.as_ref().and_then(|text| text.as_str().parse().ok());
    let Some(id) = id.filter(|_| after.is_none()) else { return Ok(None) };
    let seen = scoped.look(&[id]).await?.pop();
    Ok(seen.map(|(seen, _)| {
        let items = Some(seen).filter(|seen| filter.admits(seen)).map(Into::into);
        find::Page { items: items.into_iter().collect(), next: None }
    }))
}

fn shown(page: find::Page, limit: usize) -> Page {
    let find::Page { mut items, mut next } = page;
    let partial = items.len() <= limit && next.is_some();
    if items.len() > limit {
        items.truncate(limit);
        next = items.last().map(|last| last.item.id);
    }
    let items = items.into_iter().map(Into::into).collect();
    Page { items, next: next.map(|id| id.to_string()), partial }
}

/// A queue that is known: it has items, or somebody said something about it.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct QueueShown {
    queue: String,
    #[serde(flatten)]
    counts: Counts,
    /// The same as `pending`.
    queued: u64,
    /// What of it is paused.
    paused: Vec<Paused>,
    /// Since when the first in line waits; null if nobody does, and for callers of one tenant.
    waiting_since: Option<Time>,
    /// How it behaves.
    settings: Settings,
}

/// What is paused: the whole queue, or a stage or tenant of it.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Paused {
    stage: Option<String>,
    tenant: Option<String>,
}

impl From<&Scope> for Paused {
    fn from(scope: &Scope) -> Paused {
        let text = |text: &Option<Arc<str>>| text.as_ref().map(ToString::to_string);
        Paused { stage: text(&scope.stage), tenant: text(&scope.tenant) }
    }
}

pub(super) async fn queues(
    State(app): State<Arc<App>>,
    scoped: Scoped,
) -> Result<Json<Vec<QueueShown>>, Failed> {
    let waiting = match scoped.sees_all() {
        // Null would say that nobody waits.
        true => app.watch.facts().await.store.map_err(StoreError::from)?.vitals.waiting,
        false => Vec::new(),
    };
    let find::Configured { settings, paused } = scoped.configured().await?;
    let mut counts: BTreeMap<Arc<str>, Counts> = BTreeMap::new();
    for count in scoped.counts().await? {
        counts.entry(Arc::clone(&count.queue)).or_default().add(&count);
    }
    let mut names: BTreeSet<Arc<str>> = counts.keys().cloned().collect();
    // What was taken back was never set.
    let assumed = scoped.assumed();
    let named = settings.iter().filter(|(queue, set)| **queue != *EVERY_QUEUE && *set != assumed);
    names.extend(named.map(|(queue, _)| Arc::clone(queue)));
    names.extend(paused.iter().map(|scope| Arc::clone(&scope.queue)));
    let shown = names.into_iter().map(|queue| {
        let set = settings.iter().find(|(of, _)| *of == queue);
        let counts = counts.get(&queue).copied().unwrap_or_default();
        QueueShown {
            counts,
            queued: counts.pending,
            paused: paused.iter().filter(|s| s.queue == queue).map(Paused::from).collect(),
            waiting_since: waiting
                .iter()
                .find(|waiting| waiting.queue == queue)
                .and_then(|waiting| waiting.since().map(Time)),
            settings: set.map(|(_, set)| set.clone()).unwrap_or_default().in_force().into(),
            queue: queue.to_string(),
        }
    });
    Ok(Json(shown.collect()))
}

pub(super) async fn settings(
    scoped: Scoped,
    Named(queue): Named,
) -> Result<Json<Settings>, Failed> {
    Ok(Json(scoped.settings(&queue).await?.in_force().into()))
}
