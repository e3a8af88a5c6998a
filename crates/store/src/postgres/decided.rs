//! What a batch decided that is not in a layer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windrow_core::ItemId;
use windrow_core::command::Scope;
use windrow_core::ports::Happened;

use super::config::Config;
use super::needs::GroupKey;

#[derive(Debug, Default)]
pub(super) struct Decided {
    pub(super) created: Vec<ItemId>,
    pub(super) removed: BTreeSet<ItemId>,
    pub(super) folded: BTreeMap<ItemId, bool>,
    pub(super) orphans: BTreeMap<(ItemId, u16), bool>,
    /// Settings, pauses and resources, if something of them changed that all must know.
    pub(super) config: Option<Arc<Config>>,
    /// Queues whose settings changed.
    pub(super) settings: BTreeSet<Arc<str>>,
    pub(super) paused: BTreeMap<Scope, bool>,
    /// Groups that may have room now.
    pub(super) freed: BTreeSet<GroupKey>,
    /// Candidates of groups without room.
    pub(super) parked: BTreeSet<ItemId>,
    pub(super) happened: Vec<Happened>,
}
