//! Searching by words.

use windrow_pipelines::catalog::{PageOutcome, Scope, TextQuery};

use crate::bed::{Bed, cases, is_bad, page, scope};

async fn library(bed: &Bed) {
    let pages = [
        "Set the oven to a temperature of 200 degrees.\n\n| dish | minutes |",
        "Let the dough rest. The oven is not needed.",
    ];
    bed.ingest("baking.md", &pages).await;
    bed.ingest(
        "whales.md",
        &["Whales sing. A whale dives deep, and the songs of whales carry far."],
    )
    .await;
    bed.ingest_in(&Scope::new("t", "menus"), "café.md", &["Crème brûlée at the Café."]).await;
}

cases![
    what_has_more_of_the_words_comes_first,
    a_hit_says_where_it_is_and_shows_why,
    every_filter_narrows,
    what_is_written_with_signs_is_found_by_its_parts_and_whole,
    words_that_are_everywhere_are_found_if_there_are_no_others,
    only_live_text_is_found_and_old_stays_until_new_is_in,
    nothing_that_is_typed_is_an_error
];

async fn what_has_more_of_the_words_comes_first(bed: &Bed) {
    library(bed).await;
    let found = bed.found("What temperature does the oven need?").await;
    assert_eq!(found, ["baking.md:1", "baking.md:2"]);
    assert_eq!(bed.found("whale song").await, ["whales.md:1"], "in other forms");
    assert_eq!(bed.found("WHALING").await, ["whales.md:1"]);
    assert_eq!(bed.found("creme brulee").await, ["café.md:1"], "without marks");
    assert_eq!(bed.found("crème").await, ["café.md:1"], "and with them");
    assert!(bed.found("zebra").await.is_empty());
    assert!(bed.found("").await.is_empty());
}

async fn a_hit_says_where_it_is_and_shows_why(bed: &Bed) {
    library(bed).await;
    let hits = bed.catalog.search_text(TextQuery::of("t", "ovens temperatures")).await.unwrap();
    let hit = &hits[0];
    assert!(hit.score > hits[1].score, "{hits:?}");
    assert_eq!((hit.name.as_str(), hit.kind.as_str()), ("baking.md by name", "text"));
    assert_eq!((hit.collection.as_str(), hit.page.number, hit.index), ("c", 1, 0));
    let marked: Vec<&str> =
        hit.snippet.marks.iter().map(|mark| &hit.snippet.text[mark.clone()]).collect();
    assert_eq!(marked, ["oven", "temperature"]);
    let text = bed.catalog.chunk_texts("t", vec![hit.chunk]).await.unwrap();
    assert_eq!(text[0].text, hit.snippet.text);
}

async fn every_filter_narrows(bed: &Bed) {
    library(bed).await;
    let query = || TextQuery::of("t", "oven dish whales cafe dough");
    let all = bed.found_by(query()).await;
    assert_eq!(all.len(), 5, "{all:?}");
    let menus = TextQuery { collection: Some("menus".into()), ..query() };
    assert_eq!(bed.found_by(menus).await, ["café.md:1"]);
    let table = TextQuery { kind: Some("table".into()), ..query() };
    assert_eq!(bed.found_by(table).await, ["baking.md:1"]);
    let second = TextQuery { page: Some(2), ..query() };
    assert_eq!(bed.found_by(second).await, ["baking.md:2"]);
    let hits = bed.catalog.search_text(TextQuery::of("t", "whales")).await.unwrap();
    let whales = TextQuery { document: Some(hits[0].page.document), ..query() };
    assert_eq!(bed.found_by(whales).await, ["whales.md:1"]);
    let nowhere = TextQuery { collection: Some("nowhere".into()), ..query() };
    assert!(bed.found_by(nowhere).await.is_empty());
    let some = TextQuery { limit: 2, ..query() };
    assert_eq!(bed.found_by(some).await, all[..2]);
}

