use super::*;

fn cut(markdown: &str) -> Vec<Chunk> {
    chunk(markdown, &Context { file_name: "page.md", page: 1, class: None }, &Limits::default())
}

fn cut_as(document_type: DocumentType, markdown: &str, max_tokens: u32) -> Vec<Chunk> {
    let class = Some(Class { document_type, domain: Domain::General });
    let limits = Limits { max_tokens, ..Limits::default() };
    chunk(markdown, &Context { file_name: "", page: 1, class }, &limits)
}

fn texts(chunks: &[Chunk]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk.text.as_str()).collect()
}

/// So many sentences of about fifty characters, each different.
fn prose(name: &str, sentences: usize) -> String {
    let mut text = String::new();
    for number in 0..sentences {
        text.push_str(&format!("The {name} says in sentence {number:04} what it has to say. "));
    }
    text.trim_end().to_owned()
}

#[test]
fn a_short_text_without_headings_is_one_chunk() {
    let chunks = cut("\n\none\n\n- two\n\n|a|b|\n|-|-|\n|1|2|\n");
    assert_eq!(texts(&chunks), ["one\n\n- two\n\n|a|b|\n|-|-|\n|1|2|"]);
    let [only] = chunks.as_slice() else { panic!("one chunk") };
    assert_eq!(only.range, 2..31);
    assert_eq!(only.meta.strategy, Strategy::WholeDocument);
    assert_eq!(only.meta.token_estimate, 8);
    assert_eq!(only.content_hash, <[u8; 32]>::from(Sha256::digest(only.text.as_bytes())));
}

#[test]
fn nothing_is_no_chunk() {
    for nothing in ["", " ", "\n\r\n\t\u{3000}\n"] {
        assert_eq!(cut(nothing), [], "{nothing:?}");
    }
}

#[test]
fn a_heading_begins_a_chunk_and_never_ends_one() {
    let text = format!(
        "# Title\n\n## One\n\n{}\n\n## Two\n\n{}\n\n### Deep\n\n{}",
        prose("first", 12),
        prose("second", 12),
        prose("third", 12)
    );
    let chunks = cut(&text);
    let starts: Vec<&str> = chunks.iter().map(|chunk| &chunk.text[..8]).collect();
    assert_eq!(starts, ["# Title\n", "## Two\n\n", "### Deep"]);
    let paths: Vec<String> = chunks.iter().map(|chunk| chunk.meta.heading_path.join("/")).collect();
    assert_eq!(paths, ["Title/One", "Title/Two", "Title/Two/Deep"]);
    assert!(chunks.iter().all(|chunk| chunk.meta.strategy == Strategy::SemanticHeader));
}

#[test]
fn small_sections_are_not_left_alone() {
    let text = format!("# A\n\nshort\n\n# B\n\nshort\n\n# C\n\n{}", prose("long", 12));
    let chunks = cut(&text);
    assert_eq!(chunks.len(), 1, "{:?}", texts(&chunks));
}

#[test]
fn a_long_section_is_cut_between_sentences_and_repeats_a_tenth() {
    let text = format!("# T\n\n{}", prose("long", 200));
    let chunks = cut(&text);
    assert!(chunks.len() >= 5, "{}", chunks.len());
    for (number, chunk) in chunks.iter().enumerate() {
        assert!(chunk.meta.token_estimate <= 512 + 52, "{}", chunk.meta.token_estimate);
        assert!(chunk.text.ends_with("to say."), "{:?}", chunk.text);
        assert_eq!(chunk.meta.heading_path, ["T"]);
        if number > 0 {
            assert!(chunk.text.starts_with("The long says"), "{:?}", chunk.text);
            assert!((100..=205).contains(&chunk.overlap), "{}", chunk.overlap);
            let all = chunk.range.start - chunk.overlap..chunk.range.end;
            assert_eq!(chunk.text, text[all]);
            assert!(chunks[number - 1].text.ends_with(&chunk.text[..chunk.overlap].trim_end()));
        }
    }
}

#[test]
fn what_is_left_over_joins_the_chunk_before() {
    let text = |last: &str| format!("# T\n\n{}\n\n{last}{}", prose("text", 38), prose("rest", 3));
    let joined = cut(&text(""));
    assert_eq!(joined.len(), 1, "{:?}", texts(&joined));
    assert!(joined[0].meta.token_estimate > 512, "{}", joined[0].meta.token_estimate);
    assert_eq!(cut(&text("# U\n\n")).len(), 2, "another section is no rest");
}

