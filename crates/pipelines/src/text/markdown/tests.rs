use super::*;

/// The blocks of a text as lines: a word for the kind, then the text.
fn seen(markdown: &str) -> Vec<String> {
    read(markdown).iter().map(|block| shown(markdown, block)).collect()
}

fn shown(markdown: &str, block: &Block) -> String {
    let text = &markdown[block.range.clone()];
    match &block.kind {
        Kind::Heading { level, title } => format!("h{level} {}", &markdown[title.clone()]),
        Kind::Paragraph => format!("text {text}"),
        Kind::Clause { named: true } => format!("article {text}"),
        Kind::Clause { named: false } => format!("clause {text}"),
        Kind::List { items } => format!("list({}) {text}", items.len()),
        Kind::Code { fence: Some(fence) } => {
            let end = if fence.close.is_some() { "" } else { " open" };
            format!("code({}){end} {text}", &markdown[fence.info.clone()])
        }
        Kind::Code { fence: None } => format!("code {text}"),
        Kind::Table { rows, .. } => format!("table({}) {text}", rows.len()),
        Kind::Quote => format!("quote {text}"),
        Kind::Equation => format!("equation {text}"),
        Kind::Rule => "rule".to_owned(),
        Kind::Matter => format!("matter {text}"),
    }
}

#[track_caller]
fn check(markdown: &str, want: &[&str]) {
    assert_eq!(seen(markdown), want, "{markdown:?}");
}

#[test]
fn headings_are_seen_with_signs_and_with_lines_under_them() {
    check("# One\n## Two ##\n###### Six", &["h1 One", "h2 Two", "h6 Six"]);
    check("##Close\n#tag\n#\n", &["h2 Close", "text #tag", "h1 "]);
    check("C#\n# C#\n# F #\n", &["text C#", "h1 C#", "h1 F"]);
    check("Title\n=====\nSub\n---\n", &["h1 Title", "h2 Sub"]);
    check("two\nlines\n===", &["h1 two\nlines"]);
    check("a\nb\nc\n---\nd", &["text a\nb\nc", "rule", "text d"]);
    check("####### seven", &["text ####### seven"]);
    check("text\n# Heading\ntext", &["text text", "h1 Heading", "text text"]);
}

#[test]
fn paragraphs_end_at_empty_lines_and_where_something_else_begins() {
    check("a\nb\n\n\nc", &["text a\nb", "text c"]);
    check("a\r\nb\r\rc", &["text a\r\nb", "text c"]);
    check("a\n- b", &["text a", "list(1) - b"]);
    check("in the year\n1986. What a year", &["text in the year\n1986. What a year"]);
    check("a\n    b", &["text a\n    b"]);
    check(" \t \n\u{a0}\n", &[]);
    check("a\n***\nb\n* * *\n", &["text a", "rule", "text b", "rule"]);
}

#[test]
fn lists_keep_what_is_in_them() {
    check("- a\n- b\n  - c\n* d", &["list(4) - a\n- b\n  - c\n* d"]);
    check("1. a\n\n   more\n\n2. b\n\nafter", &["list(2) 1. a\n\n   more\n\n2. b", "text after"]);
    check("- a\nlazy\n\nnot", &["list(1) - a\nlazy", "text not"]);
    check("• a\n◦ b\n(iv) c\na) d", &["list(4) • a\n◦ b\n(iv) c\na) d"]);
    check("- a\n# H", &["list(1) - a", "h1 H"]);
    check(
        "- a\n  ```\n  - no item\n\n  ```\n- b",
        &["list(2) - a\n  ```\n  - no item\n\n  ```\n- b"],
    );
    check("- ```\n  x\n\nend", &["list(1) - ```\n  x", "text end"]);
    check("-\n-", &["list(2) -\n-"]);
    check("-5 degrees\n*bold*", &["text -5 degrees\n*bold*"]);
}

#[test]
fn code_is_seen_fenced_and_indented_and_never_read() {
    check("```rust\n# no\n\n- no\n```\nx", &["code(rust) ```rust\n# no\n\n- no\n```", "text x"]);
    check("~~~\n```\n~~~~", &["code() ~~~\n```\n~~~~"]);
    check("````\n```\n````", &["code() ````\n```\n````"]);
    check("```\nnever closed\n\n# no\n\n", &["code() open ```\nnever closed\n\n# no"]);
    check("```", &["code() open ```"]);
    check("a\n```\nb\n```", &["text a", "code() ```\nb\n```"]);
    check("``` a`b ```", &["text ``` a`b ```"]);
    check("    x\n\n\ty\n\nz", &["code     x\n\n\ty", "text z"]);
}

