//! Metrics: figures for Prometheus.
//!
//! Labels are few: verbs, outcomes and statuses of ours, and queues up to a limit, beyond which
//! they count as `other`. Tenants and ids are never labels. `docs/reference/metrics.md` has the
//! list.

mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use windrow_core::item::Status;
use windrow_core::ports::Lead;
use windrow_core::vitals::Vitals;
use windrow_engine::observe::OTHER;

use crate::health::{Facts, Watch};
use crate::store::Queue;
use text::{Family, Kind, Page};

pub(crate) const CONTENT_TYPE: &str = text::CONTENT_TYPE;

macro_rules! families {
    ($($family:ident $name:literal $kind:ident $help:literal;)*) => {
        $(const $family: Family = Family { name: $name, kind: Kind::$kind, help: $help };)*

        #[cfg(test)]
        const ALL: &[&Family] = &[$(&$family),*];
    };
}

families! {
    BUILD "windrow_build_info" Gauge "The version and the kind of store; always 1.";
    STARTED "windrow_start_time_seconds" Gauge "When the server began, in Unix time.";
    HEALTH "windrow_health_status" Gauge "Each check of health: 0 green, 1 yellow, 2 red.";
    STORE_UP "windrow_store_up" Gauge "1 if the store answers; if not, what it knows is absent.";
    ITEMS "windrow_items" Gauge "Items by queue and status. Ended ones count as long as kept.";
    OLDEST "windrow_oldest_pending_age_seconds" Gauge
        "How long the first in line of a queue has waited; 0 if nothing waits.";
    OPERATIONS "windrow_operation_duration_seconds" Histogram
        "How long commands took, by verb and outcome, without the wait for work.";
    COMMITS "windrow_store_commit_duration_seconds" Histogram
        "How long the store took to make a batch durable.";
    ATTEMPTS "windrow_attempts" Histogram
        "Which attempt of its stage each hand-out was; above 1 it is a retry.";
    EVENTS "windrow_events_total" Counter "Changes of items that this server told of.";
    IN_FLIGHT "windrow_operations_in_flight" Gauge "Commands that are under way.";
    WAITING "windrow_claims_waiting" Gauge "Claims that wait for work.";
    WORKERS "windrow_workers" Gauge "Workers that ask this server for work.";
    LEASES "windrow_leases" Gauge "Leases that hold something.";
    LEADER "windrow_leader" Gauge "1 if this server does what happens by itself.";
    CLOSED "windrow_resources_closed" Gauge "Resources that are closed.";
    QUARANTINED "windrow_quarantined_items" Gauge "Items that are set aside.";
    BYTES "windrow_store_bytes" Gauge "Bytes that the store takes.";
    FREE "windrow_disk_free_bytes" Gauge "Bytes that are free on the disk of the store.";
    TOTAL "windrow_disk_size_bytes" Gauge "Bytes of the disk of the store.";
}

/// Microseconds of a second.
const MICROS: f64 = 1e6;

/// The page, as it is now.
pub(crate) async fn page(queue: &Queue, watch: &Watch) -> String {
    let facts = watch.facts().await;
    let mut page = Page::default();
    of_server(&mut page, queue, watch, &facts);
    of_engine(&mut page, queue, &facts);
    of_store(&mut page, &facts);
    #[cfg(feature = "otel")]
    crate::otel::figures(|name, help, value| {
        page.family(&Family { name, kind: Kind::Counter, help });
        page.sample(name, &[], value);
    });
    page.into_text()
}

fn gauge(page: &mut Page, family: &Family, value: f64) {
    page.family(family);
    page.sample(family.name, &[], value);
}

fn of_server(page: &mut Page, queue: &Queue, watch: &Watch, facts: &Facts) {
    page.family(&BUILD);
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("store", queue.store().kind())];
    page.sample(BUILD.name, &labels, 1.0);
    gauge(page, &STARTED, facts.started.0 as f64 / 1_000.0);
    page.family(&HEALTH);
    for (check, status) in watch.judge(facts).by_check() {
        page.sample(HEALTH.name, &[("check", check)], f64::from(status as u8));
    }
}

