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

use super::backup::is_half_restored;
use super::disk::{Disk, DiskLock};
use super::durable::Durable;
use super::intake::Intake;
use super::ledger::nowhere;
use super::log::{Loc, Log, LogError, Op, Segments, StoreId};
use super::moving::is_half_moved;
use super::schedule::history::Entry;
use super::schedule::slab::{SlotNo, Spot, StateTag};
use super::settings::QueueSettings;
use super::shelves::Shelves;
use super::snapshot::{self, SnapshotError};
use super::space::Keeper;
use super::sync::Syncing;
use super::tables::Tables;
use super::{Embedded, Options, Shared};

/// Slots that are looked at together before each is put in line.
const SOME: usize = 64;

/// Why a data directory could not be opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(
        "a move into this directory was not finished; run the same `windrow move` again, or give \
         it up by removing the directory"
    )]
    HalfMoved,
    #[error(
        "a restore into this directory was not finished; run the same `windrow restore` again, or \
         give it up by removing the directory"
    )]
    HalfRestored,
    #[error("{}{what}; restore a backup", place(*.at))]
    Inconsistent { at: Option<Loc>, what: String },
}

fn place(at: Option<Loc>) -> String {
    at.map_or(String::new(), |at| format!("{at}: "))
}

impl Embedded {
    /// Opens the store in a directory, or begins a new one there.
    ///
    /// Nothing becomes durable yet, and so every submit waits: call [`Embedded::run`] on what this
    /// gives, or [`Embedded::sync_step`] yourself.
    ///
    /// A group at the very end of the log that is not whole is cut: it was being written when the
    /// process or the machine died, and nobody had an answer.
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Embedded, OpenError> {
        let unlisted = |source| {
            let file = "the data directory".to_owned();
            LogError::Io { file, op: Op::List, source }
        };
        // Locked before anybody looks: what is being restored now is in use, and not given up.
        let lock = Log::lock(&*disk)?;
        if is_half_moved(&*disk).map_err(unlisted)? {
            return Err(OpenError::HalfMoved);
        }
        if is_half_restored(&*disk).map_err(unlisted)? {
            return Err(OpenError::HalfRestored);
        }
        Embedded::open_any(disk, lock, options, None)
    }

    /// The same for a store that is being filled with items of this tag.
    pub(crate) fn open_moving(
        disk: Arc<dyn Disk>,
        options: Options,
        tag: StoreTag,
    ) -> Result<Embedded, OpenError> {
        let lock = Log::lock(&*disk)?;
        Embedded::open_any(disk, lock, options, Some(tag))
    }

