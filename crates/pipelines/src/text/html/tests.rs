use super::*;

#[track_caller]
fn check(html: &str, want: &str) {
    assert_eq!(read(html).markdown, want, "{html:?}");
}

#[test]
fn headings_and_paragraphs_stand_alone() {
    check("<h1>One</h1><p>a\n  b</p>c<h6>Six</h6>", "# One\n\na b\n\nc\n\n###### Six");
    check("<div>a<div>b</div>c</div>", "a\n\nb\n\nc");
    check("a<br>b<br/><br>c", "a\nb\nc");
    check("<h2>a<br>b</h2>x<hr>y", "## a b\n\nx\n\n---\n\ny");
    check("a <b>bold</b><i>er</i> <a href='x'>link</a>.", "a bolder link.");
    check("  \n <p> </p> ", "");
}

#[test]
fn the_title_is_kept_apart() {
    let page = read("<html><head><title> A &amp;\n B </title></head><body><h1>C</h1>text");
    assert_eq!(page, Read { title: Some("A & B".into()), markdown: "# C\n\ntext".into() });
    assert_eq!(read("<title></title>x").title, None);
    let never_ended = read("<title>T<body><h1>C</h1><p>text");
    assert_eq!(never_ended, Read { title: Some("T".into()), markdown: "# C\n\ntext".into() });
}

/// A page that says only in its title what it is about was not found by that.
#[test]
fn the_title_is_the_first_heading_where_there_is_none() {
    check("<title>A &amp; B</title><h2>C</h2>text", "# A & B\n\n## C\n\ntext");
    check("<title>A</title><nav><h1>Menu</h1></nav><h1></h1>text", "# A\n\ntext");
    check("<p>text<title>A</title>", "# A\n\ntext");
    check("<title>A</title>", "# A");
    check("<title> </title>text", "text");
}

#[test]
fn lists_are_nested_and_numbered() {
    check("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>e", "- a\n- b\n  - c\n- d\n\ne");
    check("<ol start=9><li>a</li><li><p>b</p><p>c</p></li></ol>", "9. a\n10. b\n\n    c");
    check("<ol><li>a<ul><li>b</ul></ol>", "1. a\n   - b");
    check("<li>lost</li>text", "- lost\n\ntext");
    check("<ol start=4000000000><li>a", "1. a");
}

#[test]
fn a_table_is_one_unless_it_arranges_the_page() {
    check(
        "<table><caption>C</caption><tr><th>a<th>b|c<tr><td>1<td><p>2</p><p>3</p></table>x",
        "C\n\n| a | b\\|c |\n| --- | --- |\n| 1 | 2 3 |\n\nx",
    );
    check("<table><tr><td>one</td></tr><tr><td>two</table>", "one\n\ntwo");
    check("<table><tr><td>menu<td><h1>T</h1><p>text</p></table>", "menu\n\n# T\n\ntext");
    check(
        "<table><tr><td>a<table><tr><td>1<td>2</table>b</table>c",
        "a\n\n| 1 | 2 |\n| --- | --- |\n\nb\n\nc",
    );
    check("<td>no table</td>", "no table");
    check("<table><tr><td>a<td>b", "| a | b |\n| --- | --- |");
    check("<table><tr><td>a</div></ul></p><td>b</table>", "| a | b |\n| --- | --- |");
}

#[test]
fn code_stands_as_it_was_typed() {
    check(
        "<pre><code class='hl language-rust'>fn a() {\n    b &lt; c\n}\n</code></pre>",
        "```rust\nfn a() {\n    b < c\n}\n```",
    );
    check("<pre>a ``` b</pre>", "````\na ``` b\n````");
    check("use <code>x</code> and <kbd>y</kbd>.", "use `x` and `y`.");
    check("<pre>a<br>b<pre>c</pre></pre>", "```\na\nb\n```\n\n```\nc\n```");
    check("<code><p>a</p></code>", "a");
    check("<ul><li>a<pre>b\n\nc</pre></ul>", "- a\n\n  ```\n  b\n\n  c\n  ```");
    check("<pre class='language-a`b'>x</pre>", "```\nx\n```");
}

