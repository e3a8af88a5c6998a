//! Pages of words, and the Markdown of each.

use super::*;

/// A line of words at a place, ten units high unless told, with letters half as wide.
fn line(text: &str, left: f32, top: f32, size: f32) -> Line {
    let mut at = left;
    let word = |word: &str| {
        let (left, right) = (at, at + word.chars().count() as f32 * size / 2.0);
        at = right + size / 3.0;
        Word { text: word.to_owned(), left, top, right, bottom: top + size }
    };
    Line { words: text.split(' ').map(word).collect() }
}

/// A block of lines, the first at a height.
fn block(lines: &[&str], left: f32, top: f32, size: f32) -> Block {
    let one = |(nth, text): (usize, &&str)| line(text, left, top + nth as f32 * size * 1.4, size);
    Block { lines: lines.iter().enumerate().map(one).collect() }
}

#[track_caller]
fn check(blocks: Vec<Block>, expected: &str) {
    assert_eq!(markdown(blocks, Sizes::Exact), expected);
}

const PROSE: &[&str] = &["Bees that carry pollen in have a", "queen that lays, and need room."];
const PROSE_JOINED: &str = "Bees that carry pollen in have a queen that lays, and need room.";

#[test]
fn larger_words_are_headings_by_how_much_larger_they_are() {
    for (size, mark) in [(20.0, "# "), (14.0, "## "), (11.5, "### "), (11.0, ""), (8.0, "")] {
        let blocks = vec![block(&["In Spring"], 0.0, 0.0, size), block(PROSE, 0.0, 40.0, 10.0)];
        check(blocks, &format!("{mark}In Spring\n\n{PROSE_JOINED}"));
    }
    // Of two lines, one heading; a number is none; and one in the block of its text is one too.
    let long = block(&["In Spring", "and Summer"], 0.0, 0.0, 20.0);
    check(
        vec![long, block(PROSE, 0.0, 90.0, 10.0)],
        &format!("# In Spring and Summer\n\n{PROSE_JOINED}"),
    );
    let number = block(&["17"], 0.0, 0.0, 20.0);
    check(vec![number, block(PROSE, 0.0, 90.0, 10.0)], &format!("17\n\n{PROSE_JOINED}"));
    let mut both = block(PROSE, 0.0, 40.0, 10.0);
    both.lines.insert(0, line("In Spring", 0.0, 0.0, 14.0));
    check(vec![both], &format!("## In Spring\n\n{PROSE_JOINED}"));
}

#[test]
fn ink_must_be_much_larger_to_be_a_heading() {
    for (size, mark) in [(20.0, "# "), (13.0, "")] {
        let blocks = vec![block(&["In Spring"], 0.0, 0.0, size), block(PROSE, 0.0, 40.0, 10.0)];
        let expected = format!("{mark}In Spring\n\n{PROSE_JOINED}");
        assert_eq!(markdown(blocks, Sizes::Ink), expected);
    }
}

#[test]
fn a_page_of_one_size_has_no_headings() {
    check(vec![block(PROSE, 0.0, 0.0, 40.0)], PROSE_JOINED);
    check(Vec::new(), "");
    check(vec![Block::default(), Block { lines: vec![Line::default()] }], "");
}

#[test]
fn what_stands_below_each_other_is_a_table_whatever_blocks_it_came_in() {
    let rows = [["Month", "East kg", "West kg"], ["May", "4", "6"], ["June", "11", "9|10"]];
    let expected = "| Month | East kg | West kg |\n| --- | --- | --- |\n\
                    | May | 4 | 6 |\n| June | 11 | 9\\|10 |";
    let column = |nth: usize| {
        let cells: Vec<&str> = rows.iter().map(|row| row[nth]).collect();
        block(&cells, nth as f32 * 100.0, 100.0, 10.0)
    };
    let before = || block(PROSE, 0.0, 0.0, 10.0);
    let after = || block(&["It was a good year."], 0.0, 200.0, 10.0);
    let expected = format!("{PROSE_JOINED}\n\n{expected}\n\nIt was a good year.");
    check(vec![before(), column(0), column(1), column(2), after()], &expected);
    // The same in rows.
    let row = |(nth, cells): (usize, &[&str; 3])| {
        let top = 100.0 + nth as f32 * 14.0;
        let words =
            (0..3).flat_map(|column| line(cells[column], column as f32 * 100.0, top, 10.0).words);
        Line { words: words.collect() }
    };
    let table = Block { lines: rows.iter().enumerate().map(row).collect() };
    check(vec![before(), table, after()], &expected);
}

