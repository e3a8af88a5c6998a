//! The model as the rules see it. Every answer is worked out from the maps.

use std::sync::Arc;

use windrow_core::change::Lease;
use windrow_core::command::Claim;
use windrow_core::item::{BlobRef, Marks};
use windrow_core::ledger::Ending;
use windrow_core::limits::{FOLD_AFTER_MS, REQUEST_KEPT_MS};
use windrow_core::refusal::Full;
use windrow_core::resource::Resource;
use windrow_core::route::Route;
use windrow_core::rules::notify::EVERY_QUEUE;
use windrow_core::settings::{Policy, Settings};
use windrow_core::tally::Tally;
use windrow_core::trail::Trail;
use windrow_core::{
    Answer, Body, Change, Item, ItemId, LeaseId, Ledger, Refusal, RequestId, State as Doing,
    Timestamp,
};

use super::Slip;
use super::state::State;

impl State {
    /// The name of the stage that an item is in.
    pub(super) fn stage_name(&self, item: &Item) -> &Arc<str> {
        &self.names.route(item.route).stage(item.stage).name
    }

    /// Items of the same group and tenant in the same stage of the same queue.
    fn group_of<'a>(&'a self, item: &'a Item) -> impl Iterator<Item = &'a Item> {
        let same = |other: &&Item| {
            other.group.is_some()
                && (other.queue, other.tenant, other.group) == (item.queue, item.tenant, item.group)
                && self.stage_name(other) == self.stage_name(item)
        };
        self.items.values().filter(same)
    }

    fn keyed<'a>(
        &'a self,
        tenant: &'a str,
        queue: &'a str,
        key: &'a str,
    ) -> impl Iterator<Item = &'a Item> {
        self.items.values().filter(move |item| {
            let body = &self.bodies[&item.id];
            body.key.as_deref() == Some(key) && &*body.tenant == tenant && &*body.queue == queue
        })
    }

    fn finished_at(&self, item: &Item) -> Option<Timestamp> {
        self.trails.get(&item.id).and_then(|trail| trail.finished_at).filter(|_| item.is_done())
    }

    /// Ended roots with the time of their end, oldest first.
    fn ended_roots(&self) -> Vec<(Timestamp, &Item)> {
        let roots = self.items.values().filter(|item| item.is_root());
        let mut ended: Vec<_> =
            roots.filter_map(|item| Some((self.finished_at(item)?, item))).collect();
        ended.sort_by_key(|(at, item)| (at.end_of_second(), item.id));
        ended
    }

    /// Whether an ended root is too old, or one too many of its queue and tenant.
    fn is_overdue(&self, index: usize, ended: &[(Timestamp, &Item)], now: Timestamp) -> bool {
        let (at, root) = ended[index];
        let every = self.settings(EVERY_QUEUE).retention;
        let keep = self.settings_of(root).retention.or(every);
        let alike = |(_, other): &&(Timestamp, &Item)| {
            (other.queue, other.tenant) == (root.queue, root.tenant)
        };
        let newer = ended[index + 1..].iter().filter(alike).count();
        now > at.end_of_second().plus(keep.max_age_ms) || newer >= keep.max_per_tenant as usize
    }
}

impl Ledger for State {
    fn item(&self, id: ItemId) -> Result<Option<Item>, Refusal> {
        Ok(self.items.get(&id).copied())
    }

    fn body(&self, item: &Item) -> Result<Body, Refusal> {
        self.bodies.get(&item.id).cloned().ok_or(Refusal::NotFound { item: item.id })
    }

    fn trail(&self, item: &Item) -> Result<Trail, Refusal> {
        Ok(self.trails.get(&item.id).cloned().unwrap_or_default())
    }

    fn with_key(&self, tenant: &str, queue: &str, key: &str) -> Result<Option<ItemId>, Refusal> {
        let in_line = |item: &&Item| !item.is_done() && !matches!(item.state, Doing::Held { .. });
        Ok(self.keyed(tenant, queue, key).find(in_line).map(|item| item.id))
    }

