//! `unified_queue` and `job_queue`: the seeds' statements against them, and the store's own word.

use serde_json::{Value, json};
use windrow_core::command::{Claim, NewItem, Outcome};
use windrow_core::id::StoreTag;
use windrow_core::item::{Marks, Payload};
use windrow_core::ports::{Inspected, Store as _};
use windrow_core::settings::Policy;
use windrow_core::trail::Class;
use windrow_core::{ItemId, State, Status, Timestamp};
use windrow_testkit::random::Splitmix;
use windrow_testkit::suite::{Draft as _, block_on, children, complete_with, fail, item, retry};
use windrow_testkit::suite::{routed, skip};

use crate::ground::{Ground, text, time, time_of};

const UNIFIED: &str = "queue_id text, item_type text, op text, tenant_id text, collection text, \
     priority integer, status text, created_at timestamp with time zone, \
     updated_at timestamp with time zone, lease_until timestamp with time zone, worker_id text, \
     idempotency_key text, payload_json text, retry_count integer, max_retries integer, \
     error_message text, last_error_at timestamp with time zone, branch text, metadata text";

const JOBS: &str = "id text, job_type text, status text, payload jsonb, result jsonb, \
     progress jsonb, priority integer, attempts integer, max_attempts integer, \
     scheduled_for timestamp with time zone, started_at timestamp with time zone, \
     completed_at timestamp with time zone, created_at timestamp with time zone, \
     updated_at timestamp with time zone";

const DOCUMENTS: &str = "id uuid, filename text, ocr_status task_status, \
     vector_index_status task_status, graphrag_index_status task_status, \
     ocr_started_at timestamp with time zone, ocr_completed_at timestamp with time zone, \
     ocr_error text, vector_started_at timestamp with time zone, \
     vector_completed_at timestamp with time zone, vector_error text, \
     graphrag_started_at timestamp with time zone, \
     graphrag_completed_at timestamp with time zone, graphrag_error text, \
     current_worker_id character varying(100), last_heartbeat timestamp with time zone";

/// What each phase of a page or chunk has in the seed.
fn phase(name: &str) -> String {
    format!(
        "{name}_status task_status, {name}_worker_id character varying(100), \
         {name}_started_at timestamp with time zone, {name}_completed_at timestamp with time zone, \
         {name}_error text, {name}_retry_count integer, \
         {name}_last_heartbeat timestamp with time zone"
    )
}

pub(crate) fn the_views_have_the_columns_of_the_seeds(ground: &Ground) {
    let [ocr, vector, graph] = ["ocr", "vector", "graphrag"].map(phase);
    let ends = "max_retries integer, created_at timestamp with time zone, \
                updated_at timestamp with time zone";
    let page = format!(
        "id uuid, document_id uuid, page_number integer, \
         page_file_path character varying(1000), {ocr}, {vector}, {graph}, \
         chunk_count integer, {ends}"
    );
    let chunk = format!(
        "id uuid, page_id uuid, document_id uuid, chunk_id character varying(64), \
         chunk_index integer, chunk_content_hash character varying(64), {vector}, {graph}, \
         entities_extracted integer, relationships_extracted integer, {ends}"
    );
    for (view, wanted) in [
        ("unified_queue", UNIFIED),
        ("stale_items", UNIFIED),
        ("job_queue", JOBS),
        ("documents", DOCUMENTS),
        ("task_queue_page", &page),
        ("task_queue_chunk", &chunk),
        ("queue_stats", "queue text, tenant_id text, status text, count bigint"),
    ] {
        let sql = format!(
            "select string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' \
             order by attnum) as columns from pg_attribute \
             where attrelid = 'windrow.{view}'::regclass and attnum > 0"
        );
        let columns = text(&ground.one(&sql), "columns");
        assert!(columns.starts_with(wanted), "{view}:\n{columns}\n{wanted}");
    }
}

