//! Names in a sentence: words that begin with a capital, next to each other, and acronyms.
//!
//! Decides by the letters alone. Where a script has no capitals there are no names, and where every
//! noun has one there are many.

use super::sentences::{Sentence, Word};
use super::stop::is_stop;

/// What looks like a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Name {
    /// The words with one space between them.
    pub(super) text: String,
    pub(super) is_acronym: bool,
    /// Whether it would have a capital in any other place, too.
    pub(super) is_sure: bool,
}

/// Longer ones are titles.
const WORDS_MAX: usize = 6;

/// What may stand inside of a name.
const JOINERS: [&str; 11] = ["da", "de", "del", "der", "di", "du", "la", "of", "the", "van", "von"];

/// The names in a sentence, in order, and how many words of it belong to none, by their places.
pub(super) fn names(sentence: &Sentence<'_>) -> (Vec<Name>, Vec<bool>) {
    let words = &sentence.words;
    let mut is_named = vec![false; words.len()];
    let mut found = Vec::new();
    if is_shouted(words) {
        return (found, is_named);
    }
    let mut nth = 0;
    while nth < words.len() {
        let end = phrase(words, nth);
        if end == nth {
            nth += 1;
            continue;
        }
        let skipped = words[nth..end].iter().take_while(|word| is_stop(word.text)).count();
        let begin = nth + skipped;
        if let Some(name) = name(sentence, begin..end) {
            is_named[begin..end].fill(true);
            found.push(name);
        }
        nth = end;
    }
    (found, is_named)
}

/// Where the phrase ends that begins at a word. A phrase ends with a capital.
fn phrase(words: &[Word<'_>], begin: usize) -> usize {
    if !is_capital(words[begin].text) {
        return begin;
    }
    let mut end = begin + 1;
    while end < words.len() && end - begin < WORDS_MAX && words[end].follows {
        let is_joined = JOINERS.contains(&words[end].text)
            && words.get(end + 1).is_some_and(|next| next.follows && is_capital(next.text));
        if is_capital(words[end].text) {
            end += 1;
        } else if is_joined && end + 2 - begin <= WORDS_MAX {
            end += 2;
        } else {
            break;
        }
    }
    end
}

fn name(sentence: &Sentence<'_>, place: std::ops::Range<usize>) -> Option<Name> {
    let words = &sentence.words[place.clone()];
    let first = words.first()?.text;
    let is_acronym = words.len() == 1 && is_acronym(first);
    let is_initial = words.len() == 1 && first.chars().nth(1).is_none();
    if is_initial {
        return None;
    }
    let text = words.iter().map(|word| word.text).collect::<Vec<_>>().join(" ");
    let is_first = place.start == 0;
    let is_sure = is_acronym || (!sentence.is_heading && (!is_first || words.len() > 1));
    Some(Name { text, is_acronym, is_sure })
}

fn is_capital(word: &str) -> bool {
    word.starts_with(char::is_uppercase)
}

/// Two to ten capitals and digits.
fn is_acronym(word: &str) -> bool {
    let capitals = word.chars().filter(|c| c.is_uppercase()).count();
    let length = word.chars().count();
    is_capital(word)
        && capitals >= 2
        && (2..=10).contains(&length)
        && word.chars().all(|c| c.is_uppercase() || c.is_numeric() || matches!(c, '-' | '&' | '.'))
}

/// Whether all of a sentence is in capitals, which then say nothing.
fn is_shouted(words: &[Word<'_>]) -> bool {
    words.len() >= 3 && !words.iter().any(|word| word.text.chars().any(char::is_lowercase))
}

#[cfg(test)]
mod tests {
    use super::super::sentences::sentences;
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let all = sentences(text);
        let all: Vec<String> = all
            .iter()
            .flat_map(|sentence| names(sentence).0)
            .map(|name| {
                let mark = if name.is_acronym { "!" } else { "" };
                let doubt = if name.is_sure { "" } else { "?" };
                format!("{mark}{}{doubt}", name.text)
            })
            .collect();
        assert_eq!(all, expected, "{text}");
    }

    #[test]
    fn capitals_next_to_each_other_are_one_name() {
        check(
            "Yesterday Ada Lovelace met Charles Babbage in London.",
            &["Ada Lovelace", "Charles Babbage", "London"],
        );
        check(
            "We saw the Bank of England, Ludwig van Beethoven and NASA.",
            &["Bank of England", "Ludwig van Beethoven", "!NASA"],
        );
        check("In The Hague he said: Berlin, Paris", &["Hague", "Berlin", "Paris"]);
    }

    #[test]
    fn a_capital_at_the_beginning_proves_nothing() {
        check("Water boils.", &["Water?"]);
        check("The water boils. It does.", &[]);
        check("# Getting Started", &["Getting Started?"]);
        check("I said so, and A too.", &[]);
    }

    #[test]
    fn acronyms_are_short_and_shouting_is_no_name() {
        check("the HTTP2 and GPT-4 and U.S.A way", &["!HTTP2", "!GPT-4", "!U.S.A"]);
        check("THIS IS ALL VERY LOUD", &[]);
        check("an ABCDEFGHIJKLM here", &["ABCDEFGHIJKLM"]);
    }

    #[test]
    fn a_name_has_at_most_six_words() {
        check("so Ab Bc Cd De Ef Fg Gh Hi", &["Ab Bc Cd De Ef Fg", "Gh Hi"]);
    }
}
