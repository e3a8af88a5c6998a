//! Tables of a page: rows of cells, gathered until it is known whether they are a table at all.

/// A table that is open.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    /// Whether text goes into a cell now.
    pub in_cell: bool,
    /// Whether it only arranges the page: then nothing is gathered, and what is in it stands there.
    pub arranges: bool,
}

impl Table {
    /// A new row.
    pub(super) fn row(&mut self) {
        if self.rows.last().is_none_or(|row| !row.is_empty()) {
            self.rows.push(Vec::new());
        }
    }

    /// What a cell says.
    pub(super) fn cell(&mut self, text: &str) {
        if self.rows.is_empty() {
            self.rows.push(Vec::new());
        }
        if let Some(row) = self.rows.last_mut() {
            row.push(text.to_owned());
        }
    }

    /// All cells as text, one after the other, if there is no table in them.
    pub(super) fn texts(&mut self) -> Vec<String> {
        let cells = std::mem::take(&mut self.rows).into_iter().flatten();
        cells.filter(|text| !text.is_empty()).collect()
    }

    /// The lines of the table, the first row for its header; or the texts of something that is
    /// none, because no row has two cells.
    pub(super) fn lines(mut self) -> Result<Vec<String>, Vec<String>> {
        if self.rows.iter().all(|row| row.len() < 2) {
            return Err(self.texts());
        }
        let rows = self.rows.iter().filter(|row| row.iter().any(|cell| !cell.is_empty()));
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        for row in rows {
            lines.push(line(row));
            if lines.len() == 1 {
                lines.push(format!("|{}", " --- |".repeat(row.len())));
            }
        }
        Ok(lines)
    }
}

fn line(row: &[String]) -> String {
    let mut line = String::from("|");
    for cell in row {
        line.push(' ');
        line.push_str(&cell.replace('|', "\\|"));
        line.push_str(" |");
    }
    line
}
