//! How far documents are: one of them, and all together.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use windrow_core::Refusal;
use windrow_core::command::RetryMode;
use windrow_core::item::Status;
use windrow_core::ports::Store as _;
use windrow_core::tally::{Bucket, Counts};
use windrow_pipelines::catalog::{Document, DocumentCursor, DocumentFilter};
use windrow_wire::document as wire;
use windrow_wire::problem::Code;

use super::super::App;
use super::super::reply::{Asked, Failed};
use super::change::Begun;
use super::show::state;
use super::{Known, TENANT, tenant};
use crate::auth::Scoped;
use crate::documents::progress::{Gap, PHASES, Phase, Progress};

/// Documents whose items are looked at together.
const SLICE: u32 = 200;
/// How many documents are named as ready.
const READY_MAX: usize = 200;

pub(super) const OF_TENANT: &[(&str, &str)] = &[TENANT];
pub(super) const READY: &[(&str, &str)] =
    &[("phase", "vector or graphrag: documents that completed the one before"), TENANT];

/// Whose documents are meant, and for which phase.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    phase: Option<String>,
    #[serde(alias = "user_id")]
    tenant: Option<String>,
}

/// The progress of a document, as it is told.
pub(super) async fn shown(app: &App, document: &Document) -> Result<wire::Progress, Failed> {
    let gone = || Failed::not_found("such document any more");
    let progress = app.documents.progress(document).await?.ok_or_else(gone)?;
    let gaps = match progress.item {
        Some(item) => app.documents.gaps(item).await?,
        None => Vec::new(),
    };
    Ok(told(document, &progress, gaps))
}

fn told(document: &Document, progress: &Progress, gaps: Vec<Gap>) -> wire::Progress {
    let [ocr, vector, graph] = &progress.phases;
    let completed = |phase: &Phase| phase.counts.of(Bucket::Completed);
    let gap = |gap: Gap| wire::Gap {
        page: gap.page,
        chunk: gap.chunk,
        phase: gap.phase.to_owned(),
        reason: gap.reason,
        item: gap.item.to_string(),
    };
    let newest = document.newest.as_ref();
    let pages = newest.and_then(|newest| newest.pages).unwrap_or(0);
    wire::Progress {
        id: document.id.to_string(),
        filename: document.name.clone(),
        generation: newest.map_or(0, |newest| newest.number),
        state: state(document.state),
        ocr_status: task(ocr.status),
        vector_index_status: task(vector.status),
        graphrag_index_status: task(graph.status),
        total_pages: pages.max(ocr.counts.total()),
        ocr_completed_pages: completed(ocr),
        ocr_failed_pages: ocr.counts.of(Bucket::Failed),
        total_chunks: vector.counts.total(),
        vector_completed_chunks: completed(vector),
        graphrag_completed_chunks: completed(graph),
        phases: phases(&progress.phases),
        percent: progress.percent,
        rate_per_s: progress.rate_per_s,
        eta_ms: progress.eta_ms,
        gaps: gaps.into_iter().map(gap).collect(),
        item: progress.item.map(|item| item.to_string()),
    }
}

/// The phases of a document, as they are told.
pub(super) fn phases(all: &[Phase; 3]) -> Vec<wire::Phase> {
    let phase = |((name, _), phase): (&(&str, &str), &Phase)| wire::Phase {
        name: (*name).to_owned(),
        status: task(phase.status),
        total: phase.counts.total(),
        pending: phase.counts.of(Bucket::Pending) + phase.counts.of(Bucket::Unreached),
        processing: phase.counts.of(Bucket::Processing),
        completed: phase.counts.of(Bucket::Completed),
        failed: phase.counts.of(Bucket::Failed),
        skipped: phase.counts.of(Bucket::Skipped),
        cancelled: phase.counts.of(Bucket::Cancelled),
        percent: percent(&phase.counts),
    };
    PHASES.iter().zip(all).map(phase).collect()
}

fn percent(counts: &Counts) -> f64 {
    let ended = counts.total() - counts.of(Bucket::Pending) - counts.of(Bucket::Processing);
    match counts.total() {
        0 => 0.0,
        total => (f64::from(ended) * 1_000.0 / f64::from(total)).floor() / 10.0,
    }
}

pub(super) fn task(status: Status) -> wire::Task {
    match status {
        Status::Pending => wire::Task::Pending,
        Status::Processing => wire::Task::Processing,
        Status::Completed => wire::Task::Completed,
        Status::Failed => wire::Task::Failed,
        Status::Skipped => wire::Task::Skipped,
        Status::Cancelled => wire::Task::Cancelled,
    }
}

