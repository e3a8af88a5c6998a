//! Families: the store's content as seed 002 lays it out, for people who know that layout.
//!
//! `available/<id>`, `in_progress/<id>`, `visibility_index/<seconds>/<id>`, `leases/<lease>` and
//! `lease_expiry/<seconds>/<lease>`, with ids of sixteen bytes and big-endian seconds, so that
//! keys sort as that seed says. Items that wait for their children or for an earlier item with
//! their key can be neither handed out nor are they in hand: they are in no family.

use std::collections::BTreeMap;

use windrow_core::item::State;
use windrow_core::ledger::Ledger;

use super::Embedded;

/// Entries by key, in key order.
pub type Family = BTreeMap<Vec<u8>, Entry>;

/// What a key leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// An item.
    Item { payload_bytes: usize },
    /// The key of an entry in another family.
    Reference(Vec<u8>),
    /// A lease: the ids that it holds, sorted, and when it expires, in seconds.
    Lease { ids: Vec<[u8; 16]>, expires_s: u64 },
}

/// The five families of seed 002.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Families {
    pub available: Family,
    pub in_progress: Family,
    pub visibility_index: Family,
    pub leases: Family,
    pub lease_expiry: Family,
}

fn key(name: &str, id: [u8; 16]) -> Vec<u8> {
    [name.as_bytes(), b"/", &id].concat()
}

fn timed_key(name: &str, seconds: u64, id: [u8; 16]) -> Vec<u8> {
    [name.as_bytes(), b"/", &seconds.to_be_bytes(), b"/", &id].concat()
}

impl Embedded {
    /// The live content as seed 002 lays it out.
    pub fn families(&self) -> Families {
        let tables = self.shared.tables.lock();
        let mut families = Families::default();
        for (no, _) in tables.slab.iter() {
            let item = tables.item_in(no);
            let id = item.id.0.to_be_bytes();
            let payload_bytes = tables.body(&item).map_or(0, |body| body.payload.inline_len());
            match item.state {
                State::Pending { not_before } => {
                    let entry = key("available", id);
                    let visible_s = not_before.max(item.id.created_at()).0 / 1_000;
                    families.visibility_index.insert(
                        timed_key("visibility_index", visible_s, id),
                        Entry::Reference(entry.clone()),
                    );
                    families.available.insert(entry, Entry::Item { payload_bytes });
                }
                State::Leased { .. } => {
                    families
                        .in_progress
                        .insert(key("in_progress", id), Entry::Item { payload_bytes });
                }
                _ => {}
            }
        }
        for lease in tables.leases.iter() {
            let id = lease.id.0.to_be_bytes();
            let held = tables.held_by(lease.id);
            let ids = held.into_iter().map(|item| item.0.to_be_bytes()).collect();
            let expires_s = lease.expires.0 / 1_000;
            let entry = key("leases", id);
            families
                .lease_expiry
                .insert(timed_key("lease_expiry", expires_s, id), Entry::Reference(entry.clone()));
            families.leases.insert(entry, Entry::Lease { ids, expires_s });
        }
        families
    }
}

impl Families {
    /// The first of seed 002's four invariants that does not hold, in words.
    pub fn broken(&self) -> Option<String> {
        let suffix = |key: &[u8]| key[key.len() - 16..].to_vec();
        for key in self.available.keys() {
            let twin = [b"in_progress/".as_slice(), &suffix(key)].concat();
            if self.in_progress.contains_key(&twin) {
                return Some("an item is in both available and in_progress".into());
            }
        }
        for entry in self.visibility_index.values() {
            if !matches!(entry, Entry::Reference(key) if self.available.contains_key(key)) {
                return Some("a visibility entry points to no available item".into());
            }
        }
        for entry in self.leases.values() {
            let Entry::Lease { ids, .. } = entry else {
                return Some("leases holds something else".into());
            };
            let held = |id: &[u8; 16]| self.in_progress.contains_key(&key("in_progress", *id));
            if !ids.iter().all(held) || !ids.is_sorted() {
                return Some("a lease holds an item that is not in progress".into());
            }
        }
        let expiry = self.lease_expiry.values();
        let known =
            |entry: &Entry| matches!(entry, Entry::Reference(key) if self.leases.contains_key(key));
        if self.lease_expiry.len() != self.leases.len() || !expiry.into_iter().all(known) {
            return Some("lease_expiry and leases do not match".into());
        }
        None
    }
}
