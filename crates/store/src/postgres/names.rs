//! Names, routes and lanes as numbers, which the database gives and which never change.

use std::collections::HashMap;
use std::sync::Arc;

use windrow_core::route::Route;

/// Where items wait: a stage of a queue, for items of one kind. All as numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct LaneName {
    pub(super) queue: u32,
    pub(super) stage: u32,
    pub(super) kind: u32,
}

/// What this server knows of them.
#[derive(Debug, Default)]
pub(super) struct Names {
    texts: HashMap<u32, Arc<str>>,
    by_text: HashMap<Arc<str>, u32>,
    routes: HashMap<u32, Arc<Route>>,
    by_route: HashMap<Arc<Route>, u32>,
    lanes: HashMap<u32, LaneName>,
    by_lane: HashMap<LaneName, u32>,
}

impl Names {
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        self.by_text.get(text).copied()
    }

    pub(super) fn text(&self, no: u32) -> Option<&Arc<str>> {
        self.texts.get(&no)
    }

    pub(super) fn find_route(&self, route: &Arc<Route>) -> Option<u32> {
        self.by_route.get(route).copied()
    }

    pub(super) fn route(&self, no: u32) -> Option<&Arc<Route>> {
        self.routes.get(&no)
    }

    pub(super) fn find_lane(&self, lane: LaneName) -> Option<u32> {
        self.by_lane.get(&lane).copied()
    }

    pub(super) fn lane(&self, no: u32) -> Option<LaneName> {
        self.lanes.get(&no).copied()
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = (u32, LaneName)> {
        self.lanes.iter().map(|(no, lane)| (*no, *lane))
    }

    pub(super) fn add(&mut self, no: u32, text: Arc<str>) {
        self.by_text.insert(Arc::clone(&text), no);
        self.texts.insert(no, text);
    }

    pub(super) fn add_route(&mut self, no: u32, route: Arc<Route>) {
        self.by_route.insert(Arc::clone(&route), no);
        self.routes.insert(no, route);
    }

    pub(super) fn add_lane(&mut self, no: u32, lane: LaneName) {
        self.by_lane.insert(lane, no);
        self.lanes.insert(no, lane);
    }
}