/// A tenant's documents with their phases, slice by slice. Goes by the catalog: whoever looks for
/// their items among all pages and chunks looks at those too.
struct All<'a> {
    app: &'a App,
    filter: DocumentFilter,
    after: Option<DocumentCursor>,
    is_over: bool,
}

impl<'a> All<'a> {
    async fn of(app: &'a App, tenant: &str) -> Result<All<'a>, Failed> {
        let is_over = !app.documents.is_begun().await?;
        Ok(All { app, filter: DocumentFilter::of(tenant), after: None, is_over })
    }

    async fn next(&mut self) -> Result<Option<Vec<(Document, [Phase; 3])>>, Failed> {
        if self.is_over {
            return Ok(None);
        }
        let documents = &self.app.documents;
        let catalog = &documents.opened().await?.catalog;
        let found = catalog.documents(self.filter.clone(), self.after, SLICE).await?;
        self.is_over = found.len() < SLICE as usize;
        self.after = found.last().map(Document::cursor);
        let phases = documents.phases(&found).await?;
        let with_phases = found.into_iter().zip(phases);
        Ok(Some(with_phases.filter_map(|(document, of)| Some((document, of?))).collect()))
    }
}

pub(super) async fn stats(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Asked(which): Asked<Which>,
) -> Result<Json<Vec<wire::Stat>>, Failed> {
    let mut documents = All::of(&app, &tenant(which.tenant.as_deref(), &scoped)?).await?;
    let mut all = [Counts::default(); 3];
    while let Some(slice) = documents.next().await? {
        for (_, phases) in &slice {
            for (all, phase) in all.iter_mut().zip(phases) {
                all.0.iter_mut().zip(phase.counts.0).for_each(|(all, count)| *all += count);
            }
        }
    }
    let names = ["ocr_pages", "vector_chunks", "graphrag_chunks"];
    let rows = names.into_iter().zip(all).flat_map(|(task_type, counts)| {
        let count = |bucket| u64::from(counts.of(bucket));
        let rows = [
            (wire::Task::Pending, count(Bucket::Pending) + count(Bucket::Unreached)),
            (wire::Task::Processing, count(Bucket::Processing)),
            (wire::Task::Completed, count(Bucket::Completed)),
            (wire::Task::Failed, count(Bucket::Failed)),
            (wire::Task::Skipped, count(Bucket::Skipped)),
            (wire::Task::Cancelled, count(Bucket::Cancelled)),
        ];
        let is_there = rows.into_iter().filter(|(_, count)| *count > 0);
        is_there.map(move |(status, count)| wire::Stat {
            task_type: task_type.to_owned(),
            status,
            count,
        })
    });
    Ok(Json(rows.collect()))
}

pub(super) async fn ready(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Asked(which): Asked<Which>,
) -> Result<Json<Vec<wire::Ready>>, Failed> {
    let next = match which.phase.as_deref() {
        Some("vector") => 1,
        Some("graphrag" | "graph") => 2,
        _ => return Err(Refusal::invalid("phase", "must be vector or graphrag").into()),
    };
    let mut documents = All::of(&app, &tenant(which.tenant.as_deref(), &scoped)?).await?;
    let mut ready = Vec::new();
    while ready.len() < READY_MAX
        && let Some(slice) = documents.next().await?
    {
        for (document, phases) in slice {
            let is_ready = phases[next - 1].status == Status::Completed
                && phases[next].status == Status::Pending;
            let item = document.newest.as_ref().and_then(|newest| newest.item);
            if let Some(item) = item.filter(|_| is_ready) {
                let id = document.id.to_string();
                ready.push(wire::Ready { id, filename: document.name, item: item.to_string() });
            }
        }
    }
    ready.truncate(READY_MAX);
    Ok(Json(ready))
}

/// Retries what failed below the document's item, or the item itself if it did.
pub(super) async fn recover(
    scoped: Scoped,
    known: Known,
) -> Result<(StatusCode, Json<Begun>), Failed> {
    let queue = scoped.of(&known.document.scope.tenant)?;
    let gone = || {
        let detail = "the item of this document is past its keeping; do it again with /reindex";
        Failed::new(Code::NotFound, detail)
    };
    let item = known.newest()?.item.ok_or_else(gone)?;
    let seen = queue.store().inspect(item).await?.ok_or_else(gone)?;
    let gaps = seen.tally.as_ref().map_or(0, |tally| tally.gaps);
    if seen.item.status() != Status::Failed && gaps == 0 {
        let detail = "nothing of this document failed";
        return Err(Failed::new(Code::NotResettable, detail));
    }
    queue.retry(item, RetryMode::Reset, None, None).await?;
    let begun = Begun { document: known.document.id.to_string(), item: item.to_string() };
    Ok((StatusCode::ACCEPTED, Json(begun)))
}
