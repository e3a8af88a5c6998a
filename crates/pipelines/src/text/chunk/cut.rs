//! Cut: the places where text may be cut when it must be.
//!
//! Between sentences if there are any, else between words, else anywhere between characters.

use std::ops::Range;

/// The sentences of a part of a text, none of more than `limit` characters: a longer one is cut
/// between words, and a longer word anywhere. White space around them belongs to none.
pub(super) fn sentences(text: &str, range: Range<usize>, limit: usize) -> Vec<Range<usize>> {
    let mut cutter = Cutter { limit: limit.max(1), pieces: Vec::new(), open: None };
    for (at, c) in text[range.clone()].char_indices() {
        cutter.take(range.start + at, c);
    }
    cutter.end();
    cutter.pieces
}

/// Where the last sentences of a part of a text begin that are no more than `chars` characters up
/// to its end; or the last words, if the last sentence is longer.
pub(super) fn tail(text: &str, range: Range<usize>, chars: usize) -> Option<usize> {
    let slice = &text[range.clone()];
    let (back, _) = slice.char_indices().rev().take(chars).last()?;
    let from = range.start + back;
    if from == range.start {
        return Some(from);
    }
    let pieces = sentences(text, from..range.end, usize::MAX);
    let first = pieces.first()?.start;
    let before = text[range.start..first].trim_end();
    if range.start + before.len() < first && before.ends_with(['.', '!', '?', '…', '。']) {
        return Some(first);
    }
    if let Some(second) = pieces.get(1) {
        return Some(second.start);
    }
    let space = text[from..range.end].find(char::is_whitespace)?;
    let word = trimmed(text, from + space..range.end);
    (!word.is_empty()).then_some(word.start)
}

/// The bytes of a part of a text without the white space around it.
pub(super) fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let slice = &text[range.clone()];
    let start = range.start + (slice.len() - slice.trim_start().len());
    start..start + slice.trim().len()
}

struct Cutter {
    limit: usize,
    pieces: Vec<Range<usize>>,
    open: Option<Piece>,
}

/// A piece that goes on.
struct Piece {
    start: usize,
    /// The end of its last word so far.
    end: usize,
    /// How many characters it has, white space after it included.
    chars: usize,
    /// Whether white space was seen since the last word.
    in_gap: bool,
    /// Where its last word begins, how many characters come before that, and where they end.
    word: Option<(usize, usize, usize)>,
    /// Whether the next white space ends a sentence.
    ended: bool,
}

impl Cutter {
    fn take(&mut self, at: usize, c: char) {
        if c.is_whitespace() {
            match &mut self.open {
                Some(piece) if piece.ended => self.end(),
                Some(piece) => {
                    piece.chars += 1;
                    piece.in_gap = true;
                }
                None => {}
            }
            return;
        }
        if self.open.as_mut().is_some_and(|piece| piece.is_full_at(at, self.limit)) {
            self.cut(at);
        }
        let piece = self.open.get_or_insert(Piece::at(at));
        piece.chars += 1;
        piece.end = at + c.len_utf8();
        match c {
            '。' | '！' | '？' => self.end(),
            '.' | '!' | '?' | '…' => piece.ended = true,
            '"' | '\'' | ')' | ']' | '”' | '’' | '»' | '*' | '_' => {}
            _ => piece.ended = false,
        }
    }

    /// Ends a piece that is full before its last word, or within it if it is the only one.
    fn cut(&mut self, at: usize) {
        let Some(full) = self.open.take() else { return };
        let (start, before, end) = full.word.unwrap_or((at, full.chars, full.end));
        self.pieces.push(full.start..end);
        if start < at {
            let chars = full.chars - before;
            self.open = Some(Piece { end: full.end, chars, ..Piece::at(start) });
        }
    }

    fn end(&mut self) {
        self.pieces.extend(self.open.take().map(|piece| piece.start..piece.end));
    }
}

impl Piece {
    fn at(start: usize) -> Piece {
        Piece { start, end: start, chars: 0, in_gap: false, word: None, ended: false }
    }

    /// Whether there is no room for the character at `at`, which may begin a word.
    fn is_full_at(&mut self, at: usize, limit: usize) -> bool {
        if std::mem::take(&mut self.in_gap) {
            self.word = Some((at, self.chars, self.end));
        }
        self.chars >= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_sentences_then_words_then_anywhere() {
        let check = |text: &str, limit, want: &[&str]| {
            let pieces = sentences(text, 0..text.len(), limit);
            let got: Vec<&str> = pieces.into_iter().map(|piece| &text[piece]).collect();
            assert_eq!(got, want, "{text:?}");
        };
        check("", 5, &[]);
        check(" \n ", 5, &[]);
        check("One. Two!  Three?\nFour", 99, &["One.", "Two!", "Three?", "Four"]);
        check(
            "He said “no.” Then 3.14 (yes.) went",
            99,
            &["He said “no.”", "Then 3.14 (yes.)", "went"],
        );
        check("一。二！三", 99, &["一。", "二！", "三"]);
        check("one two three four", 9, &["one two", "three", "four"]);
        check("one two three four", 10, &["one two", "three four"]);
        check("abcdefgh", 3, &["abc", "def", "gh"]);
        check("ab cdefgh ij", 4, &["ab", "cdef", "gh", "ij"]);
        check("äöü€ äöü€", 4, &["äöü€", "äöü€"]);
        check("a          b", 4, &["a", "b"]);
        check("a\nb", 0, &["a", "b"]);
    }

    #[test]
    fn what_is_repeated_begins_with_a_sentence_or_else_with_a_word() {
        let check = |text: &str, chars, want: Option<&str>| {
            let got = tail(text, 0..text.len(), chars).map(|start| &text[start..]);
            assert_eq!(got, want, "{text:?}");
        };
        check("One. Two. Three.", 12, Some("Two. Three."));
        check("One. Two. Three.", 10, Some("Three."));
        check("One. Two. Three.", 99, Some("One. Two. Three."));
        check("one two three", 8, Some("three"));
        check("onetwothree", 5, None);
        check("äöü äöü", 4, Some("äöü"));
        check("", 5, None);
        check("abc", 0, None);
    }
}
