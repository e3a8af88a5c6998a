//! Pauses, settings, resources and blobs: what operators say, as the tables keep it.

use std::sync::Arc;

use windrow_core::command::Scope;
use windrow_core::item::BlobRef;
use windrow_core::resource::Resource;
use windrow_core::settings::{Settings, Unique};

use super::schedule::history::Entry;
use super::schedule::lanes::Lane;
use super::schedule::slab::{Slot, SlotNo, Spot};
use super::tables::Tables;

/// So many blobs that went are remembered until somebody removes their bytes. Others are found by
/// whoever goes through all bytes.
const DROPPED_MAX: usize = 100_000;

impl Tables {
    pub(crate) fn set_paused(&mut self, scope: Scope, paused: bool) {
        let queue = self.text(&scope.queue);
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
        if !paused {
            self.tell_queue(queue);
        }
    }

    /// What held a whole queue up may be gone: who waits for it is told.
    fn tell_queue(&mut self, queue: u32) {
        let lanes: Vec<u32> =
            self.lanes.iter().filter(|(_, lane)| lane.name.queue == queue).map(|l| l.0).collect();
        lanes.into_iter().for_each(|lane| self.lanes.tell_all(lane));
    }

    /// What is known of a resource from now on; says what it was.
    pub(crate) fn know_resource(
        &mut self,
        name: Arc<str>,
        state: Option<Resource>,
    ) -> Option<Resource> {
        match state {
            Some(state) => self.gates.insert(name, state),
            None => self.gates.remove(&name),
        }
    }

    /// A resource is open: who waits for work that needs it is told.
    pub(crate) fn tell_resource(&mut self, resource: &str) {
        let needs = |lane: &Lane| lane.policy.resource.as_deref() == Some(resource);
        let lanes: Vec<u32> =
            self.lanes.iter().filter(|(_, lane)| needs(lane)).map(|l| l.0).collect();
        lanes.into_iter().for_each(|lane| self.lanes.tell_all(lane));
    }

    /// Which lanes look at what waits further down.
    pub(crate) fn note_ahead(&mut self) {
        let looks = self.lanes.iter().filter(|(_, lane)| lane.policy.ahead.is_some());
        self.ahead_lanes = looks.map(|(no, _)| no).collect();
    }

    /// How many items refer to a blob; none if it is gone.
    pub(crate) fn refer(&mut self, tenant: u32, blob: BlobRef, references: Option<u32>) {
        match references {
            Some(references) => self.blobs.insert((tenant, blob), references),
            None => {
                let was = self.blobs.remove(&(tenant, blob));
                if was.is_some() && self.dropped.len() < DROPPED_MAX {
                    self.dropped.push((tenant, blob));
                }
                was
            }
        };
    }

    /// Keys of ended items begin or cease to count.
    fn keep_keys(&mut self, queue: u32, unique: Unique) {
        if self.settings.of(queue).unique == unique {
            return;
        }
        let of_queue = self.history.iter().filter(|e| self.owners.get(e.owner).queue == queue);
        let entries: Vec<Entry> = of_queue.collect();
        for entry in entries {
            let key = self.image_of(&entry).map_or(0, |image| image.key);
            let kept = (key, entry.ended_s, entry.serial);
            match unique {
                Unique::Retained if key != 0 => self.retained.insert(kept),
                _ => self.retained.remove(&kept),
            };
        }
    }

    /// New settings: every lane of the queue gets its policy and its items line up anew.
    pub(crate) fn configure(&mut self, queue: &Arc<str>, settings: Settings) {
        let (name, queue) = (queue, self.text(queue));
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
            self.lanes.order(&slot, false);
        }
        let lanes: Vec<u32> =
            self.lanes.iter().filter(|(_, l)| l.name.queue == queue).map(|(no, _)| no).collect();
        for lane in lanes {
            let name = self.lanes.get(lane).name;
            let (stage, kind) = (self.names.text(name.stage), self.names.text(name.kind));
            self.lanes.get_mut(lane).policy = settings.policy(stage, kind);
        }
        self.keep_keys(queue, settings.unique);
        self.settings.say(queue, name, settings);
        self.note_ahead();
        for no in of_queue {
            let slot = *self.slab.get(no);
            self.lanes.order(&slot, true);
        }
        lined.into_iter().for_each(|no| self.lanes.join(&mut self.slab, no));
        let Tables { owners, settings, .. } = self;
        owners.review(|queue| settings.keeps(queue).max_per_tenant);
        self.history.forget_ages();
        self.tell_queue(queue);
    }
}
