//! Webhooks: written, shown, tested, taken away.
//!
//! They are the server's own, and no tenant's; which tenants' items they tell of is in them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::ETAG;
use axum::response::{IntoResponse, Response};
use windrow_core::Refusal;
use windrow_core::note::Expects;
use windrow_core::ports::Store as _;
use windrow_engine::{Clock as _, Failure};
use windrow_wire::time::Time;
use windrow_wire::webhook::{NewWebhook, Tested, Told, Webhook};

use super::App;
use super::reply::{Done, Failed, Named, read, whole};
use super::schedules::if_match;
use crate::auth::Scoped;
use crate::named::check_name;
use crate::store::Queue;
use crate::webhooks::kept::{Kept, SHELF, Secret, check};
use crate::webhooks::{agree, find, prepare, tell, write};

pub(super) async fn list(scoped: Scoped) -> Result<Json<Vec<Webhook>>, Failed> {
    let notes = scoped.whole()?.store().notes(SHELF).await?;
    let read = notes.iter().filter_map(|note| Some((&note.name, Kept::read(&note.body)?)));
    let there = read.filter(|(_, kept)| !kept.gone);
    Ok(Json(there.map(|(name, kept)| shown(name, kept, false)).collect()))
}

pub(super) async fn show(scoped: Scoped, Named(name): Named) -> Result<Response, Failed> {
    let (kept, _) = known(scoped.whole()?, &name).await?;
    Ok(with_tag(shown(&name, kept, false)))
}

pub(super) async fn put(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(name): Named,
    request: Request,
) -> Result<Response, Failed> {
    let queue = scoped.whole()?;
    check_name(&name)?;
    let matches = if_match(request.headers())?;
    let says: NewWebhook = read(&whole(request, &app).await?)?;
    let target = check(&says)?;
    app.sender.check(&target).map_err(|why| Refusal::invalid("url", why))?;
    prepare(queue).await?;
    loop {
        let (was, version) = find(queue, &name).await?.unzip();
        must_match(matches, was.as_ref())?;
        let secret = says.secret.clone().map(Secret);
        let old = was.as_ref().filter(|was| !was.gone);
        let secret = secret.or_else(|| old.map(|old| old.secret.clone()));
        let is_made = secret.is_none();
        let revision = was.as_ref().map_or(0, |was| was.revision + 1);
        let kept = Kept {
            says: says.clone(),
            secret: secret.unwrap_or_else(|| Secret::new(random())),
            revision: revision.max(scoped.clock().now().0),
            leaves: was.map_or_else(Vec::new, |was| was.concerns()),
            gone: false,
        };
        let expects = version.map_or(Expects::Nothing, Expects::Version);
        match write(queue, &name, expects, Some(&kept)).await {
            Err(Failure::Refused(Refusal::Changed { .. })) => {}
            written => {
                agree(queue, &name, kept.clone(), written?).await?;
                return Ok(with_tag(shown(&name, kept, is_made)));
            }
        }
    }
}

pub(super) async fn remove(
    scoped: Scoped,
    Named(name): Named,
    headers: HeaderMap,
) -> Result<Json<Done>, Failed> {
    let (queue, matches) = (scoped.whole()?, if_match(&headers)?);
    let (kept, version) = known(queue, &name).await?;
    must_match(matches, Some(&kept))?;
    let kept = Kept { gone: true, ..kept };
    let version = write(queue, &name, Expects::Version(version), Some(&kept)).await?;
    agree(queue, &name, kept, version).await?;
    Ok(Done::YES)
}

/// Sends something at once, and says how it went.
pub(super) async fn test(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(name): Named,
) -> Result<Json<Tested>, Failed> {
    let (kept, _) = known(scoped.whole()?, &name).await?;
    let now = scoped.clock().now();
    let (event, delivery) = ("test".to_owned(), format!("test-{}", now.0));
    let told = Told { event, delivery, webhook: name, at: Time(now), item: None };
    Ok(Json(match tell(&app.sender, &kept, &told, now).await {
        Ok(said) => {
            let delivered = (200..300).contains(&said.status);
            Tested { delivered, status: Some(said.status), error: None }
        }
        Err(why) => Tested { delivered: false, status: None, error: Some(why) },
    }))
}

async fn known(queue: &Queue, name: &str) -> Result<(Kept, u64), Failed> {
    let found = find(queue, name).await?.filter(|(kept, _)| !kept.gone);
    found.ok_or_else(|| Failed::not_found("such webhook"))
}

fn shown(name: &str, kept: Kept, with_secret: bool) -> Webhook {
    let Kept { says, secret, revision, .. } = kept;
    let NewWebhook { url, queues, tenants, endings, enabled, .. } = says;
    let fingerprint = secret.fingerprint();
    let name = name.to_owned();
    let secret = with_secret.then_some(secret.0);
    Webhook { name, revision, url, queues, tenants, endings, enabled, fingerprint, secret }
}

fn with_tag(webhook: Webhook) -> Response {
    ([(ETAG, format!("\"{}\"", webhook.revision))], Json(webhook)).into_response()
}

fn must_match(matches: Option<u64>, was: Option<&Kept>) -> Result<(), Failed> {
    let revision = was.map_or(0, |was| was.revision);
    match matches {
        Some(read) if read != revision => Err(Refusal::Changed { version: revision }.into()),
        _ => Ok(()),
    }
}

fn random() -> [u8; 32] {
    use rand::Rng as _;
    let mut bytes = [0; 32];
    rand::make_rng::<rand::rngs::StdRng>().fill_bytes(&mut bytes);
    bytes
}
