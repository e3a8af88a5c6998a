//! Resources: what stages share, when it is left alone, and how much it bears.

use axum::Json;
use axum::extract::Request;
use axum::http::Method;
use axum::routing::{delete, get, post, put};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::command::Command;
use windrow_core::limits::DELAY_MAX_MS;
use windrow_core::ports::Store as _;
use windrow_core::resource::{self, Breaker};
use windrow_core::{Refusal, Timestamp};
use windrow_engine::Clock as _;
use windrow_wire::time::Time;

use super::reply::{Done, Failed, Named, Read, read, whole};
use super::table::{Operation, Role};
use crate::auth::Scoped;

/// What can be asked of resources.
pub(super) fn operations() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::GET,
            "/resources",
            Role::Viewer,
            "Resources of which something is known: closed, limited, or reported to fail.",
            get(list),
        )
        .gives::<Vec<Shown>>(200),
        of(
            Method::GET,
            "/resources/{resource}",
            Role::Viewer,
            "What is known of a resource, and what would open it.",
            get(show),
        )
        .gives::<Shown>(200),
        of(
            Method::PUT,
            "/resources/{resource}",
            Role::Operator,
            "Say what a resource bears. What is left out is as it is by default.",
            put(limit),
        )
        .needs::<Limits>()
        .gives::<Done>(200),
        of(
            Method::DELETE,
            "/resources/{resource}",
            Role::Operator,
            "Forget all that is known of a resource; it is open and without limits.",
            delete(forget),
        )
        .gives::<Done>(200),
        of(
            Method::POST,
            "/resources/{resource}/close",
            Role::Operator,
            "Hand out nothing that needs a resource, until a time or for a while.",
            post(close),
        )
        .takes::<Close>()
        .gives::<Done>(200),
        of(
            Method::POST,
            "/resources/{resource}/open",
            Role::Operator,
            "Hand out again what needs a resource, whatever was reported of it.",
            post(open),
        )
        .gives::<Done>(200),
    ]
}

/// What a resource bears.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limits {
    rate: Option<Rate>,
    /// So many failures of class infrastructure within the window close it; 0 for never.
    failures: u32,
    window_ms: u64,
    /// How long it rests the first time, if nobody says for how long; doubles each time.
    rest_ms: u64,
    rest_max_ms: u64,
}

/// So many in so much time, and at most so many at once.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Rate {
    count: u32,
    per_ms: u64,
    /// As many as `count`, if not said.
    burst: Option<u32>,
}

impl Default for Limits {
    fn default() -> Limits {
        resource::Limits::default().into()
    }
}

impl From<resource::Limits> for Limits {
    fn from(of: resource::Limits) -> Limits {
        let resource::Limits { rate, failures, window_ms, rest_ms, rest_max_ms } = of;
        let rate = rate.map(|resource::Rate { count, per_ms, burst }| Rate {
            count,
            per_ms,
            burst: Some(burst),
        });
        Limits { rate, failures, window_ms, rest_ms, rest_max_ms }
    }
}

impl From<Limits> for resource::Limits {
    fn from(of: Limits) -> resource::Limits {
        let Limits { rate, failures, window_ms, rest_ms, rest_max_ms } = of;
        let rate = rate.map(|Rate { count, per_ms, burst }| resource::Rate {
            count,
            per_ms,
            burst: burst.unwrap_or(count),
        });
        resource::Limits { rate, failures, window_ms, rest_ms, rest_max_ms }
    }
}

/// What is known of a resource.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Shown {
    name: String,
    /// `open`, `closed` by an operator or an empty bucket, `resting` after failures, `probing`
    /// with one item at a time, or `ramping` up with a few.
    state: &'static str,
    /// Nothing that needs it is handed out before. None if it is open, or closed until somebody
    /// opens it.
    closed_until: Option<Time>,
    /// Failures in the window that runs.
    failures: u32,
    /// What would open it, if it is not open.
    #[serde(skip_serializing_if = "Option::is_none")]
    unblocked_by: Option<String>,
    limits: Limits,
}

