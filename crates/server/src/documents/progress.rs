//! Progress: how far a document is in its three phases, and what of it failed.
//!
//! Counts come from the tally of the document's item, which every commit keeps; what a phase is as
//! a whole follows by the rule of seed 001. If the item is past its keeping, the catalog says what
//! came of it. Only what failed is looked for among the children, and only if something did.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;
use windrow_core::item::{End, Marks, State, Status};
use windrow_core::ports::{Inspected, Store as _};
use windrow_core::tally::{Bucket, Counts, Tally};
use windrow_core::{ItemId, Timestamp};
use windrow_engine::Clock as _;
use windrow_pipelines::catalog::{self, Document, Generation, GenerationKey, GenerationState};
use windrow_pipelines::documents::stage;

use super::Documents;
use crate::auth::Denied;
use crate::store::Queue;

/// The phases: what they are called, and the stage of pages or chunks that is one.
pub(crate) const PHASES: [(&str, &str); 3] =
    [("ocr", stage::OCR), ("vector", stage::VECTOR), ("graphrag", stage::GRAPH)];

/// What failed is listed up to here, in slices of so many children.
const GAPS_MAX: usize = 100;
const SLICE: usize = 200;
/// Documents whose percents are remembered.
const SEEN_MAX: usize = 10_000;

/// How far a document is.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) phases: [Phase; 3],
    pub(crate) percent: f64,
    pub(crate) rate_per_s: Option<f64>,
    pub(crate) eta_ms: Option<u64>,
    pub(crate) item: Option<ItemId>,
}

/// How a document stands in a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Phase {
    pub(crate) status: Status,
    /// Of pages, or of chunks as far as they are known.
    pub(crate) counts: Counts,
}

/// A page or a chunk that failed.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    pub(crate) item: ItemId,
    pub(crate) page: u32,
    pub(crate) chunk: Option<u32>,
    pub(crate) phase: &'static str,
    pub(crate) reason: Option<String>,
}

/// The highest percent that was shown of each document, by generation.
#[derive(Debug, Default)]
pub(super) struct Shown(Mutex<HashMap<Uuid, (u32, f64)>>);

impl Shown {
    /// The percent to show: not less than before, within one generation. What is live falls no more
    /// and is not remembered.
    fn at_least(&self, of: GenerationKey, percent: f64, is_live: bool) -> f64 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_live {
            all.remove(&of.document);
            return percent;
        }
        if all.len() >= SEEN_MAX
            && !all.contains_key(&of.document)
            && let Some(any) = all.keys().next().copied()
        {
            all.remove(&any);
        }
        let shown = all.entry(of.document).or_insert((of.generation, percent));
        if shown.0 != of.generation {
            *shown = (of.generation, percent);
        }
        shown.1 = shown.1.max(percent);
        shown.1
    }
}

impl Documents {
    /// How far the newest generation of a document is. None if it has none.
    pub(crate) async fn progress(&self, of: &Document) -> Result<Option<Progress>, Denied> {
        let Some(newest) = &of.newest else { return Ok(None) };
        let at = GenerationKey { document: of.id, generation: newest.number };
        let seen = match newest.item {
            Some(item) => self.queue.store().inspect(item).await?,
            None => None,
        };
        let known = self.opened().await.map_err(failed)?.catalog.progress(&of.scope.tenant, at);
        let known = known.await.map_err(failed)?.unwrap_or_default();
        let is_live = newest.state == GenerationState::Live;
        let phases = match &seen {
            Some(seen) => phases_of(seen),
            None => phases_known(&known, is_live, newest.failure.is_some()),
        };
        let fraction = if is_live { 1.0 } else { fraction(&phases, &known) };
        let percent = self.shown.at_least(at, (fraction * 1_000.0).floor() / 10.0, is_live);
        let now = self.queue.clock().now();
        let elapsed = seen
            .as_ref()
            .and_then(|seen| elapsed(seen.item.state, seen.trail.stages.first()?.started, now));
        let (rate_per_s, eta_ms) = match elapsed.filter(|_| !is_live) {
            Some(elapsed) if elapsed > 0 => pace(&phases[0].counts, percent, elapsed),
            _ => (None, None),
        };
        let item = seen.as_ref().map(|seen| seen.item.id);
        Ok(Some(Progress { phases, percent, rate_per_s, eta_ms, item }))
    }

