//! The item: everything the queue holds is one.
//!
//! [`Item`] is the small part that the rules decide on; stores keep it at hand. [`Body`] is what
//! the producer said and never changes, unless a newer enqueue of the same key replaces it.
//! [`crate::trail::Trail`] is what became of it. Names inside an `Item` are numbers given by the
//! store; the rules never need the text.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::id::{ItemId, LeaseId};
use crate::route::Route;
use crate::time::Timestamp;
use crate::trace;

/// The number that a store gave to a queue's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueNo(pub u32);

/// The number that a store gave to a tenant's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TenantNo(pub u32);

/// The number that a store gave to a group of one tenant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupNo(pub u32);

/// The number that a store gave to a kind's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KindNo(pub u32);

/// The number that a store gave to a route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RouteNo(pub u32);

/// What the rules know of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    pub id: ItemId,
    pub queue: QueueNo,
    pub tenant: TenantNo,
    pub kind: KindNo,
    pub group: Option<GroupNo>,
    pub route: RouteNo,
    pub priority: u8,
    /// Index into the route.
    pub stage: u8,
    pub state: State,
    /// Hand-outs of the current stage, the running one included.
    pub attempts: u16,
    /// Releases and snoozes of the current stage, which are bounded.
    pub deferrals: u16,
    /// How often it was restarted; children of an older generation count no more.
    pub generation: u16,
    /// One bit per stage that was skipped.
    pub skipped: u16,
    pub place: Option<Place>,
    pub marks: Marks,
}

/// Where an item stands in a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub parent: ItemId,
    /// The parent's generation under which it was created.
    pub generation: u16,
    /// Its number among its siblings, with the parent's stage in the four highest bits: an item
    /// that is split again in a later stage begins to number its children anew.
    pub ordinal: u32,
    /// Distance from the root.
    pub level: u8,
}

impl Place {
    /// The ordinal of the `number`-th child that a split in `stage` creates.
    pub const fn ordinal(stage: u8, number: u32) -> u32 {
        (stage as u32) << 28 | number
    }

    /// The parent's stage in which it was created.
    pub const fn stage(&self) -> u8 {
        (self.ordinal >> 28) as u8
    }

    /// Its number among the children of the same split.
    pub const fn number(&self) -> u32 {
        self.ordinal & crate::limits::ORDINAL_MAX
    }
}

/// What an item is doing. Each variant holds what exists only then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Waits for a worker, at the earliest from `not_before` on.
    Pending { not_before: Timestamp },
    /// Waits for the item that has its key to end.
    Held { not_before: Timestamp },
    /// In the hands of the worker that holds the lease.
    Leased { lease: LeaseId },
    /// Waits for its children.
    Split,
    /// Ended.
    Done(End),
}

/// How an item ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum End {
    Completed,
    Failed,
    Cancelled,
    Skipped,
}

/// The status that people see.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    Pending,
    Processing,
    Completed,
    Failed,
    Cancelled,
    Skipped,
}

impl Status {
    pub const ALL: [Status; 6] = [
        Status::Pending,
        Status::Processing,
        Status::Completed,
        Status::Failed,
        Status::Cancelled,
        Status::Skipped,
    ];

    /// The word for it, as in every reply.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Processing => "processing",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
            Status::Skipped => "skipped",
        }
    }

    /// Reads our word or one of the seeds' words, in any case.
    pub fn parse(word: &str) -> Option<Status> {
        Some(match word.to_ascii_lowercase().as_str() {
            "pending" | "queued" | "available" => Status::Pending,
            "processing" | "in_progress" | "leased" => Status::Processing,
            "completed" | "done" => Status::Completed,
            "failed" => Status::Failed,
            "cancelled" | "canceled" => Status::Cancelled,
            "skipped" => Status::Skipped,
            _ => return None,
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<End> for Status {
    fn from(end: End) -> Status {
        match end {
            End::Completed => Status::Completed,
            End::Failed => Status::Failed,
            End::Cancelled => Status::Cancelled,
            End::Skipped => Status::Skipped,
        }
    }
}

/// Facts about an item that are either true or not.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks(u16);

impl Marks {
    /// It is handed out alone until it settles, because a lease over several items expired.
    pub const ALONE: Marks = Marks(1);
    /// It was cancelled while it waited for children; slices end what is below it.
    pub const CANCELLING: Marks = Marks(2);
    /// Deciding about it panicked; nobody gets it until an operator looks.
    pub const QUARANTINED: Marks = Marks(4);
    /// It has a trail worth reading.
    pub const TRAIL: Marks = Marks(8);
    /// It has children, or had.
    pub const PARENT: Marks = Marks(16);
    /// It has a key.
    pub const KEYED: Marks = Marks(32);
    /// Another item with its key waits for it to end.
    pub const SUCCEEDED: Marks = Marks(64);
    /// The current stage was tried before and waits for its next attempt.
    pub const RETRYING: Marks = Marks(128);
    /// Its payload is a blob that goes with it.
    pub const BLOB: Marks = Marks(256);
    /// It was cancelled because something above it was, and comes back with that.
    pub const SWEPT: Marks = Marks(512);

    pub const fn from_bits(bits: u16) -> Marks {
        Marks(bits)
    }

    pub const fn bits(self) -> u16 {
        self.0
    }

    pub const fn has(self, mark: Marks) -> bool {
        self.0 & mark.0 == mark.0
    }

    #[must_use]
    pub const fn with(self, mark: Marks) -> Marks {
        Marks(self.0 | mark.0)
    }

    #[must_use]
    pub const fn without(self, mark: Marks) -> Marks {
        Marks(self.0 & !mark.0)
    }
}

impl fmt::Debug for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 10] = [
            "alone",
            "cancelling",
            "quarantined",
            "trail",
            "parent",
            "keyed",
            "succeeded",
            "retrying",
            "blob",
            "swept",
        ];
        let set = NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        f.debug_set().entries(set.map(|(_, name)| name)).finish()
    }
}

