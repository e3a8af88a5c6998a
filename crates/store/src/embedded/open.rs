//! Open: the tables, built again from the last snapshot and the tail of the log.
//!
//! Records are absolute, so replay only writes down what each one says. Lists, counts and
//! everything else that is derived is built once at the end, from what the items are then.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex, RwLock};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};
use windrow_core::id::{IdSource, StoreTag};
use windrow_core::item::{Marks, Status};
use windrow_core::settings::Unique;
use windrow_core::{ItemId, Timestamp};

use super::codec::Malformed;
use super::codec::record::{Image, ImageState, Record};
use super::disk::Disk;
use super::durable::Durable;
use super::ledger::nowhere;
use super::log::{Group, Loc, Log, LogError, Segments, StoreId};
use super::schedule::history::{Entry, seconds};
use super::schedule::slab::{NIL, SlotNo, Spot, StateTag};
use super::snapshot::{self, SnapshotError};
use super::space::Keeper;
use super::tables::Tables;
use super::{Embedded, Options, Shared};

/// Why a data directory could not be opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("{at:?}: {what}; restore a backup, or write to us with the output of `windrow check`")]
    Inconsistent { at: Option<Loc>, what: String },
}

impl Embedded {
    /// Opens the store in a directory, or begins a new one there.
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Embedded, OpenError> {
        let mut random = match options.seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            None => rand::make_rng(),
        };
        let mut log_options = super::log::Options::new(StoreId(random.random()));
        log_options.segment_bytes = options.segment_bytes;
        log_options.reserve_segments = options.reserve_segments;
        log_options.spares_max = options.reserve_segments + 4;
        let command_bytes_max = log_options.command_bytes_max();
        let log = Log::open(Arc::clone(&disk), log_options)?;
        let segments = Arc::clone(log.segments());
        let names = Arc::default();
        let mut tables = Tables::empty(&segments, &names, random, &options, command_bytes_max);
        let start = snapshot::load(&*disk, &mut tables)?;
        let (from, until) = match &start {
            Some(start) => (Some(start.position), start.until),
            None => (None, 0),
        };
        let recovered = log.recover(from, |group| tables.replay_group(&group, until))?;
        tables.derive()?;
        tables.writer = Some(recovered.writer);
        let durable = Durable::new(tables.writer().durable());
        let keeper = Keeper::new(recovered.spares, start);
        let shared = Shared {
            tables: Mutex::new(tables),
            filled: Condvar::new(),
            durable,
            names,
            segments,
            listener: RwLock::new(None),
            keeper: Mutex::new(keeper),
            disk,
            options,
            stopping: AtomicBool::new(false),
        };
        Ok(Embedded { shared: Arc::new(shared) })
    }
}

fn halves(id: StoreId) -> (u64, u64) {
    let whole = u128::from_le_bytes(id.0);
    (whole as u64, (whole >> 64) as u64)
}

impl Tables {
    fn empty(
        segments: &Arc<Segments>,
        names: &Arc<RwLock<super::schedule::names::Names>>,
        random: StdRng,
        options: &Options,
        command_bytes_max: usize,
    ) -> Tables {
        let hash_key = halves(segments.store_id());
        Tables {
            slab: super::schedule::slab::Slab::new(),
            names: Default::default(),
            shared_names: Arc::clone(names),
            groups: Default::default(),
            lanes: Default::default(),
            leases: Default::default(),
            history: Default::default(),
            trees: Default::default(),
            requests: Default::default(),
            owners: Default::default(),
            delayed: Default::default(),
            successors: HashMap::new(),
            settings: HashMap::new(),
            default_settings: Arc::default(),
            pauses: Default::default(),
            gates: HashMap::new(),
            blobs: HashMap::new(),
            retained: HashMap::new(),
            cancelling: Default::default(),
            unfolded: Default::default(),
            progress: HashMap::new(),
            ids: IdSource::new(StoreTag::new(hash_key.0 ^ hash_key.1), 0),
            random,
            hash_key,
            now: Timestamp::ZERO,
            out: Default::default(),
            trail_for: None,
            offer: None,
            notices: Default::default(),
            told: Default::default(),
            clock_written: Timestamp::ZERO,
            writer: None,
            segments: Arc::clone(segments),
            memory_max: options.memory_max,
            command_bytes_max,
            bodies: (0, 0),
            unhealthy: None,
        }
    }

