//! Every statement that lists, however much there is, goes along an index and stops at its limit.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use uuid::Uuid;
use windrow_core::Timestamp;

use super::super::{DocumentCursor, DocumentFilter, DocumentState, TextQuery};
use super::{around, chunks, dimensions, documents, graph, open, pages, search, vectors};

fn plan(db: &Connection, sql: &str, values: &[Value]) -> String {
    let mut explain = db.prepare(&format!("explain query plan {sql}")).unwrap();
    let nulls = std::iter::repeat(Value::Null);
    let values = values.iter().cloned().chain(nulls).take(explain.parameter_count());
    let lines = explain.query_map(params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
    lines.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
}

fn check(db: &Connection, sql: &str, values: &[Value], index: &str) {
    let plan = plan(db, sql, values);
    assert!(plan.contains(index), "{sql}: {plan}");
    assert!(!plan.contains("TEMP B-TREE"), "sorts: {sql}: {plan}");
    let scans = plan.split("; ").any(|line| line.starts_with("SCAN") && !line.contains("VIRTUAL"));
    assert!(!scans, "reads a whole table: {sql}: {plan}");
}

#[test]
fn lists_go_along_an_index() {
    let folder = std::env::temp_dir().join(format!("windrow-plans-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let db = open::writer(&folder.join("catalog.db")).unwrap();
    let cursor = Some(DocumentCursor { added_at: Timestamp(1), id: Uuid::from_u128(1) });
    let mut filter = DocumentFilter::of("t");
    let check_list = |filter: &DocumentFilter, index: &str| {
        let (sql, values) = documents::list_sql(filter, cursor, 10);
        check(&db, &sql, &values, index);
    };
    check_list(&filter, "documents_by_time (tenant=? AND (added_at,id)<");
    filter.name = Some("report".into());
    check_list(&filter, "documents_by_time (tenant=? AND (added_at,id)<");
    filter.collection = Some("c".into());
    check_list(&filter, "documents_by_collection (tenant=? AND collection=? AND (added_at,id)<");
    filter = DocumentFilter { state: Some(DocumentState::Live), ..DocumentFilter::of("t") };
    check_list(&filter, "documents_by_state (tenant=? AND state=? AND (added_at,id)<");

    let by_number = "pages_by_number (document=? AND generation=? AND number>?)";
    check(&db, pages::MANIFEST, &[], by_number);
    check(&db, pages::CHUNKS_DONE, &[], "COVERING INDEX chunks_by_progress");
    check(&db, chunks::OF_PAGE, &[], "chunks_by_page (document=? AND generation=? AND page=?)");
    let by_place = "chunks_by_page (document=? AND generation=? AND (page,ordinal)>(?,?))";
    check(&db, chunks::PLACES, &[], by_place);
    let by_page = "chunks_by_page (document=? AND generation=? AND page=?)";
    check(&db, pages::CHUNKS_OF_PAGE, &[], by_page);
    bounded(&db);
    check(&db, vectors::SINCE, &[], "PRIMARY KEY (rowid>?)");
    check(&db, vectors::CHANGES_SINCE, &[], "PRIMARY KEY (rowid>?)");

    // By the chunks that mention it.
    check(&db, graph::SAID, &[], "m USING PRIMARY KEY (entity=?)");

    let by_dimension = "dimensions_by_collection (tenant=? AND collection=? AND dimension";
    for (sql, range) in dimensions::OTHERS.into_iter().zip(["<?)", ">?)"]) {
        check(&db, sql, &[], &format!("{by_dimension}{range}"));
    }

    let query = TextQuery { collection: Some("c".into()), ..TextQuery::of("t", "oven") };
    for first in [search::First::Best, search::First::Newest] {
        let (sql, values) = search::search_sql(&query, "text : \"oven\"", first, 10);
        check(&db, &sql, &values, "words VIRTUAL TABLE INDEX");
    }

    // The check sees what it is there to see.
    let scan = plan(&db, "select name from documents order by name", &[]);
    assert!(scan.contains("SCAN") && scan.contains("TEMP B-TREE"), "{scan}");
    drop(db);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Pictures of the graph begin at one entity, or at what was added last. What is gathered of it, or
/// counted, may be sorted and read again, since it is bounded.
fn bounded(db: &Connection) {
    let check = |sql: &str, indexes: &[&str]| {
        let plan = plan(db, sql, &[]);
        for index in indexes {
            assert!(plan.contains(index), "{sql}: {plan}");
        }
        let scans = plan.split("; ").filter(|line| line.starts_with("SCAN"));
        let tables = ["mentions", "graphs", "entities", "documents", "chunks"];
        for line in scans {
            assert!(!tables.iter().any(|table| line[5..].starts_with(table)), "{sql}: {plan}");
        }
    };
    check(documents::COUNT, &["COVERING INDEX documents_by_state (tenant=? AND state=?)"]);
    check(around::SAID, &["m USING PRIMARY KEY (entity=?)"]);
    check(around::NAMES, &["m USING PRIMARY KEY (entity=?)"]);
    check(around::MENTIONED, &["m USING PRIMARY KEY (entity=? AND document>?)"]);
    let range = "entities_by_name (tenant=? AND collection=? AND name>? AND name<?)";
    check(around::NAMED, &[range]);
    let sampled = "(document=? AND generation=?)";
    check(around::SAMPLE, &["documents_by_time (tenant=?)", sampled]);
    let by_collection = "documents_by_collection (tenant=? AND collection=?)";
    check(around::SAMPLE_OF_COLLECTION, &[by_collection, sampled]);
}
