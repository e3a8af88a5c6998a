//! How the embedded store takes the changes that the rules decided.
//!
//! Each change updates the tables at once and leaves its record in the outbox. Nothing here can
//! refuse: a panic here stops the process, because memory and log would no longer agree.

use std::cmp::Reverse;
use std::sync::Arc;

use windrow_core::change::{Change, Created};
use windrow_core::invariants::check_step;
use windrow_core::item::{Body, Item, Marks, State, Status};
use windrow_core::planted::{Bug, is_planted};
use windrow_core::ports::Happened;
use windrow_core::resource::Resource;
use windrow_core::trail::Trail;
use windrow_core::transitions::Event;
use windrow_core::{ItemId, Timestamp};

use super::codec::body::{BodyNames, put_body};
use super::codec::record::{Image, ImageState, PlaceImage, tag};
use super::codec::{Pack, put_serial};
use super::ledger::nowhere;
use super::log::LogError;
use super::outbox::Target;
use super::schedule::lanes::{Lane, LaneName};
use super::schedule::slab::{Rank, Slot, SlotNo, Spot, StateTag};
use super::shelves::put_note;
use super::tables::Tables;

/// A command's records beyond this many bytes may go to more than one group.
const LARGE_BYTES: usize = 8 << 20;

/// Times of items that wait for them no more, kept until they are worth a look.
const UNDELAYED_KEPT: usize = 1024;

/// What an item was before it changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Was {
    /// None if it was not there.
    pub(crate) status: Option<Status>,
    pub(crate) lane: u32,
    /// Since when it waited to be claimed, or was in work.
    pub(crate) since: Option<Timestamp>,
}

impl Tables {
    pub(crate) fn flush_if_large(&mut self) {
        if self.out.bytes.len() > LARGE_BYTES.min(self.command_bytes_max / 2) {
            self.flush_or_stop();
        }
    }

    /// Sends the outbox to the log. Memory has changed already, so there is no way back.
    pub(crate) fn flush_or_stop(&mut self) {
        self.flush(false).unwrap_or_else(|error| self.stop(&error));
    }

    pub(crate) fn stop(&self, error: &LogError) -> ! {
        panic!("what was decided cannot be written: {error}");
    }

    pub(crate) fn take(&mut self, change: Change, now: Timestamp) {
        match change {
            Change::Create(created) => self.create(created, now),
            Change::Item { item, event } => self.change(item, event, now),
            Change::Body { id, body } => self.replace_body(id, &body),
            Change::Trail { id, trail } => self.trail_for = Some((id.serial(), trail)),
            Change::Tally { id, tally } => {
                if self.trees.set_tally(id.serial(), tally) {
                    self.out.tallies.push(id.serial());
                }
            }
            Change::Successor { of, is } => self.succeed(of, is),
            Change::Orphan { parent, generation, over } => {
                self.trees.orphan(parent.serial(), generation, over);
                self.out.push(tag::ORPHAN, Target::Nobody, |out| {
                    put_serial(out, parent.serial());
                    generation.put(out);
                    over.put(out);
                });
            }
            Change::Lease(lease) => {
                self.out.lease(&lease);
                self.leases.put(lease);
            }
            Change::Progress { id, progress } => {
                self.progress.insert(id.serial(), progress);
            }
            Change::Remove { id } => self.remove(id),
            Change::Fold { root } => self.fold(root),
            Change::Paused { scope, paused } => {
                if !is_planted(Bug::PauseForgotten) {
                    self.out.push(tag::PAUSED, Target::Nobody, |out| {
                        scope.put(out);
                        paused.put(out);
                    });
                }
                self.set_paused(scope, paused);
            }
            Change::Settings { queue, settings } => {
                self.text(&queue);
                self.out.push(tag::SETTINGS, Target::Nobody, |out| {
                    queue.put(out);
                    settings.put(out);
                });
                self.configure(&queue, *settings);
            }
            Change::Gate { resource, state } => self.gate(resource, state, now),
            Change::Blob { tenant, blob, references } => {
                let no = self.text(&tenant);
                self.out.push(tag::BLOB, Target::Nobody, |out| {
                    tenant.put(out);
                    blob.put(out);
                    references.put(out);
                });
                self.refer(no, blob, references);
            }
            Change::Note { shelf, name, version, body } => {
                self.out.push(tag::NOTE, Target::Nobody, |out| {
                    put_note(out, &shelf, &name, version, body.as_ref());
                });
                self.notes.put(shelf, name, version, body);
            }
            Change::Answered { request, fingerprint, answer } => {
                self.out.push(tag::ANSWERED, Target::Answered(request), |out| {
                    request.put(out);
                    now.put(out);
                    put_serial(out, fingerprint);
                    answer.put(out);
                });
                self.requests.put(request, nowhere(), now);
            }
        }
    }

