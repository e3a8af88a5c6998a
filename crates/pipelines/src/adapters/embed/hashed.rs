//! The embedder that is built in: features of a text, hashed into a vector.
//!
//! It is not a model and has learnt nothing. Two texts lie near each other if they share words,
//! forms of words, pairs of words or parts of words, and rare words count for more than common
//! ones; that *car* and *vehicle* are the same thing it does not know. For that it needs no file,
//! no network and no time to speak of, and the same text gives the same vector on every machine and
//! in every version: all sums are of whole numbers, and a test holds the output.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;

use super::words::{HASH_BEGIN, Word, Words, hash, hash_on};
use super::{EmbedError, Embedded, Embedder, normalised};

/// How many numbers a vector has.
pub const DIMENSION: usize = 384;

/// Texts that are embedded before others get their turn on the thread.
const TURN: usize = 32;

/// Hashed features. There is nothing to choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashed;

impl Embedder for Hashed {
    fn name(&self) -> &str {
        "hashed"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn dimension(&self) -> Option<usize> {
        Some(DIMENSION)
    }

    fn is_paid(&self) -> bool {
        false
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> BoxFuture<'a, Vec<Embedded>> {
        Box::pin(async move {
            let mut all = Vec::with_capacity(texts.len());
            for some in texts.chunks(TURN) {
                all.extend(some.iter().map(|text| vector(text)));
                if all.len() < texts.len() {
                    Turn::default().await;
                }
            }
            all
        })
    }
}

/// The vector of a text.
pub fn vector(text: &str) -> Embedded {
    let words = Words::of(text);
    let mut sums = Sums([0; DIMENSION]);
    sums.add_words(&words);
    sums.add_pairs(&words);
    if sums.is_empty() {
        // No word in it, as in a line of a table or a formula: its signs are all it has.
        sums.add_signs(text);
    }
    if sums.is_empty() {
        return Err(EmbedError::bad("there is nothing in it that could be embedded"));
    }
    normalised(sums.0.iter().map(|sum| *sum as f32).collect())
}

/// Kinds of features, so that a pair of words is never taken for a word.
const WORD: u64 = 0x57;
const PAIR: u64 = 0x9A;
const PART: u64 = 0xC3;
const SIGN: u64 = 0x1F;

/// In how many places a feature of each kind is written. Two words that meet in one place of four
/// are not taken for each other.
const WORD_PLACES: u64 = 4;
const PAIR_PLACES: u64 = 2;

/// What a word in sixteenths of its weight is worth, by how often it stands in the text:
/// sixteen times one plus the logarithm.
const OFTEN: [i64; 32] = [
    16, 27, 34, 38, 42, 45, 47, 49, 51, 53, 54, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 65, 66, 67,
    68, 68, 69, 69, 70, 70, 71, 71,
];

fn often(count: usize) -> i64 {
    OFTEN[count.clamp(1, OFTEN.len()) - 1]
}

/// What a word is worth: a long one is rarer than a short one, and a number rarer still.
fn weight(words: &Words, word: &Word) -> i64 {
    if word.is_common {
        return 24;
    }
    if word.is_sign {
        return 192;
    }
    match (words.letters(word).len(), word.has_digit) {
        (1, _) => 128,
        (_, true) => 320,
        (2, _) => 160,
        (3, _) => 208,
        (4, _) => 240,
        (5, _) => 272,
        (6, _) => 304,
        (7..=9, _) => 336,
        _ => 368,
    }
}

/// Whole numbers, so that the order of adding changes nothing.
struct Sums([i64; DIMENSION]);

impl Sums {
    fn is_empty(&self) -> bool {
        self.0.iter().all(|sum| *sum == 0)
    }

    /// Writes a feature in as many places, each with a sign of its own, so that features that meet
    /// cancel out as often as they add up.
    fn add(&mut self, feature: u64, places: u64, worth: i64) {
        for place in 0..places {
            let mixed = mix(feature.wrapping_add(place.wrapping_mul(0xD6E8_FEB8_6659_FD93)));
            let at = ((mixed >> 32) * DIMENSION as u64) >> 32;
            self.0[at as usize] += if mixed & 1 == 0 { worth } else { -worth };
        }
    }

    fn add_words(&mut self, words: &Words) {
        let stems = words.iter().enumerate().map(|(nth, word)| (hash(words.stem(word)), nth));
        let mut stems: Vec<(u64, usize)> = stems.collect();
        stems.sort_unstable();
        for same in stems.chunk_by(|one, other| one.0 == other.0) {
            let (stem, first) = same[0];
            let word = words.get(first);
            let worth = weight(words, word) * often(same.len());
            self.add(mix(stem ^ WORD), WORD_PLACES, worth / 2);
            if !word.is_common && !word.is_sign {
                self.add_parts(words.letters(word), worth);
            }
        }
    }

    /// The runs of three to five letters in a word, its ends included. All of them together are
    /// worth nearly what the word is: of one that was misspelt, or misread by OCR, they are all
    /// that is left.
    fn add_parts(&mut self, letters: &[char], worth: i64) {
        const ENDS: char = '\u{1}';
        let ended = letters.len() + 2;
        let at = |nth: usize| match nth.checked_sub(1) {
            Some(nth) => letters.get(nth).copied().unwrap_or(ENDS),
            None => ENDS,
        };
        let parts: usize = (3..=5).map(|length| (ended + 1).saturating_sub(length)).sum();
        let each = (worth as f64 * 0.8 / (parts as f64).sqrt()) as i64;
        for begin in 0..ended.saturating_sub(2) {
            let mut part = hash_on(hash_on(HASH_BEGIN ^ PART, at(begin)), at(begin + 1));
            for end in begin + 2..ended.min(begin + 5) {
                part = hash_on(part, at(end));
                self.add(part, 1, each);
            }
        }
    }

