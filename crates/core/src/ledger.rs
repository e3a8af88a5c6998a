//! The ledger: what a store shows the rules, and how it takes their changes.
//!
//! The rules read through this trait and never keep what they read beyond one decision. A store
//! that must fetch ahead (PostgreSQL) loads what a command names before it asks the rules.

use std::sync::Arc;

use crate::change::{Change, Lease};
use crate::command::{Answer, Claim};
use crate::id::{ItemId, LeaseId, RequestId};
use crate::item::{BlobRef, Body, Item};
use crate::refusal::{Full, Refusal};
use crate::resource::Resource;
use crate::route::Route;
use crate::settings::{Policy, Settings};
use crate::tally::Tally;
use crate::time::Timestamp;
use crate::trail::Trail;

/// A store, as the rules see it.
pub trait Ledger {
    /// An item, live or ended.
    fn item(&self, id: ItemId) -> Result<Option<Item>, Refusal>;
    /// What the producer said of it.
    fn body(&self, item: &Item) -> Result<Body, Refusal>;
    /// What became of it; empty if nothing did.
    fn trail(&self, item: &Item) -> Result<Trail, Refusal>;
    /// The live item with this key that is not held behind another.
    fn with_key(&self, tenant: &str, queue: &str, key: &str) -> Result<Option<ItemId>, Refusal>;
    /// The ended item with this key, in queues whose keys stay unique while items are kept.
    fn kept_key(&self, tenant: &str, queue: &str, key: &str) -> Result<Option<ItemId>, Refusal>;
    /// The item that is held behind this one.
    fn successor(&self, of: ItemId) -> Option<ItemId>;

    /// The counts of a parent's current generation.
    fn tally(&self, parent: ItemId) -> Option<&Tally>;
    fn child(&self, parent: ItemId, generation: u16, ordinal: u32) -> Option<ItemId>;
    /// Children of one generation with an ordinal from `from` on, in order, at most `limit`.
    fn children(&self, parent: ItemId, generation: u16, from: u32, limit: usize) -> Vec<ItemId>;

    /// Children of one generation that have not ended, at most `limit`.
    fn live_children(&self, parent: ItemId, generation: u16, limit: usize) -> Vec<ItemId>;

    fn lease(&self, lease: LeaseId) -> Option<Lease>;
    /// What a lease still holds.
    fn held_by(&self, lease: LeaseId) -> Vec<ItemId>;
    /// Leases that may have expired by `now`; the rules look again.
    fn expired(&mut self, now: Timestamp, limit: usize) -> Vec<LeaseId>;
    /// Every live lease that expires before `until`.
    fn expiring_before(&self, until: Timestamp) -> Vec<LeaseId>;

    fn settings(&self, queue: &str) -> &Settings;
    /// Whether anybody said how a queue behaves.
    fn is_configured(&self, queue: &str) -> bool;
    fn settings_of(&self, item: &Item) -> &Settings;
    /// The policy of the lane that an item is in.
    fn policy(&self, item: &Item) -> &Policy;
    fn route(&self, item: &Item) -> &Arc<Route>;
    /// The names of an item's tenant and queue.
    fn names(&self, item: &Item) -> (Arc<str>, Arc<str>);
    /// Live items of a queue.
    fn live(&self, queue: &str) -> u64;
    /// Items that wait in a stage of a queue.
    fn waiting(&self, item: &Item, stage: &str) -> u64;
    /// Live leases of an item's group in its stage.
    fn group_load(&self, item: &Item) -> u32;
    /// Some of the items that those leases hold, for `explain`.
    fn group_holders(&self, item: &Item) -> Vec<ItemId>;
    /// An item of the same ordered group and stage that comes before this one and has not ended.
    fn group_ahead(&self, item: &Item) -> Option<ItemId>;
    fn is_paused(&self, item: &Item) -> bool;
    /// What is known of a resource. If that is to be counted on, nobody else may change it until
    /// this decision is written; else it may be old by a moment, if it is calm.
    fn resource(&self, name: &str, firmly: bool) -> Resource;
    /// How many items refer to a blob; none if it is not stored.
    fn blob(&self, tenant: &str, blob: &BlobRef) -> Option<u32>;
    /// The version of a note; none if there is none.
    fn note(&self, shelf: &str, name: &str) -> Option<u64>;
    /// What is too full to take more.
    fn full(&self) -> Option<Full>;

    /// The next item that this claim may get, by the order laws; taken out of line until it is
    /// granted or set aside.
    fn candidate(&mut self, claim: &Claim, now: Timestamp) -> Option<Item>;
    /// A candidate was not admitted: it goes back in line when what held it up changes.
    fn set_aside(&mut self, item: &Item);
    /// A candidate stays first in line for the next claim.
    fn put_back(&mut self, item: &Item);

    /// Items that were cancelled while they waited for children, and orphaned generations. The
    /// newest parent comes first: its children may end, while an older one may wait for it.
    fn ending(&self, limit: usize) -> Vec<Ending>;
    /// Ended roots that may be folded at `now`.
    fn foldable(&self, now: Timestamp, limit: usize) -> Vec<ItemId>;
    /// Ended roots that are past their keeping at `now`.
    fn overdue(&self, now: Timestamp, limit: usize) -> Vec<ItemId>;

    /// The first answer to a request, and the fingerprint of what was asked.
    fn remembered(&self, request: RequestId) -> Result<Option<(u64, Answer)>, Refusal>;

    fn next_id(&mut self, now: Timestamp) -> ItemId;
    fn next_lease(&mut self) -> LeaseId;

    /// A command that names many items is between two of them: a store may put the rest into
    /// another group of its log, if this command has grown too large for one.
    fn between(&mut self) {}

    /// Takes one change. Changes of one decision come together; it cannot refuse them.
    fn apply(&mut self, change: Change, now: Timestamp);
}

/// A subtree whose live items are to be cancelled in slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ending {
    pub parent: ItemId,
    pub generation: u16,
}
