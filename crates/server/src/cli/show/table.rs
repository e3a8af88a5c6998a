//! Tables: columns as wide as what stands in them, and none that is empty.

use std::io::{self, Write};

use super::{is_coloured, printable};

/// One field of a row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    colour: Option<u8>,
}

impl Cell {
    /// A status, in its colour.
    pub(crate) fn status(word: &str) -> Cell {
        let colour = match word {
            "completed" | "green" | "ok" | "live" | "watching" => Some(32),
            "failed" | "red" | "problem" | "refused" => Some(31),
            "processing" | "building" | "updating" => Some(34),
            "cancelled" | "skipped" | "yellow" | "warn" => Some(33),
            _ => None,
        };
        Cell { text: printable(word), colour }
    }

    /// The same with more words behind it.
    pub(crate) fn with(mut self, more: &str) -> Cell {
        self.text.push_str(&printable(more));
        self
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: printable(&text.into()), colour: None }
    }
}

#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// With these headings; none for a table of names and values.
    pub(crate) fn new(head: &[&'static str]) -> Table {
        Table { head: head.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// A name and its value, unless that is empty.
    pub(crate) fn pair(&mut self, name: &str, value: impl Into<Cell>) {
        let value = value.into();
        if !value.text.is_empty() {
            self.rows.push(vec![name.into(), value]);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.print_in(out, is_coloured())
    }

    /// What would be printed, without colours.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut out = Vec::new();
        // Writing to memory cannot fail.
        let _written = self.print_in(&mut out, false);
        String::from_utf8_lossy(&out).lines().map(str::to_owned).collect()
    }

    fn print_in(&self, out: &mut impl Write, coloured: bool) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let wide = |cell: &Cell| cell.text.chars().count();
        let widths: Vec<usize> = (0..columns)
            .map(|at| {
                let widest = self.rows.iter().filter_map(|row| row.get(at)).map(wide).max();
                let head = self.head.get(at).map_or(0, |head| head.len());
                widest.filter(|widest| *widest > 0).map_or(0, |widest| widest.max(head))
            })
            .collect();
        let used: Vec<usize> = (0..columns).filter(|at| widths[*at] > 0).collect();
        if !self.head.is_empty() {
            let head: Vec<Cell> = self.head.iter().map(|head| (*head).into()).collect();
            line(out, &head, &widths, &used, false)?;
        }
        self.rows.iter().try_for_each(|row| line(out, row, &widths, &used, coloured))
    }
}

fn line(
    out: &mut impl Write,
    row: &[Cell],
    widths: &[usize],
    used: &[usize],
    coloured: bool,
) -> io::Result<()> {
    let (mut text, mut owed) = (String::new(), 0);
    for at in used {
        let cell = row.get(*at).cloned().unwrap_or_default();
        // What would stand at the end of a line as spaces is left out.
        if !cell.text.is_empty() {
            text.extend(std::iter::repeat_n(' ', owed));
            owed = 0;
            match cell.colour.filter(|_| coloured) {
                Some(colour) => text.push_str(&format!("\u{1b}[{colour}m{}\u{1b}[0m", cell.text)),
                None => text.push_str(&cell.text),
            }
        }
        owed += widths[*at] - cell.text.chars().count() + 2;
    }
    writeln!(out, "{}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(table: &Table, coloured: bool) -> String {
        let mut out = Vec::new();
        table.print_in(&mut out, coloured).expect("it is written");
        String::from_utf8(out).expect("a text")
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let mut table = Table::new(&["ID", "STATUS", "KEY", "AGE"]);
        table.row(["a".into(), Cell::status("failed"), "".into(), "3s".into()]);
        table.row(["bcd".into(), Cell::status("pending"), "".into(), "".into()]);
        assert_eq!(printed(&table, false), "ID   STATUS   AGE\na    failed   3s\nbcd  pending\n");
        assert!(printed(&table, true).contains("\u{1b}[31mfailed\u{1b}[0m   3s"));
        assert_eq!(printed(&Table::new(&["ID"]), false), "\n");
    }

    /// What a server says, or a caller's name, must not move the cursor or paint the screen.
    #[test]
    fn a_cell_does_nothing_to_a_terminal() {
        let mut table = Table::new(&[]);
        table.row(["a\u{1b}[2Jb\rc".into(), Cell::status("ok\u{7}").with("\u{9b}31m")]);
        let printed = printed(&table, false);
        assert!(!printed.trim_end_matches('\n').contains(char::is_control), "{printed:?}");
        assert!(printed.contains("a [2Jb c"), "{printed:?}");
    }
}
