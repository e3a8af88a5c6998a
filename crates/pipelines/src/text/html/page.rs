//! A page, token by token: what is open, and what has been written.
//!
//! Text gathers in `line` until something breaks the line; then it is written as what it is: a
//! heading, a paragraph, an item, a cell. Whatever was left open is ended by what encloses it.

use super::tables::Table;
use super::tags::Tag;
use super::tokens::{Token, attribute, ends_itself};
use super::{Read, entities};
use crate::text::lines::lines;
use crate::text::markdown;

/// What is open deeper than this is not told apart any more.
const DEPTH_MAX: usize = 128;
/// Lists indent by at most so many columns, and quotes are at most so deep: what is written must
/// not grow with how deep it stands.
const INDENT_MAX: usize = 12;
const QUOTES_MAX: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Page {
    out: String,
    title: Option<String>,
    open: Vec<Open>,
    /// How many were opened too deep to be remembered, and not ended yet.
    too_deep: usize,
    /// How many of what is open hide what is in them.
    hidden: usize,
    /// Text of the line so far, and whether a space is due before more.
    line: String,
    space: bool,
    heading: Option<u8>,
    /// Whether a heading of the first level was written.
    has_first: bool,
    lists: Vec<List>,
    quotes: usize,
    tables: Vec<Table>,
    /// Code as it stands, and its language, while it is open.
    code: Option<(String, String)>,
    /// Whether the last block written was an item, which the next item follows without an empty
    /// line.
    after_item: bool,
}

#[derive(Debug)]
struct Open {
    tag: Tag,
    /// Whether it was opened where nobody looks, and so changes nothing.
    quiet: bool,
}

#[derive(Debug)]
struct List {
    /// The number of the next item, if they are numbered.
    next: Option<u32>,
    /// Whether the next text is the first of an item.
    due: bool,
    /// How wide the mark of the last item was.
    width: usize,
    /// Whether there was an item without a list.
    implied: bool,
}

impl Page {
    pub(super) fn take(&mut self, token: Token<'_>) {
        match token {
            Token::Text(text) => self.text(text),
            Token::Open { tag, attributes } => self.opened(tag, attributes),
            Token::Close { tag } if tag.is_kept() => self.closed(tag),
            Token::Close { tag } => self.break_line_at(tag),
        }
    }

    /// What was read, once the page is over.
    pub(super) fn end(mut self) -> Read {
        while !self.open.is_empty() {
            self.pop();
        }
        self.break_line();
        let title = self.title.map(|title| title.trim().to_owned());
        let title = title.filter(|title| !title.is_empty());
        // Nowhere else would it be found by what it calls itself.
        let markdown = match &title {
            Some(title) if !self.has_first && self.out.is_empty() => format!("# {title}"),
            Some(title) if !self.has_first => format!("# {title}\n\n{}", self.out),
            _ => self.out,
        };
        Read { title, markdown }
    }

    fn text(&mut self, text: &str) {
        if self.hidden > 0 {
            return;
        }
        let mut resolved = String::with_capacity(text.len());
        entities::resolve(text, &mut resolved);
        if let Some((code, _)) = &mut self.code {
            code.push_str(&resolved);
            return;
        }
        if self.in_title() {
            collapse(&resolved, self.title.get_or_insert_default(), &mut self.space);
            return;
        }
        collapse(&resolved, &mut self.line, &mut self.space);
    }

    fn opened(&mut self, tag: Tag, attributes: &str) {
        self.end_implied(tag);
        let quiet = self.hidden > 0;
        if !quiet {
            self.break_line_at(tag);
            self.begin(tag, attributes);
        }
        // What ends itself hides nothing. Of other tags that is no matter: their end is implied.
        if !tag.is_kept() || tag.hides() && ends_itself(attributes) {
            return;
        }
        if self.open.len() >= DEPTH_MAX {
            self.too_deep += 1;
            if !quiet {
                self.finish(tag);
            }
            return;
        }
        self.hidden += usize::from(tag.hides());
        self.open.push(Open { tag, quiet });
    }

    /// Ends what the page forgot to end before this tag.
    fn end_implied(&mut self, tag: Tag) {
        match tag {
            Tag::Li | Tag::Cell => self.close_nearest(tag),
            Tag::Row => {
                self.close_nearest(Tag::Cell);
                self.close_nearest(Tag::Row);
            }
            Tag::Main => self.close_nearest(Tag::Nav),
            Tag::Heading(_) if self.heading.is_some() => self.close_nearest(tag),
            _ if tag.breaks_line() && self.in_title() => self.pop(),
            _ => {}
        }
    }

