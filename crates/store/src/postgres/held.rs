//! What this server handed out and has not seen come back.
//!
//! Whoever settles usually does so where it claimed. Then the items need not be read again: they
//! are what they were when they were handed out, as long as their lease, which is read, lists them
//! and does not say that one of them was changed. Children are read: what is decided of them must
//! fit the counts of their parents, which are.

use std::sync::Arc;

use hashbrown::HashMap;
use windrow_core::item::Marks;
use windrow_core::{Item, ItemId, LeaseId};

use super::desk::Desk;

/// More is not remembered.
const ITEMS_MAX: usize = 200_000;

/// An item as it was handed out.
#[derive(Clone, Debug)]
struct Handed {
    item: Item,
    key: Option<Arc<str>>,
    group: Option<Arc<str>>,
}

#[derive(Debug, Default)]
pub(super) struct Held {
    leases: HashMap<LeaseId, HashMap<ItemId, Handed>>,
    items: usize,
}

impl Held {
    /// Takes note of what a batch that was committed handed out and took back.
    pub(super) fn took(&mut self, desk: &Desk) {
        for lease in desk.leases.changed() {
            if desk.leases.get(&lease).is_none()
                && let Some(items) = self.leases.remove(&lease)
            {
                self.items -= items.len();
            }
        }
        if self.items > ITEMS_MAX {
            *self = Held::default();
        }
        let beside = [Marks::TRAIL, Marks::PARENT, Marks::SUCCEEDED];
        for (id, item) in desk.items.decided() {
            let Some(item) = item else { continue };
            let Some(lease) = item.lease() else { continue };
            if !item.is_root() || beside.iter().any(|mark| item.has(*mark)) {
                let known = self.leases.get_mut(&lease).and_then(|items| items.remove(id));
                self.items -= usize::from(known.is_some());
                continue;
            }
            let key = desk.keyed.get(id).cloned();
            let group = item.group.and_then(|group| desk.group_name(group)).cloned();
            let handed = Handed { item: *item, key, group };
            let known = self.leases.entry(lease).or_default().insert(*id, handed);
            self.items += usize::from(known.is_none());
        }
    }

    /// Puts an item on a desk as it was handed out; says whether it is known.
    pub(super) fn put(&self, desk: &mut Desk, lease: LeaseId, id: ItemId) -> bool {
        let known = self.leases.get(&lease).and_then(|items| items.get(&id));
        let Some(Handed { item, key, group }) = known else { return false };
        let group = group.as_ref().map(|name| desk.group_number(item.tenant.0, name));
        let item = Item { group, ..*item };
        desk.know_route(item.queue.0, item.kind.0, item.route.0);
        desk.items.load(id, Some(item));
        if let Some(key) = key {
            desk.keyed.load(id, Some(Arc::clone(key)));
        }
        desk.trusted.entry(lease).or_default().push(id);
        true
    }

    /// What is known of leases may be wrong.
    pub(super) fn forget(&mut self, leases: impl Iterator<Item = LeaseId>) {
        for lease in leases {
            if let Some(items) = self.leases.remove(&lease) {
                self.items -= items.len();
            }
        }
    }
}
