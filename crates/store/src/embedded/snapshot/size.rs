//! Size: how large a snapshot will be, before it is written.
//!
//! Nothing that there is much of is walked over: the caller holds the lock.

use super::{encode_resources, put_varint};
use crate::embedded::codec::Pack as _;
use crate::embedded::tables::Tables;

/// What there is of other things, and the frames of blocks.
const AROUND: u64 = 16 << 10;
const SLOT: u64 = 128;
const ENDED: u64 = 32;
const REQUEST: u64 = 64;
const LEASE: u64 = 128;
/// With its counts, for a few phases and levels.
const PARENT: u64 = 256;
const CHILD: u64 = 20;
const SUCCESSOR: u64 = 16;
const BLOB: u64 = 48;

impl Tables {
    /// Roughly, and rather too much, how many bytes a snapshot takes.
    pub(crate) fn image_bytes(&self) -> u64 {
        let (parents, children) = self.trees.size();
        let each = [
            (self.slab.live(), SLOT),
            (self.history.len(), ENDED),
            (self.requests.len(), REQUEST),
            (self.leases.len(), LEASE),
            (parents, PARENT),
            (children, CHILD),
            (self.successors.len(), SUCCESSOR),
            (self.blobs.len(), BLOB),
        ];
        let counted: u64 = each.iter().map(|(count, bytes)| *count as u64 * bytes).sum();
        let told = self.notes.bytes() + self.names.bytes();
        // Of queues and resources there are few, and what is said of one has no usual size.
        let mut said = encode_resources(self);
        for (queue, settings) in self.settings.iter() {
            put_varint(&mut said, u64::from(*queue));
            settings.put(&mut said);
        }
        AROUND + counted + told + said.len() as u64
    }
}
