//! Tokens: tags and the text between them, as forgivingly as browsers read them.
//!
//! Whatever is not a tag is text. Each failed search for the end of something is remembered, so
//! that a page of things that never end is still read once.

use super::tags::Tag;

/// One token of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Text, with its entities as written.
    Text(&'a str),
    /// `<name attributes>`
    Open { tag: Tag, attributes: &'a str },
    /// `</name>`
    Close { tag: Tag },
}

pub(super) fn tokens(html: &str) -> Tokens<'_> {
    Tokens {
        rest: html,
        is_xhtml: is_xhtml(html),
        known_absent: [false; ENDS.len()],
        raw_absent: Vec::new(),
        quotes_run_out: false,
        #[cfg(test)]
        looks: 0,
    }
}

#[derive(Debug)]
pub(super) struct Tokens<'a> {
    rest: &'a str,
    is_xhtml: bool,
    /// Which of [`ENDS`] are known not to come any more.
    known_absent: [bool; ENDS.len()],
    /// The tags of raw text that are known not to be ended any more.
    raw_absent: Vec<Tag>,
    /// Whether the quotes of a tag went on to the end of the page, and no `>` was outside of them.
    /// What is quoted cannot be told from there on.
    quotes_run_out: bool,
    /// How often something was looked for within tags.
    #[cfg(test)]
    looks: usize,
}

const ENDS: [&str; 4] = ["-->", ">", "\"", "'"];
const COMMENT: usize = 0;
const TAG: usize = 1;
const QUOTE: usize = 2;
const APOSTROPHE: usize = 3;

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        while !self.rest.is_empty() {
            let text = self.text();
            if !text.is_empty() {
                return Some(Token::Text(text));
            }
            if let Some(token) = self.markup() {
                return Some(token);
            }
        }
        None
    }
}

impl<'a> Tokens<'a> {
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// Text up to what may be a tag; a `<` that is none is text.
    fn text(&mut self) -> &'a str {
        let mut from = 0;
        while let Some(at) = self.rest[from..].find('<') {
            let at = from + at;
            let after = &self.rest[at + 1..];
            let name = after.strip_prefix('/').unwrap_or(after);
            let markup = after.starts_with(['!', '?'])
                || name.starts_with(|c: char| c.is_ascii_alphabetic());
            if markup && self.find(TAG, at).is_some() {
                return self.take(at);
            }
            from = at + 1;
        }
        self.take(self.rest.len())
    }

    /// Where an end is, counted from the start of the rest.
    fn find(&mut self, end: usize, from: usize) -> Option<usize> {
        if self.known_absent[end] {
            return None;
        }
        let found = self.rest[from..].find(ENDS[end]).map(|at| from + at);
        self.known_absent[end] = found.is_none();
        found
    }

    /// Takes a tag or something that says nothing. There is a `>` somewhere.
    fn markup(&mut self) -> Option<Token<'a>> {
        if self.rest.starts_with("<!--") {
            let end = self.find(COMMENT, 2).map(|at| at + 3);
            let end = end.or_else(|| self.find(TAG, 0).map(|at| at + 1));
            self.take(end.unwrap_or(self.rest.len()));
            return None;
        }
        if self.rest.starts_with("<!") || self.rest.starts_with("<?") {
            let end = self.find(TAG, 0).map_or(self.rest.len(), |at| at + 1);
            self.take(end);
            return None;
        }
        let close = self.rest.starts_with("</");
        let from = 1 + usize::from(close);
        let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>');
        let length = self.rest[from..].find(ends).unwrap_or(self.rest.len() - from);
        let tag = Tag::named(&self.rest[from..from + length]);
        let end = self.tag_end(from + length);
        let whole = self.take(end);
        let attributes = whole[from + length..].strip_suffix('>').unwrap_or_default();
        if close {
            return Some(Token::Close { tag });
        }
        if tag.is_raw() {
            // To browsers the slash says nothing, unless the page is XHTML. But who writes it means
            // it, and what is never ended would hide all that follows.
            if !ends_itself(attributes) {
                let end = self.raw_end(tag);
                self.take(end.unwrap_or(self.rest.len()));
            } else if !self.is_xhtml
                && let Some(end) = self.raw_end(tag)
            {
                self.take(end);
            }
            return None;
        }
        Some(Token::Open { tag, attributes })
    }

    /// Where the tag ends whose attributes begin at `at`; a `>` in quotes does not end it.
    fn tag_end(&mut self, mut at: usize) -> usize {
        let first = self.find(TAG, at).map_or(self.rest.len(), |end| end + 1);
        while !self.quotes_run_out {
            #[cfg(test)]
            {
                self.looks += 1;
            }
            let next = self.rest[at..].find(['>', '"', '\'']).map(|found| at + found);
            let Some(next) = next else {
                self.quotes_run_out = true;
                break;
            };
            let quote = match self.rest.as_bytes()[next] {
                b'>' => return next + 1,
                b'"' => QUOTE,
                _ => APOSTROPHE,
            };
            // Only a value is quoted: the apostrophe in `<a b'c>` is a slip, not the start of one.
            let value = self.rest[at..next].trim_end().ends_with('=');
            let end = if value { self.find(quote, next + 1) } else { None };
            at = end.unwrap_or(next) + 1;
        }
        first
    }

    /// Where what no reader sees ends, at the tag that ends it.
    fn raw_end(&mut self, tag: Tag) -> Option<usize> {
        if self.raw_absent.contains(&tag) {
            return None;
        }
        let mut from = 0;
        while let Some(at) = self.rest[from..].find("</") {
            let name = from + at + 2;
            let ends = |c: char| !c.is_ascii_alphanumeric();
            let length = self.rest[name..].find(ends).unwrap_or(self.rest.len() - name);
            if Tag::named(&self.rest[name..name + length]) == tag {
                return Some(from + at);
            }
            from = name;
        }
        self.raw_absent.push(tag);
        None
    }
}