    fn in_title(&self) -> bool {
        self.open.last().is_some_and(|open| open.tag == Tag::Title)
    }

    fn begin(&mut self, tag: Tag, attributes: &str) {
        match tag {
            Tag::Heading(level) => {
                self.arrange();
                self.heading = Some(level);
            }
            Tag::Ul => self.list(None),
            Tag::Ol => {
                let start = attribute(attributes, "start").and_then(|start| start.parse().ok());
                self.list(Some(start.filter(|&start: &u32| start < 1_000_000).unwrap_or(1)));
            }
            Tag::Li => {
                if self.lists.is_empty() {
                    self.list(None);
                    self.lists[0].implied = true;
                }
                if let Some(list) = self.lists.last_mut() {
                    list.due = true;
                }
            }
            Tag::Table => {
                self.arrange();
                self.tables.push(Table::default());
            }
            Tag::Row => self.gathering(Table::row),
            Tag::Cell => self.gathering(|table| table.in_cell = true),
            Tag::Pre => {
                self.arrange();
                self.end_code();
                self.code = Some((String::new(), language(attributes)));
            }
            Tag::Code => match &mut self.code {
                Some((_, known)) if known.is_empty() => *known = language(attributes),
                Some(_) => {}
                None => self.open_mark(),
            },
            Tag::Quote => self.quotes += 1,
            Tag::Br => self.new_line(),
            Tag::Hr if !self.in_cell() => self.write_lines(&["---".to_owned()]),
            Tag::Image => {
                let alt = attribute(attributes, "alt").unwrap_or_default();
                self.text(alt);
            }
            _ => {}
        }
    }

    /// What the end of something means, however it came.
    fn finish(&mut self, tag: Tag) {
        self.break_line_at(tag);
        match tag {
            Tag::Heading(_) => self.heading = None,
            Tag::Ul | Tag::Ol => drop(self.lists.pop()),
            Tag::Li => {
                if let Some(list) = self.lists.last_mut() {
                    list.due = false;
                }
                if self.lists.last().is_some_and(|list| list.implied) {
                    self.lists.pop();
                }
            }
            Tag::Cell => self.end_cell(),
            Tag::Table => self.end_table(),
            Tag::Pre => self.end_code(),
            Tag::Code if self.code.is_none() => self.line.push('`'),
            Tag::Quote => self.quotes -= 1,
            Tag::Title => self.space = false,
            _ => {}
        }
    }

