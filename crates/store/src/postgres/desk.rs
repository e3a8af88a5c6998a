//! The desk: what lies ready while a batch is decided.
//!
//! The rules read and write here, without waiting. What they ask for and is not here is noted; then
//! the batch is loaded further and decided again from the start, which is safe because deciding is
//! pure. What came of it is written back by `save/`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rand::rngs::StdRng;
use windrow_core::change::{Created, Lease};
use windrow_core::command::Scope;
use windrow_core::id::{IdSource, StoreTag};
use windrow_core::invariants::check_step;
use windrow_core::item::{GroupNo, KindNo, Marks, QueueNo, RouteNo, TenantNo};
use windrow_core::ports::Happened;
use windrow_core::route::Route;
use windrow_core::settings::{Policy, Settings};
use windrow_core::tally::Tally;
use windrow_core::trail::{Progress, Trail};
use windrow_core::transitions::Event;
use windrow_core::{
    Answer, Body, Change, Item, ItemId, LeaseId, RequestId, State as Doing, Timestamp,
};

use super::key::KeyHash;
use super::names::Names;
use super::needs::{Filter, GroupKey, List, Needs};
use super::turns::{LaneName, Turns};

/// Everything that was loaded, or what became of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Sheet {
    pub(super) items: HashMap<ItemId, Option<Item>>,
    pub(super) bodies: HashMap<ItemId, Body>,
    pub(super) trails: HashMap<ItemId, Trail>,
    pub(super) tallies: HashMap<ItemId, Tally>,
    pub(super) successors: HashMap<ItemId, ItemId>,
    pub(super) progress: HashMap<ItemId, Progress>,
    pub(super) keys: HashMap<KeyHash, Option<ItemId>>,
    pub(super) kept_keys: HashMap<KeyHash, Option<ItemId>>,
    pub(super) children: HashMap<(ItemId, u16, u32), Option<ItemId>>,
    pub(super) leases: HashMap<LeaseId, Option<Granted>>,
    pub(super) expired: Option<Vec<LeaseId>>,
    pub(super) expiring: Option<(u64, Vec<LeaseId>)>,
    pub(super) lists: HashMap<List, Listed>,
    pub(super) offers: HashMap<Filter, Offer>,
    pub(super) groups: HashMap<GroupKey, Members>,
    pub(super) blobs: HashMap<(Arc<str>, [u8; 32], u64), Option<u32>>,
    pub(super) requests: HashMap<RequestId, Option<(u64, Answer)>>,
    pub(super) live: HashMap<Arc<str>, u64>,
    pub(super) waiting: HashMap<(u32, Arc<str>), u64>,
    pub(super) folded: HashSet<ItemId>,
    pub(super) config: Config,
}

/// A lease, and what it still holds.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Granted {
    pub(super) lease: Lease,
    pub(super) items: Vec<ItemId>,
}

/// The beginning of a list, with what it is sorted by, and how much was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    pub(super) items: Vec<(u32, ItemId)>,
    pub(super) asked: usize,
}

/// What the database offers to a claim.
#[derive(Clone, Debug, Default)]
pub(super) struct Offer {
    pub(super) items: Vec<ItemId>,
    pub(super) asked: usize,
    /// Whether there may be more in line.
    pub(super) more: bool,
}

/// Who of a group is in a stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    pub(super) leased: BTreeSet<ItemId>,
    /// Live ones, where the order matters.
    pub(super) live: BTreeSet<ItemId>,
    /// Another server is at it.
    pub(super) busy: bool,
}

/// Settings, pauses, gates and lanes. Small, and every server has them whole.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    pub(super) version: i64,
    pub(super) settings: HashMap<Arc<str>, Arc<Settings>>,
    pub(super) paused: BTreeSet<Scope>,
    pub(super) gates: BTreeMap<Arc<str>, Timestamp>,
    /// Every lane that an item was ever in.
    pub(super) lanes: BTreeSet<LaneName>,
}