    /// How documents of one tenant stand in their phases, in their order; None of one that is being
    /// deleted and has no generation any more.
    pub(crate) async fn phases(&self, of: &[Document]) -> Result<Vec<Option<[Phase; 3]>>, Denied> {
        let items: Vec<ItemId> = of.iter().filter_map(|of| of.newest.as_ref()?.item).collect();
        let seen = self.queue.store().inspect_all(&items).await?;
        let seen: HashMap<ItemId, Inspected> =
            seen.into_iter().map(|seen| (seen.item.id, seen)).collect();
        let item = |newest: &Generation| newest.item.and_then(|item| seen.get(&item));
        let past = |of: &Document| {
            let newest = of.newest.as_ref().filter(|newest| item(newest).is_none())?;
            Some(GenerationKey { document: of.id, generation: newest.number })
        };
        let past: Vec<GenerationKey> = of.iter().filter_map(past).collect();
        let known = match of.first() {
            Some(first) if !past.is_empty() => {
                let catalog = &self.opened().await.map_err(failed)?.catalog;
                let known = catalog.progress_of(&first.scope.tenant, past);
                known.await.map_err(failed)?
            }
            _ => Vec::new(),
        };
        let mut known = known.into_iter();
        let mut phases = |newest: &Generation| match item(newest) {
            Some(seen) => phases_of(seen),
            None => {
                let known = known.next().flatten().unwrap_or_default();
                let is_live = newest.state == GenerationState::Live;
                phases_known(&known, is_live, newest.failure.is_some())
            }
        };
        let newest = of.iter().map(|of| of.newest.as_ref());
        Ok(newest.map(|newest| newest.map(&mut phases)).collect())
    }

    /// An item of a document, if it is kept.
    pub(crate) async fn inspected(&self, item: ItemId) -> Result<Option<Inspected>, Denied> {
        Ok(self.queue.store().inspect(item).await?)
    }

    /// The items that read pages of a document, from a page on, by the numbers of the pages.
    pub(crate) async fn page_items(
        &self,
        of: ItemId,
        from: u32,
        limit: usize,
    ) -> Result<HashMap<u32, Inspected>, Denied> {
        let ids = self.queue.store().children(of, from, limit).await?;
        let seen = self.queue.store().inspect_all(&ids).await?;
        // What a document is split into later has numbers above.
        let number = |seen: &Inspected| {
            seen.item
                .place
                .filter(|place| place.ordinal == place.number())
                .map(|place| place.number())
        };
        Ok(seen.into_iter().filter_map(|seen| Some((number(&seen)?, seen))).collect())
    }

    /// What failed of a document, in its order, up to a bound.
    pub(crate) async fn gaps(&self, item: ItemId) -> Result<Vec<Gap>, Denied> {
        let Some(root) = self.queue.store().inspect(item).await? else { return Ok(Vec::new()) };
        let mut gaps = Vec::new();
        if root.tally.as_ref().is_none_or(|tally| tally.gaps == 0) {
            return Ok(gaps);
        }
        let mut pages = Children { queue: &self.queue, of: item, from: Some(0) };
        while let Some(slice) = pages.next().await? {
            for child in slice {
                gap(&child, None, &mut gaps);
                if child.tally.as_ref().is_some_and(|tally| tally.gaps > 0) {
                    let page = child.item.place.map_or(0, |place| place.number());
                    let of = child.item.id;
                    let mut chunks = Children { queue: &self.queue, of, from: Some(0) };
                    while let Some(slice) = chunks.next().await? {
                        slice.iter().for_each(|chunk| gap(chunk, Some(page), &mut gaps));
                    }
                }
                if gaps.len() >= GAPS_MAX {
                    gaps.truncate(GAPS_MAX);
                    return Ok(gaps);
                }
            }
        }
        Ok(gaps)
    }
}

fn failed(error: catalog::CatalogError) -> Denied {
    Denied::from(windrow_core::ports::StoreError::NotApplied(error.to_string()))
}

/// Notes a child that failed. A chunk below a page is told its page.
fn gap(child: &Inspected, page: Option<u32>, into: &mut Vec<Gap>) {
    if child.item.state != State::Done(End::Failed) {
        return;
    }
    let at = usize::from(child.item.stage);
    let stage = &*child.body.route.stage(child.item.stage).name;
    let phase = match stage {
        stage::OCR => "ocr",
        stage::GRAPH => "graphrag",
        _ => "vector",
    };
    let error = child.trail.stages.get(at).and_then(|record| record.error.as_ref());
    let reason = error.map(|error| error.message.to_string());
    let reason = reason.or_else(|| child.trail.reason.clone());
    let number = child.item.place.map_or(0, |place| place.number());
    // Where everything waits for everything, chunks are children of the document itself, and their
    // numbers have the page in them.
    let (page, chunk) = match (page, &*child.body.kind) {
        (Some(page), _) => (page, Some(number)),
        (None, windrow_pipelines::documents::CHUNK) => {
            let bits = windrow_pipelines::documents::CHUNK_BITS;
            (number >> bits, Some(number & ((1 << bits) - 1)))
        }
        (None, _) => (number, None),
    };
    into.push(Gap { item: child.item.id, page, chunk, phase, reason });
}

