//! What the embedded store shows the rules.

use std::cmp::Reverse;
use std::sync::Arc;

use rand::RngExt as _;
use windrow_core::change::{Change, Lease};
use windrow_core::command::{Answer, BY_NAME_ONLY, Claim};
use windrow_core::item::{BlobRef, Body, Item, Marks};
use windrow_core::ledger::{Ending, Ledger};
use windrow_core::limits::FOLD_AFTER_MS;
use windrow_core::planted::{Bug, is_planted};
use windrow_core::refusal::{Full, Refusal};
use windrow_core::resource::Resource;
use windrow_core::route::Route;
use windrow_core::rules::notify::EVERY_QUEUE;
use windrow_core::settings::{Policy, Settings};
use windrow_core::tally::Tally;
use windrow_core::trail::Trail;
use windrow_core::{ItemId, LeaseId, RequestId, Timestamp};

use super::codec::body::get_body;
use super::codec::record::Image;
use super::codec::{Malformed, Reader};
use super::keeping::past_keeping;
use super::log::{Loc, LogError, Space};
use super::outbox::Target;
use super::schedule::history::Entry;
use super::schedule::lanes::Allowed;
use super::schedule::slab::{Slot, Spot};
use super::tables::{Offer, Pauses, Tables};

/// Where a record of the command that is being decided lies: nowhere yet.
pub(crate) fn nowhere() -> Loc {
    Loc::new(u32::MAX, 0).unwrap_or_else(|| unreachable!("segment numbers are not zero"))
}

impl Tables {
    /// Reads a record, wherever it is by now: in the outbox, in a group in memory, or on disk.
    pub(crate) fn read<T>(
        &self,
        item: ItemId,
        at: Option<Loc>,
        target: Target,
        read: impl FnOnce(&[u8]) -> Result<T, Malformed>,
    ) -> Result<T, Refusal> {
        let unreadable = |what: String| {
            self.unhealthy.replace(Some(format!("item {item} is unreadable: {what}")));
            Refusal::Unreadable { item, what }
        };
        let malformed = |_| unreadable(Malformed.to_string());
        if target != Target::Nobody
            && let Some(bytes) = self.out.find(target)
        {
            return read(bytes).map_err(malformed);
        }
        let at = at.ok_or_else(|| unreadable("it has no place".into()))?;
        if let Some(record) = self.writer().peek(at) {
            return read(record.bytes).map_err(malformed);
        }
        let mut scratch = Vec::new();
        match self.segments.read(at, &mut scratch) {
            Ok(record) => read(record.bytes).map_err(malformed),
            Err(error) => Err(unreadable(LogError::to_string(&error))),
        }
    }

    /// The last record of an ended item: its image and its trail.
    pub(crate) fn finished(&self, entry: &Entry) -> Result<(Image, Trail), Refusal> {
        let target = Target::Finished(entry.serial);
        self.read(self.id(entry.serial), Some(entry.at), target, |bytes| {
            let from = &mut Reader::new(bytes);
            Ok((from.get()?, from.get()?))
        })
    }

    pub(crate) fn image_of(&self, entry: &Entry) -> Result<Image, Refusal> {
        let target = Target::Finished(entry.serial);
        self.read(self.id(entry.serial), Some(entry.at), target, |bytes| Reader::new(bytes).get())
    }

    fn ended(&self, id: ItemId) -> Option<Entry> {
        self.history.find(self.serial(id)?)
    }