    fn kept_key(&self, tenant: &str, queue: &str, key: &str) -> Result<Option<ItemId>, Refusal> {
        let ended = self.keyed(tenant, queue, key).filter(|item| item.is_done());
        let last = ended.max_by_key(|item| (self.finished_at(item), item.id));
        Ok(last.map(|item| item.id))
    }

    fn successor(&self, of: ItemId) -> Option<ItemId> {
        self.successors.get(&of).copied()
    }

    fn tally(&self, parent: ItemId) -> Option<&Tally> {
        self.tallies.get(&parent)
    }

    fn child(&self, parent: ItemId, generation: u16, ordinal: u32) -> Option<ItemId> {
        self.children.get(&(parent, generation, ordinal)).copied()
    }

    fn children(&self, parent: ItemId, generation: u16, from: u32, limit: usize) -> Vec<ItemId> {
        let all = (parent, generation, from)..=(parent, generation, u32::MAX);
        self.children.range(all).map(|(_, id)| *id).take(limit).collect()
    }

    fn live_children(&self, parent: ItemId, generation: u16, limit: usize) -> Vec<ItemId> {
        let all = self.children(parent, generation, 0, usize::MAX);
        all.into_iter().filter(|id| !self.items[id].is_done()).take(limit).collect()
    }

    fn lease(&self, lease: LeaseId) -> Option<Lease> {
        self.leases.get(&lease).cloned()
    }

    fn held_by(&self, lease: LeaseId) -> Vec<ItemId> {
        let held = self.items.values().filter(|item| item.lease() == Some(lease));
        held.map(|item| item.id).collect()
    }

    fn expired(&mut self, now: Timestamp, limit: usize) -> Vec<LeaseId> {
        if self.slip == Some(Slip::ExpiryMissed) {
            return Vec::new();
        }
        let (mut expired, renewed): (Vec<&Lease>, Vec<&Lease>) = self
            .leases
            .values()
            .filter(|lease| lease.granted.plus(lease.lease_ms) <= now)
            .partition(|lease| lease.expires <= now);
        expired.sort_by_key(|lease| (lease.expires, lease.granted, lease.id));
        // One that was renewed since is named as well, as a store that looks things up lazily
        // would, but never so that it takes the place of one that did expire.
        let room = limit.saturating_sub(expired.len() + 1);
        expired.truncate(limit);
        expired.into_iter().chain(renewed.into_iter().take(room)).map(|lease| lease.id).collect()
    }

    fn expiring_before(&self, until: Timestamp) -> Vec<LeaseId> {
        let soon = self.leases.values().filter(|lease| lease.expires < until);
        soon.map(|lease| lease.id).collect()
    }

    fn settings(&self, queue: &str) -> &Settings {
        self.settings.get(queue).unwrap_or(&self.plain)
    }

    fn is_configured(&self, queue: &str) -> bool {
        self.settings.contains_key(queue)
    }

    fn settings_of(&self, item: &Item) -> &Settings {
        self.settings(self.names.queue(item.queue))
    }

    fn policy(&self, item: &Item) -> &Policy {
        let lane = (item.queue.0, self.stage_name(item).clone(), item.kind.0);
        self.policies.get(&lane).expect("the lanes of every item were resolved")
    }

    fn route(&self, item: &Item) -> &Arc<Route> {
        self.names.route(item.route)
    }

    fn names(&self, item: &Item) -> (Arc<str>, Arc<str>) {
        (self.names.tenant(item.tenant).clone(), self.names.queue(item.queue).clone())
    }

    fn live(&self, queue: &str) -> u64 {
        let live = |item: &&Item| !item.is_done() && &**self.names.queue(item.queue) == queue;
        self.items.values().filter(live).count() as u64
    }

    fn waiting(&self, item: &Item, stage: &str) -> u64 {
        let waits = |other: &&Item| {
            matches!(other.state, Doing::Pending { .. })
                && other.queue == item.queue
                && &**self.stage_name(other) == stage
        };
        self.items.values().filter(waits).count() as u64
    }