    fn gate(&mut self, resource: Arc<str>, state: Option<Resource>, now: Timestamp) {
        self.out.push(tag::RESOURCE, Target::Nobody, |out| {
            resource.put(out);
            state.put(out);
        });
        let was = self.know_resource(Arc::clone(&resource), state);
        let is_open = |state: Option<Resource>| state.is_none_or(|of| of.closed_until <= now);
        if !is_open(was) && is_open(state) {
            self.tell_resource(&resource);
        }
    }

    fn create(&mut self, created: Box<Created>, now: Timestamp) {
        let Created { body, place, trail, .. } = &*created;
        let image = self.image_for(&created);
        let place = place.map(|place| PlaceImage {
            parent: place.parent.serial(),
            generation: place.generation,
            ordinal: place.ordinal,
            level: place.level,
        });
        let image = Image { place, marks: created.marks(), ..image };
        let slot = self.slot_of(&image);
        let no = self.slab.insert(slot);
        self.put_body_record(tag::CREATE, no, &image, body);
        if let Some(trail) = trail {
            self.put_trail_record(no, image.serial, trail);
        }
        if let Some(place) = place {
            self.trees.add_child(place.parent, place.generation, place.ordinal, image.serial);
        }
        self.lanes.order(&slot, true);
        if slot.state == StateTag::Pending {
            self.slab.hold_key(no);
        }
        self.enter(no, now);
        let was = Was { status: None, lane: slot.lane, since: None };
        self.count(no, was, Status::Pending, None, now);
        self.spent.push(created);
    }

    fn image_for(&mut self, created: &Created) -> Image {
        let Created { id, ref body, priority, ref state, stage, .. } = *created;
        let key = body.key.as_ref();
        let key = key.map_or(0, |key| self.key_hash(&body.tenant, &body.queue, key));
        let state = match state {
            State::Held { not_before } => ImageState::Held { not_before: not_before.0 },
            State::Pending { not_before } => ImageState::Pending { not_before: not_before.0 },
            _ => unreachable!("an item begins by waiting"),
        };
        Image {
            serial: id.serial(),
            queue: self.text(&body.queue),
            kind: self.text(&body.kind),
            tenant: self.text(&body.tenant),
            route: self.route_no(&body.route),
            group: body.group.clone(),
            stage,
            priority,
            state,
            attempts: 0,
            deferrals: 0,
            generation: 0,
            skipped: 0,
            marks: Marks::default(),
            key,
            place: None,
            body: None,
            trail: None,
        }
    }

    pub(crate) fn body_names(&mut self, body: &Body) -> BodyNames {
        let shared = |text: &Option<Arc<str>>, tables: &mut Tables| {
            text.as_ref().map(|text| tables.text(text))
        };
        BodyNames {
            op: self.text(&body.op),
            collection: shared(&body.collection, self),
            branch: shared(&body.branch, self),
            source_type: shared(&body.source_type, self),
            content_type: shared(&body.content_type, self),
        }
    }

    fn put_body_record(&mut self, tag: u8, no: SlotNo, image: &Image, body: &Body) {
        let names = self.body_names(body);
        self.out.push(tag, Target::Body(no), |out| {
            image.put(out);
            put_body(body, &names, out);
        });
    }

    pub(crate) fn put_trail_record(&mut self, no: SlotNo, serial: u64, trail: &Trail) {
        self.out.push(tag::TRAIL, Target::Trail(no), |out| {
            put_serial(out, serial);
            trail.put(out);
        });
    }

