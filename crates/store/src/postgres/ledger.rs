//! The desk as the rules see it. What is not there is noted as missing, and whatever is answered in
//! its place is never acted on.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::RngExt as _;
use windrow_core::change::Lease;
use windrow_core::command::{BY_NAME_ONLY, Claim};
use windrow_core::item::{BlobRef, Marks};
use windrow_core::ledger::Ending;
use windrow_core::refusal::Full;
use windrow_core::resource::Resource;
use windrow_core::route::Route;
use windrow_core::settings::{Policy, Settings};
use windrow_core::tally::Tally;
use windrow_core::trail::Trail;
use windrow_core::{
    Answer, Body, Change, Item, ItemId, LeaseId, Ledger, Refusal, RequestId, State as Doing,
    Timestamp,
};

use super::decided::Decided;
use super::desk::Desk;
use super::loaded::{Claiming, Members, Offer};
use super::names::LaneName;
use super::needs::{Filter, Key, List, Needs, Wanted};

/// How much further than asked leases are loaded that run out.
const EXPIRING_MORE_MS: u64 = 5_000;

impl Desk {
    pub(super) fn need_lease(&self, lease: LeaseId) {
        self.miss(|needs| {
            needs.leases.insert(lease);
        });
    }

    fn miss(&self, note: impl FnOnce(&mut Needs)) {
        note(&mut self.missing.lock());
    }

    /// An item of which the desk must know whether it is there.
    pub(super) fn look(&self, id: ItemId) -> Option<Item> {
        if !self.items.is_known(&id) {
            self.miss(|needs| {
                needs.items.insert(id);
            });
        }
        self.items.get(&id).copied()
    }

    /// Who of an item's group is in its stage.
    fn members(&self, item: &Item) -> Option<&Members> {
        let key = self.group_key(item)?;
        let known = self.groups.get(&key);
        if known.is_none() {
            self.miss(|needs| {
                needs.groups.insert(key);
            });
        }
        known
    }

    fn key(&self, tenant: &str, queue: &str, key: &str) -> Option<Key> {
        let names = self.names.read();
        Some(Key { queue: names.find(queue)?, tenant: names.find(tenant)?, key: key.into() })
    }

    /// A list from the database, as what was decided since leaves it.
    fn listed(
        &self,
        list: List,
        limit: usize,
        fresh: impl Iterator<Item = (u32, ItemId)>,
        stays: impl Fn(ItemId) -> bool,
    ) -> Vec<ItemId> {
        let known = self.lists.get(&list);
        let all = known.map(|listed| listed.items.as_slice()).unwrap_or_default();
        let mut left: BTreeSet<(u32, ItemId)> = all.iter().copied().collect();
        left.extend(fresh);
        let left: Vec<ItemId> =
            left.into_iter().map(|(_, id)| id).filter(|id| stays(*id)).take(limit).collect();
        let is_whole = known.is_some_and(|listed| listed.items.len() < listed.asked);
        if !is_whole && left.len() < limit {
            let asked = known.map_or(0, |listed| listed.asked);
            self.miss(|needs| needs.at_least(list, limit.min(100_000).max(asked * 2)));
        }
        left
    }

    /// Children that the batch created.
    fn created_children(
        &self,
        parent: ItemId,
        generation: u16,
        from: u32,
    ) -> impl Iterator<Item = (u32, ItemId)> {
        let created = self.decided.created.iter().filter_map(|id| self.items.get(id));
        created.filter_map(move |item| {
            let place = item.place?;
            let here = place.parent == parent && place.generation == generation;
            (here && place.ordinal >= from).then_some((place.ordinal, item.id))
        })
    }

