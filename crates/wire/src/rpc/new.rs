//! Items to enqueue, and children of a split.

use std::sync::Arc;

use capnp::struct_list;
use windrow_core::command::{self, NewChild};
use windrow_core::item::{BlobRef, Body, Payload};
use windrow_core::route::{Route, Stage};
use windrow_core::{Refusal, Timestamp};

use super::{Repeated, Wrong, optional};
use crate::queue_capnp::{
    OnDuplicate, OnSplit, blob, child, enqueue_request, new_item, stage as wire_stage,
};

/// What a child's priority is when it is its parent's.
pub(super) const AS_THE_PARENT: u8 = u8::MAX;
/// The kind and the op of who names none.
pub(super) const KIND: &str = "item";
pub(super) const OP: &str = "ingest";

/// The names that items have who name none.
#[derive(Debug)]
pub struct Defaults<'a> {
    /// None if every item must name its own.
    pub queue: Option<&'a str>,
    pub tenant: &'a str,
}

/// The items of an enqueue. `tenant` is who is meant by those who name none.
pub fn enqueued(
    request: enqueue_request::Reader<'_>,
    tenant: &str,
    now: Timestamp,
) -> Result<Vec<command::NewItem>, Wrong> {
    let queue = optional!(request, has_queue, get_queue);
    let tenant = optional!(request, has_tenant, get_tenant).unwrap_or(tenant);
    items(request.get_items()?, &Defaults { queue, tenant }, now)
}

/// Items in a list.
pub fn items(
    list: struct_list::Reader<'_, new_item::Owned>,
    defaults: &Defaults<'_>,
    now: Timestamp,
) -> Result<Vec<command::NewItem>, Wrong> {
    let mut reading = Reading::new(defaults);
    let mut items = Vec::with_capacity(list.len() as usize);
    for item in list {
        items.push(reading.item(item, defaults, now)?);
    }
    Ok(items)
}

/// The children in a list.
pub(super) fn children(
    list: struct_list::Reader<'_, child::Owned>,
) -> Result<Vec<NewChild>, Wrong> {
    let mut reading = Reading::new(&Defaults { queue: None, tenant: "" });
    list.iter().map(|child| reading.child(child)).collect()
}

/// What was read of the items before.
struct Reading {
    queue: Repeated,
    tenant: Repeated,
    kind: Repeated,
    op: Repeated,
    content_type: Repeated,
    collection: Repeated,
    branch: Repeated,
    source_type: Repeated,
    route: Arc<Route>,
}

impl Reading {
    fn new(defaults: &Defaults<'_>) -> Reading {
        let empty = Arc::from("");
        let empty = || Repeated::new(Arc::clone(&empty));
        Reading {
            queue: defaults.queue.map_or_else(empty, Repeated::new),
            tenant: Repeated::new(defaults.tenant),
            kind: Repeated::new(KIND),
            op: Repeated::new(OP),
            content_type: empty(),
            collection: empty(),
            branch: empty(),
            source_type: empty(),
            route: Route::single(),
        }
    }