#[test]
fn nothing_is_repeated_of_another_section() {
    let text =
        format!("Methods\n{}\n\nResults\n{}\n\n{}", prose("a", 40), prose("b", 8), prose("c", 60));
    let chunks = cut_as(DocumentType::Paper, &text, 2_048);
    let starts: Vec<&str> = chunks.iter().map(|chunk| &chunk.text[..10]).collect();
    assert_eq!(starts, ["Methods\nTh", "Results\nTh", "Results\nTh"]);
    assert!(chunks[2].text.ends_with(&prose("c", 60)), "{:?}", chunks[2].text);
}

#[test]
fn a_table_is_cut_between_rows_under_its_header() {
    let mut text = String::from("# T\n\nBefore.\n\n| name | value |\n|---|---|\n");
    for row in 0..300 {
        text.push_str(&format!("| row number {row:04} | {} |\n", "x".repeat(20)));
    }
    text.push_str("\nAfter.\n");
    let chunks = cut(&text);
    assert!(chunks.len() >= 3, "{}", chunks.len());
    let mut rows = Vec::new();
    for chunk in &chunks {
        assert!(chunk.meta.contains_table);
        assert!(chunk.text.contains("| name | value |\n|---|---|\n| row"), "{:?}", chunk.text);
        assert_eq!(chunk.text.matches("| name |").count(), 1, "{:?}", chunk.text);
        let own = text[chunk.range.clone()].lines().filter(|line| line.contains("row number"));
        rows.extend(own.map(str::to_owned));
        for line in chunk.text.lines().filter(|line| line.contains("row number")) {
            assert_eq!(line.len(), 42, "{line:?}");
        }
    }
    assert_eq!(rows.len(), 300);
    assert!(chunks[1].overlap > 0, "rows are repeated where there is little but tables");
}

#[test]
fn the_words_before_a_table_stay_with_it() {
    let table = |rows: usize| format!("| a | b |\n|---|---|\n{}", "| 1 | 2 |\n".repeat(rows));
    let text = format!("{}\nShort words.\n\n{}", table(350), table(300));
    let chunks = cut(&text);
    assert_eq!(chunks.len(), 2);
    assert_eq!(chunks[1].meta.strategy, Strategy::TablePreserving);
    assert!(text[chunks[1].range.clone()].starts_with("Short words."), "{:?}", chunks[1].text);
}

#[test]
fn a_row_that_no_chunk_holds_stays_whole_up_to_the_hard_bound() {
    let row = |length: usize| format!("| {} | b |", "word ".repeat(length / 5));
    let table = |row: &str| format!("# T\n\n| a | b |\n|---|---|\n| 1 | 2 |\n{row}\n| 3 | 4 |\n");
    let whole = table(&row(10_000));
    let chunks = cut(&whole);
    let large: Vec<&Chunk> = chunks.iter().filter(|chunk| chunk.text.len() > 8_192).collect();
    assert_eq!(large.len(), 1);
    assert_eq!(large[0].text, format!("| a | b |\n|---|---|\n{}", row(10_000)));
    let too_long = table(&row(40_000));
    for chunk in cut(&too_long) {
        assert!(chunk.meta.token_estimate <= 2_048, "{}", chunk.meta.token_estimate);
    }
}

#[test]
fn code_is_whole_where_it_fits_and_fenced_where_it_does_not() {
    let code = |lines: usize| {
        let body: String = (0..lines).map(|line| format!("    call({line:04});\n")).collect();
        format!("```rust ignore\n{body}```")
    };
    let fits = format!("# T\n\n{}\n\n{}\n\nEnd.", prose("first", 38), code(100));
    let chunks = cut(&fits);
    let holding: Vec<&Chunk> = chunks.iter().filter(|chunk| chunk.meta.contains_code).collect();
    assert_eq!(holding.len(), 1);
    assert!(holding[0].text.contains(&code(100)));
    let large = format!("# T\n\n{}\n\nEnd.", code(1_000));
    let chunks = cut(&large);
    assert!(chunks.len() >= 8, "{}", chunks.len());
    for chunk in &chunks {
        assert_eq!(chunk.text.matches("```").count(), 2, "{:?}", chunk.text);
        assert!(chunk.text.contains("\n    call("), "{:?}", chunk.text);
        let rest = chunk.text.strip_prefix("# T\n\n").unwrap_or(&chunk.text);
        assert!(rest.starts_with("```rust"), "{rest:?}");
    }
    let never_closed = cut(&large.replace("\n```\n\nEnd.", ""));
    assert!(never_closed.iter().all(|chunk| chunk.text.ends_with("\n```")));
}

