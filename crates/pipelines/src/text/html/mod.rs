//! HTML, as Markdown: what a reader of the page would read.
//!
//! Sees a page, however broken; writes headings, paragraphs, lists, tables, code, quotes and the
//! text of links. A page without a first heading has its title for one. Drops scripts, styles,
//! menus and what is drawn or clicked.
//!
//! Leaves out emphasis and where links lead: both are in the way of finding things. A table that
//! only arranges the page (it holds headings or other tables) is read as the text that is in it.

mod entities;
mod page;
mod tables;
mod tags;
mod tokens;

use std::borrow::Cow;

use self::page::Page;
use super::markdown::{self, Kind};
use super::plain;

/// A page that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// What the page calls itself, if it does.
    pub title: Option<String>,
    /// What it says.
    pub markdown: String,
}

/// Reads a page.
pub fn read(html: &str) -> Read {
    let html = plain::clean(html);
    let mut page = Page::default();
    for token in tokens::tokens(&html) {
        page.take(token);
    }
    page.end()
}

/// Markdown with its HTML tables written as Markdown's own, for those who see them best that way.
///
/// Models that read pictures of pages write tables so. What stands in fenced code is left alone.
pub fn unfold_tables(text: &str) -> Cow<'_, str> {
    if find_tag(text, "<table", 0).is_none() {
        return Cow::Borrowed(text);
    }
    let fenced = |block: &markdown::Block| matches!(block.kind, Kind::Code { fence: Some(_) });
    let mut code = markdown::read(text).into_iter().filter(fenced).map(|block| block.range);
    let mut skipped = code.next();
    let mut out = String::with_capacity(text.len());
    let (mut done, mut from) = (0, 0);
    while let Some(open) = find_tag(text, "<table", from) {
        while skipped.as_ref().is_some_and(|range| range.end <= open) {
            skipped = code.next();
        }
        if let Some(range) = skipped.as_ref().filter(|range| range.start <= open) {
            from = range.end;
            continue;
        }
        let Some(close) = find_tag(text, "</table", open) else { break };
        let end = text[close..].find('>').map_or(text.len(), |at| close + at + 1);
        out.push_str(&text[done..open]);
        out.push_str("\n\n");
        out.push_str(&read(&text[open..end]).markdown);
        out.push_str("\n\n");
        (done, from) = (end, end);
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// Where a tag begins, whatever its case. What is sought begins with the only `<` in it.
fn find_tag(text: &str, tag: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = from;
    while let Some(found) = text[at..].find('<') {
        at += found;
        let end = at + tag.len();
        if bytes.get(at..end).is_some_and(|some| some.eq_ignore_ascii_case(tag.as_bytes())) {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests;
