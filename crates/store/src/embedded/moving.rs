//! Moving out of a data directory, and into one.
//!
//! What is moved in goes straight to the log, as the records that its own life would have left
//! last; the tables are built from them when the store is opened again. Until then a marker in the
//! directory keeps everybody else from opening it.

use std::io;
use std::sync::Arc;

use windrow_core::id::StoreTag;
use windrow_core::item::{Item, Marks, State};
use windrow_core::ledger::Ledger;
use windrow_core::ports::{Now, StoreError};
use windrow_core::refusal::Refusal;
use windrow_core::{Answer, ItemId, RequestId, Timestamp};

use super::codec::body::put_body;
use super::codec::record::{Image, ImageState, PlaceImage, tag};
use super::codec::{Pack, Reader, put_serial};
use super::disk::{Disk, LOCK_FILE};
use super::log::{LogError, RECORD_OVERHEAD};
use super::outbox::Target;
use super::shelves::put_note;
use super::tables::Tables;
use super::{Embedded, OpenError, Options};
use crate::moving::{self, Answered, Export, Import, MoveError, Moved, PAGE, Progress, Record};

/// There as long as a move into the directory is under way: the tag, and whether all has arrived.
const MARKER: &str = "MOVING";
const MARKER_BYTES: usize = 9;
/// What may wait for the disk before it is written.
const PENDING_BYTES: usize = 8 << 20;
/// More than the place of a body takes in a record that names it.
const PLACE_BYTES: usize = 32;

/// Whether a move into this directory was not finished.
pub(crate) fn is_half_moved(disk: &dyn Disk) -> io::Result<bool> {
    Ok(disk.list()?.iter().any(|name| name == MARKER))
}

/// An open store that is read from one end to the other.
#[derive(Debug)]
pub struct Outgoing<'a> {
    store: &'a Embedded,
    serials: Vec<u64>,
    requests: Vec<RequestId>,
}

impl Embedded {
    /// Everything that the store holds now.
    pub fn outgoing(&self) -> Outgoing<'_> {
        let tables = self.shared.tables.lock();
        let live = tables.slab.iter().map(|(_, slot)| slot.serial);
        let ended = tables.history.iter().map(|entry| entry.serial);
        let mut serials: Vec<u64> = live.chain(ended).collect();
        serials.sort_unstable();
        let (_, known) = tables.requests.range(0, usize::MAX);
        let newest = known.iter().map(|(at, _, _)| *at).max().unwrap_or(Timestamp::ZERO);
        let young = |id: &RequestId| tables.requests.recall(*id, newest).is_some();
        let mut requests: Vec<RequestId> = known.iter().map(|(_, id, _)| *id).collect();
        requests.retain(young);
        requests.sort_unstable();
        requests.dedup();
        Outgoing { store: self, serials, requests }
    }
}

fn unread(refusal: Refusal) -> StoreError {
    StoreError::NotApplied(refusal.to_string())
}

impl Export for Outgoing<'_> {
    fn tag(&self) -> StoreTag {
        self.store.shared.tables.lock().tag()
    }

    async fn size(&self) -> Result<u64, StoreError> {
        Ok(self.serials.len() as u64)
    }

    async fn around(&self) -> Result<Vec<Record>, StoreError> {
        let tables = self.store.shared.tables.lock();
        let mut records = vec![Record::Clock(tables.now)];
        let text = |no: u32| Arc::clone(tables.names.text(no));
        for (queue, settings) in tables.settings.iter() {
            let settings = Box::new((**settings).clone());
            records.push(Record::Settings { queue: text(*queue), settings });
        }
        records.extend(tables.pauses.scopes.iter().cloned().map(Record::Paused));
        for (resource, state) in &tables.gates {
            records.push(Record::Gate { resource: Arc::clone(resource), state: *state });
        }
        for ((tenant, blob), references) in &tables.blobs {
            let (blob, references) = (*blob, *references);
            records.push(Record::Blob { tenant: text(*tenant), blob, references });
        }
        for (shelf, note) in tables.notes.all() {
            records.push(Record::Note { shelf: Arc::clone(shelf), note });
        }
        for (parent, generation) in tables.trees.orphans() {
            records.push(Record::Orphan { parent: tables.id(parent), generation });
        }
        for lease in tables.leases.iter() {
            let (lease, holds) = (lease.clone(), tables.held_by(lease.id));
            records.push(Record::Lease { lease, holds });
        }
        Ok(records)
    }

    async fn moved(&self, after: Option<ItemId>, limit: usize) -> Result<Vec<Moved>, StoreError> {
        let after = after.map_or(0, ItemId::serial);
        let from = self.serials.partition_point(|serial| *serial <= after);
        let tables = self.store.shared.tables.lock();
        let some = self.serials[from..].iter().take(limit);
        some.filter_map(|serial| tables.moved(*serial).transpose()).collect()
    }

    async fn answered(
        &self,
        after: Option<RequestId>,
        limit: usize,
    ) -> Result<Vec<Answered>, StoreError> {
        let from = self.requests.partition_point(|id| Some(*id) <= after);
        let tables = self.store.shared.tables.lock();
        let mut answers = Vec::new();
        for request in &self.requests[from..] {
            if answers.len() == limit {
                break;
            }
            answers.extend(tables.answered(*request)?.filter(Answered::moves));
        }
        Ok(answers)
    }
}

