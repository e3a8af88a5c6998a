//! How the embedded store takes the changes that the rules decided.
//!
//! Each change updates the tables at once and leaves its record in the outbox. Nothing here can
//! refuse: a panic here stops the process, because memory and log would no longer agree.

use std::cmp::Reverse;
use std::sync::Arc;

use windrow_core::change::{Change, Created};
use windrow_core::command::Scope;
use windrow_core::invariants::{check_item, check_step};
use windrow_core::item::{BlobRef, Body, End, Item, Marks, State, Status};
use windrow_core::planted::{Bug, is_planted};
use windrow_core::ports::Happened;
use windrow_core::settings::{Settings, Unique};
use windrow_core::trail::Trail;
use windrow_core::transitions::Event;
use windrow_core::{ItemId, Timestamp};

use super::codec::body::{BodyNames, put_body};
use super::codec::record::{Image, ImageState, PlaceImage, Removed, tag};
use super::codec::{Pack, put_serial};
use super::ledger::nowhere;
use super::log::LogError;
use super::outbox::Target;
use super::schedule::history::{Entry, seconds};
use super::schedule::slab::{NIL, Slot, SlotNo, Spot, StateTag};
use super::tables::Tables;

/// A command's records beyond this many bytes may go to more than one group.
const LARGE_BYTES: usize = 8 << 20;

impl Tables {
    pub(crate) fn flush_if_large(&mut self) {
        if self.out.bytes.len() > LARGE_BYTES {
            self.flush_or_stop();
        }
    }

    /// Sends the outbox to the log. Memory has changed already, so there is no way back.
    pub(crate) fn flush_or_stop(&mut self) {
        if let Err(error) = self.flush() {
            self.stop(&error);
        }
    }

    fn stop(&mut self, error: &LogError) {
        panic!("what was decided cannot be written: {error}");
    }

