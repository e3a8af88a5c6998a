//! Words: a text taken apart into what it can be found by.
//!
//! Decides where words begin and end, which spellings are the same word, and which words say
//! nothing. Letters lose their case and their accents; endings are cut by rules for English, which
//! do other languages little harm because they cut the same word always alike.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

/// Longer ones are cut into pieces: nobody wrote them.
const LETTERS_MAX: usize = 64;

/// A text as words.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// The letters of all words, folded, one word after the other.
    letters: Vec<char>,
    words: Vec<Word>,
}

/// Where one word is.
#[derive(Clone, Debug)]
pub(super) struct Word {
    place: Range<usize>,
    /// How many of its letters are its stem.
    stem: usize,
    /// Whether it stands in every text.
    pub(super) is_common: bool,
    pub(super) has_digit: bool,
    /// Whether it is one character of a script that writes words without spaces.
    pub(super) is_sign: bool,
}

impl Words {
    pub(super) fn of(text: &str) -> Words {
        let mut words = Words::default();
        let mut begin = 0;
        for c in text.chars() {
            if is_sign(c) {
                words.end(begin);
                words.letters.push(c);
                words.push(words.letters.len() - 1, true);
                begin = words.letters.len();
            } else if !fold(c, &mut words.letters) || words.letters.len() - begin >= LETTERS_MAX {
                words.end(begin);
                begin = words.letters.len();
            }
        }
        words.end(begin);
        words
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Word> {
        self.words.iter()
    }

    pub(super) fn get(&self, index: usize) -> &Word {
        &self.words[index]
    }

    /// All letters of a word.
    pub(super) fn letters(&self, word: &Word) -> &[char] {
        &self.letters[word.place.clone()]
    }

    /// The letters that it shares with its other forms.
    pub(super) fn stem(&self, word: &Word) -> &[char] {
        &self.letters(word)[..word.stem]
    }

    fn end(&mut self, begin: usize) {
        if begin < self.letters.len() {
            self.push(begin, false);
        }
    }

    fn push(&mut self, begin: usize, is_sign: bool) {
        let letters = &self.letters[begin..];
        let has_digit = letters.iter().any(|c| c.is_ascii_digit());
        // What is left of an apostrophe, or a letter that counts something.
        let is_letter = letters.len() == 1 && !is_sign && !has_digit;
        let is_common = is_letter || COMMON.contains(&hash(letters));
        let stem = if has_digit || is_sign { letters.len() } else { stem(letters) };
        let place = begin..self.letters.len();
        self.words.push(Word { place, stem, is_common, has_digit, is_sign });
    }
}

/// A number for a run of letters: the same on every machine and in every version.
pub(super) fn hash(letters: &[char]) -> u64 {
    letters.iter().fold(HASH_BEGIN, |hash, letter| hash_on(hash, *letter))
}

pub(super) const HASH_BEGIN: u64 = 0x51_7C_C1_B7_27_22_0A_95;

/// The hash of a run that goes on with a letter.
pub(super) fn hash_on(hash: u64, letter: char) -> u64 {
    let mixed = (hash ^ u64::from(u32::from(letter))).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 29)
}

/// Adds what a character is in a word, which may be nothing. False if it is in no word.
fn fold(c: char, letters: &mut Vec<char>) -> bool {
    if c.is_ascii() {
        if c.is_ascii_alphanumeric() {
            letters.push(c.to_ascii_lowercase());
        }
        return c.is_ascii_alphanumeric();
    }
    match c {
        // Accents of their own, places where a word may be broken, and what joins letters.
        '\u{300}'..='\u{36f}' | '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' => return true,
        'ﬀ' => letters.extend("ff".chars()),
        'ﬁ' => letters.extend("fi".chars()),
        'ﬂ' => letters.extend("fl".chars()),
        'ﬃ' => letters.extend("ffi".chars()),
        'ﬄ' => letters.extend("ffl".chars()),
        'ß' => letters.extend("ss".chars()),
        'Æ' | 'æ' => letters.extend("ae".chars()),
        'Œ' | 'œ' => letters.extend("oe".chars()),
        _ if c.is_alphanumeric() => {
            letters.extend(c.to_lowercase().map(plain));
        }
        _ => return false,
    }
    true
}

/// A small letter without its accent.
fn plain(c: char) -> char {
    match c {
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => 'c',
        'ď' | 'đ' | 'ð' => 'd',
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' => 'e',
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => 'g',
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ı' => 'i',
        'ł' | 'ĺ' | 'ļ' | 'ľ' => 'l',
        'ñ' | 'ń' | 'ņ' | 'ň' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ŏ' | 'ő' => 'o',
        'ŕ' | 'ř' => 'r',
        'ś' | 'ŝ' | 'ş' | 'š' | 'ș' => 's',
        'ţ' | 'ť' | 'ț' => 't',
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' => 'u',
        'ý' | 'ÿ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        other => other,
    }
}

fn is_sign(c: char) -> bool {
    matches!(
        u32::from(c),
        0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x2_fa1f
    )
}

