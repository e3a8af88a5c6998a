//! Views: items in the shapes of the seeds, with the same columns on either store.
//!
//! Names, columns and what stands in them are those of the views in PostgreSQL
//! (docs/reference/sql.md). Here they are worked out from what any store says of an item, so that
//! whoever has no SQL sees the same. Rows come newest first and page by page, as every list does;
//! below a document or a page they come in its order.
//!
//! Views that count items when they are asked are left to SQL.

mod below;
mod documents;
mod fact;
mod flat;
mod phases;
mod query;

use std::time::Duration;

use axum::Json;
use axum::http::Method;
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;
use windrow_core::ItemId;
use windrow_core::find;
use windrow_engine::Clock as _;

pub(super) use self::fact::Around;
use self::fact::Fact;
pub(super) use self::flat::Job;
pub(super) use self::query::names;
use self::query::{Name, PARAMETERS, Query, known};
use super::reply::{Asked, Failed, Named, no_cursor};
use super::table::{Operation, Role};
use crate::auth::{Denied, Scoped};

/// How long rows are looked for, and how long what is below them is read.
const SEARCH: Duration = Duration::from_millis(50);
const READ: Duration = Duration::from_millis(500);

/// Where views are.
pub(super) const PATH: &str = "/views/{name}";

/// What can be asked of views.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            Method::GET,
            PATH,
            Role::Viewer,
            "Items in the shape of a seed: unified_queue, stale_items, job_queue, documents, \
             task_queue_page, task_queue_chunk or queue_stats, with the columns that the views \
             in PostgreSQL have.",
            get(show),
        )
        .asks(PARAMETERS)
        .gives::<View>(200),
    ]
}

/// A page of a view.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct View {
    view: &'static str,
    rows: Vec<Row>,
    /// The cursor with which it goes on; null at its end.
    next: Option<String>,
    /// The time was over before the page was full: there may be more after `next`.
    partial: bool,
}

/// A row of one of the views.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(untagged)]
enum Row {
    Unified(Box<flat::Unified>),
    Job(Box<Job>),
    Document(Box<documents::Document>),
    Page(Box<documents::Page>),
    Chunk(Box<documents::Chunk>),
    Figure(flat::Figure),
}

/// Rows, and where the view goes on.
struct Rows {
    rows: Vec<Row>,
    next: Option<String>,
    /// All of a page that was asked for.
    is_full: bool,
}

async fn show(
    scoped: Scoped,
    Named(name): Named,
    Asked(query): Asked<Query>,
) -> Result<Json<View>, Failed> {
    let (name, names, filters) = known(&name)?;
    let view = names[0];
    query.check(view, filters)?;
    let Rows { rows, next, is_full } = match name {
        Name::QueueStats => figures(&scoped, &query).await?,
        name => items(&scoped, name, &query).await?,
    };
    let partial = !is_full && next.is_some();
    Ok(Json(View { view, rows, next, partial }))
}

/// Rows of items.
async fn items(scoped: &Scoped, view: Name, query: &Query) -> Result<Rows, Failed> {
    let (limit, filter, below) = (query.limit()?, query.filter(view)?, query.below()?);
    let around = Around::of(scoped).await?;
    if let Some(of) = below {
        return below::rows(&around, view, of, &filter, query.cursor.as_deref(), limit).await;
    }
    let after = query.after()?;
    if view == Name::StaleItems && !around.any_stale(scoped.clock().now()) {
        return Ok(Rows { rows: Vec::new(), next: None, is_full: true });
    }
    Ok(newest(&around, view, filter, after, limit).await?)
}

/// Rows of what a filter admits, newest first.
async fn newest(
    around: &Around<'_>,
    view: Name,
    filter: find::Filter,
    after: Option<ItemId>,
    limit: usize,
) -> Result<Rows, Denied> {
    let (ids, mut next, mut is_full) = found(around, view, &filter, after, limit).await?;
    let facts = around.facts(&ids).await?;
    let above = below::Above::of(around, view, &facts).await?;
    let until = Instant::now() + READ;
    let mut rows = Vec::with_capacity(facts.len());
    for (at, fact) in facts.iter().enumerate() {
        if at > 0 && Instant::now() >= until {
            (next, is_full) = (Some(facts[at - 1].id()), false);
            break;
        }
        // It may have changed since it was found.
        if filter.admits(&fact.seen) {
            rows.extend(row(around, view, fact, &above).await?);
        }
    }
    Ok(Rows { rows, next: next.map(|id| id.to_string()), is_full })
}

