//! What can go wrong with a catalog, and what now.

use super::ChunkId;

/// Why a catalog did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CatalogError {
    /// The database did not answer, was busy or is full. The same call may work later; since every
    /// write may be repeated, it does no harm if this one was done after all.
    #[error("the catalog cannot do it now: {why}")]
    Transient { why: String, retry_after_ms: Option<u64> },
    /// This call never works.
    #[error("{why}")]
    Bad { why: String },
    /// What should be changed was replaced by something newer, or deleted. There is nothing left
    /// to do for it.
    #[error("{what} is no longer there")]
    Gone { what: String },
}

impl CatalogError {
    pub(crate) fn transient(why: impl ToString) -> CatalogError {
        CatalogError::Transient { why: why.to_string(), retry_after_ms: None }
    }

    pub(crate) fn bad(why: impl Into<String>) -> CatalogError {
        CatalogError::Bad { why: why.into() }
    }

    /// Of a chunk that is to be there again while it is being removed elsewhere.
    pub(super) fn still_going(chunk: ChunkId) -> CatalogError {
        CatalogError::transient(format!("chunk {chunk} is just being removed elsewhere"))
    }

    pub(super) fn gone(what: impl ToString) -> CatalogError {
        CatalogError::Gone { what: what.to_string() }
    }
}
