//! Notify: an item that ends leaves a delivery for whoever wants to know, in the same commit.
//!
//! Which webhooks want to know stands in the settings of the item's queue, and in those of `*` for
//! every queue. Looks at what a decision writes, after it was decided: however an item ends, its
//! last change passes here. A delivery is an item like any other, in a queue of its own, so that it
//! is as durable, and tried again as often, as that queue's settings say; what is in that queue
//! itself leaves none. A tree counts as its root.

use std::sync::Arc;

use crate::change::{Change, Created};
use crate::command::Answer;
use crate::item::{Body, Item, State};
use crate::ledger::Ledger;
use crate::limits::{NOTIFY_MAX, PRIORITY_DEFAULT};
use crate::planted::{Bug, is_planted};
use crate::refusal::Refusal;
use crate::settings::{Notify, Settings};
use crate::text::name;
use crate::time::Timestamp;

/// The queue that deliveries wait in.
pub const DELIVERIES: &str = "windrow.webhooks";
/// What kind of item a delivery is.
pub const DELIVERY: &str = "delivery";
/// Its settings say what is delivered for every queue.
pub const EVERY_QUEUE: &str = "*";

/// The deliveries that an ended item leaves; none if it has not ended.
pub(super) fn deliveries<L: Ledger>(ledger: &L, change: &Change) -> Vec<Body> {
    let Change::Item { item, event: _ } = change else { return Vec::new() };
    let State::Done(end) = item.state else { return Vec::new() };
    let untold = is_planted(Bug::EndingUntold) && end == crate::item::End::Cancelled;
    if !item.is_root() || untold {
        return Vec::new();
    }
    let (own, every) = (&ledger.settings_of(item).notify, &ledger.settings(EVERY_QUEUE).notify);
    if own.is_empty() && every.is_empty() {
        return Vec::new();
    }
    let (tenant, queue) = ledger.names(item);
    if &*queue == DELIVERIES {
        return Vec::new();
    }
    let wants = |notify: &&Notify| {
        let is_meant = notify.tenants.is_empty() || notify.tenants.contains(&tenant);
        is_meant && notify.endings.contains(&end)
    };
    // One that is named by both is told once.
    let elsewhere = every.iter().filter(|one| own.iter().all(|own| own.webhook != one.webhook));
    let all = own.iter().chain(elsewhere).filter(wants);
    all.map(|notify| delivery(item, &tenant, &queue, notify)).collect()
}

fn delivery(item: &Item, tenant: &Arc<str>, queue: &Arc<str>, notify: &Notify) -> Body {
    Body {
        kind: DELIVERY.into(),
        op: item.status().name().into(),
        group: Some(Arc::clone(&notify.webhook)),
        source_type: Some("queue".into()),
        source_info: Some(queue.to_string()),
        reference: Some(item.id.to_string()),
        ..Body::new(Arc::clone(tenant), DELIVERIES)
    }
}

/// Adds deliveries, whether there is room or not, as what a settle spawns.
pub(super) fn add<L: Ledger>(ledger: &mut L, bodies: Vec<Body>, now: Timestamp) {
    for body in bodies {
        let (id, state) = (ledger.next_id(now), State::Pending { not_before: Timestamp::ZERO });
        let priority = PRIORITY_DEFAULT;
        let created = Created { id, body, priority, state, stage: 0, place: None, trail: None };
        ledger.apply(Change::Create(Box::new(created)), now);
    }
}

/// Says what a webhook wants to know of a queue; none if nothing any more.
pub(super) fn notify<L: Ledger>(
    ledger: &mut L,
    queue: Arc<str>,
    webhook: &str,
    wanted: Option<Notify>,
    now: Timestamp,
) -> Answer {
    let mut settings: Settings = ledger.settings(&queue).clone();
    settings.notify.retain(|notify| &*notify.webhook != webhook);
    settings.notify.extend(wanted);
    if settings.notify.len() > NOTIFY_MAX {
        let why = format!("more than {NOTIFY_MAX} webhooks want to know of queue {queue}");
        return Answer::Refused(Refusal::invalid("webhook", why));
    }
    if settings != *ledger.settings(&queue) {
        ledger.apply(Change::Settings { queue, settings: Box::new(settings) }, now);
    }
    Answer::Done
}

/// Refuses what cannot be a webhook's name, or a tenant's.
pub(super) fn check(queue: &str, webhook: &str, wanted: Option<&Notify>) -> Result<(), Refusal> {
    name("queue", queue, true)?;
    name("webhook", webhook, true)?;
    let Some(wanted) = wanted else { return Ok(()) };
    if &*wanted.webhook != webhook {
        return Err(Refusal::invalid("webhook", "is another one than it is for"));
    }
    if wanted.tenants.len() > NOTIFY_MAX {
        return Err(Refusal::invalid("tenants", format!("at most {NOTIFY_MAX}")));
    }
    wanted.tenants.iter().try_for_each(|tenant| name("tenant", tenant, true))
}
