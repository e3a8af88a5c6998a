//! `windrow.claim_next_job`: one claim in seed 004's shape, compared with what the rules allow.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde_json::{Value, json};
use windrow_core::command::{Claim, Outcome};
use windrow_core::explain::Reason;
use windrow_core::item::{Marks, Status};
use windrow_core::ports::{Inspected, Store as _};
use windrow_core::settings::{Ahead, Policy, Settings, StageSettings};
use windrow_core::{Item, ItemId, LeaseId, State, Timestamp};
use windrow_testkit::random::Splitmix;
use windrow_testkit::suite::{Draft as _, block_on, item, release, retry_of, routed, split};

use crate::ground::{Ground, id, lease, text, time};

const HOUR_MS: u64 = 3_600_000;

/// What was claimed in SQL.
struct Job {
    id: ItemId,
    lease: LeaseId,
    row: Value,
}

fn claim(ground: &Ground, arguments: &str) -> Option<Job> {
    let mut rows = ground.rows(&format!("select * from windrow.claim_next_job({arguments})"));
    ground.set_clock();
    assert!(rows.len() <= 1, "{rows:?}");
    let row = rows.pop()?;
    Some(Job { id: id(&row, "job_id"), lease: lease(&row, "lease_id"), row })
}

pub(crate) fn a_claimed_job_is_settled_in_windrow(ground: &Ground) {
    let bed = &ground.bed;
    let data = br#"{"rows": [1, 2]}"#;
    let other = bed.add(item().kind("VECTORIZE").priority(9));
    let job = bed.add(item().kind("INGEST_DATA").payload(data));
    let before = bed.item(job);
    let Some(claimed) = claim(ground, "array['INGEST_DATA'], worker => 'cron'") else {
        panic!("a job waits")
    };
    assert_eq!((claimed.id, text(&claimed.row, "job_type")), (job, "INGEST_DATA".into()));
    assert_eq!(claimed.row["payload"], json!({"rows": [1, 2]}));
    assert_eq!((&claimed.row["attempts"], &claimed.row["stage"]), (&json!(1), &json!("work")));
    let state = State::Leased { lease: claimed.lease };
    assert_eq!(bed.item(job), Item { state, attempts: 1, ..before });
    let leases = block_on(bed.store.leases()).unwrap();
    let [lease] = &leases[..] else { panic!("{leases:?}") };
    assert_eq!((lease.id, &*lease.worker, lease.items), (claimed.lease, "cron", 1));
    assert_eq!((lease.lease_ms, lease.renewed), (300_000, lease.granted));
    assert_eq!(lease.expires, lease.granted.plus(300_000));
    assert_eq!(claimed.row["lease_until"], time(lease.expires));
    assert!(claim(ground, "array['INGEST_DATA']").is_none());

    bed.try_renew(claimed.lease, None).expect("it is renewed");
    let result = Some(b"{\"saved\": 2}".to_vec());
    let complete = Outcome::Complete { result, output: None, spawn: vec![] };
    bed.try_settle_as(claimed.lease, job, complete).expect("it is settled");
    bed.is(job, Status::Completed);
    assert_eq!(bed.trail(job).attempts[0].lease, claimed.lease);
    assert_eq!(ground.shown("job_queue", job)["result"], json!({"saved": 2}));
    assert_eq!(block_on(bed.store.leases()).unwrap(), []);
    bed.is(other, Status::Pending);
}

pub(crate) fn a_transaction_that_cannot_see_others_may_not_claim(ground: &Ground) {
    ground.bed.add(item().kind("A"));
    let sql = "begin isolation level repeatable read; select windrow.claim_next_job(array['A'])";
    let said = format!("{:#}", ground.stores.psql(sql).expect_err("it is refused"));
    assert!(said.contains("needs a read committed transaction"), "{said}");
    assert!(claim(ground, "array['A']").is_some());
}

