//! The desk: what lies ready while a batch is decided.
//!
//! The rules read and write here, without waiting. What they ask for and is not here is noted; then
//! the batch is loaded further and decided again from the start, which is safe because deciding is
//! pure. What came of it is written back by `save/`.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, RwLock};
use rand::rngs::StdRng;
use windrow_core::change::{Created, Lease};
use windrow_core::id::{IdSource, StoreTag};
use windrow_core::invariants::check_step;
use windrow_core::item::{GroupNo, KindNo, Marks, QueueNo, RouteNo, TenantNo};
use windrow_core::ports::Happened;
use windrow_core::resource::Resource;
use windrow_core::route::Route;
use windrow_core::settings::{Policy, Settings, Unique};
use windrow_core::tally::Tally;
use windrow_core::trail::{Progress, Trail};
use windrow_core::transitions::Event;
use windrow_core::{
    Answer, Body, Change, Item, ItemId, LeaseId, RequestId, State as Doing, Timestamp,
};

use super::config::Config;
use super::decided::Decided;
use super::layer::Layer;
use super::line::{Line, Spot, Turns};
use super::loaded::{Claiming, Granted, Listed, Members, Noted, Offer};
use super::names::{LaneName, Names};
use super::needs::{Blob, Filter, GroupKey, Key, List, Needs, NoteName};
use super::seats::Ask;
use super::tx::Tid;

/// What lies ready, over it what was decided, and what is missing.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) now: Timestamp,
    pub(super) items: Layer<ItemId, Item>,
    /// The keys of items.
    pub(super) keyed: Layer<ItemId, Arc<str>>,
    pub(super) bodies: Layer<ItemId, Body>,
    pub(super) trails: Layer<ItemId, Trail>,
    pub(super) tallies: Layer<ItemId, Tally>,
    pub(super) successors: Layer<ItemId, ItemId>,
    pub(super) progress: Layer<ItemId, Progress>,
    pub(super) keys: Layer<Key, ItemId>,
    pub(super) kept_keys: Layer<Key, ItemId>,
    pub(super) children: Layer<(ItemId, u16, u32), ItemId>,
    pub(super) leases: Layer<LeaseId, Granted>,
    pub(super) groups: Layer<GroupKey, Members>,
    pub(super) blobs: Layer<Blob, u32>,
    pub(super) notes: Layer<NoteName, Noted>,
    pub(super) resources: Layer<Arc<str>, Resource>,
    pub(super) requests: Layer<RequestId, (u64, Answer)>,
    /// Live items of queues.
    pub(super) live: Layer<Arc<str>, u64>,
    pub(super) waiting: HashMap<(u32, Arc<str>), u64>,
    pub(super) expired: Option<Vec<LeaseId>>,
    pub(super) expiring: Option<(u64, Vec<LeaseId>)>,
    pub(super) lists: HashMap<List, Listed>,
    /// Items whose time came with this batch.
    pub(super) due: Vec<(Spot, ItemId)>,
    pub(super) offers: HashMap<Filter, Offer>,
    /// The rows of candidates in line, which are locked.
    pub(super) places: HashMap<ItemId, Tid>,
    /// Items that were not read: while their lease is as it was, so are they.
    pub(super) trusted: HashMap<LeaseId, Vec<ItemId>>,
    /// What was asked of seats, and who was found there.
    pub(super) asked: Vec<(Ask, BTreeSet<ItemId>)>,
    pub(super) loaded_folded: HashSet<ItemId>,
    pub(super) config: Arc<Config>,
    pub(super) decided: Decided,
    pub(super) missing: Mutex<Needs>,
    /// Lanes that must get numbers before this can be decided.
    pub(super) unnumbered: BTreeSet<LaneName>,
    /// Deliveries are wanted, and this server does not know what they are called.
    pub(super) unnamed: bool,
    pub(super) line: Line,
    pub(super) turns: Turns,
    /// The claim that is being decided.
    pub(super) claiming: Option<Claiming>,
    /// Candidates that this claim does not get.
    pub(super) aside: Vec<(ItemId, Option<Spot>)>,
    pub(super) names: Arc<RwLock<Names>>,
    pub(super) routes: HashMap<u32, Arc<Route>>,
    /// The lane of a queue's items of a kind on a stage of a route.
    lanes: HashMap<(u32, u32, u32, u8), u32>,
    pub(super) group_names: HashMap<u32, (u32, Arc<str>)>,
    pub(super) plain: Settings,
    pub(super) ids: Arc<Mutex<IdSource>>,
    /// Ids that this batch was given, and how many of them it has used.
    pub(super) given: Vec<ItemId>,
    pub(super) used: usize,
    pub(super) tag: StoreTag,
    pub(super) random: StdRng,
}

