//! Every limit of the queue, in one place.
//!
//! A limit is here when a caller can run into it. What a limit protects is said beside it.

/// Payload bytes kept inline with the item; larger ones go to a blob.
pub const PAYLOAD_INLINE_MAX: usize = 16 * 1024;
/// Largest blob.
pub const BLOB_MAX: u64 = 64 * 1024 * 1024;
/// Result or stage output bytes kept inline.
pub const RESULT_MAX: usize = 64 * 1024;
/// Error message bytes; longer ones are cut, because an error must never be refused.
pub const ERROR_MAX: usize = 4 * 1024;
/// Metadata bytes.
pub const METADATA_MAX: usize = 4 * 1024;
/// Key bytes.
pub const KEY_MAX: usize = 512;
/// Bytes of any name: tenant, queue, kind, op, stage, group, worker, collection, branch, source
/// type, content type, resource.
pub const NAME_MAX: usize = 128;
/// Bytes of descriptive fields: source_info, ref, progress message.
pub const TEXT_MAX: usize = 1024;
/// Bytes of a note that the server keeps for itself, and of its name.
pub const NOTE_MAX: usize = 64 * 1024;
pub const NOTE_NAME_MAX: usize = 512;
/// Webhooks that want to know of one queue, and tenants that one of them names.
pub const NOTIFY_MAX: usize = 64;
/// Stages of a route.
pub const STAGES_MAX: usize = 16;
/// Bytes of a route: all names in it and two for each. Sixteen stages with the longest names fit.
/// It must lie whole in an index entry of PostgreSQL, which takes at most 2,704 bytes, as must a
/// key, or a few names together.
pub const ROUTE_MAX: usize = 2_560;
/// Phases that a stage may announce for the items below it.
pub const BELOW_MAX: usize = 16;
/// Levels of a tree, the root included.
pub const DEPTH_MAX: u8 = 8;
/// Highest number of a child among its siblings.
pub const ORDINAL_MAX: u32 = (1 << 28) - 1;
/// Items that one command may name, claim, create or end. Larger work goes in slices.
pub const COMMAND_ITEMS_MAX: usize = 1_000;
/// Bytes that one command may carry; a command must fit one group of the log.
pub const COMMAND_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Highest priority; 0 is the lowest.
pub const PRIORITY_MAX: u8 = 10;
/// Priority when none is given.
pub const PRIORITY_DEFAULT: u8 = 5;
/// Attempts kept in an item's log.
pub const ATTEMPTS_KEPT: usize = 5;
/// A lane hands out its oldest item every so many items, whatever its priority.
pub const OLDEST_EVERY: u32 = 8;
/// Shortest and longest lease, in milliseconds.
pub const LEASE_MIN_MS: u64 = 1;
/// Longest lease: twelve hours.
pub const LEASE_MAX_MS: u64 = 12 * 3_600_000;
/// How far ahead an item may be scheduled: ten years.
pub const DELAY_MAX_MS: u64 = 10 * 366 * 86_400_000;
/// How long a request id and its answer are remembered.
pub const REQUEST_KEPT_MS: u64 = 24 * 3_600_000;
/// How many request ids are remembered at most.
pub const REQUESTS_KEPT: usize = 1_000_000;
/// Most that the rate of a resource may say.
pub const RATE_MAX: u32 = 1_000_000;
/// Longest rest of a resource, and longest time in which its failures or its rate are counted.
pub const REST_MAX_MS: u64 = 86_400_000;
/// A worker is present for this long after it was last seen.
pub const PRESENT_MS: u64 = 60_000;
/// A live lease gets this much more time after a start or a gap in ticking.
pub const GRACE_MS: u64 = 30_000;
/// A tree that ended without gaps is folded to its root after this long.
pub const FOLD_AFTER_MS: u64 = 3_600_000;
/// What a refused caller is told to wait when the store is full.
pub const RETRY_AFTER_MS: u64 = 1_000;
