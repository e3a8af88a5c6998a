//! Tables on a page: rows of short cells that stand below each other.
//!
//! A row is what stands at one height, whatever blocks the finder made of it: to finders a column
//! often is a block. Where columns are not plain, because a cell reaches over two of them, nothing
//! is a table and all of it stays text.

use super::{Block, Word, is_item, text};

/// A gap of so many heights of a word ends a cell.
const GAP: f32 = 1.2;
/// Rows further apart than so many heights are not of one table.
const LEADING: f32 = 3.0;
/// Fewer rows may stand below each other by chance.
const ROWS_MIN: usize = 3;
/// A column of more words in most of its cells is one of prose; a table has others.
const CELL_WORDS: usize = 3;

/// Cells in rows, as many in each.
#[derive(Debug)]
pub(super) struct Table(Vec<Vec<String>>);

impl Table {
    /// A pipe table, the first row for its header.
    pub(super) fn markdown(&self) -> String {
        let line = |row: &Vec<String>| {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |", cells.join(" | "))
        };
        let mut lines: Vec<String> = self.0.iter().map(line).collect();
        if let Some(header) = self.0.first() {
            lines.insert(1, format!("|{}", " --- |".repeat(header.len())));
        }
        lines.join("\n")
    }
}

/// Where a word is among the blocks: the block, the line, the word.
type Place = (usize, usize, usize);

struct Placed {
    word: Word,
    place: Place,
}

struct Cell {
    words: Vec<Placed>,
    left: f32,
    right: f32,
}

struct Row {
    cells: Vec<Cell>,
    middle: f32,
    height: f32,
}

/// Takes the words of all tables out of the blocks; says before which block each table stands.
pub(super) fn take(blocks: &mut [Block]) -> Vec<(usize, Table)> {
    let mut tables = Vec::new();
    let mut taken: Vec<Place> = Vec::new();
    let mut run: Vec<Row> = Vec::new();
    let mut end = |run: &mut Vec<Row>| {
        let rows = std::mem::take(run);
        if let Some(columns) = columns(&rows) {
            let words = || rows.iter().flat_map(|row| &row.cells).flat_map(|cell| &cell.words);
            let first = words().map(|word| word.place.0).min().unwrap_or_default();
            taken.extend(words().map(|word| word.place));
            tables.push((first, filled(&rows, &columns)));
        }
    };
    for row in rows(blocks) {
        let follows = run
            .last()
            .is_none_or(|last| row.middle - last.middle <= LEADING * last.height.max(row.height));
        if row.cells.len() < 2 || !follows {
            end(&mut run);
        }
        if row.cells.len() >= 2 {
            run.push(row);
        }
    }
    end(&mut run);
    taken.sort_unstable();
    for (b, block) in blocks.iter_mut().enumerate() {
        for (l, line) in block.lines.iter_mut().enumerate() {
            let mut w = 0;
            line.words.retain(|_| {
                w += 1;
                taken.binary_search(&(b, l, w - 1)).is_err()
            });
        }
    }
    tables
}

/// What stands at one height each, from the top.
fn rows(blocks: &[Block]) -> Vec<Row> {
    let mut words = Vec::new();
    for (b, block) in blocks.iter().enumerate() {
        for (l, line) in block.lines.iter().enumerate() {
            let place = |(w, word): (usize, &Word)| Placed { word: word.clone(), place: (b, l, w) };
            words.extend(line.words.iter().enumerate().map(place));
        }
    }
    let middle = |placed: &Placed| f32::midpoint(placed.word.top, placed.word.bottom);
    words.sort_by(|a, b| middle(a).total_cmp(&middle(b)));
    let mut rows: Vec<Row> = Vec::new();
    let mut row: Vec<Placed> = Vec::new();
    for placed in words {
        let is_same = row.first().is_none_or(|first| {
            middle(&placed) - middle(first) <= first.word.height().max(placed.word.height()) / 2.0
        });
        if !is_same {
            rows.push(cells(std::mem::take(&mut row)));
        }
        row.push(placed);
    }
    if !row.is_empty() {
        rows.push(cells(row));
    }
    rows
}

/// The cells of a row, from the left.
fn cells(mut words: Vec<Placed>) -> Row {
    words.sort_by(|a, b| a.word.left.total_cmp(&b.word.left));
    let height = words.iter().map(|placed| placed.word.height()).fold(0.0, f32::max);
    let first = words.first().map_or(0.0, |first| f32::midpoint(first.word.top, first.word.bottom));
    let mut cells: Vec<Cell> = Vec::new();
    for placed in words {
        let (left, right) = (placed.word.left, placed.word.right);
        match cells.last_mut() {
            Some(cell) if left - cell.right <= GAP * height => {
                cell.right = cell.right.max(right);
                cell.words.push(placed);
            }
            _ => cells.push(Cell { words: vec![placed], left, right }),
        }
    }
    Row { cells, middle: first, height }
}

/// The right ends of the columns, if the rows are a table.
fn columns(rows: &[Row]) -> Option<Vec<f32>> {
    let many = rows.iter().map(|row| row.cells.len()).max()?;
    if rows.len() < ROWS_MIN {
        return None;
    }
    let mut cells: Vec<&Cell> = rows.iter().flat_map(|row| &row.cells).collect();
    cells.sort_by(|a, b| a.left.total_cmp(&b.left));
    let mut columns: Vec<(f32, Vec<usize>)> = Vec::new();
    for cell in &cells {
        match columns.last_mut() {
            Some((right, words)) if cell.left <= *right => {
                *right = right.max(cell.right);
                words.push(cell.words.len());
            }
            _ => columns.push((cell.right, vec![cell.words.len()])),
        }
    }
    // As many columns as cells stand beside each other, and most of their cells are there.
    if columns.len() != many || cells.len() * 2 < rows.len() * many {
        return None;
    }
    let has_short = columns.iter_mut().any(|(_, words)| {
        words.sort_unstable();
        words[words.len() / 2] <= CELL_WORDS
    });
    let columns: Vec<f32> = columns.into_iter().map(|(right, _)| right).collect();
    let is_plain = rows.iter().all(|row| {
        let places: Vec<usize> = row.cells.iter().map(|cell| place(cell, &columns)).collect();
        places.is_sorted_by(|a, b| a < b)
    });
    let is_list = rows.iter().all(|row| {
        let first = row.cells.first();
        first.is_some_and(|cell| is_item(&written(cell)))
    });
    (has_short && is_plain && !is_list).then_some(columns)
}

/// The column of a cell.
fn place(cell: &Cell, columns: &[f32]) -> usize {
    columns.partition_point(|right| *right < cell.right)
}

fn filled(rows: &[Row], columns: &[f32]) -> Table {
    let filled = |row: &Row| {
        let mut line = vec![String::new(); columns.len()];
        for cell in &row.cells {
            if let Some(place) = line.get_mut(place(cell, columns)) {
                *place = written(cell);
            }
        }
        line
    };
    Table(rows.iter().map(filled).collect())
}

fn written(cell: &Cell) -> String {
    let words: Vec<Word> = cell.words.iter().map(|placed| placed.word.clone()).collect();
    text(&words)
}
