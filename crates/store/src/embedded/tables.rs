//! The tables: everything the embedded store knows, in memory, under one lock.
//!
//! What is here is either written to the log by the change that caused it, or derived from that
//! and rebuilt at open. `ledger.rs` shows it to the rules, `apply.rs` takes their changes.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, MutexGuard, RwLock};
use rand::rngs::StdRng;
use windrow_core::change::Created;
use windrow_core::command::{Claim, Scope};
use windrow_core::id::{IdSource, StoreTag};
use windrow_core::item::{BlobRef, Item, Marks, Place, State};
use windrow_core::item::{GroupNo, KindNo, QueueNo, RouteNo, TenantNo};
use windrow_core::ports::Happened;
use windrow_core::resource::Resource;
use windrow_core::trail::{Progress, Trail};
use windrow_core::{ItemId, Timestamp};

use super::codec::record::{Image, ImageState, PlaceImage, tag};
use super::codec::{Pack, put_serial};
use super::commit::Told;
use super::log::{LogError, Segments, Writer};
use super::outbox::{Outbox, Target};
use super::owners::Owners;
use super::schedule::history::History;
use super::schedule::lanes::{LaneName, Lanes};
use super::schedule::leases::Leases;
use super::schedule::names::{GroupNames, Names};
use super::schedule::requests::Requests;
use super::schedule::slab::{NIL, Rank, Slab, Slot, SlotNo, StateTag};
use super::schedule::trees::Trees;
use super::settings::QueueSettings;
use super::shelves::Shelves;

/// Everything the store knows.
pub(crate) struct Tables {
    pub(crate) slab: Slab,
    pub(crate) names: Names,
    /// The same names, for readers that do not hold the lock.
    pub(crate) shared_names: Arc<RwLock<Names>>,
    pub(crate) groups: GroupNames,
    pub(crate) lanes: Lanes,
    pub(crate) leases: Leases,
    pub(crate) history: History,
    pub(crate) trees: Trees,
    pub(crate) requests: Requests,
    pub(crate) owners: Owners,
    /// Items that wait for their time: (time, serial, slot). Looked at again when they come up.
    pub(crate) delayed: BinaryHeap<Reverse<(u64, u64, SlotNo)>>,
    pub(crate) successors: HashMap<u64, u64>,
    pub(crate) settings: QueueSettings,
    pub(crate) pauses: Pauses,
    pub(crate) gates: HashMap<Arc<str>, Resource>,
    /// Until when gates were looked at, to tell who waits when one opens by itself.
    pub(crate) gates_seen: Timestamp,
    pub(crate) blobs: HashMap<(u32, BlobRef), u32>,
    /// Blobs that lost their last reference, whose bytes may go.
    pub(crate) dropped: Vec<(u32, BlobRef)>,
    pub(crate) notes: Shelves,
    /// Keys of ended items, in queues where those stay unique.
    pub(crate) retained: BTreeSet<(u64, u64, u64)>,
    /// Parents that were cancelled and whose children still live.
    pub(crate) cancelling: BTreeSet<u64>,
    /// Items that nobody gets until an operator looks.
    pub(crate) quarantined: BTreeSet<u64>,
    /// Ended roots with children, by the second in which they ended.
    pub(crate) unfolded: BTreeSet<(u64, u64)>,
    pub(crate) progress: HashMap<u64, Progress>,
    pub(crate) ids: IdSource,
    pub(crate) random: StdRng,
    pub(crate) hash_key: (u64, u64),
    /// The latest time that was ever seen; time never runs back.
    pub(crate) now: Timestamp,
    pub(crate) out: Outbox,
    /// What was written and is not needed any more. Whoever asked frees it, without the lock.
    #[expect(clippy::vec_box, reason = "they come in boxes, and moving them costs")]
    pub(crate) spent: Vec<Box<Created>>,
    /// A trail that waits for the item change it belongs to.
    pub(crate) trail_for: Option<(u64, Box<Trail>)>,
    pub(crate) offer: Option<Offer>,
    /// Lanes whose policy looks at what waits further down.
    pub(crate) ahead_lanes: Vec<u32>,
    pub(crate) notices: Notices,
    /// What listeners are to be told, by the group that must be durable first.
    pub(crate) told: Arc<Mutex<VecDeque<Told>>>,
    pub(crate) clock_written: Timestamp,
    /// None while the log is being replayed.
    pub(crate) writer: Option<Arc<Mutex<Writer>>>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) memory_max: u64,
    pub(crate) command_bytes_max: usize,
    /// Items that ran again while copies of bodies wait to count. None if no copy waits.
    pub(crate) revived: Option<Vec<u64>>,
    /// Bodies written since it was opened, and their bytes, to reckon what lives.
    pub(crate) bodies: (u64, u64),
    /// Deciding panicked or a record was unreadable since the store was opened.
    pub(crate) unhealthy: RefCell<Option<String>>,
}

