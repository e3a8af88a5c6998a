//! Replay: the records of the log, written down into the tables again.
//!
//! Each record says what something is, so replay keeps no lists and counts nothing; `open.rs`
//! derives all that afterwards.

use std::sync::Arc;

use windrow_core::LeaseId;
use windrow_core::item::Marks;

use super::codec::Malformed;
use super::codec::record::{Image, ImageState, Record, Removed, tag_name};
use super::log::{Group, Loc, LogError};
use super::open::OpenError;
use super::schedule::history::{Entry, seconds};
use super::schedule::slab::{NIL, SlotNo, StateTag};
use super::tables::Tables;

impl Tables {
    pub(crate) fn replay_group(&mut self, group: &Group<'_>, until: u64) -> Result<(), OpenError> {
        // A snapshot is taken while the log grows. Up to where it ended, a record may be about an
        // item that had gone by the time its part of the snapshot was written.
        let may_be_gone = group.position.sequence <= until;
        for record in group.records() {
            let (at, record) = record.map_err(LogError::from)?;
            let what = |_: Malformed| OpenError::Inconsistent {
                at: Some(at),
                what: format!("a {} record is malformed", tag_name(record.tag)),
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
                removed.into_iter().for_each(|removed| self.replay_remove(removed));
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
                let (no, _) = self.names.number(&queue);
                self.settings.say(no, &queue, Arc::new(*settings));
            }
            Record::Resource { name, state } => {
                self.know_resource(name, state);
            }
            Record::Blob { tenant, blob, references } => {
                let (tenant, _) = self.names.number(&tenant);
                self.refer(tenant, blob, references);
            }
            Record::Note { shelf, name, version, body } => {
                self.notes.put(shelf, name, version, body);
            }
            Record::Answered { request, at: when } => self.requests.put(request, at, when),
            Record::Clock(now) => self.now = self.now.max(now),
        }
        true
    }

    fn replay_remove(&mut self, removed: Removed) {
        self.drop_slot(removed.serial);
        self.history.remove_all(removed.serial);
        self.trees.remove(removed.serial);
        if let Some(place) = removed.place {
            self.trees.remove_child(place.parent, place.generation, place.ordinal);
        }
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
        self.history.remove_all(image.serial);
        self.replay_marks(&image);
        self.put_slot(&Image { body, trail, ..image });
        true
    }

    /// An item without children, or whose children were left behind, has no counts.
    fn replay_marks(&mut self, image: &Image) {
        if !image.marks.has(Marks::PARENT) {
            self.trees.drop_tally(image.serial);
        }
    }

    fn replay_grant(&mut self, serial: u64, attempts: u16, lease: LeaseId) -> bool {
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
        self.history.remove_all(image.serial);
        self.replay_marks(image);
        let owner = self.owners.number(image.queue, image.tenant);
        let (serial, root) = (image.serial, image.place.is_none());
        self.ids.seen(serial);
        if let Some(place) = image.place {
            self.trees.add_child(place.parent, place.generation, place.ordinal, serial);
        }
        self.history.push(Entry { serial, at, owner, end, root, ended_s: seconds(ended) });
    }
}
