//! The desk as the rules see it. What is not there is noted as missing, and whatever is answered in
//! its place is never acted on.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rand::RngExt as _;
use windrow_core::change::Lease;
use windrow_core::command::Claim;
use windrow_core::item::{BlobRef, Marks};
use windrow_core::ledger::Ending;
use windrow_core::refusal::Full;
use windrow_core::route::Route;
use windrow_core::settings::{Policy, Settings};
use windrow_core::tally::Tally;
use windrow_core::trail::Trail;
use windrow_core::{
    Answer, Body, Change, Item, ItemId, LeaseId, Ledger, Refusal, RequestId, State as Doing,
    Timestamp,
};

use super::desk::{Desk, Members};
use super::key::KeyHash;
use super::needs::{Filter, List, Needs};
use super::turns::{LaneName, Offered};

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
        match self.view.items.get(&id) {
            Some(known) => *known,
            None => {
                self.miss(|needs| {
                    needs.items.insert(id);
                });
                None
            }
        }
    }

    /// Who of an item's group is in its stage.
    fn members(&self, item: &Item) -> Option<&Members> {
        let key = self.group_key(item)?;
        let known = self.view.groups.get(&key);
        if known.is_none() {
            self.miss(|needs| {
                needs.groups.insert(key);
            });
        }
        known
    }

    /// A list from the database, as what was decided since leaves it.
    fn listed(
        &self,
        list: List,
        limit: usize,
        fresh: impl Iterator<Item = (u32, ItemId)>,
        stays: impl Fn(ItemId) -> bool,
    ) -> Vec<ItemId> {
        let known = self.view.lists.get(&list);
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
        let created =
            self.touched.created.iter().filter_map(|id| self.view.items.get(id)?.as_ref());
        let below = created.filter_map(move |item| {
            let place = item.place?;
            let here = place.parent == parent && place.generation == generation;
            (here && place.ordinal >= from).then_some((place.ordinal, item.id))
        });
        below.collect::<Vec<_>>().into_iter()
    }

    /// A candidate was not admitted: those behind it must be on the desk as well.
    fn look_further(&self, id: ItemId) {
        let offers = self.view.offers.iter();
        for (filter, offer) in offers.filter(|(_, offer)| offer.more && offer.items.contains(&id)) {
            self.miss(|needs| {
                needs.aside.insert(id);
                needs.offers.insert(filter.clone(), offer.asked);
            });
        }
    }

    /// What could be handed out to a claim now.
    fn offered(&self, filter: &Filter, now: Timestamp) -> Vec<Offered> {
        let names = self.names.read();
        let numbers = |texts: &[Arc<str>]| -> Vec<u32> {
            texts.iter().filter_map(|text| names.find(text)).collect()
        };
        let (queues, stages) = (numbers(&filter.queues), numbers(&filter.stages));
        let (kinds, tenants) = (numbers(&filter.kinds), numbers(&filter.tenants));
        drop(names);
        let wanted =
            |asked: &[Arc<str>], known: &[u32], no: u32| asked.is_empty() || known.contains(&no);
        let offer = self.view.offers.get(filter);
        let from_line = offer.map(|offer| offer.items.as_slice()).unwrap_or_default();
        let ids: BTreeSet<ItemId> = from_line.iter().chain(&self.touched.items).copied().collect();
        let visible = |item: &Item| match item.state {
            Doing::Pending { not_before } => not_before <= now,
            _ => false,
        };
        ids.into_iter()
            .filter(|id| !self.aside.contains(id))
            .filter_map(|id| self.view.items.get(&id).copied().flatten())
            .filter(|item| visible(item) && !item.has(Marks::QUARANTINED))
            .filter_map(|item| {
                let lane = self.lane(&item)?;
                let fits = wanted(&filter.queues, &queues, lane.queue)
                    && wanted(&filter.stages, &stages, lane.stage)
                    && wanted(&filter.kinds, &kinds, lane.kind)
                    && wanted(&filter.tenants, &tenants, item.tenant.0);
                let (id, class, tenant) = (item.id, self.class(&item), item.tenant.0);
                (fits && !self.waits_for_others(&item)).then_some(Offered {
                    id,
                    lane,
                    class,
                    tenant,
                })
            })
            .collect()
    }

    /// Whether too much waits further down. What a claim takes from there may change that.
    fn waits_for_others(&self, item: &Item) -> bool {
        let ahead = self.policy(item).ahead.as_ref();
        ahead.is_some_and(|ahead| self.waiting(item, &ahead.stage) >= ahead.max)
    }
}

impl Ledger for Desk {
    fn item(&self, id: ItemId) -> Result<Option<Item>, Refusal> {
        Ok(if id.tag() == self.tag { self.look(id) } else { None })
    }

