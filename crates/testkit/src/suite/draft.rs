//! Drafts: items as the cases need them, with everything that does not matter filled in.

use std::ops::Range;
use std::sync::Arc;

use windrow_core::command::{NewChild, NewItem, OnDuplicate, OnSplit, Outcome};
use windrow_core::item::{BlobRef, Body, Payload};
use windrow_core::route::{Route, Stage};
use windrow_core::tally::OnGaps;
use windrow_core::trail::Class;
use windrow_core::{RequestId, Timestamp};

/// The queue and tenant of a case that needs only one.
pub const QUEUE: &str = "q";
pub const TENANT: &str = "t";

/// An item of one stage.
pub fn item() -> NewItem {
    NewItem::new(Body::new(TENANT, QUEUE))
}

/// An item that passes these stages.
pub fn routed(stages: &[&str]) -> NewItem {
    item().route(Route::of(stages))
}

/// Says more about an item to enqueue.
pub trait Draft: Sized {
    fn draft(self, change: impl FnOnce(&mut NewItem)) -> Self;

    fn key(self, key: &str) -> Self {
        self.draft(|new| new.body.key = Some(key.to_owned()))
    }

    fn queue(self, queue: &str) -> Self {
        self.draft(|new| new.body.queue = queue.into())
    }

    fn tenant(self, tenant: &str) -> Self {
        self.draft(|new| new.body.tenant = tenant.into())
    }

    fn kind(self, kind: &str) -> Self {
        self.draft(|new| new.body.kind = kind.into())
    }

    fn op(self, op: &str) -> Self {
        self.draft(|new| new.body.op = op.into())
    }

    fn group(self, group: &str) -> Self {
        self.draft(|new| new.body.group = Some(group.into()))
    }

    fn route(self, route: Arc<Route>) -> Self {
        self.draft(|new| new.body.route = route)
    }

    fn payload(self, bytes: &[u8]) -> Self {
        self.draft(|new| new.body.payload = Payload::Inline(bytes.to_vec()))
    }

    fn with_blob(self, blob: BlobRef) -> Self {
        self.draft(|new| new.body.payload = Payload::Blob(blob))
    }

    fn priority(self, priority: u8) -> Self {
        self.draft(|new| new.priority = priority)
    }

    fn at(self, not_before: Timestamp) -> Self {
        self.draft(|new| new.not_before = not_before)
    }

    /// Replaces a waiting item of its key.
    fn replacing(self) -> Self {
        self.draft(|new| new.on_duplicate = OnDuplicate::Replace)
    }

    /// Cancels a split item of its key.
    fn superseding(self) -> Self {
        self.draft(|new| new.on_split = OnSplit::Supersede)
    }
}

impl Draft for NewItem {
    fn draft(mut self, change: impl FnOnce(&mut NewItem)) -> NewItem {
        change(&mut self);
        self
    }
}

/// A child of one stage.
pub fn child(number: u32) -> NewChild {
    NewChild::new(number, "part", Route::single())
}

/// A child that passes these stages.
pub fn routed_child(number: u32, stages: &[&str]) -> NewChild {
    NewChild::new(number, "part", Route::of(stages))
}

/// Children with these numbers.
pub fn children(numbers: Range<u32>) -> Vec<NewChild> {
    numbers.map(child).collect()
}

/// A document: its pages come from `pages`, and `publish` joins them.
pub fn document() -> NewItem {
    let pages = Stage::splitting("pages", &["ocr", "chunk", "vector", "graph"]);
    let route = Route { stages: vec![pages, Stage::new("publish")] };
    item().kind("document").route(Arc::new(route))
}

/// A page: `chunk` splits it.
pub fn page(number: u32) -> NewChild {
    let chunk = Stage::splitting("chunk", &["vector", "graph"]);
    let route = Route { stages: vec![Stage::new("ocr"), chunk] };
    NewChild::new(number, "page", Arc::new(route))
}

pub fn chunk(number: u32) -> NewChild {
    NewChild::new(number, "chunk", Route::of(&["vector", "graph"]))
}

/// A split into all of its children at once.
pub fn split(children: Vec<NewChild>) -> Outcome {
    Outcome::Split { children, more: false, on_gaps: OnGaps::Continue, output: None }
}

/// One slice of a split, with more to come.
pub fn slice(children: Vec<NewChild>) -> Outcome {
    Outcome::Split { children, more: true, on_gaps: OnGaps::Continue, output: None }
}

/// A split that does not go on without any of its children.
pub fn strict_split(children: Vec<NewChild>) -> Outcome {
    Outcome::Split { children, more: false, on_gaps: OnGaps::Stop, output: None }
}

pub fn retry() -> Outcome {
    retry_of(Class::Other)
}

pub fn retry_of(class: Class) -> Outcome {
    Outcome::Retry { class, message: "it went wrong".into(), delay_ms: None }
}

/// The same, and not for ten minutes.
pub fn retry_later() -> Outcome {
    let (class, delay_ms) = (Class::Other, Some(600_000));
    Outcome::Retry { class, message: "it went wrong".into(), delay_ms }
}

pub fn fail() -> Outcome {
    Outcome::Fail { class: Class::Other, message: "it is broken".into() }
}

pub fn skip() -> Outcome {
    Outcome::Skip { reason: "nothing to do".into() }
}

pub fn release() -> Outcome {
    Outcome::Release { delay_ms: 0 }
}

/// Completes a stage with something for the next one.
pub fn complete_with(output: &[u8]) -> Outcome {
    Outcome::Complete { result: None, output: Some(output.to_vec()), spawn: Vec::new() }
}

/// Completes and enqueues more in the same commit.
pub fn complete_and(spawn: Vec<NewItem>) -> Outcome {
    Outcome::Complete { result: None, output: None, spawn }
}

pub fn blob(fill: u8, len: u64) -> BlobRef {
    BlobRef { hash: [fill; 32], len }
}

pub fn request(number: u128) -> RequestId {
    RequestId(number)
}
