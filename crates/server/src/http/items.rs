//! Items: enqueued, shown, explained, cancelled, retried, removed.

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::command::{EnqueueOutcome, NewItem as CoreItem, RetryMode, Scope};
use windrow_core::ports::Inspected;
use windrow_core::{Refusal, command, trace};
use windrow_engine::Clock as _;
use windrow_wire::answer::{Called, Each, Enqueued};
use windrow_wire::item::{Explanation, Item};
use windrow_wire::new::NewItem;
use windrow_wire::problem::Code;

use super::answers::Answers;
use super::blobs;
use super::reply::{Asked, Done, Failed, Named, Read, is_lines, item_id, read, request_id, whole};
use crate::auth::Scoped;

/// Children on a page, and at most.
const PAGE: usize = 50;
const PAGE_MAX: usize = 200;

/// Items, one per line.
#[derive(JsonSchema, Debug)]
#[expect(dead_code, reason = "it is described, and read line by line")]
pub(super) struct Lines(String);

/// One item, several, or lines of them, in the queue that the path names.
pub(super) async fn enqueue(
    scoped: Scoped,
    Named(queue): Named,
    request: Request,
) -> Result<Response, Failed> {
    take_in(&scoped, Some(queue.into()), request).await
}

/// The same, each in the queue that it names.
pub(super) async fn enqueue_anywhere(scoped: Scoped, request: Request) -> Result<Response, Failed> {
    take_in(&scoped, None, request).await
}

async fn take_in(
    scoped: &Scoped,
    queue: Option<Arc<str>>,
    request: Request,
) -> Result<Response, Failed> {
    let id = request_id(request.headers())?;
    let trace = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let trace = trace.map(str::to_owned);
    let lines = is_lines(request.headers())?;
    let bytes = whole(request, &()).await?;
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let (new, alone): (Vec<NewItem>, bool) = match first {
        _ if lines => (in_lines(&bytes)?, false),
        Some(b'[') => (windrow_wire::read::list(&bytes).map_err(Failed::malformed)?, false),
        _ => (vec![read(&bytes)?], true),
    };
    let (tenant, now): (Arc<str>, _) = (scoped.tenant(), scoped.clock().now());
    let mut queues = Queues::default();
    let item = |mut new: NewItem| {
        let queue = match &queue {
            Some(queue) => Arc::clone(queue),
            None => queues.named(new.queue.take())?,
        };
        let mut item = new.into_core(&queue, &tenant, now)?;
        if let Some(trace) = &trace {
            item.body.metadata = trace::keep(item.body.metadata.take(), trace);
        }
        Ok(item)
    };
    if alone {
        let items: Result<Vec<CoreItem>, Refusal> = new.into_iter().map(item).collect();
        let mut items = items?;
        blobs::keep_apart(scoped, &mut items, now).await?;
        let enqueued = scoped.enqueue(items, id).await?.pop();
        let enqueued = enqueued.ok_or_else(|| Failed::new(Code::Internal, "no answer"))??;
        let status = match enqueued.outcome {
            EnqueueOutcome::Created | EnqueueOutcome::Successor => StatusCode::CREATED,
            EnqueueOutcome::Duplicate | EnqueueOutcome::Replaced => StatusCode::OK,
        };
        return Ok((status, Json(Enqueued::from(enqueued))).into_response());
    }
    let called = |new: &NewItem| Called { id: None, key: new.key.clone() };
    let mut answers = Answers::new(new, called, item);
    let mut items: Vec<CoreItem> = answers.take();
    blobs::keep_apart(scoped, &mut items, now).await?;
    // What is empty, or has nothing that could be asked, has its answer already.
    let each = if items.is_empty() { Vec::new() } else { scoped.enqueue(items, id).await? };
    let each: Vec<Each<Enqueued>> = answers.with(each);
    Ok(Json(each).into_response())
}

/// The queues that items name: most name the one that the item before named.
#[derive(Default)]
struct Queues(Option<Arc<str>>);

