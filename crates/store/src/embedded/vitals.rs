//! How the store itself is: what waits, what is closed, how much room there is.

use std::sync::Arc;

use windrow_core::Timestamp;
use windrow_core::ports::StoreError;
use windrow_core::vitals::{Closed, InLine, Room, Standing, Standings, Vitals, Waiting};

use super::Embedded;
use super::log::Space;
use super::schedule::slab::SlotNo;
use super::tables::Tables;

impl Embedded {
    /// Waits for the disk, as every read does: a disk that hangs shows here.
    pub(super) async fn look_after(&self, now: Timestamp) -> Result<Vitals, StoreError> {
        let vitals = self.look(|tables| {
            let at = now.max(tables.now);
            let all = tables.gates.iter().map(|(resource, state)| Closed {
                resource: Arc::clone(resource),
                until: state.closed_until,
            });
            let closed = all.filter(|closed| closed.until > at);
            let mut closed: Vec<Closed> = closed.collect();
            closed.sort();
            Ok(Vitals {
                at,
                closed,
                waiting: tables.first_in_line(at),
                quarantined: tables.quarantined.len() as u64,
                used_bytes: Some(tables.segments.total_bytes()),
                warnings: tables.unhealthy.borrow().iter().cloned().collect(),
                ..Vitals::default()
            })
        });
        let mut vitals = vitals.await?;
        vitals.disk = self.shared.disk.space();
        vitals.room = self.room();
        // The keeper is busy while it works; what it has to say can wait until the next look.
        if let Some(keeper) = self.shared.keeper.try_lock() {
            vitals.warnings.extend(keeper.trouble().cloned());
        }
        Ok(vitals)
    }

    fn room(&self) -> Room {
        match self.shared.writer.lock().space() {
            Space::Plenty => Room::Plenty,
            Space::Reserve => Room::Reserve,
            Space::None => Room::None,
        }
    }
}

impl Tables {
    /// Since when the first in line of each queue waits.
    fn first_in_line(&mut self, now: Timestamp) -> Vec<Waiting> {
        let mut first = Vec::new();
        for lane in 0..self.lanes.iter().count() as u32 {
            let name = self.lanes.get(lane).name;
            let text = |no: u32| Arc::clone(self.names.text(no));
            let (queue, stage) = (text(name.queue), text(name.stage));
            let in_line = |since, is_held| InLine {
                queue: Arc::clone(&queue),
                stage: Arc::clone(&stage),
                since,
                is_held,
            };
            if self.is_held(lane, now) {
                let oldest = self.lanes.oldest_in(lane, |_| true);
                first.extend(oldest.map(|no| in_line(self.since(no), true)));
                continue;
            }
            let Tables { lanes, pauses, .. } = self;
            let is_paused = |tenant: u32| {
                pauses.tenants.contains(&(name.queue, tenant))
                    || pauses.cells.contains(&(name.queue, name.stage, tenant))
            };
            let open = lanes.oldest_in(lane, |tenant| !is_paused(tenant));
            let held = match pauses.tenants.is_empty() && pauses.cells.is_empty() {
                true => None,
                false => lanes.oldest_in(lane, is_paused),
            };
            first.extend(open.map(|no| in_line(self.since(no), false)));
            first.extend(held.map(|no| in_line(self.since(no), true)));
        }
        Waiting::first_of(first.into_iter())
    }

    /// Whether a lane is held back as a whole. Too much ahead does not count: what is ahead waits
    /// itself, and says so.
    fn is_held(&self, lane: u32, now: Timestamp) -> bool {
        let lane = self.lanes.get(lane);
        let (queue, stage) = (lane.name.queue, lane.name.stage);
        let resource = lane.policy.resource.as_ref().and_then(|name| self.gates.get(name));
        self.pauses.queues.contains(&queue)
            || self.pauses.stages.contains(&(queue, stage))
            || resource.is_some_and(|resource| resource.closed_until > now)
    }

    /// How stages stand. What waits is counted as it comes and goes; what runs is looked at.
    pub(super) fn standings(&mut self) -> Vec<Standing> {
        let mut all = Standings::default();
        for lane in 0..self.lanes.iter().count() as u32 {
            let pending = self.lanes.get(lane).pending;
            let since = self.lanes.oldest_in(lane, |_| true).map(|no| self.since(no));
            let standing = self.standing(&mut all, lane);
            standing.waiting += pending;
            since.into_iter().for_each(|since| standing.add_first(since));
        }
        for lease in self.leases.iter() {
            for no in self.leases.slots(&self.slab, lease.id) {
                self.standing(&mut all, self.slab.get(no).lane).running += 1;
            }
        }
        all.told()
    }

    fn standing<'a>(&self, all: &'a mut Standings, lane: u32) -> &'a mut Standing {
        let name = self.lanes.get(lane).name;
        let text = |no: u32| Arc::clone(self.names.text(no));
        all.of(text(name.queue), text(name.stage))
    }

    /// Since when an item in line can be claimed.
    fn since(&self, no: SlotNo) -> Timestamp {
        let slot = self.slab.get(no);
        self.id(slot.serial).created_at().max(Timestamp(slot.until))
    }
}