impl Item {
    /// The status that people see. A split item without its counts shows as processing;
    /// [`crate::tally::Tally::status`] knows better.
    pub fn status(&self) -> Status {
        match self.state {
            State::Pending { .. } | State::Held { .. } => Status::Pending,
            State::Leased { .. } | State::Split => Status::Processing,
            State::Done(end) => end.into(),
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    pub fn has(&self, mark: Marks) -> bool {
        self.marks.has(mark)
    }

    /// The lease that holds it, if one does.
    pub fn lease(&self) -> Option<LeaseId> {
        match self.state {
            State::Leased { lease } => Some(lease),
            _ => None,
        }
    }

    /// Since when it waits to be claimed, or is in work under a lease that was granted then. None
    /// if it does neither.
    pub fn since(&self, granted: impl FnOnce(LeaseId) -> Option<Timestamp>) -> Option<Timestamp> {
        match self.state {
            State::Pending { not_before } => Some(self.id.created_at().max(not_before)),
            State::Leased { lease } => granted(lease),
            State::Held { .. } | State::Split | State::Done(_) => None,
        }
    }

    pub fn is_root(&self) -> bool {
        self.place.is_none()
    }

    pub fn level(&self) -> u8 {
        self.place.map_or(0, |place| place.level)
    }
}

/// What the producer said about an item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    pub tenant: Arc<str>,
    pub queue: Arc<str>,
    pub kind: Arc<str>,
    pub op: Arc<str>,
    pub key: Option<String>,
    pub group: Option<Arc<str>>,
    pub collection: Option<Arc<str>>,
    pub branch: Option<Arc<str>>,
    pub source_type: Option<Arc<str>>,
    pub source_info: Option<String>,
    /// Link to what it is about: an order, a document, a record.
    pub reference: Option<String>,
    pub route: Arc<Route>,
    pub content_type: Option<Arc<str>>,
    pub payload: Payload,
    pub metadata: Option<String>,
    pub cloned_from: Option<ItemId>,
}

/// Field by field, as derived, but for the trace context: a request that is repeated from another
/// span is still the same request.
impl Hash for Body {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Body { tenant, queue, kind, op, key, group, collection, branch, .. } = self;
        (tenant, queue, kind, op, key, group, collection, branch).hash(state);
        let Body { source_type, source_info, reference, route, content_type, payload, .. } = self;
        (source_type, source_info, reference, route, content_type, payload).hash(state);
        trace::without(self.metadata.as_deref()).hash(state);
        self.cloned_from.hash(state);
    }
}

/// What the work is about: bytes that the queue never looks into.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Payload {
    Inline(Vec<u8>),
    /// Content kept apart, named by its hash; counted so that it goes with its last user.
    Blob(BlobRef),
}

/// The name of a blob: the hash of its content, and how long it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlobRef {
    pub hash: [u8; 32],
    pub len: u64,
}

impl Payload {
    /// Bytes that it takes in a record of its own.
    pub fn inline_len(&self) -> usize {
        match self {
            Payload::Inline(bytes) => bytes.len(),
            Payload::Blob(_) => size_of::<BlobRef>(),
        }
    }

    /// The bytes, if they are here.
    pub fn inline(&self) -> Option<&[u8]> {
        match self {
            Payload::Inline(bytes) => Some(bytes),
            Payload::Blob(_) => None,
        }
    }

    pub fn blob(&self) -> Option<BlobRef> {
        match self {
            Payload::Inline(_) => None,
            Payload::Blob(blob) => Some(*blob),
        }
    }
}

impl Default for Payload {
    fn default() -> Payload {
        Payload::Inline(Vec::new())
    }
}

impl Body {
    /// A body with only the names that every item has.
    pub fn new(tenant: impl Into<Arc<str>>, queue: impl Into<Arc<str>>) -> Body {
        Body {
            tenant: tenant.into(),
            queue: queue.into(),
            kind: "item".into(),
            op: "ingest".into(),
            key: None,
            group: None,
            collection: None,
            branch: None,
            source_type: None,
            source_info: None,
            reference: None,
            route: Route::single(),
            content_type: None,
            payload: Payload::default(),
            metadata: None,
            cloned_from: None,
        }
    }

    /// Roughly how many bytes it takes, for budgets.
    pub fn weight(&self) -> usize {
        let text = |t: &Option<Arc<str>>| t.as_ref().map_or(0, |t| t.len());
        let own = |t: &Option<String>| t.as_ref().map_or(0, String::len);
        self.payload.inline_len()
            + self.tenant.len()
            + self.queue.len()
            + self.kind.len()
            + self.op.len()
            + own(&self.key)
            + text(&self.group)
            + text(&self.collection)
            + text(&self.branch)
            + text(&self.source_type)
            + own(&self.source_info)
            + own(&self.reference)
            + text(&self.content_type)
            + own(&self.metadata)
            + self.route.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_every_seed_are_understood_in_any_case() {
        let check = |word, want| assert_eq!(Status::parse(word), want, "{word}");
        check("QUEUED", Some(Status::Pending));
        check("in_progress", Some(Status::Processing));
        check("Done", Some(Status::Completed));
        check("PROCESSING", Some(Status::Processing));
        check("SKIPPED", Some(Status::Skipped));
        check("lost", None);
        for status in Status::ALL {
            check(status.name(), Some(status));
        }
    }
}
