//! Requests as a caller writes them: the other direction of what the server reads.
//!
//! What is as it is by default is left out, and what most items of an enqueue share is said once.

use std::sync::Arc;

use capnp::{data_list, struct_list, text_list};
use windrow_core::command::{self, Claim, NewChild, Outcome, RetryMode, Scope};
use windrow_core::item::Payload;
use windrow_core::route::Route;
use windrow_core::{ItemId, LeaseId, RequestId, tally, trail};

use super::new::{AS_THE_PARENT, KIND, OP};
use super::{set, shown};
use crate::queue_capnp::{
    self as wire, OnDuplicate, OnGaps, OnSplit, blob, child, claim_request, enqueue_request,
    new_item, progress, scope, settle, stage,
};

/// Words that a message has beside its items.
const WORDS_BESIDE: usize = 48;
/// Words of an item beside its texts: what the schema lays out, and an id.
const WORDS_OF_ONE: usize = 34;

/// About as many words as an enqueue of these has, so that its message is in one piece.
pub fn enqueue_words(items: &[command::NewItem]) -> usize {
    let words = |text: usize| text / 8 + 1;
    let optional = |text: Option<usize>| text.map_or(0, words);
    let one = |item: &command::NewItem| {
        let body = &item.body;
        let payload = match &body.payload {
            Payload::Inline(bytes) => words(bytes.len()),
            Payload::Blob(_) => 8,
        };
        let texts = [
            body.key.as_ref().map(String::len),
            body.group.as_ref().map(|text| text.len()),
            body.source_info.as_ref().map(String::len),
            body.reference.as_ref().map(String::len),
            body.metadata.as_ref().map(String::len),
            body.content_type.as_ref().map(|text| text.len()),
        ];
        WORDS_OF_ONE + payload + texts.into_iter().map(optional).sum::<usize>()
    };
    WORDS_BESIDE + items.iter().map(one).sum::<usize>()
}

/// About as many words as a settle of these has, if they bring no children.
pub fn settle_words(items: &[(ItemId, Outcome)]) -> usize {
    WORDS_BESIDE + items.len() * 16
}

fn request_bytes(request: RequestId) -> [u8; 16] {
    request.0.to_be_bytes()
}

/// Writes an enqueue.
pub fn enqueue(
    mut into: enqueue_request::Builder<'_>,
    items: &[command::NewItem],
    request: RequestId,
) {
    into.set_request_id(&request_bytes(request));
    let shared = items.first().map(|first| (&*first.body.queue, &*first.body.tenant));
    if let Some((queue, tenant)) = shared {
        into.set_queue(queue);
        into.set_tenant(tenant);
    }
    let mut list = into.init_items(items.len() as u32);
    for (at, item) in (0..).zip(items) {
        write_item(list.reborrow().get(at), item, shared);
    }
}

/// Writes an item that is to be enqueued. `shared` are the queue and the tenant of who names none.
fn write_item(
    mut into: new_item::Builder<'_>,
    item: &command::NewItem,
    shared: Option<(&str, &str)>,
) {
    let body = &item.body;
    if shared.is_none_or(|(queue, _)| *queue != *body.queue) {
        into.set_queue(&*body.queue);
    }
    if shared.is_none_or(|(_, tenant)| *tenant != *body.tenant) {
        into.set_tenant(&*body.tenant);
    }
    if *body.kind != *KIND {
        into.set_kind(&*body.kind);
    }
    if *body.op != *OP {
        into.set_op(&*body.op);
    }
    set!(into, set_key, body.key);
    set!(into, set_group, body.group);
    set!(into, set_collection, body.collection);
    set!(into, set_branch, body.branch);
    set!(into, set_source_type, body.source_type);
    set!(into, set_source_info, body.source_info);
    set!(into, set_reference, body.reference);
    set!(into, set_content_type, body.content_type);
    set!(into, set_metadata, body.metadata);
    match &body.payload {
        Payload::Inline(bytes) => into.set_payload(bytes),
        Payload::Blob(named) => write_blob(into.reborrow().init_blob(), &named.hash, named.len),
    }
    into.set_priority(item.priority);
    into.set_not_before(item.not_before.0);
    into.set_on_duplicate(match item.on_duplicate {
        command::OnDuplicate::Keep => OnDuplicate::Keep,
        command::OnDuplicate::Replace => OnDuplicate::Replace,
    });
    into.set_on_split(match item.on_split {
        command::OnSplit::After => OnSplit::After,
        command::OnSplit::Supersede => OnSplit::Supersede,
    });
    if is_said(&body.route) {
        write_route(into.init_route(body.route.len() as u32), &body.route);
    }
}

fn write_blob(mut into: blob::Builder<'_>, hash: &[u8], bytes: u64) {
    into.set_hash(hash);
    into.set_bytes(bytes);
}

/// Whether a route is another than that of who says none.
fn is_said(route: &Arc<Route>) -> bool {
    let single = Route::single();
    !Arc::ptr_eq(route, &single) && **route != *single
}

fn write_route(mut into: struct_list::Builder<'_, stage::Owned>, route: &Route) {
    for (at, stage) in (0..).zip(&route.stages) {
        let mut into = into.reborrow().get(at);
        into.set_name(&*stage.name);
        if !stage.below.is_empty() {
            write_names(into.init_below(stage.below.len() as u32), &stage.below);
        }
    }
}

