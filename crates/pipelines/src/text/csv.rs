//! Separated values, as a table of Markdown: the first row is its header.
//!
//! Decides what separates cells where nobody says it, and where a quoted cell ends. Writes each row
//! on a line of its own, however many lines it had, so that whoever cuts the table cuts it between
//! rows. Empty rows, and empty cells at the end of a row, are left out.
//!
//! Leaves out what cells mean: a date is a text.

use super::plain::clean;

/// What may separate cells. Of those that occur equally often, the first is it.
const SEPARATORS: [char; 4] = [',', ';', '\t', '|'];
/// A quote that is not closed within so many bytes is a sign like any other: no spreadsheet has
/// larger cells.
const QUOTED_BYTES_MAX: usize = 32 << 10;
/// The line under the header has no more columns, which is enough to say that it is a table.
const COLUMNS_MAX: usize = 1_024;

/// The table in a text, whose cells are separated as said or else as its first row looks like.
pub fn table(text: &str, separator: Option<char>) -> String {
    let text = clean(text);
    let (said, text) = declared(&text);
    let separator = separator.or(said).unwrap_or_else(|| guess(text));
    let mut cells = Cells { rest: text, separators: &[separator] };
    let mut out = String::with_capacity(text.len() + text.len() / 2);
    let mut is_header = true;
    while !cells.rest.is_empty() {
        let columns = row(&mut cells, &mut out);
        if columns > 0 && is_header {
            let delimiter = " --- |".repeat(columns.min(COLUMNS_MAX));
            out.push_str(&format!("|{delimiter}\n"));
            is_header = false;
        }
    }
    out
}

/// What a text says of itself to spreadsheets in its first line, `sep=;`, and the rest.
fn declared(text: &str) -> (Option<char>, &str) {
    let line = text.split('\n').next().unwrap_or_default();
    let said = line.strip_prefix("sep=").map(|said| said.trim_matches(['"', ' ']));
    match said.map(|said| said.chars().next().filter(char::is_ascii)) {
        Some(said @ Some(_)) => (said, text.get(line.len() + 1..).unwrap_or_default()),
        _ => (None, text),
    }
}

/// What most of the first row's cells are separated by.
fn guess(text: &str) -> char {
    let mut cells = Cells { rest: text.trim_start(), separators: &SEPARATORS };
    let mut counts = [0_usize; SEPARATORS.len()];
    while let (_, Some(separator)) = cells.next() {
        let found = SEPARATORS.iter().position(|&one| one == separator);
        counts[found.unwrap_or_default()] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or_default();
    let first = counts.iter().position(|&count| count == most);
    SEPARATORS[first.unwrap_or_default()]
}

/// Writes a row; says how many cells it has up to the last that is not empty.
fn row(cells: &mut Cells<'_>, out: &mut String) -> usize {
    let (mut columns, mut empty) = (0, 0);
    loop {
        let (cell, separator) = cells.next();
        if cell.is_blank() {
            empty += 1;
        } else {
            out.push_str(if columns == 0 { "|" } else { "" });
            out.extend(std::iter::repeat_n("  |", empty));
            cell.write(out);
            columns += empty + 1;
            empty = 0;
        }
        if separator.is_none() {
            break;
        }
    }
    if columns > 0 {
        out.push('\n');
    }
    columns
}

/// What a cell says: what was quoted in it, and what was not.
#[derive(Clone, Copy)]
struct Cell<'a> {
    quoted: &'a str,
    bare: &'a str,
}

impl Cell<'_> {
    fn is_blank(&self) -> bool {
        self.quoted.trim().is_empty() && self.bare.trim().is_empty()
    }

    /// Writes it on one line, with nothing in it that would end it.
    fn write(&self, out: &mut String) {
        let mut put = |word: &str| {
            out.push(' ');
            for c in word.chars() {
                if c == '|' {
                    out.push('\\');
                }
                out.push(c);
            }
        };
        if self.quoted.contains("\"\"") {
            self.quoted.replace("\"\"", "\"").split_whitespace().for_each(&mut put);
        } else {
            self.quoted.split_whitespace().for_each(&mut put);
        }
        self.bare.split_whitespace().for_each(&mut put);
        out.push_str(" |");
    }
}

struct Cells<'a> {
    rest: &'a str,
    separators: &'a [char],
}

impl<'a> Cells<'a> {
    /// The next cell, and what separates it from another of its row.
    fn next(&mut self) -> (Cell<'a>, Option<char>) {
        let mut quoted = "";
        if let Some(inner) = self.rest.trim_start_matches(' ').strip_prefix('"')
            && let Some(end) = self.closed(inner)
        {
            quoted = &inner[..end];
            self.rest = &inner[end + 1..];
        }
        let end = self.rest.find(|c| self.ends(c)).unwrap_or(self.rest.len());
        let (bare, after) = self.rest.split_at(end);
        let mut after = after.chars();
        let separator = after.next().filter(|&c| c != '\n');
        self.rest = after.as_str();
        (Cell { quoted, bare }, separator)
    }

