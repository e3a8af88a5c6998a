//! Queues: paused, resumed, configured.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use schemars::JsonSchema;
use serde::Deserialize;
use windrow_core::ports::Store as _;
use windrow_core::{Refusal, command};
use windrow_wire::bounds::plain;
use windrow_wire::settings::Settings;

use super::App;
use super::reply::{Done, Failed, Named, Read, must_be_json, read, whole};

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
}

pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Named(queue): Named,
    Read(scope): Read<Scope>,
) -> Result<Json<Done>, Failed> {
    let scope = scope.of(queue)?;
    app.queue.pause(scope.clone()).await?;
    known(&app, &scope).await
}

pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Named(queue): Named,
    Read(scope): Read<Scope>,
) -> Result<Json<Done>, Failed> {
    let scope = scope.of(queue)?;
    app.queue.resume(scope.clone()).await?;
    known(&app, &scope).await
}

/// That it is done, and a word if the queue has nothing in it: its name may be a slip.
async fn known(app: &App, scope: &command::Scope) -> Result<Json<Done>, Failed> {
    let counts = app.queue.store().counts().await?;
    let is_used = counts.iter().any(|count| count.queue == scope.queue);
    let note = (!is_used).then(|| format!("no item of queue {:?} is here", scope.queue));
    Ok(Json(Done { done: true, note }))
}

pub(super) async fn configure(
    State(app): State<Arc<App>>,
    Named(queue): Named,
    request: Request,
) -> Result<Json<Done>, Failed> {
    plain("queue", &queue)?;
    must_be_json(request.headers())?;
    // Nothing is not taken for `{}`: that would reset everything.
    let settings: Settings = read(&whole(request, &app).await?)?;
    settings.check()?;
    app.queue.configure(queue, settings.into()).await?;
    Ok(Done::YES)
}
