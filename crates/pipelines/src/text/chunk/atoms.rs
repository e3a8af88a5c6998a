//! Atoms: the pieces that a text is cut into at most.
//!
//! A block that fits is one atom. A larger one is cut where its kind allows: a list between items,
//! a table between rows, code between lines, prose between sentences. What is needed to understand
//! the rest of such a block without its beginning (a table's header, a fence) is kept in its
//! [`Frame`].

use std::ops::Range;

use super::cut::{sentences, trimmed};
use super::sections::Sections;
use super::strategy::Sizes;
use crate::text::lines::lines;
use crate::text::markdown::{Block, Fence, Kind};

/// A piece of a text.
#[derive(Debug)]
pub(super) struct Atom {
    pub range: Range<usize>,
    /// How many characters of the text come before its start and its end.
    pub from: usize,
    pub to: usize,
    /// Which block it is of.
    pub block: usize,
    pub role: Role,
    /// Whether a chunk begins here.
    pub breaks: bool,
    /// Whether it must not end a chunk: a title, the header of a table.
    pub leads: bool,
    /// Whether a chunk that begins with it needs the beginning of the frame.
    pub resumes: bool,
    /// Whether a chunk that ends with it needs the end of the frame.
    pub stops: bool,
}

/// What may be done with an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Its last sentences may be repeated.
    Prose,
    /// A clause begins with it.
    Clause,
    /// It is a row of a table that was cut.
    Row,
    /// A table as a whole, or the header of one.
    Table,
    Other,
}

/// What stands around a part of a block that was cut.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub before: String,
    pub before_chars: usize,
    pub after: String,
    pub after_chars: usize,
}

impl Frame {
    fn new(before: String, after: String) -> Frame {
        let (before_chars, after_chars) = (before.chars().count(), after.chars().count());
        Frame { before, before_chars, after, after_chars }
    }
}

/// The atoms of all blocks, in order, and for each block its frame, if it has one.
pub(super) fn atoms(
    text: &str,
    blocks: &[Block],
    sections: &Sections,
    sizes: &Sizes,
) -> (Vec<Atom>, Vec<Option<Frame>>) {
    let mut maker = Maker { text, sizes, atoms: Vec::new(), block: 0, frame: None };
    let mut frames = Vec::with_capacity(blocks.len());
    for (number, block) in blocks.iter().enumerate() {
        maker.block = number;
        let first = maker.atoms.len();
        maker.make(block);
        frames.push(maker.frame.take());
        let place = sections.places[number];
        if let Some(atom) = maker.atoms.get_mut(first) {
            atom.breaks = place.breaks;
        }
        if place.is_title {
            maker.atoms[first..].iter_mut().for_each(|atom| atom.leads = true);
        }
    }
    count(text, &mut maker.atoms);
    (maker.atoms, frames)
}

/// Counts the characters before each atom, in one walk over the text.
fn count(text: &str, atoms: &mut [Atom]) {
    let (mut at, mut chars) = (0, 0);
    for atom in atoms {
        chars += text[at..atom.range.start].chars().count();
        atom.from = chars;
        chars += text[atom.range.clone()].chars().count();
        atom.to = chars;
        at = atom.range.end;
    }
}

struct Maker<'a> {
    text: &'a str,
    sizes: &'a Sizes,
    atoms: Vec<Atom>,
    block: usize,
    frame: Option<Frame>,
}