/// What a desk is made for.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) now: Timestamp,
    pub(super) config: Arc<Config>,
    pub(super) turns: Turns,
    pub(super) names: Arc<RwLock<Names>>,
    pub(super) ids: Arc<Mutex<IdSource>>,
    pub(super) tag: StoreTag,
}

impl Desk {
    /// An empty desk.
    pub(super) fn new(setting: Setting) -> Desk {
        let Setting { now, config, turns, names, ids, tag } = setting;
        Desk {
            now,
            items: Layer::default(),
            keyed: Layer::default(),
            bodies: Layer::default(),
            trails: Layer::default(),
            tallies: Layer::default(),
            successors: Layer::default(),
            progress: Layer::default(),
            keys: Layer::default(),
            kept_keys: Layer::default(),
            children: Layer::default(),
            leases: Layer::default(),
            groups: Layer::default(),
            blobs: Layer::default(),
            notes: Layer::default(),
            resources: Layer::default(),
            requests: Layer::default(),
            live: Layer::default(),
            waiting: HashMap::new(),
            expired: None,
            expiring: None,
            lists: HashMap::new(),
            due: Vec::new(),
            offers: HashMap::new(),
            places: HashMap::new(),
            trusted: HashMap::new(),
            asked: Vec::new(),
            loaded_folded: HashSet::new(),
            config,
            decided: Decided::default(),
            missing: Mutex::default(),
            unnumbered: BTreeSet::new(),
            unnamed: false,
            line: Line::default(),
            turns,
            claiming: None,
            aside: Vec::new(),
            names,
            routes: HashMap::new(),
            lanes: HashMap::new(),
            group_names: HashMap::new(),
            plain: Settings::default(),
            ids,
            given: Vec::new(),
            used: 0,
            tag,
            random: rand::make_rng(),
        }
    }

    pub(super) fn id(&self, serial: i64) -> ItemId {
        ItemId::from_serial(serial as u64, self.tag)
    }

    /// Begins to decide, from what was loaded.
    pub(super) fn begin(&mut self, turns: &Turns) {
        self.items.begin();
        self.keyed.begin();
        self.bodies.begin();
        self.trails.begin();
        self.tallies.begin();
        self.successors.begin();
        self.progress.begin();
        self.keys.begin();
        self.kept_keys.begin();
        self.children.begin();
        self.leases.begin();
        self.groups.begin();
        self.blobs.begin();
        self.notes.begin();
        self.resources.begin();
        self.requests.begin();
        self.live.begin();
        self.decided = Decided::default();
        self.missing = Mutex::default();
        self.turns = turns.clone();
        self.aside.clear();
        self.claiming = None;
        self.used = 0;
        self.line.clear();
        let offered: Vec<ItemId> =
            self.offers.values().flat_map(|offer| offer.items.iter().copied()).collect();
        offered.into_iter().for_each(|id| self.line_up(id));
    }

    /// Settings, pauses and gates as they are now.
    pub(super) fn config(&self) -> &Config {
        self.decided.config.as_ref().unwrap_or(&self.config)
    }

    pub(super) fn change_config(&mut self, change: impl FnOnce(&mut Config)) {
        let config = self.decided.config.get_or_insert_with(|| Arc::clone(&self.config));
        change(Arc::make_mut(config));
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
        let mut no = crc32fast::hash(name.as_bytes()) ^ tenant.rotate_left(16);
        loop {
            let known = self.group_names.entry(no).or_insert_with(|| (tenant, Arc::clone(name)));
            if known.0 == tenant && known.1 == *name {
                return GroupNo(no);
            }
            no = no.wrapping_add(1);
        }
    }