#[test]
fn a_table_needs_a_header_and_a_line_under_it() {
    check("|a|b|\n|-|-|\n|1|2|\n|3|\ntext", &["table(2) |a|b|\n|-|-|\n|1|2|\n|3|", "text text"]);
    check("a | b\n:-- | --:\n1 | 2", &["table(1) a | b\n:-- | --:\n1 | 2"]);
    check("before\n|a|\n|---|\n\n|x|", &["text before", "table(0) |a|\n|---|", "text |x|"]);
    check("a | b\nc | d", &["text a | b\nc | d"]);
    check("a | b\n--- | x", &["text a | b\n--- | x"]);
}

#[test]
fn quotes_go_on_while_somebody_speaks() {
    check("> a\n>\n> b\nlazy\n\nc", &["quote > a\n>\n> b\nlazy", "text c"]);
    check("> a\n>\nnot lazy", &["quote > a\n>", "text not lazy"]);
    check(">>> deep\n> - x", &["quote >>> deep\n> - x"]);
}

#[test]
fn equations_end_where_they_are_closed_or_at_an_empty_line() {
    check("$$ x = 1 $$\n$$\ny\n$$\nz", &["equation $$ x = 1 $$", "equation $$\ny\n$$", "text z"]);
    check("$$\nnever\n\n# H", &["equation $$\nnever", "h1 H"]);
    check("\\[\na\n\\]\nb", &["equation \\[\na\n\\]", "text b"]);
    check("\\begin{align*}\na\n\\end{align*}", &["equation \\begin{align*}\na\n\\end{align*}"]);
    check("$$x$$ is a number", &["text $$x$$ is a number"]);
    check("\\[1\\] A reference", &["text \\[1\\] A reference"]);
    check("\\[ E = mc^2 \\] (3)", &["equation \\[ E = mc^2 \\] (3)"]);
}

#[test]
fn clauses_are_blocks_also_without_empty_lines_between() {
    check(
        "1.1 Scope\nof this\n1.2 Terms\n(a) one\n(b) two\n§ 4 Ende\nArticle 5\n",
        &[
            "clause 1.1 Scope\nof this",
            "clause 1.2 Terms",
            "list(2) (a) one\n(b) two",
            "article § 4 Ende",
            "article Article 5",
        ],
    );
    check("1.1 Scope\n---------\n", &["h2 1.1 Scope"]);
}

#[test]
fn what_a_file_says_of_itself_is_no_heading() {
    check("---\ntitle: x\n---\n# H", &["matter ---\ntitle: x\n---", "h1 H"]);
    check("---\ntext\n---", &["rule", "h2 text"]);
    check("---\ntitle: never ends", &["rule", "text title: never ends"]);
}

#[test]
fn a_block_says_what_is_in_it() {
    let check = |markdown: &str, want: &str| {
        let holds = read(markdown).iter().fold(Holds::default(), |all, one| all.and(one.holds));
        let words = [
            (holds.table, "table"),
            (holds.list, "list"),
            (holds.code, "code"),
            (holds.equation, "equation"),
        ];
        let got: Vec<&str> = words.iter().filter(|word| word.0).map(|word| word.1).collect();
        assert_eq!(got.join(" "), want, "{markdown:?}");
    };
    check("text, $5 and $10, a-b", "");
    check("- a\n\n  ```\n  x\n  ```\n", "list code");
    check("> - a\n> |x|y|\n> |-|-|", "table list");
    check("> ```\n> x", "code");
    check("where $x^2$ is", "equation");
    check("- $$a$$", "list equation");
    check("|a|\n|-|", "table");
    check("    code", "code");
    check("# a list of code", "");
}

#[test]
fn every_title_row_and_fence_lies_within_its_block() {
    let text = "# T #\n\nS\n--\n\n|a|\n|-|\n|1|\n\n```x y\nc\n```\n";
    for block in read(text) {
        let inside = |range: &Range<usize>| {
            assert!(block.range.start <= range.start && range.end <= block.range.end, "{block:?}");
        };
        match &block.kind {
            Kind::Heading { title, .. } => inside(title),
            Kind::Table { header, rows } => {
                inside(header);
                rows.iter().for_each(inside);
                assert_eq!(&text[header.clone()], "|a|\n|-|");
            }
            Kind::Code { fence: Some(fence) } => {
                inside(&fence.info);
                inside(fence.close.as_ref().expect("it is closed"));
                assert_eq!(&text[fence.info.clone()], "x y");
            }
            _ => {}
        }
    }
}
