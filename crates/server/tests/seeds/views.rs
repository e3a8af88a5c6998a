//! `GET /views/{name}`: the rows of the views in PostgreSQL, on either store.

use serde_json::{Value, json};

use crate::rig::Rig;
use crate::story;

const VIEWS: [&str; 6] = [
    "unified_queue",
    "job_queue",
    "documents",
    "task_queue_page",
    "task_queue_chunk",
    "queue_stats",
];

/// A row as both sides can say it: times to the millisecond, as the database writes them.
fn plain(row: &Value) -> Value {
    let Value::Object(columns) = row else { panic!("{row}") };
    let said = columns.iter().map(|(name, value)| {
        let value = match value.as_str() {
            Some(text) if name.ends_with("_at") || is_time(name) => {
                let text = text.trim_end_matches("+00:00").trim_end_matches('Z');
                let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
                json!(format!("{whole}.{rest:0<3}"))
            }
            _ => value.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(said.collect())
}

fn is_time(column: &str) -> bool {
    matches!(column, "lease_until" | "scheduled_for" | "last_heartbeat")
        || column.ends_with("_last_heartbeat")
}

#[test]
fn the_rows_are_those_of_the_views_in_the_database_column_by_column() {
    let rig = Rig::postgres("rows");
    story::of_items(&rig);
    story::of_documents(&rig);
    for view in VIEWS {
        let order = if view == "queue_stats" {
            "order by queue collate \"C\", tenant_id collate \"C\", status collate \"C\""
        } else {
            "order by serial desc"
        };
        let wanted = rig.selected(&format!("select * from {view} {order}"));
        let rows = rig.rows(view, "");
        assert!(!wanted.is_empty() && rows.len() == wanted.len(), "{view}: {}", rows.len());
        for (row, wanted) in rows.iter().zip(&wanted) {
            let (row, wanted) = (plain(row), plain(wanted));
            for (column, value) in wanted.as_object().unwrap() {
                assert_eq!(row[column], *value, "{column} of {view}\n{row:#}\n{wanted:#}");
            }
            let columns =
                |row: &Value| -> Vec<String> { row.as_object().unwrap().keys().cloned().collect() };
            assert_eq!(columns(&row), columns(&wanted), "{view}");
        }
    }
}

/// A row without what differs from one run to the next: ids and times.
fn timeless(row: &Value) -> Value {
    let mut row = row.clone();
    for (name, value) in row.as_object_mut().unwrap() {
        let is_id = ["id", "queue_id", "page_id", "document_id", "serial"].contains(&name.as_str());
        let is_own_key = ["idempotency_key", "chunk_id"].contains(&name.as_str())
            && value.as_str().is_some_and(|key| key.len() == 36);
        if !value.is_null() && (is_id || is_own_key || name.ends_with("_at") || is_time(name)) {
            *value = json!("it has one");
        }
    }
    row
}

#[test]
fn both_stores_tell_the_same_story_alike() {
    let rigs = [Rig::embedded("alike"), Rig::postgres("alike")];
    let told = rigs.each_ref().map(|rig| {
        story::of_items(rig);
        story::of_documents(rig);
        VIEWS.map(|view| rig.rows(view, "").iter().map(timeless).collect::<Vec<_>>())
    });
    for (at, view) in VIEWS.into_iter().enumerate() {
        assert!(told[0][at].len() > 2, "{view}");
        assert_eq!(told[0][at].len(), told[1][at].len(), "{view}");
        for (embedded, postgres) in told[0][at].iter().zip(&told[1][at]) {
            assert_eq!(embedded, postgres, "{view}: {embedded:#} {postgres:#}");
        }
    }
}

#[test]
fn how_much_was_extracted_is_said_by_the_metadata_of_a_chunk_else_by_its_result() {
    Rig::both("extracted", |rig| {
        story::of_documents(rig);
        let done: Vec<Value> = rig.rows("documents", "status=completed");
        let id = done[0]["id"].as_str().unwrap();
        let chunks = rig.rows("task_queue_chunk", &format!("document_id={id}"));
        let shown = |column: &str| -> Vec<&Value> { chunks.iter().map(|c| &c[column]).collect() };
        assert_eq!(shown("chunk_id"), [&json!("c0"), &json!("c1")]);
        // The second one's result says a word, which is no number.
        assert_eq!(shown("entities_extracted"), [&json!(7), &json!(0)]);
        assert_eq!(shown("relationships_extracted"), [&json!(2), &json!(2)]);
    });
}

#[test]
fn a_view_is_narrowed_in_the_words_of_its_seed_or_ours() {
    Rig::both("narrowed", |rig| {
        story::of_items(rig);
        let mixed = story::of_documents(rig);
        let count = |view: &str, narrowed: &str| rig.rows(view, narrowed).len();
        let all = count("job_queue", "");
        for (view, column) in [("job_queue", "status"), ("unified_queue", "status")] {
            let mut sum = 0;
            for words in [
                ["queued", "PENDING"],
                ["in_progress", "Processing"],
                ["DONE", "completed"],
                ["failed", "FAILED"],
                ["cancelled", "canceled"],
                ["skipped", "SKIPPED"],
            ] {
                let [rows, again] = words.map(|word| rig.rows(view, &format!("status={word}")));
                assert_eq!(rows, again, "{words:?}");
                let mut shown: Vec<&Value> = rows.iter().map(|row| &row[column]).collect();
                shown.dedup();
                assert_eq!(shown.len(), 1, "{words:?} of {view}: {shown:?}");
                sum += rows.len();
            }
            assert_eq!(sum, all, "every item has one of them");
        }
        assert_eq!(count("unified_queue", "queue=busy"), 2);
        assert_eq!(count("unified_queue", "tenant_id=acme"), 1);
        assert_eq!(count("job_queue", "user_id=acme&job_type=page"), 1);
        assert_eq!(count("job_queue", "job_type=VECTORIZE&stage=two"), 1);
        assert_eq!(count("unified_queue", "collection=code&branch=next&status=done"), 3);
        assert_eq!(count("queue_stats", "queue=busy&status=queued"), 1);
        assert_eq!(count("stale_items", ""), 0);

        let numbers = |rows: &[Value], column: &str| -> Vec<u64> {
            rows.iter().map(|row| row[column].as_u64().unwrap()).collect()
        };
        let pages = rig.rows("task_queue_page", &format!("document_id={mixed}"));
        assert_eq!(numbers(&pages, "page_number"), [1, 2, 3, 4, 5, 6], "in the document's order");
        let chunks = rig.rows("task_queue_chunk", &format!("document_id={mixed}"));
        assert_eq!(numbers(&chunks, "chunk_index"), [0, 1, 2, 3, 4]);
        let page = chunks[0]["page_id"].as_str().unwrap();
        assert_eq!(rig.rows("task_queue_chunk", &format!("page_id={page}")), chunks);
        assert!(rig.rows("task_queue_chunk", "").len() > chunks.len());
        let failed = rig.rows("task_queue_page", &format!("document_id={mixed}&status=failed"));
        assert_eq!(numbers(&failed, "page_number"), [1]);
        assert_eq!(count("documents", "status=processing"), 1);
    });
}

#[test]
fn a_lease_that_is_over_is_shown_until_it_is_taken_back() {
    Rig::both("stale", |rig| {
        rig.add("q", json!({}));
        rig.take(json!({"worker": "slow", "lease_ms": 1}));
        // Taken back within a second; until then it is stale.
        let item = || rig.rows("unified_queue", "").remove(0);
        let stale = loop {
            let stale = rig.rows("v_stale_items", "");
            if !stale.is_empty() || item()["status"] != "in_progress" {
                break stale;
            }
        };
        if let [stale] = stale.as_slice() {
            assert_eq!((&stale["worker_id"], &stale["queue"]), (&json!("slow"), &json!("q")));
        }
        while item()["status"] == "in_progress" {}
        assert_eq!(rig.rows("stale_items", ""), [] as [Value; 0]);
    });
}

#[test]
fn what_is_asked_wrongly_is_refused_with_what_is_meant() {
    let rig = Rig::embedded("wrong");
    let refuses = |path: &str, is| rig.refuses("GET", path, Value::Null, is);
    let said = refuses("/views/job_queu", (404, "not_found"));
    assert!(said.contains("task_queue_chunk") && said.contains("`job_queue` is meant"), "{said}");
    let said = refuses("/views/job_queue?stauts=failed", (400, "malformed"));
    assert!(said.contains("`status` is meant"), "{said}");
    let said = refuses("/views/documents?page_id=x", (422, "invalid"));
    assert!(said.contains("documents is not narrowed by it, but by status, queue"), "{said}");
    for wrong in [
        "job_queue?status=broken",
        "job_queue?limit=0",
        "job_queue?limit=201",
        "job_queue?cursor=x",
        "queue_stats?cursor=x",
        "task_queue_page?document_id=x",
        "task_queue_chunk?cursor=1.x&page_id=01a1e554-9c99-7001-b210-29840971dd42",
    ] {
        refuses(&format!("/views/{wrong}"), (422, "invalid"));
    }
    let nobody = "document_id=01a1e554-9c99-7001-b210-29840971dd42";
    assert_eq!(rig.rows("task_queue_page", nobody), [] as [Value; 0]);
}