    /// A candidate was not admitted: those behind it must be on the desk as well.
    fn look_further(&self, id: ItemId) {
        let lane = self.items.get(&id).and_then(|item| self.lane(item));
        let left_out = |offer: &Offer| lane.is_some_and(|lane| offer.without.contains(&lane));
        let offers = self.offers.iter().filter(|(_, offer)| offer.items.contains(&id));
        for (filter, offer) in offers.filter(|(_, offer)| offer.more || left_out(offer)) {
            let mut without = offer.without.clone();
            without.retain(|no| Some(*no) != lane);
            self.miss(|needs| {
                needs.aside.insert(id);
                needs.offer(filter, Wanted { most: offer.asked, without });
            });
        }
    }

    /// What a claim asks for, as numbers.
    fn claiming(&self, claim: &Claim) -> Claiming {
        let filter = Filter::from(claim);
        let names = self.names.read();
        let tenants = filter.tenants.iter().filter_map(|text| names.find(text));
        let only = (!filter.tenants.is_empty()).then(|| tenants.collect::<Vec<u32>>());
        let lanes = self.config.lanes.iter();
        let lanes = lanes.filter(|(_, lane)| matches(&filter, lane.name, |text| names.find(text)));
        let lanes = lanes.map(|(no, _)| *no).collect();
        Claiming { filter, lanes, only }
    }

    /// Whether its resource is closed or too much waits further down. What a claim takes may change
    /// that.
    fn waits_for_others(&self, lane: u32) -> bool {
        let Some(lane) = self.config().lanes.get(&lane) else { return false };
        if self.is_closed(&lane.policy) {
            return true;
        }
        let ahead = lane.policy.ahead.as_ref();
        ahead.is_some_and(|ahead| self.waiting_in(lane.name.queue, &ahead.stage) >= ahead.max)
    }

    /// Items that wait in a stage of a queue.
    fn waiting_in(&self, queue: u32, stage: &str) -> u64 {
        let at = (queue, Arc::from(stage));
        let Some(waiting) = self.waiting.get(&at) else {
            self.miss(|needs| {
                needs.waiting.insert(at);
            });
            return 0;
        };
        let waits = |item: &Item| {
            matches!(item.state, Doing::Pending { .. })
                && item.queue.0 == at.0
                && self.routes.get(&item.route.0).is_some_and(|r| r.stage(item.stage).name == at.1)
        };
        let (mut came, mut went) = (0, 0);
        for (id, is) in self.items.decided() {
            came += u64::from(is.is_some_and(waits));
            went += u64::from(self.items.was(id).is_some_and(waits));
        }
        (waiting + came).saturating_sub(went)
    }
}

impl Ledger for Desk {
    fn item(&self, id: ItemId) -> Result<Option<Item>, Refusal> {
        Ok(if id.tag() == self.tag { self.look(id) } else { None })
    }

    fn body(&self, item: &Item) -> Result<Body, Refusal> {
        match self.bodies.get(&item.id) {
            Some(body) => Ok(body.clone()),
            None => {
                self.miss(|needs| {
                    needs.bodies.insert(item.id);
                });
                Err(Refusal::NotFound { item: item.id })
            }
        }
    }

    fn trail(&self, item: &Item) -> Result<Trail, Refusal> {
        self.look(item.id);
        let mut trail = self.trails.get(&item.id).cloned().unwrap_or_default();
        if let Some(progress) = self.progress.get(&item.id) {
            trail.progress = Some(progress.clone());
        }
        Ok(trail)
    }

    fn with_key(&self, tenant: &str, queue: &str, key: &str) -> Result<Option<ItemId>, Refusal> {
        let Some(key) = self.key(tenant, queue, key) else { return Ok(None) };
        let known = self.keys.get(&key).copied();
        if known.is_none() && !self.keys.is_known(&key) {
            self.miss(|needs| {
                needs.keys.insert(key);
            });
        }
        Ok(known)
    }

    fn kept_key(&self, tenant: &str, queue: &str, key: &str) -> Result<Option<ItemId>, Refusal> {
        let Some(key) = self.key(tenant, queue, key) else { return Ok(None) };
        let known = self.kept_keys.get(&key).copied();
        if known.is_none() && !self.kept_keys.is_known(&key) {
            self.miss(|needs| {
                needs.kept_keys.insert(key);
            });
        }
        Ok(known)
    }