/// The children of an item, slice by slice.
struct Children<'a> {
    queue: &'a Queue,
    of: ItemId,
    /// The next ordinal; none after the last.
    from: Option<u32>,
}

impl Children<'_> {
    async fn next(&mut self) -> Result<Option<Vec<Inspected>>, Denied> {
        let Some(from) = self.from else { return Ok(None) };
        let ids = self.queue.store().children(self.of, from, SLICE).await?;
        let seen = self.queue.store().inspect_all(&ids).await?;
        let last = seen.iter().filter_map(|seen| seen.item.place).next_back();
        self.from = last.filter(|_| ids.len() == SLICE).map(|place| place.ordinal + 1);
        Ok(Some(seen))
    }
}

/// The phases of a document, from its item.
pub(crate) fn phases_of(seen: &Inspected) -> [Phase; 3] {
    PHASES.map(|(_, stage)| {
        let tally = seen.tally.as_ref().filter(|_| seen.item.has(Marks::PARENT));
        let counts = tally.map(|tally| counts(tally, stage)).unwrap_or_default();
        let whole = tally.and_then(|tally| {
            let phase = tally.phases.iter().find(|(name, _)| **name == *stage);
            phase.map(|(_, counts)| counts.status())
        });
        let status = whole.unwrap_or_else(|| unsplit(seen, stage));
        Phase { status, counts }
    })
}

/// Everything below that has a stage, by how it stands in it.
fn counts(tally: &Tally, stage: &str) -> Counts {
    let mut all = Counts::default();
    for level in tally.levels.iter().filter(|level| *level.phase == *stage) {
        all.0.iter_mut().zip(level.counts.0).for_each(|(all, count)| *all += count);
    }
    all
}

/// How a document stands in a phase that none of its children has reached: what it does itself is
/// the beginning of the first phase.
fn unsplit(seen: &Inspected, stage: &str) -> Status {
    match seen.item.status() {
        Status::Completed => Status::Completed,
        Status::Cancelled => Status::Cancelled,
        status if stage == stage::OCR => status,
        _ => Status::Pending,
    }
}

/// The same from the catalog, when the item is gone.
fn phases_known(known: &catalog::Progress, is_live: bool, has_failed: bool) -> [Phase; 3] {
    let pages = known.pages.unwrap_or(0);
    let phase = |total: u32, completed: u32, failed: u32| {
        let mut counts = Counts::default();
        counts.0[Bucket::Completed as usize] = completed;
        counts.0[Bucket::Failed as usize] = failed;
        // What was neither was skipped, or nobody came to do it.
        let rest = if is_live { Bucket::Skipped } else { Bucket::Pending };
        counts.0[rest as usize] = total.saturating_sub(completed + failed);
        let status = match () {
            () if total == 0 && has_failed => Status::Failed,
            () if total == 0 && !is_live => Status::Pending,
            () => counts.status(),
        };
        Phase { status, counts }
    };
    [
        phase(pages, known.pages_read, known.pages_without),
        phase(known.chunks, known.chunks_embedded, 0),
        phase(known.chunks, known.chunks_linked, 0),
    ]
}

/// How much of everything is done, from 0 to 1. Each phase counts as much as another. Chunks of
/// pages that are not cut yet are reckoned with: as many as the others have on average.
fn fraction(phases: &[Phase; 3], known: &catalog::Progress) -> f64 {
    let ended = |counts: &Counts| {
        let open = counts.of(Bucket::Pending) + counts.of(Bucket::Processing);
        f64::from(counts.total() - open)
    };
    let pages = f64::from(known.pages.unwrap_or(0));
    let cut = f64::from(known.pages_chunked.max(1)).min(pages.max(1.0));
    let chunks = (f64::from(known.chunks) * pages / cut).max(1.0);
    let of = |done: f64, all: f64| if all > 0.0 { (done / all).min(1.0) } else { 0.0 };
    let read = of(ended(&phases[0].counts), pages);
    let parts = [&phases[1], &phases[2]].map(|phase| of(ended(&phase.counts), chunks));
    (read + parts[0] + parts[1]) / 3.0
}

/// How long an item has been in work, if it still is: what has ended has no pace.
fn elapsed(state: State, began: Option<Timestamp>, now: Timestamp) -> Option<u64> {
    let is_over = matches!(state, State::Done(_));
    began.filter(|_| !is_over).map(|began| now.0.saturating_sub(began.0))
}