    pub(super) fn group_name(&self, group: GroupNo) -> Option<&Arc<str>> {
        self.group_names.get(&group.0).map(|(_, name)| name)
    }

    /// Keeps the route of an item at hand, and the lanes that it may pass.
    pub(super) fn know_route(&mut self, queue: u32, kind: u32, no: u32) {
        if self.lanes.contains_key(&(queue, kind, no, 0)) {
            return;
        }
        let names = self.names.read();
        let Some(route) = names.route(no) else { return };
        for (at, stage) in route.stages.iter().enumerate() {
            let Some(stage) = names.find(&stage.name) else { continue };
            match names.find_lane(LaneName { queue, stage, kind }) {
                Some(lane) => {
                    self.lanes.insert((queue, kind, no, at as u8), lane);
                }
                None => {
                    self.missing.lock().lanes.insert(LaneName { queue, stage, kind });
                }
            }
        }
        self.routes.entry(no).or_insert_with(|| Arc::clone(route));
    }

    /// The lane that an item is in.
    pub(super) fn lane(&self, item: &Item) -> Option<u32> {
        self.lanes.get(&(item.queue.0, item.kind.0, item.route.0, item.stage)).copied()
    }

    pub(super) fn policy_of(&self, item: &Item) -> Option<&Policy> {
        self.config().lanes.get(&self.lane(item)?).map(|lane| &lane.policy)
    }

    /// Whether ended items of a queue block their key.
    pub(super) fn keeps_keys(&self, queue: u32) -> bool {
        let names = self.names.read();
        let settings = names.text(queue).and_then(|name| self.config().settings.get(name));
        settings.is_some_and(|settings| settings.unique == Unique::Retained)
    }

    pub(super) fn group_key(&self, item: &Item) -> Option<GroupKey> {
        let group = Arc::clone(self.group_name(item.group?)?);
        let stage = self.config().lanes.get(&self.lane(item)?)?.name.stage;
        Some(GroupKey { queue: item.queue.0, stage, tenant: item.tenant.0, group })
    }

    /// Whether a policy limits the group that an item is in.
    pub(super) fn is_limited(&self, item: &Item) -> bool {
        let limits = |policy: &Policy| policy.ordered || policy.group_limit.is_some();
        item.group.is_some() && self.policy_of(item).is_some_and(limits)
    }

    /// Where an item stands in line, if it waits and its time has come.
    pub(super) fn spot(&self, item: &Item) -> Option<Spot> {
        let Doing::Pending { not_before } = item.state else { return None };
        if not_before > self.now || item.has(Marks::QUARANTINED) {
            return None;
        }
        let (lane, class) = (self.lane(item)?, self.class(item));
        Some(Spot { lane, class, tenant: item.tenant.0 })
    }

    /// Twice the priority, and one more for due retries where the policy puts them first.
    pub(super) fn class(&self, item: &Item) -> u8 {
        let first = item.has(Marks::RETRYING)
            && self.policy_of(item).is_some_and(|policy| policy.retry_first);
        item.priority * 2 + u8::from(first)
    }

    /// Puts an item in line, or takes it out, as it is now.
    fn line_up(&mut self, id: ItemId) {
        match self.items.get(&id).and_then(|item| self.spot(item)) {
            Some(spot) => self.line.put(id, spot),
            None => {
                self.line.take(id);
            }
        }
    }

