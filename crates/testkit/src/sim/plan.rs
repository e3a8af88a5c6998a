//! The plan: what one seed makes of a simulation, and the things that clients draft.

use std::sync::Arc;

use windrow_core::command::{Claim, NewChild, NewItem, OnDuplicate, OnSplit, Scope};
use windrow_core::item::Body;
use windrow_core::route::{Route, Stage};
use windrow_core::settings::{
    Ahead, Backoff, OnExpiry, Policy, Retention, Settings, StageSettings, Unique,
};
use windrow_core::{ItemId, Timestamp};
use windrow_store::embedded::Options;

use super::ledger::{Draft, Ledger};
use super::payload::payload_of;
use crate::random::Splitmix;

pub(crate) const QUEUES: [&str; 2] = ["q", "r"];
pub(crate) const TENANTS: [&str; 3] = ["t", "u", "v"];
pub(crate) const STAGES: [&str; 8] =
    ["work", "a", "b", "pages", "publish", "ocr", "chunk", "vector"];
pub(crate) const RESOURCE: &str = "model";
const GROUPS: [&str; 2] = ["g", "h"];
const KEYS: usize = 8;

/// What one seed makes of a simulation.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) producers: usize,
    pub(crate) workers: usize,
    pub(crate) operators: usize,
    /// Submits that the engine has under way at once.
    pub(crate) width: usize,
    pub(crate) options: Options,
    /// In so many of a thousand operations something breaks.
    pub(crate) faults: usize,
    /// Live items above which producers rest.
    pub(crate) crowd: u64,
}

impl Plan {
    pub(crate) fn draw(dice: &mut Splitmix) -> Plan {
        let mut one = |from: &[u64]| from[dice.below(from.len())];
        let options = Options {
            segment_bytes: one(&[64 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20]) as u32,
            reserve_segments: one(&[1, 2]) as usize,
            snapshot_bytes: one(&[16 << 10, 64 << 10, 256 << 10]),
            slack_bytes: one(&[0, 16 << 10, 128 << 10]),
            memory_max: one(&[6 << 30, 6 << 30, 6 << 30, 40 << 10]),
            seed: None,
        };
        Plan {
            producers: one(&[1, 2, 3]) as usize,
            workers: one(&[2, 3, 5, 8]) as usize,
            operators: one(&[1, 1, 2]) as usize,
            width: one(&[1, 2, 1_000, 1_000]) as usize,
            faults: one(&[0, 2, 4, 4, 8]) as usize,
            crowd: one(&[20, 60, 150]),
            options,
        }
    }

    /// Whether memory may run out.
    pub(crate) fn is_cramped(&self) -> bool {
        self.options.memory_max < 1 << 30
    }

    pub(crate) fn clients(&self) -> usize {
        self.producers + self.workers + self.operators
    }
}

pub(crate) fn one<T: Copy>(dice: &mut Splitmix, from: &[T]) -> T {
    from[dice.below(from.len())]
}

/// The routes of the simulated world: plain, two stages, and a document of pages of chunks.
fn route(number: usize) -> Arc<Route> {
    let splitting = |name: &str, below: &[&str]| Stage::splitting(name, below);
    match number {
        0 => Route::single(),
        1 => Route::of(&["a", "b"]),
        2 => Arc::new(Route {
            stages: vec![splitting("pages", &["ocr", "vector"]), Stage::new("publish")],
        }),
        3 => Arc::new(Route { stages: vec![Stage::new("ocr"), splitting("chunk", &["vector"])] }),
        _ => Route::of(&["vector"]),
    }
}

/// An item that nobody enqueued yet.
pub(crate) fn new_item(dice: &mut Splitmix, ledger: &mut Ledger, now: Timestamp) -> NewItem {
    let mut body = new_body(dice);
    body.key = dice.percent(45).then(|| format!("k{}", dice.below(KEYS)));
    body.group = dice.percent(30).then(|| one(dice, &GROUPS).into());
    let body = drafted(body, ledger);
    let delayed = dice.percent(15);
    NewItem {
        priority: one(dice, &[0, 5, 5, 5, 10]),
        not_before: if delayed { now.plus(dice.below(20_000) as u64) } else { Timestamp::ZERO },
        on_duplicate: one(dice, &[OnDuplicate::Keep, OnDuplicate::Replace]),
        on_split: one(dice, &[OnSplit::After, OnSplit::After, OnSplit::Supersede]),
        ..NewItem::new(body)
    }
}

