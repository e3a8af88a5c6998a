//! `documents`, `task_queue_page` and `task_queue_chunk`: seed 001 over trees.

use serde_json::{Value, json};
use windrow_core::limits::FOLD_AFTER_MS;
use windrow_core::tally::{Bucket, Counts};
use windrow_core::{ItemId, Status};
use windrow_testkit::random::Splitmix;
use windrow_testkit::seed_001::{PROGRESS, READY_FOR_GRAPHRAG, READY_FOR_VECTOR, STATISTICS};
use windrow_testkit::suite::{Draft as _, chunk, document, fail, page, retry, skip};

use crate::ground::{Ground, text, time};

/// What the seed's workers pick up, without the lock, which a view does not take.
const NEXT_PAGE: &str = "
SELECT id, document_id, page_number
FROM task_queue_page
WHERE ocr_status IN ('pending', 'failed')
  AND ocr_retry_count < max_retries
ORDER BY
  CASE WHEN ocr_status = 'failed' THEN 0 ELSE 1 END,  -- Failed first
  ocr_retry_count ASC,
  created_at ASC
LIMIT 1";

const NEXT_CHUNK: &str = "
SELECT c.id, c.page_id, c.document_id, c.chunk_id, c.chunk_index
FROM task_queue_chunk c
JOIN task_queue_page p ON c.page_id = p.id
WHERE c.vector_status IN ('pending', 'failed')
  AND c.vector_retry_count < c.max_retries
  AND p.ocr_status = 'completed'  -- Dependency check!
ORDER BY
  CASE WHEN c.vector_status = 'failed' THEN 0 ELSE 1 END,
  c.vector_retry_count ASC,
  c.created_at ASC
LIMIT 1";

const NEXT_FOR_GRAPHRAG: &str = "
SELECT c.id, c.page_id, c.document_id, c.chunk_id, c.chunk_index
FROM task_queue_chunk c
WHERE c.graphrag_status IN ('pending', 'failed')
  AND c.graphrag_retry_count < c.max_retries
  AND c.vector_status = 'completed'  -- Dependency check!
ORDER BY
  CASE WHEN c.graphrag_status = 'failed' THEN 0 ELSE 1 END,
  c.graphrag_retry_count ASC,
  c.created_at ASC
LIMIT 1";

fn progress(ground: &Ground, id: ItemId) -> Value {
    ground.one(&PROGRESS.replace(":doc_id", &format!("'{id}'")))
}

/// The three phases of a row.
fn phases(row: &Value, of: [&str; 3]) -> [String; 3] {
    of.map(|column| text(row, column))
}

const OF_DOCUMENT: [&str; 3] = ["ocr_status", "vector_index_status", "graphrag_index_status"];
const OF_PAGE: [&str; 3] = ["ocr_status", "vector_status", "graphrag_status"];

/// Asserts how a document stands.
#[track_caller]
fn stands(ground: &Ground, id: ItemId, wanted: [&str; 3]) {
    assert_eq!(phases(&ground.shown("documents", id), OF_DOCUMENT), wanted);
}

