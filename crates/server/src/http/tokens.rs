//! Tokens: given, listed, taken back. For admins of all tenants.

use axum::http::StatusCode;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::{Refusal, Timestamp};
use windrow_engine::Clock as _;
use windrow_wire::problem::Code;
use windrow_wire::time::Time;

use super::reply::{Done, Failed, Named, Read};
use crate::auth::{Fresh, Kept, Role, Scoped, Targets, Wanted};

/// A token that is to be made.
#[derive(Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    pub(crate) role: Role,
    /// What lists and the audit call it; by default the name of its role.
    pub(crate) name: Option<String>,
    /// The only tenant whose things it may see and touch; all if none is named.
    pub(crate) tenant: Option<String>,
    /// When it ends.
    pub(crate) expires_at: Option<Time>,
    /// The same, from now on.
    pub(crate) expires_in_ms: Option<u64>,
}

/// Who asks.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Asker {
    /// The name of the token, or what let the caller in.
    name: String,
    role: Role,
    /// The only tenant whose things the caller may see and touch; all if none is named.
    tenant: Option<String>,
}

pub(super) async fn caller(scoped: Scoped) -> Json<Asker> {
    let caller = scoped.caller();
    Json(Asker {
        name: caller.name.to_string(),
        role: caller.role,
        tenant: caller.tenant.as_ref().map(ToString::to_string),
    })
}

/// A token without its secret.
#[derive(Serialize, Deserialize, JsonSchema, Debug)]
pub(crate) struct Shown {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) tenant: Option<String>,
    pub(crate) created_at: Time,
    pub(crate) expires_at: Option<Time>,
    /// To the hour after a restart, and on other servers.
    pub(crate) last_used_at: Option<Time>,
    pub(crate) revoked_at: Option<Time>,
}

/// A new token, with the text that opens; it is not shown again.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Made {
    pub(crate) token: String,
    #[serde(flatten)]
    pub(crate) shown: Shown,
}

impl Shown {
    pub(crate) fn new(id: &str, kept: &Kept) -> Shown {
        let time = |ms| Time(Timestamp(ms));
        Shown {
            id: id.to_owned(),
            name: kept.name.to_string(),
            role: kept.role,
            tenant: kept.tenant.as_deref().map(str::to_owned),
            created_at: time(kept.created_ms),
            expires_at: kept.expires_ms.map(time),
            last_used_at: kept.used_ms.map(time),
            revoked_at: kept.revoked_ms.map(time),
        }
    }
}

impl From<Fresh> for Made {
    fn from(fresh: Fresh) -> Made {
        Made { shown: Shown::new(&fresh.id, &fresh.kept), token: fresh.text }
    }
}

impl NewToken {
    pub(crate) fn wanted(self, now: Timestamp) -> Result<Wanted, Refusal> {
        let expires = match (self.expires_at, self.expires_in_ms) {
            (Some(_), Some(_)) => {
                return Err(Refusal::invalid("expires_in_ms", "cannot be given with expires_at"));
            }
            (Some(Time(at)), None) => Some(at),
            (None, ms) => ms.map(|ms| now.plus(ms)),
        };
        let name = self.name.unwrap_or_else(|| self.role.name().to_owned());
        Ok(Wanted { name, role: self.role, tenant: self.tenant, expires })
    }
}

pub(super) async fn create(
    scoped: Scoped,
    Read(new): Read<NewToken>,
) -> Result<(StatusCode, Extension<Targets>, Json<Made>), Failed> {
    let queue = scoped.whole()?;
    let fresh = scoped.book().create(new.wanted(queue.clock().now())?).await?;
    let targets = Targets(vec![fresh.id.to_string()]);
    Ok((StatusCode::CREATED, Extension(targets), Json(fresh.into())))
}

pub(super) async fn list(scoped: Scoped) -> Result<Json<Vec<Shown>>, Failed> {
    scoped.whole()?;
    let all = scoped.book().list().await?;
    Ok(Json(all.iter().map(|(id, kept)| Shown::new(id, kept)).collect()))
}

pub(super) async fn revoke(scoped: Scoped, Named(id): Named) -> Result<Json<Done>, Failed> {
    scoped.whole()?;
    match scoped.book().revoke(&id).await? {
        Some(_) => Ok(Done::YES),
        None => Err(Failed::new(Code::NotFound, "there is no such token, or it is revoked")),
    }
}