pub(crate) fn a_lease_that_runs_out_is_taken_back(ground: &Ground) {
    let bed = &ground.bed;
    bed.add(item());
    let job = claim(ground, "array['item']").expect("a job waits");
    bed.clock.advance(300_000);
    assert_eq!(bed.reclaim().items, 1);
    bed.is(job.id, Status::Pending);
    assert_eq!(bed.item(job.id).attempts, 1);
    bed.try_settle_as(job.lease, job.id, Outcome::complete()).expect_err("its lease is lost");
}

pub(crate) fn nothing_is_claimed_twice_at_once(ground: &Ground) {
    const JOBS: usize = 24;
    const GROUPS: usize = 12;
    let bed = &ground.bed;
    let grouped = Policy { group_limit: Some(1), ..Policy::default() };
    bed.configure(|settings| settings.defaults = grouped);
    for number in 0..JOBS {
        bed.add(item().group(&format!("g{}", number % GROUPS)));
    }
    let database = ground.stores.database().expect("it has a name");
    let one = |worker: usize| {
        let sql = format!("select job_id from windrow.claim_next_job('{{item}}', 'w{worker}')");
        let rows = ground.stores.psql_in(&database, &sql).expect("it runs");
        rows.trim().to_owned()
    };
    let (mut claimed, mut asked) = (Vec::new(), 0);
    // Whoever finds a group in the hands of another claim passes it over, and asks again.
    while claimed.len() < GROUPS && asked < JOBS * 10 {
        let one = &one;
        let all: Vec<String> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..6).map(|no| scope.spawn(move || one(no))).collect();
            workers.into_iter().map(|worker| worker.join().expect("it ends")).collect()
        });
        asked += all.len();
        claimed.extend(all.into_iter().filter(|id| !id.is_empty()));
    }
    let ids: BTreeSet<String> = claimed.iter().cloned().collect();
    assert_eq!((claimed.len(), ids.len()), (GROUPS, GROUPS), "one of each group, none twice");
    ground.set_clock();
    let groups: BTreeSet<_> =
        ids.iter().map(|id| bed.see(id.parse().unwrap()).body.group).collect();
    assert_eq!(groups.len(), GROUPS);
    // What waited aside for its group comes back when that has room, whoever asks.
    for lease in block_on(bed.store.leases()).unwrap() {
        let held = bed.everything().into_iter().find(|seen| seen.item.lease() == Some(lease.id));
        let held = held.expect("it holds an item").item.id;
        bed.try_settle_as(lease.id, held, Outcome::complete()).expect("it is settled");
    }
    assert_eq!(bed.claim(6).len(), 6);
    let more = (0..7).filter_map(|_| claim(ground, "array['item']")).count();
    assert_eq!(more, 6);
}

