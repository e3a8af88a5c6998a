//! What a worker gets, and what the producer said about it.

use std::sync::Arc;

use windrow_core::command::Grant;
use windrow_core::item::Body;
use windrow_core::queue::Work;
use windrow_core::route::Route;
use windrow_core::{ItemId, Timestamp};

use crate::queue_capnp::{granted, work};
use crate::rpc::{Repeated, Wrong, bytes, item_id, lease_id, new, optional};

/// Work with its lease; none if there was nothing.
pub fn granted(from: granted::Reader<'_>) -> Result<Option<Grant<Work>>, Wrong> {
    if !from.has_lease() {
        return Ok(None);
    }
    let mut names = Names::default();
    let list = from.get_items()?;
    let mut items = Vec::with_capacity(list.len() as usize);
    for work in list {
        items.push(Work {
            id: item_id(work.get_id()?)?,
            body: names.body(work, None)?,
            stage: names.stage.get(work.get_stage()?.to_str()?),
            attempt: work.get_attempt(),
            priority: work.get_priority(),
            parent: parent(work)?,
            input: bytes!(work, has_input, get_input),
        });
    }
    let (lease, expires_at) = (lease_id(from.get_lease()?)?, Timestamp(from.get_expires_at()));
    Ok(Some(Grant { lease, expires_at, items }))
}

pub(super) fn parent(work: work::Reader<'_>) -> Result<Option<ItemId>, Wrong> {
    Ok(if work.has_parent() { Some(item_id(work.get_parent()?)?) } else { None })
}

/// Names and routes of the items before: those of an answer have few.
pub(super) struct Names {
    tenant: Repeated,
    queue: Repeated,
    kind: Repeated,
    op: Repeated,
    group: Repeated,
    collection: Repeated,
    branch: Repeated,
    source_type: Repeated,
    content_type: Repeated,
    pub(super) stage: Repeated,
    route: Arc<Route>,
}

impl Default for Names {
    fn default() -> Names {
        let empty: Arc<str> = Arc::from("");
        let name = || Repeated::new(Arc::clone(&empty));
        Names {
            tenant: name(),
            queue: name(),
            kind: name(),
            op: name(),
            group: name(),
            collection: name(),
            branch: name(),
            source_type: name(),
            content_type: name(),
            stage: name(),
            route: Route::single(),
        }
    }
}

impl Names {
    /// What the producer said.
    pub(super) fn body(
        &mut self,
        work: work::Reader<'_>,
        cloned_from: Option<ItemId>,
    ) -> Result<Body, Wrong> {
        let owned = |text: &str| text.to_owned();
        Ok(Body {
            tenant: self.tenant.get(work.get_tenant()?.to_str()?),
            queue: self.queue.get(work.get_queue()?.to_str()?),
            kind: self.kind.get(work.get_kind()?.to_str()?),
            op: self.op.get(work.get_op()?.to_str()?),
            key: optional!(work, has_key, get_key).map(owned),
            group: optional!(work, has_group, get_group).map(|text| self.group.get(text)),
            collection: optional!(work, has_collection, get_collection)
                .map(|text| self.collection.get(text)),
            branch: optional!(work, has_branch, get_branch).map(|text| self.branch.get(text)),
            source_type: optional!(work, has_source_type, get_source_type)
                .map(|text| self.source_type.get(text)),
            source_info: optional!(work, has_source_info, get_source_info).map(owned),
            reference: optional!(work, has_reference, get_reference).map(owned),
            route: self.route(work.get_route()?)?,
            content_type: optional!(work, has_content_type, get_content_type)
                .map(|text| self.content_type.get(text)),
            payload: new::payload(work.get_payload()?, work.has_blob().then(|| work.get_blob()))?,
            metadata: optional!(work, has_metadata, get_metadata).map(owned),
            cloned_from,
        })
    }

    /// A route by the names of its stages, which is often the same as the one before.
    fn route(&mut self, names: capnp::text_list::Reader<'_>) -> Result<Arc<Route>, Wrong> {
        let known = &self.route.stages;
        let mut is_known = known.len() == names.len() as usize;
        for (stage, name) in known.iter().zip(names.iter()) {
            is_known = is_known && *stage.name == *name?.to_str()?;
        }
        if !is_known {
            let names = super::super::names(names)?;
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            self.route = Route::of(&names);
        }
        Ok(Arc::clone(&self.route))
    }
}