fn described() -> NewItem {
    let mut new = item().kind("file").key("file:code:0123456789abcdef").op("ingest").priority(7);
    new.body.collection = Some("code".into());
    new.body.branch = Some("next".into());
    new.body.metadata = Some("{\"by\": \"watcher\"}".into());
    new.payload(br#"{"file_path": "/a/b.rs", "size_bytes": 12345}"#)
}

pub(crate) fn a_life_looks_as_seed_000_says(ground: &Ground) {
    let bed = &ground.bed;
    bed.configure(|settings| settings.defaults.max_attempts = 2);
    let id = bed.add(described());
    let row = ground.one("SELECT * FROM unified_queue WHERE status = 'pending'");
    assert_eq!(row["queue_id"], json!(id.to_string()));
    let said = ["item_type", "op", "tenant_id", "collection", "branch", "idempotency_key"];
    let said = said.map(|column| text(&row, column));
    assert_eq!(said, ["file", "ingest", "t", "code", "next", "file:code:0123456789abcdef"]);
    assert_eq!(row["payload_json"], json!(r#"{"file_path": "/a/b.rs", "size_bytes": 12345}"#));
    assert_eq!((&row["retry_count"], &row["max_retries"]), (&json!(0), &json!(1)));
    assert_eq!(row["created_at"], time(id.created_at()));

    // UPDATE status='in_progress', lease_until, worker_id
    let held = bed.take();
    let row = ground.one("SELECT * FROM unified_queue WHERE status = 'in_progress'");
    assert_eq!(row["worker_id"], json!("worker"));
    assert_eq!(row["lease_until"], time(held.expires_at));

    // UPDATE retry_count++, status='pending'
    bed.clock.advance(10);
    bed.settle(&held, retry());
    let row = ground.shown("unified_queue", id);
    assert_eq!((text(&row, "status"), &row["retry_count"]), ("pending".into(), &json!(1)));
    assert_eq!(
        (text(&row, "error_message"), &row["worker_id"]),
        ("it went wrong".into(), &Value::Null)
    );
    assert_eq!((&row["last_error_at"], &row["updated_at"]), (&time(bed.now()), &time(bed.now())));

    // retry_count < max? UPDATE status='failed'
    bed.advance(3_600_000);
    let held = bed.take();
    assert_eq!(ground.shown("unified_queue", id)["retry_count"], json!(1));
    bed.settle(&held, retry());
    let row = ground.one("SELECT * FROM unified_queue WHERE status = 'failed'");
    assert_eq!((&row["retry_count"], &row["max_retries"]), (&json!(1), &json!(1)));
    assert_eq!(row["last_error_at"], time(bed.now()));

    // UPDATE status='done'
    let other = bed.add(described());
    bed.drain();
    let row = ground.one("SELECT * FROM unified_queue WHERE status = 'done'");
    assert_eq!((text(&row, "queue_id"), &row["error_message"]), (other.to_string(), &Value::Null));
}

pub(crate) fn seed_000_dequeues_what_a_claim_gets(ground: &Ground) {
    let bed = &ground.bed;
    let mut random = Splitmix(7);
    for _ in 0..20 {
        bed.clock.advance(random.below(3) as u64);
        bed.add(item().priority(random.below(11) as u8));
    }
    let rows = ground.rows(
        "SELECT queue_id FROM unified_queue WHERE status='pending' \
         ORDER BY priority DESC, created_at ASC, queue_id ASC LIMIT 5",
    );
    let seed: Vec<String> = rows.iter().map(|row| text(row, "queue_id")).collect();
    let claimed: Vec<String> = (0..5).map(|_| bed.take().id.to_string()).collect();
    assert_eq!(claimed, seed);
}

/// Items in every state that there is.
fn all_states(ground: &Ground) {
    let bed = &ground.bed;
    let mut policy = Policy { group_limit: Some(1), ..Policy::default() };
    policy.max_attempts = 0;
    bed.configure_queue("free", |settings| settings.defaults = policy);
    bed.add(item().queue("free").group("g").kind("page").payload(b"plain"));
    bed.add(item().at(bed.later(3_600_000)).payload(&[0, 255, 7]));
    let done = |outcome: Outcome| {
        bed.clock.advance(5);
        bed.add(item().key("k").payload(br#"{"n": [1, 2]}"#));
        let held = bed.take();
        bed.clock.advance(5);
        bed.settle(&held, outcome);
    };
    done(Outcome::Complete {
        result: Some(b"{\"ok\": true}".to_vec()),
        output: None,
        spawn: vec![],
    });
    done(Outcome::Complete { result: Some(vec![255, 0]), output: None, spawn: vec![] });
    done(fail());
    done(skip());
    done(Outcome::Fail { class: Class::BadData, message: "nul \u{1} \"quoted\"".into() });
    let cancelled = bed.add(item().key("c"));
    bed.cancel(cancelled);
    bed.add(routed(&["one", "two"]).priority(9));
    bed.settle(&bed.take(), retry());
    bed.advance(20_000);
    bed.settle(&bed.take(), complete_with(b"out"));
    bed.add(item().queue("busy").key("busy"));
    let held = bed.take_from("busy");
    bed.clock.advance(3);
    bed.try_renew(held.lease, None).unwrap();
    bed.try_progress(&held, 3, 9).unwrap();
    bed.add(item().queue("busy").key("busy"));
    for queue in ["split", "cancelled"] {
        bed.add(item().queue(queue));
        bed.split(&bed.take_from(queue), children(0..2));
    }
    let split = bed.everything().into_iter().find(|seen| &*seen.body.queue == "cancelled");
    bed.cancel(split.unwrap().item.id);
}

pub(crate) fn every_state_is_shown_as_it_is(ground: &Ground) {
    all_states(ground);
    let mut seen = std::collections::HashSet::new();
    for inspected in ground.bed.everything() {
        seen.insert((inspected.item.status(), std::mem::discriminant(&inspected.item.state)));
        check_unified(ground, &inspected);
        check_job(ground, &inspected);
    }
    assert_eq!(seen.len(), 8, "pending, held, leased, split and four ends");
}

fn last_error_at(seen: &Inspected) -> Option<Timestamp> {
    seen.trail.last_error()?;
    let failed = seen.trail.attempts.iter().rev().find(|attempt| attempt.error.is_some());
    failed.map(|attempt| attempt.ended)
}

fn check_unified(ground: &Ground, seen: &Inspected) {
    let Inspected { item, body, trail, .. } = seen;
    let row = ground.shown("unified_queue", item.id);
    let leases = block_on(ground.bed.store.leases()).unwrap();
    let lease = item.lease().and_then(|id| leases.iter().find(|lease| lease.id == id));
    let status = match item.status() {
        Status::Processing => "in_progress",
        Status::Completed => "done",
        other => other.name(),
    };
    let waits = matches!(item.state, State::Pending { .. } | State::Held { .. });
    let retries = if waits { item.attempts } else { item.attempts.saturating_sub(1) };
    let Payload::Inline(bytes) = &body.payload else { panic!("no blobs here") };
    let hex = || bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let payload = String::from_utf8(bytes.clone()).unwrap_or_else(|_| hex());
    let unlimited = &*body.queue == "free";
    let check = |column: &str, want: Value| {
        assert_eq!(row[column], want, "{column} of {seen:?}");
    };
    check("queue_id", json!(item.id.to_string()));
    check("item_type", json!(&*body.kind));
    check("op", json!(&*body.op));
    check("tenant_id", json!(&*body.tenant));
    check("priority", json!(item.priority));
    check("status", json!(status));
    check("created_at", time(item.id.created_at()));
    check("lease_until", time_of(lease.map(|lease| lease.expires)));
    check("worker_id", lease.map_or(Value::Null, |lease| json!(&*lease.worker)));
    check("idempotency_key", json!(body.key.clone().unwrap_or(item.id.to_string())));
    check("payload_json", json!(payload));
    check("retry_count", json!(retries));
    check("max_retries", json!(if unlimited { i32::MAX } else { 2 }));
    check("error_message", json!(trail.last_error().map(|fault| &fault.message)));
    check("last_error_at", time_of(last_error_at(seen)));
    check("branch", json!("main"));
    check("metadata", json!("{}"));
    check("queue", json!(&*body.queue));
    let touched = lease.map(|lease| lease.renewed).or(trail.finished_at);
    if let Some(touched) = touched {
        check("updated_at", time(touched));
    }
}

fn check_job(ground: &Ground, seen: &Inspected) {
    let Inspected { item, body, trail, .. } = seen;
    let row = ground.shown("job_queue", item.id);
    let leases = block_on(ground.bed.store.leases()).unwrap();
    let lease = item.lease().and_then(|id| leases.iter().find(|lease| lease.id == id));
    let not_before = match item.state {
        State::Pending { not_before } | State::Held { not_before } => not_before,
        _ => Timestamp::ZERO,
    };
    let started = trail.stage(item.stage).and_then(|record| record.started);
    let progress = trail.progress.as_ref().map(|progress| {
        json!({"current": progress.current, "total": progress.total, "message": progress.message})
    });
    let check = |column: &str, want: Value| {
        assert_eq!(row[column], want, "{column} of {seen:?}");
    };
    check("id", json!(item.id.to_string()));
    check("job_type", json!(&*body.kind));
    check("status", json!(item.status().name().to_uppercase()));
    check("priority", json!(item.priority));
    check("attempts", json!(item.attempts));
    check("max_attempts", json!(if &*body.queue == "free" { 0 } else { 3 }));
    check("scheduled_for", time(not_before.max(item.id.created_at())));
    check("started_at", time_of(lease.map(|lease| lease.granted).or(started)));
    check("completed_at", time_of(trail.finished_at));
    check("progress", progress.unwrap_or(Value::Null));
    check("stage", json!(&*body.route.stage(item.stage).name));
    check("result", trail.result.as_deref().map_or(Value::Null, as_json));
    let Payload::Inline(bytes) = &body.payload else { panic!("no blobs here") };
    if item.has(Marks::KEYED) && !bytes.is_empty() {
        check("payload", json!({"n": [1, 2]}));
    }
}

/// A result as the view shows it.
fn as_json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        json!({ "hex": hex })
    })
}

pub(crate) fn an_id_is_the_same_in_both_languages(ground: &Ground) {
    let mut random = Splitmix(1);
    for _ in 0..20 {
        let (serial, tag) = (random.draw() >> 1, StoreTag::new(random.draw()));
        let id = ItemId::from_serial(serial, tag);
        let tag = tag.bits();
        let sql = format!(
            "select item_id({serial}, {tag}) as id, serial_of('{id}') = {serial} as is_back"
        );
        assert_eq!(ground.one(&sql), json!({"id": id.to_string(), "is_back": true}));
    }
    let id = ground.bed.add(item());
    let sql = format!("select item_id({}) as id", id.serial());
    assert_eq!(ground.one(&sql)["id"], json!(id.to_string()));
}

pub(crate) fn what_is_kept_is_counted_without_counting(ground: &Ground) {
    all_states(ground);
    let counts = block_on(ground.bed.store.counts()).unwrap();
    let mut wanted: Vec<Value> = counts
        .iter()
        .map(|c| {
            json!({"queue": &*c.queue, "tenant_id": &*c.tenant, "status": c.status.name(),
                   "count": c.items})
        })
        .collect();
    wanted.sort_by_key(Value::to_string);
    let mut shown = ground.rows("select * from queue_stats");
    shown.sort_by_key(Value::to_string);
    assert_eq!(shown, wanted);
    let all: u64 = counts.iter().map(|count| count.items).sum();
    for view in ["v_queue_stats", "v_queue_by_collection", "v_item_type_distribution"] {
        let row = ground.one(&format!("select sum(count) as count from {view}"));
        assert_eq!(row["count"], json!(all), "{view}");
    }
}

pub(crate) fn a_stale_lease_is_shown_until_it_is_taken_back(ground: &Ground) {
    let bed = &ground.bed;
    bed.add_many(2);
    let fresh = bed.take();
    let claim = Claim { lease_ms: Some(1), ..Claim::new("slow", "q", 1) };
    let stale = bed.try_claim(claim).unwrap();
    bed.clock.advance(1);
    while ground.rows("select * from stale_items").is_empty() {}
    let row = ground.one("select * from v_stale_items");
    let id = stale.items[0].item.id;
    assert_eq!((text(&row, "queue_id"), text(&row, "worker_id")), (id.to_string(), "slow".into()));
    ground.set_clock();
    assert_eq!(bed.reclaim().items, 1);
    assert_eq!(ground.rows("select * from stale_items"), [] as [Value; 0]);
    bed.complete(&fresh);
}
