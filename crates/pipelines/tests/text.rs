//! What holds of every text, however it is written: nothing panics, nothing takes for ever, nothing
//! swells, and no byte of a page is lost between its chunks.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use windrow_pipelines::text::chunk::{
    Chunk, Class, Context, DocumentType, Domain, Limits, chunk, classify, token_estimate,
};
use windrow_pipelines::text::skip::{Phase, Subject, skip};
use windrow_pipelines::text::{csv, html, markdown, plain};

/// What is wrong with the blocks of a text.
fn wrong_blocks(text: &str) -> Option<String> {
    let mut at = 0;
    for block in markdown::read(text) {
        let range = block.range;
        if range.start < at || range.end <= range.start {
            return Some(format!("a block at {range:?} after {at}"));
        }
        if !text[at..range.start].trim().is_empty() {
            return Some(format!("text before {range:?} is in no block"));
        }
        at = range.end;
    }
    (!text[at..].trim().is_empty()).then(|| format!("text after {at} is in no block"))
}

/// What is wrong with the chunks of a text without images.
fn wrong_chunks(text: &str, chunks: &[Chunk], limits: &Limits) -> Option<String> {
    let mut at = 0;
    for (number, chunk) in chunks.iter().enumerate() {
        let range = chunk.range.clone();
        if chunk.index as usize != number {
            return Some(format!("chunk {number} says that it is {}", chunk.index));
        }
        if range.start < at || range.end <= range.start {
            return Some(format!("a chunk at {range:?} after {at}"));
        }
        if !text[at..range.start].trim().is_empty() {
            return Some(format!("text before {range:?} is in no chunk"));
        }
        if !chunk.text.contains(&text[range.start - chunk.overlap..range.end]) {
            return Some(format!("chunk {number} does not say what stands at {range:?}"));
        }
        if let Some(wrong) = wrong_size(&text[range.clone()], chunk, limits) {
            return Some(wrong);
        }
        at = range.end;
    }
    (!text[at..].trim().is_empty()).then(|| format!("text after {at} is in no chunk"))
}

fn wrong_size(own: &str, chunk: &Chunk, limits: &Limits) -> Option<String> {
    let tokens = chunk.meta.token_estimate;
    if tokens != token_estimate(&chunk.text) {
        return Some(format!("{tokens} are not the tokens of {:?}", chunk.text));
    }
    let max = limits.max_tokens.max(64);
    let row = !own.contains('\n') && own.contains('|');
    let bound = if row { limits.row_max_tokens.max(max) } else { max };
    (tokens > bound).then(|| format!("{tokens} tokens are more than {bound}: {own:?}"))
}

/// Everything that may be done to a text, and what was wrong with what came of it.
fn wrong(text: &str, context: &Context<'_>, limits: &Limits) -> Option<String> {
    let chunks = chunk(text, context, limits);
    if chunk(text, context, limits) != chunks {
        return Some("cutting twice gives different chunks".to_owned());
    }
    // Images are replaced, so that what a chunk says is not what stands there.
    if !text.contains(";base64,") {
        if let Some(wrong) = wrong_chunks(text, &chunks, limits) {
            return Some(wrong);
        }
    } else if chunks.iter().any(|chunk| text.get(chunk.range.clone()).is_none()) {
        return Some("a chunk is nowhere in the text".to_owned());
    }
    for chunk in &chunks {
        for &phase in Phase::ALL {
            let text = Some(chunk.text.as_str());
            skip(phase, &Subject { file_name: context.file_name, text, ..Subject::default() });
        }
    }
    let (pages, typed) = (plain::pages(text).concat(), plain::typed_pages(text).concat());
    let read = html::read(text).markdown;
    let unfolded = html::unfold_tables(text).into_owned();
    classify(text, text.get(..20).unwrap_or_default());
    let rows = csv::table(text, None);
    for (name, made) in [
        ("pages", &pages),
        ("typed", &typed),
        ("html", &read),
        ("tables", &unfolded),
        ("rows", &rows),
    ] {
        if made.len() > text.len() * 12 + 100 {
            return Some(format!("{name}: {} bytes became {}", text.len(), made.len()));
        }
        if let Some(wrong) = wrong_blocks(made) {
            return Some(format!("{name}: {wrong}"));
        }
    }
    if let Err(refused) = plain::decode(text.as_bytes())
        && !text.contains(char::is_control)
    {
        return Some(format!("a text is none: {refused}"));
    }
    wrong_blocks(text)
}

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ x >> 31) % sides as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len())]
    }
}