fn write_names(mut into: text_list::Builder<'_>, names: &[Arc<str>]) {
    for (at, name) in (0..).zip(names) {
        into.set(at, &**name);
    }
}

/// Writes a claim that waits so long.
pub fn claim(
    mut into: claim_request::Builder<'_>,
    claim: &Claim,
    wait_ms: u64,
    request: RequestId,
) {
    into.set_request_id(&request_bytes(request));
    into.set_worker(&*claim.worker);
    write_names(into.reborrow().init_queues(claim.queues.len() as u32), &claim.queues);
    write_names(into.reborrow().init_stages(claim.stages.len() as u32), &claim.stages);
    write_names(into.reborrow().init_kinds(claim.kinds.len() as u32), &claim.kinds);
    write_names(into.reborrow().init_tenants(claim.tenants.len() as u32), &claim.tenants);
    into.set_max(claim.max.try_into().unwrap_or(u32::MAX));
    into.set_lease_ms(claim.lease_ms.unwrap_or_default());
    into.set_wait_ms(wait_ms);
}

/// Writes how far work is.
pub fn progress(
    mut into: struct_list::Builder<'_, progress::Owned>,
    items: &[(ItemId, trail::Progress)],
) {
    for (at, (id, progress)) in (0..).zip(items) {
        let mut into = into.reborrow().get(at);
        into.set_id(&id.0.to_be_bytes());
        into.set_current(progress.current);
        into.set_total(progress.total);
        into.set_message(&*progress.message);
    }
}

/// Writes how attempts ended.
pub fn settle(
    mut into: wire::windrow::settle_params::Builder<'_>,
    lease: LeaseId,
    items: &[(ItemId, Outcome)],
    request: RequestId,
) {
    into.set_request_id(&request_bytes(request));
    into.set_lease(&lease.0.to_be_bytes());
    let mut list = into.init_items(items.len() as u32);
    for (at, (id, outcome)) in (0..).zip(items) {
        let mut into = list.reborrow().get(at);
        into.set_id(&id.0.to_be_bytes());
        write_outcome(into, outcome);
    }
}

fn write_outcome(into: settle::Builder<'_>, outcome: &Outcome) {
    match outcome {
        Outcome::Complete { result, output, spawn } => {
            let mut into = into.init_complete();
            set!(into, set_result, result);
            set!(into, set_output, output);
            if !spawn.is_empty() {
                let mut list = into.init_spawn(spawn.len() as u32);
                for (at, item) in (0..).zip(spawn) {
                    write_item(list.reborrow().get(at), item, None);
                }
            }
        }
        Outcome::Split { children, more, on_gaps, output } => {
            let mut into = into.init_split();
            into.set_more(*more);
            into.set_on_gaps(match on_gaps {
                tally::OnGaps::Continue => OnGaps::Continue,
                tally::OnGaps::Stop => OnGaps::Stop,
            });
            set!(into, set_output, output);
            let mut list = into.init_children(children.len() as u32);
            for (at, child) in (0..).zip(children) {
                write_child(list.reborrow().get(at), child);
            }
        }
        Outcome::Retry { class, message, delay_ms } => {
            let mut into = into.init_retry();
            into.set_class(shown::class(*class));
            into.set_error(&**message);
            into.set_delay_ms(delay_ms.map_or(-1, |ms| ms.try_into().unwrap_or(i64::MAX)));
        }
        Outcome::Fail { class, message } => {
            let mut into = into.init_fail();
            into.set_class(shown::class(*class));
            into.set_error(&**message);
        }
        Outcome::Skip { reason } => into.init_skip().set_reason(&**reason),
        Outcome::Release { delay_ms } => into.init_release().set_delay_ms(*delay_ms),
        Outcome::Snooze { until } => into.init_snooze().set_until(until.0),
    }
}

fn write_child(mut into: child::Builder<'_>, child: &NewChild) {
    into.set_ordinal(child.ordinal);
    into.set_kind(&*child.kind);
    if *child.op != *OP {
        into.set_op(&*child.op);
    }
    set!(into, set_group, child.group);
    into.set_priority(child.priority.unwrap_or(AS_THE_PARENT));
    set!(into, set_content_type, child.content_type);
    set!(into, set_metadata, child.metadata);
    set!(into, set_reference, child.reference);
    match &child.payload {
        Payload::Inline(bytes) => into.set_payload(bytes),
        Payload::Blob(named) => write_blob(into.reborrow().init_blob(), &named.hash, named.len),
    }
    if is_said(&child.route) {
        write_route(into.init_route(child.route.len() as u32), &child.route);
    }
}

/// Writes the id of one item into a list of one.
pub fn one(mut into: data_list::Builder<'_>, item: ItemId) {
    into.set(0, &item.0.to_be_bytes());
}

/// Writes what of a queue is meant.
pub fn part(mut into: scope::Builder<'_>, scope: &Scope) {
    into.set_queue(&*scope.queue);
    set!(into, set_stage, scope.stage);
    set!(into, set_tenant, scope.tenant);
}

pub fn retry_mode(mode: RetryMode) -> wire::RetryMode {
    match mode {
        RetryMode::Clone => wire::RetryMode::Clone,
        RetryMode::Reset => wire::RetryMode::Reset,
    }
}
