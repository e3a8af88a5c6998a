//! Routes: the ways of documents, pages and chunks, and what they wait for on them.
//!
//! With the gate `item` a page goes on when it is read, and a chunk when it is embedded:
//!
//! ```text
//! document  [pages ──────────────────────────────► publish]
//!              └─ page  [ocr ─► chunk]
//!                                 └─ chunk  [vector ─► graph]
//! ```
//!
//! With the gate `document` every phase is a split of the document and a join, so that none begins
//! before all pages or chunks have ended in the one before:
//!
//! ```text
//! document  [pages ────► cut ──────► embed ──────► link ──────► publish]
//!              └─ page     └─ page     └─ chunk      └─ chunk
//!                 [ocr]       [chunk]     [vector]      [graph]
//! ```
//!
//! What failed in one phase is left out of the next, and is made up for by a retry: the document
//! waits for it and passes the later stages again, which make what is not there yet. For that, a
//! page and a chunk have the same number in every phase.
//!
//! The route that an item was enqueued with says what it waits for, whatever has been configured
//! since then: it is the one thing that stays when something newer takes the place of what waits.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use windrow_core::route::{Route, Stage};

use super::stage;
use crate::catalog::BATCH_MAX;

/// What a page or a chunk waits for before its next phase.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// For nothing but itself.
    #[default]
    Item,
    /// For everything of its document.
    Document,
}

impl Gate {
    /// The way of a document.
    pub(super) fn document(self) -> Arc<Route> {
        static ITEM: LazyLock<Arc<Route>> = LazyLock::new(|| {
            let below = [stage::OCR, stage::CHUNK, stage::VECTOR, stage::GRAPH];
            let pages = Stage::splitting(stage::PAGES, &below);
            Arc::new(Route { stages: vec![pages, Stage::new(stage::PUBLISH)] })
        });
        static DOCUMENT: LazyLock<Arc<Route>> = LazyLock::new(|| {
            let stages = vec![
                Stage::splitting(stage::PAGES, &[stage::OCR]),
                Stage::splitting(stage::CUT, &[stage::CHUNK]),
                Stage::splitting(stage::EMBED, &[stage::VECTOR]),
                Stage::splitting(stage::LINK, &[stage::GRAPH]),
                Stage::new(stage::PUBLISH),
            ];
            Arc::new(Route { stages })
        });
        Arc::clone(match self {
            Gate::Item => &ITEM,
            Gate::Document => &DOCUMENT,
        })
    }

    /// The way of a page that is to be read.
    pub(super) fn page(self) -> Arc<Route> {
        static ITEM: LazyLock<Arc<Route>> = LazyLock::new(|| {
            let chunk = Stage::splitting(stage::CHUNK, &[stage::VECTOR, stage::GRAPH]);
            Arc::new(Route { stages: vec![Stage::new(stage::OCR), chunk] })
        });
        static DOCUMENT: LazyLock<Arc<Route>> = LazyLock::new(|| Route::of(&[stage::OCR]));
        Arc::clone(match self {
            Gate::Item => &ITEM,
            Gate::Document => &DOCUMENT,
        })
    }

    /// What the pages of a document on this route wait for.
    pub(super) fn of_document(route: &Route) -> Gate {
        if route.find(stage::CUT).is_some() { Gate::Document } else { Gate::Item }
    }

    /// What the chunks of a page on this route wait for.
    pub(super) fn of_page(route: &Route) -> Gate {
        if route.find(stage::OCR).is_some() { Gate::Item } else { Gate::Document }
    }
}

/// The way of a chunk that waits for nothing.
pub(super) static CHUNK: LazyLock<Arc<Route>> =
    LazyLock::new(|| Route::of(&[stage::VECTOR, stage::GRAPH]));

/// The way of a page, and of a chunk, through one phase of a document that waits.
pub(super) static PAGE_CUT: LazyLock<Arc<Route>> = LazyLock::new(|| Route::of(&[stage::CHUNK]));
pub(super) static CHUNK_EMBEDDED: LazyLock<Arc<Route>> =
    LazyLock::new(|| Route::of(&[stage::VECTOR]));
pub(super) static CHUNK_LINKED: LazyLock<Arc<Route>> = LazyLock::new(|| Route::of(&[stage::GRAPH]));

/// Bits of a chunk's number that say which of its page it is. Those above say the page.
pub const CHUNK_BITS: u32 = 14;
/// Pages of a document that waits for all of them: a number has 28 bits.
pub(super) const PAGES_MAX: u32 = (1 << (28 - CHUNK_BITS)) - 1;
const _: () = assert!(BATCH_MAX <= 1 << CHUNK_BITS, "every chunk of a page has a number");

/// The number that a chunk has among all of its document.
pub(super) fn chunk_number(page: u32, index: u32) -> u32 {
    page << CHUNK_BITS | index
}

#[cfg(test)]
mod tests {
    use windrow_core::limits::ORDINAL_MAX;

    use super::*;

    fn named(route: &Route) -> Vec<Arc<str>> {
        route.stages.iter().map(|stage| Arc::clone(&stage.name)).collect()
    }

    #[test]
    fn routes_are_such_as_the_queue_takes_and_announce_what_is_below() {
        let all = [&*CHUNK, &*PAGE_CUT, &*CHUNK_EMBEDDED, &*CHUNK_LINKED].map(Arc::clone);
        let gated = [Gate::Item, Gate::Document].map(|gate| [gate.document(), gate.page()]);
        for route in all.iter().chain(gated.as_flattened()) {
            assert_eq!(route.validate(), Ok(()));
        }
        let below = |route: &Route, at: u8| route.stage(at).below.clone();
        let (document, page) = (Gate::Item.document(), Gate::Item.page());
        assert_eq!(below(&document, 0), [named(&page), named(&CHUNK)].concat());
        assert_eq!(below(&page, 1), named(&CHUNK));
        let document = Gate::Document.document();
        let children = [&Gate::Document.page(), &PAGE_CUT, &CHUNK_EMBEDDED, &CHUNK_LINKED];
        for (at, child) in (0..).zip(children) {
            assert_eq!(below(&document, at), named(child));
        }
    }

    #[test]
    fn a_route_says_what_is_waited_for_when_its_names_are_all_that_is_left_of_it() {
        for gate in [Gate::Item, Gate::Document] {
            let named = named(&gate.document());
            let over_a_wire: Vec<&str> = named.iter().map(|name| &**name).collect();
            assert_eq!(Gate::of_document(&Route::of(&over_a_wire)), gate);
        }
        assert_eq!(Gate::of_page(&Gate::Item.page()), Gate::Item);
        assert_eq!(Gate::of_page(&PAGE_CUT), Gate::Document);
    }

    #[test]
    fn every_chunk_has_a_number_of_its_own_that_the_queue_takes() {
        let last = (1 << CHUNK_BITS) - 1;
        assert_eq!(chunk_number(PAGES_MAX, last), ORDINAL_MAX);
        assert_eq!(chunk_number(1, last) + 1, chunk_number(2, 0));
    }

    #[test]
    fn a_gate_is_written_in_a_word() {
        let gate: Gate = serde_json::from_str("\"document\"").expect("a gate");
        assert_eq!((gate, Gate::default()), (Gate::Document, Gate::Item));
    }
}