pub(crate) fn what_holds_an_item_up_in_windrow_holds_it_up_in_sql(ground: &Ground) {
    let bed = &ground.bed;
    let plain = Policy::default;
    for (queue, policy) in [
        ("ordered", Policy { ordered: true, ..plain() }),
        ("limited", Policy { group_limit: Some(1), ..plain() }),
        ("gated", Policy { resource: Some("gpu".into()), ..plain() }),
        ("ahead", Policy { ahead: Some(Ahead { stage: "y".into(), max: 1 }), ..plain() }),
    ] {
        bed.configure_queue(queue, |settings| settings.defaults = policy);
    }
    let taken = |queue: &str| {
        claim(ground, &format!("array['item', 'part'], queue => '{queue}'")).map(|job| job.id)
    };
    for queue in ["ordered", "limited"] {
        let add = |priority| bed.add(item().queue(queue).group("g").priority(priority));
        let (low, high) = (add(1), add(9));
        let first = if queue == "ordered" { low } else { high };
        assert_eq!((taken(queue), taken(queue)), (Some(first), None), "{queue}");
    }
    bed.close("gpu", bed.later(HOUR_MS));
    let gated = bed.add(item().queue("gated"));
    assert_eq!(taken("gated"), None);
    bed.close("gpu", Timestamp(1));
    assert_eq!(taken("gated"), Some(gated));

    bed.add(routed(&["x", "y"]).queue("ahead").draft(|new| new.priority = 9));
    bed.complete(&bed.take_from("ahead"));
    bed.add(routed(&["x", "y"]).queue("ahead"));
    assert_eq!(taken("ahead"), None, "as many wait further down as may");

    let scope = |stage: Option<&str>, tenant: Option<&str>| windrow_core::command::Scope {
        queue: "paused".into(),
        stage: stage.map(Into::into),
        tenant: tenant.map(Into::into),
    };
    let paused = bed.add(item().queue("paused"));
    for scope in [scope(None, None), scope(Some("work"), None), scope(None, Some("t"))] {
        bed.pause(scope.clone());
        assert_eq!(taken("paused"), None, "{scope:?}");
        bed.resume(scope);
    }
    assert_eq!(taken("paused"), Some(paused));

    bed.add(item().queue("later").at(bed.later(HOUR_MS)));
    bed.add(item().queue("tree"));
    bed.settle(&bed.take_from("tree"), split(windrow_testkit::suite::children(0..2)));
    bed.add(item().queue("key").key("k"));
    bed.take_from("key");
    bed.add(item().queue("key").key("k"));
    assert_eq!((taken("later"), taken("tree"), taken("key")), (None, None, None));
}

/// A world of everything that holds items up.
fn world(ground: &Ground, random: &mut Splitmix) {
    let bed = &ground.bed;
    for queue in ["a", "b"] {
        bed.configure_queue(queue, |settings| *settings = any_settings(random));
    }
    let now = bed.now();
    // What is delayed by less than an hour is due by the database's clock.
    bed.clock.set(Timestamp(now.0 - HOUR_MS));
    for _ in 0..14 {
        bed.clock.advance(random.below(3) as u64);
        let mut new = if random.percent(30) { routed(&["x", "y"]) } else { item() };
        new = new.queue(["a", "b"][random.below(2)]).kind(["k0", "k1", "k2"][random.below(3)]);
        new = new.tenant(["t0", "t1"][random.below(2)]).priority(random.below(4) as u8);
        if random.percent(70) {
            new = new.group(["g0", "g1"][random.below(2)]);
        }
        if random.percent(30) {
            new = new.key(["one", "two"][random.below(2)]);
        }
        if random.percent(25) {
            new = new.at(bed.later([60_000, 10 * HOUR_MS][random.below(2)]));
        }
        bed.enqueue(new);
        if random.percent(50) {
            work(ground, random);
        }
    }
    bed.clock.set(now);
    for queue in ["a", "b"] {
        if random.percent(20) {
            let stage = random.percent(50).then(|| "x".into());
            let tenant = random.percent(50).then(|| "t1".into());
            bed.pause(windrow_core::command::Scope { queue: queue.into(), stage, tenant });
        }
    }
    if random.percent(30) {
        bed.close("gpu", bed.later(HOUR_MS));
    }
}

fn any_settings(random: &mut Splitmix) -> Settings {
    let mut policy = || Policy {
        lease_ms: 2 * HOUR_MS + random.below(1_000) as u64,
        max_attempts: random.below(5) as u16,
        retry_first: random.percent(50),
        group_limit: random.percent(50).then_some(1 + random.below(2) as u32),
        ordered: random.percent(40),
        resource: random.percent(30).then(|| "gpu".into()),
        ahead: random.percent(30).then(|| Ahead { stage: "y".into(), max: 2 }),
        ..Policy::default()
    };
    let defaults = policy();
    let stages = vec![StageSettings { stage: "y".into(), policy: policy() }];
    Settings { defaults, stages, ..Settings::default() }
}