#[rustfmt::skip]
const SCRAPS: &[&str] = &[
    "word ", "Sentence. ", "Another one! ", "ä€😀", "名前。", "\u{a0}", "\u{3000}", "\u{2028}", " ",
    "  ", "    ", "\t", "\n", "\n", "\n", "\n\n", "\n\n", "\r\n", "\r", "\x0c", "\0", "\u{feff}",
    "\x1b[0m", "# ", "## ", "###### ", "#", "===\n", "---\n", "***\n", "```\n", "```rust\n",
    "~~~~", "`", "````````", "- ", "* ", "1. ", "1) ", "(a) ", "• ", "> ", ">>>> ", "|",
    "|a|b|\n|---|---|\n", "| x | y |\n", "|-|\n", "\\|", "$$", "$x^2$", "\\[", "\\]",
    "\\begin{align}\n", "\\end{align}", "1.2 The ", "1.2.3 ", "§ 4 ", "Article 5\n", "REQ-12: ",
    "Abstract\n", "Plan: ", "Chapter 3 ", "data:image/png;base64,QUJD", "data:;base64,",
    "<table>", "<tr>", "<td>", "</td>", "</table>", "<li>", "<ul>", "</ul>", "<pre>", "</pre>",
    "<code>", "</code>", "<script>", "</script>", "<!--", "-->", "<h1>", "</h2>", "<nav>",
    "</nav>", "<p class=\"", "<a href='", "<br>", "<blockquote>", "<title>", ">", "<", "</",
    ",", ";", "\",\"", "\"\"", "&amp;", "&#0;", "&#xD800;", "&#99999999999;", "&nosuch;", "&", "%",
    "aVeryLongWordWithoutAnyPlaceToCutIt",
];

fn scribble(dice: &mut Dice) -> String {
    let mut text = String::new();
    let scraps = 1 + dice.roll(400);
    for _ in 0..scraps {
        let scrap = dice.pick(SCRAPS);
        let times = if dice.roll(40) == 0 { 1 + dice.roll(200) } else { 1 };
        text.push_str(&scrap.repeat(times));
    }
    text
}

#[test]
fn whatever_is_scribbled_is_read_and_cut_without_loss() {
    for seed in 0..600 {
        let mut dice = Dice(seed);
        let text = scribble(&mut dice);
        let document_type = dice.pick(DocumentType::ALL);
        let class = (dice.roll(4) > 0).then_some(Class { document_type, domain: Domain::General });
        let limits = Limits {
            max_tokens: dice.pick(&[0, 64, 65, 100, 300, 2_048]),
            row_max_tokens: dice.pick(&[0, 100, 500, 8_192]),
        };
        let context = Context { file_name: "a.md", page: 1, class };
        let wrong = wrong(&text, &context, &limits);
        assert_eq!(wrong, None, "seed {seed}, {limits:?}, {class:?}: {text:?}");
    }
}