/// A page says so early that it is XHTML.
const XHTML_BYTES: usize = 1_024;

fn is_xhtml(html: &str) -> bool {
    let head = &html[..html.floor_char_boundary(XHTML_BYTES)];
    head.trim_start().starts_with("<?xml") || head.to_ascii_lowercase().contains("xhtml")
}

/// Whether the attributes of a tag end with a slash that is not part of a value.
pub(super) fn ends_itself(attributes: &str) -> bool {
    let Some(before) = attributes.trim_end().strip_suffix('/') else { return false };
    let last = before.rsplit(|c: char| c.is_ascii_whitespace()).next().unwrap_or_default();
    !last.contains('=') || last.ends_with(['"', '\''])
}

/// The value of an attribute, with its entities as written.
pub(super) fn attribute<'a>(attributes: &'a str, wanted: &str) -> Option<&'a str> {
    let mut rest = attributes;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '='));
        if rest.is_empty() {
            return None;
        }
        let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '/' | '=');
        let (name, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        rest = after.trim_start();
        let mut value = "";
        if let Some(given) = rest.strip_prefix('=') {
            let given = given.trim_start();
            let quote = given.chars().next().filter(|c| matches!(c, '"' | '\''));
            (value, rest) = match quote.and_then(|quote| given[1..].split_once(quote)) {
                Some(quoted) => quoted,
                None => {
                    let end = given.find(|c: char| c.is_ascii_whitespace()).unwrap_or(given.len());
                    given.split_at(end)
                }
            };
        }
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(html: &str) -> String {
        let show = |token| match token {
            Token::Text(text) => format!("[{text}]"),
            Token::Open { tag, attributes } => format!("<{tag:?}{}>", attributes.trim_end()),
            Token::Close { tag } => format!("</{tag:?}>"),
        };
        tokens(html).map(show).collect()
    }

    #[test]
    fn a_page_is_tags_and_text() {
        let check = |html: &str, want: &str| assert_eq!(seen(html), want, "{html:?}");
        check("", "");
        check("a<p>b</p >c", "[a]<P>[b]</P>[c]");
        check("<P Class='a>b' id=\"c>d\">x", "<P Class='a>b' id=\"c>d\">[x]");
        check("a < b <3 <> </> <é>", "[a < b <3 <> </> <é>]");
        check("a<!-- <p> --><!doctype html><?php x ?>b", "[a][b]");
        check("a<!-->b", "[a][b]");
        check("a<!-- never > closed <b>", "[a][ closed ]<B>");
        check("<script>if (a<b) '</p>'</script>x", "</Script>[x]");
        check("<STYLE>p{}</style  >x<script>never ends", "</Style>[x]");
        check("<br/><unknown-tag>", "<Br/><Other>");
        check("<script src='a'/>x<p>y", "[x]<P>[y]");
        check("<script src=a/>x</script>y", "</Script>[y]");
        check("<script/>x</script>y", "</Script>[y]");
        check("<?xml?><script/>x<script>y</script>z", "[x]</Script>[z]");
        check(
            "<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0'><style/>x<style>y</style>",
            "[x]</Style>",
        );
        check("<p", "[<p]");
        check("x<p class=\"never closed>y", "[x]<P class=\"never closed>[y]");
        check("<a b'c>it's", "<Link b'c>[it's]");
    }

    /// Each tag's quotes were paired to the end of the page, and the next tag's again.
    #[test]
    fn quotes_that_go_on_to_the_end_are_paired_once() {
        for tag in ["<a b='>'", "<a b=\">\"", "<a b='\">'", "<a b"] {
            const TAGS: usize = 1_000;
            let html = tag.repeat(TAGS);
            let mut all = tokens(&html);
            while all.next().is_some() {}
            assert!(all.looks <= 3 * TAGS, "{tag}: looked {} times", all.looks);
        }
    }

    #[test]
    fn a_slash_ends_a_tag_unless_it_is_part_of_a_value() {
        for (attributes, is_so) in [
            ("/", true),
            (" /", true),
            (" a=\"b c\"/", true),
            (" a='b' / ", true),
            (" async/", true),
            (" src=a/b/", false),
            (" src=a /", true),
            ("", false),
            (" a='/'", false),
        ] {
            assert_eq!(ends_itself(attributes), is_so, "{attributes:?}");
        }
    }

    #[test]
    fn an_attribute_is_found_however_it_is_written() {
        let check = |text: &str, want: Option<&str>| assert_eq!(attribute(text, "alt"), want);
        check("", None);
        check(" alt=x", Some("x"));
        check(" src=a ALT = \"b c\" / ", Some("b c"));
        check(" data-alt='no' alt='it' alt='second'", Some("it"));
        check(" alt", Some(""));
        check(" alt=\"never closed", Some("\"never"));
        check("=== a== alt=1", Some("1"));
    }
}