/// Items that wait in the same line and could be handed out at once.
pub(crate) fn alike(dice: &mut Splitmix, ledger: &mut Ledger, count: usize) -> Vec<NewItem> {
    let body = new_body(dice);
    (0..count).map(|_| NewItem::new(drafted(body.clone(), ledger))).collect()
}

fn new_body(dice: &mut Splitmix) -> Body {
    let kind = one(dice, &[0, 0, 1, 2, 2]);
    let mut body = Body::new(one(dice, &TENANTS), one(dice, &QUEUES));
    body.kind = ["item", "row", "document"][kind].into();
    body.route = route(kind);
    body.op = one(dice, &["ingest", "update", "delete"]).into();
    body
}

/// A body with the payload of a new draft.
fn drafted(mut body: Body, ledger: &mut Ledger) -> Body {
    let (tenant, queue, key) = (body.tenant.clone(), body.queue.clone(), body.key.clone());
    let number = ledger.draft(Draft { tenant, queue, key, parent: None });
    body.payload = payload_of(number);
    body
}

/// A child of an item that is being split: pages of a document, chunks of a page.
pub(crate) fn new_child(
    dice: &mut Splitmix,
    ledger: &mut Ledger,
    parent: (ItemId, &Body),
    ordinal: u32,
) -> NewChild {
    let (id, body) = parent;
    let (kind, number) = if &*body.kind == "document" { ("page", 3) } else { ("chunk", 4) };
    let mut child = NewChild::new(ordinal, kind, route(number));
    child.group = dice.percent(20).then(|| one(dice, &GROUPS).into());
    let (tenant, queue) = (body.tenant.clone(), body.queue.clone());
    let number = ledger.draft(Draft { tenant, queue, key: None, parent: Some(id) });
    child.payload = payload_of(number);
    child
}

pub(crate) fn new_claim(dice: &mut Splitmix, worker: &str) -> Claim {
    let mut claim = Claim::new(worker, one(dice, &QUEUES), 1 + dice.below(4));
    match dice.below(10) {
        0..4 => claim.queues.clear(),
        4..6 => {}
        6 => claim.tenants = vec![one(dice, &TENANTS).into()],
        7 => claim.stages = vec![one(dice, &STAGES).into(), one(dice, &STAGES).into()],
        8 => claim.kinds = vec![one(dice, &["item", "page", "chunk"]).into()],
        _ => claim.max = 1,
    }
    claim.lease_ms = dice.percent(50).then(|| 200 + dice.below(20_000) as u64);
    claim
}

pub(crate) fn new_scope(dice: &mut Splitmix) -> Scope {
    Scope {
        queue: one(dice, &QUEUES).into(),
        stage: dice.percent(40).then(|| one(dice, &STAGES).into()),
        tenant: dice.percent(40).then(|| one(dice, &TENANTS).into()),
    }
}

fn new_policy(dice: &mut Splitmix) -> Policy {
    let base_ms = 50 + dice.below(2_000) as u64;
    Policy {
        lease_ms: 2_000 + dice.below(40_000) as u64,
        max_attempts: one(dice, &[0, 1, 2, 3, 3, 5]),
        backoff: Backoff {
            base_ms,
            cap_ms: 4 * base_ms,
            slow_base_ms: 2 * base_ms,
            slow_cap_ms: 20 * base_ms,
        },
        on_expiry: one(dice, &[OnExpiry::Retry, OnExpiry::Requeue, OnExpiry::Fail]),
        retry_first: dice.percent(50),
        group_limit: dice.percent(50).then(|| 1 + dice.below(2) as u32),
        ordered: dice.percent(20),
        deferrals_max: one(dice, &[2, 100]),
        resource: dice.percent(20).then(|| RESOURCE.into()),
        ahead: None,
    }
}

pub(crate) fn new_settings(dice: &mut Splitmix) -> Settings {
    let mut settings = Settings {
        defaults: new_policy(dice),
        live_max: dice.percent(15).then_some(60),
        unique: one(dice, &[Unique::Live, Unique::Live, Unique::Live, Unique::Retained]),
        retention: Retention {
            max_age_ms: one(dice, &[60_000, 600_000, 7_200_000]),
            max_per_tenant: one(dice, &[5, 20, 5_000]),
        },
        forget_completed: dice.percent(15),
        ..Settings::default()
    };
    if dice.percent(40) {
        // Never `publish`: a stage that waits for itself to empty would wait for ever.
        let stage = one(dice, &["work", "a", "pages", "ocr", "vector"]).into();
        let ahead = dice.percent(30).then(|| Ahead { stage: "publish".into(), max: 3 });
        settings.stages.push(StageSettings { stage, policy: Policy { ahead, ..new_policy(dice) } });
    }
    settings
}