#[test]
fn whatever_bytes_come_are_text_or_refused() {
    for seed in 0..2_000 {
        let mut dice = Dice(seed);
        let length = dice.roll(300);
        let texts = dice.roll(2) == 0;
        let byte = |dice: &mut Dice| {
            if texts { b' ' + dice.roll(120) as u8 } else { dice.roll(256) as u8 }
        };
        let mut bytes: Vec<u8> = (0..length).map(|_| byte(&mut dice)).collect();
        if dice.roll(3) == 0 {
            let mark: &[u8] = dice.pick(&[b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"]);
            bytes.splice(..0, mark.iter().copied());
        }
        if let Ok(decoded) = plain::decode(&bytes) {
            let shown = decoded.text.chars().filter(|&c| c == char::REPLACEMENT_CHARACTER).count();
            assert!(shown <= bytes.len() && decoded.replaced <= bytes.len(), "seed {seed}");
            assert!(decoded.text.len() <= bytes.len() * 3, "seed {seed}");
        }
    }
}

/// What takes for ever, or too much room, if anything is done twice for every time it occurs.
#[rustfmt::skip]
const NASTY: &[&str] = &[
    "a", " ", "\n", "\r", "\0", "# ", "#\n", "# a\n\n", "a\n---\n", "- ", "- a\n", " - ",
    "\t- a\n", "- a\n\n", "```\n", "```\n\n", "- ```\n", "`", "~~~ x\n\n", "> ", ">", "> a\n",
    "|", "|\n", "|a|\n|-|\n", "| a | b |\n", "-|-\n", "$", "$ ", "$$\n", "$$ a\n\n", "\\[\n",
    "\\[\n\n", "\\begin{align}\n", "1.2 The\n", "Article 5\n", "REQ-1 x\n", "1. a\n",
    "A sentence. ", "no end ", "é", "。", "data:", "data:;base64,", "data:;base64,A ", ":", "<",
    "</", "<a", "<a ", "<a>", "<a href=\"", "<a b='>", "<a b='>'", "<a b=\">\"", "<!--", "<!",
    "<script>", "</script", "<script></", "<script/>", "<script/></", "<svg/>", "<ul>", "<ul><li>",
    "<li>", "</li>", "<table>", "<td>", "<table><td>", "<table><tr><td>a<td>b", "<pre>", "<pre>\n",
    "<code>", "<blockquote>a<br>", "<h1>", "<nav>",
    "<title>", "</div>", "<div>", "&", "&a", "&#", "&#1", "&#x", "\x0c", "    a\n", "    a\n\n",
    "(a) ", "<table", "</table", "\u{3000}", "***\n", "---\ntitle: a\n", ",", ",\"", "\"", "\"\",",
    "\"\"\",", ",\"a\n", "a,\n",
];

/// A page so long that anything quadratic in it would take many minutes.
const LONG: usize = 200_000;
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_page_of_nothing_but_one_thing_is_done_in_time() {
    let table = "| a | b |\n|---|---|\n".to_owned();
    let context = Context { file_name: "a.md", page: 1, class: None };
    for (number, nasty) in NASTY.iter().enumerate() {
        let before = match number % 3 {
            0 => "",
            1 => table.as_str(),
            _ => "```\n",
        };
        let text = format!("{before}{}", nasty.repeat(LONG / nasty.len()));
        let begun = Instant::now();
        let chunks = chunk(&text, &context, &Limits::default());
        let whole = wrong_chunks(&text, &chunks, &Limits::default());
        assert_eq!(whole.filter(|_| !text.contains(";base64,")), None, "{nasty:?}");
        let read = html::read(&text).markdown;
        assert!(read.len() <= text.len() * 12, "{nasty:?}: {}", read.len());
        html::unfold_tables(&text);
        plain::pages(&text);
        let rows = csv::table(&text, None);
        assert!(rows.len() <= text.len() * 12, "{nasty:?}: {}", rows.len());
        markdown::pages(text);
        assert!(begun.elapsed() < PATIENCE, "{nasty:?} took {:?}", begun.elapsed());
    }
}

#[test]
fn a_line_a_row_a_fence_and_a_list_of_a_megabyte_are_cut() {
    let context = Context { file_name: "a.md", page: 1, class: None };
    let depth: String = (0..1_400).map(|depth| format!("{}- a\n", " ".repeat(depth))).collect();
    let texts = [
        format!("# T\n\n{}", "x".repeat(1_000_000)),
        format!("# T\n\n| a |\n|---|\n| {} |\n| b |\n", "x y ".repeat(250_000)),
        format!("| {} |\n|---|\n| b |\n", "x y ".repeat(250_000)),
        format!("```{}\ncode\n", "x".repeat(1_000_000)),
        format!("{}\ncode\n", "`".repeat(1_000_000)),
        format!("# {}\n\ntext\n", "title ".repeat(170_000)),
        depth,
    ];
    for text in texts {
        let chunks = chunk(&text, &context, &Limits::default());
        let wrong = wrong_chunks(&text, &chunks, &Limits::default());
        assert_eq!(wrong, None, "{:?}", &text[..40]);
        assert!(chunks.len() > 100, "{:?}: {}", &text[..40], chunks.len());
    }
}

#[test]
fn our_own_documentation_is_cut_without_loss() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("docs")];
    let mut pages = vec![root.join("ARCHITECTURE.md"), root.join("CHANGELOG.md")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of pages") {
            let path = entry.expect("an entry").path();
            match path.extension() {
                None => folders.push(path),
                Some(kind) if kind == "md" => pages.push(path),
                Some(_) => {}
            }
        }
    }
    let mut large = 0;
    for page in &pages {
        let text = fs::read_to_string(page).expect("a page");
        let context = Context { file_name: "page.md", page: 1, class: None };
        let wrong = wrong(&text, &context, &Limits::default());
        assert_eq!(wrong, None, "{}", page.display());
        let chunks = chunk(&text, &context, &Limits::default());
        large += usize::from(chunks.len() > 5);
        let fences =
            |chunk: &Chunk| chunk.text.lines().filter(|line| line.starts_with("```")).count();
        assert!(chunks.iter().all(|chunk| fences(chunk) % 2 == 0), "{}", page.display());
    }
    assert!(large > 10, "only {large} of {} pages are large", pages.len());
}

#[test]
fn the_checks_notice_a_lost_byte_a_large_chunk_and_a_wrong_place() {
    let text = format!("# A\n\n{}\n\n# B\n\n{}", "One. ".repeat(300), "Two. ".repeat(300));
    let limits = Limits::default();
    let good = chunk(&text, &Context::default(), &limits);
    assert_eq!(wrong_chunks(&text, &good, &limits), None);
    let notices = |change: &dyn Fn(&mut Vec<Chunk>), what: &str| {
        let mut bad = good.clone();
        change(&mut bad);
        let found = wrong_chunks(&text, &bad, &limits).expect(what);
        assert!(found.contains(what), "{found}");
    };
    assert_eq!(good.len(), 2);
    notices(&|chunks| drop(chunks.remove(0)), "says that it is");
    notices(&|chunks| drop(chunks.pop()), "is in no chunk");
    notices(&|chunks| chunks[1].range.start += 2, "is in no chunk");
    notices(&|chunks| chunks[0].range.end += 9, "does not say");
    notices(&|chunks| chunks[0].text = chunks[0].text.to_lowercase(), "does not say");
    notices(
        &|chunks| {
            chunks[0].text.push_str(&"x".repeat(9_000));
            chunks[0].meta.token_estimate = token_estimate(&chunks[0].text);
        },
        "are more than",
    );
}
