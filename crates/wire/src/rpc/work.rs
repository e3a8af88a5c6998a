//! Claims, and what a worker gets.

use std::sync::Arc;

use windrow_core::command::{Claim, Grant};
use windrow_core::item::{Body, Item, Payload};
use windrow_core::ports::Work;

use super::{Wrong, names, set};
use crate::queue_capnp::{blob, claim_request, granted, work};

/// What a worker asks for.
pub fn claim(request: claim_request::Reader<'_>) -> Result<Claim, Wrong> {
    Ok(Claim {
        worker: request.get_worker()?.to_str()?.into(),
        queues: names(request.get_queues()?)?,
        stages: names(request.get_stages()?)?,
        kinds: names(request.get_kinds()?)?,
        tenants: names(request.get_tenants()?)?,
        max: request.get_max() as usize,
        lease_ms: Some(request.get_lease_ms()).filter(|ms| *ms > 0),
    })
}

/// Writes what was granted.
pub fn granted(mut into: granted::Builder<'_>, grant: &Grant<Work>) {
    into.set_lease(&grant.lease.0.to_be_bytes());
    into.set_expires_at(grant.expires_at.0);
    let mut items = into.init_items(grant.items.len() as u32);
    for (at, Work { item, body, stage, input }) in (0..).zip(&grant.items) {
        let mut into = items.reborrow().get(at);
        if let Some(input) = input {
            into.set_input(input);
        }
        written(into, item, body, stage);
    }
}

/// Writes an item as a worker sees it.
pub(super) fn written(mut into: work::Builder<'_>, item: &Item, body: &Body, stage: &str) {
    into.set_id(&item.id.0.to_be_bytes());
    into.set_tenant(&*body.tenant);
    into.set_queue(&*body.queue);
    into.set_kind(&*body.kind);
    into.set_op(&*body.op);
    into.set_stage(stage);
    set!(into, set_key, body.key);
    set!(into, set_group, body.group);
    set!(into, set_collection, body.collection);
    set!(into, set_branch, body.branch);
    set!(into, set_source_type, body.source_type);
    set!(into, set_source_info, body.source_info);
    set!(into, set_reference, body.reference);
    set!(into, set_content_type, body.content_type);
    set!(into, set_metadata, body.metadata);
    if let Some(place) = item.place {
        into.set_parent(&place.parent.0.to_be_bytes());
    }
    into.set_attempt(item.attempts);
    into.set_priority(item.priority);
    match &body.payload {
        Payload::Inline(bytes) => into.set_payload(bytes),
        Payload::Blob(named) => {
            let mut into: blob::Builder<'_> = into.reborrow().init_blob();
            into.set_hash(&named.hash);
            into.set_bytes(named.len);
        }
    }
    let stages = &body.route.stages;
    let mut route = into.init_route(stages.len() as u32);
    for (at, stage) in (0..).zip(stages) {
        route.set(at, Arc::as_ref(&stage.name));
    }
}
