//! The courier: a worker inside the server that delivers what ended items left.
//!
//! A delivery is an item in a queue of its own, with a lease and attempts like any other. A server
//! that dies while it sends leaves it to be sent again: what is delivered is delivered at least
//! once, and whoever receives it knows a repeat by the delivery's id.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use windrow_core::command::{Claim, Outcome};
use windrow_core::note::Note;
use windrow_core::ports::{Store as _, Work};
use windrow_core::rules::notify::DELIVERIES;
use windrow_core::settings::{Backoff, Policy, Settings};
use windrow_core::trail::Class;
use windrow_core::{LeaseId, Timestamp};
use windrow_engine::{Clock as _, Failure};
use windrow_wire::time::Time;
use windrow_wire::webhook::{Told, ToldItem};

use super::kept::{Kept, SHELF};
use super::send::{Said, Sender};
use super::url::Target;
use crate::http::App;
use crate::store::Queue;

/// Deliveries at once, and to one webhook of one tenant.
const AT_ONCE: usize = 32;
const AT_ONCE_EACH: u32 = 8;
/// How long a delivery may be under way; more than the time in which a receiver must answer.
const LEASE_MS: u64 = 60_000;
/// How long one claim waits for something to deliver.
const WAIT_MS: u64 = 20_000;
/// How often to look for webhooks while there are none.
const LOOK: Duration = Duration::from_secs(1);
/// The longest that a receiver may ask us to wait.
const ASKED_MAX: Duration = Duration::from_secs(3_600);

/// How deliveries are tried again until an operator says otherwise: for half a day.
pub(crate) fn settings() -> Settings {
    let backoff = Backoff { cap_ms: 3_600_000, ..Backoff::default() };
    let defaults = Policy {
        lease_ms: LEASE_MS,
        max_attempts: 20,
        backoff,
        group_limit: Some(AT_ONCE_EACH),
        ..Policy::default()
    };
    Settings { defaults, ..Settings::default() }
}

/// Delivers until the server stops, and what is under way then.
pub(crate) async fn run(app: Arc<App>) {
    super::agree_all(app.queue.for_the_server()).await;
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut sending = JoinSet::new();
    while !app.is_stopping() {
        while sending.try_join_next().is_some() {}
        let hooks = hooks(app.queue.for_the_server()).await;
        if hooks.is_empty() {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = app.stops() => {}
            }
            continue;
        }
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let max = 1 + places.available_permits();
        let claim = Claim::new("windrow courier", DELIVERIES, max);
        let grant = match app.queue.for_the_server().claim(claim, WAIT_MS, None).await {
            Ok(Some(grant)) => grant,
            Ok(None) => continue,
            // The store is away or full: that passes.
            Err(_) => {
                tokio::time::sleep(LOOK).await;
                continue;
            }
        };
        drop(place);
        // What was written while the claim waited counts.
        let hooks = Arc::new(self::hooks(app.queue.for_the_server()).await);
        for work in grant.items {
            let place = Arc::clone(&places).acquire_owned().await;
            let (app, hooks) = (Arc::clone(&app), Arc::clone(&hooks));
            sending.spawn(async move {
                deliver(&app, &hooks, grant.lease, work).await;
                drop(place);
            });
        }
    }
    while sending.join_next().await.is_some() {}
}

async fn hooks(queue: &Queue) -> HashMap<String, Kept> {
    // A store that cannot be read is asked again in a moment.
    let notes = queue.store().notes(SHELF).await.unwrap_or_default();
    let read = |note: &Note| Some((note.name.to_string(), Kept::read(&note.body)?));
    notes.iter().filter_map(read).collect()
}

async fn deliver(app: &App, hooks: &HashMap<String, Kept>, lease: LeaseId, work: Work) {
    let outcome = attempt(app, hooks, &work).await;
    let id = work.item.id;
    for _ in 0..3 {
        let settled = app.queue.for_the_server().settle(lease, vec![(id, outcome.clone())]).await;
        // Whatever else is wrong, the lease runs out and it is sent again.
        if !matches!(settled, Err(Failure::Overloaded { .. } | Failure::Store(_))) {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn attempt(app: &App, hooks: &HashMap<String, Kept>, work: &Work) -> Outcome {
    let body = &work.body;
    let name = body.group.as_deref().unwrap_or_default();
    let Some(hook) = hooks.get(name).filter(|hook| !hook.gone) else {
        return Outcome::Skip { reason: format!("there is no webhook {name} any more") };
    };
    if !hook.says.enabled {
        return Outcome::Skip { reason: format!("webhook {name} is not enabled") };
    }
    let told = Told {
        event: format!("item.{}", body.op),
        delivery: work.item.id.to_string(),
        webhook: name.into(),
        at: Time(work.item.id.created_at()),
        item: Some(ToldItem {
            id: body.reference.clone().unwrap_or_default(),
            queue: body.source_info.clone().unwrap_or_default(),
            tenant: body.tenant.to_string(),
            status: body.op.to_string(),
        }),
    };
    judged(tell(&app.sender, hook, &told, app.queue.for_the_server().clock().now()).await)
}

/// Sends what is to be told, signed.
pub(crate) async fn tell(
    sender: &Sender,
    hook: &Kept,
    told: &Told,
    now: Timestamp,
) -> Result<Said, String> {
    let to: Target = hook.says.url.parse()?;
    let body = serde_json::to_vec(told).map_err(|error| error.to_string())?;
    let signature = hook.secret.sign(now, &body);
    let text = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
    let headers = vec![
        (HeaderName::from_static("windrow-event"), text(&told.event)?),
        (HeaderName::from_static("windrow-delivery"), text(&told.delivery)?),
        (HeaderName::from_static("windrow-signature"), text(&signature)?),
    ];
    sender.send(&to, headers, body).await
}

/// What an answer means for the delivery.
fn judged(said: Result<Said, String>) -> Outcome {
    let again = |message: String, delay: Option<Duration>| {
        let delay_ms = delay.map(|delay| delay.min(ASKED_MAX).as_millis() as u64);
        Outcome::Retry { class: Class::Other, message, delay_ms }
    };
    match said {
        Ok(Said { status: 200..300, .. }) => Outcome::complete(),
        Ok(Said { status: 410, .. }) => {
            let message = "the receiver says 410: it does not want this".into();
            Outcome::Fail { class: Class::Gone, message }
        }
        Ok(Said { status: status @ 300..400, .. }) => {
            let message = format!("the receiver says {status}; redirects are not followed");
            again(message, None)
        }
        Ok(Said { status, retry_after }) => {
            again(format!("the receiver says {status}"), retry_after)
        }
        Err(why) => again(why, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_receiver_says_decides_what_becomes_of_a_delivery() {
        let said = |status, after: Option<u64>| {
            judged(Ok(Said { status, retry_after: after.map(Duration::from_secs) }))
        };
        assert_eq!(said(204, None), Outcome::complete());
        assert!(matches!(said(410, None), Outcome::Fail { class: Class::Gone, .. }));
        for status in [301, 400, 404, 500] {
            assert!(matches!(said(status, None), Outcome::Retry { delay_ms: None, .. }));
        }
        assert!(matches!(said(503, Some(7)), Outcome::Retry { delay_ms: Some(7_000), .. }));
        let long = said(429, Some(u64::MAX));
        assert!(matches!(long, Outcome::Retry { delay_ms: Some(3_600_000), .. }));
        let away = judged(Err("connection refused".into()));
        assert!(matches!(away, Outcome::Retry { delay_ms: None, .. }));
    }
}