/// What a batch changed, so that only that is written.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub(super) items: BTreeSet<ItemId>,
    pub(super) bodies: BTreeSet<ItemId>,
    pub(super) trails: BTreeSet<ItemId>,
    pub(super) tallies: BTreeSet<ItemId>,
    pub(super) successors: BTreeSet<ItemId>,
    pub(super) progress: BTreeSet<ItemId>,
    pub(super) leases: BTreeSet<LeaseId>,
    pub(super) blobs: BTreeSet<(Arc<str>, [u8; 32], u64)>,
    pub(super) requests: BTreeMap<RequestId, (u64, Answer)>,
    pub(super) orphans: BTreeMap<(ItemId, u16), bool>,
    pub(super) removed: BTreeSet<ItemId>,
    pub(super) folded: BTreeSet<ItemId>,
    pub(super) created: Vec<ItemId>,
    /// Queues whose settings changed.
    pub(super) settings: BTreeSet<Arc<str>>,
    pub(super) paused: BTreeMap<Scope, bool>,
    pub(super) gates: BTreeSet<Arc<str>>,
    /// Groups that may have room now.
    pub(super) freed: BTreeSet<GroupKey>,
    /// Candidates of groups without room.
    pub(super) parked: BTreeSet<ItemId>,
    pub(super) happened: Vec<Happened>,
}

/// What lies ready, what became of it, and what is missing.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) now: Timestamp,
    pub(super) base: Sheet,
    pub(super) view: Sheet,
    pub(super) touched: Touched,
    pub(super) missing: Mutex<Needs>,
    pub(super) names: Arc<RwLock<Names>>,
    pub(super) routes: HashMap<u32, Arc<Route>>,
    pub(super) policies: HashMap<LaneName, Policy>,
    pub(super) groups: HashMap<u32, (u32, Arc<str>)>,
    pub(super) plain: Settings,
    pub(super) turns: Turns,
    pub(super) ids: Arc<Mutex<IdSource>>,
    /// Ids that this batch was given, and how many of them it has used.
    pub(super) given: Vec<ItemId>,
    pub(super) used: usize,
    pub(super) aside: HashSet<ItemId>,
    pub(super) tag: StoreTag,
    pub(super) random: StdRng,
}

impl Desk {
    pub(super) fn id(&self, serial: i64) -> ItemId {
        ItemId::from_serial(serial as u64, self.tag)
    }

    /// Begins to decide, from what was loaded.
    pub(super) fn begin(&mut self, turns: &Turns) {
        self.view = self.base.clone();
        self.touched = Touched::default();
        self.missing = Mutex::default();
        self.turns = turns.clone();
        self.aside.clear();
        self.used = 0;
        self.resolve_all();
    }

    /// The next id. A batch that is decided again gets the same ones.
    pub(super) fn new_id(&mut self, now: Timestamp) -> ItemId {
        if self.used == self.given.len() {
            self.given.push(self.ids.lock().next(now));
        }
        self.used += 1;
        self.given[self.used - 1]
    }

    /// Gives back the ids that were not used after all, if nobody got one since.
    pub(super) fn return_ids(&mut self) {
        let unused = self.given.split_off(self.used);
        let mut ids = self.ids.lock();
        unused.iter().rev().for_each(|id| ids.take_back(id.serial()));
    }

    /// The number of a group: made from its name, so that it is the same on every desk, unless two
    /// that are on this one happen to share it.
    pub(super) fn group_number(&mut self, tenant: u32, name: &Arc<str>) -> GroupNo {
        let mut no = KeyHash::new("", &tenant.to_string(), name).0 as u32;
        loop {
            let known = self.groups.entry(no).or_insert_with(|| (tenant, Arc::clone(name)));
            if *known == (tenant, Arc::clone(name)) {
                return GroupNo(no);
            }
            no = no.wrapping_add(1);
        }
    }

    pub(super) fn group_name(&self, group: GroupNo) -> Option<&Arc<str>> {
        self.groups.get(&group.0).map(|(_, name)| name)
    }

