//! Sections: under which headings each block stands, and what that says about its weight.

use std::ops::Range;

use super::classify::{says, words};
use super::strategy::Strategy;
use crate::text::lines::lines;
use crate::text::markdown::{Block, Kind};

/// A title on a path is no longer than this many characters.
const TITLE_MAX: usize = 200;
/// Sections without a heading of their own are deeper than any that has one.
const NAMED_LEVEL: u8 = 7;

/// The headings of a text as a tree, and each block's place in it.
#[derive(Debug)]
pub(super) struct Sections {
    headings: Vec<Heading>,
    /// For each block, the heading above it, and what it begins.
    pub places: Vec<Place>,
}

#[derive(Debug)]
struct Heading {
    level: u8,
    title: Range<usize>,
    above: Option<usize>,
}

/// Where a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    heading: Option<usize>,
    /// Whether a chunk begins here.
    pub breaks: bool,
    /// Whether it is nothing but a title, which must not end a chunk.
    pub is_title: bool,
}

pub(super) fn sections(text: &str, blocks: &[Block], strategy: Strategy) -> Sections {
    let level = |block: &Block| match block.kind {
        Kind::Heading { level, .. } => Some(level),
        _ => None,
    };
    let top = blocks.iter().filter_map(level).min().unwrap_or(1);
    let mut sections = Sections { headings: Vec::new(), places: Vec::with_capacity(blocks.len()) };
    let mut current: Option<usize> = None;
    for block in blocks {
        let mut place = Place { heading: current, breaks: false, is_title: false };
        if let Kind::Heading { level, title } = &block.kind {
            place.breaks = strategy.breaks_at_heading(*level, top);
            place.is_title = true;
            place.heading = sections.add(current, *level, title.clone());
        } else {
            let first = lines(&text[block.range.clone()]).next().unwrap_or_default();
            let line = &text[block.range.start..block.range.start + first.end];
            if let Some(length) = strategy.section_name(&block.kind, line) {
                place.breaks = true;
                place.is_title = line[length..].trim_matches([':', ' ', '*', '_']).is_empty()
                    && block.range.start + first.end == block.range.end;
                let title = block.range.start..block.range.start + length;
                place.heading = sections.add(current, NAMED_LEVEL, title);
            }
        }
        current = place.heading;
        sections.places.push(place);
    }
    sections
}

impl Sections {
    fn add(&mut self, current: Option<usize>, level: u8, title: Range<usize>) -> Option<usize> {
        let mut above = current;
        while let Some(heading) = above.map(|at| &self.headings[at]) {
            if heading.level < level {
                break;
            }
            above = heading.above;
        }
        self.headings.push(Heading { level, title, above });
        Some(self.headings.len() - 1)
    }

    /// The titles above a block, its own included, the highest first.
    pub(super) fn path(&self, text: &str, block: usize) -> Vec<String> {
        let mut path = Vec::new();
        let mut at = self.places[block].heading;
        while let Some(heading) = at.map(|at| &self.headings[at]) {
            let title = shown(&text[heading.title.clone()]);
            if !title.is_empty() {
                path.push(title);
            }
            at = heading.above;
        }
        path.reverse();
        path
    }
}

/// A title without marks, on one line, of bounded length.
fn shown(title: &str) -> String {
    let mut shown = String::new();
    let marked = |c: char| matches!(c, '*' | '_' | '`');
    for word in title.split_whitespace().map(|word| word.trim_matches(marked)) {
        if !word.is_empty() && !shown.is_empty() {
            shown.push(' ');
        }
        shown.push_str(word);
        if shown.len() > TITLE_MAX * 4 {
            break;
        }
    }
    if let Some((end, _)) = shown.char_indices().nth(TITLE_MAX) {
        shown.truncate(end);
    }
    shown
}

