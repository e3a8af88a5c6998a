//! The log: an append-only row of checksummed groups in preallocated segment files.
//!
//! This is everything below records. It decides where bytes lie, when they are durable, what a torn
//! tail is and what is damage. It sees tags and bytes, never an item. It leaves out threads, clocks
//! and the choice of what to drop: whoever owns it calls `begin`/`push` under a mutex, lets one
//! syncer write groups, and lets one background loop call [`Spares::step`].
//!
//! ```text
//! segment-0000000012.log                        spare-0000000003.log   filling-0000000004.log
//! ┌──────────────┬─────────┬─────────┬───────┬─ ─ ─ ─ ─ ─ ─ ─ ─ ─┐
//! │ header, 4096 │ group 7 │ group 8 │ group │ written, not used   │
//! └──────────────┴────┬────┴─────────┴───────┴─ ─ ─ ─ ─ ─ ─ ─ ─ ─┘
//!       ┌─────────────┴──────────────────────────────────┐
//!       │ magic len sequence crc hcrc │ records │ padding │   durable by one sync
//!       └──────────────────────────────┬─────────────────┘
//!                     ┌────────────────┴─────┐
//!                     │ len crc tag │ bytes  │   a `Loc` points here and is readable alone
//!                     └──────────────────────┘
//! ```
//!
//! # One group, one sync, in order
//!
//! A group is the unit of durability: it counts as a whole or not at all. Exactly one is in flight,
//! and the next is not written before the sync of the last one returned. So whatever a crash
//! leaves, at most one group is torn, it is the newest, and **a group of which a later one exists
//! was durable**. Recovery rests on that sentence; see `recover.rs`.
//!
//! # Old bytes never come back
//!
//! Segment files are recycled and torn tails are overwritten, so old groups lie around in new
//! files. Every checksum starts from a salt made of the store's id and the segment's number. CRC-32
//! is linear and the salts of two numbers always differ, so a group or record that was valid under
//! one number is *certainly* invalid under another; that is not a matter of chance. A number under
//! which a group was durable is never given again. See `frame.rs`, and `recover.rs` for what lies
//! behind a torn tail.
//!
//! # Life of a segment
//!
//! `filling` (being written with zeros, so that a later sync changes no inode and finds its blocks
//! taken) → `spare` (ready, and the reserve for a full disk) → prepared next (header durable, name
//! durable) → current → sealed → dropped: recycled into a spare, or removed. See `spares.rs`.

mod ahead;
mod ending;
mod error;
mod frame;
mod header;
mod loc;
mod pool;
mod recover;
mod rot;
mod segment;
mod spares;
mod verify;
mod walk;
mod writer;

pub use ahead::Ahead;
pub use error::{Damage, LogError, Op, What};
pub use frame::{Group, RECORD_OVERHEAD, Record, Records};
pub use header::{FORMAT, StoreId};
pub use loc::{Loc, Position};
pub use recover::{Log, Recovered, Tail};
pub(crate) use segment::is_segment;
pub use segment::{Segment, Segments};
pub use spares::{Dropped, Space, Spares, Work};
pub use verify::Verified;
pub use writer::{Sealed, Writer};

/// How a log is laid out. Existing segments keep the size they were made with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Size of a segment file; a multiple of 4096 between 8 KiB and 256 MiB.
    pub segment_bytes: u32,
    /// Written spare files that are kept beside the prepared next segment, for a full disk.
    pub reserve_segments: usize,
    /// Dropped segments are recycled while there are fewer spares than this, else removed. More
    /// than the reserve, so that a queue which drops as fast as it fills never writes zeros.
    pub spares_max: usize,
    /// The identity of the store if the directory is empty; otherwise the directory's own is kept.
    pub new_store_id: StoreId,
}

/// The most that a segment may have: history keeps an offset in 28 bits.
pub const SEGMENT_BYTES_MAX: u32 = 256 << 20;

impl Options {
    /// The defaults, with the identity that a new store gets. It should be random.
    pub fn new(new_store_id: StoreId) -> Options {
        let segment_bytes = 64 << 20;
        Options { segment_bytes, reserve_segments: 2, spares_max: 6, new_store_id }
    }

    /// The most that one `begin` may ask for.
    pub fn command_bytes_max(&self) -> usize {
        frame::payload_max(self.segment_bytes)
    }

    fn check(&self) -> Result<(), LogError> {
        let bytes = self.segment_bytes;
        if !(8192..=SEGMENT_BYTES_MAX).contains(&bytes) || !bytes.is_multiple_of(4096) {
            return Err(LogError::SegmentBytes { bytes });
        }
        Ok(())
    }
}