    fn group_load(&self, item: &Item) -> u32 {
        let counts = |other: &&Item| match self.slip {
            Some(Slip::GroupLeaks) => other.attempts > 0,
            _ => other.lease().is_some(),
        };
        self.group_of(item).filter(counts).count() as u32
    }

    fn group_holders(&self, item: &Item) -> Vec<ItemId> {
        self.group_of(item).filter(|other| other.lease().is_some()).map(|other| other.id).collect()
    }

    fn group_ahead(&self, item: &Item) -> Option<ItemId> {
        let earlier = |other: &&Item| other.id < item.id && !other.is_done();
        self.group_of(item).find(earlier).map(|other| other.id)
    }

    fn is_paused(&self, item: &Item) -> bool {
        if self.slip == Some(Slip::PauseIgnored) {
            return false;
        }
        let (tenant, queue) = Ledger::names(self, item);
        let stage = self.stage_name(item);
        self.paused.iter().any(|scope| {
            scope.queue == queue
                && scope.stage.as_ref().is_none_or(|only| only == stage)
                && scope.tenant.as_ref().is_none_or(|only| *only == tenant)
        })
    }

    fn resource(&self, name: &str, _firmly: bool) -> Resource {
        self.gates.get(name).copied().unwrap_or_default()
    }

    fn blob(&self, tenant: &str, blob: &BlobRef) -> Option<u32> {
        self.blobs.get(&(tenant.into(), blob.hash, blob.len)).copied()
    }

    fn note(&self, shelf: &str, name: &str) -> Option<u64> {
        self.notes.get(&(shelf.into(), name.into())).map(|note| note.version)
    }

    fn full(&self) -> Option<Full> {
        None
    }

    fn candidate(&mut self, claim: &Claim, now: Timestamp) -> Option<Item> {
        self.choose(claim, now)
    }

    fn set_aside(&mut self, item: &Item) {
        self.turns.aside.insert(item.id);
    }

    /// Nothing was taken out of line, so it is still where it was.
    fn put_back(&mut self, _item: &Item) {}

    fn ending(&self, limit: usize) -> Vec<Ending> {
        let cancelling = self.items.values().filter(|item| item.has(Marks::CANCELLING));
        let cancelling = cancelling.map(|item| (item.id, item.generation));
        let mut all: Vec<_> = cancelling.chain(self.orphans.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        let newest_first = all.into_iter().rev().take(limit);
        newest_first.map(|(parent, generation)| Ending { parent, generation }).collect()
    }

    fn foldable(&self, now: Timestamp, limit: usize) -> Vec<ItemId> {
        let ended = self.ended_roots().into_iter();
        let due = ended.filter(|(at, root)| {
            root.has(Marks::PARENT)
                && !self.folded.contains(&root.id)
                && self.tallies.get(&root.id).is_some_and(|tally| tally.gaps == 0)
                && now > at.end_of_second().plus(FOLD_AFTER_MS)
        });
        due.map(|(_, root)| root.id).take(limit).collect()
    }

    fn overdue(&self, now: Timestamp, limit: usize) -> Vec<ItemId> {
        let ended = self.ended_roots();
        let due = (0..ended.len()).filter(|index| self.is_overdue(*index, &ended, now));
        due.map(|index| ended[index].1.id).take(limit).collect()
    }

    fn remembered(&self, request: RequestId) -> Result<Option<(u64, Answer)>, Refusal> {
        let known = self.requests.get(&request);
        let known = known.filter(|known| self.now.since(known.at) <= REQUEST_KEPT_MS);
        Ok(known.map(|known| (known.fingerprint, known.answer.clone())))
    }

    fn next_id(&mut self, now: Timestamp) -> ItemId {
        self.ids.next(now)
    }

    fn next_lease(&mut self) -> LeaseId {
        self.turns.begin();
        LeaseId(u128::from(self.random.draw()) << 64 | u128::from(self.random.draw()))
    }

    fn apply(&mut self, change: Change, now: Timestamp) {
        self.take(change, now);
    }
}
