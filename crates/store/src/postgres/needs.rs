//! What a decision asked for that was not on the desk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windrow_core::command::Claim;
use windrow_core::item::BlobRef;
use windrow_core::{ItemId, LeaseId, RequestId};

use super::names::LaneName;

/// A key of a tenant's items in a queue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Key {
    pub(super) queue: u32,
    pub(super) tenant: u32,
    pub(super) key: Arc<str>,
}

/// A blob of a tenant: its hash and its length.
pub(super) type Blob = (Arc<str>, [u8; 32], u64);

/// A note's shelf and its name.
pub(super) type NoteName = (Arc<str>, Arc<str>);

/// A group of a tenant in one stage of one queue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct GroupKey {
    pub(super) queue: u32,
    pub(super) stage: u32,
    pub(super) tenant: u32,
    pub(super) group: Arc<str>,
}

impl GroupKey {
    /// What servers lock while they hand out of it, park in it or look for what it parked.
    pub(super) fn lock_name(&self) -> String {
        let GroupKey { queue, stage, tenant, group } = self;
        format!("windrow group {queue} {stage} {tenant} {group}")
    }
}

/// What a claim asks for, without who asks and how much.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Filter {
    pub(super) queues: Vec<Arc<str>>,
    pub(super) stages: Vec<Arc<str>>,
    pub(super) kinds: Vec<Arc<str>>,
    pub(super) tenants: Vec<Arc<str>>,
}

impl From<&Claim> for Filter {
    fn from(claim: &Claim) -> Filter {
        Filter {
            queues: claim.queues.clone(),
            stages: claim.stages.clone(),
            kinds: claim.kinds.clone(),
            tenants: claim.tenants.clone(),
        }
    }
}

/// How much a claim wants of what it asks for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Wanted {
    pub(super) most: usize,
    /// Lanes from which it can get nothing more, since they wait for others.
    pub(super) without: BTreeSet<u32>,
}

/// A list of items that only the database can make.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum List {
    /// Children of one generation from an ordinal on.
    Children {
        parent: ItemId,
        generation: u16,
        from: u32,
    },
    LiveChildren {
        parent: ItemId,
        generation: u16,
    },
    /// Items that were cancelled while they waited for children, and orphaned generations.
    Ending,
    Foldable,
    Overdue,
}

/// What to load before a batch can be decided. Each list comes with how much of it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Needs {
    pub(super) items: BTreeSet<ItemId>,
    /// Items that have ended for certain.
    pub(super) ended: BTreeSet<ItemId>,
    pub(super) bodies: BTreeSet<ItemId>,
    /// Items that are locked, of which it is not known what lies beside them.
    pub(super) beside: BTreeSet<ItemId>,
    pub(super) keys: BTreeSet<Key>,
    pub(super) kept_keys: BTreeSet<Key>,
    pub(super) children: BTreeSet<(ItemId, u16, u32)>,
    pub(super) leases: BTreeSet<LeaseId>,
    pub(super) expired: Option<usize>,
    pub(super) expiring: Option<u64>,
    pub(super) lists: BTreeMap<List, usize>,
    pub(super) offers: BTreeMap<Filter, Wanted>,
    /// Candidates that were not admitted and stand before others.
    pub(super) aside: BTreeSet<ItemId>,
    pub(super) groups: BTreeSet<GroupKey>,
    pub(super) blobs: BTreeSet<Blob>,
    pub(super) notes: BTreeSet<NoteName>,
    pub(super) resources: BTreeSet<Arc<str>>,
    /// Lanes that have no number yet.
    pub(super) lanes: BTreeSet<LaneName>,
    pub(super) requests: BTreeSet<RequestId>,
    /// Queues whose live items are counted.
    pub(super) live: BTreeSet<Arc<str>>,
    /// Queues and stages whose waiting items are counted.
    pub(super) waiting: BTreeSet<(u32, Arc<str>)>,
}

impl Needs {
    pub(super) fn is_empty(&self) -> bool {
        *self == Needs::default()
    }

    pub(super) fn blob(&mut self, tenant: &str, blob: &BlobRef) {
        self.blobs.insert((tenant.into(), blob.hash, blob.len));
    }

    /// A claim wants more. If it is asked twice in one decision, lanes are left out that could give
    /// nothing either time.
    pub(super) fn offer(&mut self, filter: &Filter, wanted: Wanted) {
        let Some(known) = self.offers.get_mut(filter) else {
            self.offers.insert(filter.clone(), wanted);
            return;
        };
        known.most = known.most.max(wanted.most);
        known.without.retain(|lane| wanted.without.contains(lane));
    }

    pub(super) fn at_least(&mut self, list: List, count: usize) {
        let most = self.lists.entry(list).or_default();
        *most = count.max(*most);
    }
}
