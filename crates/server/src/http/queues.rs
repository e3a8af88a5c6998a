//! Queues: paused, resumed, configured.

use std::sync::Arc;

use axum::extract::Request;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::ports::Store as _;
use windrow_core::vitals::Standing;
use windrow_core::{Refusal, command};
use windrow_engine::Clock as _;
use windrow_wire::bounds::plain;
use windrow_wire::read::nearest;
use windrow_wire::settings::Settings;

use super::list::Paused;
use super::reply::{Done, Failed, Named, Read, must_be_json, read, whole};
use crate::auth::{Scoped, Targets};

/// What of a queue is meant; all of it if nothing is named.
#[derive(Deserialize, JsonSchema, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Scope {
    stage: Option<String>,
    tenant: Option<String>,
}

impl Scope {
    fn of(self, queue: String) -> Result<command::Scope, Refusal> {
        plain("queue", &queue)?;
        let (stage, tenant) = (self.stage.map(Into::into), self.tenant.map(Into::into));
        Ok(command::Scope { queue: queue.into(), stage, tenant })
    }

    /// What the audit says of it.
    fn targets(&self) -> Extension<Targets> {
        let named = [("stage", &self.stage), ("tenant", &self.tenant)];
        let named = named.into_iter().filter_map(|(what, name)| Some((what, name.as_ref()?)));
        Extension(Targets(named.map(|(what, name)| format!("{what}={name}")).collect()))
    }
}

pub(super) async fn pause(
    scoped: Scoped,
    Named(queue): Named,
    Read(scope): Read<Scope>,
) -> Result<(Extension<Targets>, Json<Stands>), Failed> {
    let (targets, scope) = (scope.targets(), scope.of(queue)?);
    let (queue, stage) = (Arc::clone(&scope.queue), scope.stage.clone());
    scoped.pause(scope).await?;
    let mut stands = stands(&scoped, &queue).await?;
    if let Some(stage) = stage.filter(|_| stands.note.is_none()) {
        stands.0.note = is_empty(&scoped, &queue, &stage).await?;
    }
    Ok((targets, stands))
}

pub(super) async fn resume(
    scoped: Scoped,
    Named(queue): Named,
    Read(scope): Read<Scope>,
) -> Result<(Extension<Targets>, Json<Stands>), Failed> {
    let (targets, scope) = (scope.targets(), scope.of(queue)?);
    let queue = Arc::clone(&scope.queue);
    scoped.resume(scope).await?;
    Ok((targets, stands(&scoped, &queue).await?))
}

/// What is paused now.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Stands {
    done: bool,
    /// What of the queue is paused now, also by others: all of it, or a stage or tenant. Nothing of
    /// it is handed out as long as the whole queue is here.
    paused: Vec<Paused>,
    /// Something that may be a slip.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// How it stands, and a word if the queue has nothing in it: its name may be a slip.
async fn stands(scoped: &Scoped, queue: &str) -> Result<Json<Stands>, Failed> {
    let note = no_item(scoped, queue).await?;
    let paused = scoped.paused(queue).await?.iter().map(Paused::from).collect();
    Ok(Json(Stands { done: true, paused, note }))
}

async fn no_item(scoped: &Scoped, queue: &str) -> Result<Option<String>, Failed> {
    let counts = scoped.counts().await?;
    let names = || counts.iter().map(|count| &*count.queue);
    if names().any(|name| name == queue) {
        return Ok(None);
    }
    let near = nearest(queue, names());
    let near = near.map(|near| format!("; {near:?} is meant, perhaps")).unwrap_or_default();
    Ok(Some(format!("no item of queue {queue:?} is here{near}")))
}

/// A word if no item is in a stage: its name may be a slip, too. Nothing is said to somebody who
/// sees only some of them.
async fn is_empty(scoped: &Scoped, queue: &str, stage: &str) -> Result<Option<String>, Failed> {
    let Ok(all) = scoped.whole() else { return Ok(None) };
    let stages = all.store().stages(all.clock().now(), 1).await?;
    let is_it = |of: &Standing| *of.queue == *queue && *of.stage == *stage;
    let note = format!("no item of queue {queue:?} waits or runs in stage {stage:?} now");
    Ok((!stages.iter().any(is_it)).then_some(note))
}

pub(super) async fn configure(
    scoped: Scoped,
    Named(queue): Named,
    request: Request,
) -> Result<Json<Done>, Failed> {
    plain("queue", &queue)?;
    must_be_json(request.headers())?;
    // Nothing is not taken for `{}`: that would reset everything.
    scoped.whole()?;
    let text = whole(request, &()).await?;
    let settings: Settings = read(&text)?;
    settings.check()?;
    let settings = settings.or_assumed(&text, &scoped.assumed());
    scoped.configure(&queue, settings.into()).await?;
    let note = no_item(&scoped, &queue).await?;
    Ok(Json(Done { done: true, note }))
}

/// Back to how a queue behaves of which nobody said anything.
pub(super) async fn reset(scoped: Scoped, Named(queue): Named) -> Result<Json<Settings>, Failed> {
    plain("queue", &queue)?;
    let settings = scoped.assumed();
    scoped.configure(&queue, settings.clone()).await?;
    Ok(Json(settings.in_force().into()))
}