impl Tables {
    fn moved(&self, serial: u64) -> Result<Option<Moved>, StoreError> {
        let id = self.id(serial);
        let Some(item) = self.item(id).map_err(unread)? else { return Ok(None) };
        let body = self.body(&item).map_err(unread)?;
        let trail = self.trail(&item).map_err(unread)?;
        let tally = self.tally(id).filter(|_| item.has(Marks::PARENT)).cloned();
        let folded = self.trees.parent(serial).is_some_and(|parent| parent.folded);
        Ok(Some(Moved::new(item, body, Some(trail), tally, self.successor(id), folded)))
    }

    fn answered(&self, request: RequestId) -> Result<Option<Answered>, StoreError> {
        let Some(at) = self.requests.find(request) else { return Ok(None) };
        let nobody = ItemId(request.0);
        let read = self.read(nobody, Some(at), Target::Answered(request), |bytes| {
            let from = &mut Reader::new(bytes);
            let (request, at): (RequestId, Timestamp) = (from.get()?, from.get()?);
            let fingerprint = from.serial()?;
            let answer: Answer = from.get()?;
            Ok(Answered { request, at, fingerprint, answer })
        });
        read.map(Some).map_err(unread)
    }
}

/// A data directory that is being filled.
#[derive(Debug)]
struct Incoming {
    store: Embedded,
    disk: Arc<dyn Disk>,
    options: Options,
    tag: StoreTag,
    is_whole: bool,
}

/// Moves everything into an empty directory, or goes on with that. `place` names it in messages.
/// `beside` moves what somebody else keeps there, while nobody can open the directory.
pub async fn receive<S: Export>(
    source: &S,
    disk: Arc<dyn Disk>,
    options: Options,
    place: &str,
    wall: Timestamp,
    progress: &mut (dyn FnMut(Progress) + Send),
    beside: impl Future<Output = Result<(), MoveError>>,
) -> Result<moving::Report, MoveError> {
    let mut target = Incoming::begin(disk, options, source.tag(), place)?;
    if !target.is_whole {
        moving::copy(source, &target, progress).await?;
    }
    target = target.opened_again()?;
    let mut report = moving::Report::default();
    if !target.is_whole {
        report = moving::compare(source, &target.store.outgoing(), progress).await?;
        target.mark(true).map_err(|error| MoveError::Place(format!("{place}: {error}")))?;
    }
    beside.await?;
    let running = target.store.clone().run().map_err(|e| MoveError::Place(e.to_string()))?;
    let now = wall.max(running.latest());
    report.released = moving::release(source, &*running, now, Now::Given(now)).await?;
    drop(running);
    target.finish().map_err(|error| MoveError::Place(format!("{place}: {error}")))?;
    Ok(report)
}

/// Whether a directory is empty, or a move into it was begun.
pub fn may_receive(disk: &dyn Disk) -> io::Result<bool> {
    let names = disk.list()?;
    Ok(names.iter().any(|name| name == MARKER) || names.iter().all(|name| name == LOCK_FILE))
}

impl Incoming {
    fn begin(
        disk: Arc<dyn Disk>,
        options: Options,
        tag: StoreTag,
        place: &str,
    ) -> Result<Incoming, MoveError> {
        let wrong = |error: io::Error| MoveError::Place(format!("{place}: {error}"));
        let names = disk.list().map_err(wrong)?;
        let is_ours = names.iter().any(|name| name == MARKER);
        let mut is_whole = false;
        if is_ours {
            let file = disk.open(MARKER).map_err(wrong)?;
            let mut bytes = [0; MARKER_BYTES];
            // One without content was made a moment before the end, and nothing after it.
            if file.len().map_err(wrong)? >= MARKER_BYTES as u64 {
                file.read_at(&mut bytes, 0).map_err(wrong)?;
                if bytes[..8] != tag.bits().to_le_bytes() {
                    return Err(MoveError::OtherMove { place: place.to_owned() });
                }
                is_whole = bytes[8] == 1;
            }
        } else if let Some(name) = names.iter().find(|name| *name != LOCK_FILE) {
            return Err(MoveError::NotEmpty { place: place.to_owned(), holds: name.clone() });
        }
        mark(&*disk, tag, is_whole).map_err(wrong)?;
        let store = open(&disk, &options, tag, place)?;
        Ok(Incoming { store, disk, options, tag, is_whole })
    }

