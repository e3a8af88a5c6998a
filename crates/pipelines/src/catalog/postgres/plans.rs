//! Every statement that lists, however much there is, goes along an index and stops at its limit.

use uuid::Uuid;
use windrow_core::Timestamp;
use windrow_testkit::servers::{Durability, Postgres as Server, Version};

use super::super::{DocumentCursor, DocumentFilter, DocumentState, EntityFilter, TextQuery};
use super::value::{Sent, Tx, values};
use super::{
    Connect, Options, Pool, SCHEMA, around, chunks, dimensions, documents, pages, search, vectors,
};

async fn plan(tx: &Tx<'_>, sql: &str, values: &[&dyn Sent]) -> String {
    let lines = tx.rows(&format!("explain {sql}"), values).await.unwrap();
    lines.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
}

async fn check(tx: &Tx<'_>, sql: &str, values: &[&dyn Sent], index: &str) {
    let plan = plan(tx, sql, values).await;
    assert!(plan.contains(index), "{sql}:\n{plan}");
    assert!(!plan.contains("Seq Scan"), "reads a whole table: {sql}:\n{plan}");
}

/// Enough rows that a plan which reads them all would cost more.
const FILL: &str = "\
    insert into windrow_catalog.documents (id, tenant, collection, source, name, folded_name, \
      state, newest, live, added_at, changed_at) \
      select gen_random_uuid(), 't', 'c' || n % 5, n, 'n', 'n', \
      case n % 50 when 0 then 'failed' else 'live' end, 1, 1, n, n \
      from generate_series(1, 10000) n; \
    insert into windrow_catalog.generations (document, number, state, hash, media_type, bytes, \
      place, added_at) select id, 1, 'live', '', '', 0, '', 0 from windrow_catalog.documents; \
    insert into windrow_catalog.pages (document, generation, number, state) \
      select id, 1, n, 'waiting' from generate_series(1, 10000) n, \
      (select id from windrow_catalog.documents order by added_at limit 10) d; \
    insert into windrow_catalog.chunks (id, document, generation, page, ordinal, tenant, \
      collection, kind, linked, tokens, begins, ends, hash, metadata, text, words) \
      select gen_random_uuid(), id, 1, n, 0, 't', 'c1', 'text', false, 0, 0, 0, '', '', \
      repeat('word' || n || ' ', 200), to_tsvector('windrow_catalog.words', 'word' || n) \
      from generate_series(1, 1000) n, \
      (select id from windrow_catalog.documents order by added_at limit 20) d; \
    insert into windrow_catalog.vectors (chunk, sequence, document, generation, page, tenant, \
      collection, vector) select id, row_number() over (), document, 1, page, 't', 'c', '' \
      from windrow_catalog.chunks; \
    insert into windrow_catalog.entities (id, tenant, collection, kind, name) \
      select gen_random_uuid(), 't', 'c1', 'name', 'n' || n from generate_series(1, 20000) n; \
    with c as (select row_number() over () as n, id, document from windrow_catalog.chunks), \
      e as (select row_number() over () as n, id, name from windrow_catalog.entities) \
      insert into windrow_catalog.mentions (chunk, entity, document, generation, name, \
      description, score) select c.id, e.id, c.document, 1, e.name, '', 1 \
      from c join e on e.n = c.n union all select c.id, e.id, c.document, 1, e.name, '', 1 \
      from c join e on e.n = c.n % 1000 and e.n <> c.n; \
    insert into windrow_catalog.relationships (chunk, source, target, kind, document, \
      generation, description, weight) select a.chunk, a.entity, b.entity, 'by', a.document, 1, \
      '', 1 from windrow_catalog.mentions a join windrow_catalog.mentions b \
      on b.chunk = a.chunk and b.entity > a.entity; \
    insert into windrow_catalog.dimensions (document, generation, tenant, collection, dimension) \
      select id, 1, tenant, collection, 384 from windrow_catalog.documents; \
    insert into windrow_catalog.changes (sequence, kind, document, generation) \
      select n, 'removed', gen_random_uuid(), 1 from generate_series(1, 10000) n; \
    analyze";