fn titled() -> windrow_core::command::NewItem {
    let mut new = document();
    new.body.metadata = Some(r#"{"filename": "report.pdf"}"#.into());
    new
}

pub(crate) fn a_document_bubbles_up_as_seed_001_says(ground: &Ground) {
    let bed = &ground.bed;
    let id = bed.add(titled());
    stands(ground, id, ["pending", "pending", "pending"]);
    let held = bed.take();
    stands(ground, id, ["processing", "pending", "pending"]);
    assert_eq!(ground.shown("documents", id)["current_worker_id"], json!("worker"));
    bed.clock.advance(1);
    let pages = bed.split(&held, (1..4).map(page).collect());
    stands(ground, id, ["pending", "pending", "pending"]);

    let first = bed.take_in("ocr");
    bed.clock.advance(1);
    bed.try_renew(first.lease, None).unwrap();
    stands(ground, id, ["processing", "pending", "pending"]);
    let row = ground.shown("task_queue_page", first.id);
    assert_eq!((&row["ocr_worker_id"], &row["page_number"]), (&json!("worker"), &json!(1)));
    assert_eq!(row["ocr_last_heartbeat"], time(bed.now()));
    bed.settle(&first, retry());
    let row = ground.shown("task_queue_page", first.id);
    assert_eq!((&row["ocr_status"], &row["ocr_retry_count"]), (&json!("pending"), &json!(1)));
    assert_eq!((&row["ocr_error"], &row["max_retries"]), (&json!("it went wrong"), &json!(3)));
    bed.advance(3_600_000);
    for _ in &pages {
        bed.complete(&bed.take_in("ocr"));
    }
    stands(ground, id, ["completed", "pending", "pending"]);
    assert_eq!(ground.shown("documents", id)["ocr_completed_at"], time(bed.now()));

    for _ in &pages {
        bed.split(&bed.take_in("chunk"), (0..2).map(chunk).collect());
    }
    stands(ground, id, ["completed", "pending", "pending"]);
    let held = bed.claim_in("vector", 6);
    stands(ground, id, ["completed", "processing", "pending"]);
    held.iter().for_each(|held| bed.complete(held));
    stands(ground, id, ["completed", "completed", "pending"]);
    let held = bed.claim_in("graph", 6);
    bed.settle(&held[0], fail());
    held[1..].iter().for_each(|held| bed.complete(held));
    stands(ground, id, ["completed", "completed", "failed"]);
    let row = ground.shown("documents", id);
    assert_eq!(row["graphrag_error"], json!("it is broken"));
    assert_eq!(
        (&row["filename"], &row["vector_status"]),
        (&json!("report.pdf"), &json!("completed"))
    );
}

pub(crate) fn the_queries_of_seed_001_run(ground: &Ground) {
    let bed = &ground.bed;
    let id = bed.add(titled());
    let pages = bed.split(&bed.take(), (1..4).map(page).collect());
    // Pages of one split have the same time, so that the seed might pick any.
    let next = ground.one(NEXT_PAGE);
    assert!(pages.iter().any(|page| next["id"] == json!(page.to_string())), "{next}");
    assert_eq!(next["document_id"], json!(id.to_string()));
    bed.take_in("ocr");
    bed.advance(3_600_000);
    bed.advance(3_600_000);
    for held in bed.claim_in("ocr", 3) {
        bed.complete(&held);
    }
    let ready = ground.rows(READY_FOR_VECTOR);
    assert_eq!(ready, [json!({"id": id.to_string(), "filename": "report.pdf"})]);
    for held in bed.claim_in("chunk", 3) {
        bed.split(&held, (0..2).map(chunk).collect());
    }
    let next = ground.one(NEXT_CHUNK);
    assert_eq!(ground.rows(NEXT_FOR_GRAPHRAG), [] as [Value; 0]);
    assert!(next["chunk_index"] == json!(0) || next["chunk_index"] == json!(1));
    assert_eq!(next["chunk_id"], next["id"], "without a better name");
    bed.claim_in("vector", 4).iter().for_each(|held| bed.complete(held));
    assert_eq!(ground.rows(NEXT_FOR_GRAPHRAG).len(), 1);

    let wanted = json!({
        "id": id.to_string(), "filename": "report.pdf", "ocr_status": "completed",
        "vector_index_status": "pending", "graphrag_index_status": "pending",
        "total_pages": 3, "ocr_completed_pages": 3, "ocr_failed_pages": 0,
        "total_chunks": 6, "vector_completed_chunks": 4, "graphrag_completed_chunks": 0,
    });
    assert_eq!(progress(ground, id), wanted);
    let mut statistics: Vec<String> = ground
        .rows(STATISTICS)
        .iter()
        .map(|row| format!("{} {} {}", text(row, "task_type"), text(row, "status"), row["count"]))
        .collect();
    statistics.sort();
    let wanted = [
        "graphrag_chunks pending 6",
        "ocr_pages completed 3",
        "vector_chunks completed 4",
        "vector_chunks pending 2",
    ];
    assert_eq!(statistics, wanted);
    bed.claim_in("vector", 2).iter().for_each(|held| bed.complete(held));
    assert_eq!(ground.rows(READY_FOR_GRAPHRAG).len(), 1);
}

/// What the counts of a phase make of it; nothing if nobody is in it.
fn made_of(all: &[Counts]) -> Option<Status> {
    let mut sum = Counts::default();
    for counts in all {
        sum.0.iter_mut().zip(counts.0).for_each(|(sum, more)| *sum += more);
    }
    (sum.total() > 0).then(|| sum.status())
}

/// Asserts that a split item's row shows what its tally says, where children have all been born.
fn agrees(ground: &Ground, view: &str, columns: [&str; 3], id: ItemId) {
    let bed = &ground.bed;
    let row = ground.shown(view, id);
    let names: [&[&str]; 3] = [&["ocr"], &["chunk", "vector"], &["graph"]];
    for (column, names) in columns.into_iter().zip(names) {
        let counts: Vec<Counts> = names.iter().map(|name| bed.phase(id, name)).collect();
        if let Some(status) = made_of(&counts) {
            assert_eq!(text(&row, column), status.name(), "{column} of {view} {id}: {counts:?}");
        }
    }
}

pub(crate) fn the_phases_are_those_of_the_tally(ground: &Ground) {
    let bed = &ground.bed;
    let mut random = Splitmix(3);
    let id = bed.add(titled());
    bed.split(&bed.take(), (1..4).map(page).collect());
    for _ in 0..60 {
        bed.advance(400_000);
        let all = bed.claim(1 + random.below(3));
        if all.is_empty() {
            break;
        }
        for held in all {
            let outcome = random.below(10);
            match (&*held.work.stage, outcome) {
                ("publish", _) => bed.settle(&held, windrow_testkit::suite::release()),
                (_, 0) => bed.settle(&held, fail()),
                (_, 1) => bed.settle(&held, skip()),
                (_, 2 | 3) => bed.settle(&held, retry()),
                ("chunk", _) => {
                    let children = (0..1 + random.below(3) as u32).map(chunk).collect();
                    bed.settle(&held, windrow_testkit::suite::split(children))
                }
                _ => bed.settle(&held, windrow_core::command::Outcome::complete()),
            };
            if bed.item(id).stage > 0 {
                return;
            }
            agrees(ground, "documents", OF_DOCUMENT, id);
            for page in bed.children(id) {
                if bed.try_see(page).is_some_and(|seen| seen.tally.is_some()) {
                    agrees(ground, "task_queue_page", OF_PAGE, page);
                }
            }
        }
    }
    let failed = bed.tally(id).phases.iter().any(|(_, counts)| counts.of(Bucket::Failed) > 0);
    assert!(failed || bed.tally(id).gaps == 0);
}

pub(crate) fn pages_of_an_older_generation_are_not_shown(ground: &Ground) {
    let bed = &ground.bed;
    let id = bed.add(titled());
    bed.split(&bed.take(), (1..4).map(page).collect());
    bed.restart(id, "pages");
    assert_eq!(ground.rows("select * from task_queue_page"), [] as [Value; 0]);
    stands(ground, id, ["pending", "pending", "pending"]);
    let pages = bed.split(&bed.take(), vec![page(1)]);
    let row = ground.one("select * from task_queue_page");
    assert_eq!(row["id"], json!(pages[0].to_string()));
    bed.sweep();
}

pub(crate) fn a_folded_document_is_completed_in_every_phase(ground: &Ground) {
    let bed = &ground.bed;
    let id = bed.add(titled().priority(9));
    bed.split(&bed.take(), (1..3).map(page).collect());
    for held in bed.claim_in("ocr", 2) {
        bed.complete(&held);
    }
    for held in bed.claim_in("chunk", 2) {
        bed.split(&held, vec![chunk(0)]);
    }
    bed.drain();
    stands(ground, id, ["completed", "completed", "completed"]);
    assert_eq!(progress(ground, id)["total_chunks"], json!(2));
    bed.advance(FOLD_AFTER_MS + 1_000);
    assert_eq!(bed.sweep().folded, 1);
    stands(ground, id, ["completed", "completed", "completed"]);
    assert_eq!(progress(ground, id)["total_pages"], json!(0), "only the root is kept");
}
