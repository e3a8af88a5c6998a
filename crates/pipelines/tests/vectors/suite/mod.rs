//! The suite: what every store of vectors must do, one file per noun. A case sees the store by its
//! trait only.

mod dimensions;
mod points;
mod removal;
mod search;
mod together;

use crate::bed::Case;

/// Every case, in the order of the files.
pub(crate) fn cases() -> Vec<Case> {
    [points::list(), search::list(), removal::list(), dimensions::list(), together::list()]
        .into_iter()
        .flatten()
        .collect()
}

/// Cases for stores that decide and write at once, whoever else is at it.
pub(crate) fn transactional() -> Vec<Case> {
    dimensions::transactional()
}