/// A worker of Windrow's does something, or leaves it undone.
fn work(ground: &Ground, random: &mut Splitmix) {
    let bed = &ground.bed;
    let any = Claim { queues: Vec::new(), ..Claim::new("w", "", 1) };
    let Some(grant) = bed.try_claim(any) else { return };
    settle(ground, random, grant.lease, grant.items[0].item.id);
}

fn settle(ground: &Ground, random: &mut Splitmix, lease: LeaseId, id: ItemId) {
    let again = |mut outcome: Outcome| {
        if let Outcome::Retry { delay_ms, .. } = &mut outcome {
            *delay_ms = Some(0);
        }
        outcome
    };
    let child = windrow_core::command::NewChild::new(0, "k1", windrow_core::route::Route::single());
    let outcome = match random.below(6) {
        0 => return,
        1 => again(retry_of(windrow_core::trail::Class::Other)),
        2 => release(),
        3 if ground.bed.item(id).place.is_none() => split(vec![child]),
        _ => Outcome::complete(),
    };
    ground.bed.try_settle_as(lease, id, outcome).expect("it is settled");
}

/// The item that a claim in SQL must take: of those that the rules admit, the best.
fn best(ground: &Ground, kinds: &[&str], queue: Option<&str>) -> Option<Inspected> {
    let bed = &ground.bed;
    let settings = ground
        .rows("select i.serial, p.retry_first from items i join policies p on p.lane = i.lane");
    let retry_first = |id: ItemId| {
        let row = settings.iter().find(|row| row["serial"] == json!(id.serial()));
        row.is_some_and(|row| row["retry_first"] == json!(true))
    };
    let admitted = bed.everything().into_iter().filter(|seen| {
        let Inspected { item, body, .. } = seen;
        matches!(item.state, State::Pending { .. })
            && item.place.is_none()
            && kinds.contains(&&*body.kind)
            && queue.is_none_or(|queue| &*body.queue == queue)
            && bed.explain(item.id).reasons == [Reason::NextInLine]
    });
    admitted.min_by_key(|Inspected { item, .. }| {
        let first = item.has(Marks::RETRYING) && retry_first(item.id);
        (Reverse((item.priority, first)), item.id)
    })
}

pub(crate) fn the_best_that_may_be_claimed_is(ground: &Ground) {
    let bed = &ground.bed;
    let mut claimed = 0;
    for seed in 0..8 {
        let mut random = Splitmix(seed);
        world(ground, &mut random);
        for _ in 0..8 {
            ground.set_clock();
            let kinds = [&["k0", "k1"][..], &["k2"], &["k0", "k1", "k2"]][random.below(3)];
            let queue = random.percent(40).then_some("a");
            let wanted = best(ground, kinds, queue);
            let queue = queue.map_or("null".into(), |queue| format!("'{queue}'"));
            let arguments = format!("array{kinds:?}, 'w', {queue}").replace('"', "'");
            let got = claim(ground, &arguments);
            let wanted_id = wanted.as_ref().map(|seen| seen.item.id);
            assert_eq!(got.as_ref().map(|job| job.id), wanted_id, "seed {seed}");
            let (Some(job), Some(seen)) = (got, wanted) else { continue };
            claimed += 1;
            let state = State::Leased { lease: job.lease };
            let attempts = seen.item.attempts + 1;
            assert_eq!(bed.item(job.id), Item { state, attempts, ..seen.item });
            if random.percent(60) {
                settle(ground, &mut random, job.lease, job.id);
            }
            if random.percent(30) {
                work(ground, &mut random);
            }
        }
        for scope in [Some("x"), None].map(|stage| stage.map(Into::into)) {
            for tenant in [Some("t1"), None].map(|tenant| tenant.map(Into::into)) {
                for queue in ["a", "b"] {
                    let (stage, tenant) = (scope.clone(), tenant.clone());
                    bed.resume(windrow_core::command::Scope { queue: queue.into(), stage, tenant });
                }
            }
        }
        bed.close("gpu", Timestamp(1));
    }
    assert!(claimed > 15, "{claimed}");
}