    /// What arrived, as it will be found.
    fn opened_again(self) -> Result<Incoming, MoveError> {
        let Incoming { store, disk, options, tag, is_whole } = self;
        drop(store);
        let store = open(&disk, &options, tag, "what arrived")?;
        Ok(Incoming { store, disk, options, tag, is_whole })
    }

    fn mark(&mut self, is_whole: bool) -> io::Result<()> {
        self.is_whole = is_whole;
        mark(&*self.disk, self.tag, is_whole)
    }

    fn finish(self) -> io::Result<()> {
        self.disk.remove(MARKER)?;
        self.disk.sync_dir()
    }

    /// Writes down what was put, and makes room for more.
    fn settle(&self) -> Result<(), StoreError> {
        while self.store.sync_step() {}
        if let Some(why) = self.store.poisoned() {
            return Err(StoreError::Poisoned(why));
        }
        while self.store.prepare_step() {}
        Ok(())
    }
}

fn open(
    disk: &Arc<dyn Disk>,
    options: &Options,
    tag: StoreTag,
    place: &str,
) -> Result<Embedded, MoveError> {
    let opened = Embedded::open_moving(Arc::clone(disk), options.clone(), tag);
    let wrong = |error: OpenError| MoveError::Place(format!("{place}: {error}"));
    let store = opened.map_err(wrong)?;
    let found = store.shared.tables.lock().tag();
    if found != tag {
        return Err(MoveError::OtherMove { place: place.to_owned() });
    }
    Ok(store)
}

fn mark(disk: &dyn Disk, tag: StoreTag, is_whole: bool) -> io::Result<()> {
    let file = match disk.open(MARKER) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(MARKER)?,
        opened => opened?,
    };
    let mut bytes = tag.bits().to_le_bytes().to_vec();
    bytes.push(u8::from(is_whole));
    file.write_at(&bytes, 0)?;
    file.sync()?;
    disk.sync_dir()
}

impl Import for Incoming {
    async fn reached(&self) -> Result<Option<(ItemId, u64)>, StoreError> {
        let out = self.store.outgoing();
        // The last page may have been cut between two items, never inside of one.
        let whole = out.serials.len() / PAGE * PAGE;
        let last = whole.checked_sub(1).and_then(|at| out.serials.get(at));
        let tag = out.tag();
        Ok(last.map(|serial| (ItemId::from_serial(*serial, tag), whole as u64)))
    }

    async fn put(&self, records: Vec<Record>) -> Result<(), StoreError> {
        for record in records {
            let pending = {
                let mut tables = self.store.shared.tables.lock();
                let put = tables.adopt(record);
                put.map_err(|error| StoreError::NotApplied(error.to_string()))?;
                tables.writer().pending_bytes()
            };
            if pending > PENDING_BYTES {
                self.settle()?;
            }
        }
        self.settle()
    }
}

impl Tables {
    /// Writes a record that came from another store to the log. The tables stay as they are.
    fn adopt(&mut self, record: Record) -> Result<(), LogError> {
        let out = &mut self.out;
        match record {
            Record::Item(moved) => return self.adopt_item(&moved),
            Record::Clock(now) => out.push(tag::CLOCK, Target::Nobody, |out| now.put(out)),
            Record::Settings { queue, settings } => {
                self.text(&queue);
                self.out.push(tag::SETTINGS, Target::Nobody, |out| {
                    queue.put(out);
                    settings.put(out);
                });
            }
            Record::Paused(scope) => out.push(tag::PAUSED, Target::Nobody, |out| {
                scope.put(out);
                true.put(out);
            }),
            Record::Gate { resource, state } => {
                out.push(tag::RESOURCE, Target::Nobody, |out| {
                    resource.put(out);
                    Some(state).put(out);
                });
            }
            Record::Blob { tenant, blob, references } => {
                self.text(&tenant);
                self.out.push(tag::BLOB, Target::Nobody, |out| {
                    tenant.put(out);
                    blob.put(out);
                    Some(references).put(out);
                });
            }
            Record::Note { shelf, note } => out.push(tag::NOTE, Target::Nobody, |out| {
                put_note(out, &shelf, &note.name, note.version, Some(&note.body));
            }),
            Record::Orphan { parent, generation } => {
                out.push(tag::ORPHAN, Target::Nobody, |out| {
                    put_serial(out, parent.serial());
                    generation.put(out);
                    false.put(out);
                });
            }
            Record::Lease { lease, .. } => {
                out.push(tag::LEASE, Target::Nobody, |out| lease.put(out));
            }
            Record::Answered(answered) => {
                let Answered { request, at, fingerprint, answer } = *answered;
                out.push(tag::ANSWERED, Target::Nobody, |out| {
                    request.put(out);
                    at.put(out);
                    put_serial(out, fingerprint);
                    answer.put(out);
                });
            }
        }
        self.flush(false)
    }