/// How many letters are left when endings are cut: those of number and tense, then those that make
/// one word of another.
fn stem(word: &[char]) -> usize {
    let mut left = word;
    if ends(left, "s", 3) && !ends(left, "ss", 0) && !ends(left, "us", 0) && !ends(left, "is", 0) {
        left = &left[..left.len() - 1];
        for hissing in ["se", "xe", "ze", "che", "she"] {
            if ends(left, hissing, 2) {
                left = &left[..left.len() - 1];
                break;
            }
        }
    }
    for (ending, left_min) in [("ing", 3), ("ed", 3), ("ly", 3)] {
        if ends(left, ending, left_min) && has_vowel(&left[..left.len() - ending.len()]) {
            left = undoubled(&left[..left.len() - ending.len()]);
            break;
        }
    }
    for (ending, left_min) in [("ation", 4), ("ion", 4), ("ment", 3), ("er", 4), ("or", 5)] {
        if ends(left, ending, left_min) {
            left = &left[..left.len() - ending.len()];
            break;
        }
    }
    for endings in [&["e"][..], &["y", "i"]] {
        if endings.iter().any(|ending| ends(left, ending, 3)) {
            left = &left[..left.len() - 1];
        }
    }
    left.len()
}

/// Whether a word has this ending and enough before it.
fn ends(word: &[char], ending: &str, left_min: usize) -> bool {
    let Some(left) = word.len().checked_sub(ending.len()) else {
        return false;
    };
    left >= left_min && word[left..].iter().copied().eq(ending.chars())
}

fn has_vowel(letters: &[char]) -> bool {
    letters.iter().any(|c| "aeiouy".contains(*c))
}

/// Without the second of two equal consonants at the end, which only stood before the ending.
fn undoubled(letters: &[char]) -> &[char] {
    match letters {
        [rest @ .., one, other] if one == other && rest.len() >= 2 && !"aeiouls".contains(*one) => {
            &letters[..letters.len() - 1]
        }
        _ => letters,
    }
}

static COMMON: LazyLock<HashSet<u64>> = LazyLock::new(|| {
    let hash = |word: &str| hash(&word.chars().collect::<Vec<_>>());
    COMMON_ENGLISH.split_whitespace().chain(COMMON_ELSEWHERE.split_whitespace()).map(hash).collect()
});

/// Words that stand in every text, those that only ask included.
const COMMON_ENGLISH: &str = "
    a about above after again against all also am an and any are as at be because been before being
    below between both but by can cannot could did do does doing done down during each either else
    ever every few for from further get gets give gives go goes got had has have having he her here
    hers him his how however i if in into is it its itself just let like made make makes many may me
    might more most much must my neither no nor not of off on once one only or other our ours out
    over own per please rather really same say says shall she should since so some such tell than
    that the their theirs them themselves then there these they thing things this those through thus
    to too under until up upon us use used uses using very was we well were what when where whether
    which while who whom whose why will with within without would yes yet you your yours";

/// The commonest of German, French and Spanish that mean nothing in English.
const COMMON_ELSEWHERE: &str = "
    der das und ist ein eine einen einem einer nicht mit auf fur von dem den des sich auch wie wird
    sind bei nach oder zu zum zur im aus dass kann werden
    le la les un une et est dans pour que qui sur avec par ne pas plus du au aux ce cette sont ou
    el los las una y en por con del se su para como pero lo al";

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Vec<String> {
        let words = Words::of(text);
        words.iter().map(|word| words.letters(word).iter().collect()).collect()
    }

    #[test]
    fn words_are_runs_of_letters_and_digits_without_case_and_accents() {
        for (text, expected) in [
            ("The quick, brown fox.", &["the", "quick", "brown", "fox"][..]),
            ("Crème brûlée à la carte", &["creme", "brulee", "a", "la", "carte"]),
            ("GROSSE Straße", &["grosse", "strasse"]),
            (
                "of\u{fb01}ce \u{fb02}ow e\u{301}tude co\u{ad}operate",
                &["office", "flow", "etude", "cooperate"],
            ),
            ("snake_case RFC-3339 §12", &["snake", "case", "rfc", "3339", "12"]),
            ("worker's", &["worker", "s"]),
            ("Привет, МИР", &["привет", "мир"]),
            ("東京 tower", &["東", "京", "tower"]),
            (" —…\n", &[]),
            ("", &[]),
        ] {
            assert_eq!(seen(text), expected, "{text}");
        }
    }

    #[test]
    fn a_word_without_end_is_cut_into_pieces() {
        let long = "x".repeat(LETTERS_MAX * 2 + 3);
        let lengths: Vec<_> = seen(&long).iter().map(String::len).collect();
        assert_eq!(lengths, [LETTERS_MAX, LETTERS_MAX, 3]);
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for forms in [
            "lease leases leased leasing",
            "study studies studied studying",
            "connect connects connected connecting connection connections",
            "reserve reserved reservation reservations",
            "stop stopped stopping stops",
            "pay pays payment payments paying",
            "box boxes",
            "work works worker workers working worked",
            "quick quickly",
        ] {
            let words = Words::of(forms);
            let mut stems: Vec<String> =
                words.iter().map(|word| words.stem(word).iter().collect()).collect();
            stems.dedup();
            assert_eq!(stems.len(), 1, "{forms}: {stems:?}");
        }
    }

    #[test]
    fn words_that_only_look_like_forms_keep_their_ends() {
        for word in ["bus", "class", "this", "ring", "bed", "red", "nation", "moment", "is", "4s"] {
            let words = Words::of(word);
            let stem: String = words.stem(words.get(0)).iter().collect();
            assert_eq!(stem, word);
        }
    }

    #[test]
    fn what_stands_in_every_text_is_known() {
        for (text, expected) in [
            ("How does THE für y", vec![true; 5]),
            ("lease 7 x9", vec![false; 3]),
            ("x", vec![true]),
            ("京", vec![false]),
        ] {
            let found: Vec<_> = Words::of(text).iter().map(|word| word.is_common).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