/// PostgreSQL took a number, an address or a path for one word, which no question had.
async fn what_is_written_with_signs_is_found_by_its_parts_and_whole(bed: &Bed) {
    let lines = [
        ("amount.md", "The total is 1234.56 EUR, or -7.5e3."),
        ("part.md", "Order part ABC-123 and X99_b."),
        ("mail.md", "Write to ada.lovelace@example.org today."),
        ("file.md", "See report.pdf or https://host.example.com/a/path?q=1."),
        ("path.md", "It is in /usr/local/bin/windrow."),
        ("version.md", "Needs version 1.2.3-rc4 since 2026-08-02T10:30."),
        ("marks.md", "Vis-à-vis the co-operative's R&D, AT&T <b>bold</b> &amp; C++."),
    ];
    for (source, text) in lines {
        bed.ingest(source, &[text]).await;
    }
    for (question, source) in [
        ("1234.56", "amount.md"),
        ("1234", "amount.md"),
        ("56", "amount.md"),
        ("7.5e3", "amount.md"),
        ("ABC-123", "part.md"),
        ("abc", "part.md"),
        ("123", "part.md"),
        ("x99", "part.md"),
        ("lovelace", "mail.md"),
        ("report.pdf", "file.md"),
        ("report", "file.md"),
        ("pdf", "file.md"),
        ("https", "file.md"),
        ("/usr/local/bin/windrow", "path.md"),
        ("windrow", "path.md"),
        ("usr", "path.md"),
        ("rc4", "version.md"),
        ("2026", "version.md"),
        ("2026-08-02", "version.md"),
        ("vis", "marks.md"),
        ("operative", "marks.md"),
        ("AT&T", "marks.md"),
        ("bold", "marks.md"),
        ("amp", "marks.md"),
        ("C++", "marks.md"),
    ] {
        assert_eq!(bed.found(question).await, [format!("{source}:1")], "{question}");
    }
    let mail = bed.found("ada.lovelace@example.org").await;
    assert_eq!(mail, ["mail.md:1", "file.md:1"], "both have an `example`");
}

async fn words_that_are_everywhere_are_found_if_there_are_no_others(bed: &Bed) {
    bed.ingest("hamlet.md", &["To be, or not to be."]).await;
    bed.ingest("band.md", &["The Who played."]).await;
    assert_eq!(bed.found("to be or not to be").await, ["hamlet.md:1"]);
    assert_eq!(bed.found("the who").await, ["band.md:1"]);
}

async fn only_live_text_is_found_and_old_stays_until_new_is_in(bed: &Bed) {
    let first = bed.built_in(&scope(), "a.md", &["An aardvark.\n\nBoth have a badger."]).await;
    assert!(bed.found("aardvark").await.is_empty(), "it is being built");
    bed.publish(first).await;
    assert_eq!(bed.found("aardvark").await, ["a.md:1"]);
    let second = bed.built_in(&scope(), "a.md", &["A crocodile.", "Both have a badger."]).await;
    assert_eq!(bed.found("aardvark").await, ["a.md:1"]);
    assert_eq!(bed.found("badger").await, ["a.md:1"]);
    assert!(bed.found("crocodile").await.is_empty());
    bed.publish(second).await;
    assert!(bed.found("aardvark").await.is_empty());
    assert_eq!(bed.found("badger").await, ["a.md:2"], "once");
    bed.catalog.remove_generation(first).await.unwrap();
    assert_eq!(bed.found("badger crocodile").await.len(), 2);
    let without = PageOutcome::Without { reason: "blank".into() };
    bed.catalog.put_page(page(second, 1), without).await.unwrap();
    assert!(bed.found("crocodile").await.is_empty());
}

async fn nothing_that_is_typed_is_an_error(bed: &Bed) {
    library(bed).await;
    let hostile = [
        "\"",
        "'",
        "\\",
        "oven\"",
        "'oven",
        "oven'; drop table chunks; --",
        "oven AND",
        "OR oven",
        "NOT oven",
        "NEAR(oven temperature, 3)",
        "text : oven",
        "scope : oven",
        "oven*",
        "^oven",
        "(((oven",
        "oven)",
        "{text} oven",
        "oven & !",
        "oven | | temperature",
        "oven <-> dish",
        "oven:*",
        "!oven",
        "-oven",
        "+oven",
        "oven\0temperature",
        "\u{202e}oven",
        "%",
        "_",
        "$1",
        "?1",
        "oven\n\r\t",
        "\u{feff}oven",
        "ＯＶＥＮ oven",
        "\u{1f980} oven",
        "''''",
        "\"\"\"\"",
    ];
    for text in hostile {
        let found = bed.catalog.search_text(TextQuery::of("t", text)).await;
        let found = found.unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let has_oven = text.contains("oven");
        assert_eq!(found.is_empty(), !has_oven, "{text:?}: {found:?}");
    }
    let long = "oven ' \" ( ".repeat(100_000);
    assert_eq!(bed.found(&long).await.len(), 2);
    assert!(bed.found(&"x".repeat(1_000_000)).await.is_empty());
    let odd = TextQuery { kind: Some("\0".into()), ..TextQuery::of("t", "oven") };
    is_bad(bed.catalog.search_text(odd).await, "NUL");
}
