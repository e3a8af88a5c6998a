//! Pieces: a text is cut into as many as it had been cut into elsewhere.
//!
//! How many chunks a page had is known, but seldom where they began. Even pieces that end where a
//! paragraph, a line or a word does come as close to them as can be.

use std::ops::Range;

/// Cuts a text into just so many pieces. Where it is too short for that, the last are empty.
pub(super) fn pieces(text: &str, count: usize) -> Vec<Range<usize>> {
    let mut all = Vec::with_capacity(count);
    let (even, mut from) = (text.len() / count.max(1), 0);
    for piece in 1..=count {
        let to = if piece == count {
            text.len()
        } else {
            let wanted = (text.len() as u128 * piece as u128 / count as u128) as usize;
            end_near(text, wanted, even / 2).max(from)
        };
        all.push(from..to);
        from = to;
    }
    all
}

/// Where something ends nearest to a place: a paragraph, else a line, else a word, else a letter.
fn end_near(text: &str, wanted: usize, reach: usize) -> usize {
    let (low, high) = (wanted.saturating_sub(reach), (wanted + reach).min(text.len()));
    let (low, high) = (text.floor_char_boundary(low), text.floor_char_boundary(high));
    for mark in ["\n\n", "\n", " "] {
        let ends = text[low..high].match_indices(mark).map(|(at, mark)| low + at + mark.len());
        if let Some(end) = ends.min_by_key(|end| end.abs_diff(wanted)) {
            return end;
        }
    }
    text.floor_char_boundary(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, count: usize, want: &[&str]) {
        let cut = pieces(text, count);
        let is: Vec<&str> = cut.into_iter().map(|piece| &text[piece]).collect();
        assert_eq!(is, want);
        assert_eq!(is.concat(), text, "nothing is lost");
    }

    #[test]
    fn pieces_end_where_something_ends_and_nothing_is_lost() {
        check("one two\n\nthree four", 2, &["one two\n\n", "three four"]);
        check("one two three", 3, &["one ", "two ", "three"]);
        check("öäüöäü", 2, &["öäü", "öäü"]);
        check("all of it", 1, &["all of it"]);
        check("", 2, &["", ""]);
        check("a", 3, &["", "", "a"]);
    }

    #[test]
    fn every_text_gives_as_many_pieces_as_are_wanted() {
        let text =
            "A paragraph of words.\n\nAnother, longer one, with a line\nbreak in it. ".repeat(9);
        for count in 1..60 {
            let cut = pieces(&text, count);
            assert_eq!(cut.len(), count);
            assert_eq!(cut.iter().map(ExactSizeIterator::len).sum::<usize>(), text.len());
        }
    }
}