    /// Moves what is due into line.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        let before = std::mem::replace(&mut self.gates_seen, now);
        if !self.gates.is_empty() && before < now {
            let opens = |until: Timestamp| before < until && until <= now;
            let opened = self.gates.iter().filter(|(_, state)| opens(state.closed_until));
            let opened: Vec<Arc<str>> = opened.map(|(resource, _)| Arc::clone(resource)).collect();
            opened.iter().for_each(|resource| self.tell_resource(resource));
        }
        while let Some(Reverse((until, serial, no))) = self.delayed.peek().copied()
            && until <= now.0
        {
            self.delayed.pop();
            let slot = self.slab.get(no);
            if slot.serial == serial && slot.spot == Spot::Delayed && slot.until == until {
                self.slab.get_mut(no).spot = Spot::Nowhere;
                self.enter_line(no);
            }
        }
    }

    /// A claim's filters as lanes and tenants; none if it names something that does not exist.
    fn resolve(&self, claim: &Claim) -> Offer {
        let find = |names: &[Arc<str>]| -> Vec<u32> {
            names.iter().filter_map(|name| self.names.find(name)).collect()
        };
        let (queues, stages) = (find(&claim.queues), find(&claim.stages));
        let (kinds, tenants) = (find(&claim.kinds), find(&claim.tenants));
        let wanted =
            |names: &[Arc<str>], known: &[u32], no: u32| names.is_empty() || known.contains(&no);
        let by_name_only = BY_NAME_ONLY.map(|name| self.names.find(name));
        let lanes = self.lanes.iter().filter(|(_, lane)| {
            wanted(&claim.queues, &queues, lane.name.queue)
                && !(claim.queues.is_empty() && by_name_only.contains(&Some(lane.name.queue)))
                && wanted(&claim.stages, &stages, lane.name.stage)
                && wanted(&claim.kinds, &kinds, lane.name.kind)
        });
        let nobody = !claim.tenants.is_empty() && tenants.is_empty();
        let lanes = if nobody { Vec::new() } else { lanes.map(|(no, _)| no).collect() };
        Offer { claim: claim.clone(), lanes, tenants }
    }

    /// The same, remembered from one item of a claim to the next.
    fn offer_for(&mut self, claim: &Claim) -> Offer {
        let known = self.offer.take().filter(|offer| offer.claim == *claim);
        known.unwrap_or_else(|| self.resolve(claim))
    }

    /// Looks at what a claim is about to take.
    pub(crate) fn warm_claim(&mut self, claim: &Claim) {
        let offer = self.offer_for(claim);
        if let [lane] = *offer.lanes {
            self.lanes.warm(&self.slab, lane, claim.max);
        }
        self.offer = Some(offer);
    }

    /// Whether a whole lane may be claimed from now.
    pub(crate) fn is_open(&self, lane: u32, now: Timestamp) -> bool {
        let lane = self.lanes.get(lane);
        let (queue, stage) = (lane.name.queue, lane.name.stage);
        if self.pauses.queues.contains(&queue) || self.pauses.stages.contains(&(queue, stage)) {
            return false;
        }
        if let Some(resource) = &lane.policy.resource
            && self.gates.get(resource).is_some_and(|state| state.closed_until > now)
        {
            return false;
        }
        match &lane.policy.ahead {
            Some(ahead) => self.waiting_in(queue, &ahead.stage) < ahead.max,
            None => true,
        }
    }

    pub(crate) fn waiting_in(&self, queue: u32, stage: &str) -> u64 {
        let Some(stage) = self.names.find(stage) else { return 0 };
        let lanes = self.lanes.iter().map(|(_, lane)| lane);
        let there = lanes.filter(|lane| lane.name.queue == queue && lane.name.stage == stage);
        there.map(|lane| lane.pending).sum()
    }

    fn slot_for(&self, item: &Item) -> Option<&Slot> {
        self.find_live(item.id).map(|no| self.slab.get(no))
    }
}

impl Ledger for Tables {
    fn item(&self, id: ItemId) -> Result<Option<Item>, Refusal> {
        if let Some(no) = self.find_live(id) {
            return Ok(Some(self.item_in(no)));
        }
        match self.ended(id) {
            Some(entry) => self.image_of(&entry).map(|image| Some(self.item_of(&image))),
            None => Ok(None),
        }
    }