    /// Keeps the route of an item at hand, and the policies of the lanes that it may pass.
    pub(super) fn know_route(&mut self, queue: u32, kind: u32, no: u32) {
        let names = Arc::clone(&self.names);
        let names = names.read();
        if !self.routes.contains_key(&no)
            && let Some(route) = names.route(no)
        {
            self.routes.insert(no, Arc::clone(route));
        }
        let Some(route) = self.routes.get(&no) else { return };
        for stage in &route.stages {
            let Some(stage_no) = names.find(&stage.name) else { continue };
            let lane = LaneName { queue, stage: stage_no, kind };
            if !self.policies.contains_key(&lane)
                && let Some(policy) = resolve(&names, &self.view.config, lane)
            {
                self.policies.insert(lane, policy);
            }
        }
    }

    /// Works out all known policies anew, after settings changed.
    pub(super) fn resolve_all(&mut self) {
        let names = Arc::clone(&self.names);
        let names = names.read();
        for (lane, policy) in &mut self.policies {
            if let Some(new) = resolve(&names, &self.view.config, *lane) {
                *policy = new;
            }
        }
    }

    pub(super) fn stage_no(&self, item: &Item) -> Option<u32> {
        let stage = &self.routes.get(&item.route.0)?.stage(item.stage).name;
        self.names.read().find(stage)
    }

    pub(super) fn lane(&self, item: &Item) -> Option<LaneName> {
        Some(LaneName { queue: item.queue.0, stage: self.stage_no(item)?, kind: item.kind.0 })
    }

    pub(super) fn group_key(&self, item: &Item) -> Option<GroupKey> {
        let group = Arc::clone(self.group_name(item.group?)?);
        let stage = self.stage_no(item)?;
        Some(GroupKey { queue: item.queue.0, stage, tenant: item.tenant.0, group })
    }

    /// Whether a policy limits the group that an item is in.
    pub(super) fn is_limited(&self, item: &Item) -> bool {
        let policy = self.lane(item).and_then(|lane| self.policies.get(&lane));
        item.group.is_some() && policy.is_some_and(|p| p.ordered || p.group_limit.is_some())
    }

    /// Priority, and above it due retries where the policy says so.
    pub(super) fn class(&self, item: &Item) -> u8 {
        let policy = self.lane(item).and_then(|lane| self.policies.get(&lane));
        let first = policy.is_some_and(|p| p.retry_first) && item.has(Marks::RETRYING);
        item.priority * 2 + u8::from(first)
    }

    pub(super) fn take(&mut self, change: Change, now: Timestamp) {
        match change {
            Change::Create(created) => self.create(*created, now),
            Change::Item { item, event } => self.step(item, event, now),
            Change::Body { id, body } => {
                self.touched.bodies.insert(id);
                self.view.bodies.insert(id, *body);
            }
            Change::Trail { id, trail } => {
                self.touched.trails.insert(id);
                self.touched.progress.insert(id);
                self.view.progress.remove(&id);
                self.view.trails.insert(id, *trail);
            }
            Change::Tally { id, tally } => {
                self.touched.tallies.insert(id);
                self.view.tallies.insert(id, *tally);
            }
            Change::Successor { of, is } => {
                self.touched.successors.insert(of);
                put(&mut self.view.successors, of, is);
            }
            Change::Orphan { parent, generation, over } => {
                self.touched.orphans.insert((parent, generation), !over);
            }
            Change::Lease(lease) => self.lease_begins(lease),
            Change::Progress { id, progress } => {
                self.touched.progress.insert(id);
                self.view.progress.insert(id, progress);
            }
            Change::Remove { id } => self.remove(id),
            Change::Fold { root } => {
                self.touched.folded.insert(root);
                self.view.folded.insert(root);
            }
            Change::Paused { scope, paused } => {
                if paused {
                    self.view.config.paused.insert(scope.clone());
                } else {
                    self.view.config.paused.remove(&scope);
                }
                self.touched.paused.insert(scope, paused);
            }
            Change::Settings { queue, settings } => {
                self.view.config.settings.insert(Arc::clone(&queue), Arc::new(*settings));
                self.touched.settings.insert(queue);
                self.resolve_all();
            }
            Change::Gate { resource, closed_until } => {
                self.view.config.gates.insert(Arc::clone(&resource), closed_until);
                self.touched.gates.insert(resource);
            }
            Change::Blob { tenant, blob, references } => {
                let name = (tenant, blob.hash, blob.len);
                let was_used = self.view.blobs.get(&name).copied().flatten().is_some_and(|n| n > 0);
                let is = Some(references).filter(|n| *n > 0 || !was_used);
                self.touched.blobs.insert(name.clone());
                self.view.blobs.insert(name, is);
            }
            Change::Answered { request, fingerprint, answer } => {
                self.view.requests.insert(request, Some((fingerprint, (*answer).clone())));
                self.touched.requests.insert(request, (fingerprint, *answer));
            }
        }
    }

