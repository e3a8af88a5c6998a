//! Refusals: normal answers that say no, with the facts that the caller needs to go on.
//!
//! A refused command, or the refused part of one, changed nothing. Every refusal has a stable code.

use crate::id::{ItemId, LeaseId};
use crate::item::Status;

/// Why something was not done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{field}: {why}")]
    Invalid { field: &'static str, why: String },
    #[error("item {item} is not known here")]
    NotFound { item: ItemId },
    #[error("lease {lease} does not hold this: it expired, was lost or was never granted")]
    LeaseLost { lease: LeaseId },
    #[error("item {item} has ended: {status}")]
    AlreadyDone { item: ItemId, status: Status },
    #[error("item {item} has not ended: it is {status}; wait until it has, or cancel it")]
    StillLive { item: ItemId, status: Status },
    #[error("item {item} cannot be reset from {status}; clone it instead")]
    NotResettable { item: ItemId, status: Status },
    #[error("its key is in use by item {by}")]
    KeyInUse { by: ItemId },
    #[error("item {ancestor} was cancelled, with all below it; do this to it when it has ended")]
    UnderCancelled { ancestor: ItemId },
    #[error("item {item} is part of a tree; do this to its root")]
    NotARoot { item: ItemId },
    #[error("item {item} has no stage named {stage:?}")]
    NoSuchStage { item: ItemId, stage: String },
    #[error("queue is full: {live} live items of at most {max}")]
    QueueFull { live: u64, max: u64, retry_after_ms: u64 },
    #[error("no room: {what}")]
    StoreFull { what: Full, retry_after_ms: u64 },
    #[error("the payload's blob is not here; upload it first")]
    BlobMissing,
    #[error("this request id was used for another request")]
    RequestReused,
    #[error("somebody else changed it meanwhile; read it again")]
    Changed { version: u64 },
    #[error("item {item} is unreadable: {what}")]
    Unreadable { item: ItemId, what: String },
    #[error("a rule failed on this; nothing was changed, and what it was about is set aside")]
    Internal,
}

/// What ran out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    Memory,
    Disk,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Full::Memory => "the memory limit is reached; it frees as items end",
            Full::Disk => "the disk is full; settling still works, free some space",
        })
    }
}

impl Refusal {
    pub fn invalid(field: &'static str, why: impl Into<String>) -> Refusal {
        Refusal::Invalid { field, why: why.into() }
    }

    /// The stable name of this refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Invalid { .. } => "invalid",
            Refusal::NotFound { .. } => "not_found",
            Refusal::LeaseLost { .. } => "lease_lost",
            Refusal::AlreadyDone { .. } => "already_done",
            Refusal::StillLive { .. } => "still_live",
            Refusal::NotResettable { .. } => "not_resettable",
            Refusal::KeyInUse { .. } => "key_in_use",
            Refusal::UnderCancelled { .. } => "under_cancelled",
            Refusal::NotARoot { .. } => "not_a_root",
            Refusal::NoSuchStage { .. } => "no_such_stage",
            Refusal::QueueFull { .. } => "queue_full",
            Refusal::StoreFull { .. } => "store_full",
            Refusal::BlobMissing => "blob_missing",
            Refusal::RequestReused => "request_reused",
            Refusal::Changed { .. } => "changed",
            Refusal::Unreadable { .. } => "unreadable",
            Refusal::Internal => "internal",
        }
    }

    /// How long to wait before asking again, if waiting can help.
    pub fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Refusal::QueueFull { retry_after_ms, .. }
            | Refusal::StoreFull { retry_after_ms, .. } => Some(*retry_after_ms),
            _ => None,
        }
    }
}
