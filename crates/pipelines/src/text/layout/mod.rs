//! Layout: words that lie on a page become Markdown.
//!
//! Whoever found the words, in a PDF or in a picture, also says which of them are lines and blocks,
//! and in which order these are read. Decided here is what of them is a heading (it is larger than
//! most of the page), a table (short cells that stand below each other) or an item of a list, and
//! where a word was broken at the end of a line. Leaves out fonts and colours: size is all that
//! both kinds of finders know.

mod tables;
#[cfg(test)]
mod tests;

use self::tables::Table;
use super::markdown::{is_item, misleads};

/// A word where it stands. Units are the finder's; they grow to the right and down.
#[derive(Clone, PartialEq, Debug)]
pub struct Word {
    pub text: String,
    pub left: f32,
    pub top: f32,
    pub right: f32,
    pub bottom: f32,
}

impl Word {
    fn is_somewhere(&self) -> bool {
        let sides = [self.left, self.top, self.right, self.bottom];
        sides.iter().all(|side| side.is_finite() && side.abs() < 1e7)
            && !self.text.trim().is_empty()
    }

    fn height(&self) -> f32 {
        (self.bottom - self.top).max(0.0)
    }
}

/// Words that are read one after the other.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Line {
    pub words: Vec<Word>,
}

/// Lines that belong together, such as a paragraph.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Block {
    pub lines: Vec<Line>,
}

/// How exactly the finder knows how large its words are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// As large as their type.
    Exact,
    /// As large as their ink, so that `on` is smaller than `by`.
    Ink,
}

impl Sizes {
    /// What a heading is at least, in sizes of the text, from the highest on.
    fn headings(self) -> &'static [f32] {
        match self {
            Sizes::Exact => &[1.5, 1.2, 1.12],
            Sizes::Ink => &[1.4],
        }
    }
}

/// More than that is no heading, however large it is.
const HEADING_MAX: usize = 200;

/// The page as Markdown.
pub fn markdown(mut blocks: Vec<Block>, sizes: Sizes) -> String {
    for line in blocks.iter_mut().flat_map(|block| &mut block.lines) {
        line.words.retain(Word::is_somewhere);
    }
    let text_size = text_size(&blocks);
    let tables = tables::take(&mut blocks);
    let mut parts = Vec::new();
    for (nth, block) in blocks.iter().enumerate() {
        let here = tables.iter().filter(|(at, _)| *at == nth);
        parts.extend(here.map(|(_, table)| Table::markdown(table)));
        written(block, text_size, sizes, &mut parts);
    }
    parts.join("\n\n")
}

/// The size of most letters.
fn text_size(blocks: &[Block]) -> f32 {
    let lines = blocks.iter().flat_map(|block| &block.lines);
    let mut all: Vec<(f32, usize)> = lines
        .map(|line| (size(line), line.words.iter().map(|word| word.text.len()).sum()))
        .collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = all.iter().map(|(_, letters)| letters).sum::<usize>() / 2;
    let mut passed = 0;
    let middle = all.iter().find(|(_, letters)| {
        passed += letters;
        passed > half
    });
    middle.map_or(0.0, |(size, _)| *size)
}

/// How large the words of a line are.
fn size(line: &Line) -> f32 {
    let mut heights: Vec<f32> = line.words.iter().map(Word::height).collect();
    heights.sort_unstable_by(f32::total_cmp);
    heights.get(heights.len() / 2).copied().unwrap_or_default()
}

/// Which heading a line is, from 1.
fn level(line: &Line, text_size: f32, sizes: Sizes) -> Option<usize> {
    let ratio = size(line) / text_size;
    let level = sizes.headings().iter().position(|least| ratio >= *least)?;
    let has_letters = line.words.iter().any(|word| word.text.contains(char::is_alphabetic));
    has_letters.then_some(level + 1)
}

/// Writes a block: its headings, paragraphs and items.
fn written(block: &Block, text_size: f32, sizes: Sizes, parts: &mut Vec<String>) {
    let mut lines = block.lines.iter().filter(|line| !line.words.is_empty()).peekable();
    while let Some(first) = lines.next() {
        let level_here = level(first, text_size, sizes);
        let mut same = vec![first];
        while let Some(next) = lines.next_if(|next| level(next, text_size, sizes) == level_here) {
            same.push(next);
        }
        match level_here {
            Some(level) => match joined(&same).as_slice() {
                [one] if one.len() <= HEADING_MAX => {
                    parts.push(format!("{} {one}", "#".repeat(level)));
                }
                several => parts.push(prose(several)),
            },
            None => parts.push(prose(&joined(&same))),
        }
    }
}

fn prose(lines: &[String]) -> String {
    let escaped = |line: &String| if misleads(line) { format!("\\{line}") } else { line.clone() };
    lines.iter().map(escaped).collect::<Vec<_>>().join("\n")
}

/// The lines as one, or as one for each item of a list.
fn joined(lines: &[&Line]) -> Vec<String> {
    let texts = lines.iter().map(|line| text(&line.words));
    let mut joined: Vec<String> = Vec::new();
    let mut is_list = false;
    for text in texts {
        // A number at the beginning of a line in the middle of prose is a year, or the end of a
        // sentence.
        let begins = match joined.last() {
            None => true,
            Some(_) => is_item(&text) && (is_list || !text.starts_with(char::is_alphanumeric)),
        };
        is_list |= begins && is_item(&text);
        match joined.last_mut() {
            Some(last) if !begins => join(last, &text),
            _ => joined.push(text),
        }
    }
    joined
}

/// Goes on with the next line. A word that was broken becomes whole.
fn join(last: &mut String, next: &str) {
    let is_broken = |word: &str| {
        let before = word.chars().next_back().is_some_and(char::is_alphabetic);
        before && next.starts_with(char::is_lowercase)
    };
    let is_soft = last.ends_with('\u{ad}');
    if is_soft || last.strip_suffix(['-', '\u{2010}']).is_some_and(is_broken) {
        last.pop();
    } else {
        last.push(' ');
    }
    last.push_str(next);
}

/// The words, with what typesetters made one sign of taken apart.
fn text(words: &[Word]) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() {
            text.push(' ');
        }
        for c in word.text.trim().chars() {
            match c {
                '\u{fb00}' => text.push_str("ff"),
                '\u{fb01}' => text.push_str("fi"),
                '\u{fb02}' => text.push_str("fl"),
                '\u{fb03}' => text.push_str("ffi"),
                '\u{fb04}' => text.push_str("ffl"),
                c if c.is_control() || c.is_whitespace() => text.push(' '),
                c => text.push(c),
            }
        }
    }
    text
}
