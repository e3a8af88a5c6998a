//! What is below a document or a page, in its order; and what is above a page or a chunk.

use std::collections::HashMap;

use tokio::time::Instant;
use windrow_core::ItemId;
use windrow_core::find::Filter;
use windrow_core::ports::Inspected;

use super::documents::SLICE;
use super::fact::{Around, Fact};
use super::{Name, READ, Row, Rows, row};
use crate::auth::Denied;
use crate::http::reply::Failed;
use crate::http::reply::no_cursor;

/// Whose pages or chunks are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    Document(ItemId),
    Page(ItemId),
}

/// What pages or chunks are directly below: those of an older generation of it count no more.
#[derive(Debug, Default)]
pub(super) struct Above(HashMap<ItemId, Inspected>);

impl Above {
    pub(super) async fn of(
        around: &Around<'_>,
        view: Name,
        facts: &[Fact],
    ) -> Result<Above, Denied> {
        if !matches!(view, Name::TaskQueuePage | Name::TaskQueueChunk) {
            return Ok(Above::default());
        }
        let mut parents: Vec<ItemId> =
            facts.iter().filter_map(|fact| Some(fact.seen.item.place?.parent)).collect();
        parents.sort_unstable();
        parents.dedup();
        let seen = around.scoped().inspect_all(&parents).await?;
        Ok(Above(seen.into_iter().map(|seen| (seen.item.id, seen)).collect()))
    }

    /// Whether an item belongs to the current generation of what it is below.
    pub(super) fn holds(&self, fact: &Fact) -> bool {
        let Some(place) = fact.seen.item.place else { return false };
        self.0.get(&place.parent).is_some_and(|parent| parent.item.generation == place.generation)
    }

    /// What is above the parent of an item.
    pub(super) fn document(&self, fact: &Fact) -> Option<ItemId> {
        let parent = self.0.get(&fact.seen.item.place?.parent)?;
        Some(parent.item.place?.parent)
    }
}

/// Where a walk stands: the next ordinal below what was asked for, and the next below that.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct At(u32, u32);

impl At {
    fn read(cursor: Option<&str>) -> Result<At, Failed> {
        let Some(text) = cursor.filter(|text| !text.is_empty()) else { return Ok(At::default()) };
        let parts = text.split_once('.').map(|(outer, inner)| (outer.parse(), inner.parse()));
        match parts {
            Some((Ok(outer), Ok(inner))) => Ok(At(outer, inner)),
            _ => Err(no_cursor().into()),
        }
    }

    fn written(self) -> String {
        format!("{}.{}", self.0, self.1)
    }
}

/// Rows of a view that are below an item.
pub(super) async fn rows(
    around: &Around<'_>,
    view: Name,
    of: Of,
    filter: &Filter,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Rows, Failed> {
    let mut walk = Walk {
        around,
        view,
        filter,
        limit,
        until: Instant::now() + READ,
        rows: Vec::new(),
        is_full: true,
    };
    let from = At::read(cursor)?;
    let next = match of {
        Of::Document(document) if view == Name::TaskQueueChunk => walk.deep(document, from).await?,
        Of::Document(id) | Of::Page(id) => {
            walk.flat(id, from.0).await?.map(|ordinal| At(ordinal, 0))
        }
    };
    Ok(Rows { rows: walk.rows, next: next.map(At::written), is_full: walk.is_full })
}

struct Walk<'a> {
    around: &'a Around<'a>,
    view: Name,
    filter: &'a Filter,
    limit: usize,
    until: Instant,
    rows: Vec<Row>,
    /// The time was not over first.
    is_full: bool,
}

impl Walk<'_> {
    /// Whether there is room and time for another row.
    fn goes_on(&mut self) -> bool {
        if self.rows.len() >= self.limit {
            return false;
        }
        self.is_full = self.rows.is_empty() || Instant::now() < self.until;
        self.is_full
    }

    /// Whether the time is over, also if no row was found in it.
    fn is_late(&mut self) -> bool {
        let is_late = Instant::now() >= self.until;
        self.is_full &= !is_late;
        is_late
    }

    /// Children of an item from an ordinal on; and with which ordinal it goes on, if not all.
    async fn slice(&self, of: ItemId, from: u32) -> Result<(Vec<Fact>, Option<u32>), Denied> {
        let ids = self.around.scoped().children(of, from, SLICE).await?;
        let facts = self.around.facts(&ids).await?;
        let last = facts.iter().filter_map(|fact| fact.seen.item.place).next_back();
        let next = last.filter(|_| ids.len() == SLICE).map(|place| place.ordinal + 1);
        Ok((facts, next))
    }

    /// Rows of what is directly below an item.
    async fn flat(&mut self, of: ItemId, from: u32) -> Result<Option<u32>, Denied> {
        let mut from = Some(from);
        while let Some(first) = from {
            if self.is_late() {
                return Ok(Some(first));
            }
            let (facts, next) = self.slice(of, first).await?;
            let above = Above::of(self.around, self.view, &facts).await?;
            for fact in facts.iter().filter(|fact| self.filter.admits(&fact.seen)) {
                if !self.goes_on() {
                    return Ok(fact.seen.item.place.map(|place| place.ordinal));
                }
                self.rows.extend(row(self.around, self.view, fact, &above).await?);
            }
            from = next;
        }
        Ok(None)
    }

    /// Chunks of a document: of all its pages, and those directly below it.
    async fn deep(&mut self, document: ItemId, at: At) -> Result<Option<At>, Denied> {
        let (mut from, mut inner) = (Some(at.0), at.1);
        while let Some(first) = from {
            let (facts, next) = self.slice(document, first).await?;
            let above = Above::of(self.around, self.view, &facts).await?;
            for fact in &facts {
                let ordinal = fact.seen.item.place.map_or(0, |place| place.ordinal);
                if (inner == 0 || ordinal != at.0) && self.filter.admits(&fact.seen) {
                    if !self.goes_on() {
                        return Ok(Some(At(ordinal, 0)));
                    }
                    self.rows.extend(row(self.around, self.view, fact, &above).await?);
                }
                // The page at which it stopped may be gone.
                let from = if ordinal == at.0 { std::mem::take(&mut inner) } else { 0 };
                if let Some(inner) = self.flat(fact.id(), from).await? {
                    return Ok(Some(At(ordinal, inner)));
                }
            }
            from = next;
        }
        Ok(None)
    }
}