    fn lease_begins(&mut self, lease: Lease) {
        self.touched.leases.insert(lease.id);
        let known = self.view.leases.entry(lease.id).or_default();
        match known {
            Some(granted) => granted.lease = lease,
            None => {
                let held = |(id, item): (&ItemId, &Option<Item>)| {
                    let leased = item.as_ref().and_then(Item::lease) == Some(lease.id);
                    leased.then_some(*id)
                };
                let mut items: Vec<ItemId> = self.view.items.iter().filter_map(held).collect();
                items.sort_unstable();
                *known = Some(Granted { lease, items });
            }
        }
    }

    fn create(&mut self, created: Created, now: Timestamp) {
        let marks = created.marks();
        let Created { id, body, priority, state, stage, place, trail } = created;
        let number = |text: &str| self.names.read().find(text);
        let numbers = (number(&body.queue), number(&body.tenant), number(&body.kind));
        let route = self.names.read().find_route(&body.route);
        let (Some(queue), Some(tenant), Some(kind), Some(route)) =
            (numbers.0, numbers.1, numbers.2, route)
        else {
            unreachable!("names are numbered before a batch is decided");
        };
        self.know_route(queue, kind, route);
        let group = body.group.as_ref().map(|group| self.group_number(tenant, group));
        let item = Item {
            id,
            queue: QueueNo(queue),
            tenant: TenantNo(tenant),
            kind: KindNo(kind),
            group,
            route: RouteNo(route),
            priority,
            stage,
            state,
            attempts: 0,
            deferrals: 0,
            generation: 0,
            skipped: 0,
            place,
            marks,
        };
        if let Some(place) = place {
            let at = (place.parent, place.generation, place.ordinal);
            self.view.children.insert(at, Some(id));
        }
        if let Some(trail) = trail {
            self.touched.trails.insert(id);
            self.view.trails.insert(id, *trail);
        }
        if let Some(key) = body.key.as_deref()
            && !matches!(state, Doing::Held { .. })
        {
            self.view.keys.insert(KeyHash::new(&body.tenant, &body.queue, key), Some(id));
        }
        if let Some(live) = self.view.live.get_mut(&body.queue) {
            *live += 1;
        }
        self.view.bodies.insert(id, body);
        self.touched.bodies.insert(id);
        self.touched.created.push(id);
        self.touched.items.insert(id);
        self.view.items.insert(id, Some(item));
        self.regroup(None, Some(&item));
        self.note(&item, None, now);
    }

    fn step(&mut self, after: Item, event: Event, now: Timestamp) {
        let Some(before) = self.view.items.get(&after.id).copied().flatten() else { return };
        check_step(&before, &after, event);
        if event == Event::Claim
            && let Some(lane) = self.lane(&before)
        {
            self.turns.handed_out(lane, self.class(&before), before.tenant.0);
        }
        self.touched.items.insert(after.id);
        self.view.items.insert(after.id, Some(after));
        if before.is_done() {
            self.view.folded.remove(&after.id);
        }
        if !after.has(Marks::TRAIL) && before.has(Marks::TRAIL) {
            self.touched.trails.insert(after.id);
            self.view.trails.remove(&after.id);
        }
        if !after.has(Marks::PARENT) && self.view.tallies.remove(&after.id).is_some() {
            self.touched.tallies.insert(after.id);
        }
        self.rekey(&before, &after);
        self.regroup(Some(&before), Some(&after));
        if let Some(lease) = before.lease().filter(|lease| after.lease() != Some(*lease)) {
            self.leave_lease(lease, after.id);
        }
        self.note(&after, Some(event), now);
    }