#[test]
fn a_cell_that_is_missing_leaves_its_place_empty() {
    let columns = vec![
        block(&["Name", "Ann", "Ben", "Cem"], 0.0, 0.0, 10.0),
        block(&["Age", "7"], 100.0, 0.0, 10.0),
        block(&["Town", "Ulm", "Bonn", "Trier"], 200.0, 0.0, 10.0),
    ];
    let expected = "| Name | Age | Town |\n| --- | --- | --- |\n\
                    | Ann | 7 | Ulm |\n| Ben |  | Bonn |\n| Cem |  | Trier |";
    check(columns, expected);
}

#[test]
fn columns_of_prose_are_read_one_after_the_other() {
    let left = [
        "the first column of the page goes",
        "on for some lines of many words",
        "and ends here with some more",
    ];
    let right = [
        "and the second one begins at the",
        "top again with lines of its own",
        "until the page is full of words",
    ];
    let blocks = vec![block(&left, 0.0, 0.0, 10.0), block(&right, 300.0, 0.0, 10.0)];
    check(blocks, &format!("{}\n\n{}", left.join(" "), right.join(" ")));
}

#[test]
fn two_rows_a_list_and_cells_over_two_columns_are_no_tables() {
    let two = vec![block(&["Name", "Ann"], 0.0, 0.0, 10.0), block(&["Age", "7"], 100.0, 0.0, 10.0)];
    check(two, "Name Ann\n\nAge 7");
    let signs = block(&["•", "•", "•"], 0.0, 0.0, 10.0);
    let things = block(&["leaves", "straw", "ash"], 30.0, 0.0, 10.0);
    assert!(!markdown(vec![signs, things], Sizes::Exact).contains('|'));
    let wide = "reaches over all of the table here";
    let rows = vec![
        block(&["a", "b", wide, "d"], 0.0, 0.0, 10.0),
        block(&["1", "2"], 100.0, 0.0, 10.0),
        Block { lines: vec![line("9", 300.0, 28.0, 10.0), line("4", 100.0, 42.0, 10.0)] },
    ];
    assert!(!markdown(rows, Sizes::Exact).contains('|'));
}

#[test]
fn items_of_a_list_stay_lines() {
    let lines = ["- dead leaves", "- straw and", "cardboard", "- ash"];
    check(vec![block(&lines, 0.0, 0.0, 10.0)], "- dead leaves\n- straw and cardboard\n- ash");
    let lines = ["1. Take it off", "2. Pump it", "up"];
    check(vec![block(&lines, 0.0, 0.0, 10.0)], "1. Take it off\n2. Pump it up");
    let lines = ["The tower was finished in", "1871. It still stands."];
    check(vec![block(&lines, 0.0, 0.0, 10.0)], "The tower was finished in 1871. It still stands.");
}

#[test]
fn broken_words_become_whole_and_signs_letters() {
    for (lines, expected) in [
        (["the light-", "house stands"], "the lighthouse stands"),
        (["the light\u{ad}", "house stands"], "the lighthouse stands"),
        (["the East-", "West line"], "the East- West line"),
        (["pages 3-", "4 are lost"], "pages 3- 4 are lost"),
        (["\u{fb01}ve o\u{fb03}ces", "\u{fb02}oat"], "five offices float"),
        (["a\u{7}b", "c"], "a b c"),
    ] {
        check(vec![block(&lines, 0.0, 0.0, 10.0)], expected);
    }
}

#[test]
fn prose_that_looks_like_markdown_stays_prose() {
    for text in ["# one", "> two", "```", "---"] {
        let found = markdown(vec![block(&[text], 0.0, 0.0, 10.0)], Sizes::Exact);
        assert_eq!(found, format!("\\{text}"));
    }
}

#[test]
fn words_that_are_nowhere_are_left_out() {
    let mut block = block(&["here there"], 0.0, 0.0, 10.0);
    for (left, bottom) in [(f32::NAN, 1.0), (0.0, f32::INFINITY), (1e30, 1.0)] {
        let text = "nowhere".to_owned();
        block.lines[0].words.push(Word { text, left, top: 0.0, right: 1.0, bottom });
    }
    check(vec![block], "here there");
}

#[test]
fn a_staircase_of_words_does_not_swell() {
    // Each row has two cells, no two of which are of one column: as a table it would be quadratic.
    let step = |nth: usize| {
        let (x, y) = (nth as f32 * 50.0, nth as f32 * 12.0);
        let words = [line("a", x, y, 10.0).words, line("b", x + 25.0, y, 10.0).words].concat();
        Line { words }
    };
    let blocks = vec![Block { lines: (0..20_000).map(step).collect() }];
    assert!(markdown(blocks, Sizes::Exact).len() < 100_000);
}
