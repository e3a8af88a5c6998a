//! The manifest: what came of every page, how far its chunks are, and which item does it.
//!
//! Shown in pages of its own, each of which costs what it shows. What failed is looked for among a
//! bounded number of pages, after which the next request goes on.

use std::collections::HashMap;

use axum::Json;
use serde::Deserialize;
use windrow_core::Refusal;
use windrow_core::find::shown;
use windrow_core::item::{End, State};
use windrow_core::ports::Inspected;
use windrow_pipelines::catalog::{
    Generation, GenerationKey, ManifestLine, ManifestOutcome, PageChunks,
};
use windrow_wire::document as wire;

use super::super::reply::{Asked, Failed, within};
use super::Known;
use super::progress::task;

/// Pages that are shown, and at most.
const LISTED: u64 = 50;
const LISTED_MAX: u64 = 200;
/// Pages that one request looks at for what failed, and how many of them at a time.
const LOOKED_AT_MAX: usize = 2_000;
const SLICE: usize = 500;

pub(super) const PAGES: &[(&str, &str)] = &[
    ("generation", "which version; the newest if left out"),
    ("only", "failed: only pages that failed, or of which something did"),
    ("from", "the number of the first page"),
    ("after", "`next` of the page before"),
    ("limit", "how many; 50, at most 200"),
];

/// Which pages are meant.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Pages {
    generation: Option<u32>,
    only: Option<String>,
    from: Option<u32>,
    after: Option<String>,
    limit: Option<u64>,
}

impl Pages {
    /// The number after which it begins.
    fn after(&self) -> Result<u32, Refusal> {
        let after = self.after.as_deref().filter(|after| !after.is_empty());
        let after = after.map(|after| {
            after.parse().map_err(|_| Refusal::invalid("after", "is not a page's number"))
        });
        match (after.transpose()?, self.from) {
            (Some(_), Some(_)) => Err(Refusal::invalid("from", "is given beside after")),
            (Some(after), None) => Ok(after),
            (None, from) => Ok(from.unwrap_or(1).saturating_sub(1)),
        }
    }

    fn only_failed(&self) -> Result<bool, Refusal> {
        match self.only.as_deref() {
            None | Some("") => Ok(false),
            Some("failed") => Ok(true),
            Some(_) => Err(Refusal::invalid("only", "must be failed")),
        }
    }
}

pub(super) async fn manifest(
    known: Known,
    Asked(pages): Asked<Pages>,
) -> Result<Json<wire::Manifest>, Failed> {
    let limit = within("limit", pages.limit.unwrap_or(LISTED), LISTED_MAX)? as usize;
    let (after, only_failed) = (pages.after()?, pages.only_failed()?);
    let generation =
        pages.generation.map_or_else(|| Ok(known.newest()?.number), Ok::<_, Failed>)?;
    let version = known.version(generation).await?;
    let of = GenerationKey { document: known.document.id, generation };
    let reading = Reading { known: &known, of, version: version.as_ref() };
    let (lines, next) = match only_failed {
        true => reading.failed(after, limit).await?,
        false => reading.all(after, limit).await?,
    };
    Ok(Json(wire::Manifest {
        document: of.document.to_string(),
        generation,
        failure: version.as_ref().and_then(|version| version.failure.clone()),
        pages: reading.told(lines).await?,
        next,
    }))
}

/// A page, and the item that reads it if that is kept.
type Line = (ManifestLine, Option<Inspected>);

/// One version of a document whose pages are shown.
struct Reading<'a> {
    known: &'a Known,
    of: GenerationKey,
    version: Option<&'a Generation>,
}

