//! The outbox: records of the command that is being decided, before they go to the log.
//!
//! A command's records must lie in one group, and how many bytes they take is known only when the
//! command has been decided. So they are encoded here first; [`super::tables::Tables::flush`]
//! announces their exact size to the log and says where each one came to lie.

use super::codec::record::{Removed, tag};
use super::codec::{Pack, put_list};
use windrow_core::RequestId;
use windrow_core::change::Lease;

use super::schedule::slab::SlotNo;

/// Who is told where a record lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    Nobody,
    Body(SlotNo),
    Trail(SlotNo),
    Finished(u64),
    Answered(RequestId),
}

/// A record that waits for its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) tag: u8,
    pub(crate) target: Target,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// Records of the command that is being decided.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) bytes: Vec<u8>,
    pub(crate) waiting: Vec<Waiting>,
    /// Items that the claim under way took so far: serial and attempts.
    granted: Vec<(u64, u16)>,
    removed: Vec<Removed>,
    /// Parents whose counts changed.
    pub(crate) tallies: Vec<u64>,
}

impl Outbox {
    pub(crate) fn push(&mut self, tag: u8, target: Target, encode: impl FnOnce(&mut Vec<u8>)) {
        let from = self.bytes.len();
        encode(&mut self.bytes);
        self.waiting.push(Waiting { tag, target, from, to: self.bytes.len() });
    }

    pub(crate) fn grant(&mut self, serial: u64, attempts: u16) {
        self.granted.push((serial, attempts));
    }

    /// A lease begins, with what was granted under it, or is extended.
    pub(crate) fn lease(&mut self, lease: &Lease) {
        if self.granted.is_empty() {
            self.push(tag::LEASE, Target::Nobody, |out| lease.put(out));
            return;
        }
        let granted = std::mem::take(&mut self.granted);
        self.push(tag::GRANT, Target::Nobody, |out| {
            lease.put(out);
            put_list(out, &granted);
        });
        self.granted = granted;
        self.granted.clear();
    }

    pub(crate) fn remove(&mut self, removed: Removed) {
        self.removed.push(removed);
    }

    /// Turns what was collected over a command into records.
    pub(crate) fn close(&mut self) {
        if !self.removed.is_empty() {
            let removed = std::mem::take(&mut self.removed);
            self.push(tag::REMOVE, Target::Nobody, |out| put_list(out, &removed));
            self.removed = removed;
            self.removed.clear();
        }
        assert!(self.granted.is_empty(), "Q4: what was granted is under a lease");
    }

    /// The bytes of the last record for a target that has no place yet.
    pub(crate) fn find(&self, target: Target) -> Option<&[u8]> {
        let found = self.waiting.iter().rev().find(|waiting| waiting.target == target)?;
        Some(&self.bytes[found.from..found.to])
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.waiting.clear();
        self.tallies.clear();
        if self.bytes.capacity() > 4 << 20 {
            self.bytes.shrink_to(1 << 20);
        }
    }
}