    fn body(&self, item: &Item) -> Result<Body, Refusal> {
        let (at, target) = match self.find_live(item.id) {
            Some(no) => (self.slab.get(no).body, Target::Body(no)),
            None => {
                let entry = self.ended(item.id).ok_or(Refusal::NotFound { item: item.id })?;
                (self.image_of(&entry)?.body, Target::Nobody)
            }
        };
        self.read_body(item.id, at, target)
    }

    fn trail(&self, item: &Item) -> Result<Trail, Refusal> {
        let serial = item.id.serial();
        let mut trail = match self.find_live(item.id) {
            Some(no) if item.has(Marks::TRAIL) => {
                let at = self.slab.get(no).trail;
                self.read(item.id, at, Target::Trail(no), |bytes| {
                    let from = &mut Reader::new(bytes);
                    from.serial()?;
                    from.get()
                })?
            }
            Some(_) => Trail::default(),
            None => match self.ended(item.id) {
                Some(entry) => self.finished(&entry)?.1,
                None => Trail::default(),
            },
        };
        if let Some(progress) = self.progress.get(&serial) {
            trail.progress = Some(progress.clone());
        }
        Ok(trail)
    }

    fn with_key(&self, tenant: &str, queue: &str, key: &str) -> Result<Option<ItemId>, Refusal> {
        let hash = self.key_hash(tenant, queue, key);
        let mut unreadable = None;
        let found = self.slab.with_key(hash, |no| {
            let item = self.item_in(no);
            match self.body(&item) {
                Ok(body) => {
                    body.key.as_deref() == Some(key)
                        && *body.tenant == *tenant
                        && *body.queue == *queue
                }
                Err(refusal) => {
                    unreadable = Some(refusal);
                    false
                }
            }
        });
        match (found, unreadable) {
            (Some(no), _) => Ok(Some(self.id(self.slab.get(no).serial))),
            (None, Some(refusal)) => Err(refusal),
            (None, None) => Ok(None),
        }
    }

    fn kept_key(&self, tenant: &str, queue: &str, key: &str) -> Result<Option<ItemId>, Refusal> {
        let hash = self.key_hash(tenant, queue, key);
        let kept = self.retained.range((hash, 0, 0)..=(hash, u64::MAX, u64::MAX));
        Ok(kept.last().map(|(_, _, serial)| self.id(*serial)))
    }

    fn successor(&self, of: ItemId) -> Option<ItemId> {
        self.successors.get(&self.serial(of)?).map(|serial| self.id(*serial))
    }

    fn tally(&self, parent: ItemId) -> Option<&Tally> {
        self.trees.tally(self.serial(parent)?)
    }

    fn child(&self, parent: ItemId, generation: u16, ordinal: u32) -> Option<ItemId> {
        let serial = self.trees.child(self.serial(parent)?, generation, ordinal)?;
        Some(self.id(serial))
    }

    fn children(&self, parent: ItemId, generation: u16, from: u32, limit: usize) -> Vec<ItemId> {
        let Some(parent) = self.serial(parent) else { return Vec::new() };
        let children = self.trees.children(parent, generation, from);
        children.take(limit).map(|serial| self.id(serial)).collect()
    }

    fn live_children(&self, parent: ItemId, generation: u16, limit: usize) -> Vec<ItemId> {
        let Some(parent) = self.serial(parent) else { return Vec::new() };
        let children = self.trees.children(parent, generation, 0);
        let live = children.filter(|serial| self.slab.find(*serial).is_some());
        live.take(limit).map(|serial| self.id(serial)).collect()
    }

    fn lease(&self, lease: LeaseId) -> Option<Lease> {
        self.leases.find(lease).cloned()
    }

    fn held_by(&self, lease: LeaseId) -> Vec<ItemId> {
        let slots = self.leases.slots(&self.slab, lease);
        let mut held: Vec<ItemId> =
            slots.into_iter().map(|no| self.id(self.slab.get(no).serial)).collect();
        held.sort_unstable();
        held
    }

