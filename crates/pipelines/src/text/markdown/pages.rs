//! Pages: where a text ends a page that has none of its own.
//!
//! A page that grew long ends where its reader would turn it: at an empty line or before a heading,
//! never within code or a table if either fits. One that finds no such place ends where it must, at
//! the end of a line or else of a word; code and tables that go on get their fence or their header
//! again.
//!
//! Looks at each line once and remembers what is open, so that a long text costs no more than
//! itself: its blocks are seen a page at a time.

use std::ops::Range;

use super::marks;
use crate::text::lines::lines;

/// A page ends at the next good place after so many bytes or lines.
const PAGE_BYTES: usize = 1 << 20;
const PAGE_LINES: usize = 6_000;
/// A page ends at any place before it has more, but for a fence or a header that it repeats.
///
/// A chunk has a line of its own or is as long as it may be, so that a page of this size has fewer
/// chunks than a catalog takes.
const PAGE_BYTES_MAX: usize = PAGE_BYTES / 2 * 3;
const PAGE_LINES_MAX: usize = 8_000;
/// A longer header or fence is not repeated.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// How far before the end of a page that cuts a line the end of a word is looked for.
const WORD_BYTES_MAX: usize = 1 << 10;

/// The pages of a text: one, unless it is long.
pub fn pages(text: String) -> Vec<String> {
    let mut pager = Pager::new(&text);
    let mut after_blank = false;
    for line in lines(&text) {
        pager.line(line.clone(), after_blank);
        after_blank = marks::blank(&text[line]);
    }
    let pages = pager.pages();
    if pages.is_empty() { vec![text] } else { pages }
}

/// What goes on from one line to the next.
enum Open {
    Nothing,
    Code { fence: marks::Fence, first: Range<usize> },
    Table { header: Range<usize> },
}

struct Pager<'a> {
    text: &'a str,
    /// Those that have ended.
    pages: Vec<String>,
    /// Where the page begins, what it repeats before that, and how many lines it has.
    start: usize,
    before: String,
    lines: usize,
    /// The last place where the page might end well, and its lines up to there.
    good: Option<(usize, usize)>,
    open: Open,
    /// The line before.
    last: Range<usize>,
}