/// Ids of what a view may show, as many as a page has; where it goes on; and whether the page is
/// full or nothing is left.
async fn found(
    around: &Around<'_>,
    view: Name,
    filter: &find::Filter,
    after: Option<ItemId>,
    limit: usize,
) -> Result<(Vec<ItemId>, Option<ItemId>, bool), Denied> {
    let scoped = around.scoped();
    let now = scoped.clock().now();
    let shows = |item: &windrow_core::Item| match view {
        Name::StaleItems => item.lease().is_some_and(|lease| around.is_stale(lease, now)),
        Name::Documents => item.is_root(),
        Name::TaskQueuePage | Name::TaskQueueChunk => !item.is_root(),
        _ => true,
    };
    let until = Instant::now() + SEARCH;
    let (mut ids, mut next) = (Vec::new(), after);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // One more than is shown says whether there are more.
        let page = scoped.search(filter.clone(), next, limit + 1 - ids.len(), left).await?;
        ids.extend(page.items.iter().filter(|one| shows(&one.item)).map(|one| one.item.id));
        next = page.next;
        if next.is_none() || ids.len() > limit || Instant::now() >= until {
            break;
        }
    }
    let is_full = ids.len() > limit || next.is_none();
    if ids.len() > limit {
        ids.truncate(limit);
        next = ids.last().copied();
    }
    Ok((ids, next, is_full))
}

/// The row of an item, if the view shows it.
async fn row(
    around: &Around<'_>,
    view: Name,
    fact: &Fact,
    above: &below::Above,
) -> Result<Option<Row>, Denied> {
    Ok(match view {
        Name::UnifiedQueue | Name::StaleItems => Some(Row::Unified(Box::new(fact.into()))),
        Name::JobQueue => Some(Row::Job(Box::new(fact.into()))),
        Name::Documents => {
            Some(Row::Document(Box::new(documents::Document::of(around, fact).await?)))
        }
        Name::TaskQueuePage if above.holds(fact) => {
            documents::Page::of(around, fact).await?.map(|page| Row::Page(Box::new(page)))
        }
        Name::TaskQueueChunk if above.holds(fact) => {
            documents::Chunk::of(fact, above.document(fact))
                .map(|chunk| Row::Chunk(Box::new(chunk)))
        }
        Name::TaskQueuePage | Name::TaskQueueChunk | Name::QueueStats => None,
    })
}

/// Figures by queue, tenant and status, in that order.
async fn figures(scoped: &Scoped, query: &Query) -> Result<Rows, Failed> {
    let (limit, filter) = (query.limit()?, query.filter(Name::QueueStats)?);
    let after = match query.cursor.as_deref() {
        None | Some("") => None,
        Some(text) => Some(unpacked(text).ok_or_else(no_cursor)?),
    };
    let mut counts = scoped.counts().await?;
    counts.retain(|count| {
        filter.admits_status(count.status)
            && filter.queue.as_ref().is_none_or(|queue| *queue == count.queue)
            && filter.tenant.as_ref().is_none_or(|tenant| *tenant == count.tenant)
    });
    let mut all: Vec<flat::Figure> = counts.iter().map(Into::into).collect();
    let key = |figure: &flat::Figure| {
        [figure.queue.clone(), figure.tenant_id.clone(), figure.status.to_owned()]
    };
    all.sort_by_key(key);
    all.retain(|figure| after.as_ref().is_none_or(|after| key(figure) > *after));
    let has_more = all.len() > limit;
    all.truncate(limit);
    let next = all.last().filter(|_| has_more).map(|last| packed(&key(last)));
    Ok(Rows { rows: all.into_iter().map(Row::Figure).collect(), next, is_full: true })
}

/// Names as a cursor. No name has a NUL.
fn packed(key: &[String; 3]) -> String {
    key.join("\0").bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn unpacked(cursor: &str) -> Option<[String; 3]> {
    let digits = cursor.as_bytes().chunks(2);
    let byte = |two: &[u8]| {
        let two = std::str::from_utf8(two).ok().filter(|two| two.len() == 2)?;
        u8::from_str_radix(two, 16).ok()
    };
    let bytes: Vec<u8> = digits.map(byte).collect::<Option<_>>()?;
    let text = String::from_utf8(bytes).ok()?;
    let parts: Vec<String> = text.split('\0').map(str::to_owned).collect();
    parts.try_into().ok()
}

/// Items of a search as seed 004 has them.
pub(super) async fn jobs(around: &Around<'_>, found: &[find::Listed]) -> Result<Vec<Job>, Denied> {
    let ids: Vec<ItemId> = found.iter().map(|one| one.item.id).collect();
    Ok(around.facts(&ids).await?.iter().map(Into::into).collect())
}

/// One item as seed 004 has it.
pub(super) fn job(around: &Around<'_>, seen: windrow_core::ports::Inspected) -> Job {
    (&around.fact(seen)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_figures_is_read_again() {
        let key = ["größe".to_owned(), "t".to_owned(), "pending".to_owned()];
        assert_eq!(unpacked(&packed(&key)), Some(key));
        for wrong in ["0", "zz", "00", "ff00ff"] {
            assert_eq!(unpacked(wrong), None, "{wrong}");
        }
    }
}