    fn expired(&mut self, now: Timestamp, limit: usize) -> Vec<LeaseId> {
        self.leases.expired(now, limit)
    }

    fn expiring_before(&self, until: Timestamp) -> Vec<LeaseId> {
        self.leases.iter().filter(|lease| lease.expires < until).map(|lease| lease.id).collect()
    }

    fn settings(&self, queue: &str) -> &Settings {
        if queue == EVERY_QUEUE {
            return self.settings.of_every();
        }
        let queue = self.names.find(queue);
        queue.map_or(self.settings.plain(), |queue| self.settings.of(queue))
    }

    fn is_configured(&self, queue: &str) -> bool {
        self.names.find(queue).is_some_and(|queue| self.settings.has(queue))
    }

    fn settings_of(&self, item: &Item) -> &Settings {
        self.settings.of(item.queue.0)
    }

    fn policy(&self, item: &Item) -> &Policy {
        let stage = self.names.route(item.route.0).stages[usize::from(item.stage)];
        let name =
            super::schedule::lanes::LaneName { queue: item.queue.0, stage, kind: item.kind.0 };
        let lane = self.lanes.find(name).expect("an item's lane exists");
        &self.lanes.get(lane).policy
    }

    fn route(&self, item: &Item) -> &Arc<Route> {
        &self.names.route(item.route.0).route
    }

    fn names(&self, item: &Item) -> (Arc<str>, Arc<str>) {
        let (tenant, queue) = (self.names.text(item.tenant.0), self.names.text(item.queue.0));
        (Arc::clone(tenant), Arc::clone(queue))
    }

    fn live(&self, queue: &str) -> u64 {
        self.names.find(queue).map_or(0, |queue| self.owners.live(queue))
    }

    fn waiting(&self, item: &Item, stage: &str) -> u64 {
        self.waiting_in(item.queue.0, stage)
    }

    fn group_load(&self, item: &Item) -> u32 {
        self.slot_for(item).map_or(0, |slot| self.lanes.group_load(slot))
    }

    fn group_holders(&self, item: &Item) -> Vec<ItemId> {
        let Some(mine) = self.slot_for(item) else { return Vec::new() };
        let lane = self.lanes.get(mine.lane).name;
        let alike = |slot: &&Slot| {
            let other = self.lanes.get(slot.lane).name;
            slot.group == mine.group && (other.queue, other.stage) == (lane.queue, lane.stage)
        };
        let held = self.leases.iter().flat_map(|lease| self.leases.slots(&self.slab, lease.id));
        let held = held.map(|no| self.slab.get(no)).filter(alike);
        let mut holders: Vec<ItemId> = held.map(|slot| self.id(slot.serial)).take(10).collect();
        holders.sort_unstable();
        holders
    }

    fn group_ahead(&self, item: &Item) -> Option<ItemId> {
        self.lanes.group_ahead(self.slot_for(item)?).map(|serial| self.id(serial))
    }

    fn is_paused(&self, item: &Item) -> bool {
        let (queue, tenant) = (item.queue.0, item.tenant.0);
        let stage = self.names.route(item.route.0).stages[usize::from(item.stage)];
        self.pauses.queues.contains(&queue)
            || self.pauses.stages.contains(&(queue, stage))
            || self.pauses.tenants.contains(&(queue, tenant))
            || self.pauses.cells.contains(&(queue, stage, tenant))
    }

    fn resource(&self, name: &str, _firmly: bool) -> Resource {
        self.gates.get(name).copied().unwrap_or_default()
    }

    fn blob(&self, tenant: &str, blob: &BlobRef) -> Option<u32> {
        let tenant = self.names.find(tenant)?;
        self.blobs.get(&(tenant, *blob)).copied()
    }

    fn note(&self, shelf: &str, name: &str) -> Option<u64> {
        self.notes.version(shelf, name)
    }

    fn full(&self) -> Option<Full> {
        if self.writer().space() != Space::Plenty {
            return Some(Full::Disk);
        }
        (self.memory() > self.memory_max).then_some(Full::Memory)
    }

