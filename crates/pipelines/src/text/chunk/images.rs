//! Images that stand in the text itself, as base64: out they go before anything is cut.
//!
//! What a chunk's place is must be said in bytes of the text that somebody else has, so every place
//! in the text without images can be found again in the one with them.

use std::borrow::Cow;
use std::ops::Range;

/// What takes the place of `data:image/png;base64,…`.
const INSTEAD: &str = "image";
/// What comes before the data is no longer than this, or it is no address of data.
const HEAD_MAX: usize = 120;

/// A text without images.
#[derive(Debug)]
pub(super) struct Bare<'a> {
    pub text: Cow<'a, str>,
    /// What was replaced: where in the old text, and where that ends in the new one.
    replaced: Vec<(Range<usize>, usize)>,
}

pub(super) fn without_images(source: &str) -> Bare<'_> {
    let mut text = String::new();
    let mut replaced = Vec::new();
    let mut done = 0;
    let mut from = 0;
    while let Some(at) = find_data(source, from) {
        let Some(length) = data(&source[at..]) else {
            from = at + 1;
            continue;
        };
        text.push_str(&source[done..at]);
        text.push_str(INSTEAD);
        done = at + length;
        from = done;
        replaced.push((at..done, text.len()));
    }
    if replaced.is_empty() {
        return Bare { text: Cow::Borrowed(source), replaced };
    }
    text.push_str(&source[done..]);
    Bare { text: Cow::Owned(text), replaced }
}

fn find_data(source: &str, from: usize) -> Option<usize> {
    let bytes = source.as_bytes();
    let mut at = from;
    while let Some(colon) = bytes.get(at..)?.iter().position(|&byte| byte == b':') {
        at += colon + 1;
        let start = at.checked_sub(5).filter(|&start| start >= from);
        if let Some(start) = start.filter(|&start| bytes[start..at].eq_ignore_ascii_case(b"data:"))
        {
            return Some(start);
        }
    }
    None
}

/// How long the address of data is that a text begins with, if it is one in base64.
fn data(text: &str) -> Option<usize> {
    const SCHEME: &[u8] = b"data:";
    const MARK: &[u8] = b";base64,";
    let bytes = text.as_bytes();
    let head = &bytes[..bytes.len().min(HEAD_MAX)];
    let comma = head.iter().position(|&byte| byte == b',')?;
    let marked = head[..=comma].len().checked_sub(MARK.len())?;
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/;=.+-_\"".contains(b);
    if !head[marked..=comma].eq_ignore_ascii_case(MARK)
        || !head[SCHEME.len()..comma].iter().all(plain)
    {
        return None;
    }
    let sign = |b: &u8| b.is_ascii_alphanumeric() || b"+/=-_%".contains(b);
    let signs = bytes[comma + 1..].iter().take_while(|b| sign(b)).count();
    Some(comma + 1 + signs)
}

impl Bare<'_> {
    /// Where in the old text a range of the new one is. What lies in an image takes all of it.
    pub(super) fn source(&self, range: Range<usize>) -> Range<usize> {
        self.place(range.start, true)..self.place(range.end, false)
    }

    fn place(&self, at: usize, start: bool) -> usize {
        let next = self.replaced.partition_point(|(_, end)| *end <= at);
        if let Some((image, end)) = self.replaced.get(next)
            && at > end - INSTEAD.len()
        {
            return if start { image.start } else { image.end };
        }
        match next.checked_sub(1).map(|last| &self.replaced[last]) {
            Some((image, end)) => image.end + (at - end),
            None => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_in_base64_are_taken_out() {
        let check = |source: &str, want: &str| {
            assert_eq!(without_images(source).text, want, "{source:?}");
        };
        check("no image", "no image");
        check("![a](data:image/png;base64,iVBORw0KGgo=) b", "![a](image) b");
        check(
            "<img src=\"DATA:image/svg+xml;charset=utf-8;BASE64,PHN2Zz4=\">",
            "<img src=\"image\">",
        );
        check("data:;base64,AAAA data:x;base64,BB%3D", "image image");
        check("data: base64, and data:text/plain,hello", "data: base64, and data:text/plain,hello");
        check("metadata:image/png;base64,AA", "metaimage");
        check(":::data:data:;base64,x", ":::data:image");
        check("data:;base64,", "image");
    }

    #[test]
    fn every_place_is_found_again_in_the_text_with_images() {
        let source = "ab data:;base64,AAAA cd data:;base64,BBBBBBBB ef";
        let bare = without_images(source);
        assert_eq!(bare.text, "ab image cd image ef");
        let check = |part: &str, want: &str| {
            let start = bare.text.find(part).expect("a part of the text");
            let place = bare.source(start..start + part.len());
            assert_eq!(&source[place], want, "{part:?}");
        };
        check("ab", "ab");
        check("cd", "cd");
        check("ef", "ef");
        check("ab image", "ab data:;base64,AAAA");
        check("image cd", "data:;base64,AAAA cd");
        check("mag", "data:;base64,AAAA");
        check("ab image cd image ef", source);
        check(" cd ", " cd ");
    }
}
