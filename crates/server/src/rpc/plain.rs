//! The plain queue: add, poll, remove and extend, and the way to the full one.
//!
//! It behaves like the queue whose clients it serves: a wrong or expired lease is `false`, a poll
//! whose time runs out is empty, and a time-out of 0 waits for ever.

use std::rc::Rc;
use std::sync::Arc;

use windrow_core::command::{Claim, NewItem, Outcome};
use windrow_core::item::{Body, Payload};
use windrow_core::limits::{COMMAND_ITEMS_MAX, LEASE_MAX_MS, PAYLOAD_INLINE_MAX};
use windrow_core::{ItemId, LeaseId, Refusal, Timestamp};
use windrow_engine::{Clock as _, Failure};
use windrow_wire::queue_capnp::{add_request, queue, windrow};
use windrow_wire::rpc::{Wrong, item_id, lease_id};

use super::connection::Meter;
use super::full::Full;
use super::login::Login;
use super::{Shared, exception, handing, wrong};
use crate::auth::{Denied, Role, Scoped};

/// Longer than anybody waits.
const FOR_EVER_MS: u64 = 100 * 366 * 86_400_000;
/// What a poll is known as among the workers.
const WORKER: &str = "rpc";

/// What a connection gets first.
pub(super) struct Plain {
    shared: Shared,
    meter: Rc<Meter>,
    login: Rc<Login>,
    full: windrow::Client,
}

impl Plain {
    pub(super) fn new(shared: Shared, meter: Rc<Meter>) -> Plain {
        let login = Rc::new(Login::new(Arc::clone(&shared.app)));
        let full = Full::new(shared.clone(), Rc::clone(&meter), Rc::clone(&login));
        Plain { shared, meter, login, full: capnp_rpc::new_client(full) }
    }

    /// Whoever calls must have said who they are.
    async fn may(&self, role: Role) -> Result<Scoped, capnp::Error> {
        self.login.may(role).await.map_err(|wrong| exception(&wrong))
    }
}

impl queue::Server for Plain {
    async fn add(
        self: Rc<Self>,
        params: queue::AddParams,
        mut results: queue::AddResults,
    ) -> Result<(), capnp::Error> {
        let _call = self.meter.call()?;
        let scoped = self.may(Role::Producer).await?;
        let queue =
            self.shared.plain_queue().await.map_err(|failure| exception(&wrong(failure)))?;
        let plain = Body::new(scoped.tenant(), Arc::clone(queue));
        let items = new_items(&plain, params.get()?.get_req()?, scoped.clock().now());
        let mut items = items.map_err(|wrong| exception(&wrong))?;
        drop(params);
        let mut ids: Vec<ItemId> = Vec::with_capacity(items.len());
        while !items.is_empty() {
            let rest = items.split_off(items.len().min(COMMAND_ITEMS_MAX));
            let each = scoped.enqueue(items, None).await;
            for one in each.map_err(|denied| exception(&denied.into()))? {
                ids.push(one.map_err(|refusal| exception(&refusal.into()))?.id);
            }
            items = rest;
        }
        let mut list = results.get().init_resp().init_ids(ids.len() as u32);
        for (at, id) in (0..).zip(ids) {
            list.set(at, &id.0.to_be_bytes());
        }
        Ok(())
    }

    async fn remove(
        self: Rc<Self>,
        params: queue::RemoveParams,
        mut results: queue::RemoveResults,
    ) -> Result<(), capnp::Error> {
        let _call = self.meter.call()?;
        let scoped = self.may(Role::Worker).await?;
        let request = params.get()?.get_req()?;
        let lease = lease(request.get_lease()?)?;
        // No item has an id of another length, so it is unknown like any other.
        let removed = match item_id(request.get_id()?) {
            Ok(id) => remove(&scoped, lease, id).await?,
            Err(_) => false,
        };
        results.get().init_resp().set_removed(removed);
        Ok(())
    }