/// Pages in a second, and how long the rest takes at this pace.
fn pace(pages: &Counts, percent: f64, elapsed_ms: u64) -> (Option<f64>, Option<u64>) {
    let read = f64::from(pages.of(Bucket::Completed));
    let rate = (read > 0.0).then(|| (read * 1e5 / elapsed_ms as f64).round() / 100.0);
    let left = (percent > 0.0).then(|| elapsed_ms as f64 * (100.0 - percent) / percent);
    (rate, left.map(|left| left as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(completed: u32, pending: u32) -> Phase {
        let mut counts = Counts::default();
        counts.0[Bucket::Completed as usize] = completed;
        counts.0[Bucket::Pending as usize] = pending;
        Phase { status: counts.status(), counts }
    }

    fn known(pages: u32, pages_chunked: u32, chunks: u32) -> catalog::Progress {
        catalog::Progress { pages: Some(pages), pages_chunked, chunks, ..Default::default() }
    }

    #[test]
    fn every_phase_counts_as_much_and_chunks_to_come_are_reckoned_with() {
        let none = counted(0, 0);
        let check = |phases: [Phase; 3], known: catalog::Progress, want: f64| {
            let is = fraction(&phases, &known);
            assert!((is - want).abs() < 1e-9, "{is} instead of {want}");
        };
        check([none, none, none], known(0, 0, 0), 0.0);
        check([counted(5, 5), none, none], known(10, 0, 0), 1.0 / 6.0);
        // Half of the pages gave ten chunks, so that there will be twenty.
        check([counted(5, 5), counted(10, 0), none], known(10, 5, 10), 1.0 / 3.0);
        check([counted(10, 0), counted(20, 0), counted(20, 0)], known(10, 10, 20), 1.0);
    }

    #[test]
    fn what_is_shown_never_falls_within_one_generation() {
        let shown = Shown::default();
        let at = |generation| GenerationKey { document: Uuid::from_u128(1), generation };
        let all = [(1, 10.0, 10.0), (1, 8.0, 10.0), (1, 12.0, 12.0), (2, 3.0, 3.0)];
        for (generation, percent, want) in all {
            assert!((shown.at_least(at(generation), percent, false) - want).abs() < 1e-9);
        }
    }

    /// All were forgotten when there were too many, so that percents fell.
    #[test]
    fn one_more_document_than_are_remembered_costs_one_and_a_live_one_none() {
        let shown = Shown::default();
        let at = |number: usize| GenerationKey {
            document: Uuid::from_u128(number as u128),
            generation: 1,
        };
        let remembered = || shown.0.lock().unwrap_or_else(PoisonError::into_inner).len();
        for number in 0..SEEN_MAX {
            shown.at_least(at(number), 50.0, false);
        }
        shown.at_least(at(0), 60.0, false);
        assert_eq!(remembered(), SEEN_MAX, "it is known");
        shown.at_least(at(SEEN_MAX), 50.0, false);
        assert_eq!(remembered(), SEEN_MAX);
        shown.at_least(at(SEEN_MAX), 100.0, true);
        shown.at_least(at(SEEN_MAX + 1), 100.0, true);
        assert_eq!(remembered(), SEEN_MAX - 1);
    }

    /// The rest took the longer the more time passed after the end.
    #[test]
    fn what_has_ended_has_no_pace() {
        let (began, now) = (Some(Timestamp(1_000)), Timestamp(4_000));
        for end in [End::Failed, End::Cancelled, End::Completed] {
            assert_eq!(elapsed(State::Done(end), began, now), None);
        }
        assert_eq!(elapsed(State::Split, began, now), Some(3_000));
        assert_eq!(elapsed(State::Split, None, now), None, "nobody has begun");
    }

    #[test]
    fn the_pace_says_how_long_the_rest_takes() {
        assert_eq!(pace(&counted(30, 70).counts, 25.0, 10_000), (Some(3.0), Some(30_000)));
        assert_eq!(pace(&counted(0, 70).counts, 0.0, 10_000), (None, None));
    }

    #[test]
    fn a_document_whose_item_is_gone_is_what_the_catalog_says() {
        let statuses = |known: &catalog::Progress, is_live, has_failed| {
            phases_known(known, is_live, has_failed).map(|phase| phase.status)
        };
        let (pending, completed, failed) = (Status::Pending, Status::Completed, Status::Failed);
        let nothing = catalog::Progress::default();
        assert_eq!(statuses(&nothing, false, false), [pending; 3]);
        assert_eq!(statuses(&nothing, false, true), [failed; 3]);
        let mut read = known(2, 2, 4);
        (read.pages_read, read.chunks_embedded, read.chunks_linked) = (2, 4, 3);
        assert_eq!(statuses(&read, true, false), [completed; 3], "one was skipped");
        (read.pages_read, read.pages_without) = (1, 1);
        assert_eq!(statuses(&read, true, false), [failed, completed, completed]);
    }
}
