//! Names and routes as numbers.
//!
//! Names that items share (tenant, queue, kind, stage, op and the like) are written to the log
//! once and are numbers from then on. Group names come and go with their items, so they are
//! numbered in memory only and freed with the last item that uses them.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};
use windrow_core::route::Route;

use super::table::Table;
use crate::embedded::codec::Pack as _;

/// The number of a shared name.
pub(crate) type TextNo = u32;

/// Shared names and routes. Only ever grows.
#[derive(Debug, Default)]
pub(crate) struct Names {
    texts: Vec<Arc<str>>,
    by_text: HashMap<Arc<str>, TextNo>,
    routes: Vec<Known>,
    by_route: HashMap<Arc<Route>, u32>,
    /// What all of them take in a snapshot, at most.
    bytes: u64,
    /// Names and the route that were asked for last: the next item mostly has the same.
    recent: [TextNo; RECENT],
    recent_route: u32,
}

const RECENT: usize = 16;

/// A route, and the numbers of its stages' names.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) route: Arc<Route>,
    pub(crate) stages: Vec<TextNo>,
}

impl Names {
    pub(crate) fn text(&self, no: TextNo) -> &Arc<str> {
        &self.texts[no as usize]
    }

    pub(crate) fn find(&self, text: &str) -> Option<TextNo> {
        self.by_text.get(text).copied()
    }

    /// The number of a name that was probably asked for a moment ago.
    pub(crate) fn find_again(&mut self, text: &str) -> Option<TextNo> {
        let ends = [text.as_bytes().first(), text.as_bytes().last()];
        let ends = ends.into_iter().flatten().fold(0, |sum, byte| 3 * sum + usize::from(*byte));
        let seat = (text.len() + ends) % RECENT;
        let recent = self.recent[seat];
        if self.texts.get(recent as usize).is_some_and(|known| **known == *text) {
            return Some(recent);
        }
        let found = self.find(text)?;
        self.recent[seat] = found;
        Some(found)
    }

    /// The number of a name, and whether it is new.
    pub(crate) fn number(&mut self, text: &Arc<str>) -> (TextNo, bool) {
        if let Some(no) = self.by_text.get(text) {
            return (*no, false);
        }
        let no = self.texts.len() as TextNo;
        self.bytes += text.len() as u64 + 2;
        self.texts.push(Arc::clone(text));
        self.by_text.insert(Arc::clone(text), no);
        (no, true)
    }

    pub(crate) fn route(&self, no: u32) -> &Known {
        &self.routes[no as usize]
    }

    /// The route with a number that came from disk.
    pub(crate) fn find_route_no(&self, no: u32) -> Option<Arc<Route>> {
        self.routes.get(no as usize).map(|known| Arc::clone(&known.route))
    }

    pub(crate) fn find_route(&mut self, route: &Arc<Route>) -> Option<u32> {
        let recent = self.routes.get(self.recent_route as usize);
        if recent.is_some_and(|known| known.route == *route) {
            return Some(self.recent_route);
        }
        self.recent_route = self.by_route.get(route).copied()?;
        Some(self.recent_route)
    }

    /// Adds a route whose stages' names have numbers already.
    pub(crate) fn add_route(&mut self, route: &Arc<Route>) -> u32 {
        if let Some(no) = self.by_route.get(route) {
            return *no;
        }
        let no = self.routes.len() as u32;
        let stages = route.stages.iter().map(|stage| self.number(&stage.name).0).collect();
        let mut packed = Vec::new();
        route.put(&mut packed);
        self.bytes += packed.len() as u64;
        self.routes.push(Known { route: Arc::clone(route), stages });
        self.by_route.insert(Arc::clone(route), no);
        no
    }

    /// How many bytes names and routes take in a snapshot, at most.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn texts(&self) -> &[Arc<str>] {
        &self.texts
    }

    pub(crate) fn routes(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.routes.iter().map(|known| &known.route)
    }
}

/// Group names in use, each with how many items use it.
#[derive(Debug, Default)]
pub(crate) struct GroupNames {
    known: Vec<Option<GroupName>>,
    /// Numbers by tenant and name, which are looked up in `known`.
    by_name: Table,
    hashes: DefaultHashBuilder,
    free: Vec<u32>,
}

#[derive(Debug)]
struct GroupName {
    tenant: TextNo,
    name: Arc<str>,
    users: u32,
}

impl GroupNames {
    /// The number of a tenant's group, with one more user.
    pub(crate) fn join(&mut self, tenant: TextNo, name: &Arc<str>) -> u32 {
        let hash = self.hashes.hash_one((tenant, &**name));
        let found = self.find_hashed(hash, tenant, name);
        let GroupNames { known, by_name, hashes, .. } = self;
        if let Some(no) = found {
            if let Some(known) = &mut known[no as usize] {
                known.users += 1;
            }
            return no;
        }
        let group = Some(GroupName { tenant, name: Arc::clone(name), users: 1 });
        let no = match self.free.pop() {
            Some(no) => {
                known[no as usize] = group;
                no
            }
            None => {
                known.push(group);
                known.len() as u32 - 1
            }
        };
        by_name.insert(hash, no, |no| {
            let known = known[no as usize].as_ref();
            known.map_or(0, |known| hashes.hash_one((known.tenant, &*known.name)))
        });
        no
    }

    /// The number of a tenant's group, if it is in use.
    pub(crate) fn find(&self, tenant: TextNo, name: &str) -> Option<u32> {
        self.find_hashed(self.hashes.hash_one((tenant, name)), tenant, name)
    }

    fn find_hashed(&self, hash: u64, tenant: TextNo, name: &str) -> Option<u32> {
        self.by_name.find(hash, |no| {
            let known = self.known[no as usize].as_ref();
            known.is_some_and(|known| known.tenant == tenant && *known.name == *name)
        })
    }

    /// One user less; the name goes with the last one.
    pub(crate) fn leave(&mut self, no: u32) {
        let Some(known) = &mut self.known[no as usize] else { return };
        known.users -= 1;
        if known.users == 0 {
            let hash = self.hashes.hash_one((known.tenant, &*known.name));
            self.by_name.remove(hash, no);
            self.known[no as usize] = None;
            self.free.push(no);
        }
    }

    pub(crate) fn name(&self, no: u32) -> Option<&Arc<str>> {
        self.known.get(no as usize)?.as_ref().map(|known| &known.name)
    }
}