    fn successor(&self, of: ItemId) -> Option<ItemId> {
        self.look(of);
        self.successors.get(&of).copied()
    }

    fn tally(&self, parent: ItemId) -> Option<&Tally> {
        self.look(parent);
        self.tallies.get(&parent)
    }

    fn child(&self, parent: ItemId, generation: u16, ordinal: u32) -> Option<ItemId> {
        let at = (parent, generation, ordinal);
        if !self.children.is_known(&at) {
            self.miss(|needs| {
                needs.children.insert(at);
            });
        }
        self.children.get(&at).copied()
    }

    fn children(&self, parent: ItemId, generation: u16, from: u32, limit: usize) -> Vec<ItemId> {
        let fresh = self.created_children(parent, generation, from);
        let list = List::Children { parent, generation, from };
        self.listed(list, limit, fresh, |id| !self.decided.removed.contains(&id))
    }

    fn live_children(&self, parent: ItemId, generation: u16, limit: usize) -> Vec<ItemId> {
        let fresh = self.created_children(parent, generation, 0);
        let list = List::LiveChildren { parent, generation };
        self.listed(list, limit, fresh, |id| {
            !self.items.is_known(&id) || self.items.get(&id).is_some_and(|item| !item.is_done())
        })
    }

    fn lease(&self, lease: LeaseId) -> Option<Lease> {
        if !self.leases.is_known(&lease) {
            self.need_lease(lease);
        }
        self.leases.get(&lease).map(|granted| granted.lease.clone())
    }

    fn held_by(&self, lease: LeaseId) -> Vec<ItemId> {
        self.lease(lease);
        let granted = self.leases.get(&lease);
        let items = granted.map(|granted| granted.items.as_slice()).unwrap_or_default();
        let holds = |id: &ItemId| self.look(*id).and_then(|item| item.lease()) == Some(lease);
        items.iter().copied().filter(holds).collect()
    }

    fn expired(&mut self, now: Timestamp, limit: usize) -> Vec<LeaseId> {
        let Some(expired) = &self.expired else {
            self.miss(|needs| needs.expired = Some(limit));
            return Vec::new();
        };
        let still = |id: &LeaseId| {
            let lease = self.leases.get(id);
            lease.is_some_and(|granted| granted.lease.expires <= now)
        };
        expired.iter().filter(|id| still(id)).copied().take(limit).collect()
    }

    fn expiring_before(&self, until: Timestamp) -> Vec<LeaseId> {
        match &self.expiring {
            Some((loaded, expiring)) if *loaded >= until.0 => {
                let expires = |id: &LeaseId| Some(self.leases.get(id)?.lease.expires);
                let before = |id: &&LeaseId| expires(id).is_some_and(|expires| expires < until);
                expiring.iter().filter(before).copied().collect()
            }
            _ => {
                // If the time is the database's, it will be a little later when this is decided.
                self.miss(|needs| needs.expiring = Some(until.0.saturating_add(EXPIRING_MORE_MS)));
                Vec::new()
            }
        }
    }

    fn settings(&self, queue: &str) -> &Settings {
        self.config().settings.get(queue).map_or(&self.plain, |settings| settings)
    }

    fn is_configured(&self, queue: &str) -> bool {
        self.config().settings.contains_key(queue)
    }

    fn settings_of(&self, item: &Item) -> &Settings {
        let names = self.names.read();
        let queue = names.text(item.queue.0);
        let settings = queue.and_then(|queue| self.config().settings.get(queue));
        settings.map_or(&self.plain, |settings| settings)
    }

    fn policy(&self, item: &Item) -> &Policy {
        self.policy_of(item).unwrap_or(&self.plain.defaults)
    }

    fn route(&self, item: &Item) -> &Arc<Route> {
        self.routes.get(&item.route.0).expect("the route of every item on the desk is known")
    }

