//! Markdown, as blocks: what stands where in a page, forgivingly.
//!
//! Sees a text, gives its blocks in order, each with its bytes. Blocks do not overlap, and between
//! them there is white space only: whoever takes them all has taken everything. A block that is
//! never ended (a fence, an equation) ends where it must, at the end of the text or the next empty
//! line.
//!
//! Leaves out what is inside a line (emphasis, links), and the inside of quotes and list items
//! beyond what they hold: nobody here renders Markdown, and what is not nested cannot be nested too
//! deep.

mod clause;
mod marks;
mod pages;
mod reader;

use std::ops::Range;

pub use self::pages::pages;
pub use self::reader::read;

/// One block of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its bytes, from the start of its first line to the end of its last, without the line end.
    pub range: Range<usize>,
    /// What it is.
    pub kind: Kind,
    /// What is in it, itself included.
    pub holds: Holds,
}

/// What a block is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `# Title`, or a title with a line under it.
    Heading {
        /// From 1 to 6.
        level: u8,
        /// The title's bytes.
        title: Range<usize>,
    },
    /// Lines of text.
    Paragraph,
    /// A numbered clause: `1.2.3 …`, `§ 4`, `Article 5`.
    Clause {
        /// Whether it has a name of its own (`Article 5`) rather than a number within one (`5.1`).
        named: bool,
    },
    /// A list with everything in it, however deep.
    List {
        /// Where each item begins, at any depth.
        items: Vec<usize>,
    },
    /// Code.
    Code {
        /// What fences it; none if it is indented.
        fence: Option<Fence>,
    },
    /// A table: header, delimiter, rows.
    Table {
        /// The bytes of header and delimiter.
        header: Range<usize>,
        /// The bytes of each row.
        rows: Vec<Range<usize>>,
    },
    /// A block quote.
    Quote,
    /// A display equation.
    Equation,
    /// A line across the page.
    Rule,
    /// What a file says of itself before it begins, between two lines `---`.
    Matter,
}

/// The fence around code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Its sign, `` ` `` or `~`.
    pub sign: char,
    /// How many of them.
    pub signs: usize,
    /// The bytes of the words behind it, such as the language.
    pub info: Range<usize>,
    /// The bytes of the line that closes it, if there is one.
    pub close: Option<Range<usize>>,
}

/// What is in a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// A table.
    pub table: bool,
    /// A list.
    pub list: bool,
    /// Code.
    pub code: bool,
    /// An equation.
    pub equation: bool,
}

impl Holds {
    /// Everything that is in this or in the other.
    pub fn and(self, other: Holds) -> Holds {
        Holds {
            table: self.table || other.table,
            list: self.list || other.list,
            code: self.code || other.code,
            equation: self.equation || other.equation,
        }
    }
}

/// Whether a line of prose would begin something that its writer did not mean, were it Markdown.
///
/// Who writes Markdown from other text asks this to know what to escape. What looks like an item of
/// a list is one, wherever it comes from.
pub(super) fn misleads(line: &str) -> bool {
    marks::heading(line).is_some()
        || marks::underline(line).is_some()
        || marks::rule(line)
        || marks::fence(line).is_some()
        || marks::quote(line)
        || marks::delimiter(line)
}

/// Whether a line of text is an item of a list.
pub(super) fn is_item(line: &str) -> bool {
    !marks::rule(line) && marks::item(line).is_some()
}

#[cfg(test)]
mod tests;
