//! The suite: what every catalog must do, one file per noun. A case sees the catalog by its trait,
//! and counts its tables.

mod around;
mod chunks;
mod documents;
pub(crate) mod fingerprint;
mod graph;
mod leftovers;
mod memo;
mod pages;
mod removal;
mod search;
mod tenants;
mod together;
mod vectors;

use crate::bed::Case;

/// Every case, in the order of the files.
pub(crate) fn cases() -> Vec<Case> {
    [
        documents::list(),
        pages::list(),
        chunks::list(),
        graph::list(),
        around::list(),
        vectors::list(),
        search::list(),
        memo::list(),
        removal::list(),
        leftovers::list(),
        tenants::list(),
        together::list(),
        fingerprint::list(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
