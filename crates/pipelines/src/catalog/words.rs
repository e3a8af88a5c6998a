//! Words: what somebody who searches means, in words that no query language can misread.
//!
//! Decides what a word is: a run of letters and digits, in lower case and without the marks on
//! Latin letters. What is left of a question are plain words, so that nothing that is typed can be
//! an operator, a quote or an error in either database.

/// More words than this in a question do not make it clearer.
const WORDS_MAX: usize = 32;
/// Longer words are hashes and the like, of which the beginning tells enough.
const WORD_CHARS_MAX: usize = 64;

/// Words that are in nearly every text, and so find nothing.
const COMMON: [&str; 78] = [
    "a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by",
    "can", "could", "did", "do", "does", "each", "for", "from", "had", "has", "have", "how", "i",
    "if", "in", "into", "is", "it", "its", "may", "me", "more", "most", "my", "no", "not", "of",
    "on", "one", "only", "or", "other", "our", "out", "should", "so", "some", "such", "than",
    "that", "the", "their", "them", "then", "there", "these", "they", "this", "to", "was", "we",
    "were", "what", "when", "where", "which", "who", "why", "will", "with", "would", "you", "your",
    "s",
];

/// The words of a question, each once. Common ones count only where there are no others.
pub fn words(question: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (begins, ends) in spans(question) {
        let word: String = folded(&question[begins..ends]).chars().take(WORD_CHARS_MAX).collect();
        if !word.is_empty() && !all.contains(&word) {
            all.push(word);
        }
        // A question of a megabyte is read no further than it helps.
        if all.len() == 4 * WORDS_MAX {
            break;
        }
    }
    let telling: Vec<String> = all.iter().filter(|word| !is_common(word)).cloned().collect();
    let mut words = if telling.is_empty() { all } else { telling };
    words.truncate(WORDS_MAX);
    words
}

fn is_common(word: &str) -> bool {
    COMMON.contains(&word)
}

/// The words of a text and nothing between them but spaces: where a database has a notion of its
/// own of what a number, an address or a path is, it finds none in this.
pub(super) fn bare_words(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    for (begins, ends) in spans(text) {
        if !bare.is_empty() {
            bare.push(' ');
        }
        bare += &folded(&text[begins..ends]);
    }
    bare
}

/// Where the words of a text are.
pub(super) fn spans(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let mut letters = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (begins, first) = letters.find(|(_, letter)| letter.is_alphanumeric())?;
        let mut ends = begins + first.len_utf8();
        while let Some((at, letter)) = letters.next_if(|(_, letter)| is_of_word(*letter)) {
            ends = at + letter.len_utf8();
        }
        Some((begins, ends))
    })
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || is_mark(letter)
}

/// A mark that goes on top of the letter before it.
fn is_mark(letter: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&letter)
}

/// A text in lower case, without the marks on Latin letters.
pub(super) fn folded(text: &str) -> String {
    let lower = text.chars().flat_map(char::to_lowercase);
    lower.filter(|letter| !is_mark(*letter)).map(bare).collect()
}

fn bare(letter: char) -> char {
    match letter {
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => 'c',
        'ď' => 'd',
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' => 'e',
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => 'g',
        'ĥ' => 'h',
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' => 'i',
        'ĵ' => 'j',
        'ķ' => 'k',
        'ĺ' | 'ļ' | 'ľ' => 'l',
        'ñ' | 'ń' | 'ņ' | 'ň' => 'n',
        'ò'..='ö' | 'ō' | 'ŏ' | 'ő' => 'o',
        'ŕ' | 'ŗ' | 'ř' => 'r',
        'ś' | 'ŝ' | 'ş' | 'š' | 'ș' => 's',
        'ţ' | 'ť' | 'ț' => 't',
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' => 'u',
        'ŵ' => 'w',
        'ý' | 'ÿ' | 'ŷ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        _ => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_becomes_its_telling_words() {
        let check = |question: &str, want: &[&str]| assert_eq!(words(question), want, "{question}");
        check("What is the maximum oven temperature?", &["maximum", "oven", "temperature"]);
        check("to be or not to be", &["to", "be", "or", "not"]);
        check("Café CAFE cafe\u{301}", &["cafe"]);
        check("\"; drop table chunks; --", &["drop", "table", "chunks"]);
        check("NEAR(a* ^b) {text}: -c AND", &["near", "b", "text", "c"]);
        check("\0\u{feff}…—", &[]);
        check("", &[]);
    }

    #[test]
    fn a_long_question_is_cut() {
        let long: String = (0..100_000).map(|n| format!("word{n} ")).collect();
        assert_eq!(words(&long).len(), WORDS_MAX);
        assert_eq!(words(&"x".repeat(100_000))[0].len(), WORD_CHARS_MAX);
    }

    #[test]
    fn a_text_is_cut_into_the_words_that_questions_are() {
        let check = |text: &str, want: &str| {
            assert_eq!(bare_words(text), want);
            assert_eq!(words(text).join(" "), want, "as a question");
        };
        check("1234.56", "1234 56");
        check("ABC-123: x@Example.org", "abc 123 x example org");
        check("/usr/bin/Café_2.pdf", "usr bin cafe 2 pdf");
        check("…", "");
    }

    #[test]
    fn spans_cut_at_letters() {
        let text = "a–ü b̈c";
        let found: Vec<&str> = spans(text).map(|(begins, ends)| &text[begins..ends]).collect();
        assert_eq!(found, ["a", "ü", "b̈c"]);
    }
}
