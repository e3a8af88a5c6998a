//! Names: every name that the model meets gets the next number.

use std::sync::Arc;

use windrow_core::item::{Body, GroupNo, KindNo, QueueNo, RouteNo, TenantNo};
use windrow_core::route::Route;

/// All names, each kind with numbers of its own. Looking one up walks the list.
#[derive(Clone, Debug, Default)]
pub struct Names {
    queues: Vec<Arc<str>>,
    tenants: Vec<Arc<str>>,
    kinds: Vec<Arc<str>>,
    groups: Vec<(TenantNo, Arc<str>)>,
    routes: Vec<Arc<Route>>,
}

/// The numbers of one body's names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) queue: QueueNo,
    pub(super) tenant: TenantNo,
    pub(super) kind: KindNo,
    pub(super) group: Option<GroupNo>,
    pub(super) route: RouteNo,
}

impl Names {
    pub(super) fn number(&mut self, body: &Body) -> Numbers {
        let tenant = TenantNo(number(&mut self.tenants, &body.tenant));
        let groups = &mut self.groups;
        Numbers {
            queue: QueueNo(number(&mut self.queues, &body.queue)),
            tenant,
            kind: KindNo(number(&mut self.kinds, &body.kind)),
            group: body.group.clone().map(|group| GroupNo(number(groups, &(tenant, group)))),
            route: RouteNo(number(&mut self.routes, &body.route)),
        }
    }

    pub(super) fn queue(&self, no: QueueNo) -> &Arc<str> {
        &self.queues[no.0 as usize]
    }

    pub(super) fn tenant(&self, no: TenantNo) -> &Arc<str> {
        &self.tenants[no.0 as usize]
    }

    pub(super) fn kind(&self, no: KindNo) -> &Arc<str> {
        &self.kinds[no.0 as usize]
    }

    pub(super) fn route(&self, no: RouteNo) -> &Arc<Route> {
        &self.routes[no.0 as usize]
    }
}

fn number<T: PartialEq + Clone>(known: &mut Vec<T>, name: &T) -> u32 {
    let at = known.iter().position(|other| other == name).unwrap_or_else(|| {
        known.push(name.clone());
        known.len() - 1
    });
    at as u32
}