    pub(super) fn take(&mut self, change: Change, now: Timestamp) {
        match change {
            Change::Create(created) => self.create(*created, now),
            Change::Item { item, event } => self.step(item, event, now),
            Change::Body { id, body } => self.bodies.set(id, Some(*body)),
            Change::Trail { id, trail } => {
                if self.progress.get(&id).is_some() {
                    self.progress.set(id, None);
                }
                self.trails.set(id, Some(*trail));
            }
            Change::Tally { id, tally } => self.tallies.set(id, Some(*tally)),
            Change::Successor { of, is } => self.successors.set(of, is),
            Change::Orphan { parent, generation, over } => {
                self.decided.orphans.insert((parent, generation), !over);
            }
            Change::Lease(lease) => self.lease_begins(lease),
            Change::Progress { id, progress } => {
                self.progress.set(id, Some(progress));
                if let Some(lease) = self.items.get(&id).and_then(Item::lease) {
                    self.holds_another(lease);
                }
            }
            Change::Remove { id } => self.remove(id),
            Change::Fold { root } => {
                self.decided.folded.insert(root, true);
            }
            Change::Paused { scope, paused } => {
                self.change_config(|config| {
                    if paused {
                        config.paused.insert(scope.clone());
                    } else {
                        config.paused.remove(&scope);
                    }
                });
                self.decided.paused.insert(scope, paused);
            }
            Change::Settings { queue, settings } => {
                let names = Arc::clone(&self.names);
                self.change_config(|config| {
                    config.settings.insert(Arc::clone(&queue), Arc::new(*settings));
                    config.resolve(&names.read());
                });
                self.decided.settings.insert(queue);
            }
            Change::Gate { resource, state } => self.know_resource(resource, state),
            Change::Note { shelf, name, version, body } => {
                let noted = |body| Noted { version, body: Some(body) };
                self.notes.set((shelf, name), body.map(noted));
            }
            Change::Blob { tenant, blob, references } => {
                self.blobs.set((tenant, blob.hash, blob.len), references);
            }
            Change::Answered { request, fingerprint, answer } => {
                self.requests.set(request, Some((fingerprint, *answer)));
            }
        }
    }

    fn lease_begins(&mut self, lease: Lease) {
        let id = lease.id;
        if let Some(granted) = self.leases.get_mut(&id) {
            granted.lease = lease;
            return;
        }
        let held = self
            .items
            .decided()
            .filter_map(|(of, item)| (item.and_then(Item::lease) == Some(id)).then_some(*of));
        let mut items: Vec<ItemId> = held.collect();
        items.sort_unstable();
        self.leases.set(id, Some(Granted { lease, items, is_changed: false }));
    }

    fn create(&mut self, created: Created, now: Timestamp) {
        let marks = created.marks();
        let Created { id, body, priority, state, stage, place, trail } = created;
        let (numbers, route) = {
            let names = self.names.read();
            let numbers = [&body.queue, &body.tenant, &body.kind].map(|text| names.find(text));
            (numbers, names.find_route(&body.route))
        };
        let ([Some(queue), Some(tenant), Some(kind)], Some(route)) = (numbers, route) else {
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
            self.children.set((place.parent, place.generation, place.ordinal), Some(id));
        }
        if let Some(trail) = trail {
            self.trails.set(id, Some(*trail));
        }
        if let Some(key) = body.key.as_deref() {
            let key: Arc<str> = key.into();
            if !matches!(state, Doing::Held { .. }) {
                self.keys.set(Key { queue, tenant, key: Arc::clone(&key) }, Some(id));
            }
            self.keyed.set(id, Some(key));
        }
        if let Some(live) = self.live.get_mut(&body.queue) {
            *live += 1;
        }
        self.bodies.set(id, Some(body));
        self.decided.created.push(id);
        self.items.set(id, Some(item));
        self.line_up(id);
        self.regroup(None, Some(&item));
        self.note((&item, None), &item, None, now);
    }

    fn step(&mut self, after: Item, event: Event, now: Timestamp) {
        let Some(before) = self.items.get(&after.id).copied() else { return };
        check_step(&before, &after, event);
        if event == Event::Claim
            && let Some(lane) = self.lane(&before)
        {
            let (class, tenant) = (self.class(&before), before.tenant.0);
            self.turns.handed_out(Spot { lane, class, tenant });
        }
        self.items.set(after.id, Some(after));
        self.line_up(after.id);
        if before.is_done() && self.loaded_folded.contains(&after.id) {
            self.decided.folded.insert(after.id, false);
        }
        if !after.has(Marks::TRAIL) && before.has(Marks::TRAIL) {
            self.trails.set(after.id, None);
        }
        if !after.has(Marks::PARENT) && self.tallies.get(&after.id).is_some() {
            self.tallies.set(after.id, None);
        }
        self.rekey(&before, &after);
        self.regroup(Some(&before), Some(&after));
        let since = before.since(|id| self.leases.get(&id).map(|held| held.lease.granted));
        if let Some(lease) = before.lease() {
            if after.lease() == Some(lease) {
                self.holds_another(lease);
            } else {
                self.leave_lease(lease, after.id);
            }
        }
        self.note((&before, since), &after, Some(event), now);
    }

