//! The demo's world: documents that become pages that become chunks, and how long work takes.

use std::sync::Arc;
use std::time::Duration;

use windrow_core::command::{NewChild, NewItem, Outcome};
use windrow_core::item::{Body, Payload};
use windrow_core::ports::Work;
use windrow_core::route::{Route, Stage};
use windrow_core::settings::{Policy, Settings};
use windrow_core::tally::OnGaps;

pub(super) const QUEUE: &str = "documents";
pub(super) const TENANT: &str = "demo";

/// A lease in the demo. Short, so that the work of a dead worker comes back while you watch.
pub(super) const LEASE_MS: u64 = 1_500;

/// What happens to a document, its pages and their chunks, in the order of the bars.
pub(super) const PHASES: [&str; 6] = ["pages", "ocr", "chunk", "vector", "graph", "publish"];

/// A worker dies when this much work has been handed out: less than there is even if every document
/// is as small as can be, and enough that pages and chunks are under way.
pub(super) fn death_at(documents: u32, seed: u64) -> u32 {
    documents * (16 + (seed % 9) as u32)
}

/// The process is killed when this much of what is known is done, of a thousand.
pub(super) fn kill_at(seed: u64) -> u64 {
    500 + seed % 51
}

pub(super) fn settings() -> Settings {
    let mut defaults = Policy { lease_ms: LEASE_MS, retry_first: true, ..Policy::default() };
    defaults.backoff.base_ms = 200;
    Settings { defaults, ..Settings::default() }
}

fn route(stages: Vec<Stage>) -> Arc<Route> {
    Arc::new(Route { stages })
}

/// A document: it is split into pages, and published when they are done.
pub(super) fn document(number: u32) -> NewItem {
    let pages = Stage::splitting("pages", &["ocr", "chunk", "vector", "graph"]);
    let mut body = Body::new(TENANT, QUEUE);
    body.kind = "document".into();
    body.key = Some(format!("document-{number:04}"));
    body.route = route(vec![pages, Stage::new("publish")]);
    body.payload = Payload::Inline(format!("{{\"title\":\"Document {number}\"}}").into());
    NewItem::new(body)
}

/// Different documents have different numbers of pages, pages of chunks, always the same ones.
fn spread(of: &Work, least: u32, most: u32) -> u32 {
    let place = of.item.place.map_or(0, |place| u64::from(place.number()) + 1);
    let seed = of.item.id.serial().wrapping_add(place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    least + (seed >> 40) as u32 % (most - least + 1)
}

fn children(of: &Work, kind: &str, count: u32, route: &Arc<Route>) -> Outcome {
    let child = |ordinal| {
        let mut child = NewChild::new(ordinal, kind, Arc::clone(route));
        child.payload = Payload::Inline(format!("{kind} {ordinal} of {}", of.item.id).into());
        child
    };
    let children = (0..count).map(child).collect();
    Outcome::Split { children, more: false, on_gaps: OnGaps::Continue, output: None }
}

/// How long a piece of work takes.
pub(super) fn effort(work: &Work) -> Duration {
    let (least, most) = match &*work.stage {
        "ocr" => (8, 20),
        "vector" => (3, 8),
        "graph" => (4, 10),
        _ => (2, 5),
    };
    Duration::from_millis(u64::from(spread(work, least, most)))
}

/// How a piece of work ends.
pub(super) fn outcome(work: &Work) -> Outcome {
    match &*work.stage {
        "pages" => {
            let chunk = Stage::splitting("chunk", &["vector", "graph"]);
            let route = route(vec![Stage::new("ocr"), chunk]);
            children(work, "page", spread(work, 4, 12), &route)
        }
        "chunk" => {
            let route = route(vec![Stage::new("vector"), Stage::new("graph")]);
            children(work, "chunk", spread(work, 2, 6), &route)
        }
        stage => {
            let output = Some(format!("{stage} done").into_bytes());
            Outcome::Complete { result: None, output, spawn: Vec::new() }
        }
    }
}
