//! Queues: paused, resumed, configured.

use axum::extract::Request;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Deserialize;
use windrow_core::{Refusal, command};
use windrow_wire::bounds::plain;
use windrow_wire::settings::Settings;

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
) -> Result<(Extension<Targets>, Json<Done>), Failed> {
    let (targets, scope) = (scope.targets(), scope.of(queue)?);
    scoped.pause(scope.clone()).await?;
    Ok((targets, known(&scoped, &scope).await?))
}

pub(super) async fn resume(
    scoped: Scoped,
    Named(queue): Named,
    Read(scope): Read<Scope>,
) -> Result<(Extension<Targets>, Json<Done>), Failed> {
    let (targets, scope) = (scope.targets(), scope.of(queue)?);
    scoped.resume(scope.clone()).await?;
    Ok((targets, known(&scoped, &scope).await?))
}

/// That it is done, and a word if the queue has nothing in it: its name may be a slip.
async fn known(scoped: &Scoped, scope: &command::Scope) -> Result<Json<Done>, Failed> {
    let counts = scoped.counts().await?;
    let is_used = counts.iter().any(|count| count.queue == scope.queue);
    let note = (!is_used).then(|| format!("no item of queue {:?} is here", scope.queue));
    Ok(Json(Done { done: true, note }))
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
    let settings: Settings = read(&whole(request, &()).await?)?;
    settings.check()?;
    scoped.configure(&queue, settings.into()).await?;
    Ok(Done::YES)
}
