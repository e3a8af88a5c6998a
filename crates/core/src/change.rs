//! Changes: what the rules want written down.
//!
//! Every change is absolute: it says what a thing is now, not how it differs. Writing one twice is
//! harmless, which is what makes replaying a log after a crash, or deciding again, safe.

use std::sync::Arc;

use crate::command::{Answer, Scope};
use crate::id::{ItemId, LeaseId, RequestId};
use crate::item::{BlobRef, Body, Item, Marks, State};
use crate::resource::Resource;
use crate::settings::Settings;
use crate::tally::Tally;
use crate::time::Timestamp;
use crate::trail::{Progress, Trail};
use crate::transitions::Event;

/// One thing to write down.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// A new item. The store gives numbers to its names.
    Create(Box<Created>),
    /// An item's new state, and what led to it.
    Item {
        item: Item,
        event: Event,
    },
    /// A newer enqueue of its key replaced what the producer said.
    Body {
        id: ItemId,
        body: Box<Body>,
    },
    /// What became of an item so far. Goes with the `Item` change of the same decision.
    Trail {
        id: ItemId,
        trail: Box<Trail>,
    },
    /// What a parent knows of its children.
    Tally {
        id: ItemId,
        tally: Box<Tally>,
    },
    /// The item behind another with the same key.
    Successor {
        of: ItemId,
        is: Option<ItemId>,
    },
    /// Children of this generation count no more and are to be cancelled in slices, until `over`.
    Orphan {
        parent: ItemId,
        generation: u16,
        over: bool,
    },
    /// A lease begins or is extended.
    Lease(Lease),
    /// How far a worker says it is. Not written to disk by itself.
    Progress {
        id: ItemId,
        progress: Progress,
    },
    /// An ended item leaves for good.
    Remove {
        id: ItemId,
    },
    /// An ended tree keeps only its root, its counts and its results.
    Fold {
        root: ItemId,
    },
    Paused {
        scope: Scope,
        paused: bool,
    },
    Settings {
        queue: Arc<str>,
        settings: Box<Settings>,
    },
    /// What is known of a resource; nothing if there is nothing to know any more.
    Gate {
        resource: Arc<str>,
        state: Option<Resource>,
    },
    /// How many items refer to a blob: none yet if that is zero. Without a number it is gone, and
    /// its bytes are deleted after the commit.
    Blob {
        tenant: Arc<str>,
        blob: BlobRef,
        references: Option<u32>,
    },
    /// What stands in a note; none if it is gone.
    Note {
        shelf: Arc<str>,
        name: Arc<str>,
        version: u64,
        body: Option<Arc<[u8]>>,
    },
    /// What a request was answered, so that a repeat gets the same.
    Answered {
        request: RequestId,
        fingerprint: u64,
        answer: Box<Answer>,
    },
}

/// An item that begins to exist.
#[derive(Clone, PartialEq, Debug)]
pub struct Created {
    pub id: ItemId,
    pub body: Body,
    pub priority: u8,
    pub state: State,
    pub stage: u8,
    pub place: Option<crate::item::Place>,
    /// A clone brings what the earlier stages put out.
    pub trail: Option<Box<Trail>>,
}

impl Created {
    /// The marks that an item begins with.
    pub fn marks(&self) -> Marks {
        let begins = [
            (Marks::KEYED, self.body.key.is_some()),
            (Marks::BLOB, self.body.payload.blob().is_some()),
            (Marks::TRAIL, self.trail.is_some()),
        ];
        let held = begins.into_iter().filter(|(_, holds)| *holds);
        held.fold(Marks::default(), |marks, (mark, _)| marks.with(mark))
    }
}

/// A lease as the store keeps it. Which items it holds is in the items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    pub id: LeaseId,
    pub worker: Arc<str>,
    pub granted: Timestamp,
    pub renewed: Timestamp,
    pub expires: Timestamp,
    pub lease_ms: u64,
    /// How many items it was granted over.
    pub items: u32,
}

/// What one decision wants written, in order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Changes(pub Vec<Change>);

impl Changes {
    pub fn push(&mut self, change: Change) {
        self.0.push(change);
    }

    pub fn item(&mut self, item: Item, event: Event) {
        self.0.push(Change::Item { item, event });
    }

    pub fn trail(&mut self, id: ItemId, trail: Trail) {
        self.0.push(Change::Trail { id, trail: Box::new(trail) });
    }
}