    fn names(&self, item: &Item) -> (Arc<str>, Arc<str>) {
        let names = self.names.read();
        let text = |no| names.text(no).cloned().unwrap_or_else(|| "".into());
        (text(item.tenant.0), text(item.queue.0))
    }

    fn live(&self, queue: &str) -> u64 {
        match self.live.get(&Arc::from(queue)) {
            Some(live) => *live,
            None => {
                self.miss(|needs| {
                    needs.live.insert(queue.into());
                });
                0
            }
        }
    }

    fn waiting(&self, item: &Item, stage: &str) -> u64 {
        self.waiting_in(item.queue.0, stage)
    }

    fn group_load(&self, item: &Item) -> u32 {
        match self.members(item) {
            Some(members) if members.busy => u32::MAX,
            Some(members) => members.leased.len() as u32,
            None => 0,
        }
    }

    fn group_holders(&self, item: &Item) -> Vec<ItemId> {
        self.members(item).map_or(Vec::new(), |m| m.leased.iter().copied().take(10).collect())
    }

    fn group_ahead(&self, item: &Item) -> Option<ItemId> {
        self.members(item)?.live.iter().next().copied().filter(|first| *first < item.id)
    }

    fn is_paused(&self, item: &Item) -> bool {
        if self.config().paused.is_empty() {
            return false;
        }
        let (tenant, queue) = Ledger::names(self, item);
        let Some(route) = self.routes.get(&item.route.0) else { return false };
        let stage = &route.stage(item.stage).name;
        self.config().is_paused(&queue, stage, &tenant)
    }

    fn resource(&self, name: &str, firmly: bool) -> Resource {
        let key = Arc::from(name);
        if self.resources.is_known(&key) {
            return self.resources.get(&key).copied().unwrap_or_default();
        }
        let known = self.config().gates.get(name).copied().unwrap_or_default();
        if firmly || !known.is_calm() {
            self.miss(|needs| {
                needs.resources.insert(key);
            });
        }
        known
    }

    fn blob(&self, tenant: &str, blob: &BlobRef) -> Option<u32> {
        let name = (Arc::from(tenant), blob.hash, blob.len);
        if !self.blobs.is_known(&name) {
            self.miss(|needs| needs.blob(tenant, blob));
        }
        self.blobs.get(&name).copied()
    }

    fn note(&self, shelf: &str, name: &str) -> Option<u64> {
        let name = (Arc::from(shelf), Arc::from(name));
        if !self.notes.is_known(&name) {
            self.miss(|needs| {
                needs.notes.insert(name.clone());
            });
        }
        self.notes.get(&name).map(|noted| noted.version)
    }

    fn full(&self) -> Option<Full> {
        None
    }

    fn candidate(&mut self, claim: &Claim, _now: Timestamp) -> Option<Item> {
        if !self.claiming.as_ref().is_some_and(|claiming| claiming.is_for(claim)) {
            self.claiming = Some(self.claiming(claim));
        }
        let Some(Claiming { lanes, only, filter }) = &self.claiming else { return None };
        let in_lane = |no: u32| lanes.contains(&no) && !self.waits_for_others(no);
        if let Some(chosen) = self.line.choose(&self.turns, in_lane, only.as_deref()) {
            self.line.take(chosen);
            return self.items.get(&chosen).copied();
        }
        // What is closed to everybody offers nothing, however much of it is looked at.
        if lanes.iter().all(|no| self.waits_for_others(*no)) {
            return None;
        }
        let offer = self.offers.get(filter);
        let waits = |no: &u32| self.waits_for_others(*no);
        // A lane that was left out waits no longer, as it is decided now.
        let left_out = |offer: &Offer| {
            lanes.iter().filter(|no| offer.without.contains(*no)).any(|no| !waits(no))
        };
        if offer.is_none_or(|offer| offer.more || left_out(offer)) {
            let most = claim.max.max(offer.map_or(0, |offer| offer.asked * 2));
            let without = lanes.iter().copied().filter(waits).collect();
            self.miss(|needs| needs.offer(filter, Wanted { most, without }));
        }
        None
    }