impl Queues {
    fn named(&mut self, queue: Option<String>) -> Result<Arc<str>, Refusal> {
        let why = "is missing; no path names it here";
        let queue = queue.ok_or_else(|| Refusal::invalid("queue", why))?;
        if self.0.as_deref() != Some(&*queue) {
            self.0 = Some(queue.into());
        }
        self.0.clone().ok_or_else(|| Refusal::invalid("queue", why))
    }
}

fn in_lines(bytes: &[u8]) -> Result<Vec<NewItem>, Failed> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    let item = |(at, line)| {
        let read = windrow_wire::read::object(line);
        read.map_err(|why: String| {
            // Each line was read alone, where it is the first.
            let why = why.replace(" at line 1 column ", " at column ");
            Failed::malformed(format!("line {}: {why}", at + 1))
        })
    };
    lines.map(item).collect()
}

pub(super) async fn show(queue: Scoped, Named(id): Named) -> Result<Json<Item>, Failed> {
    let seen = queue.look(&[item_id(&id)?]).await?.pop();
    seen.map(|seen| Json(seen.into())).ok_or_else(|| Failed::not_found("such item"))
}

pub(super) async fn explain(queue: Scoped, Named(id): Named) -> Result<Json<Explanation>, Failed> {
    let id = item_id(&id)?;
    let (explained, seen) = (queue.explain(id).await?, queue.inspect(id).await?);
    let both = explained.zip(seen).ok_or_else(|| Failed::not_found("such item"))?;
    let mut explained = Explanation::new(&both.0, &both.1);
    for why in explained.reasons.iter_mut().filter(|why| why.code == "paused") {
        let what = pauses_of(&queue, &both.1).await?;
        if !what.is_empty() {
            why.unblocked_by = format!("resuming {}", what.join(" and "));
        }
    }
    Ok(Json(explained))
}

/// What is paused that an item waits for.
async fn pauses_of(queue: &Scoped, seen: &Inspected) -> Result<Vec<String>, Failed> {
    let body = &seen.body;
    let stage = body.route.stages.get(usize::from(seen.item.stage)).map(|stage| &stage.name);
    let mut paused = queue.paused(&body.queue).await?;
    paused.retain(|scope| scope.stage.is_none() || scope.stage.as_ref() == stage);
    paused.retain(|scope| scope.tenant.as_ref().is_none_or(|tenant| *tenant == body.tenant));
    let said = |scope: Scope| {
        let stage = scope.stage.map(|stage| format!("stage {stage} of ")).unwrap_or_default();
        let tenant = scope.tenant.map(|tenant| format!(" for tenant {tenant}")).unwrap_or_default();
        format!("{stage}queue {}{tenant}", scope.queue)
    };
    Ok(paused.into_iter().map(said).collect())
}

/// An item and a page of its children.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Tree {
    item: Item,
    children: Vec<Item>,
    /// Where the next page begins, if there may be one.
    next: Option<u32>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    #[serde(default)]
    from: u32,
    limit: Option<usize>,
}

pub(super) async fn tree(
    queue: Scoped,
    Named(id): Named,
    Asked(page): Asked<Page>,
) -> Result<Json<Tree>, Failed> {
    let id = item_id(&id)?;
    let seen = queue.look(&[id]).await?.pop().ok_or_else(|| Failed::not_found("such item"))?;
    let limit = page.limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        let why = format!("must lie between 1 and {PAGE_MAX}");
        return Err(Refusal::invalid("limit", why).into());
    }
    let ids = queue.children(id, page.from, limit).await?;
    let children = queue.look(&ids).await?;
    let last = children.last().and_then(|(child, _)| child.item.place);
    let next = last.filter(|_| ids.len() == limit).map(|last| last.ordinal + 1);
    let children = children.into_iter().map(Into::into).collect();
    Ok(Json(Tree { item: seen.into(), children, next }))
}

#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Cancelled {
    id: String,
    /// It has children that are being ended one after the other.
    ongoing: bool,
}