impl Maker<'_> {
    fn make(&mut self, block: &Block) {
        let mut whole = trimmed(self.text, block.range.clone());
        if matches!(block.kind, Kind::Code { fence: None }) {
            // Here the indentation is what says that it is code.
            whole.start = block.range.start;
        }
        let chars = self.chars(&whole);
        if let Kind::Code { fence: Some(fence) } = &block.kind {
            let frame = self.fence(fence);
            let after = if fence.close.is_some() { 0 } else { frame.after_chars };
            self.frame = Some(frame);
            if chars + after > self.sizes.max {
                return self.code(block.range.clone(), fence.close.clone());
            }
            self.add(whole, Role::Other).stops = fence.close.is_none();
            return;
        }
        // What can be cut well is cut where a chunk should end, the rest only where it must.
        let (role, most) = match block.kind {
            Kind::Paragraph | Kind::List { .. } | Kind::Quote => (Role::Prose, self.sizes.target),
            Kind::Clause { .. } => (Role::Clause, self.sizes.max),
            Kind::Table { .. } => (Role::Table, self.sizes.max),
            _ => (Role::Other, self.sizes.max),
        };
        if chars <= most {
            self.add(whole, role);
            return;
        }
        match &block.kind {
            Kind::List { items } => self.list(&block.range, items),
            Kind::Table { header, rows } => self.table(header, rows),
            Kind::Code { .. } | Kind::Equation => self.lines(block.range.clone()),
            Kind::Heading { .. } | Kind::Rule | Kind::Matter => self.prose(whole, Role::Other),
            Kind::Clause { .. } => {
                let first = self.atoms.len();
                self.prose(whole, Role::Prose);
                self.atoms[first].role = Role::Clause;
            }
            Kind::Paragraph | Kind::Quote => self.prose(whole, Role::Prose),
        }
    }

    fn chars(&self, range: &Range<usize>) -> usize {
        self.text[range.clone()].chars().count()
    }

    fn add(&mut self, range: Range<usize>, role: Role) -> &mut Atom {
        let at = self.atoms.len();
        self.atoms.push(Atom {
            range,
            from: 0,
            to: 0,
            block: self.block,
            role,
            breaks: false,
            leads: false,
            resumes: false,
            stops: false,
        });
        &mut self.atoms[at]
    }

    fn prose(&mut self, range: Range<usize>, role: Role) {
        for piece in sentences(self.text, range, self.sizes.target) {
            self.add(piece, role);
        }
    }

    fn lines(&mut self, range: Range<usize>) {
        for line in lines(&self.text[range.clone()]) {
            let line = range.start + line.start..range.start + line.end;
            let content = trimmed(self.text, line.clone());
            if content.is_empty() {
                continue;
            }
            // What a line is indented by belongs to it, unless the line is too long anyway.
            let indented = line.start..content.end;
            if self.chars(&indented) <= self.sizes.target {
                self.add(indented, Role::Other);
            } else {
                self.prose(content, Role::Other);
            }
        }
    }

    fn list(&mut self, range: &Range<usize>, items: &[usize]) {
        let ends = items.iter().skip(1).copied().chain([range.end]);
        for (&start, end) in items.iter().zip(ends) {
            let item = start..trimmed(self.text, start..end).end;
            if item.is_empty() {
                continue;
            }
            if self.chars(&item) <= self.sizes.target {
                self.add(item, Role::Prose);
            } else {
                self.prose(item, Role::Prose);
            }
        }
    }

    /// Rows are whole as long as they can be. The header stands over each part that has room for
    /// it.
    fn table(&mut self, header: &Range<usize>, rows: &[Range<usize>]) {
        let header = trimmed(self.text, header.clone());
        let header_chars = self.chars(&header) + 1;
        let repeated = header_chars <= self.sizes.max / 2;
        if repeated {
            let before = format!("{}\n", &self.text[header.clone()]);
            self.frame = Some(Frame::new(before, String::new()));
            self.add(header, Role::Table).leads = true;
        } else {
            self.prose(header, Role::Other);
        }
        for row in rows {
            let row = trimmed(self.text, row.clone());
            let chars = self.chars(&row);
            if chars > self.sizes.row_max {
                self.prose(row, Role::Other);
                continue;
            }
            let fits = repeated && chars + header_chars <= self.sizes.row_max;
            self.add(row, Role::Row).resumes = fits;
        }
    }

    /// Code keeps its fence in every part.
    fn code(&mut self, range: Range<usize>, close: Option<Range<usize>>) {
        const CLOSE_MAX: usize = 32;
        let frame = self.frame.as_ref();
        let frame = frame.map_or(0, |frame| frame.before_chars + frame.after_chars);
        let limit = self.sizes.target.saturating_sub(frame + CLOSE_MAX).max(1);
        let close = close.filter(|close| close.len() <= CLOSE_MAX);
        let body = range.start..close.as_ref().map_or(range.end, |close| close.start);
        let first = self.atoms.len();
        for line in lines(&self.text[body.clone()]) {
            let line = body.start + line.start..body.start + line.end;
            let content = trimmed(self.text, line.clone());
            if content.is_empty() {
                continue;
            }
            let indented = line.start..content.end;
            if self.chars(&indented) <= limit {
                self.add(indented, Role::Other);
            } else {
                for piece in sentences(self.text, content, limit) {
                    self.add(piece, Role::Other);
                }
            }
        }
        let code = &mut self.atoms[first..];
        code.iter_mut().for_each(|atom| atom.stops = true);
        code.iter_mut().skip(1).for_each(|atom| atom.resumes = true);
        if let Some(open) = code.first_mut() {
            open.leads = true;
        }
        if let Some(last) = code.last_mut()
            && let Some(close) = close
        {
            last.range.end = close.end;
            last.stops = false;
        }
    }

    /// The fence that a part of code gets: the language, without what else stood there.
    fn fence(&self, fence: &Fence) -> Frame {
        const SIGNS_MAX: usize = 16;
        const LANGUAGE_MAX: usize = 32;
        let signs: String = std::iter::repeat_n(fence.sign, fence.signs.min(SIGNS_MAX)).collect();
        let info = &self.text[fence.info.clone()];
        let language = info.split_whitespace().next().unwrap_or_default();
        let language = &language[..language.floor_char_boundary(LANGUAGE_MAX)];
        Frame::new(format!("{signs}{language}\n"), format!("\n{signs}"))
    }
}
