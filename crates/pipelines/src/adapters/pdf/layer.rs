//! Text layers: whether what a PDF says it says can be believed.

use crate::text::layout::{Block, Sizes, markdown};

/// One sign in so many that stands for no letter spoils a layer.
const SPOILED_IN: usize = 4;
/// One letter or digit in so many signs is the least that a text has.
const LETTERS_IN: usize = 3;
/// Of so few letters a page that is a picture may have a number or a stamp beside it.
const SCANTY: usize = 60;

/// The layer as Markdown, if it is a text.
pub(super) fn believed(blocks: Vec<Block>) -> Option<String> {
    let words = || blocks.iter().flat_map(|block| &block.lines).flat_map(|line| &line.words);
    let (mut signs, mut unmapped, mut letters) = (0, 0, 0);
    for c in words().flat_map(|word| word.text.chars()).filter(|c| !c.is_whitespace()) {
        signs += 1;
        unmapped += usize::from(stands_for_nothing(c));
        letters += usize::from(c.is_alphanumeric());
    }
    let is_text = letters > 0 && letters * LETTERS_IN >= signs && unmapped * SPOILED_IN < signs;
    is_text.then(|| markdown(blocks, Sizes::Exact)).filter(|text| !text.is_empty())
}

/// Whether there is so little in it that the page may be something else.
pub(super) fn is_scanty(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphanumeric()).nth(SCANTY).is_none()
}

/// A sign for which its font has a picture and no meaning.
fn stands_for_nothing(c: char) -> bool {
    let is_private = matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}');
    c == char::REPLACEMENT_CHARACTER || c.is_control() || is_private
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::layout::{Line, Word};

    fn layer(text: &str) -> Option<String> {
        let word = |(nth, text): (usize, &str)| {
            let left = nth as f32 * 10.0;
            Word { text: text.to_owned(), left, top: 0.0, right: left + 9.0, bottom: 10.0 }
        };
        let words = text.split(' ').enumerate().map(word).collect();
        believed(vec![Block { lines: vec![Line { words }] }])
    }

    #[test]
    fn a_layer_of_signs_without_letters_is_none() {
        for garbage in [
            "",
            "\u{e001}\u{e002}\u{e003} a",
            "\u{fffd}\u{fffd} \u{fffd}the",
            "!\"#$ %&'( )*+,-",
            "\u{1}\u{2}\u{3}\u{4}x",
            "... --- ...",
        ] {
            assert_eq!(layer(garbage), None, "{garbage:?}");
        }
        for text in ["The lamp", "1,204.50 -3", "日本語 です", "a\u{e001}bcdefgh ok"] {
            assert_eq!(layer(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_page_number_is_scanty_and_a_sentence_is_not() {
        assert!(is_scanty("Page 17 of 300"));
        assert!(!is_scanty(&"a sentence of some words ".repeat(4)));
    }
}