    fn replace_body(&mut self, id: ItemId, body: &Body) {
        let Some(no) = self.find_live(id) else { return };
        let image = self.image(self.slab.get(no));
        self.put_body_record(tag::BODY, no, &image, body);
    }

    /// An item becomes something else.
    fn change(&mut self, item: Item, event: Event, now: Timestamp) {
        let trail = self.trail_for.take().filter(|(serial, _)| *serial == item.id.serial());
        let trail = trail.map(|(_, trail)| trail);
        match self.find_live(item.id) {
            Some(no) => {
                let before = self.item_in(no);
                check_step(&before, &item, event);
                self.step(no, &before, &item, event, trail, now);
            }
            None => self.revive(&item, event, trail, now),
        }
    }

    fn step(
        &mut self,
        no: SlotNo,
        before: &Item,
        after: &Item,
        event: Event,
        trail: Option<Box<Trail>>,
        now: Timestamp,
    ) {
        let old = *self.slab.get(no);
        let was = self.was(&old, before);
        if before.has(Marks::PARENT) && !after.has(Marks::PARENT) {
            self.trees.drop_tally(old.serial);
        }
        let keeps_lease = before.lease().is_some() && before.lease() == after.lease();
        if !keeps_lease {
            self.leave(no);
        }
        let moves_on = after.stage != before.stage || after.is_done();
        if moves_on {
            self.lanes.order(&old, false);
        }
        if let State::Done(end) = after.state {
            self.write_slot(no, after);
            return self.finish(no, was, after, end, trail, now, event);
        }
        self.write_slot(no, after);
        let slot = *self.slab.get(no);
        if moves_on {
            self.lanes.order(&slot, true);
        }
        if old.state == StateTag::Held && slot.state == StateTag::Pending {
            self.slab.hold_key(no);
        }
        if let State::Leased { lease } = after.state
            && !keeps_lease
        {
            let lease = self.leases.number(lease);
            self.leases.link(&mut self.slab, lease, no);
            self.lanes.load(&slot, true);
        }
        self.enter(no, now);
        if event == Event::Claim {
            self.out.grant(slot.serial, slot.attempts);
        } else {
            let image = Image { body: None, trail: None, ..self.image(self.slab.get(no)) };
            self.out.push(tag::STATE, Target::Nobody, |out| image.put(out));
        }
        if let Some(trail) = trail {
            self.progress.remove(&slot.serial);
            self.put_trail_record(no, slot.serial, &trail);
        }
        self.track_marks(after);
        self.count(no, was, after.status(), Some(event), now);
    }

    /// Keeps the lists of items with a mark that somebody looks for.
    pub(crate) fn track_marks(&mut self, item: &Item) {
        let (serial, is_live) = (item.id.serial(), !item.is_done());
        let lists = [
            (Marks::CANCELLING, &mut self.cancelling),
            (Marks::QUARANTINED, &mut self.quarantined),
        ];
        for (mark, list) in lists {
            if is_live && item.has(mark) {
                list.insert(serial);
            } else {
                list.remove(&serial);
            }
        }
    }

    /// Takes a slot out of whatever list it is in.
    pub(crate) fn leave(&mut self, no: SlotNo) {
        let slot = *self.slab.get(no);
        match slot.spot {
            Spot::Line | Spot::Late => self.lanes.leave(&mut self.slab, no),
            Spot::Lease => {
                self.leases.unlink(&mut self.slab, no);
                self.lanes.load(&slot, false);
            }
            Spot::Delayed => self.slab.get_mut(no).spot = Spot::Nowhere,
            Spot::Nowhere => {}
        }
        if slot.state == StateTag::Pending {
            self.lanes.get_mut(slot.lane).pending -= 1;
            self.tell_those_behind(slot.lane);
        }
    }

    /// Lanes that hold back while too much waits in this lane's stage may go on now.
    fn tell_those_behind(&mut self, lane: u32) {
        if self.ahead_lanes.is_empty() {
            return;
        }
        let LaneName { queue, stage, .. } = self.lanes.get(lane).name;
        let stage = Arc::clone(self.names.text(stage));
        for behind in self.ahead_lanes.clone() {
            let Lane { name, policy, .. } = self.lanes.get(behind);
            let Some(ahead) = policy.ahead.as_ref().filter(|_| name.queue == queue) else {
                continue;
            };
            if ahead.stage == stage && self.waiting_in(queue, &stage) + 1 == ahead.max {
                self.lanes.tell_all(behind);
            }
        }
    }

