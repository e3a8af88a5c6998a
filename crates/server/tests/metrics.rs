//! `/metrics`: what Prometheus reads from a server that works.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod rig;

use std::collections::{BTreeMap, BTreeSet};

use rig::{Data, Server};
use serde_json::{Value, json};

/// Samples by name and labels as they stand, and the kinds of the metrics.
struct Scraped {
    samples: BTreeMap<String, f64>,
    kinds: BTreeMap<String, String>,
}

impl Scraped {
    /// Reads a page as strictly as Prometheus does: every sample belongs to the metric above it.
    fn of(page: &str) -> Scraped {
        let (mut samples, mut kinds) = (BTreeMap::new(), BTreeMap::new());
        let mut current = String::new();
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(name, current, "HELP and TYPE go together");
                let before = kinds.insert(name.to_owned(), kind.to_owned());
                assert_eq!(before, None, "{name} stands twice");
            } else if let Some(rest) = line.strip_prefix("# HELP ") {
                current = rest.split(' ').next().unwrap().to_owned();
            } else {
                let (name, value) = line.rsplit_once(' ').unwrap();
                assert!(name.starts_with(&current), "{name} under {current}");
                let value = value.parse().unwrap();
                assert_eq!(samples.insert(name.to_owned(), value), None, "{name} stands twice");
            }
        }
        Scraped { samples, kinds }
    }

    #[track_caller]
    fn is(&self, sample: &str, value: f64) {
        let names = || self.samples.keys().cloned().collect::<Vec<_>>().join("\n");
        let found = self.samples.get(sample);
        assert_eq!(found, Some(&value), "{sample} is not {value} in\n{}", names());
    }
}

fn scrape(server: &Server) -> Scraped {
    let reply = server.get("/metrics");
    assert_eq!(reply.status, 200);
    Scraped::of(&reply.text)
}

/// Scrapes until the store was asked after a moment ago: what it said is kept for a second.
fn scrape_when(server: &Server, is_so: impl Fn(&Scraped) -> bool) -> Scraped {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let scraped = scrape(server);
        if is_so(&scraped) || std::time::Instant::now() > end {
            return scraped;
        }
    }
}

#[test]
fn figures_say_what_was_done() {
    let data = Data::new("figures");
    let server = Server::start(&data.place(), &[]);
    server.enqueue("mail", &Value::Array(vec![json!({}); 5]));
    let (lease, ids) = server.claim("mail", 3);
    server.settle(&lease, &ids[..1], &json!({"outcome": "complete"}));
    let again = json!({"outcome": "retry", "error": "later", "delay_ms": 0});
    server.settle(&lease, &ids[1..2], &again);
    let nobodys = "/api/v1/leases/00000000-0000-4000-8000-000000000000/renew";
    assert_eq!(server.post(nobodys, &json!({})).status, 409);
    let completed = r#"windrow_items{queue="mail",status="completed"}"#;
    let told = scrape_when(&server, |told| told.samples.get(completed) == Some(&1.0));
    told.is(completed, 1.0);
    told.is(r#"windrow_items{queue="mail",status="processing"}"#, 1.0);
    told.is(r#"windrow_items{queue="mail",status="failed"}"#, 0.0);
    let took = "windrow_operation_duration_seconds";
    told.is(&format!(r#"{took}_count{{verb="enqueue",outcome="ok"}}"#), 1.0);
    told.is(&format!(r#"{took}_count{{verb="settle",outcome="ok"}}"#), 2.0);
    told.is(&format!(r#"{took}_count{{verb="renew",outcome="refused"}}"#), 1.0);
    told.is(&format!(r#"{took}_bucket{{verb="settle",outcome="ok",le="+Inf"}}"#), 2.0);
    told.is("windrow_attempts_count", 3.0);
    told.is(r#"windrow_attempts_bucket{le="1"}"#, 3.0);
    told.is("windrow_leases", 1.0);
    told.is("windrow_workers", 1.0);
    told.is("windrow_store_up", 1.0);
    told.is(r#"windrow_build_info{version="0.1.0",store="embedded"}"#, 1.0);
    told.is(r#"windrow_health_status{check="store"}"#, 0.0);
    assert!(told.samples["windrow_store_commit_duration_seconds_count"] >= 4.0);
    assert!(told.samples["windrow_disk_free_bytes"] > 0.0);
    assert!(told.samples[r#"windrow_oldest_pending_age_seconds{queue="mail"}"#] >= 0.0);
    // Five came to be, three were claimed, two settled.
    told.is("windrow_events_total", 10.0);
}

#[test]
fn the_page_of_metrics_lists_exactly_what_is_told() {
    let data = Data::new("page");
    let server = Server::start(&data.place(), &[]);
    let page = include_str!("../../../docs/reference/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `windrow_"));
    let documented: BTreeSet<(String, String)> = rows
        .map(|row| {
            let mut cells = row.split('|').map(str::trim);
            let name = format!("windrow_{}", cells.next().unwrap().trim_end_matches('`'));
            (name, cells.next().unwrap().to_owned())
        })
        .filter(|(name, _)| cfg!(feature = "otel") || !name.starts_with("windrow_spans_"))
        .collect();
    let told: BTreeSet<(String, String)> = scrape(&server).kinds.into_iter().collect();
    assert_eq!(told, documented);
}

#[test]
fn tenants_are_no_labels_and_queues_are_few() {
    let data = Data::new("labels");
    let server = Server::start(&data.place(), &[]);
    for number in 0..205 {
        server.enqueue(&format!("q{number:03}"), &json!({}));
    }
    let other = r#"windrow_items{queue="other",status="pending"}"#;
    let told = scrape_when(&server, |told| told.samples.get(other) == Some(&5.0));
    told.is(other, 5.0);
    told.is(r#"windrow_items{queue="q199",status="pending"}"#, 1.0);
    let labelled: BTreeSet<&str> = told
        .samples
        .keys()
        .filter_map(|name| name.split_once('{'))
        .flat_map(|(_, labels)| labels.split(',').filter_map(|label| label.split('=').next()))
        .collect();
    let allowed = ["check", "le", "outcome", "queue", "status", "store", "verb", "version"];
    assert_eq!(labelled.into_iter().collect::<Vec<_>>(), allowed);
    let queues = told.samples.keys().filter(|name| name.starts_with("windrow_oldest_")).count();
    assert_eq!(queues, 201);
}
