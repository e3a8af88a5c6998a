//! Searching the text of live chunks, and the piece of a text that shows why it was found.

use std::ops::Range;

use uuid::Uuid;

use super::bounds::asked;
use super::chunk::ChunkId;
use super::error::CatalogError;
use super::page::PageKey;
use super::words::{folded, spans};

/// What is looked for, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextQuery {
    /// As somebody typed it.
    pub text: String,
    pub tenant: String,
    pub collection: Option<String>,
    pub document: Option<Uuid>,
    pub page: Option<u32>,
    /// The kind of chunk.
    pub kind: Option<String>,
    pub limit: u32,
}

impl TextQuery {
    /// Ten of everything that a tenant has.
    pub fn of(tenant: impl Into<String>, text: impl Into<String>) -> TextQuery {
        let (tenant, text) = (tenant.into(), text.into());
        let (collection, document, page, kind) = (None, None, None, None);
        TextQuery { text, tenant, collection, document, page, kind, limit: 10 }
    }

    /// Its text may be anything.
    pub(super) fn check(&self) -> Result<(), CatalogError> {
        let parts = [Some(&self.tenant), self.collection.as_ref(), self.kind.as_ref()];
        asked(parts.into_iter().flatten().map(String::as_str))
    }
}

/// A chunk that was found, the best first.
#[derive(Clone, PartialEq, Debug)]
pub struct TextHit {
    pub chunk: ChunkId,
    pub page: PageKey,
    pub index: u32,
    pub kind: String,
    pub collection: String,
    /// The document's.
    pub source: String,
    pub name: String,
    /// More is better. Comparable within one answer only.
    pub score: f64,
    pub snippet: Snippet,
}

/// A piece of a text.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Snippet {
    pub text: String,
    /// Where in it the words are that were looked for, in bytes.
    pub marks: Vec<Range<usize>>,
    /// Whether the text goes on before and after.
    pub is_cut_before: bool,
    pub is_cut_after: bool,
}

/// About how long a snippet is.
const SNIPPET_BYTES: usize = 240;

/// The piece of a text that has the most of the words, and of several the first.
pub fn snippet(text: &str, words: &[String]) -> Snippet {
    let wanted: Vec<String> = words.iter().map(|word| stem(word)).collect();
    let found: Vec<(usize, usize, usize)> = spans(text)
        .filter_map(|(begins, ends)| {
            // No word that is looked for is longer.
            let word = (ends - begins <= 256).then(|| stem(&folded(&text[begins..ends])))?;
            let which = wanted.iter().position(|wanted| *wanted == word)?;
            Some((begins, ends, which))
        })
        .collect();
    let (first, last) = densest(&found, wanted.len());
    let (begins, ends) = match (found.get(first), found.get(last)) {
        (Some(first), Some(last)) => (first.0, last.1),
        _ => (0, 0),
    };
    let room = SNIPPET_BYTES.saturating_sub(ends - begins);
    let from = boundary(text, begins.saturating_sub(room / 3), begins);
    let wished = from + SNIPPET_BYTES.max(ends - from);
    let to = if wished >= text.len() { text.len() } else { boundary_before(text, wished, ends) };
    let in_piece = found.iter().filter(|(begins, ends, _)| *begins >= from && *ends <= to);
    Snippet {
        text: text[from..to].to_owned(),
        marks: in_piece.map(|(begins, ends, _)| begins - from..ends - from).collect(),
        is_cut_before: from > 0,
        is_cut_after: to < text.len(),
    }
}

/// The first and the last of the words that are close together and the most different ones.
fn densest(found: &[(usize, usize, usize)], kinds: usize) -> (usize, usize) {
    let mut counts = vec![0_u32; kinds];
    let (mut different, mut first) = (0, 0);
    let (mut best, mut most) = ((0, 0), 0);
    for (last, (_, ends, which)) in found.iter().enumerate() {
        different += usize::from(counts[*which] == 0);
        counts[*which] += 1;
        while ends - found[first].0 > SNIPPET_BYTES && first < last {
            counts[found[first].2] -= 1;
            different -= usize::from(counts[found[first].2] == 0);
            first += 1;
        }
        if different > most {
            (best, most) = ((first, last), different);
        }
    }
    best
}

/// The first beginning of a word from `wished` on, at the latest `latest`.
fn boundary(text: &str, wished: usize, latest: usize) -> usize {
    if wished == 0 {
        return 0;
    }
    let mut from = wished;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let space = text[from..latest.max(from)].find(char::is_whitespace);
    let after = space.map(|at| from + at).unwrap_or(from);
    let rest = &text[after..latest.max(after)];
    after + (rest.len() - rest.trim_start().len())
}

/// The last end of a word until `wished`, at the earliest `earliest`.
fn boundary_before(text: &str, wished: usize, earliest: usize) -> usize {
    let mut to = wished.max(earliest);
    while !text.is_char_boundary(to) {
        to -= 1;
    }
    let tail = &text[earliest.min(to)..to];
    match tail.rfind(char::is_whitespace) {
        Some(at) => earliest + tail[..at].trim_end().len(),
        None => to,
    }
}

/// What is the same in the forms of an English word, nearly as the databases see it.
fn stem(word: &str) -> String {
    for (ending, instead) in [
        ("ies", "y"),
        ("ied", "y"),
        ("sses", "ss"),
        ("ss", "ss"),
        ("ing", ""),
        ("ed", ""),
        ("es", ""),
        ("ly", ""),
        ("s", ""),
        ("e", ""),
    ] {
        if let Some(root) = word.strip_suffix(ending)
            && root.chars().count() >= 3
        {
            return format!("{root}{instead}");
        }
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::words::words;

    #[test]
    fn a_snippet_shows_where_the_words_are_together() {
        let filler = "nothing of interest happens here. ".repeat(40);
        let text = format!("oven. {filler}Set the ovens to a temperature of 200 °C. {filler}");
        let piece = snippet(&text, &words("oven temperature"));
        let marked: Vec<&str> = piece.marks.iter().map(|mark| &piece.text[mark.clone()]).collect();
        assert_eq!(marked, ["ovens", "temperature"], "{piece:?}");
        assert!(piece.text.len() <= SNIPPET_BYTES, "{piece:?}");
        assert!(piece.is_cut_before && piece.is_cut_after);
        assert!(!piece.text.starts_with(' ') && !piece.text.ends_with(' '), "{piece:?}");
    }

    #[test]
    fn a_short_text_is_its_own_snippet() {
        let piece = snippet("Käse und Brot", &words("kase"));
        assert_eq!(piece.text, "Käse und Brot");
        assert_eq!(piece.marks, vec![Range { start: 0, end: 5 }]);
        assert!(!piece.is_cut_before && !piece.is_cut_after);
        assert_eq!(snippet("", &words("x")).text, "");
    }

    #[test]
    fn a_snippet_of_anything_ends_between_letters() {
        let texts = ["ü".repeat(1_000), "x".repeat(1_000), " ".repeat(1_000), "ä x ".repeat(300)];
        for text in &texts {
            for question in ["x", "ü", "nothing"] {
                let piece = snippet(text, &words(question));
                assert!(text.contains(&piece.text));
                assert!(piece.text.len() <= SNIPPET_BYTES + 4, "{}", piece.text.len());
            }
        }
    }
}