    fn ends(&self, c: char) -> bool {
        c == '\n' || self.separators.contains(&c)
    }

    /// Where the quote is that closes a cell, if its end or another cell follows: in `"a" b` the
    /// quotes are the cell's own.
    fn closed(&self, inner: &str) -> Option<usize> {
        let bytes = inner.as_bytes();
        let mut at = 0;
        while let Some(found) = bytes[at..].iter().position(|&byte| byte == b'"') {
            at += found;
            if at > QUOTED_BYTES_MAX {
                return None;
            }
            if bytes.get(at + 1) != Some(&b'"') {
                let after = inner[at + 1..].trim_start_matches(' ');
                let is_end = after.chars().next().is_none_or(|c| self.ends(c));
                return is_end.then_some(at);
            }
            at += 2;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::chunk::{Context, Limits, Strategy, chunk};
    use crate::text::markdown;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(table(text, None), want, "{text:?}");
    }

    #[test]
    fn rows_of_cells_are_a_table() {
        check("", "");
        check("a,b\n1,2\r\n3,4", "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |\n");
        check("a\n1\n", "| a |\n| --- |\n| 1 |\n");
        check("\n,,\na,,c,\n,2\n\n", "| a |  | c |\n| --- | --- | --- |\n|  | 2 |\n");
        check("a,b\n1,2,3,4", "| a | b |\n| --- | --- |\n| 1 | 2 | 3 | 4 |\n");
    }

    #[test]
    fn a_quoted_cell_holds_commas_lines_pipes_and_quotes() {
        check(
            "name,says\n\"Bee, A.\",\"one\ntwo | \"\"three\"\"\"\nx, \"y,z\" \n",
            "| name | says |\n| --- | --- |\n| Bee, A. | one two \\| \"three\" |\n| x | y,z |\n",
        );
        check("a\n\"\"\n\"b\"", "| a |\n| --- |\n| b |\n");
    }

    #[test]
    fn a_quote_that_closes_nothing_is_a_sign() {
        check(
            "a,b\n\"never,closed\n1,2",
            "| a | b |\n| --- | --- |\n| \"never | closed |\n| 1 | 2 |\n",
        );
        check("5\" pipe,\"so\" called", "| 5\" pipe | \"so\" called |\n| --- | --- |\n");
        let long = format!("a,b\n\"{}\n1,\"2\"\n", "x\n".repeat(QUOTED_BYTES_MAX));
        assert!(table(&long, None).ends_with("| x |\n| 1 | 2 |\n"));
    }

    #[test]
    fn what_separates_cells_is_said_or_seen() {
        check("a;b,c;d", "| a | b,c | d |\n| --- | --- | --- |\n");
        check("a\tb", "| a | b |\n| --- | --- |\n");
        check("\"a,b,c\";d", "| a,b,c | d |\n| --- | --- |\n");
        check("sep=;\na,b;c", "| a,b | c |\n| --- | --- |\n");
        assert_eq!(table("a,b\tc", Some('\t')), "| a,b | c |\n| --- | --- |\n");
    }

    /// Rows were cut like lines of prose, and the header stood over the first chunk only.
    #[test]
    fn every_chunk_has_the_header_and_whole_rows() {
        let row = |n: u32| format!("{n},\"Hive {n}, by the | river\",\"fine\nas ever\"\n");
        let text: String = (0..2_000).map(row).collect();
        let made = table(&format!("number,hive,state\n{text}"), None);
        let blocks = markdown::read(&made);
        assert!(matches!(&blocks[..], [one] if matches!(one.kind, markdown::Kind::Table { .. })));
        let context = Context { file_name: "hives.csv", page: 1, class: None };
        let chunks = chunk(&made, &context, &Limits::default());
        assert!(chunks.len() > 10);
        for chunk in &chunks {
            assert_eq!(chunk.meta.strategy, Strategy::TablePreserving);
            let mut lines = chunk.text.lines();
            assert_eq!(lines.next(), Some("| number | hive | state |"));
            assert_eq!(lines.next(), Some("| --- | --- | --- |"));
            let whole = |line: &str| line.starts_with("| ") && line.ends_with(" fine as ever |");
            assert!(lines.all(whole), "{}", chunk.text);
        }
    }

    #[test]
    fn a_table_of_very_many_columns_grows_little() {
        let wide = format!("{}a\n{}b\n", ",".repeat(100_000), "x,".repeat(100_000));
        let made = table(&wide, None);
        assert!(made.len() < 4 * wide.len(), "{} from {}", made.len(), wide.len());
        assert_eq!(made.lines().count(), 3);
    }
}
