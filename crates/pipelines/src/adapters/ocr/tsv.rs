//! The words of a picture as tesseract has them in tables of tab-separated values: a line for each
//! page, block, paragraph, line and word, with where it is and how sure that is.

use crate::text::layout::{Block, Line, Word};

/// The level of a line that is about a word.
const WORD: &str = "5";
/// Specks become signs of which it is less sure than this, in per cent.
const SURE: f32 = 30.0;

/// The paragraphs of all that was found.
pub(super) fn read(said: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut last: (&[&str], &str) = (&[], "");
    let rows: Vec<Vec<&str>> = said.lines().map(|line| line.splitn(12, '\t').collect()).collect();
    for row in &rows {
        let &[WORD, _, _, _, line, _, left, top, width, height, sure, text] = &row[..] else {
            continue;
        };
        let numbers = [left, top, width, height, sure].map(|number| number.parse::<f32>().ok());
        let [Some(left), Some(top), Some(width), Some(height), Some(sure)] = numbers else {
            continue;
        };
        let says_something = text.contains(char::is_alphanumeric);
        if text.trim().is_empty() || (sure < SURE && !says_something) {
            continue;
        }
        // Page, block and paragraph.
        let here: &[&str] = &row[1..4];
        if here != last.0 {
            blocks.push(Block::default());
        }
        let Some(block) = blocks.last_mut() else {
            continue;
        };
        if (here, line) != last {
            block.lines.push(Line::default());
        }
        last = (here, line);
        if let Some(line) = block.lines.last_mut() {
            let (text, right, bottom) = (text.to_owned(), left + width, top + height);
            line.words.push(Word { text, left, top, right, bottom });
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_lines_of_paragraphs() {
        let said = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\t\
                    left\ttop\twidth\theight\tconf\ttext\n\
                    1\t1\t0\t0\t0\t0\t0\t0\t1653\t2339\t-1\t\n\
                    5\t1\t1\t1\t1\t1\t10\t20\t30\t8\t96.1\tThe\n\
                    5\t1\t1\t1\t1\t2\t50\t20\t30\t8\t12\tlamp\n\
                    5\t1\t1\t1\t1\t3\t90\t20\t2\t2\t9\t~\n\
                    5\t1\t1\t1\t2\t1\t10\t40\t30\t8\t96\tis 5 %\n\
                    5\t1\t1\t2\t1\t1\t10\t80\t30\t8\t96\tlit\n\
                    5\t1\t1\t2\t1\t2\tx\t80\t30\t8\t96\tbroken\n\
                    5\t1\t1\t2\n\
                    5\t2\t1\t2\t1\t1\t10\t80\t30\t8\t96\tagain\n";
        let blocks = read(said);
        fn words(line: &Line) -> Vec<&str> {
            line.words.iter().map(|word| &*word.text).collect()
        }
        let texts: Vec<Vec<Vec<&str>>> =
            blocks.iter().map(|block| block.lines.iter().map(words).collect()).collect();
        assert_eq!(
            texts,
            [vec![vec!["The", "lamp"], vec!["is 5 %"]], vec![vec!["lit"]], vec![vec!["again"]]]
        );
        let first = &blocks[0].lines[0].words[0];
        assert_eq!((first.left, first.top, first.right, first.bottom), (10.0, 20.0, 40.0, 28.0));
    }
}
