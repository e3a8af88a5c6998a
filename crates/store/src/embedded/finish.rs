//! How items leave the slab for history, come back, and go for good.

use std::sync::Arc;

use windrow_core::invariants::{check_item, check_step};
use windrow_core::item::{End, Item, Marks};
use windrow_core::planted::{Bug, is_planted};
use windrow_core::settings::Unique;
use windrow_core::trail::Trail;
use windrow_core::transitions::Event;
use windrow_core::{ItemId, Timestamp};

use super::apply::Was;
use super::codec::record::{Image, ImageState, Removed, tag};
use super::codec::{Pack, put_serial};
use super::ledger::nowhere;
use super::outbox::Target;
use super::schedule::history::{Entry, seconds};
use super::schedule::slab::{NIL, Slot, SlotNo};
use super::tables::Tables;

impl Tables {
    /// An item ends: it leaves the slab for history.
    #[expect(clippy::too_many_arguments, reason = "one call, and all of it is needed")]
    pub(crate) fn finish(
        &mut self,
        no: SlotNo,
        was: Was,
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
        self.count(no, was, after.status(), Some(event), now);
        self.slab.free_key(no);
        self.cancelling.remove(&slot.serial);
        self.quarantined.remove(&slot.serial);
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
        let settings = Arc::clone(self.settings.of(image.queue));
        if root {
            let max = self.settings.keeps(image.queue).max_per_tenant;
            self.owners.kept(owner, true, max);
            let whole = self.trees.tally(serial).is_some_and(|tally| tally.gaps == 0);
            if image.marks.has(Marks::PARENT) && whole {
                self.unfolded.insert((ended_s, serial));
            }
        }
        if settings.unique == Unique::Retained && image.key != 0 {
            self.retained.insert((image.key, ended_s, serial));
        }
    }

    /// A body that waits in the outbox must have a place before its slot goes.
    fn place_body(&mut self, no: SlotNo) {
        if self.slab.get(no).body.is_none() {
            self.flush(true).unwrap_or_else(|error| self.stop(&error));
        }
    }

    /// Takes an ended item out of history and what is derived from it.
    fn forget(&mut self, entry: &Entry, image: Option<&Image>) {
        self.unfolded.remove(&(entry.ended_s, entry.serial));
        if entry.root {
            let queue = self.owners.get(entry.owner).queue;
            let max = self.settings.keeps(queue).max_per_tenant;
            self.owners.kept(entry.owner, false, max);
        }
        if let Some(image) = image {
            self.retained.remove(&(image.key, entry.ended_s, entry.serial));
        }
    }

    /// An ended item runs again.
    pub(crate) fn revive(
        &mut self,
        item: &Item,
        event: Event,
        trail: Option<Box<Trail>>,
        now: Timestamp,
    ) {
        let entry = self.history.find(item.id.serial()).expect("Q6: a known item");
        let image = self.image_of(&entry).expect("it was read to decide this");
        check_step(&self.item_of(&image), item, event);
        self.history.remove(entry.serial);
        self.forget(&entry, Some(&image));
        if !item.has(Marks::PARENT) {
            self.trees.drop_tally(entry.serial);
        }
        let slot = self.slot_of(&image);
        let no = self.slab.insert(slot);
        self.write_slot(no, item);
        let slot = *self.slab.get(no);
        self.slab.hold_key(no);
        self.lanes.order(&slot, true);
        self.enter(no, now);
        let image = Image { trail: None, ..self.image(&slot) };
        if let Some(revived) = &mut self.revived {
            revived.push(slot.serial);
        }
        self.out.push(tag::STATE, Target::Nobody, |out| image.put(out));
        if let Some(trail) = trail {
            self.put_trail_record(no, slot.serial, &trail);
        }
        self.track_marks(item);
        let was = Was { status: Some(entry.end.into()), lane: slot.lane, since: None };
        self.count(no, was, item.status(), Some(event), now);
    }

    pub(crate) fn remove(&mut self, id: ItemId) {
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
        let keeps_keys = self.settings.of(queue).unique == Unique::Retained;
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
    pub(crate) fn fold(&mut self, root: ItemId) {
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
}