    /// Words that follow each other, over those that say nothing.
    fn add_pairs(&mut self, words: &Words) {
        let mut pairs: Vec<(u64, i64)> = Vec::new();
        let mut before: Option<(u64, i64)> = None;
        for word in words.iter().filter(|word| !word.is_common) {
            let (stem, weight) = (hash(words.stem(word)), weight(words, word));
            if let Some((before, weight_before)) = before {
                let pair = mix(before ^ PAIR).wrapping_mul(3).wrapping_add(stem);
                pairs.push((pair, weight_before.min(weight)));
            }
            before = Some((stem, weight));
        }
        pairs.sort_unstable();
        for same in pairs.chunk_by(|one, other| one.0 == other.0) {
            let (pair, weight) = same[0];
            self.add(pair, PAIR_PLACES, weight * often(same.len()) / 5);
        }
    }

    fn add_signs(&mut self, text: &str) {
        let mut signs: Vec<char> = text.chars().filter(|c| is_shown(*c)).collect();
        signs.sort_unstable();
        for same in signs.chunk_by(|one, other| one == other) {
            let feature = hash_on(HASH_BEGIN ^ SIGN, same[0]);
            self.add(feature, WORD_PLACES, often(same.len()));
        }
    }
}

fn is_shown(c: char) -> bool {
    !c.is_whitespace() && !c.is_control()
}

/// Spreads what differs in any bit over all bits.
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 31)).wrapping_mul(0xA24B_AED4_963E_E407);
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    hash ^ (hash >> 32)
}

/// Lets others run once.
#[derive(Default)]
struct Turn {
    is_over: bool,
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.is_over, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::super::passages::{PASSAGES, QUESTIONS, recall_at_five};
    use super::*;

    fn near(one: &str, other: &str) -> f32 {
        let (one, other) = (vector(one).unwrap(), vector(other).unwrap());
        one.iter().zip(&other).map(|(one, other)| one * other).sum()
    }

    #[test]
    fn the_same_text_gives_the_same_vector_for_ever() {
        let mut digest = Sha256::new();
        let others = ["Crème brûlée", "東京タワー", "--- | ---", "3.14 RFC-3339", "Привет, мир"];
        for text in PASSAGES.iter().chain(&others) {
            for x in vector(text).unwrap() {
                digest.update(x.to_bits().to_le_bytes());
            }
        }
        let found: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        // Vectors in people's catalogs were made by this. If it changes, the version must too.
        assert_eq!((Hashed.version(), &*found), ("1", PINNED));
    }

    const PINNED: &str = "5fcf14421725925c2f6f06fb62f2bcec8b17b3f242193f80660322184956edaf";

    #[test]
    fn a_plain_question_finds_its_passage_among_the_first_five() {
        let recall = recall_at_five(|text| vector(text).unwrap());
        assert!(recall >= 0.9, "{recall}");
    }

    #[test]
    fn vectors_without_meaning_would_be_noticed() {
        let senseless = |text: &str| {
            let mut hash = hash(&text.chars().collect::<Vec<_>>());
            let vector: Vec<f32> = (0..DIMENSION)
                .map(|_| {
                    hash = mix(hash.wrapping_add(1));
                    (hash as i32) as f32
                })
                .collect();
            normalised(vector).unwrap()
        };
        let recall = recall_at_five(senseless);
        assert!(recall < 0.5, "{recall}");
        assert_eq!((PASSAGES.len(), QUESTIONS.len()), (30, 20));
    }

    #[test]
    fn what_is_alike_lies_nearer_than_what_is_not() {
        let text = "The lease of a worker expires after five minutes unless it is renewed.";
        for (nearer, farther) in [
            ("when do leases expire", "how are invoices printed"),
            ("renewing a worker's lease", "working with five colours"),
            ("five minutes", "seven weeks"),
        ] {
            let (near, far) = (near(text, nearer), near(text, farther));
            assert!(near > far + 0.05, "{nearer} {near}, {farther} {far}");
        }
        assert!((near(text, text) - 1.0).abs() < 1e-6);
        assert!(near("stopping trains", "stopped train") > 0.6);
        let misread = "ingestoin pipline documnets";
        let (right, wrong) = ("ingestion pipeline documents", "harbour sunlight musicians");
        let (right, wrong) = (near(misread, right), near(misread, wrong));
        assert!(right > wrong + 0.15, "{right} {wrong}");
    }

    #[test]
    fn the_order_of_two_words_matters_and_their_number_hardly() {
        assert!(near("blood test", "blood test") > near("blood test", "test blood"));
        assert!(near("lease", "lease lease lease") > 0.8);
    }

    #[test]
    fn every_vector_has_length_one_and_the_dimension() {
        for text in ["a", "the of and", "|---|---|", "x".repeat(100_000).as_str(), "京"] {
            let vector = vector(text).unwrap();
            let square: f32 = vector.iter().map(|x| x * x).sum();
            assert_eq!(vector.len(), DIMENSION);
            assert!((square - 1.0).abs() < 1e-5, "{text}: {square}");
        }
    }

    #[tokio::test]
    async fn a_blank_text_is_bad_and_takes_none_with_it() {
        let text = |n| if n == 40 { " \n\t" } else { "hay" };
        let texts: Vec<&str> = (0..TURN * 3).map(text).collect();
        let all = Hashed.embed(&texts).await;
        assert_eq!(all.len(), texts.len());
        for (nth, one) in all.iter().enumerate() {
            let is_bad = matches!(one, Err(EmbedError::Bad { .. }));
            assert_eq!(is_bad, nth == 40, "{nth}: {one:?}");
        }
        assert!(Hashed.embed(&[]).await.is_empty());
    }
}
