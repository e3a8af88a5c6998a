//! How the model is: what waits, and what holds it back.

use std::sync::Arc;

use windrow_core::explain::{Reason, explain};
use windrow_core::item::Marks;
use windrow_core::rules::claim::Gate;
use windrow_core::vitals::{Closed, InLine, Standing, Standings, Vitals, Waiting};
use windrow_core::{Item, State as Doing, Timestamp};

use super::state::State;

impl State {
    pub(super) fn vitals(&self, now: Timestamp) -> Vitals {
        let at = now.max(self.now);
        let all = self.gates.iter().map(|(resource, state)| Closed {
            resource: Arc::clone(resource),
            until: state.closed_until,
        });
        let first = self.items.values().filter_map(|item| self.waits(item, at));
        let aside = |item: &&Item| item.has(Marks::QUARANTINED) && !item.is_done();
        Vitals {
            at,
            waiting: Waiting::first_of(first),
            closed: all.filter(|closed| closed.until > at).collect(),
            quarantined: self.items.values().filter(aside).count() as u64,
            ..Vitals::default()
        }
    }

    pub(super) fn standings(&self, now: Timestamp) -> Vec<Standing> {
        let (at, mut all) = (now.max(self.now), Standings::default());
        for item in self.items.values() {
            let Some(body) = self.bodies.get(&item.id) else { continue };
            let stage = Arc::clone(&self.names.route(item.route).stage(item.stage).name);
            let standing = all.of(Arc::clone(&body.queue), stage);
            match item.state {
                Doing::Pending { .. } => standing.waiting += 1,
                Doing::Leased { .. } => standing.running += 1,
                Doing::Held { .. } | Doing::Split | Doing::Done(_) => {}
            }
            if let Some(InLine { since, .. }) = self.waits(item, at) {
                standing.add_first(since);
            }
        }
        all.told()
    }

    /// An item as it stands in line, if it does.
    fn waits(&self, item: &Item, now: Timestamp) -> Option<InLine> {
        let Doing::Pending { not_before } = item.state else { return None };
        let mut is_held = false;
        for reason in explain(self, item.id, now).ok()?.reasons {
            match reason {
                Reason::NextInLine | Reason::Held(Gate::TooMuchAhead { .. }) => {}
                Reason::Held(Gate::Paused | Gate::ResourceClosed { .. }) => is_held = true,
                _ => return None,
            }
        }
        let body = self.bodies.get(&item.id)?;
        let stage = body.route.stages.get(usize::from(item.stage))?;
        Some(InLine {
            queue: body.queue.clone(),
            stage: Arc::clone(&stage.name),
            since: item.id.created_at().max(not_before),
            is_held,
        })
    }
}