#[test]
fn a_clause_is_kept_with_what_is_under_it() {
    let mut text = String::from("Article 1 Scope\n\n");
    for number in 1..40 {
        text.push_str(&format!("1.{number} The Supplier shall deliver {}:\n", prose("part", 6)));
        text.push_str(&format!("(a) in time: {}\n(b) in full.\n\n", prose("time", 5)));
    }
    let chunks = cut_as(DocumentType::Contract, &text, 2_048);
    assert!(chunks.len() >= 3, "{}", chunks.len());
    for chunk in &chunks {
        assert_eq!(chunk.meta.strategy, Strategy::ClausePreserving);
        let own = &text[chunk.range.clone()];
        assert!(own.starts_with("1.") || own.starts_with("Article"), "{own:?}");
        assert!(own.ends_with("(b) in full."), "{own:?}");
        assert_eq!(chunk.meta.heading_path, ["Article 1 Scope"]);
    }
}

#[test]
fn sections_of_papers_and_records_are_found_without_headings() {
    let text = format!(
        "Abstract\n\n{}\n\n1 Introduction\n\n{}\n\nReferences\n\n{}",
        prose("abstract", 20),
        prose("introduction", 20),
        prose("list", 70)
    );
    let chunks = cut_as(DocumentType::Paper, &text, 2_048);
    let paths: Vec<&str> = chunks.iter().map(|chunk| chunk.meta.heading_path[0].as_str()).collect();
    assert_eq!(paths, ["Abstract", "1 Introduction", "References", "References"]);
    let weights: Vec<f64> = chunks.iter().map(|chunk| chunk.meta.importance).collect();
    assert_eq!(weights, [1.0, 0.8, 0.5, 0.5]);
    let record = format!("Diagnosis: {}\n\nPlan: {}", prose("one", 60), prose("two", 60));
    let chunks = cut_as(DocumentType::MedicalRecord, &record, 2_048);
    let paths: Vec<&str> = chunks.iter().map(|chunk| chunk.meta.heading_path[0].as_str()).collect();
    assert_eq!(paths, ["Diagnosis", "Plan"]);
}

#[test]
fn images_leave_a_word_and_places_stay_right() {
    let image = format!("data:image/png;base64,{}", "QUJD".repeat(50_000));
    let text = format!("# T\n\nbefore ![a]({image}) after\n\n## U\n\n{}", prose("end", 20));
    let chunks = cut(&text);
    assert!(chunks[0].text.starts_with("# T\n\nbefore ![a](image) after"), "{:?}", chunks[0].text);
    let last = &chunks[chunks.len() - 1];
    assert!(text[last.range.clone()].ends_with("to say."));
    assert_eq!(chunks[0].range.start, 0);
    assert!(chunks.iter().all(|chunk| chunk.meta.token_estimate <= 1_024));
}

#[test]
fn a_chunk_says_what_is_in_it() {
    let text = format!(
        "# A\n\n{p}\n\n- item\n\n# B\n\n{p}\n\n    code\n\n# C\n\n{p}\n\n$$\nx\n$$\n\n# D\n\n{p}\n",
        p = prose("text", 8)
    );
    let flags = |chunk: &Chunk| {
        let meta = &chunk.meta;
        (meta.contains_table, meta.contains_list, meta.contains_code, meta.contains_equation)
    };
    let got: Vec<_> = cut(&text).iter().map(flags).collect();
    let (no, yes) = (false, true);
    assert_eq!(got, [(no, yes, no, no), (no, no, yes, no), (no, no, no, yes), (no, no, no, no)]);
}

#[test]
fn the_first_chunk_of_a_document_is_on_its_first_page() {
    let weight = |page| {
        let chunks = chunk("text", &Context { page, ..Context::default() }, &Limits::default());
        chunks[0].meta.importance
    };
    assert_eq!((weight(1), weight(2)), (0.6, 0.5));
}

#[test]
fn what_is_known_of_a_chunk_is_written_in_plain_words() {
    let json = serde_json::to_value(&cut("# Summary\n\ntext")[0].meta).expect("it can be written");
    let want = serde_json::json!({
        "heading_path": ["Summary"],
        "contains_table": false,
        "contains_list": false,
        "contains_code": false,
        "contains_equation": false,
        "document_type": "other",
        "domain": "general",
        "importance": 1.0,
        "strategy": "semantic_header",
        "token_estimate": 4,
    });
    assert_eq!(json, want);
}
