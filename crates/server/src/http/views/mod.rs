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

use std::time::Duration;

use axum::Json;
use axum::http::Method;
use axum::routing::get;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use windrow_core::find;
use windrow_core::item::Status;
use windrow_core::{ItemId, Refusal};
use windrow_engine::Clock as _;
use windrow_wire::list::Filter;
use windrow_wire::problem::Code;
use windrow_wire::read::nearest;

pub(super) use self::fact::Around;
use self::fact::Fact;
pub(super) use self::flat::Job;
use super::reply::{Asked, Failed, Named};
use super::table::{Operation, Role};
use crate::auth::{Denied, Scoped};

/// Rows on a page, and at most.
const PAGE: usize = 50;
const PAGE_MAX: usize = 200;
/// How long rows are looked for, and how long what is below them is read.
const SEARCH: Duration = Duration::from_millis(50);
const READ: Duration = Duration::from_millis(500);

/// What can be asked of views.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            Method::GET,
            "/views/{name}",
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

const PARAMETERS: &[(&str, &str)] = &[
    ("status", "only these, separated by commas; our words or a seed's, in any case"),
    ("queue", "only this queue"),
    ("tenant", "only this tenant (also tenant_id, user_id)"),
    ("kind", "only this kind (also item_type, job_type); where a view has it"),
    ("stage", "only items in this stage"),
    ("collection", "only this collection"),
    ("branch", "only this branch"),
    ("document_id", "only pages or chunks of this document, in its order"),
    ("page_id", "only chunks of this page, in its order"),
    ("limit", "how many; 50, at most 200"),
    ("cursor", "where to go on: next of the page before"),
];

#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    status: Option<String>,
    queue: Option<String>,
    #[serde(alias = "user_id", alias = "tenant_id")]
    tenant: Option<String>,
    #[serde(alias = "item_type", alias = "job_type")]
    kind: Option<String>,
    stage: Option<String>,
    collection: Option<String>,
    branch: Option<String>,
    document_id: Option<String>,
    page_id: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// The views that there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Name {
    UnifiedQueue,
    StaleItems,
    JobQueue,
    Documents,
    TaskQueuePage,
    TaskQueueChunk,
    QueueStats,
}

/// Each by its names, the first of which it says of itself, and with what it can be narrowed by.
const NAMES: [(Name, &[&str], &[&str]); 7] = [
    (
        Name::UnifiedQueue,
        &["unified_queue"],
        &["status", "queue", "tenant", "kind", "stage", "collection", "branch"],
    ),
    (
        Name::StaleItems,
        &["stale_items", "v_stale_items"],
        &["queue", "tenant", "kind", "stage", "collection", "branch"],
    ),
    (
        Name::JobQueue,
        &["job_queue"],
        &["status", "queue", "tenant", "kind", "stage", "collection", "branch"],
    ),
    (Name::Documents, &["documents"], &["status", "queue", "tenant", "collection", "branch"]),
    (Name::TaskQueuePage, &["task_queue_page"], &["status", "queue", "tenant", "document_id"]),
    (
        Name::TaskQueueChunk,
        &["task_queue_chunk"],
        &["status", "queue", "tenant", "document_id", "page_id"],
    ),
    (Name::QueueStats, &["queue_stats"], &["status", "queue", "tenant"]),
];

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
    let limit = query.limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(Refusal::invalid("limit", format!("must lie between 1 and {PAGE_MAX}")).into());
    }
    let filter = query.filter(name)?;
    let around = Around::of(&scoped).await?;
    let Rows { rows, next, is_full } = match (name, query.below()?) {
        (Name::QueueStats, _) => figures(&scoped, &filter, &query, limit).await?,
        (_, Some(of)) => {
            below::rows(&around, name, of, &filter, query.cursor.as_deref(), limit).await?
        }
        (Name::StaleItems, None) if !around.any_stale(scoped.clock().now()) => {
            Rows { rows: Vec::new(), next: None, is_full: true }
        }
        (_, None) => newest(&around, name, filter, query.after()?, limit).await?,
    };
    let partial = !is_full && next.is_some();
    Ok(Json(View { view, rows, next, partial }))
}

/// A view by its name, or the names that there are.
fn known(asked: &str) -> Result<(Name, &'static [&'static str], &'static [&'static str]), Failed> {
    let found = NAMES.into_iter().find(|(_, names, _)| names.contains(&asked));
    found.ok_or_else(|| {
        let names = || NAMES.into_iter().map(|(_, names, _)| names[0]);
        let near = nearest(asked, names()).map(|near| format!("; `{near}` is meant, perhaps"));
        let all = names().collect::<Vec<_>>().join(", ");
        let detail = format!("{asked:?} is no view; there are {all}{}", near.unwrap_or_default());
        Failed::new(Code::NotFound, detail)
    })
}