    /// Puts a waiting slot in line, or aside until its time.
    pub(crate) fn enter(&mut self, no: SlotNo, now: Timestamp) {
        let slot = *self.slab.get(no);
        if slot.state != StateTag::Pending {
            return;
        }
        self.lanes.get_mut(slot.lane).pending += 1;
        let quarantined = Marks::from_bits(slot.marks).has(Marks::QUARANTINED);
        if quarantined {
            return;
        }
        if slot.until > now.0.max(self.now.0) {
            self.slab.get_mut(no).spot = Spot::Delayed;
            self.delayed.push(Reverse((slot.until, slot.serial, no)));
            self.forget_undelayed();
        } else {
            self.enter_line(no);
        }
    }

    /// Drops the times of items that wait for them no more, once they are the most.
    fn forget_undelayed(&mut self) {
        let Tables { delayed, slab, .. } = self;
        if delayed.len() > 2 * slab.live() + UNDELAYED_KEPT {
            let mut kept = std::mem::take(delayed).into_vec();
            kept.retain(|Reverse((until, serial, no))| {
                let slot = slab.get(*no);
                (slot.serial, slot.until, slot.spot) == (*serial, *until, Spot::Delayed)
            });
            kept.sort_unstable();
            kept.dedup();
            *delayed = kept.into();
        }
    }

    pub(crate) fn enter_line(&mut self, no: SlotNo) {
        self.lanes.join(&mut self.slab, no);
    }

    pub(crate) fn write_slot(&mut self, no: SlotNo, item: &Item) {
        let lane = self.lane(item.queue.0, item.kind.0, item.route.0, item.stage);
        let slot = self.slab.get_mut(no);
        slot.lane = lane;
        slot.stage = item.stage;
        slot.rank = Rank::new(item.priority, slot.rank.level());
        slot.attempts = item.attempts;
        slot.deferrals = item.deferrals;
        slot.generation = item.generation;
        slot.skipped = item.skipped;
        slot.marks = item.marks.bits();
        (slot.state, slot.until) = match item.state {
            State::Pending { not_before } => (StateTag::Pending, not_before.0),
            State::Held { not_before } => (StateTag::Held, not_before.0),
            State::Leased { .. } => (StateTag::Leased, 0),
            State::Split | State::Done(_) => (StateTag::Split, 0),
        };
    }

    fn succeed(&mut self, of: ItemId, is: Option<ItemId>) {
        match is {
            Some(is) => self.successors.insert(of.serial(), is.serial()),
            None => self.successors.remove(&of.serial()),
        };
        self.out.push(tag::SUCCESSOR, Target::Nobody, |out| {
            put_serial(out, of.serial());
            is.map(ItemId::serial).put(out);
        });
    }

    /// What an item is before it changes.
    fn was(&self, slot: &Slot, item: &Item) -> Was {
        let since = item.since(|_| self.leases.granted(slot.lease));
        Was { status: Some(item.status()), lane: slot.lane, since }
    }

    /// Keeps the counts, and notes what happened for those who listen.
    pub(crate) fn count(
        &mut self,
        no: SlotNo,
        was: Was,
        status: Status,
        event: Option<Event>,
        now: Timestamp,
    ) {
        let slot = self.slab.get(no);
        let queue = self.lanes.get(slot.lane).name.queue;
        let (tenant, stage, serial) = (slot.tenant, slot.stage, slot.serial);
        let owner = self.owners.number(queue, tenant);
        let Was { status: from, lane, since } = was;
        if from != Some(status) {
            self.owners.moved(owner, from, Some(status));
        }
        if self.notices.wanted && (from != Some(status) || event != Some(Event::Mark)) {
            let happened = Happened {
                id: self.id(serial),
                at: now,
                queue: Arc::clone(self.names.text(queue)),
                tenant: Arc::clone(self.names.text(tenant)),
                stage,
                status,
                event,
                in_stage: Arc::clone(self.names.text(self.lanes.get(lane).name.stage)),
                since,
            };
            self.notices.happened.push(happened);
        }
    }
}
