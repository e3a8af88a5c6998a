//! What can go wrong with the log, told so that the reader knows what to do.
//!
//! Damage names a file and an offset and is never mixed with absence. An input/output error names
//! the file and what was tried. Running out of room is its own answer, because it passes.

use std::fmt;
use std::io;

/// Why the log could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Bytes that were durable are not what was written. Restore a backup; nothing was changed.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// The operating system refused. After a failed write or sync of a group the log must not be
    /// used any further: whether the group is durable is unknown, and a repeated sync would lie.
    #[error("{file}: {op} failed: {source}")]
    Io { file: String, op: Op, source: io::Error },
    /// Another process has the directory open.
    #[error("the data directory is in use by {by}")]
    Locked { by: String },
    /// The directory was written by a newer program.
    #[error("{file} has format {found}, and this program reads formats 1 to {known}")]
    Format { file: String, found: u32, known: u32 },
    /// No segment could be made, and the reserve is used up. Nothing was appended; it may work
    /// later.
    #[error("no room for another segment: {cause}")]
    NoSpace { cause: Box<LogError> },
    /// The command is larger than a whole segment. Nothing was appended.
    #[error("{bytes} bytes do not fit into one group, which holds at most {max}")]
    TooLarge { bytes: usize, max: usize },
    /// The segment was dropped after the location was looked up: look it up again.
    #[error("segment {segment} has been dropped")]
    Dropped { segment: u32 },
    /// The configured segment size cannot be used.
    #[error("a segment of {bytes} bytes is not a multiple of 4096 between 8 KiB and 256 MiB")]
    SegmentBytes { bytes: u32 },
}

impl LogError {
    /// Whether a sync failed: what it covered may or may not be durable.
    pub fn is_failed_sync(&self) -> bool {
        matches!(self, LogError::Io { op: Op::Sync | Op::SyncDir, .. })
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            LogError::NoSpace { .. } => true,
            LogError::Io { source, .. } => matches!(source.kind(), StorageFull | QuotaExceeded),
            _ => false,
        }
    }

    /// Adds the file and the operation to an error of the disk.
    pub(super) fn io(file: &str, op: Op) -> impl FnOnce(io::Error) -> LogError {
        move |source| LogError::Io { file: file.to_owned(), op, source }
    }
}

/// What was tried on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Create,
    Open,
    List,
    Lock,
    Read,
    Write,
    Sync,
    SyncDir,
    Rename,
    Remove,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Create => "create",
            Op::Open => "open",
            Op::List => "list",
            Op::Lock => "lock",
            Op::Read => "read",
            Op::Write => "write",
            Op::Sync => "sync",
            Op::SyncDir => "sync of the directory",
            Op::Rename => "rename",
            Op::Remove => "remove",
        })
    }
}

/// Bytes that are not what was written, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file} is damaged at byte {offset}: {what}")]
pub struct Damage {
    pub file: String,
    pub offset: u64,
    pub what: What,
}

impl Damage {
    pub(super) fn new(file: &str, offset: u32, what: What) -> Damage {
        Damage { file: file.to_owned(), offset: u64::from(offset), what }
    }
}

/// What is wrong with the damaged bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum What {
    /// The segment's header does not read as one.
    #[error("the segment header {0}")]
    Header(&'static str),
    /// The file ends before the size in its header.
    #[error("the file has {found} bytes and should have {expected}")]
    Short { found: u64, expected: u64 },
    /// A segment file that must be there is not.
    #[error("the segment is missing")]
    Missing,
    /// A group is unreadable although it was durable, since a later one exists.
    #[error("group {sequence} is unreadable, yet group {later} is at byte {at} of {file}")]
    Group { sequence: u64, later: u64, file: String, at: u32 },
    /// The first group that should be there is unreadable, and nothing tells its number.
    #[error("no group can be read where the log begins")]
    Beginning,
    /// The newest group is complete except for a single bit, which no torn write does.
    #[error("bit {bit} of byte {byte} in group {sequence} has flipped")]
    Bit { sequence: u64, byte: u32, bit: u8 },
    /// A record is unreadable.
    #[error("the record {0}")]
    Record(&'static str),
}
