//! Settings as JSON: what of them the views and functions in the database need to know.
//!
//! A name or resource with a NUL is left out: no text in PostgreSQL has one, so nothing that is
//! there can be meant.

use serde_json::{Map, Value, json};
use windrow_core::limits::LEASE_MAX_MS;
use windrow_core::settings::{Policy, Settings, Unique};

pub(super) fn write(settings: &Settings) -> String {
    let mut stages = Map::new();
    for of in settings.stages.iter().filter(|of| fits(&of.stage)) {
        stages.entry(&*of.stage).or_insert_with(|| policy(&of.policy));
    }
    let mut kinds = Map::new();
    for of in settings.kinds.iter().filter(|of| fits(&of.kind)) {
        kinds.entry(&*of.kind).or_insert_with(|| json!(of.lease_ms.min(LEASE_MAX_MS)));
    }
    let unique = match settings.unique {
        Unique::Live => "live",
        Unique::Retained => "retained",
    };
    json!({
        "live_max": settings.live_max.map(number),
        "unique": unique,
        "defaults": policy(&settings.defaults),
        "stages": stages,
        "kinds": kinds,
    })
    .to_string()
}

fn policy(policy: &Policy) -> Value {
    let resource = policy.resource.as_deref().filter(|resource| fits(resource));
    let ahead = policy.ahead.as_ref().filter(|ahead| fits(&ahead.stage));
    json!({
        "lease_ms": policy.lease_ms.min(LEASE_MAX_MS),
        "max_attempts": policy.max_attempts,
        "retry_first": policy.retry_first,
        "group_limit": policy.group_limit,
        "ordered": policy.ordered,
        "resource": resource,
        "ahead_stage": ahead.map(|ahead| &*ahead.stage),
        "ahead_max": ahead.map(|ahead| number(ahead.max)),
    })
}

/// As large a number as a column can hold.
fn number(number: u64) -> u64 {
    number.min(i64::MAX as u64)
}

fn fits(text: &str) -> bool {
    !text.contains('\0')
}
