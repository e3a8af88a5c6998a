//! Sentences of a Markdown text, each as words that may be parts of names.
//!
//! Decides where a sentence ends and which words stand next to each other. Leaves out code, links
//! and whatever else nobody would read aloud. Looks at every character once.

/// A word, as it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    /// Nothing but space is between it and the word before it.
    pub(super) follows: bool,
}

/// A sentence, a heading, an item of a list or a cell of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sentence<'a> {
    /// All of it, line breaks included.
    pub(super) text: &'a str,
    pub(super) words: Vec<Word<'a>>,
    pub(super) is_heading: bool,
}

/// A longer sentence is cut: what is so far apart has nothing to do with each other.
const WORDS_MAX: usize = 120;

/// A longer word is no word.
const WORD_BYTES_MAX: usize = 64;

/// The sentences of a text, in order, those without words left out.
pub(super) fn sentences(text: &str) -> Vec<Sentence<'_>> {
    let mut reader = Reader { text, all: Vec::new(), words: Vec::new(), place: None, gap: true };
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let bare = line.trim();
        let is_fence = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        if let Some(open) = fence {
            fence = fence.filter(|_| is_fence != Some(open));
            continue;
        }
        fence = is_fence;
        let is_heading = bare.starts_with('#');
        if fence.is_some() || bare.is_empty() || is_heading || is_item(bare) {
            reader.end(false);
        }
        if fence.is_some() {
            continue;
        }
        let is_row = bare.contains('|');
        for cell in bare.split('|') {
            reader.cell(cell);
            if is_row {
                reader.end(false);
            }
        }
        if is_heading {
            reader.end(true);
        }
    }
    reader.end(false);
    reader.all
}

/// Whether a line begins an item of a list or a quotation.
fn is_item(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = rest.len() < line.len() && rest.starts_with(['.', ')']);
    is_numbered || line.starts_with(['-', '*', '+', '>'])
}

struct Reader<'a> {
    text: &'a str,
    all: Vec<Sentence<'a>>,
    words: Vec<Word<'a>>,
    /// Where in the text the sentence is so far.
    place: Option<(usize, usize)>,
    /// The next word does not follow the last one.
    gap: bool,
}

impl<'a> Reader<'a> {
    /// Part of a line.
    fn cell(&mut self, cell: &'a str) {
        for token in cell.split_whitespace() {
            let begins = token.as_ptr() as usize - self.text.as_ptr() as usize;
            let first = self.place.map_or(begins, |(first, _)| first);
            self.place = Some((first, begins + token.len()));
            if token.contains("://") || token.contains('@') || token.starts_with("www.") {
                self.gap = true;
            } else {
                self.token(token);
            }
            if ends_sentence(token) || self.words.len() >= WORDS_MAX {
                self.end(false);
            }
        }
    }

    fn token(&mut self, token: &'a str) {
        let mut rest = token;
        while let Some(from) = rest.find(char::is_alphanumeric) {
            self.gap |= from > 0;
            rest = &rest[from..];
            let length = word_length(rest);
            let word = rest[..length].strip_suffix(['\'', '’']).unwrap_or(&rest[..length]);
            rest = &rest[length..];
            if word.len() > WORD_BYTES_MAX {
                self.gap = true;
                continue;
            }
            self.words.push(Word { text: word, follows: !self.gap });
            self.gap = false;
        }
        // An initial and its point belong to a name.
        self.gap |= !rest.is_empty() && rest != ".";
    }

    fn end(&mut self, is_heading: bool) {
        let place = self.place.take();
        let words = std::mem::take(&mut self.words);
        self.gap = true;
        if let Some((begins, ends)) = place.filter(|_| !words.is_empty()) {
            let text = &self.text[begins..ends];
            self.all.push(Sentence { text, words, is_heading });
        }
    }
}

/// How far a word goes: letters and digits, and what joins them inside of one.
fn word_length(text: &str) -> usize {
    let mut end = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let joins = matches!(c, '-' | '\'' | '’' | '&' | '.');
        let is_inside = joins && chars.peek().is_some_and(|(_, next)| next.is_alphanumeric());
        if !c.is_alphanumeric() && !is_inside {
            break;
        }
        end = at + c.len_utf8();
    }
    end
}

/// Shortenings whose point ends no sentence.
const SHORT: [&str; 14] =
    ["al", "ca", "cf", "dr", "e.g", "etc", "fig", "i.e", "mr", "mrs", "ms", "no", "prof", "st"];

fn ends_sentence(token: &str) -> bool {
    let bare = token.trim_end_matches(['"', '\'', ')', ']', '}', '*', '_', '”', '’', '»']);
    if bare.ends_with(['!', '?', '…', '。', '！', '？']) {
        return true;
    }
    let Some(before) = bare.strip_suffix('.') else { return false };
    let word = before.trim_start_matches(|c: char| !c.is_alphanumeric());
    let mut letters = word.chars();
    let is_initial = letters.next().is_some_and(char::is_uppercase) && letters.next().is_none();
    !is_initial && (word.len() > 4 || !SHORT.contains(&&*word.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let shown = |sentence: &Sentence<'_>| {
            let words = sentence.words.iter().map(|word| {
                if word.follows { format!(" {}", word.text) } else { format!("/{}", word.text) }
            });
            words.collect::<String>()
        };
        let all: Vec<String> = sentences(text).iter().map(shown).collect();
        assert_eq!(all, expected, "{text:?}");
    }

    #[test]
    fn a_sentence_ends_where_a_reader_pauses() {
        check("Ada met Bob. They talked!", &["/Ada met Bob", "/They talked"]);
        check("Dr. J. Smith (e.g. here) left.", &["/Dr J Smith/e.g here/left"]);
        check("One\nline.\n\nAnother", &["/One line", "/Another"]);
        check("# Title\nText", &["/Title", "/Text"]);
        check("- one\n- two\n1. three", &["/one", "/two", "/1", "/three"]);
        check("| a b | c |", &["/a b", "/c"]);
        check("“Really?” she asked", &["/Really", "/she asked"]);
    }

    #[test]
    fn what_joins_words_joins_them_and_what_parts_them_does_not() {
        check("Jean-Luc O'Neill, AT&T", &["/Jean-Luc O'Neill/AT&T"]);
        check("Node.js and U.S.A. law", &["/Node.js and U.S.A", "/law"]);
        check("**Ada** _Lovelace_", &["/Ada/Lovelace"]);
        check("Ada (see Bob) Carl", &["/Ada/see Bob/Carl"]);
    }

    #[test]
    fn code_and_links_are_not_read() {
        check("a\n```rust\nlet X = Y;\n~~~\n```\nb", &["/a", "/b"]);
        check("Ada https://example.com/Bob Carl a@b.c", &["/Ada/Carl"]);
        check("```\nnever closed", &[]);
        check(&format!("Ada {} Bob", "x".repeat(100)), &["/Ada/Bob"]);
    }

    #[test]
    fn a_sentence_knows_its_text() {
        let text = "  Ada\nmet Bob.  Then ";
        let all = sentences(text);
        assert_eq!(all[0].text, "Ada\nmet Bob.");
        assert_eq!(all[1].text, "Then");
        let heading = sentences("# A Title\nText");
        assert_eq!((heading[0].is_heading, heading[1].is_heading), (true, false));
    }

    #[test]
    fn a_sentence_without_end_is_cut() {
        let text = "word ".repeat(1_000);
        let all = sentences(&text);
        assert!(all.iter().all(|sentence| sentence.words.len() <= WORDS_MAX));
        assert_eq!(all.iter().map(|sentence| sentence.words.len()).sum::<usize>(), 1_000);
    }
}