impl<'a> Pager<'a> {
    fn new(text: &'a str) -> Pager<'a> {
        Pager {
            text,
            pages: Vec::new(),
            start: 0,
            before: String::new(),
            lines: 0,
            good: None,
            open: Open::Nothing,
            last: 0..0,
        }
    }

    fn line(&mut self, line: Range<usize>, after_blank: bool) {
        let said = &self.text[line.clone()];
        if matches!(self.open, Open::Table { .. }) && !said.contains('|') {
            self.open = Open::Nothing;
        }
        let begins = after_blank && !marks::blank(said) || marks::heading(said).is_some();
        if begins && matches!(self.open, Open::Nothing) {
            if line.start - self.start >= PAGE_BYTES || self.lines >= PAGE_LINES {
                self.end(line.start, 0);
            } else {
                self.good = Some((line.start, self.lines));
            }
        }
        while line.end - self.start > PAGE_BYTES_MAX || self.lines >= PAGE_LINES_MAX {
            self.must_end(line.start);
        }
        self.follow(line);
    }

    /// Ends the page before the line that begins at `at`, or within it if it is the first.
    fn must_end(&mut self, at: usize) {
        match self.good {
            Some((good, lines))
                if good - self.start >= PAGE_BYTES / 2 || lines >= PAGE_LINES / 2 =>
            {
                self.end(good, self.lines - lines);
            }
            _ if at > self.start => {
                let (close, before) = self.frame();
                let is_page = self.end(at, 0);
                if let Some(page) = self.pages.last_mut().filter(|_| is_page) {
                    page.push_str(&close);
                }
                self.before = before;
            }
            _ => {
                self.end(self.word_end(), 0);
            }
        }
    }

    /// Where a line ends that is longer than a page.
    fn word_end(&self) -> usize {
        let most = self.text.floor_char_boundary(self.start + PAGE_BYTES_MAX);
        let least = self.text.floor_char_boundary(most - WORD_BYTES_MAX);
        let space = self.text[least..most].rfind(char::is_whitespace);
        space.filter(|&at| at > 0).map_or(most, |at| least + at)
    }

    /// What ends a page within code, and what begins the next one within code or a table.
    fn frame(&self) -> (String, String) {
        let none = (String::new(), String::new());
        match &self.open {
            Open::Code { fence, first } if first.len() <= FRAME_BYTES_MAX => {
                let signs = char::from(fence.sign).to_string().repeat(fence.signs);
                (format!("{signs}\n"), format!("{}\n", &self.text[first.clone()]))
            }
            Open::Table { header } if header.len() <= FRAME_BYTES_MAX => {
                (String::new(), format!("{}\n", &self.text[header.clone()]))
            }
            _ => none,
        }
    }

    /// Ends the page at a place after which it has had so many lines already. Says whether it was
    /// one: what is empty is none.
    fn end(&mut self, at: usize, lines: usize) -> bool {
        let own = &self.text[self.start..at];
        let is_page = !own.trim().is_empty();
        if is_page {
            let page = std::mem::take(&mut self.before) + own;
            self.pages.push(page);
        }
        (self.start, self.lines, self.good) = (at, lines, None);
        is_page
    }

    /// What is open after a line.
    fn follow(&mut self, line: Range<usize>) {
        let said = &self.text[line.clone()];
        let last = &self.text[self.last.clone()];
        match &self.open {
            Open::Code { fence, .. } if fence.ends(said) => self.open = Open::Nothing,
            Open::Nothing if marks::indent(said) < 4 => {
                if let Some(fence) = marks::fence(said) {
                    self.open = Open::Code { fence, first: line.clone() };
                } else if marks::delimiter(said) && last.contains('|') {
                    self.open = Open::Table { header: self.last.start..line.end };
                }
            }
            _ => {}
        }
        self.lines += 1;
        self.last = line;
    }

    fn pages(mut self) -> Vec<String> {
        if !self.pages.is_empty() {
            self.end(self.text.len(), 0);
        }
        self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{BATCH_MAX, MARKDOWN_BYTES_MAX};
    use crate::text::chunk::{Context, Limits, chunk};

    /// The pages of a text, none of which is larger than it may be.
    #[track_caller]
    fn paged(text: &str) -> Vec<String> {
        let pages = pages(text.to_owned());
        for page in &pages {
            assert!(page.len() <= PAGE_BYTES_MAX + 2 * FRAME_BYTES_MAX, "{} bytes", page.len());
            assert!(page.lines().count() <= PAGE_LINES_MAX + 4, "{}", page.lines().count());
            assert!(!page.trim().is_empty());
        }
        pages
    }

    #[test]
    fn a_short_text_is_one_page_as_it_stands() {
        for text in ["", "\n\n", "a", "# a\n\nb\r\n\r\nc"] {
            assert_eq!(pages(text.to_owned()), [text]);
        }
    }

    /// A text of twenty megabytes was refused when all the work was done.
    #[test]
    fn a_long_text_ends_its_pages_at_empty_lines_and_headings_and_loses_nothing() {
        let paragraph = format!("{}\n\n", "A word and another. ".repeat(40));
        let text = paragraph.repeat(5 * PAGE_BYTES / paragraph.len());
        let pages = paged(&text);
        assert_eq!(pages.concat(), text);
        assert_eq!(pages.len(), 5);
        assert!(pages.iter().all(|page| page.starts_with("A word") && page.ends_with("\n\n")));
        let sections = "# Title\nText without an empty line.\n".repeat(10_001);
        let pages = paged(&sections);
        assert_eq!(pages.concat(), sections);
        assert!(pages.iter().all(|page| page.starts_with("# Title")));
    }

    /// Ten thousand and one sections were more chunks than a page may have.
    #[test]
    fn no_page_has_more_chunks_than_a_catalog_takes() {
        const { assert!(PAGE_BYTES_MAX + 2 * FRAME_BYTES_MAX < MARKDOWN_BYTES_MAX) };
        let wide = format!("| {} |\n|---|\n", "x".repeat(4_000));
        let section = format!("## A section\n\n{}\n\n", "Some words of it. ".repeat(15));
        let texts = [
            section.repeat(10_001),
            "#\n".repeat(100_000),
            "# a\n\n".repeat(100_000),
            "Article 5\n".repeat(100_000),
            "1.2 The\n\n".repeat(100_000),
            wide + &"| a |\n".repeat(20_000),
            "x".repeat(3 * PAGE_BYTES),
        ];
        let context = Context { file_name: "a.md", page: 1, class: None };
        for text in texts {
            for page in paged(&text) {
                let chunks = chunk(&page, &context, &Limits::default()).len();
                assert!(chunks <= BATCH_MAX, "{chunks} of {:?}", &page[..20]);
            }
        }
    }

    #[test]
    fn code_and_tables_are_not_cut_where_they_fit() {
        let prose = "A word and another.\n\n".repeat(PAGE_BYTES / 23);
        let code = format!("```rust\n{}```\n", "let a = 1;\n\n# no heading\n".repeat(2_000));
        let table = format!("| a | b |\n|---|---|\n{}", "| 1 | 2 |\n".repeat(5_000));
        for block in [code, table] {
            let text = format!("{prose}{block}\nAfter it.\n");
            let pages = paged(&text);
            assert_eq!(pages.concat(), text);
            assert!(pages.len() > 1 && pages.iter().any(|page| page.contains(&block)));
        }
    }

    #[test]
    fn code_and_tables_that_are_too_long_have_their_fence_and_header_on_every_page() {
        let code = format!("~~~~rust\n{}~~~~\n", "let a = 1;\n".repeat(20_000));
        let pages = paged(&format!("Before it.\n\n{code}\nAfter it.\n"));
        assert!(pages.len() > 2);
        for page in &pages {
            assert_eq!(page.lines().filter(|line| line.starts_with("~~~~")).count(), 2);
        }
        let lines: usize = pages.iter().map(|page| page.matches("let a = 1;").count()).sum();
        assert_eq!(lines, 20_000);
        let table = format!("| a | b |\n|---|---|\n{}", "| 1 | 2 |\n".repeat(20_000));
        let pages = paged(&table);
        assert!(pages.len() > 2);
        assert!(pages.iter().all(|page| page.starts_with("| a | b |\n|---|---|\n| 1 | 2 |\n")));
        let rows: usize = pages.iter().map(|page| page.matches("| 1 | 2 |").count()).sum();
        assert_eq!(rows, 20_000);
    }

    #[test]
    fn a_line_that_is_longer_than_a_page_is_cut_between_words_or_anywhere() {
        for word in ["ä word and another ", "ä"] {
            let text =
                format!("Before it.\n{}\nAfter it.", word.repeat(4 * PAGE_BYTES / word.len()));
            let pages = paged(&text);
            assert_eq!(pages.concat(), text);
            // The first has the line before, and the second begins with this one.
            let is_whole = pages.iter().skip(2).all(|page| page.starts_with(' '));
            assert!(word == "ä" || is_whole, "{word}");
        }
    }

    #[test]
    fn empty_lines_are_no_page() {
        let text = format!("Before it.\n{}After it.\n", "\n".repeat(50_000));
        let pages = paged(&text);
        assert_eq!(pages.len(), 2, "{pages:?}");
    }
}
