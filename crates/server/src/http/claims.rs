//! Work: claimed, renewed, reported on, settled.

use axum::Json;
use axum::http::HeaderMap;
use schemars::JsonSchema;
use serde::Serialize;
use windrow_core::command::Outcome;
use windrow_core::{ItemId, Refusal};
use windrow_engine::Clock as _;
use windrow_wire::answer::{Called, Each, Settled};
use windrow_wire::claim::{Claim, Granted, Progress, ProgressOf, Renew, Renewed};
use windrow_wire::object::Object;
use windrow_wire::settle::{Settle, SettleItem};

use super::answers::Answers;
use super::reply::{Failed, Named, Read, lease_id, request_id};
use crate::auth::Scoped;

pub(super) async fn claim(
    queue: Scoped,
    headers: HeaderMap,
    Read(claim): Read<Claim>,
) -> Result<Json<Granted>, Failed> {
    let id = request_id(&headers)?;
    claim.check()?;
    let wait_ms = claim.wait_ms;
    let granted = queue.claim(claim.into_core(), wait_ms, id).await?;
    Ok(Json(granted.map_or_else(Granted::nothing, Granted::from)))
}

pub(super) async fn renew(
    queue: Scoped,
    Named(lease): Named,
    Read(renew): Read<Renew>,
) -> Result<Json<Renewed>, Failed> {
    renew.check()?;
    let renewed = queue.renew(lease_id(&lease)?, renew.lease_ms).await?;
    Ok(Json(renewed.into()))
}

/// That it was written down how far an item is.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Told {
    told: bool,
}

impl From<()> for Told {
    fn from((): ()) -> Told {
        Told { told: true }
    }
}

pub(super) async fn progress(
    queue: Scoped,
    Named(lease): Named,
    Read(said): Read<ProgressOf>,
) -> Result<Json<Vec<Each<Told>>>, Failed> {
    let lease = lease_id(&lease)?;
    let called = |Object(progress): &Object<Progress>| called(&progress.id);
    let mut answers = Answers::new(said.items, called, |Object(progress)| {
        Ok((parse(&progress.id)?, progress.into_core()))
    });
    let items = answers.take();
    let told = queue.progress(lease, items).await?;
    Ok(Json(answers.with(told)))
}

pub(super) async fn settle(
    queue: Scoped,
    headers: HeaderMap,
    Named(lease): Named,
    Read(said): Read<Settle>,
) -> Result<Json<Vec<Each<Settled>>>, Failed> {
    let (lease, id) = (lease_id(&lease)?, request_id(&headers)?);
    let (tenant, now) = (queue.tenant(), queue.clock().now());
    let called = |Object(item): &Object<SettleItem>| called(&item.id);
    let mut answers = Answers::new(said.items, called, |Object(item)| {
        Ok((parse(&item.id)?, item.into_core(&tenant, now)?))
    });
    let items: Vec<(ItemId, Outcome)> = answers.take();
    let settled = queue.settle(lease, items, id).await?;
    Ok(Json(answers.with(settled)))
}

fn called(id: &str) -> Called {
    Called { id: Some(id.to_owned()), key: None }
}

fn parse(id: &str) -> Result<ItemId, Refusal> {
    id.parse().map_err(|_| Refusal::invalid("id", "is not an item's id"))
}
