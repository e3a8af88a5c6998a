//! docs/reference/sql.md: what it shows works.

use windrow_testkit::suite::{Draft as _, chunk, document, item, page};

use crate::ground::Ground;

const PAGE: &str = include_str!("../../../../docs/reference/sql.md");

pub(crate) fn every_example_works(ground: &Ground) {
    let bed = &ground.bed;
    let id = bed.add(document().priority(9));
    bed.split(&bed.take(), vec![page(1)]);
    bed.complete(&bed.take_in("ocr"));
    bed.split(&bed.take_in("chunk"), vec![chunk(0)]);
    bed.add(item().kind("INGEST_DATA"));
    let blocks: Vec<&str> = PAGE.split("```sql\n").skip(1).collect();
    assert!(blocks.len() >= 4, "{}", blocks.len());
    for block in blocks {
        let (sql, _) = block.split_once("```").expect("a block ends");
        let sql = sql.replace(":id", &format!("'{id}'"));
        if let Err(error) = ground.stores.psql(&sql) {
            panic!("{sql}: {error:#}");
        }
    }
    ground.set_clock();
}
