//! Texts that nobody has written: words of a made-up language, some often and most seldom, in
//! sentences, paragraphs and sections. The same numbers give the same texts.

use std::fmt::Write as _;

use crate::random::Splitmix;

/// Words of the language.
const WORDS: usize = 20_000;
/// Bytes of a chunk, about: what the chunker aims at.
const CHUNK_BYTES: usize = 1_900;
/// Bytes of a page, and of a file. A file is a document.
const PAGE_BYTES: usize = 20_000;
const FILE_BYTES: usize = 4 << 20;

/// A word by its number.
fn word(number: usize) -> String {
    const PARTS: [&str; 20] = [
        "ka", "ro", "mi", "ten", "lu", "sa", "vor", "ne", "pi", "dal", "go", "his", "bre", "fum",
        "ta", "wel", "ji", "zor", "que", "len",
    ];
    let (mut rest, mut text) = (number + 20, String::new());
    while rest > 0 {
        text.push_str(PARTS[rest % PARTS.len()]);
        rest /= PARTS.len();
    }
    text
}

/// Somebody who writes.
struct Writer {
    chance: Splitmix,
}

impl Writer {
    fn new(seed: u64) -> Writer {
        Writer { chance: Splitmix(seed) }
    }

    /// A word: the lower its number, the more often it comes.
    fn word(&mut self) -> String {
        let x = self.chance.below(1_000_000) as f64 / 1e6;
        word(((WORDS as f64).powf(x) - 1.0) as usize)
    }

    fn sentence(&mut self, into: &mut String) {
        let length = 6 + self.chance.below(12);
        for at in 0..length {
            let word = self.word();
            if at == 0 {
                let (first, rest) = word.split_at(1);
                write!(into, "{}{rest}", first.to_uppercase()).expect("a text");
            } else {
                write!(into, " {word}").expect("a text");
            }
        }
        into.push_str(". ");
    }

    /// About so many bytes, in sections with headings.
    fn sections(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 1_000);
        while text.len() < bytes {
            writeln!(text, "## {} {}\n", self.word(), self.word()).expect("a text");
            let end = text.len() + CHUNK_BYTES;
            while text.len() < end {
                for _ in 0..4 {
                    self.sentence(&mut text);
                }
                text.push_str("\n\n");
            }
        }
        text
    }
}

/// Files of about so many chunks in all.
pub(super) struct Texts {
    chunks: usize,
}

impl Texts {
    pub(super) fn of_chunks(chunks: usize) -> Texts {
        Texts { chunks }
    }

    /// Each with its name, made when it is wanted.
    pub(super) fn files(&self) -> impl Iterator<Item = (String, String)> {
        let files = (self.chunks * CHUNK_BYTES).div_ceil(FILE_BYTES);
        let bytes = (self.chunks * CHUNK_BYTES) / files;
        (0..files).map(move |file| {
            let mut writer = Writer::new(file as u64);
            let pages: Vec<String> =
                (0..bytes.div_ceil(PAGE_BYTES)).map(|_| writer.sections(PAGE_BYTES)).collect();
            (format!("text-{file}.md"), pages.join("\x0c"))
        })
    }

    /// A question by its number: some words that are in the texts.
    pub(super) fn question(&self, number: usize) -> String {
        let mut writer = Writer::new(1_000_000 + number as u64);
        let words: Vec<String> = (0..2 + number % 4).map(|_| writer.word()).collect();
        words.join(" ")
    }
}

/// A text of so many short pages.
pub(in crate::bench) fn pages(pages: usize, seed: u64) -> String {
    let mut writer = Writer::new(seed);
    let page = |_| {
        let mut text = String::new();
        for _ in 0..4 {
            writer.sentence(&mut text);
        }
        text
    };
    (0..pages).map(page).collect::<Vec<_>>().join("\x0c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_numbers_give_the_same_texts_and_other_words_are_other_words() {
        assert_eq!(pages(3, 7), pages(3, 7));
        assert_ne!(pages(3, 7), pages(3, 8));
        assert_eq!(pages(3, 7).matches('\x0c').count(), 2);
        let mut words: Vec<String> = (0..WORDS).map(word).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), WORDS);
    }

    #[test]
    fn texts_are_about_as_long_as_they_are_said_to_be() {
        let texts = Texts::of_chunks(2_000);
        let bytes: usize = texts.files().map(|(_, text)| text.len()).sum();
        let chunks = bytes / CHUNK_BYTES;
        assert!((2_000..3_000).contains(&chunks), "{chunks}");
    }
}