    fn item(
        &mut self,
        item: new_item::Reader<'_>,
        defaults: &Defaults<'_>,
        now: Timestamp,
    ) -> Result<command::NewItem, Wrong> {
        let queue = optional!(item, has_queue, get_queue).or(defaults.queue);
        let queue = queue.ok_or_else(|| Refusal::invalid("queue", "is not named"))?;
        let tenant = optional!(item, has_tenant, get_tenant).unwrap_or(defaults.tenant);
        let owned = |text: &str| text.to_owned();
        let body = Body {
            tenant: self.tenant.get(tenant),
            queue: self.queue.get(queue),
            kind: self.kind.get(optional!(item, has_kind, get_kind).unwrap_or(KIND)),
            op: self.op.get(optional!(item, has_op, get_op).unwrap_or(OP)),
            key: optional!(item, has_key, get_key).map(owned),
            group: optional!(item, has_group, get_group).map(Arc::from),
            collection: optional!(item, has_collection, get_collection)
                .map(|text| self.collection.get(text)),
            branch: optional!(item, has_branch, get_branch).map(|text| self.branch.get(text)),
            source_type: optional!(item, has_source_type, get_source_type)
                .map(|text| self.source_type.get(text)),
            source_info: optional!(item, has_source_info, get_source_info).map(owned),
            reference: optional!(item, has_reference, get_reference).map(owned),
            route: self.route(item.has_route().then(|| item.get_route()).transpose()?)?,
            content_type: optional!(item, has_content_type, get_content_type)
                .map(|text| self.content_type.get(text)),
            payload: payload(item.get_payload()?, item.has_blob().then(|| item.get_blob()))?,
            metadata: optional!(item, has_metadata, get_metadata).map(owned),
            cloned_from: None,
        };
        let not_before = match (item.get_not_before(), item.get_delay_ms()) {
            (at, 0) => Timestamp(at),
            (0, ms) => now.plus(ms),
            _ => return Err(Refusal::invalid("delayMs", "cannot be given with notBefore").into()),
        };
        Ok(command::NewItem {
            body,
            priority: item.get_priority(),
            not_before,
            on_duplicate: match item.get_on_duplicate()? {
                OnDuplicate::Keep => command::OnDuplicate::Keep,
                OnDuplicate::Replace => command::OnDuplicate::Replace,
            },
            on_split: match item.get_on_split()? {
                OnSplit::After => command::OnSplit::After,
                OnSplit::Supersede => command::OnSplit::Supersede,
            },
        })
    }

    fn child(&mut self, child: child::Reader<'_>) -> Result<NewChild, Wrong> {
        let owned = |text: &str| text.to_owned();
        let route = self.route(child.has_route().then(|| child.get_route()).transpose()?)?;
        Ok(NewChild {
            ordinal: child.get_ordinal(),
            kind: self.kind.get(child.get_kind()?.to_str()?),
            op: self.op.get(optional!(child, has_op, get_op).unwrap_or(OP)),
            group: optional!(child, has_group, get_group).map(Arc::from),
            route,
            priority: Some(child.get_priority()).filter(|priority| *priority != AS_THE_PARENT),
            content_type: optional!(child, has_content_type, get_content_type)
                .map(|text| self.content_type.get(text)),
            payload: payload(child.get_payload()?, child.has_blob().then(|| child.get_blob()))?,
            metadata: optional!(child, has_metadata, get_metadata).map(owned),
            reference: optional!(child, has_reference, get_reference).map(owned),
        })
    }

    /// A route, which is often the same as the one before.
    fn route(
        &mut self,
        stages: Option<struct_list::Reader<'_, wire_stage::Owned>>,
    ) -> Result<Arc<Route>, Wrong> {
        let Some(stages) = stages else { return Ok(Route::single()) };
        let stage = |stage: wire_stage::Reader<'_>| -> Result<Stage, Wrong> {
            let (name, below) = (stage.get_name()?.to_str()?, super::names(stage.get_below()?)?);
            Ok(Stage { name: name.into(), below })
        };
        let stages: Vec<Stage> = stages.iter().map(stage).collect::<Result<_, _>>()?;
        if self.route.stages != stages {
            self.route = Arc::new(Route { stages });
        }
        Ok(Arc::clone(&self.route))
    }
}

pub(super) fn payload(
    bytes: &[u8],
    blob: Option<capnp::Result<blob::Reader<'_>>>,
) -> Result<Payload, Wrong> {
    let Some(blob) = blob.transpose()? else { return Ok(Payload::Inline(bytes.to_vec())) };
    if !bytes.is_empty() {
        return Err(Refusal::invalid("blob", "cannot be given with a payload").into());
    }
    let hash = blob.get_hash()?.try_into();
    let hash = hash.map_err(|_| Refusal::invalid("blob", "its hash must have 32 bytes"))?;
    Ok(Payload::Blob(BlobRef { hash, len: blob.get_bytes() }))
}