    fn body(&self, item: &Item) -> Result<Body, Refusal> {
        match self.view.bodies.get(&item.id) {
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
        let mut trail = self.view.trails.get(&item.id).cloned().unwrap_or_default();
        if let Some(progress) = self.view.progress.get(&item.id) {
            trail.progress = Some(progress.clone());
        }
        Ok(trail)
    }

    fn with_key(&self, tenant: &str, queue: &str, key: &str) -> Result<Option<ItemId>, Refusal> {
        let hash = KeyHash::new(tenant, queue, key);
        if !self.view.keys.contains_key(&hash) {
            self.miss(|needs| {
                needs.keys.insert(hash);
            });
        }
        Ok(self.view.keys.get(&hash).copied().flatten())
    }

    fn kept_key(&self, tenant: &str, queue: &str, key: &str) -> Result<Option<ItemId>, Refusal> {
        let hash = KeyHash::new(tenant, queue, key);
        if !self.view.kept_keys.contains_key(&hash) {
            self.miss(|needs| {
                needs.kept_keys.insert(hash);
            });
        }
        Ok(self.view.kept_keys.get(&hash).copied().flatten())
    }

    fn successor(&self, of: ItemId) -> Option<ItemId> {
        self.look(of);
        self.view.successors.get(&of).copied()
    }

    fn tally(&self, parent: ItemId) -> Option<&Tally> {
        self.look(parent);
        self.view.tallies.get(&parent)
    }

    fn child(&self, parent: ItemId, generation: u16, ordinal: u32) -> Option<ItemId> {
        let at = (parent, generation, ordinal);
        if !self.view.children.contains_key(&at) {
            self.miss(|needs| {
                needs.children.insert(at);
            });
        }
        self.view.children.get(&at).copied().flatten()
    }

    fn children(&self, parent: ItemId, generation: u16, from: u32, limit: usize) -> Vec<ItemId> {
        let fresh = self.created_children(parent, generation, from);
        let list = List::Children { parent, generation, from };
        self.listed(list, limit, fresh, |id| !self.touched.removed.contains(&id))
    }

    fn live_children(&self, parent: ItemId, generation: u16, limit: usize) -> Vec<ItemId> {
        let fresh = self.created_children(parent, generation, 0);
        let list = List::LiveChildren { parent, generation };
        self.listed(list, limit, fresh, |id| {
            let known = self.view.items.get(&id);
            known.is_none_or(|item| item.is_some_and(|item| !item.is_done()))
        })
    }

    fn lease(&self, lease: LeaseId) -> Option<Lease> {
        if !self.view.leases.contains_key(&lease) {
            self.need_lease(lease);
        }
        self.view.leases.get(&lease)?.as_ref().map(|granted| granted.lease.clone())
    }

    fn held_by(&self, lease: LeaseId) -> Vec<ItemId> {
        self.lease(lease);
        let granted = self.view.leases.get(&lease).and_then(Option::as_ref);
        let items = granted.map(|granted| granted.items.as_slice()).unwrap_or_default();
        let holds = |id: &ItemId| self.look(*id).and_then(|item| item.lease()) == Some(lease);
        items.iter().copied().filter(holds).collect()
    }

    fn expired(&mut self, now: Timestamp, limit: usize) -> Vec<LeaseId> {
        let Some(expired) = &self.view.expired else {
            self.miss(|needs| needs.expired = Some(limit));
            return Vec::new();
        };
        let still = |id: &LeaseId| {
            let lease = self.view.leases.get(id).and_then(Option::as_ref);
            lease.is_some_and(|granted| granted.lease.expires <= now)
        };
        expired.iter().filter(|id| still(id)).copied().take(limit).collect()
    }

    fn expiring_before(&self, until: Timestamp) -> Vec<LeaseId> {
        match &self.view.expiring {
            Some((loaded, expiring)) if *loaded >= until.0 => expiring.clone(),
            _ => {
                self.miss(|needs| needs.expiring = Some(until.0));
                Vec::new()
            }
        }
    }

    fn settings(&self, queue: &str) -> &Settings {
        self.view.config.settings.get(queue).map_or(&self.plain, |settings| settings)
    }

    fn settings_of(&self, item: &Item) -> &Settings {
        let names = self.names.read();
        let queue = names.text(item.queue.0);
        let settings = queue.and_then(|queue| self.view.config.settings.get(queue));
        settings.map_or(&self.plain, |settings| settings)
    }

    fn policy(&self, item: &Item) -> &Policy {
        let policy = self.lane(item).and_then(|lane| self.policies.get(&lane));
        policy.unwrap_or(&self.plain.defaults)
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
        match self.view.live.get(queue) {
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
        let at = (item.queue.0, Arc::from(stage));
        let Some(waiting) = self.view.waiting.get(&at) else {
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
        let count = |sheet: &HashMap<ItemId, Option<Item>>| {
            let items = self.touched.items.iter().filter_map(|id| sheet.get(id)?.as_ref());
            items.filter(|item| waits(item)).count() as u64
        };
        (waiting + count(&self.view.items)).saturating_sub(count(&self.base.items))
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
        let (tenant, queue) = Ledger::names(self, item);
        let Some(route) = self.routes.get(&item.route.0) else { return false };
        let stage = &route.stage(item.stage).name;
        self.view.config.paused.iter().any(|scope| {
            scope.queue == queue
                && scope.stage.as_ref().is_none_or(|only| only == stage)
                && scope.tenant.as_ref().is_none_or(|only| *only == tenant)
        })
    }

    fn closed_until(&self, resource: &str) -> Timestamp {
        self.view.config.gates.get(resource).copied().unwrap_or(Timestamp::ZERO)
    }

    fn blob(&self, tenant: &str, blob: &BlobRef) -> Option<u32> {
        let name = (Arc::from(tenant), blob.hash, blob.len);
        match self.view.blobs.get(&name) {
            Some(known) => *known,
            None => {
                self.miss(|needs| needs.blob(tenant, blob));
                None
            }
        }
    }

    fn full(&self) -> Option<Full> {
        None
    }

    fn candidate(&mut self, claim: &Claim, now: Timestamp) -> Option<Item> {
        let filter = Filter::from(claim);
        let offered = self.offered(&filter, now);
        let Some(chosen) = self.turns.choose(&offered) else {
            let offer = self.view.offers.get(&filter);
            if offer.is_none_or(|offer| offer.more) {
                let asked = offer.map_or(0, |offer| offer.asked);
                self.miss(|needs| {
                    needs.offers.insert(filter, claim.max.max(asked * 2));
                });
            }
            return None;
        };
        self.view.items.get(&chosen.id).copied().flatten()
    }

    fn set_aside(&mut self, item: &Item) {
        self.aside.insert(item.id);
        self.look_further(item.id);
        let busy = self.members(item).is_some_and(|members| members.busy);
        let policy = self.policy(item);
        let limit = if policy.ordered { Some(1) } else { policy.group_limit };
        let full = limit.is_some_and(|limit| self.group_load(item) >= limit);
        let late = policy.ordered && self.group_ahead(item).is_some();
        if item.group.is_some() && !busy && (full || late) {
            self.touched.parked.insert(item.id);
        }
    }

    fn put_back(&mut self, _item: &Item) {}

    fn ending(&self, limit: usize) -> Vec<Ending> {
        let cancelling = |item: &Item| item.has(Marks::CANCELLING) && !item.is_done();
        let touched = self.touched.items.iter().filter_map(|id| self.view.items.get(id)?.as_ref());
        let fresh = touched.filter(|item| cancelling(item));
        let mut all: BTreeSet<(ItemId, u16)> =
            fresh.map(|item| (item.id, item.generation)).collect();
        let Some(listed) = self.view.lists.get(&List::Ending) else {
            self.miss(|needs| needs.at_least(List::Ending, limit));
            return Vec::new();
        };
        for (generation, id) in &listed.items {
            let of = (*id, *generation as u16);
            let over = self.touched.orphans.get(&of) == Some(&false);
            let known = self.view.items.get(id).copied().flatten();
            let ended = known.is_some_and(|item| !cancelling(&item) && item.generation == of.1);
            if !over && !ended {
                all.insert(of);
            }
        }
        all.extend(self.touched.orphans.iter().filter(|(_, is)| **is).map(|(of, _)| *of));
        let newest_first = all.into_iter().rev().take(limit);
        newest_first.map(|(parent, generation)| Ending { parent, generation }).collect()
    }

    fn foldable(&self, _now: Timestamp, limit: usize) -> Vec<ItemId> {
        let gone = |id| self.touched.folded.contains(&id) || self.touched.removed.contains(&id);
        self.listed(List::Foldable, limit, std::iter::empty(), |id| !gone(id))
    }

    fn overdue(&self, _now: Timestamp, limit: usize) -> Vec<ItemId> {
        let gone = |id| self.touched.removed.contains(&id);
        self.listed(List::Overdue, limit, std::iter::empty(), |id| !gone(id))
    }

    fn remembered(&self, request: RequestId) -> Result<Option<(u64, Answer)>, Refusal> {
        match self.view.requests.get(&request) {
            Some(known) => Ok(known.clone()),
            None => {
                self.miss(|needs| {
                    needs.requests.insert(request);
                });
                Ok(None)
            }
        }
    }

    fn next_id(&mut self, now: Timestamp) -> ItemId {
        self.new_id(now)
    }

    fn next_lease(&mut self) -> LeaseId {
        self.aside.clear();
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
    wanted(&filter.queues, lane.queue)
        && wanted(&filter.stages, lane.stage)
        && wanted(&filter.kinds, lane.kind)
}