    fn replay_group(&mut self, group: &Group<'_>, until: u64) -> Result<(), OpenError> {
        // A snapshot is taken while the log grows. Up to where it ended, a record may be about an
        // item that had gone by the time its part of the snapshot was written.
        let may_be_gone = group.position.sequence <= until;
        for record in group.records() {
            let (at, record) = record.map_err(LogError::from)?;
            let what = |_: Malformed| OpenError::Inconsistent {
                at: Some(at),
                what: format!(
                    "a {} record is malformed",
                    super::codec::record::tag_name(record.tag)
                ),
            };
            let record = Record::get(record.tag, record.bytes).map_err(what)?;
            if !self.replay(record, at) && !may_be_gone {
                let what = "a record is about an item that does not exist".into();
                return Err(OpenError::Inconsistent { at: Some(at), what });
            }
        }
        Ok(())
    }

    /// Writes down what a record says; false if it is about an item that is not there.
    fn replay(&mut self, record: Record, at: Loc) -> bool {
        match record {
            Record::Text(text) => {
                self.shared_names.write().number(&text);
                self.names.number(&text);
            }
            Record::Route(route) => {
                self.shared_names.write().add_route(&route);
                self.names.add_route(&route);
            }
            Record::Create(image) => {
                self.ids.seen(image.serial);
                self.put_slot(&Image { body: Some(at), ..image });
            }
            Record::Body { serial } => {
                if let Some(no) = self.slab.find(serial) {
                    self.slab.get_mut(no).body = Some(at);
                }
            }
            Record::State(image) => return self.replay_state(image),
            Record::Grant { lease, items } => {
                let id = lease.id;
                self.leases.put(lease);
                let mut all = true;
                for (serial, attempts) in items {
                    all &= self.replay_grant(serial, attempts, id);
                }
                return all;
            }
            Record::Lease(lease) => self.leases.put(lease),
            Record::Trail { serial } => match self.slab.find(serial) {
                Some(no) => self.slab.get_mut(no).trail = Some(at),
                None => return false,
            },
            Record::Finish(image) => self.replay_finish(&image, at),
            Record::Remove(removed) => {
                for removed in removed {
                    self.drop_slot(removed.serial);
                    self.history.remove(removed.serial);
                    self.trees.remove(removed.serial);
                    if let Some(place) = removed.place {
                        self.trees.remove_child(place.parent, place.generation, place.ordinal);
                    }
                }
            }
            Record::Tally { serial, tally } => {
                self.trees.set_tally(serial, tally);
                self.trees.clean(serial);
            }
            Record::Successor { of, is } => {
                match is {
                    Some(is) => self.successors.insert(of, is),
                    None => self.successors.remove(&of),
                };
            }
            Record::Orphan { parent, generation, over } => {
                self.trees.orphan(parent, generation, over);
            }
            Record::Folded { root } => self.trees.fold(root),
            Record::Paused { scope, paused } => {
                if paused {
                    self.pauses.scopes.insert(scope);
                } else {
                    self.pauses.scopes.remove(&scope);
                }
            }
            Record::Settings { queue, settings } => {
                let (queue, _) = self.names.number(&queue);
                self.settings.insert(queue, Arc::new(*settings));
            }
            Record::Gate { resource, closed_until } => {
                self.gates.insert(resource, closed_until);
            }
            Record::Blob { tenant, blob, references } => {
                let (tenant, _) = self.names.number(&tenant);
                self.refer(tenant, blob, references);
            }
            Record::Answered { request, at: when } => self.requests.put(request, at, when),
            Record::Clock(now) => self.now = self.now.max(now),
        }
        true
    }

    /// Puts an item where it was, in no list yet.
    pub(crate) fn put_slot(&mut self, image: &Image) -> SlotNo {
        let mut slot = self.slot_of(image);
        if let ImageState::Leased { lease } = image.state {
            slot.lease = self.leases.number(lease);
        }
        if let Some(place) = image.place {
            self.trees.add_child(place.parent, place.generation, place.ordinal, image.serial);
        }
        match self.slab.find(image.serial) {
            Some(no) => {
                let old = *self.slab.get(no);
                if old.group != NIL {
                    self.groups.leave(old.group);
                }
                *self.slab.get_mut(no) = slot;
                no
            }
            None => self.slab.insert(slot),
        }
    }

    fn drop_slot(&mut self, serial: u64) {
        if let Some(no) = self.slab.find(serial) {
            let group = self.slab.get(no).group;
            if group != NIL {
                self.groups.leave(group);
            }
            self.slab.remove(no);
        }
    }

    fn replay_state(&mut self, image: Image) -> bool {
        let known = self.slab.find(image.serial).map(|no| *self.slab.get(no));
        let body = image.body.or(known.and_then(|slot| slot.body));
        let trail = image.trail.or(known.and_then(|slot| slot.trail));
        if body.is_none() {
            return false;
        }
        self.history.remove(image.serial);
        self.put_slot(&Image { body, trail, ..image });
        true
    }