impl Query {
    /// Refuses what the view cannot be narrowed by.
    fn check(&self, view: &str, filters: &[&'static str]) -> Result<(), Refusal> {
        let Query { status, queue, tenant, kind, stage, collection, branch, .. } = self;
        let said = [
            ("status", status),
            ("queue", queue),
            ("tenant", tenant),
            ("kind", kind),
            ("stage", stage),
            ("collection", collection),
            ("branch", branch),
            ("document_id", &self.document_id),
            ("page_id", &self.page_id),
        ];
        let unfit = said.into_iter().find(|(name, said)| said.is_some() && !filters.contains(name));
        let Some((name, _)) = unfit else { return Ok(()) };
        let why = format!("{view} is not narrowed by it, but by {}", filters.join(", "));
        Err(Refusal::invalid(name, why))
    }

    fn filter(&self, view: Name) -> Result<find::Filter, Refusal> {
        let kind = match view {
            Name::Documents => Some("document".to_owned()),
            Name::TaskQueuePage => Some("page".to_owned()),
            Name::TaskQueueChunk => Some("chunk".to_owned()),
            _ => self.kind.clone(),
        };
        let said = Filter {
            status: self.status.clone(),
            queue: self.queue.clone(),
            tenant: self.tenant.clone(),
            kind,
            stage: self.stage.clone(),
            collection: self.collection.clone(),
            branch: self.branch.clone(),
            ..Filter::default()
        };
        let mut filter = said.to_core()?;
        if view == Name::StaleItems {
            filter.statuses = vec![Status::Processing];
        }
        // As the views in the database have it.
        Ok(find::Filter { split_is_processing: true, ..filter })
    }

    /// What rows are to be below, if that is said.
    fn below(&self) -> Result<Option<below::Of>, Refusal> {
        let read = |name: &'static str, id: &Option<String>| match id.as_deref() {
            None | Some("") => Ok(None),
            Some(id) => id
                .parse::<ItemId>()
                .map(Some)
                .map_err(|_| Refusal::invalid(name, format!("{id:?} is not an item's id"))),
        };
        match (read("page_id", &self.page_id)?, read("document_id", &self.document_id)?) {
            (None, None) => Ok(None),
            (None, Some(document)) => Ok(Some(below::Of::Document(document))),
            (Some(page), None) => Ok(Some(below::Of::Page(page))),
            (Some(_), Some(_)) => {
                Err(Refusal::invalid("page_id", "cannot be given with document_id"))
            }
        }
    }

    fn after(&self) -> Result<Option<ItemId>, Refusal> {
        match self.cursor.as_deref() {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| no_cursor(text)),
        }
    }
}

fn no_cursor(text: &str) -> Refusal {
    Refusal::invalid("cursor", format!("{text:?} is none; take `next` of the page before"))
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
async fn figures(
    scoped: &Scoped,
    filter: &find::Filter,
    query: &Query,
    limit: usize,
) -> Result<Rows, Failed> {
    let after = match query.cursor.as_deref() {
        None | Some("") => None,
        Some(text) => Some(unpacked(text).ok_or_else(|| no_cursor(text))?),
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
    fn a_view_that_does_not_exist_is_answered_with_those_that_do() {
        let Err(Failed(problem)) = known("job_queu") else { panic!("there is none") };
        assert_eq!((problem.code, problem.status), (Code::NotFound, 404));
        assert!(problem.detail.contains("unified_queue, stale_items"), "{}", problem.detail);
        assert!(problem.detail.ends_with("`job_queue` is meant, perhaps"), "{}", problem.detail);
        assert!(known("v_stale_items").is_ok_and(|(_, names, _)| names[0] == "stale_items"));
    }

    #[test]
    fn a_view_is_narrowed_only_by_what_it_has() {
        let query = Query { page_id: Some("x".into()), ..Query::default() };
        let check = |view| known(view).map(|(_, names, filters)| query.check(names[0], filters));
        assert!(check("task_queue_chunk").is_ok_and(|checked| checked.is_ok()));
        assert!(check("documents").is_ok_and(|checked| checked.is_err()));
    }

    #[test]
    fn a_cursor_of_figures_is_read_again() {
        let key = ["größe".to_owned(), "t".to_owned(), "pending".to_owned()];
        assert_eq!(unpacked(&packed(&key)), Some(key));
        for wrong in ["0", "zz", "00", "ff00ff"] {
            assert_eq!(unpacked(wrong), None, "{wrong}");
        }
    }
}
