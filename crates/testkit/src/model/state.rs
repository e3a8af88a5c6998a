//! What the model holds: maps of whole values, and how each change goes into them.
//!
//! Nothing here is kept twice. Whatever follows from the items (which keys are live, what a lease
//! holds, how full a group is) is found by looking at all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windrow_core::change::{Created, Lease};
use windrow_core::command::Scope;
use windrow_core::id::{IdSource, StoreTag};
use windrow_core::invariants::check_step;
use windrow_core::item::Marks;
use windrow_core::limits::{REQUEST_KEPT_MS, REQUESTS_KEPT};
use windrow_core::note::Note;
use windrow_core::ports::Happened;
use windrow_core::resource::Resource;
use windrow_core::settings::{Policy, Settings};
use windrow_core::tally::Tally;
use windrow_core::trail::Trail;
use windrow_core::transitions::Event;
use windrow_core::{Answer, Body, Change, Item, ItemId, LeaseId, RequestId, Timestamp};

use super::Slip;
use super::names::Names;
use super::order::Turns;
use crate::random::Splitmix;

/// A lane and its policy's key: queue, stage, kind.
pub(super) type LaneKey = (u32, Arc<str>, u32);

/// Everything a queue knows, in the plainest form.
#[derive(Clone, Debug)]
pub struct State {
    /// The latest time it was told.
    pub now: Timestamp,
    pub items: BTreeMap<ItemId, Item>,
    pub bodies: BTreeMap<ItemId, Body>,
    pub trails: BTreeMap<ItemId, Trail>,
    pub tallies: BTreeMap<ItemId, Tally>,
    /// Children by parent, generation and ordinal.
    pub children: BTreeMap<(ItemId, u16, u32), ItemId>,
    pub successors: BTreeMap<ItemId, ItemId>,
    /// Generations whose live children are still to be cancelled.
    pub orphans: BTreeSet<(ItemId, u16)>,
    pub folded: BTreeSet<ItemId>,
    pub leases: BTreeMap<LeaseId, Lease>,
    pub settings: BTreeMap<Arc<str>, Settings>,
    pub paused: BTreeSet<Scope>,
    pub gates: BTreeMap<Arc<str>, Resource>,
    /// References to each blob of a tenant.
    pub blobs: BTreeMap<(Arc<str>, [u8; 32], u64), u32>,
    pub notes: BTreeMap<(Arc<str>, Arc<str>), Note>,
    pub requests: BTreeMap<RequestId, Remembered>,
    pub names: Names,
    pub(super) policies: BTreeMap<LaneKey, Policy>,
    pub(super) plain: Settings,
    pub(super) turns: Turns,
    pub(super) ids: IdSource,
    pub(super) random: Splitmix,
    pub(super) happened: Vec<Happened>,
    /// Parents whose counts changed in the current command.
    pub(super) touched: BTreeSet<ItemId>,
    pub(super) slip: Option<Slip>,
}

/// What a request was answered, and when.
#[derive(Clone, Debug)]
pub struct Remembered {
    pub fingerprint: u64,
    pub answer: Answer,
    pub at: Timestamp,
}

impl State {
    pub(super) fn new(seed: u64) -> State {
        State {
            now: Timestamp::ZERO,
            items: BTreeMap::new(),
            bodies: BTreeMap::new(),
            trails: BTreeMap::new(),
            tallies: BTreeMap::new(),
            children: BTreeMap::new(),
            successors: BTreeMap::new(),
            orphans: BTreeSet::new(),
            folded: BTreeSet::new(),
            leases: BTreeMap::new(),
            settings: BTreeMap::new(),
            paused: BTreeSet::new(),
            gates: BTreeMap::new(),
            notes: BTreeMap::new(),
            blobs: BTreeMap::new(),
            requests: BTreeMap::new(),
            names: Names::default(),
            policies: BTreeMap::new(),
            plain: Settings::default(),
            turns: Turns::default(),
            ids: IdSource::new(StoreTag::new(0x6d_6f64_656c), 0),
            random: Splitmix(seed),
            happened: Vec::new(),
            touched: BTreeSet::new(),
            slip: None,
        }
    }

    pub(super) fn take(&mut self, change: Change, now: Timestamp) {
        match change {
            Change::Create(created) => self.create(*created, now),
            Change::Item { item, event } => self.step(item, event, now),
            Change::Body { id, body } => {
                self.bodies.insert(id, *body);
            }
            Change::Trail { id, trail } => {
                self.trails.insert(id, *trail);
            }
            Change::Tally { id, tally } => {
                self.touched.insert(id);
                self.tallies.insert(id, *tally);
            }
            Change::Successor { of, is } => put(&mut self.successors, of, is),
            Change::Orphan { parent, generation, over: false } => {
                self.orphans.insert((parent, generation));
            }
            Change::Orphan { parent, generation, over: true } => {
                self.orphans.remove(&(parent, generation));
            }
            Change::Lease(lease) => {
                self.leases.insert(lease.id, lease);
            }
            Change::Progress { id, progress } => {
                self.trails.entry(id).or_default().progress = Some(progress);
            }
            Change::Remove { id } => self.remove(id),
            Change::Fold { root } => self.fold(root),
            Change::Paused { scope, paused: true } => {
                self.paused.insert(scope);
            }
            Change::Paused { scope, paused: false } => {
                self.paused.remove(&scope);
            }
            Change::Settings { queue, settings } => self.configure(queue, *settings),
            Change::Gate { resource, state } => put(&mut self.gates, resource, state),
            Change::Blob { tenant, blob, references } => {
                put(&mut self.blobs, (tenant, blob.hash, blob.len), references);
            }
            Change::Note { shelf, name, version, body: Some(body) } => {
                let note = Note { name: name.clone(), version, body };
                self.notes.insert((shelf, name), note);
            }
            Change::Note { shelf, name, body: None, .. } => {
                self.notes.remove(&(shelf, name));
            }
            Change::Answered { request, fingerprint, answer } => {
                self.remember(request, Remembered { fingerprint, answer: *answer, at: now });
            }
        }
    }

