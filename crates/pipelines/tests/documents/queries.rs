//! The example queries of seed 001, over a document that was really read, embedded and linked.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use uuid::Uuid;
use windrow_core::command::Scope;
use windrow_core::item::Status;
use windrow_pipelines::catalog::GenerationKey;
use windrow_pipelines::documents::{PageText, QUEUE, ReadError, Reader, TextFiles};
use windrow_store::postgres::{Options, Postgres as Store};
use windrow_testkit::seed_001::{PROGRESS, READY_FOR_GRAPHRAG, READY_FOR_VECTOR, STATISTICS};
use windrow_testkit::servers::{Durability, Postgres, Version};

use crate::place::{Place, enqueued};

/// Reads text files, but for their second page.
#[derive(Debug)]
struct Torn;

impl Reader for Torn {
    fn version(&self) -> String {
        "torn".into()
    }

    fn pages<'a>(
        &'a self,
        file: &'a Path,
        media_type: &'a str,
    ) -> BoxFuture<'a, Result<u32, ReadError>> {
        TextFiles.pages(file, media_type)
    }

    fn read<'a>(
        &'a self,
        file: &'a Path,
        media_type: &'a str,
        page: u32,
    ) -> BoxFuture<'a, Result<PageText, ReadError>> {
        match page {
            2 => Box::pin(async { Err(ReadError::bad("it is torn")) }),
            _ => TextFiles.read(file, media_type, page),
        }
    }
}

const LETTERS: &str = "Ada Lovelace wrote to Charles Babbage about the Analytical Engine.\x0c\
    Nobody can read this page of the letters.\x0c\
    Charles Babbage showed the Difference Engine to Ada Lovelace in London.";

/// A database of its own, and what it says to a query.
struct Database(Postgres);

impl Database {
    fn start() -> Database {
        let server = Postgres::start(Version::V15, Durability::Off).unwrap();
        server.create_database("queue").unwrap();
        Database(server)
    }

    async fn store(&self) -> Store {
        let mut options = Options::new(self.0.url("queue"));
        options.accept_no_fsync = true;
        Store::open(options).await.unwrap()
    }

    fn rows(&self, query: &str) -> Vec<Value> {
        let query = query.trim().trim_end_matches(';');
        let sql = format!(
            "set search_path = windrow; set jit = off; \
             select coalesce(json_agg(t), '[]') from ({query}) t"
        );
        serde_json::from_str(&self.0.psql("queue", &sql).unwrap()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_queries_of_the_seed_tell_what_became_of_a_document() {
    let database = Database::start();
    let place = Place::over("queries", database.store().await);
    let (at, item) = enqueued(place.add("letters.txt", LETTERS).await);
    let progress =
        || database.rows(&PROGRESS.replace(":doc_id", &format!("'{item}'"))).pop().unwrap();
    let waiting = progress();
    assert_eq!(waiting["filename"], json!("letters.txt"));
    assert_eq!(
        [&waiting["ocr_status"], &waiting["vector_index_status"], &waiting["total_pages"]],
        [&json!("pending"), &json!("pending"), &json!(0)]
    );
    let workers = place.start(Arc::new(Torn)).await;
    assert_eq!(place.ended(item).await, Status::Completed);
    assert_eq!(
        progress(),
        json!({
            "id": item.to_string(), "filename": "letters.txt", "ocr_status": "failed",
            "vector_index_status": "failed", "graphrag_index_status": "failed",
            "total_pages": 3, "ocr_completed_pages": 2, "ocr_failed_pages": 1,
            "total_chunks": 2, "vector_completed_chunks": 2, "graphrag_completed_chunks": 2,
        })
    );
    let mut statistics: Vec<String> = database
        .rows(STATISTICS)
        .iter()
        .map(|row| format!("{} {} {}", row["task_type"], row["status"], row["count"]))
        .collect();
    statistics.sort();
    let wanted = [
        r#""graphrag_chunks" "completed" 2"#,
        r#""ocr_pages" "completed" 2"#,
        r#""ocr_pages" "failed" 1"#,
        r#""vector_chunks" "completed" 2"#,
    ];
    assert_eq!(statistics, wanted);
    for ready in [READY_FOR_VECTOR, READY_FOR_GRAPHRAG] {
        assert_eq!(database.rows(ready), [] as [Value; 0]);
    }
    columns(&database, &place, at.document).await;
    workers.stop().await.unwrap();
}

/// What stands in the columns that only the pipeline knows.
async fn columns(database: &Database, place: &Place<Store>, document: Uuid) {
    let pages = database.rows("select * from task_queue_page order by page_number");
    for (number, page) in (1..).zip(&pages) {
        assert_eq!(page["page_number"], json!(number));
        let path = format!("documents/{document}/pages/{number}_nohf.md");
        assert_eq!(page["page_file_path"], json!(path));
    }
    assert_eq!(pages[1]["ocr_error"], json!("it is torn"));
    let chunks = database.rows("select * from task_queue_chunk order by chunk_id");
    let at = GenerationKey { document, generation: 1 };
    let mut known = place.catalog.chunk_places("acme", at, (0, 0), 10).await.unwrap();
    known.sort_by_key(|chunk| chunk.id);
    assert_eq!((chunks.len(), known.len()), (2, 2));
    for (chunk, known) in chunks.iter().zip(known) {
        let hash: String = known.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(chunk["chunk_id"], json!(known.id.to_string()));
        assert_eq!(chunk["chunk_content_hash"], json!(hash));
        assert!(chunk["entities_extracted"].as_u64().unwrap() >= 2, "{chunk}");
        assert!(chunk["relationships_extracted"].as_u64().unwrap() >= 1, "{chunk}");
        let mentions = place.catalog.mentions("acme", vec![known.id]).await.unwrap();
        assert_eq!(chunk["entities_extracted"], json!(mentions.len()), "as the catalog has it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_ready_for_a_phase_when_the_one_before_is_over() {
    let database = Database::start();
    let place = Place::over("ready", database.store().await);
    let (_, item) = enqueued(place.add("letters.txt", LETTERS).await);
    // Nobody embeds, and then nobody links: what is before that is done.
    for (paused, ready) in [("chunk", READY_FOR_VECTOR), ("graph", READY_FOR_GRAPHRAG)] {
        assert_eq!(database.rows(ready), [] as [Value; 0]);
        let scope = Scope { queue: QUEUE.into(), stage: Some(paused.into()), tenant: None };
        place.queue.pause(scope.clone()).await.unwrap();
        let workers = place.start(Arc::new(TextFiles)).await;
        while database.rows(ready).is_empty() {
            place.moment().await;
        }
        let row = json!({"id": item.to_string(), "filename": "letters.txt"});
        assert_eq!(database.rows(ready), [row]);
        workers.stop().await.unwrap();
        place.queue.resume(scope).await.unwrap();
    }
    let workers = place.start(Arc::new(TextFiles)).await;
    assert_eq!(place.ended(item).await, Status::Completed);
    workers.stop().await.unwrap();
}