    async fn poll(
        self: Rc<Self>,
        params: queue::PollParams,
        mut results: queue::PollResults,
    ) -> Result<(), capnp::Error> {
        let _call = self.meter.call()?;
        let scoped = self.may(Role::Worker).await?;
        let queue =
            self.shared.plain_queue().await.map_err(|failure| exception(&wrong(failure)))?;
        let request = params.get()?.get_req()?;
        let max = (request.get_num_items().max(1) as usize).min(COMMAND_ITEMS_MAX);
        let claim = Claim {
            lease_ms: Some(validity(request.get_lease_validity_secs())?),
            ..Claim::new(WORKER, Arc::clone(queue), max)
        };
        let wait_ms = match request.get_timeout_secs() {
            0 => FOR_EVER_MS,
            seconds => seconds.saturating_mul(1_000).min(FOR_EVER_MS),
        };
        drop(params);
        let granted = handing::claim(&self.shared, scoped, claim, wait_ms, None).await;
        let granted = granted.map_err(|denied| exception(&denied.into()))?;
        let mut response = results.get().init_resp();
        let Some(grant) = granted.and_then(handing::Handing::over) else { return Ok(()) };
        response.set_lease(&grant.lease.0.to_be_bytes());
        let mut items = response.init_items(grant.items.len() as u32);
        for (at, work) in (0..).zip(&grant.items) {
            let mut item = items.reborrow().get(at);
            item.set_id(&work.item.id.0.to_be_bytes());
            if let Payload::Inline(bytes) = &work.body.payload {
                item.set_contents(bytes);
            }
        }
        Ok(())
    }

    async fn extend(
        self: Rc<Self>,
        params: queue::ExtendParams,
        mut results: queue::ExtendResults,
    ) -> Result<(), capnp::Error> {
        let _call = self.meter.call()?;
        let scoped = self.may(Role::Worker).await?;
        let request = params.get()?.get_req()?;
        let lease = lease(request.get_lease()?)?;
        let lease_ms = validity(request.get_lease_validity_secs())?;
        let extended = match scoped.renew(lease, Some(lease_ms)).await {
            Ok(_) => true,
            Err(Denied::Failed(Failure::Refused(Refusal::LeaseLost { .. }))) => false,
            Err(denied) => return Err(exception(&denied.into())),
        };
        results.get().init_resp().set_extended(extended);
        Ok(())
    }

    async fn login(
        self: Rc<Self>,
        params: queue::LoginParams,
        mut results: queue::LoginResults,
    ) -> Result<(), capnp::Error> {
        let token = params.get()?.get_token()?.to_str()?;
        self.login.with(token).await.map_err(|wrong| exception(&wrong))?;
        results.get().set_queue(self.full.clone());
        Ok(())
    }

    async fn open(
        self: Rc<Self>,
        _: queue::OpenParams,
        mut results: queue::OpenResults,
    ) -> Result<(), capnp::Error> {
        self.may(Role::Viewer).await?;
        results.get().set_queue(self.full.clone());
        Ok(())
    }
}

/// Everything that an add brings, or nothing: a caller could not tell which were taken.
fn new_items(
    plain: &Body,
    request: add_request::Reader<'_>,
    now: Timestamp,
) -> Result<Vec<NewItem>, Wrong> {
    let list = request.get_items()?;
    let mut items = Vec::with_capacity(list.len() as usize);
    for item in list {
        let contents = item.get_contents()?;
        if contents.len() > PAYLOAD_INLINE_MAX {
            let len = contents.len();
            let why = format!("has {len} bytes; at most {PAYLOAD_INLINE_MAX}; nothing was added");
            return Err(Refusal::invalid("contents", why).into());
        }
        let body = Body { payload: Payload::Inline(contents.to_vec()), ..plain.clone() };
        let not_before = match item.get_visibility_timeout_secs() {
            0 => Timestamp::ZERO,
            seconds => now.plus(seconds.saturating_mul(1_000)),
        };
        items.push(NewItem { not_before, ..NewItem::new(body) });
    }
    Ok(items)
}

/// Removes an item if the lease holds it.
async fn remove(scoped: &Scoped, lease: LeaseId, id: ItemId) -> Result<bool, capnp::Error> {
    let each = scoped.settle(lease, vec![(id, Outcome::complete())], None).await;
    match each.map_err(|denied| exception(&denied.into()))?.pop() {
        Some(Ok(_)) => Ok(true),
        Some(Err(Refusal::LeaseLost { .. } | Refusal::NotFound { .. })) | None => Ok(false),
        Some(Err(refusal)) => Err(exception(&refusal.into())),
    }
}

fn lease(bytes: &[u8]) -> Result<LeaseId, capnp::Error> {
    lease_id(bytes).map_err(|refusal| exception(&refusal.into()))
}

fn validity(seconds: u64) -> Result<u64, capnp::Error> {
    if seconds == 0 {
        let refusal = Refusal::invalid("leaseValiditySecs", "must not be 0");
        return Err(exception(&refusal.into()));
    }
    Ok(seconds.saturating_mul(1_000).min(LEASE_MAX_MS))
}
