//! The reader: one look at each line, a few at those where something may end.

use std::ops::Range;

use super::clause::{self, Label};
use super::marks::{self, Equation};
use super::{Block, Fence, Holds, Kind};
use crate::text::lines::lines;

/// The blocks of a text.
pub fn read(markdown: &str) -> Vec<Block> {
    let lines = lines(markdown).collect();
    let mut reader = Reader { text: markdown, lines, at: 0, blocks: Vec::new() };
    reader.matter();
    while reader.at < reader.lines.len() {
        reader.block();
    }
    reader.blocks
}

struct Reader<'a> {
    text: &'a str,
    lines: Vec<Range<usize>>,
    /// The line that is looked at.
    at: usize,
    blocks: Vec<Block>,
}

/// What a line begins.
enum Start {
    Blank,
    Heading(u8, Range<usize>),
    Rule,
    Fence(marks::Fence),
    Quote,
    Table,
    Item,
    Equation(Equation),
    Clause(Label),
    Indented,
    Text,
}

/// A title over a line is no longer than this; a longer paragraph over one is a paragraph.
const TITLE_LINES_MAX: usize = 2;

/// What a file says of itself ends within so many lines, or is not that.
const MATTER_LINES_MAX: usize = 200;

impl<'a> Reader<'a> {
    fn line(&self, number: usize) -> &'a str {
        self.lines.get(number).map_or("", |range| &self.text[range.clone()])
    }

    /// What a line begins where nothing is open.
    fn start(&self, number: usize) -> Start {
        let line = self.line(number);
        if marks::blank(line) {
            return Start::Blank;
        }
        if marks::indent(line) >= 4 {
            return Start::Indented;
        }
        if let Some((level, title)) = marks::heading(line) {
            return Start::Heading(level, title);
        }
        if let Some(fence) = marks::fence(line) {
            return Start::Fence(fence);
        }
        if let Some(equation) = marks::equation(line) {
            return Start::Equation(equation);
        }
        match () {
            () if marks::rule(line) => Start::Rule,
            () if marks::quote(line) => Start::Quote,
            () if self.table_at(number) => Start::Table,
            () if marks::item(line).is_some() => Start::Item,
            () => clause::label(line).map_or(Start::Text, Start::Clause),
        }
    }

    fn table_at(&self, number: usize) -> bool {
        self.line(number).contains('|') && marks::delimiter(self.line(number + 1))
    }

    fn block(&mut self) {
        match self.start(self.at) {
            Start::Blank => self.at += 1,
            Start::Heading(level, title) => {
                let start = self.lines[self.at].start;
                let title = start + title.start..start + title.end;
                self.take(self.at + 1, Kind::Heading { level, title }, Holds::default());
            }
            Start::Rule => self.take(self.at + 1, Kind::Rule, Holds::default()),
            Start::Fence(fence) => self.fenced(&fence),
            Start::Indented => self.indented(),
            Start::Equation(equation) => self.equation(equation),
            Start::Quote => self.quote(),
            Start::Table => self.table(),
            Start::Item => self.list(),
            Start::Clause(Label { named }) => self.paragraph(Kind::Clause { named }),
            Start::Text => self.paragraph(Kind::Paragraph),
        }
    }

    /// Makes a block of all lines before `end`, and goes on there.
    fn take(&mut self, end: usize, kind: Kind, holds: Holds) {
        let range = self.lines[self.at].start..self.lines[end - 1].end;
        self.blocks.push(Block { range, kind, holds });
        self.at = end;
    }

    fn matter(&mut self) {
        if self.line(0).trim_end() != "---" || !self.line(1).contains(':') {
            return;
        }
        let last = self.lines.len().min(MATTER_LINES_MAX);
        let close = (2..last).find(|&number| matches!(self.line(number).trim_end(), "---" | "..."));
        if let Some(close) = close {
            self.take(close + 1, Kind::Matter, Holds::default());
        }
    }

    fn fenced(&mut self, open: &marks::Fence) {
        let start = self.lines[self.at].start;
        let mut end = self.at + 1;
        let mut close = None;
        while end < self.lines.len() && close.is_none() {
            if open.ends(self.line(end)) {
                close = Some(self.lines[end].clone());
            }
            end += 1;
        }
        if close.is_none() {
            end = self.without_blanks(self.at + 1, end);
        }
        let info = start + open.info.start..start + open.info.end;
        let fence = Fence { sign: char::from(open.sign), signs: open.signs, info, close };
        let holds = Holds { code: true, ..Holds::default() };
        self.take(end, Kind::Code { fence: Some(fence) }, holds);
    }

    fn indented(&mut self) {
        let mut end = self.at + 1;
        let mut next = end;
        while next < self.lines.len() {
            let line = self.line(next);
            next += 1;
            if marks::blank(line) {
                continue;
            }
            if marks::indent(line) < 4 {
                break;
            }
            end = next;
        }
        let holds = Holds { code: true, ..Holds::default() };
        self.take(end, Kind::Code { fence: None }, holds);
    }

    /// The end of lines from `from` to `end` without the empty ones at their end.
    fn without_blanks(&self, from: usize, mut end: usize) -> usize {
        while end > from && marks::blank(self.line(end - 1)) {
            end -= 1;
        }
        end
    }

    /// There is no empty line in an equation, so one that is not closed ends at the next.
    fn equation(&mut self, equation: Equation) {
        let mut end = self.at + 1;
        if let Equation::Until(close) = equation {
            while end < self.lines.len() && !marks::blank(self.line(end)) {
                end += 1;
                if self.line(end - 1).contains(close) {
                    break;
                }
            }
        }
        self.take(end, Kind::Equation, Holds { equation: true, ..Holds::default() });
    }

    fn quote(&mut self) {
        let mut holds = Holds::default();
        let mut end = self.at;
        let mut said = false;
        while end < self.lines.len() {
            let line = self.line(end);
            if marks::quote(line) {
                let inner = marks::unquoted(line);
                said = !inner.is_empty();
                holds = holds.and(in_line(inner));
                holds.table |= marks::delimiter(inner);
            } else if !said || !matches!(self.start(end), Start::Text | Start::Indented) {
                break;
            }
            end += 1;
        }
        self.take(end, Kind::Quote, holds);
    }

    fn table(&mut self) {
        let header = self.lines[self.at].start..self.lines[self.at + 1].end;
        let mut end = self.at + 2;
        let mut rows = Vec::new();
        while end < self.lines.len() && self.line(end).contains('|') {
            rows.push(self.lines[end].clone());
            end += 1;
        }
        let holds = Holds { table: true, ..Holds::default() };
        self.take(end, Kind::Table { header, rows }, holds);
    }

    /// A paragraph or a clause; or the title that it turns out to be.
    fn paragraph(&mut self, kind: Kind) {
        let mut holds = in_line(self.line(self.at));
        let mut end = self.at + 1;
        while end < self.lines.len() {
            let line = self.line(end);
            if let Some(level) = marks::underline(line)
                && end - self.at <= TITLE_LINES_MAX
            {
                let title = self.lines[self.at].start..self.lines[end - 1].end;
                let title = trimmed(self.text, title);
                return self.take(end + 1, Kind::Heading { level, title }, Holds::default());
            }
            match self.start(end) {
                Start::Text | Start::Indented => {}
                Start::Item if !marks::item(line).is_some_and(|item| item.interrupts) => {}
                _ => break,
            }
            holds.equation |= marks::mathematics(line);
            end += 1;
        }
        // A line that looked like an item within a paragraph is none.
        holds.list = false;
        holds.code = false;
        self.take(end, kind, holds);
    }

    fn list(&mut self) {
        let mut items = Vec::new();
        let mut holds = Holds { list: true, ..Holds::default() };
        let mut end = self.at;
        let mut next = self.at;
        while next < self.lines.len() {
            let line = self.line(next);
            if marks::blank(line) {
                next += 1;
                continue;
            }
            let item = marks::item(line).filter(|_| !marks::rule(line));
            if item.is_none() && !self.goes_on(next, next > end) {
                break;
            }
            let inner = item.map_or(line, |item| &line[item.text..]);
            if item.is_some() {
                items.push(self.lines[next].start);
            }
            holds = holds.and(in_line(inner));
            holds.table |= marks::delimiter(inner);
            next = match marks::fence(inner) {
                Some(fence) => self.fence_in_item(&fence, next + 1),
                None => next + 1,
            };
            // Code that is not closed leaves the empty lines before the margin to nobody.
            end = self.without_blanks(end + 1, next);
        }
        self.take(end, Kind::List { items }, holds);
    }

    /// Whether a line that is no item belongs to the list above it.
    fn goes_on(&self, number: usize, after_blank: bool) -> bool {
        if marks::indent(self.line(number)) >= 2 {
            return true;
        }
        !after_blank && matches!(self.start(number), Start::Text)
    }

    /// The line after code within an item: it is closed, or something stands at the margin again.
    fn fence_in_item(&self, fence: &marks::Fence, mut next: usize) -> usize {
        while next < self.lines.len() {
            let line = self.line(next);
            if fence.ends(line) {
                return next + 1;
            }
            if !marks::blank(line) && marks::indent(line) == 0 {
                return next;
            }
            next += 1;
        }
        next
    }
}

/// What a line in a quote, an item or a paragraph holds.
fn in_line(line: &str) -> Holds {
    Holds {
        table: false,
        list: marks::item(line).is_some() && !marks::rule(line),
        code: marks::fence(line).is_some(),
        equation: marks::equation(line).is_some() || marks::mathematics(line),
    }
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let slice = &text[range.clone()];
    let start = range.start + (slice.len() - slice.trim_start().len());
    start..start + slice.trim().len()
}