    /// Keeps who holds a key right, as an item ends, comes back or comes out from behind another.
    fn rekey(&mut self, before: &Item, after: &Item) {
        let holds = |item: &Item| !item.is_done() && !matches!(item.state, Doing::Held { .. });
        if !before.has(Marks::KEYED) || holds(before) == holds(after) {
            return;
        }
        let Some(body) = self.view.bodies.get(&after.id) else {
            // Only what is known to be on the desk can be asked for by key again.
            let (of, is) = (after.id, holds(after));
            self.view.keys.values_mut().filter(|known| **known == Some(of) && !is).for_each(|k| {
                *k = None;
            });
            return;
        };
        let Some(key) = body.key.as_deref() else { return };
        let hash = KeyHash::new(&body.tenant, &body.queue, key);
        if holds(after) {
            self.view.keys.insert(hash, Some(after.id));
        } else if self.view.keys.get(&hash) == Some(&Some(after.id)) {
            self.view.keys.insert(hash, None);
        }
    }

    /// Keeps who of a group is in a stage, and notes where there may be room now.
    fn regroup(&mut self, before: Option<&Item>, after: Option<&Item>) {
        if before.or(after).is_none_or(|item| item.group.is_none()) {
            return;
        }
        let was = before.filter(|item| !item.is_done());
        let is = after.filter(|item| !item.is_done());
        let was_key = was.and_then(|item| self.group_key(item));
        let is_key = is.and_then(|item| self.group_key(item));
        if let (Some(item), Some(key)) = (was, &was_key) {
            let moved = is_key.as_ref() != Some(key);
            let released = item.lease().is_some() && is.and_then(Item::lease) != item.lease();
            if let Some(members) = self.view.groups.get_mut(key) {
                members.leased.remove(&item.id);
                members.live.remove(&item.id);
            }
            if moved || released {
                self.touched.freed.insert(key.clone());
            }
        }
        if let (Some(item), Some(key)) = (is, is_key)
            && let Some(members) = self.view.groups.get_mut(&key)
        {
            members.live.insert(item.id);
            if item.lease().is_some() {
                members.leased.insert(item.id);
            }
        }
    }

    /// A lease ends with the last item that it holds.
    fn leave_lease(&mut self, lease: LeaseId, id: ItemId) {
        self.touched.leases.insert(lease);
        let Some(known) = self.view.leases.get_mut(&lease) else { return self.need_lease(lease) };
        if let Some(granted) = known {
            granted.items.retain(|held| *held != id);
            if granted.items.is_empty() {
                *known = None;
            }
        }
    }

    fn remove(&mut self, id: ItemId) {
        self.touched.removed.insert(id);
        self.touched.items.insert(id);
        if let Some(place) = self.view.items.get(&id).copied().flatten().and_then(|i| i.place) {
            self.view.children.insert((place.parent, place.generation, place.ordinal), None);
        }
        self.view.items.insert(id, None);
        self.view.kept_keys.values_mut().filter(|k| **k == Some(id)).for_each(|k| *k = None);
    }

    fn note(&mut self, item: &Item, event: Option<Event>, at: Timestamp) {
        let names = self.names.read();
        let (Some(queue), Some(tenant)) = (names.text(item.queue.0), names.text(item.tenant.0))
        else {
            return;
        };
        let (queue, tenant) = (Arc::clone(queue), Arc::clone(tenant));
        drop(names);
        let (id, stage, status) = (item.id, item.stage, item.status());
        self.touched.happened.push(Happened { id, at, queue, tenant, stage, status, event });
    }
}

fn resolve(names: &Names, config: &Config, lane: LaneName) -> Option<Policy> {
    let (queue, stage) = (names.text(lane.queue)?, names.text(lane.stage)?);
    let kind = names.text(lane.kind)?;
    Some(match config.settings.get(queue) {
        Some(settings) => settings.policy(stage, kind),
        None => Settings::default().policy(stage, kind),
    })
}

/// Sets or clears an entry.
fn put<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}