fn of_engine(page: &mut Page, queue: &Queue, facts: &Facts) {
    let figures = queue.figures();
    page.family(&OPERATIONS);
    for (verb, ending, read) in figures.operations() {
        let labels = [("verb", verb), ("outcome", ending.name())];
        page.histogram(OPERATIONS.name, &labels, MICROS, &read);
    }
    page.family(&COMMITS);
    page.histogram(COMMITS.name, &[], MICROS, &figures.commits());
    page.family(&ATTEMPTS);
    page.histogram(ATTEMPTS.name, &[], 1.0, &figures.attempts());
    gauge(page, &EVENTS, queue.events().latest().seq as f64);
    gauge(page, &IN_FLIGHT, queue.in_flight() as f64);
    gauge(page, &WAITING, queue.waiting() as f64);
    gauge(page, &WORKERS, facts.workers.iter().filter(|worker| worker.has_asked()).count() as f64);
    let leads = !matches!(facts.pulse.lead, Some(Lead::Follows) | None);
    gauge(page, &LEADER, f64::from(u8::from(leads)));
}

/// What only the store knows. While it is silent none of it is told: an old figure would lie.
fn of_store(page: &mut Page, facts: &Facts) {
    gauge(page, &STORE_UP, f64::from(u8::from(facts.store.is_ok())));
    let Ok(store) = &facts.store else { return };
    let vitals = &store.vitals;
    page.family(&ITEMS);
    let mut queues: Vec<&Arc<str>> = store.counts.keys().map(|(queue, _)| queue).collect();
    queues.dedup();
    for queue in &queues {
        for status in Status::ALL {
            let items = store.counts.get(&(Arc::clone(queue), status)).copied().unwrap_or(0);
            let labels = [("queue", &***queue), ("status", status.name())];
            page.sample(ITEMS.name, &labels, items as f64);
        }
    }
    page.family(&OLDEST);
    for (queue, age_ms) in ages(vitals, &queues) {
        page.sample(OLDEST.name, &[("queue", queue)], age_ms as f64 / 1_000.0);
    }
    gauge(page, &LEASES, store.leases.len() as f64);
    gauge(page, &CLOSED, vitals.closed.len() as f64);
    gauge(page, &QUARANTINED, vitals.quarantined as f64);
    if let Some(bytes) = vitals.used_bytes {
        gauge(page, &BYTES, bytes as f64);
    }
    if let Some(disk) = vitals.disk {
        gauge(page, &FREE, disk.free_bytes as f64);
        gauge(page, &TOTAL, disk.total_bytes as f64);
    }
}

/// How long the first in line of each queue has waited; none waits in most.
fn ages<'a>(vitals: &Vitals, queues: &[&'a Arc<str>]) -> BTreeMap<&'a str, u64> {
    let mut ages: BTreeMap<&str, u64> = queues.iter().map(|queue| (&***queue, 0)).collect();
    for waiting in &vitals.waiting {
        let age_ms = waiting.since().map_or(0, |since| vitals.at.since(since));
        let known = ages.contains_key(&*waiting.queue);
        let name = if known { &*waiting.queue } else { OTHER };
        if let Some(oldest) = ages.get_mut(name) {
            *oldest = age_ms.max(*oldest);
        }
    }
    ages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_and_the_page_lists_all_of_them() {
        let page = include_str!("../../../../docs/reference/metrics.md");
        for Family { name, kind, .. } in ALL {
            assert!(name.starts_with("windrow_"), "{name}");
            let is_total = name.ends_with("_total");
            assert_eq!(is_total, *kind == Kind::Counter, "{name}");
            assert!(!name.contains("_ms") && !name.contains("micros"), "{name}: base units");
            let row = format!("| `{name}` | {} |", kind.name());
            assert!(page.contains(&row), "docs/reference/metrics.md lacks {row}");
        }
    }
}