    /// Whether an item waits until its group has room.
    pub(super) fn is_parked(&self, id: ItemId) -> bool {
        let waits = |item: &&Item| matches!(item.state, Doing::Pending { .. });
        let key = || self.group_key(self.items.get(&id).filter(waits)?);
        self.decided.parked.contains(&id)
            && key().is_some_and(|key| !self.decided.freed.contains(&key))
    }

    pub(super) fn key_of(&self, item: &Item) -> Option<Key> {
        let key = Arc::clone(self.keyed.get(&item.id)?);
        Some(Key { queue: item.queue.0, tenant: item.tenant.0, key })
    }

    /// Keeps who holds a key right, as an item ends, comes back or comes out from behind another.
    fn rekey(&mut self, before: &Item, after: &Item) {
        let holds = |item: &Item| !item.is_done() && !matches!(item.state, Doing::Held { .. });
        if !before.has(Marks::KEYED) || holds(before) == holds(after) {
            return;
        }
        let Some(key) = self.key_of(after) else { return };
        if after.is_done() {
            self.kept_keys.set(key.clone(), Some(after.id));
        } else if self.kept_keys.get(&key) == Some(&after.id) {
            self.kept_keys.set(key.clone(), None);
        }
        if holds(after) {
            self.keys.set(key, Some(after.id));
        } else if self.keys.get(&key) == Some(&after.id) {
            self.keys.set(key, None);
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
            if let Some(members) = self.groups.get_mut(key) {
                members.leased.remove(&item.id);
                members.live.remove(&item.id);
            }
            if (moved || released) && self.is_limited(item) {
                self.decided.freed.insert(key.clone());
            }
        }
        if let (Some(item), Some(key)) = (is, is_key)
            && let Some(members) = self.groups.get_mut(&key)
        {
            members.live.insert(item.id);
            if item.lease().is_some() {
                members.leased.insert(item.id);
            }
        }
    }

    /// What a lease holds is not as it was handed out.
    fn holds_another(&mut self, lease: LeaseId) {
        if !self.leases.is_known(&lease) {
            return self.need_lease(lease);
        }
        if let Some(granted) = self.leases.get_mut(&lease) {
            granted.is_changed = true;
        }
    }

    /// A lease ends with the last item that it holds.
    fn leave_lease(&mut self, lease: LeaseId, id: ItemId) {
        if !self.leases.is_known(&lease) {
            return self.need_lease(lease);
        }
        let Some(granted) = self.leases.get_mut(&lease) else { return };
        granted.items.retain(|held| *held != id);
        if granted.items.is_empty() {
            self.leases.set(lease, None);
        }
    }

    fn remove(&mut self, id: ItemId) {
        self.decided.removed.insert(id);
        let item = self.items.get(&id).copied();
        if let Some(place) = item.and_then(|item| item.place) {
            self.children.set((place.parent, place.generation, place.ordinal), None);
        }
        let key = item.and_then(|item| self.key_of(&item));
        if let Some(key) = key.filter(|key| self.kept_keys.get(key) == Some(&id)) {
            self.kept_keys.set(key, None);
        }
        self.items.set(id, None);
        self.line_up(id);
    }

    fn note(
        &mut self,
        (was, since): (&Item, Option<Timestamp>),
        item: &Item,
        event: Option<Event>,
        at: Timestamp,
    ) {
        let names = self.names.read();
        let (Some(queue), Some(tenant), Some(route)) =
            (names.text(item.queue.0), names.text(item.tenant.0), names.route(was.route.0))
        else {
            return;
        };
        let in_stage = Arc::clone(&route.stage(was.stage).name);
        let (queue, tenant) = (Arc::clone(queue), Arc::clone(tenant));
        let (id, stage, status) = (item.id, item.stage, item.status());
        let happened = Happened { id, at, queue, tenant, stage, status, event, in_stage, since };
        self.decided.happened.push(happened);
    }
}