    fn closed(&mut self, tag: Tag) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
            self.break_line_at(tag);
            return;
        }
        self.close_nearest(tag);
    }

    /// Ends the nearest of its kind and whatever is open in it, if there is one within reach.
    fn close_nearest(&mut self, tag: Tag) {
        let mut reach = self.open.iter().rev();
        let found = reach.position(|open| tag.ends(open.tag) || tag.stops_at(open.tag));
        let Some(found) = found else { return };
        let at = self.open.len() - 1 - found;
        if !tag.ends(self.open[at].tag) {
            return;
        }
        while self.open.len() > at {
            self.pop();
        }
    }

    fn pop(&mut self) {
        let Some(Open { tag, quiet }) = self.open.pop() else { return };
        self.hidden -= usize::from(tag.hides());
        if !quiet {
            self.finish(tag);
        }
    }

    fn list(&mut self, next: Option<u32>) {
        self.lists.push(List { next, due: false, width: 2, implied: false });
    }

    fn gathering(&mut self, change: impl FnOnce(&mut Table)) {
        if let Some(table) = self.tables.last_mut().filter(|table| !table.arranges) {
            change(table);
        }
    }

    fn in_cell(&self) -> bool {
        self.tables.last().is_some_and(|table| table.in_cell)
    }

    fn end_cell(&mut self) {
        if !self.in_cell() {
            return;
        }
        self.space = false;
        let text = std::mem::take(&mut self.line);
        self.gathering(|table| {
            table.cell(text.trim());
            table.in_cell = false;
        });
    }

    fn end_table(&mut self) {
        let Some(table) = self.tables.pop() else { return };
        match table.lines() {
            Ok(lines) => self.write_lines(&lines),
            Err(texts) => self.write_texts(texts),
        }
    }

    /// Something is here that no cell holds, so the table around it only arranges the page.
    fn arrange(&mut self) {
        let Some(table) = self.tables.last_mut().filter(|table| !table.arranges) else { return };
        table.arranges = true;
        table.in_cell = false;
        let texts = table.texts();
        let line = std::mem::take(&mut self.line);
        self.write_texts(texts);
        self.line = line;
        self.break_line();
    }

    fn end_code(&mut self) {
        let Some((code, language)) = self.code.take() else { return };
        let code = code.trim_matches(['\n', '\r']).trim_end();
        if code.is_empty() {
            return;
        }
        let fence = "`".repeat((longest_run(code) + 1).max(3));
        let mut written = vec![format!("{fence}{language}")];
        written.extend(lines(code).map(|range| code[range].to_owned()));
        written.push(fence);
        self.write_lines(&written);
    }

    fn open_mark(&mut self) {
        if std::mem::take(&mut self.space) && !self.line.is_empty() {
            self.line.push(' ');
        }
        self.line.push('`');
    }

    fn new_line(&mut self) {
        let flat = self.in_cell() || self.heading.is_some();
        if let Some((code, _)) = &mut self.code {
            code.push('\n');
        } else if flat {
            self.space = true;
        } else if !self.line.is_empty() {
            self.line.push('\n');
            self.space = false;
        }
    }

    fn break_line_at(&mut self, tag: Tag) {
        if tag.breaks_line() && self.hidden == 0 {
            self.break_line();
        }
    }

    /// Writes the line as what it is, unless it goes on in a cell.
    fn break_line(&mut self) {
        if self.in_cell() {
            self.space = true;
            return;
        }
        self.space = false;
        let line = std::mem::take(&mut self.line);
        let text = line.trim();
        // Code around blocks leaves its marks on lines of their own.
        if matches!(text, "" | "`" | "``") {
            return;
        }
        if let Some(level) = self.heading {
            self.has_first |= level == 1;
            let signs = "#".repeat(usize::from(level));
            return self.write_lines(&[format!("{signs} {text}")]);
        }
        let lines = text.split('\n').map(str::trim_end).filter(|line| !line.is_empty());
        let lines: Vec<String> = lines.map(escaped).collect();
        self.write_lines(&lines);
    }

    fn write_texts(&mut self, texts: Vec<String>) {
        for text in texts {
            self.write_lines(&[escaped(&text)]);
        }
    }

    /// Writes one block, as far in as it stands.
    fn write_lines(&mut self, lines: &[String]) {
        let mark = self.lists.last_mut().and_then(List::mark);
        if !self.out.is_empty() {
            let tight = mark.is_some() && self.after_item;
            self.out.push_str(if tight { "\n" } else { "\n\n" });
        }
        self.after_item = mark.is_some();
        let quote = "> ".repeat(self.quotes.min(QUOTES_MAX));
        let columns: usize = self.lists.iter().take(DEPTH_MAX).map(|list| list.width).sum();
        let width = mark.as_ref().map_or(0, String::len);
        let indent = " ".repeat((columns - width).min(INDENT_MAX));
        let within = " ".repeat(columns.min(INDENT_MAX));
        for (number, line) in lines.iter().enumerate() {
            if number > 0 {
                self.out.push('\n');
            }
            self.out.push_str(&quote);
            match &mark {
                Some(mark) if number == 0 => {
                    self.out.push_str(&indent);
                    self.out.push_str(mark);
                }
                _ if line.is_empty() => {}
                _ => self.out.push_str(&within),
            }
            self.out.push_str(line);
        }
    }
}

impl List {
    /// The mark of an item, if one is due.
    fn mark(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.due) {
            return None;
        }
        let mark = match &mut self.next {
            None => "- ".to_owned(),
            Some(next) => {
                let mark = format!("{next}. ");
                *next += 1;
                mark
            }
        };
        self.width = mark.len();
        Some(mark)
    }
}

/// Appends text with every run of white space made one space, which is due rather than written.
fn collapse(text: &str, line: &mut String, space: &mut bool) {
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            *space = true;
            continue;
        }
        if std::mem::take(space) && !line.is_empty() && !line.ends_with('\n') {
            line.push(' ');
        }
        line.push(c);
    }
}

/// A line of prose that stays one.
fn escaped(line: &str) -> String {
    if markdown::misleads(line) { format!("\\{line}") } else { line.to_owned() }
}

/// The language that a class names, the way highlighters have it: `language-rust`.
fn language(attributes: &str) -> String {
    let classes = attribute(attributes, "class").unwrap_or_default();
    let prefixed = |class: &str| {
        let name = class.strip_prefix("language-").or_else(|| class.strip_prefix("lang-"))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "+-#_.".contains(c);
        (name.len() <= 20 && name.chars().all(plain)).then(|| name.to_owned())
    };
    classes.split_ascii_whitespace().find_map(prefixed).unwrap_or_default()
}

fn longest_run(text: &str) -> usize {
    let (mut longest, mut run) = (0, 0);
    for byte in text.bytes() {
        run = if byte == b'`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}
