//! Settings, pauses, gates and lanes: small, and every server has them whole.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use windrow_core::Timestamp;
use windrow_core::command::Scope;
use windrow_core::resource::Resource;
use windrow_core::settings::{Policy, Settings};

use super::names::{LaneName, Names};

#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    pub(super) version: i64,
    pub(super) settings: HashMap<Arc<str>, Arc<Settings>>,
    pub(super) paused: BTreeSet<Scope>,
    pub(super) gates: BTreeMap<Arc<str>, Resource>,
    /// Every lane that an item was ever in.
    pub(super) lanes: BTreeMap<u32, Lane>,
}

/// A lane, and what is set for it.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) name: LaneName,
    pub(super) policy: Policy,
}

impl Config {
    /// Works out what is set for every lane that is known.
    pub(super) fn resolve(&mut self, names: &Names) {
        let lane = |(no, name): (u32, LaneName)| {
            let (queue, stage) = (names.text(name.queue)?, names.text(name.stage)?);
            let kind = names.text(name.kind)?;
            let policy = match self.settings.get(queue) {
                Some(settings) => settings.policy(stage, kind),
                None => Settings::default().policy(stage, kind),
            };
            Some((no, Lane { name, policy }))
        };
        self.lanes = names.lanes().filter_map(lane).collect();
    }

    /// Lanes that need a resource.
    pub(super) fn needing(&self, resource: &str) -> impl Iterator<Item = u32> {
        let needs = |lane: &Lane| lane.policy.resource.as_deref() == Some(resource);
        self.lanes.iter().filter(move |(_, lane)| needs(lane)).map(|(no, _)| *no)
    }

    /// Resources that open by themselves after one moment, and not after another.
    pub(super) fn opens(&self, after: Timestamp, until: Timestamp) -> impl Iterator<Item = &str> {
        let opens =
            move |state: &Resource| (after < state.closed_until) && state.closed_until <= until;
        self.gates.iter().filter(move |(_, state)| opens(state)).map(|(name, _)| &**name)
    }

    /// Whether nobody gets anything of a tenant in a stage of a queue.
    pub(super) fn is_paused(&self, queue: &str, stage: &str, tenant: &str) -> bool {
        self.paused.iter().any(|scope| {
            &*scope.queue == queue
                && scope.stage.as_deref().is_none_or(|only| only == stage)
                && scope.tenant.as_deref().is_none_or(|only| only == tenant)
        })
    }
}