    fn create(&mut self, created: Created, now: Timestamp) {
        let marks = created.marks();
        let Created { id, body, priority, state, stage, place, trail } = created;
        let numbers = self.names.number(&body);
        let item = Item {
            id,
            queue: numbers.queue,
            tenant: numbers.tenant,
            kind: numbers.kind,
            group: numbers.group,
            route: numbers.route,
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
        assert!(self.items.insert(id, item).is_none(), "an id is given out once");
        if let Some(place) = place {
            self.children.insert((place.parent, place.generation, place.ordinal), id);
        }
        put(&mut self.trails, id, trail.map(|trail| *trail));
        self.resolve(&body);
        self.bodies.insert(id, body);
        self.note((&item, None), &item, None, now);
    }

    fn step(&mut self, after: Item, event: Event, now: Timestamp) {
        let before = self.items[&after.id];
        check_step(&before, &after, event);
        let since = before.since(|id| self.leases.get(&id).map(|lease| lease.granted));
        if event == Event::Claim {
            self.handed_out(&before);
        }
        self.items.insert(after.id, after);
        if before.is_done() {
            self.folded.remove(&after.id);
        }
        if !after.has(Marks::TRAIL) && before.has(Marks::TRAIL) {
            self.trails.remove(&after.id);
        }
        if !after.has(Marks::PARENT) {
            self.tallies.remove(&after.id);
        }
        if let Some(lease) = before.lease().filter(|lease| after.lease() != Some(*lease))
            && !self.items.values().any(|item| item.lease() == Some(lease))
        {
            self.leases.remove(&lease);
        }
        self.note((&before, since), &after, Some(event), now);
    }

    fn note(
        &mut self,
        (was, since): (&Item, Option<Timestamp>),
        item: &Item,
        event: Option<Event>,
        at: Timestamp,
    ) {
        let in_stage = Arc::clone(&self.names.route(was.route).stage(was.stage).name);
        self.happened.push(Happened {
            id: item.id,
            at,
            queue: self.names.queue(item.queue).clone(),
            tenant: self.names.tenant(item.tenant).clone(),
            stage: item.stage,
            status: item.status(),
            event,
            in_stage,
            since,
        });
    }

    fn remove(&mut self, id: ItemId) {
        let Some(item) = self.items.remove(&id) else {
            return;
        };
        assert!(item.is_done(), "Q7: only an ended item is removed");
        self.bodies.remove(&id);
        self.trails.remove(&id);
        self.tallies.remove(&id);
        self.successors.remove(&id);
        self.folded.remove(&id);
        self.orphans.retain(|(parent, _)| *parent != id);
        self.children.retain(|_, child| *child != id);
    }

    fn fold(&mut self, root: ItemId) {
        let below: Vec<ItemId> =
            self.children.iter().filter(|(at, _)| at.0 == root).map(|(_, id)| *id).collect();
        for child in below {
            self.fold(child);
            self.remove(child);
        }
        self.folded.insert(root);
    }

    fn configure(&mut self, queue: Arc<str>, settings: Settings) {
        self.settings.insert(queue.clone(), settings);
        let bodies: Vec<Body> =
            self.bodies.values().filter(|body| body.queue == queue).cloned().collect();
        bodies.iter().for_each(|body| self.resolve(body));
    }

    /// Works out the policies of all lanes that an item may pass.
    fn resolve(&mut self, body: &Body) {
        let numbers = self.names.number(body);
        let settings = self.settings.get(&body.queue).unwrap_or(&self.plain);
        for stage in &body.route.stages {
            let policy = settings.policy(&stage.name, &body.kind);
            self.policies.insert((numbers.queue.0, stage.name.clone(), numbers.kind.0), policy);
        }
    }

    fn remember(&mut self, request: RequestId, remembered: Remembered) {
        let now = remembered.at;
        self.requests.insert(request, remembered);
        self.requests.retain(|_, known| now.since(known.at) <= REQUEST_KEPT_MS);
        while self.requests.len() > REQUESTS_KEPT {
            let oldest = self.requests.iter().min_by_key(|(id, known)| (known.at, **id));
            let oldest = oldest.map(|(id, _)| *id);
            oldest.map(|id| self.requests.remove(&id));
        }
    }
}

/// Sets or clears an entry.
fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}