impl Shown {
    fn new(name: &str, of: &resource::Resource, now: Timestamp) -> Shown {
        let is_closed = of.closed_until > now;
        let (state, failures) = match of.breaker {
            Breaker::Calm { failures, .. } if is_closed => ("closed", failures),
            Breaker::Calm { failures, .. } => ("open", failures),
            Breaker::Resting { .. } => ("resting", 0),
            Breaker::Probing { .. } => ("probing", 0),
            Breaker::Ramping { .. } => ("ramping", 0),
        };
        let at = of.closed_until;
        let is_for_ever = at >= Timestamp::FOR_EVER;
        let unblocked_by = match of.breaker {
            Breaker::Calm { .. } if !is_closed => None,
            Breaker::Calm { .. } if is_for_ever => Some("POST …/open".to_owned()),
            Breaker::Calm { .. } => Some(format!("waiting until {at}, or POST …/open")),
            Breaker::Resting { .. } if is_closed => {
                Some(format!("one item that goes well after {at}, or POST …/open"))
            }
            Breaker::Resting { .. } => Some("one item that goes well, or POST …/open".to_owned()),
            Breaker::Probing { .. } => Some("the item that probes it going well".to_owned()),
            Breaker::Ramping { .. } => Some("more items going well".to_owned()),
        };
        Shown {
            name: name.to_owned(),
            state,
            closed_until: (is_closed && !is_for_ever).then(|| at.into()),
            failures,
            unblocked_by,
            limits: of.limits.into(),
        }
    }
}

/// For how long a resource is closed: one of the two.
#[derive(Deserialize, JsonSchema, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Close {
    until: Option<Time>,
    for_ms: Option<u64>,
}

async fn list(queue: Scoped) -> Result<Json<Vec<Shown>>, Failed> {
    let now = queue.clock().now();
    let all = queue.whole()?.store().resources().await?;
    Ok(Json(all.iter().map(|(name, state)| Shown::new(name, state, now)).collect()))
}

async fn show(queue: Scoped, Named(name): Named) -> Result<Json<Shown>, Failed> {
    let now = queue.clock().now();
    let all = queue.whole()?.store().resources().await?;
    let found = all.iter().find(|(known, _)| **known == *name);
    let found = found.map(|(name, state)| Json(Shown::new(name, state, now)));
    found.ok_or_else(|| Failed::not_found("resource of that name of which anything is known"))
}

async fn limit(queue: Scoped, Named(name): Named, request: Request) -> Result<Json<Done>, Failed> {
    // Nothing is not taken for `{}`: that would reset everything.
    let limits: Limits = read(&whole(request, &()).await?)?;
    submit(&queue, Command::Limit { resource: name.into(), limits: Some(limits.into()) }).await
}

async fn forget(queue: Scoped, Named(name): Named) -> Result<Json<Done>, Failed> {
    submit(&queue, Command::Limit { resource: name.into(), limits: None }).await
}

async fn close(
    queue: Scoped,
    Named(name): Named,
    Read(close): Read<Close>,
) -> Result<Json<Done>, Failed> {
    let now = queue.clock().now();
    let most = now.plus(DELAY_MAX_MS);
    let closed_until = match (close.until, close.for_ms) {
        (Some(Time(at)), None) => at.min(most),
        (None, Some(ms)) => now.plus(ms).min(most),
        (None, None) => Timestamp::FOR_EVER,
        (Some(_), Some(_)) => {
            return Err(Refusal::invalid("for_ms", "cannot be given with until").into());
        }
    };
    submit(&queue, Command::Gate { resource: name.into(), closed_until }).await
}

async fn open(queue: Scoped, Named(name): Named) -> Result<Json<Done>, Failed> {
    let closed_until = Timestamp::ZERO;
    submit(&queue, Command::Gate { resource: name.into(), closed_until }).await
}

async fn submit(queue: &Scoped, command: Command) -> Result<Json<Done>, Failed> {
    queue.whole()?.submit(command).await?;
    Ok(Done::YES)
}