    fn candidate(&mut self, claim: &Claim, now: Timestamp) -> Option<Item> {
        self.advance(now);
        let offer = self.offer_for(claim);
        let Pauses { tenants: paused, cells, .. } = &self.pauses;
        let allowed = Allowed { tenants: &offer.tenants, paused, cells };
        let lane = self.lanes.pick(&offer.lanes, &allowed, |lane| self.is_open(lane, now));
        let popped = lane.and_then(|lane| self.lanes.pop(&mut self.slab, lane, &allowed));
        self.offer = Some(offer);
        if is_planted(Bug::DelayIgnored) && popped.is_none() {
            let Reverse((_, _, no)) = self.delayed.pop()?;
            self.slab.get_mut(no).spot = Spot::Nowhere;
            return Some(self.item_in(no));
        }
        popped.map(|no| {
            self.slab.found(no);
            self.item_in(no)
        })
    }

    fn set_aside(&mut self, item: &Item) {
        if let Some(no) = self.find_live(item.id) {
            let lane = self.slab.get(no).lane;
            self.lanes.forgive(lane);
        }
    }

    fn put_back(&mut self, item: &Item) {
        if let Some(no) = self.find_live(item.id) {
            self.lanes.put_back(&mut self.slab, no);
        }
    }

    /// The newest first: children before their parents, so that the smallest slice finds a leaf.
    fn ending(&self, limit: usize) -> Vec<Ending> {
        let cancelled = self.cancelling.iter().rev().filter_map(|serial| {
            let slot = self.slab.get(self.slab.find(*serial)?);
            Some((*serial, slot.generation))
        });
        let mut ending: Vec<(u64, u16)> = cancelled.take(limit).collect();
        ending.extend(self.trees.orphans().rev().take(limit));
        ending.sort_unstable_by(|a, b| b.cmp(a));
        ending.dedup();
        ending.truncate(limit);
        let id = |serial| self.id(serial);
        ending
            .into_iter()
            .map(|(parent, generation)| Ending { parent: id(parent), generation })
            .collect()
    }

    fn foldable(&self, now: Timestamp, limit: usize) -> Vec<ItemId> {
        let due = |ended_s: u64| now > Timestamp(ended_s * 1_000).plus(FOLD_AFTER_MS);
        let old = self.unfolded.iter().take_while(|(ended_s, _)| due(*ended_s));
        old.take(limit).map(|(_, serial)| self.id(*serial)).collect()
    }

    fn overdue(&self, now: Timestamp, limit: usize) -> Vec<ItemId> {
        let due = past_keeping(&self.history, &self.owners, &self.settings, now, limit);
        due.into_iter().map(|serial| self.id(serial)).collect()
    }

    fn remembered(&self, request: RequestId) -> Result<Option<(u64, Answer)>, Refusal> {
        let Some(at) = self.requests.recall(request, self.now) else { return Ok(None) };
        let nobody = ItemId(request.0);
        self.read(nobody, Some(at), Target::Answered(request), |bytes| {
            let from = &mut Reader::new(bytes);
            let _: (RequestId, Timestamp) = (from.get()?, from.get()?);
            Ok(Some((from.serial()?, from.get()?)))
        })
    }

    fn next_id(&mut self, now: Timestamp) -> ItemId {
        self.ids.next(now)
    }

    fn next_lease(&mut self) -> LeaseId {
        LeaseId(self.random.random())
    }

    fn between(&mut self) {
        self.flush_if_large();
    }

    fn apply(&mut self, change: Change, now: Timestamp) {
        self.take(change, now);
    }
}

impl Tables {
    pub(crate) fn read_body(
        &self,
        item: ItemId,
        at: Option<Loc>,
        target: Target,
    ) -> Result<Body, Refusal> {
        self.read(item, at, target, |bytes| get_body(bytes, &self.names).map(|(_, body)| body))
    }
}