    fn replay_grant(&mut self, serial: u64, attempts: u16, lease: windrow_core::LeaseId) -> bool {
        let Some(no) = self.slab.find(serial) else { return false };
        let lease = self.leases.number(lease);
        let slot = self.slab.get_mut(no);
        slot.state = StateTag::Leased;
        slot.until = 0;
        slot.lease = lease;
        slot.attempts = attempts;
        true
    }

    fn replay_finish(&mut self, image: &Image, at: Loc) {
        let ImageState::Done { end, at: ended } = image.state else { return };
        self.drop_slot(image.serial);
        self.history.remove(image.serial);
        let owner = self.owners.number(image.queue, image.tenant);
        let (serial, root) = (image.serial, image.place.is_none());
        self.ids.seen(serial);
        if let Some(place) = image.place {
            self.trees.add_child(place.parent, place.generation, place.ordinal, serial);
        }
        self.history.push(Entry { serial, at, owner, end, root, ended_s: seconds(ended) });
    }

    /// Builds everything that is derived from what the items are.
    fn derive(&mut self) -> Result<(), OpenError> {
        self.derive_policies();
        let numbers: Vec<SlotNo> = self.slab.iter().map(|(no, _)| no).collect();
        // Lines are linked in the order in which they are filled: oldest first keeps them linked.
        let mut by_age: Vec<(u64, SlotNo)> =
            numbers.into_iter().map(|no| (self.slab.get(no).serial, no)).collect();
        by_age.sort_unstable();
        for (_, no) in by_age {
            self.derive_slot(no)?;
        }
        self.leases.drop_empty();
        self.derive_history()
    }

    fn derive_policies(&mut self) {
        let scopes = std::mem::take(&mut self.pauses.scopes);
        for scope in scopes {
            self.set_paused(scope, true);
        }
        self.out.clear();
        let lanes: Vec<u32> = self.lanes.iter().map(|(no, _)| no).collect();
        for lane in lanes {
            let name = self.lanes.get(lane).name;
            let (stage, kind) = (self.names.text(name.stage), self.names.text(name.kind));
            let policy = self.settings_no(name.queue).policy(stage, kind);
            self.lanes.get_mut(lane).policy = policy;
        }
    }

    fn derive_slot(&mut self, no: SlotNo) -> Result<(), OpenError> {
        let slot = *self.slab.get(no);
        let wrong = |what: &str| OpenError::Inconsistent {
            at: slot.body,
            what: format!("item {} {what}", ItemId::from_serial(slot.serial, self.ids.tag())),
        };
        if slot.body.is_none() {
            return Err(wrong("has no body"));
        }
        self.slab.get_mut(no).spot = Spot::Nowhere;
        self.lanes.order(&self.slab, &slot, true);
        if slot.state != StateTag::Held {
            self.slab.hold_key(no);
        }
        if Marks::from_bits(slot.marks).has(Marks::CANCELLING) {
            self.cancelling.insert(slot.serial);
        }
        if slot.state == StateTag::Leased {
            let id = self.leases.id(slot.lease);
            if id.is_none_or(|id| self.leases.find(id).is_none()) {
                return Err(wrong("is under a lease that does not exist"));
            }
            self.leases.link(&mut self.slab, slot.lease, no);
            self.lanes.load(&self.slab, &slot, true);
        }
        self.enter(no, self.now);
        let status = match slot.state {
            StateTag::Pending | StateTag::Held => Status::Pending,
            _ => Status::Processing,
        };
        let queue = self.lanes.get(slot.lane).name.queue;
        let owner = self.owners.number(queue, slot.tenant);
        self.owners.moved(owner, None, Some(status));
        Ok(())
    }

    fn derive_history(&mut self) -> Result<(), OpenError> {
        let entries: Vec<Entry> = self.history.iter().collect();
        for entry in entries {
            let queue = self.owners.get(entry.owner).queue;
            let settings = Arc::clone(self.settings_no(queue));
            self.owners.moved(entry.owner, None, Some(entry.end.into()));
            if entry.root {
                self.owners.kept(entry.owner, true, settings.retention.max_per_tenant);
                let parent = self.trees.parent(entry.serial);
                let whole = |t: &windrow_core::tally::Tally| t.gaps == 0;
                if parent.is_some_and(|p| !p.folded && p.tally.as_deref().is_some_and(whole)) {
                    self.unfolded.insert((entry.ended_s, entry.serial));
                }
            }
            if settings.unique == Unique::Retained {
                let image = self.image_of(&entry).map_err(|refusal| OpenError::Inconsistent {
                    at: Some(entry.at),
                    what: refusal.to_string(),
                })?;
                if image.key != 0 {
                    self.retained.insert(image.key, entry.serial);
                }
            }
            debug_assert_ne!(entry.at, nowhere());
        }
        Ok(())
    }
}