    /// An item as it would have been written last: what it is, then how it ended or what became of
    /// it so far, all in one group.
    fn adopt_item(&mut self, moved: &Moved) -> Result<(), LogError> {
        let (image, end) = self.image_moved(moved);
        let (serial, names) = (image.serial, self.body_names(&moved.body));
        // New names stand before whoever uses them.
        self.flush(false)?;
        let trail = moved.trail.clone();
        let mut create = Vec::new();
        image.put(&mut create);
        put_body(&moved.body, &names, &mut create);
        let mut after: Vec<(u8, Vec<u8>)> = Vec::new();
        let mut record = |tag: u8, encode: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            put_serial(&mut bytes, serial);
            encode(&mut bytes);
            after.push((tag, bytes));
        };
        if let (None, Some(trail)) = (end, &trail) {
            record(tag::TRAIL, &|out| trail.put(out));
        }
        if let Some(tally) = &moved.tally {
            record(tag::TALLY, &|out| tally.put(out));
        }
        if let Some(successor) = moved.successor {
            record(tag::SUCCESSOR, &|out| Some(successor.serial()).put(out));
        }
        if moved.folded {
            record(tag::FOLDED, &|_| {});
        }
        let mut finish = Vec::new();
        trail.unwrap_or_default().put(&mut finish);
        let rest: usize = after.iter().map(|(_, bytes)| bytes.len() + RECORD_OVERHEAD).sum();
        let images = 2 * create.len() + PLACE_BYTES;
        let mut writer = self.writer();
        writer.begin(images + finish.len() + rest + 2 * RECORD_OVERHEAD)?;
        let body = writer.push(tag::CREATE, &create);
        if let Some(state) = end {
            let image = Image { body: Some(body), state, ..image };
            writer.push_with(tag::FINISH, |out| {
                image.put(out);
                out.extend_from_slice(&finish);
            });
        }
        for (tag, bytes) in after {
            writer.push(tag, &bytes);
        }
        Ok(())
    }

    /// An item's image while it lives, and its state if it has ended.
    fn image_moved(&mut self, moved: &Moved) -> (Image, Option<ImageState>) {
        let Moved { item, body, trail, .. } = moved;
        let Item { id, priority, stage, attempts, deferrals, generation, skipped, .. } = *item;
        let key = body.key.as_ref();
        let key = key.map_or(0, |key| self.key_hash(&body.tenant, &body.queue, key));
        let mut end = None;
        let state = match item.state {
            State::Pending { not_before } => ImageState::Pending { not_before: not_before.0 },
            State::Held { not_before } => ImageState::Held { not_before: not_before.0 },
            State::Leased { lease } => ImageState::Leased { lease },
            State::Split => ImageState::Split,
            State::Done(how) => {
                let at = trail.as_ref().and_then(|trail| trail.finished_at);
                let at = at.unwrap_or_else(|| id.created_at());
                end = Some(ImageState::Done { end: how, at });
                ImageState::Pending { not_before: 0 }
            }
        };
        let place = item.place.map(|place| PlaceImage {
            parent: place.parent.serial(),
            generation: place.generation,
            ordinal: place.ordinal,
            level: place.level,
        });
        let image = Image {
            serial: id.serial(),
            queue: self.text(&body.queue),
            kind: self.text(&body.kind),
            tenant: self.text(&body.tenant),
            route: self.route_no(&body.route),
            group: body.group.clone(),
            stage,
            priority,
            state,
            attempts,
            deferrals,
            generation,
            skipped,
            marks: item.marks,
            key,
            place,
            body: None,
            trail: None,
        };
        (image, end)
    }
}