#[tokio::test]
async fn lists_go_along_an_index() {
    let server = Server::start(Version::V15, Durability::Off).unwrap();
    server.create_database("plans").unwrap();
    let pool = Pool::new(Options::new(Connect::plain(&server.url("plans")).unwrap()));
    let mut used = pool.get().await.unwrap();
    SCHEMA.migrate(&mut used).await.unwrap();
    used.batch_execute(FILL).await.unwrap();
    let tx = used.reading().await.unwrap();
    lists(&tx).await;
    graph(&tx).await;

    let first = "select id from windrow_catalog.documents order by added_at limit 1";
    let id: Uuid = tx.one(first, &[]).await.unwrap().get(0);
    let page = values![id, 1_i32, 9_000_i32, 100_i64];
    check(&tx, pages::MANIFEST, page, "Index Scan using pages_pkey").await;
    let of = values![vec![id], vec![1_i32], "t"];
    check(&tx, pages::PROGRESS, of, "chunks_by_progress").await;
    let of = values![id, 1_i32, vec![900_i32], "t"];
    check(&tx, pages::CHUNKS_OF_PAGES, of, "chunks_by_page").await;
    let page = values![id, 1_i32, 900_i32];
    check(&tx, chunks::OF_PAGE, page, "chunks_by_page").await;
    let places = values![id, 1_i32, 100_i32, 0_i32, "t", 10_i64];
    check(&tx, chunks::PLACES, places, "Index Scan using chunks_by_page").await;
    let since = values![19_000_i64, 100_i64];
    check(&tx, vectors::SINCE, since, "Index Scan using vectors_by_sequence").await;
    check(&tx, vectors::CHANGES_SINCE, since, "Index Scan using changes_pkey").await;

    let (one, documents) = (vec![0_i32], vec![id]);
    let given = values![one, vec!["t"], vec!["c1"], vec![384_i32], documents];
    let others = plan(&tx, dimensions::OTHERS, given).await;
    assert_eq!(others.matches("dimensions_by_collection").count(), 2, "{others}");
    assert!(!others.contains("Seq Scan"), "{others}");

    let query = TextQuery { collection: Some("c1".into()), ..TextQuery::of("t", "word77") };
    let built = search::search_sql(&query, &["word77".into()]);
    check(&tx, &built.sql, &built.values(), "Bitmap Index Scan on chunks_by_words").await;

    // The check sees what it is there to see.
    let scan = plan(&tx, "select text from windrow_catalog.chunks order by text", &[]).await;
    assert!(scan.contains("Seq Scan"), "{scan}");
}

async fn graph(tx: &Tx<'_>) {
    let entity = "select entity from windrow_catalog.mentions limit 1";
    let id: Uuid = tx.one(entity, &[]).await.unwrap().get(0);
    for (sql, index) in
        around::SAID.into_iter().zip(["relationships_by_source", "relationships_by_target"])
    {
        check(tx, sql, values![vec![id], "t", 500_i64], index).await;
    }
    check(tx, around::NAMES, values![vec![id], "t", 500_i64], "mentions_by_entity").await;
    let (kind, limit) = (None::<String>, 20_i64);
    let named = values!["t", "c1", "n1", "n2", 1_000_i64, "n1", kind, limit];
    check(tx, around::NAMED, named, "entities_by_name").await;
    let mentioned = values![id, "t", Uuid::nil(), 0_i32, 0_i32, limit];
    check(tx, around::MENTIONED, mentioned, "mentions_by_entity").await;
    let built = around::sample_sql(&EntityFilter::of("t"));
    check(tx, &built.sql, &built.values(), "mentions_by_generation").await;
}

async fn lists(tx: &Tx<'_>) {
    let cursor = Some(DocumentCursor { added_at: Timestamp(5_000), id: Uuid::from_u128(1) });
    let all = DocumentFilter::of("t");
    let named = DocumentFilter { name: Some("n".into()), ..all.clone() };
    let of_collection = DocumentFilter { collection: Some("c1".into()), ..all.clone() };
    let failed = DocumentFilter { state: Some(DocumentState::Failed), ..all.clone() };
    for (filter, index) in [
        (all, "Backward using documents_by_time"),
        (named, "Backward using documents_by_time"),
        (of_collection, "Backward using documents_by_collection"),
        (failed, "Backward using documents_by_state"),
    ] {
        let built = documents::list_sql(&filter, cursor, 10);
        check(tx, &built.sql, &built.values(), index).await;
        let plan = plan(tx, &built.sql, &built.values()).await;
        assert!(!plan.contains("Sort"), "sorts: {}:\n{plan}", built.sql);
    }
    let states = vec!["live", "failed"];
    check(tx, documents::COUNT, values!["t", states, 100_001_i64], "documents_by_state").await;
}