    fn open_any(
        disk: Arc<dyn Disk>,
        lock: DiskLock,
        options: Options,
        tag: Option<StoreTag>,
    ) -> Result<Embedded, OpenError> {
        let mut random = match options.seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            None => rand::make_rng(),
        };
        let mut id = StoreId(random.random());
        if let Some(tag) = tag {
            id = with_tag(id, tag);
        }
        let mut log_options = super::log::Options::new(id);
        log_options.segment_bytes = options.segment_bytes;
        log_options.reserve_segments = options.reserve_segments;
        log_options.spares_max = options.reserve_segments + 4;
        let command_bytes_max = log_options.command_bytes_max();
        let log = Log::open_locked(Arc::clone(&disk), lock, log_options)?;
        let segments = Arc::clone(log.segments());
        let names = Arc::default();
        let mut tables = Tables::empty(&segments, &names, random, &options, command_bytes_max);
        let start = snapshot::load::load(&*disk, &mut tables)?;
        let (from, until) = match &start {
            Some(start) => (Some(start.position), start.until),
            None => (None, 0),
        };
        let recovered = log.recover(from, |group| tables.replay_group(&group, until))?;
        let durable = Durable::new(recovered.writer.durable());
        let writer = Arc::new(Mutex::new(recovered.writer));
        tables.writer = Some(Arc::clone(&writer));
        tables.derive()?;
        let keeper = Keeper::new(recovered.spares, start);
        let shared = Shared {
            intake: Intake::default(),
            told: Arc::clone(&tables.told),
            tables: Mutex::new(tables),
            writer,
            filled: Condvar::new(),
            syncing: Syncing::default(),
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

/// An identity from which this tag follows.
fn with_tag(id: StoreId, tag: StoreTag) -> StoreId {
    let (low, _) = halves(id);
    let whole = u128::from(low ^ tag.bits()) << 64 | u128::from(low);
    StoreId(whole.to_le_bytes())
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
            settings: QueueSettings::default(),
            pauses: Default::default(),
            gates: HashMap::new(),
            gates_seen: Timestamp::ZERO,
            blobs: HashMap::new(),
            dropped: Vec::new(),
            notes: Shelves::default(),
            retained: Default::default(),
            cancelling: Default::default(),
            quarantined: Default::default(),
            unfolded: Default::default(),
            progress: HashMap::new(),
            ids: IdSource::new(StoreTag::new(hash_key.0 ^ hash_key.1), 0),
            random,
            hash_key,
            now: Timestamp::ZERO,
            out: Default::default(),
            trail_for: None,
            offer: None,
            ahead_lanes: Vec::new(),
            notices: Default::default(),
            spent: Default::default(),
            told: Default::default(),
            clock_written: Timestamp::ZERO,
            writer: None,
            segments: Arc::clone(segments),
            memory_max: options.memory_max,
            command_bytes_max,
            revived: None,
            bodies: (0, 0),
            unhealthy: Default::default(),
        }
    }

    /// Builds everything that is derived from what the items are.
    fn derive(&mut self) -> Result<(), OpenError> {
        self.derive_policies();
        self.slab.hold_keys(|slot| !matches!(slot.state, StateTag::Held | StateTag::Free));
        // Lines are linked in the order in which they are filled: oldest first keeps them linked.
        let mut by_age: Vec<(u64, SlotNo)> =
            self.slab.iter().map(|(no, slot)| (slot.serial, no)).collect();
        by_age.sort_unstable();
        self.slab.keep_order(by_age.iter().map(|(serial, _)| *serial));
        for some in by_age.chunks(SOME) {
            self.lanes.warm_joins(&self.slab, some.iter().map(|(_, no)| *no));
            for (_, no) in some {
                self.derive_slot(*no)?;
            }
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
            let policy = self.settings.of(name.queue).policy(stage, kind);
            self.lanes.get_mut(lane).policy = policy;
        }
        self.note_ahead();
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
        self.lanes.order(&slot, true);
        let marks = Marks::from_bits(slot.marks);
        if marks.has(Marks::CANCELLING) {
            self.cancelling.insert(slot.serial);
        }
        if marks.has(Marks::QUARANTINED) {
            self.quarantined.insert(slot.serial);
        }
        if slot.state == StateTag::Leased {
            let id = self.leases.id(slot.lease);
            if id.is_none_or(|id| self.leases.find(id).is_none()) {
                return Err(wrong("is under a lease that does not exist"));
            }
            self.leases.link(&mut self.slab, slot.lease, no);
            self.lanes.load(&slot, true);
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
        let mut entries: Vec<Entry> = self.history.iter().collect();
        if !entries.is_sorted_by_key(|entry| entry.ended_s) {
            // Records that were moved stand behind younger ones in the log.
            entries.sort_by_key(|entry| entry.ended_s);
            self.history = Default::default();
            entries.iter().for_each(|entry| self.history.push(*entry));
        }
        for entry in entries {
            let queue = self.owners.get(entry.owner).queue;
            let settings = Arc::clone(self.settings.of(queue));
            self.owners.moved(entry.owner, None, Some(entry.end.into()));
            if entry.root {
                let max = self.settings.keeps(queue).max_per_tenant;
                self.owners.kept(entry.owner, true, max);
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
                    self.retained.insert((image.key, entry.ended_s, entry.serial));
                }
            }
            debug_assert_ne!(entry.at, nowhere());
        }
        Ok(())
    }
}