/// What is paused, as numbers.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    pub(crate) scopes: HashSet<Scope>,
    pub(crate) queues: HashSet<u32>,
    pub(crate) stages: HashSet<(u32, u32)>,
    pub(crate) tenants: HashSet<(u32, u32)>,
    pub(crate) cells: HashSet<(u32, u32, u32)>,
}

/// A claim's filters as lanes and tenants, kept while it is being served.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) claim: Claim,
    pub(crate) lanes: Vec<u32>,
    pub(crate) tenants: Vec<u32>,
}

/// What listeners are told once the group is durable.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Whether anybody listens.
    pub(crate) wanted: bool,
    pub(crate) happened: Vec<Happened>,
}

impl Tables {
    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.as_ref().expect("the log is open").lock()
    }

    pub(crate) fn tag(&self) -> StoreTag {
        self.ids.tag()
    }

    pub(crate) fn id(&self, serial: u64) -> ItemId {
        ItemId::from_serial(serial, self.tag())
    }

    /// The serial of an id that this store made.
    pub(crate) fn serial(&self, id: ItemId) -> Option<u64> {
        (id.tag() == self.tag()).then_some(id.serial())
    }

    pub(crate) fn find_live(&self, id: ItemId) -> Option<SlotNo> {
        self.slab.find(self.serial(id)?)
    }

    /// The number of a shared name; a new one is written to the log.
    pub(crate) fn text(&mut self, text: &Arc<str>) -> u32 {
        if let Some(no) = self.names.find_again(text) {
            return no;
        }
        self.offer = None;
        self.out.push(tag::TEXT, Target::Nobody, |out| text.put(out));
        self.shared_names.write().number(text);
        self.names.number(text).0
    }

    pub(crate) fn route_no(&mut self, route: &Arc<windrow_core::route::Route>) -> u32 {
        if let Some(no) = self.names.find_route(route) {
            return no;
        }
        for stage in &route.stages {
            self.text(&stage.name);
        }
        self.out.push(tag::ROUTE, Target::Nobody, |out| route.put(out));
        self.shared_names.write().add_route(route);
        self.names.add_route(route)
    }

    /// The lane of an item in a stage.
    pub(crate) fn lane(&mut self, queue: u32, kind: u32, route: u32, stage: u8) -> u32 {
        let stage = self.names.route(route).stages[usize::from(stage)];
        let name = LaneName { queue, stage, kind };
        if let Some(lane) = self.lanes.find(name) {
            return lane;
        }
        let (stage, kind) = (self.names.text(stage), self.names.text(kind));
        let policy = self.settings.of(queue).policy(stage, kind);
        self.offer = None;
        let looks_ahead = policy.ahead.is_some();
        let lane = self.lanes.add(name, policy);
        if looks_ahead {
            self.ahead_lanes.push(lane);
        }
        lane
    }

    /// The item in a slot.
    pub(crate) fn item_in(&self, no: SlotNo) -> Item {
        let slot = self.slab.get(no);
        let lane = self.lanes.get(slot.lane).name;
        let not_before = Timestamp(slot.until);
        let state = match slot.state {
            StateTag::Pending => State::Pending { not_before },
            StateTag::Held => State::Held { not_before },
            StateTag::Leased => {
                let lease = self.leases.id(slot.lease);
                State::Leased { lease: lease.expect("Q1: a leased item has a lease") }
            }
            StateTag::Split => State::Split,
            StateTag::Free => unreachable!("slot {no} is free"),
        };
        Item {
            id: self.id(slot.serial),
            queue: QueueNo(lane.queue),
            tenant: TenantNo(slot.tenant),
            kind: KindNo(lane.kind),
            group: (slot.group != NIL).then_some(GroupNo(slot.group)),
            route: RouteNo(slot.route),
            priority: slot.rank.priority(),
            stage: slot.stage,
            state,
            attempts: slot.attempts,
            deferrals: slot.deferrals,
            generation: slot.generation,
            skipped: slot.skipped,
            place: (slot.parent != 0).then(|| Place {
                parent: self.id(slot.parent),
                generation: slot.place_generation,
                ordinal: slot.ordinal,
                level: slot.rank.level(),
            }),
            marks: Marks::from_bits(slot.marks),
        }
    }

    /// A slot as records and snapshots have it.
    pub(crate) fn image(&self, slot: &Slot) -> Image {
        let lane = self.lanes.get(slot.lane).name;
        let state = match slot.state {
            StateTag::Pending => ImageState::Pending { not_before: slot.until },
            StateTag::Held => ImageState::Held { not_before: slot.until },
            StateTag::Leased => match self.leases.id(slot.lease) {
                Some(lease) => ImageState::Leased { lease },
                None => unreachable!("Q1: a leased item has a lease"),
            },
            StateTag::Split | StateTag::Free => ImageState::Split,
        };
        Image {
            serial: slot.serial,
            queue: lane.queue,
            kind: lane.kind,
            tenant: slot.tenant,
            route: slot.route,
            group: self.groups.name(slot.group).cloned(),
            stage: slot.stage,
            priority: slot.rank.priority(),
            state,
            attempts: slot.attempts,
            deferrals: slot.deferrals,
            generation: slot.generation,
            skipped: slot.skipped,
            marks: Marks::from_bits(slot.marks),
            key: slot.key,
            place: (slot.parent != 0).then_some(PlaceImage {
                parent: slot.parent,
                generation: slot.place_generation,
                ordinal: slot.ordinal,
                level: slot.rank.level(),
            }),
            body: slot.body,
            trail: slot.trail,
        }
    }

    /// The slot that an image describes; in no list and under no lease yet.
    pub(crate) fn slot_of(&mut self, image: &Image) -> Slot {
        let lane = self.lane(image.queue, image.kind, image.route, image.stage);
        let group = image.group.as_ref().map_or(NIL, |name| self.groups.join(image.tenant, name));
        let (state, until) = match image.state {
            ImageState::Pending { not_before } => (StateTag::Pending, not_before),
            ImageState::Held { not_before } => (StateTag::Held, not_before),
            ImageState::Leased { .. } => (StateTag::Leased, 0),
            ImageState::Split | ImageState::Done { .. } => (StateTag::Split, 0),
        };
        let place =
            image.place.unwrap_or(PlaceImage { parent: 0, generation: 0, ordinal: 0, level: 0 });
        Slot {
            body: image.body,
            trail: image.trail,
            until,
            key: image.key,
            parent: place.parent,
            ordinal: place.ordinal,
            place_generation: place.generation,
            rank: Rank::new(image.priority, place.level),
            lane,
            tenant: image.tenant,
            group,
            route: image.route,
            attempts: image.attempts,
            deferrals: image.deferrals,
            generation: image.generation,
            skipped: image.skipped,
            marks: image.marks.bits(),
            stage: image.stage,
            state,
            ..Slot::new(image.serial)
        }
    }

    /// Looks for the groups of images, so that the processor fetches them all at once instead of
    /// one after the other.
    pub(crate) fn warm_groups(&self, images: &[Image]) {
        let find = |image: &Image| self.groups.find(image.tenant, image.group.as_ref()?);
        std::hint::black_box(images.iter().filter_map(find).fold(0, |all, one| all ^ one));
    }

    /// The item that an image of history describes.
    pub(crate) fn item_of(&self, image: &Image) -> Item {
        let end = match image.state {
            ImageState::Done { end, .. } => end,
            _ => unreachable!("history holds ended items"),
        };
        Item {
            id: self.id(image.serial),
            queue: QueueNo(image.queue),
            tenant: TenantNo(image.tenant),
            kind: KindNo(image.kind),
            // It stands in no line, so its group needs no number.
            group: image.group.as_ref().map(|_| GroupNo(NIL)),
            route: RouteNo(image.route),
            priority: image.priority,
            stage: image.stage,
            state: State::Done(end),
            attempts: image.attempts,
            deferrals: image.deferrals,
            generation: image.generation,
            skipped: image.skipped,
            place: image.place.map(|place| Place {
                parent: self.id(place.parent),
                generation: place.generation,
                ordinal: place.ordinal,
                level: place.level,
            }),
            marks: image.marks,
        }
    }

    /// The hash of a key, never zero. Keyed with a secret of the store, so that nobody can choose
    /// keys that collide.
    pub(crate) fn key_hash(&self, tenant: &str, queue: &str, key: &str) -> u64 {
        let hasher = siphasher::sip::SipHasher13::new_with_keys(self.hash_key.0, self.hash_key.1);
        let parts = [tenant, queue, key].map(str::as_bytes);
        let mut short = [0; 128];
        let len = parts.iter().map(|part| part.len() + 1).sum();
        let hash = match short.get_mut(..len) {
            Some(all) => {
                let mut rest = &mut *all;
                for part in parts {
                    let (own, after) = rest.split_at_mut(part.len() + 1);
                    own[..part.len()].copy_from_slice(part);
                    own[part.len()] = 0xff;
                    rest = after;
                }
                hasher.hash(all)
            }
            None => hasher.hash(&parts.map(|part| [part, &[0xff]].concat()).concat()),
        };
        hash.max(1)
    }

    /// Sends the records of a command to the log, all into one group, and notes where they lie. If
    /// more of the command follows, the group is kept open for it.
    pub(crate) fn flush(&mut self, more: bool) -> Result<(), LogError> {
        self.out.close();
        let mut tallies = std::mem::take(&mut self.out.tallies);
        for serial in tallies.drain(..) {
            if let Some(tally) = self.trees.clean(serial) {
                self.out.push(tag::TALLY, Target::Nobody, |out| {
                    put_serial(out, serial);
                    tally.put(out);
                });
            }
        }
        self.out.tallies = tallies;
        let Some(writer) = &self.writer else { unreachable!("the log is open") };
        let mut writer = writer.lock();
        writer.hold(more);
        if self.out.waiting.is_empty() {
            return Ok(());
        }
        let overhead = self.out.waiting.len() * super::log::RECORD_OVERHEAD;
        writer.begin(self.out.bytes.len() + overhead)?;
        for waiting in &self.out.waiting {
            let bytes = &self.out.bytes[waiting.from..waiting.to];
            let loc = writer.push(waiting.tag, bytes);
            match waiting.target {
                Target::Nobody => {}
                Target::Body(no) if waiting.tag == tag::CREATE => {
                    self.bodies.0 += 1;
                    self.bodies.1 += bytes.len() as u64;
                    self.slab.get_mut(no).body = Some(loc);
                }
                Target::Body(no) => self.slab.get_mut(no).body = Some(loc),
                Target::Trail(no) => self.slab.get_mut(no).trail = Some(loc),
                Target::Finished(serial) => self.history.relocate(serial, loc),
                Target::Answered(request) => self.requests.relocate(request, loc),
            }
        }
        self.out.clear();
        Ok(())
    }

    /// Roughly how many bytes of the log still live.
    pub(crate) fn live_bytes(&self) -> u64 {
        let (count, bytes) = self.bodies;
        let each = bytes.checked_div(count).unwrap_or(400) + 120;
        self.items() as u64 * each
    }

    /// How many items there are, live and ended.
    pub(crate) fn items(&self) -> usize {
        self.slab.live() + self.history.len()
    }

    /// Roughly how much memory the live and ended items take.
    pub(crate) fn memory(&self) -> u64 {
        let live = self.slab.live() as u64 * 152;
        let ended = self.history.len() as u64 * 24;
        let requests = self.requests.len() as u64 * 80;
        live + ended + requests + self.trees.len() as u64 * 32
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (live, ended) = (self.slab.live(), self.history.len());
        f.debug_struct("Tables").field("live", &live).field("ended", &ended).finish()
    }
}
