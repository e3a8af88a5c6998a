//! Resources on a desk, and who is told when one opens.
//!
//! Every server has what is known of them among its settings, and that is enough to leave alone
//! what is closed. Whoever counts on one, or changes it, locks and reads it first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use windrow_core::Timestamp;
use windrow_core::resource::Resource;
use windrow_core::settings::Policy;

use super::desk::Desk;
use super::notify::{Came, add};
use super::tell::RESUMED_MAX;
use super::tx::{Tx, step};
use super::{Error, Postgres};

const OPENED: &str = "select lane, class, tenant, min(serial), count(*) from (\
       select lane, class, tenant, serial from windrow.line where lane = any ($1) limit $2) w \
     group by 1, 2, 3";

impl Desk {
    /// Whether a lane waits until the resource that it needs opens.
    pub(super) fn is_closed(&self, policy: &Policy) -> bool {
        let Some(name) = &policy.resource else { return false };
        let known = self.resources.get(name).or_else(|| self.config().gates.get(name));
        known.is_some_and(|state| state.closed_until > self.now)
    }

    /// Lanes that wait until the resource that they need opens, by what was loaded. What a decision
    /// made of it does not count: if that lacked something, it is made again.
    pub(super) fn closed_lanes(&self) -> BTreeSet<u32> {
        let state = |name: &Arc<str>| self.resources.was(name).or(self.config.gates.get(name));
        let is_closed = |policy: &Policy| {
            let state = policy.resource.as_ref().and_then(state);
            state.is_some_and(|state| state.closed_until > self.now)
        };
        let lanes = self.config.lanes.iter();
        lanes.filter(|(_, lane)| is_closed(&lane.policy)).map(|(no, _)| *no).collect()
    }

    /// What was decided of a resource. Other servers need not know of every token that is taken:
    /// who counts on a resource that is not calm reads it.
    pub(super) fn know_resource(&mut self, name: Arc<str>, state: Option<Resource>) {
        let shown = |of: &Resource| (of.closed_until, of.limits, of.is_calm());
        let known = self.config().gates.get(&name).map(shown);
        if known != state.as_ref().map(shown) {
            self.change_config(|config| {
                match state {
                    Some(state) => config.gates.insert(Arc::clone(&name), state),
                    None => config.gates.remove(&name),
                };
            });
        }
        self.resources.set(name, state);
    }
}

impl Postgres {
    /// What waits for resources that opened by themselves since this was last asked.
    pub(super) async fn opened(&self, came: &mut Came) -> Result<(), Error> {
        let (config, now) = (Arc::clone(&self.shared.config.lock()), self.shared.latest());
        let before = Timestamp(self.shared.opened.swap(now.0, Ordering::Relaxed));
        let opened = config.opens(before, now);
        let lanes: Vec<i32> =
            opened.flat_map(|name| config.needing(name)).map(|no| no as i32).collect();
        if lanes.is_empty() {
            return Ok(());
        }
        let client = self.shared.pool.get().await?;
        for row in client.query(step!(OPENED, lanes, RESUMED_MAX)).await? {
            let (spot, first) = super::load::came(&row);
            add(came, spot, first, row.get::<_, i64>(4) as usize);
        }
        Ok(())
    }
}

/// Items that a closed resource held back.
pub(super) async fn opened(tx: &mut Tx, desk: &Desk, came: &mut Came) -> Result<(), Error> {
    let is_open = |state: Option<&Resource>| state.is_none_or(|of| of.closed_until <= desk.now);
    let opened = desk
        .resources
        .decided()
        .filter(|(name, state)| is_open(*state) && !is_open(desk.resources.was(name)));
    let lanes: Vec<i32> =
        opened.flat_map(|(name, _)| desk.config().needing(name)).map(|no| no as i32).collect();
    if lanes.is_empty() {
        return Ok(());
    }
    for row in tx.query(step!(OPENED, lanes, RESUMED_MAX)).await? {
        let (spot, first) = super::load::came(&row);
        add(came, spot, first, row.get::<_, i64>(4) as usize);
    }
    Ok(())
}