impl Reading<'_> {
    /// Pages after a number, and the number after which it goes on.
    async fn all(&self, after: u32, limit: usize) -> Result<(Vec<Line>, Option<u32>), Failed> {
        // One more than is shown says whether there are more.
        let mut lines = self.slice(after, limit + 1, true).await?;
        let has_more = lines.len() > limit;
        lines.truncate(limit);
        let next = lines.last().filter(|_| has_more).map(|(last, _)| last.number);
        Ok((lines, next))
    }

    /// The same of what failed.
    async fn failed(&self, after: u32, limit: usize) -> Result<(Vec<Line>, Option<u32>), Failed> {
        let with_items = self.has_gaps().await?;
        let (mut found, mut at) = (Vec::new(), after);
        for _ in 0..LOOKED_AT_MAX / SLICE {
            let slice = self.slice(at, SLICE, with_items).await?;
            let is_last = slice.len() < SLICE;
            for line in slice {
                at = line.0.number;
                found.extend(Some(line).filter(has_failed));
                if found.len() >= limit {
                    return Ok((found, Some(at)));
                }
            }
            if is_last {
                return Ok((found, None));
            }
        }
        Ok((found, Some(at)))
    }

    /// Whether an item of a page can have failed; those of a document without gaps need no look.
    async fn has_gaps(&self) -> Result<bool, Failed> {
        let Some(item) = self.version.and_then(|version| version.item) else { return Ok(false) };
        let root = self.known.app.documents.inspected(item).await?;
        Ok(root.and_then(|root| root.tally).is_some_and(|tally| tally.gaps > 0))
    }

    async fn slice(&self, after: u32, limit: usize, with_items: bool) -> Result<Vec<Line>, Failed> {
        let (catalog, tenant) = (&self.known.opened().await?.catalog, self.tenant());
        let lines = catalog.manifest(tenant, self.of, after, limit as u32).await?;
        let item = self.version.and_then(|version| version.item).filter(|_| with_items);
        let mut items = match (item, lines.first()) {
            (Some(item), Some(first)) => {
                let documents = &self.known.app.documents;
                documents.page_items(item, first.number, lines.len()).await?
            }
            _ => HashMap::new(),
        };
        let with_item = |line: ManifestLine| {
            let item = items.remove(&line.number);
            (line, item)
        };
        Ok(lines.into_iter().map(with_item).collect())
    }

    /// Pages as they are told, with how far their chunks are.
    async fn told(&self, lines: Vec<Line>) -> Result<Vec<wire::ManifestLine>, Failed> {
        let (catalog, tenant) = (&self.known.opened().await?.catalog, self.tenant());
        let numbers = lines.iter().map(|(line, _)| line.number).collect();
        let chunks = catalog.page_chunks(tenant, self.of, numbers).await?;
        Ok(lines
            .into_iter()
            .zip(chunks)
            .map(|((line, seen), done)| told(line, seen, done))
            .collect())
    }

    fn tenant(&self) -> &str {
        &self.known.document.scope.tenant
    }
}

fn has_failed((line, item): &Line) -> bool {
    let has_failed = |seen: &Inspected| {
        seen.item.state == State::Done(End::Failed)
            || seen.tally.as_ref().is_some_and(|tally| tally.gaps > 0)
    };
    matches!(line.outcome, ManifestOutcome::Without { .. }) || item.as_ref().is_some_and(has_failed)
}

fn told(line: ManifestLine, seen: Option<Inspected>, done: PageChunks) -> wire::ManifestLine {
    let ManifestLine { number, outcome, chunks } = line;
    let (outcome, how, bytes, reason) = match outcome {
        ManifestOutcome::Waiting => (wire::PageOutcome::Waiting, None, None, None),
        ManifestOutcome::Read { how, bytes } => {
            (wire::PageOutcome::Read, Some(how), Some(bytes), None)
        }
        ManifestOutcome::Without { reason } => {
            (wire::PageOutcome::Without, None, None, Some(reason))
        }
    };
    let item = seen.map(|seen| wire::PageItem {
        id: seen.item.id.to_string(),
        status: task(shown(&seen.item, seen.tally.as_ref())),
        attempts: seen.item.attempts,
    });
    let PageChunks { total, embedded, linked } = done;
    let vector = wire::Share { total, done: embedded };
    let graph = wire::Share { total, done: linked };
    wire::ManifestLine { number, outcome, how, bytes, reason, chunks, vector, graph, item }
}