    pub(crate) fn take(&mut self, change: Change, now: Timestamp) {
        match change {
            Change::Create(created) => self.create(*created, now),
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
            Change::Gate { resource, closed_until } => {
                self.out.push(tag::GATE, Target::Nobody, |out| {
                    resource.put(out);
                    closed_until.put(out);
                });
                self.gates.insert(resource, closed_until);
            }
            Change::Blob { tenant, blob, references } => {
                let no = self.text(&tenant);
                // One that loses its last reference goes; one just stored has none yet.
                let was_used = self.blobs.get(&(no, blob)).is_some_and(|known| *known > 0);
                let references = (references > 0 || !was_used).then_some(references);
                self.out.push(tag::BLOB, Target::Nobody, |out| {
                    tenant.put(out);
                    blob.put(out);
                    references.put(out);
                });
                self.refer(no, blob, references);
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

    fn create(&mut self, created: Created, now: Timestamp) {
        let Created { id, body, priority, state, stage, place, trail } = created;
        let image = self.image_for(id, &body, priority, state, stage);
        let place = place.map(|place| PlaceImage {
            parent: place.parent.serial(),
            generation: place.generation,
            ordinal: place.ordinal,
            level: place.level,
        });
        let mut marks = Marks::default();
        if body.key.is_some() {
            marks = marks.with(Marks::KEYED);
        }
        if body.payload.blob().is_some() {
            marks = marks.with(Marks::BLOB);
        }
        if trail.is_some() {
            marks = marks.with(Marks::TRAIL);
        }
        let image = Image { place, marks, ..image };
        let slot = self.slot_of(&image);
        let no = self.slab.insert(slot);
        self.put_body_record(tag::CREATE, no, &image, &body);
        if let Some(trail) = trail {
            self.put_trail_record(no, image.serial, &trail);
        }
        if let Some(place) = place {
            self.trees.add_child(place.parent, place.generation, place.ordinal, image.serial);
        }
        self.lanes.order(&self.slab, &slot, true);
        if slot.state == StateTag::Pending {
            self.slab.hold_key(no);
        }
        self.enter(no, now);
        self.count(no, None, Status::Pending, None, now);
    }

    fn image_for(
        &mut self,
        id: ItemId,
        body: &Body,
        priority: u8,
        state: State,
        stage: u8,
    ) -> Image {
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

    fn body_names(&mut self, body: &Body) -> BodyNames {
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

    fn put_trail_record(&mut self, no: SlotNo, serial: u64, trail: &Trail) {
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
        let keeps_lease = before.lease().is_some() && before.lease() == after.lease();
        if !keeps_lease {
            self.leave(no);
        }
        let moves_on = after.stage != before.stage || after.is_done();
        if moves_on {
            self.lanes.order(&self.slab, &old, false);
        }
        if let State::Done(end) = after.state {
            self.write_slot(no, after);
            return self.finish(no, before, after, end, trail, now, event);
        }
        self.write_slot(no, after);
        let slot = *self.slab.get(no);
        if moves_on {
            self.lanes.order(&self.slab, &slot, true);
        }
        if old.state == StateTag::Held && slot.state == StateTag::Pending {
            self.slab.hold_key(no);
        }
        if let State::Leased { lease } = after.state
            && !keeps_lease
        {
            let lease = self.leases.number(lease);
            self.leases.link(&mut self.slab, lease, no);
            self.lanes.load(&self.slab, &slot, true);
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
        self.track_cancelling(after);
        self.count(no, Some(before.status()), after.status(), Some(event), now);
    }

    fn track_cancelling(&mut self, item: &Item) {
        if item.has(Marks::CANCELLING) && !item.is_done() {
            self.cancelling.insert(item.id.serial());
        } else {
            self.cancelling.remove(&item.id.serial());
        }
    }

    /// Takes a slot out of whatever list it is in.
    fn leave(&mut self, no: SlotNo) {
        let slot = *self.slab.get(no);
        match slot.spot {
            Spot::Line | Spot::Late => self.lanes.leave(&mut self.slab, no),
            Spot::Lease => {
                self.leases.unlink(&mut self.slab, no);
                self.lanes.load(&self.slab, &slot, false);
            }
            Spot::Delayed => self.slab.get_mut(no).spot = Spot::Nowhere,
            Spot::Nowhere => {}
        }
        if slot.state == StateTag::Pending {
            self.lanes.get_mut(slot.lane).pending -= 1;
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
        } else {
            self.enter_line(no);
        }
    }

    pub(crate) fn enter_line(&mut self, no: SlotNo) {
        self.lanes.join(&mut self.slab, no);
        if self.notices.wanted {
            let slot = self.slab.get(no);
            *self.notices.ready.entry((slot.lane, slot.tenant)).or_default() += 1;
        }
    }

    fn write_slot(&mut self, no: SlotNo, item: &Item) {
        let lane = self.lane(item.queue.0, item.kind.0, item.route.0, item.stage);
        let slot = self.slab.get_mut(no);
        slot.lane = lane;
        slot.stage = item.stage;
        slot.priority = item.priority;
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

    /// An item ends: it leaves the slab for history.
    #[expect(clippy::too_many_arguments, reason = "one call, and all of it is needed")]
    fn finish(
        &mut self,
        no: SlotNo,
        before: &Item,
        after: &Item,
        end: End,
        trail: Option<Box<Trail>>,
        now: Timestamp,
        event: Event,
    ) {
        check_item(after);
        let slot = *self.slab.get(no);
        self.place_body(no);
        let slot = Slot { body: self.slab.get(no).body, ..slot };
        let trail = trail.unwrap_or_else(|| Box::new(Trail::default()));
        let at = trail.finished_at.unwrap_or(now);
        let mut image = self.image(&slot);
        image.state = ImageState::Done { end, at };
        image.trail = None;
        self.count(no, Some(before.status()), after.status(), Some(event), now);
        self.slab.free_key(no);
        self.cancelling.remove(&slot.serial);
        self.progress.remove(&slot.serial);
        let owner = self.owners.number(image.queue, image.tenant);
        if slot.group != NIL {
            self.groups.leave(slot.group);
        }
        self.slab.remove(no);
        self.out.push(tag::FINISH, Target::Finished(image.serial), |out| {
            image.put(out);
            trail.put(out);
        });
        self.remember(&image, owner, end, at);
    }

    /// Enters an ended item into history and what is derived from it.
    pub(crate) fn remember(&mut self, image: &Image, owner: u32, end: End, at: Timestamp) {
        let root = image.place.is_none();
        let (serial, ended_s) = (image.serial, seconds(at));
        self.history.push(Entry { serial, at: nowhere(), owner, end, root, ended_s });
        let settings = Arc::clone(self.settings_no(image.queue));
        if root {
            self.owners.kept(owner, true, settings.retention.max_per_tenant);
            let whole = self.trees.tally(serial).is_some_and(|tally| tally.gaps == 0);
            if image.marks.has(Marks::PARENT) && whole {
                self.unfolded.insert((ended_s, serial));
            }
        }
        if settings.unique == Unique::Retained && image.key != 0 {
            self.retained.insert(image.key, serial);
        }
    }

    /// A body that waits in the outbox must have a place before its slot goes.
    fn place_body(&mut self, no: SlotNo) {
        if self.slab.get(no).body.is_none() {
            self.flush_or_stop();
        }
    }

    /// Takes an ended item out of history and what is derived from it.
    fn forget(&mut self, entry: &Entry, image: Option<&Image>) {
        self.unfolded.remove(&(entry.ended_s, entry.serial));
        if entry.root {
            let queue = self.owners.get(entry.owner).queue;
            let max = self.settings_no(queue).retention.max_per_tenant;
            self.owners.kept(entry.owner, false, max);
        }
        if let Some(image) = image
            && self.retained.get(&image.key) == Some(&entry.serial)
        {
            self.retained.remove(&image.key);
        }
    }

    /// An ended item runs again.
    fn revive(&mut self, item: &Item, event: Event, trail: Option<Box<Trail>>, now: Timestamp) {
        let entry = self.history.find(item.id.serial()).expect("Q6: a known item");
        let image = self.image_of(&entry).expect("it was read to decide this");
        check_step(&self.item_of(&image), item, event);
        self.history.remove(entry.serial);
        self.forget(&entry, Some(&image));
        let slot = self.slot_of(&image);
        let no = self.slab.insert(slot);
        self.write_slot(no, item);
        let slot = *self.slab.get(no);
        self.slab.hold_key(no);
        self.lanes.order(&self.slab, &slot, true);
        self.enter(no, now);
        let image = Image { trail: None, ..self.image(&slot) };
        self.out.push(tag::STATE, Target::Nobody, |out| image.put(out));
        if let Some(trail) = trail {
            self.put_trail_record(no, slot.serial, &trail);
        }
        self.track_cancelling(item);
        self.count(no, Some(entry.end.into()), item.status(), Some(event), now);
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

    fn remove(&mut self, id: ItemId) {
        let serial = id.serial();
        let Some(entry) = self.history.find(serial) else {
            if is_planted(Bug::RetentionTakesLive)
                && let Some(no) = self.find_live(id)
            {
                self.leave(no);
                self.slab.free_key(no);
                self.slab.remove(no);
                self.out.remove(Removed { serial, place: None });
            }
            return;
        };
        let queue = self.owners.get(entry.owner).queue;
        let keeps_keys = self.settings_no(queue).unique == Unique::Retained;
        let image = (!entry.root || keeps_keys).then(|| self.image_of(&entry).ok()).flatten();
        let place = image.as_ref().and_then(|image| image.place);
        self.history.remove(serial);
        self.forget(&entry, image.as_ref());
        self.owners.moved(entry.owner, Some(entry.end.into()), None);
        if let Some(place) = place {
            self.trees.remove_child(place.parent, place.generation, place.ordinal);
        }
        self.trees.remove(serial);
        self.out.remove(Removed { serial, place });
    }

    /// Everything below an ended root goes; its counts stay.
    fn fold(&mut self, root: ItemId) {
        let serial = root.serial();
        let mut doomed = Vec::new();
        let mut parents = vec![serial];
        while let Some(parent) = parents.pop() {
            for (_, _, child) in self.trees.all_children(parent) {
                doomed.push(child);
                parents.push(child);
            }
        }
        for child in doomed.into_iter().rev() {
            self.remove(self.id(child));
        }
        if let Some(entry) = self.history.find(serial) {
            self.unfolded.remove(&(entry.ended_s, serial));
        }
        self.trees.fold(serial);
        self.out.push(tag::FOLDED, Target::Nobody, |out| put_serial(out, serial));
    }

    pub(crate) fn set_paused(&mut self, scope: Scope, paused: bool) {
        if paused {
            self.pauses.scopes.insert(scope);
        } else {
            self.pauses.scopes.remove(&scope);
        }
        let scopes: Vec<Scope> = self.pauses.scopes.iter().cloned().collect();
        let (mut queues, mut stages) = (Vec::new(), Vec::new());
        let (mut tenants, mut cells) = (Vec::new(), Vec::new());
        for scope in scopes {
            let queue = self.text(&scope.queue);
            let stage = scope.stage.map(|stage| self.text(&stage));
            let tenant = scope.tenant.map(|tenant| self.text(&tenant));
            match (stage, tenant) {
                (None, None) => queues.push(queue),
                (Some(stage), None) => stages.push((queue, stage)),
                (None, Some(tenant)) => tenants.push((queue, tenant)),
                (Some(stage), Some(tenant)) => cells.push((queue, stage, tenant)),
            }
        }
        self.pauses.queues = queues.into_iter().collect();
        self.pauses.stages = stages.into_iter().collect();
        self.pauses.tenants = tenants.into_iter().collect();
        self.pauses.cells = cells.into_iter().collect();
    }

    /// How many items refer to a blob; none if it is gone.
    pub(crate) fn refer(&mut self, tenant: u32, blob: BlobRef, references: Option<u32>) {
        match references {
            Some(references) => self.blobs.insert((tenant, blob), references),
            None => self.blobs.remove(&(tenant, blob)),
        };
    }

    /// New settings: every lane of the queue gets its policy and its items line up anew.
    pub(crate) fn configure(&mut self, queue: &Arc<str>, settings: Settings) {
        let queue = self.text(queue);
        let settings = Arc::new(settings);
        let in_line = |slot: &Slot| matches!(slot.spot, Spot::Line | Spot::Late);
        let of_queue: Vec<SlotNo> = self
            .slab
            .iter()
            .filter(|(_, slot)| self.lanes.get(slot.lane).name.queue == queue)
            .map(|(no, _)| no)
            .collect();
        let lined: Vec<SlotNo> =
            of_queue.iter().copied().filter(|no| in_line(self.slab.get(*no))).collect();
        lined.iter().for_each(|no| self.lanes.leave(&mut self.slab, *no));
        for no in &of_queue {
            let slot = *self.slab.get(*no);
            self.lanes.order(&self.slab, &slot, false);
        }
        let lanes: Vec<u32> =
            self.lanes.iter().filter(|(_, l)| l.name.queue == queue).map(|(no, _)| no).collect();
        for lane in lanes {
            let name = self.lanes.get(lane).name;
            let (stage, kind) = (self.names.text(name.stage), self.names.text(name.kind));
            self.lanes.get_mut(lane).policy = settings.policy(stage, kind);
        }
        self.settings.insert(queue, settings);
        for no in of_queue {
            let slot = *self.slab.get(no);
            self.lanes.order(&self.slab, &slot, true);
        }
        lined.into_iter().for_each(|no| self.lanes.join(&mut self.slab, no));
        let Tables { owners, settings, default_settings, .. } = self;
        let of = |queue: u32| settings.get(&queue).unwrap_or(default_settings);
        owners.review(|queue| of(queue).retention.max_per_tenant);
    }

    /// Keeps the counts, and notes what happened for those who listen.
    fn count(
        &mut self,
        no: SlotNo,
        from: Option<Status>,
        status: Status,
        event: Option<Event>,
        now: Timestamp,
    ) {
        let slot = self.slab.get(no);
        let queue = self.lanes.get(slot.lane).name.queue;
        let (tenant, stage, serial) = (slot.tenant, slot.stage, slot.serial);
        let owner = self.owners.number(queue, tenant);
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
            };
            self.notices.happened.push(happened);
        }
    }
}