#[test]
fn quotes_are_quoted() {
    check("<blockquote>a<br>b<p>c</blockquote>d", "> a\n> b\n\n> c\n\nd");
}

#[test]
fn what_nobody_reads_is_dropped() {
    check("a<script>var b = '<p>';</script><style>c</style>d", "ad");
    check("<nav><ul><li>menu</ul></nav>text<nav>more", "text");
    check("<div><nav>never ended</div>text", "text");
    check("<nav>never ended<main>text", "text");
    check("a<button>b<span>c</span></button><svg><title>t</title></svg>d", "ad");
    check("<select><option>a<option>b</select>x<!-- c -->", "x");
    check("<img src=x alt='a &amp; b'><img src=y>", "a & b");
}

/// What ended itself hid the rest of the page.
#[test]
fn what_ends_itself_hides_nothing() {
    check("a<svg class='i'/>b<svg/>c<p>d", "abc\n\nd");
    check("<nav/>text", "text");
    check("<svg><path d='M0'/>drawn</svg>text<svg><g/>drawn", "text");
    check("<iframe src=http://a/>hidden</iframe>text", "text");
    check("<script src=\"a.js\"/><p>text", "text");
    let xhtml = "<?xml version='1.0'?><html><head><script src='a'/><style/></head><body>";
    check(&format!("{xhtml}text<script>b</script></body></html>"), "text");
}

/// A NUL in code made a page that no database takes.
#[test]
fn what_is_no_character_is_dropped_before_anything_is_read() {
    check("<pre>a\0b\x07</pre>", "```\nab\n```");
    check("<p\0>a\0b <b\0>c", "ab c");
    check("<pre>a&#0;b</pre>", "```\na\u{fffd}b\n```");
    check("<pre>a\r\nb</pre>", "```\na\nb\n```");
}

#[test]
fn text_that_looks_like_markdown_stays_text() {
    check(
        "<p># no heading<p>---<p>> no quote<p>```<p>===",
        "\\# no heading\n\n\\---\n\n\\> no quote\n\n\\```\n\n\\===",
    );
    check("a|b<br>--|--", "a|b\n\\--|--");
    let read = markdown::read(&read("<p>```</p><p>one<p># two").markdown);
    assert!(read.iter().all(|block| block.kind == Kind::Paragraph), "{read:?}");
}

#[test]
fn bad_nesting_is_forgiven() {
    check("<p><b>a<p>b</b></i></ul></table>c", "a\n\nbc");
    check("<h1>a<h2>b</h1>c", "# a\n\n## b\n\nc");
    check("</li></td></nav></pre>a", "a");
    check(
        &format!("{}deep{}after", "<div><ul>".repeat(5_000), "</ul></div>".repeat(5_000)),
        "            deep\n\nafter",
    );
}

#[test]
fn how_deep_something_stands_does_not_swell_what_is_written() {
    let html = format!("{}{}", "<ul><li><blockquote>".repeat(300), "a<br>".repeat(10_000));
    let markdown = read(&html).markdown;
    assert!(markdown.len() < html.len() * 5, "{} from {}", markdown.len(), html.len());
}

#[test]
fn tables_in_markdown_become_markdown() {
    let check = |text: &str, want: &str| assert_eq!(unfold_tables(text), want, "{text:?}");
    check("no < table", "no < table");
    check(
        "a\n<TABLE border=1><tr><td>x</td><td>y</td></tr></Table>\nb",
        "a\n\n\n| x | y |\n| --- | --- |\n\n\nb",
    );
    check("```\n<table><tr><td>x</table>\n```\n", "```\n<table><tr><td>x</table>\n```\n");
    check("<table><tr><td>never ended", "<table><tr><td>never ended");
}
