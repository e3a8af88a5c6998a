//! What can be asked of views: which there are, and what each is narrowed by.

use serde::Deserialize;
use windrow_core::find;
use windrow_core::item::Status;
use windrow_core::{ItemId, Refusal};
use windrow_wire::list::Filter;
use windrow_wire::problem::Code;
use windrow_wire::read::nearest;

use super::below;
use crate::http::reply::Failed;
use crate::http::reply::no_cursor;

/// Rows on a page, and at most.
const PAGE: usize = 50;
const PAGE_MAX: usize = 200;

/// What stands after the question mark, with what it is.
pub(super) const PARAMETERS: &[(&str, &str)] = &[
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
    pub(super) cursor: Option<String>,
}

/// The views that there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Name {
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

/// Every name that a view has.
pub(in crate::http) fn names() -> Vec<&'static str> {
    NAMES.into_iter().flat_map(|(_, names, _)| names.iter().copied()).collect()
}

/// A view by its name, or the names that there are.
pub(super) fn known(
    asked: &str,
) -> Result<(Name, &'static [&'static str], &'static [&'static str]), Failed> {
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
    pub(super) fn limit(&self) -> Result<usize, Refusal> {
        let limit = self.limit.unwrap_or(PAGE);
        if (1..=PAGE_MAX).contains(&limit) {
            return Ok(limit);
        }
        Err(Refusal::invalid("limit", format!("must lie between 1 and {PAGE_MAX}")))
    }

    /// Refuses what the view cannot be narrowed by.
    pub(super) fn check(&self, view: &str, filters: &[&'static str]) -> Result<(), Refusal> {
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

    pub(super) fn filter(&self, view: Name) -> Result<find::Filter, Refusal> {
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
    pub(super) fn below(&self) -> Result<Option<below::Of>, Refusal> {
        let read = |name: &'static str, id: &Option<String>| match id.as_deref() {
            None | Some("") => Ok(None),
            Some(id) => id
                .parse::<ItemId>()
                .map(Some)
                .map_err(|_| Refusal::invalid(name, "is not an item's id")),
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

    pub(super) fn after(&self) -> Result<Option<ItemId>, Refusal> {
        match self.cursor.as_deref() {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| no_cursor()),
        }
    }
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
}
