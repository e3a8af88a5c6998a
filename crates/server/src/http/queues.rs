//! Queues: paused, resumed, configured.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use schemars::JsonSchema;
use serde::Deserialize;
use windrow_core::command;
use windrow_wire::settings::Settings;

use super::App;
use super::reply::{Done, Failed, Named, Read, read, whole};

/// What of a queue is meant; all of it if nothing is named.
#[derive(Deserialize, JsonSchema, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Scope {
    stage: Option<String>,
    tenant: Option<String>,
}

impl Scope {
    fn of(self, queue: String) -> command::Scope {
        let (stage, tenant) = (self.stage.map(Into::into), self.tenant.map(Into::into));
        command::Scope { queue: queue.into(), stage, tenant }
    }
}

pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Named(queue): Named,
    Read(scope): Read<Scope>,
) -> Result<Json<Done>, Failed> {
    app.queue.pause(scope.of(queue)).await?;
    Ok(Done::YES)
}

pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Named(queue): Named,
    Read(scope): Read<Scope>,
) -> Result<Json<Done>, Failed> {
    app.queue.resume(scope.of(queue)).await?;
    Ok(Done::YES)
}

pub(super) async fn configure(
    State(app): State<Arc<App>>,
    Named(queue): Named,
    request: Request,
) -> Result<Json<Done>, Failed> {
    // Nothing is not taken for `{}`: that would reset everything.
    let settings: Settings = read(&whole(request, &app).await?)?;
    app.queue.configure(queue, settings.into()).await?;
    Ok(Done::YES)
}