pub(super) async fn cancel(
    queue: Scoped,
    headers: HeaderMap,
    Named(id): Named,
) -> Result<Json<Cancelled>, Failed> {
    let request = request_id(&headers)?;
    let command::Cancelled { id, ongoing } = queue.cancel(item_id(&id)?, request).await?;
    Ok(Json(Cancelled { id: id.to_string(), ongoing }))
}

/// How to run an item again.
#[derive(Deserialize, JsonSchema, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Retry {
    /// A clone of what has ended, if nothing is said. What waits for its time is due at once.
    mode: Option<Mode>,
    /// The stage to begin with; by default the one that failed.
    from_stage: Option<String>,
}

impl Retry {
    /// What is said in the body or after the question mark, and not differently in both.
    fn or(self, asked: Retry) -> Result<Retry, Refusal> {
        let twice =
            |field| Refusal::invalid(field, "says one thing in the body and another outside");
        Ok(Retry {
            mode: one(self.mode, asked.mode).ok_or_else(|| twice("mode"))?,
            from_stage: one(self.from_stage, asked.from_stage)
                .ok_or_else(|| twice("from_stage"))?,
        })
    }
}

/// What one of two says, or both alike; nothing if they differ.
pub(super) fn one<T: PartialEq>(a: Option<T>, b: Option<T>) -> Option<Option<T>> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => None,
        (a, b) => Some(a.or(b)),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Default, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// A new item; the old one stays as history.
    #[default]
    Clone,
    /// The same item.
    Reset,
}

impl Mode {
    /// How an item is run again. A child cannot be cloned away from its tree.
    pub(crate) fn of(self, item: &windrow_core::Item) -> RetryMode {
        match self {
            Mode::Clone if item.is_root() => RetryMode::Clone,
            Mode::Clone | Mode::Reset => RetryMode::Reset,
        }
    }

    /// The same where nothing may be said: then the item itself is meant if it only waits for its
    /// time.
    pub(super) fn said_of(said: Option<Mode>, item: &windrow_core::Item) -> RetryMode {
        match said {
            None if !item.is_done() => RetryMode::Reset,
            said => said.unwrap_or_default().of(item),
        }
    }
}

#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Retried {
    /// The item that will run: the same, or its clone.
    id: String,
    /// How many items wait again that had ended, or that waited for their time.
    reset: u32,
    /// Whether a new item will run, and the old one stays as it ended.
    cloned: bool,
}

pub(super) async fn retry(
    queue: Scoped,
    headers: HeaderMap,
    Named(id): Named,
    Asked(asked): Asked<Retry>,
    Read(how): Read<Retry>,
) -> Result<Json<Retried>, Failed> {
    let how = how.or(asked)?;
    let (item, request) = (item_id(&id)?, request_id(&headers)?);
    let seen = queue.inspect(item).await?;
    let seen = seen.ok_or_else(|| Failed::not_found("such item"))?;
    let mode = Mode::said_of(how.mode, &seen.item);
    let retried = queue.retry(item, mode, how.from_stage.map(Into::into), request).await?;
    let cloned = mode == RetryMode::Clone;
    let reset = if cloned { 0 } else { retried.reset };
    Ok(Json(Retried { id: retried.id.to_string(), reset, cloned }))
}

#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Removed {
    removed: u32,
}

pub(super) async fn remove(
    queue: Scoped,
    headers: HeaderMap,
    Named(id): Named,
) -> Result<Json<Removed>, Failed> {
    let deleted = queue.delete(item_id(&id)?, request_id(&headers)?).await?;
    Ok(Json(Removed { removed: deleted.removed }))
}

/// Another priority.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Prioritise {
    /// From 0, the lowest, to 10.
    priority: u8,
}

pub(super) async fn prioritise(
    queue: Scoped,
    Named(id): Named,
    Read(how): Read<Prioritise>,
) -> Result<Json<Done>, Failed> {
    queue.prioritise(item_id(&id)?, how.priority).await?;
    Ok(Done::YES)
}