/// How much a chunk matters, in hundredths: a half, more if its section has a name that does, and
/// more if it is the first of the document.
pub(super) fn importance(path: &[String], first: bool) -> u8 {
    let titles: Vec<String> = path.iter().map(|title| words(title)).collect();
    let named =
        |known: &[&str]| titles.iter().any(|title| known.iter().any(|phrase| says(title, phrase)));
    let sum = 50
        + 30 * u8::from(named(KEY) || named(SUMMARIES))
        + 20 * u8::from(named(SUMMARIES))
        + 10 * u8::from(first);
    sum.min(100)
}

const SUMMARIES: &[&str] = &["abstract", "summary", "conclusion", "conclusions"];

#[rustfmt::skip]
const KEY: &[&str] = &[
    "introduction", "overview", "results", "findings", "recommendations", "definitions", "scope",
    "requirements", "obligations", "payment", "termination", "liability", "diagnosis",
    "assessment", "treatment", "medications", "objectives", "methods", "methodology", "discussion",
    "decisions", "key", "warning", "warnings", "safety",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::markdown::read;

    #[test]
    fn a_path_names_the_headings_above() {
        let check = |strategy, text: &str, want: &[&str]| {
            let blocks = read(text);
            let sections = sections(text, &blocks, strategy);
            let got: Vec<String> =
                (0..blocks.len()).map(|block| sections.path(text, block).join(" > ")).collect();
            assert_eq!(got, want, "{text:?}");
        };
        check(
            Strategy::SemanticHeader,
            "x\n\n# A\n\na\n\n### C\n\nc\n\n## **B `b`**\n\nb\n\n# D",
            &["", "A", "A", "A > C", "A > C", "A > B b", "A > B b", "D"],
        );
        check(
            Strategy::AcademicStructure,
            "# T\n\nAbstract\n\ntext\n\n1 Introduction\nmore\n\n# U\n\nx",
            &["T", "T > Abstract", "T > Abstract", "T > 1 Introduction", "U", "U"],
        );
        check(Strategy::MedicalSection, "Allergies: none\n\nPlan: rest", &["Allergies", "Plan"]);
        check(
            Strategy::ClausePreserving,
            "# T\n\n#\n\nArticle 5: Price\n\n5.1 One",
            &["T", "", "Article 5: Price", "Article 5: Price"],
        );
        let long = format!("# {}\n", "ä b ".repeat(500));
        let blocks = read(&long);
        let path = sections(&long, &blocks, Strategy::SemanticHeader).path(&long, 0);
        assert_eq!(path[0].chars().count(), TITLE_MAX);
    }

    #[test]
    fn only_what_is_nothing_but_a_title_must_not_end_a_chunk() {
        let check = |strategy, text: &str, want| {
            let place = sections(text, &read(text), strategy).places[0];
            assert_eq!((place.breaks, place.is_title), want, "{text:?}");
        };
        check(Strategy::SemanticHeader, "# A", (true, true));
        check(Strategy::SemanticHeader, "Abstract", (false, false));
        check(Strategy::AcademicStructure, "**Abstract**", (true, true));
        check(Strategy::AcademicStructure, "Abstract\ntext", (true, false));
        check(Strategy::MedicalSection, "Plan:", (true, true));
        check(Strategy::MedicalSection, "Plan: rest", (true, false));
        check(Strategy::ClausePreserving, "Article 5", (true, true));
        let long = format!("Article 5 {}", "Word ".repeat(100));
        check(Strategy::ClausePreserving, &long, (true, false));
        check(Strategy::ClausePreserving, "5.1 Word", (false, false));
    }

    #[test]
    fn what_is_in_a_key_section_a_summary_or_first_matters_more() {
        let check = |path: &[&str], first, want| {
            let path: Vec<String> = path.iter().map(|title| (*title).to_owned()).collect();
            assert_eq!(importance(&path, first), want, "{path:?}");
        };
        check(&[], false, 50);
        check(&[], true, 60);
        check(&["A monkey"], false, 50);
        check(&["1. Introduction"], false, 80);
        check(&["Results", "Details"], true, 90);
        check(&["Executive Summary"], false, 100);
        check(&["Abstract"], true, 100);
    }
}