    fn set_aside(&mut self, item: &Item) {
        self.aside.push((item.id, self.spot(item)));
        self.look_further(item.id);
        let busy = self.members(item).is_some_and(|members| members.busy);
        let policy = self.policy(item);
        let limit = if policy.ordered { Some(1) } else { policy.group_limit };
        let full = limit.is_some_and(|limit| self.group_load(item) >= limit);
        let late = policy.ordered && self.group_ahead(item).is_some();
        if item.group.is_some() && !busy && (full || late) {
            self.decided.parked.insert(item.id);
        }
    }

    fn put_back(&mut self, item: &Item) {
        if let Some(spot) = self.spot(item) {
            self.line.put(item.id, spot);
        }
    }

    fn ending(&self, limit: usize) -> Vec<Ending> {
        let cancelling = |item: &Item| item.has(Marks::CANCELLING) && !item.is_done();
        let changed = self.items.decided().filter_map(|(_, item)| item);
        let fresh = changed.filter(|item| cancelling(item));
        let mut all: BTreeSet<(ItemId, u16)> =
            fresh.map(|item| (item.id, item.generation)).collect();
        let Some(listed) = self.lists.get(&List::Ending) else {
            self.miss(|needs| needs.at_least(List::Ending, limit));
            return Vec::new();
        };
        for (generation, id) in &listed.items {
            let of = (*id, *generation as u16);
            let over = self.decided.orphans.get(&of) == Some(&false);
            let known = self.items.get(id).copied();
            let ended = known.is_some_and(|item| !cancelling(&item) && item.generation == of.1);
            if !over && !ended {
                all.insert(of);
            }
        }
        all.extend(self.decided.orphans.iter().filter(|(_, is)| **is).map(|(of, _)| *of));
        let newest_first = all.into_iter().rev().take(limit);
        newest_first.map(|(parent, generation)| Ending { parent, generation }).collect()
    }

    fn foldable(&self, _now: Timestamp, limit: usize) -> Vec<ItemId> {
        let Decided { folded, removed, .. } = &self.decided;
        let gone = |id| folded.get(&id) == Some(&true) || removed.contains(&id);
        self.listed(List::Foldable, limit, std::iter::empty(), |id| !gone(id))
    }

    fn overdue(&self, _now: Timestamp, limit: usize) -> Vec<ItemId> {
        let gone = |id| self.decided.removed.contains(&id);
        self.listed(List::Overdue, limit, std::iter::empty(), |id| !gone(id))
    }

    fn remembered(&self, request: RequestId) -> Result<Option<(u64, Answer)>, Refusal> {
        if !self.requests.is_known(&request) {
            self.miss(|needs| {
                needs.requests.insert(request);
            });
        }
        Ok(self.requests.get(&request).cloned())
    }

    fn next_id(&mut self, now: Timestamp) -> ItemId {
        self.new_id(now)
    }

    fn next_lease(&mut self) -> LeaseId {
        for (id, spot) in std::mem::take(&mut self.aside) {
            if let Some(spot) = spot {
                self.line.put(id, spot);
            }
        }
        LeaseId(self.random.random())
    }

    fn apply(&mut self, change: Change, now: Timestamp) {
        self.take(change, now);
    }
}

/// The lanes that a claim may take from, of those that are known.
pub(super) fn matches(filter: &Filter, lane: LaneName, find: impl Fn(&str) -> Option<u32>) -> bool {
    let wanted = |texts: &[Arc<str>], no: u32| {
        texts.is_empty() || texts.iter().any(|text| find(text) == Some(no))
    };
    let is_passed_over = filter.queues.is_empty()
        && BY_NAME_ONLY.into_iter().any(|name| find(name) == Some(lane.queue));
    !is_passed_over
        && wanted(&filter.queues, lane.queue)
        && wanted(&filter.stages, lane.stage)
        && wanted(&filter.kinds, lane.kind)
}
