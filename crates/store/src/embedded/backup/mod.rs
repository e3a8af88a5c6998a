//! Backups: the files of a store as they were at one moment, and a copy of them taken back in time.
//!
//! A log is easy to copy while it is written. Everything that was answered before a moment lies
//! before one place in it, segments before that place never change, and a segment or snapshot that
//! is dropped meanwhile stays readable to whoever has it open. So [`Held`] holds nothing up: it
//! keeps files open, and only blobs are not removed for as long as it is there.
//!
//! ```text
//! snapshot-…12.snap   segment-3   segment-4   segment-5 ────────┐ end
//!                     ├───────────┼───────────┼──────────────── ┊ ─ ─ being written
//! ```
//!
//! A copy of these files is a data directory. [`rewind`] takes one back to an earlier moment, by
//! cutting its log there: records are absolute, and the log says once a second what time it is.

mod hold;
mod rewind;

pub use hold::{Beside, Held};
pub use rewind::{RewindError, Rewound, rewind};

use std::io;

use super::disk::Disk;

/// The file that says that a directory is being restored, and not whole.
pub const RESTORING: &str = "RESTORING";

pub(super) fn is_half_restored(disk: &dyn Disk) -> io::Result<bool> {
    Ok(disk.list()?.iter().any(|name| name == RESTORING))
}
