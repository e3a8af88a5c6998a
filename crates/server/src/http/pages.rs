//! Pages about errors: where the `type` of a problem leads, on the server that told it.
//!
//! They are the files of `docs/errors/`, made readable in a browser without anything from outside.
//! Only what those files use of Markdown is understood; links to other documents, which are not
//! served, are shown as their text.

use std::fmt::Write as _;

use axum::response::Html;
use windrow_wire::problem::Code;

use super::reply::{Failed, Named};

macro_rules! pages {
    ($($name:literal)*) => {
        const PAGES: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!("../../../../docs/errors/", $name, ".md")),
        )),*];
    };
}

pages! {
    "already_done" "blob_missing" "changed" "expectation_failed" "forbidden" "hash_mismatch"
    "headers_too_large" "internal" "invalid" "key_in_use" "lease_lost" "malformed"
    "method_not_allowed" "misdirected_host" "no_such_stage" "not_a_root" "not_found"
    "not_resettable" "offset_mismatch" "outcome_unknown" "overloaded" "queue_full"
    "range_not_satisfiable" "request_reused" "still_live" "stopping" "store_failed" "store_full"
    "timeout" "too_large" "unauthorized" "under_cancelled" "unreadable" "unsupported_type"
    "wrong_status"
}

/// One page, by the name of its file.
pub(super) async fn page(Named(file): Named) -> Result<Html<String>, Failed> {
    let name = file.strip_suffix(".md").unwrap_or(&file);
    let found = PAGES.iter().find(|(page, _)| *page == name);
    found.map(|(name, text)| Html(framed(name, &written(text)))).ok_or_else(|| {
        Failed::new(Code::NotFound, "there is no error of that name; /docs/errors lists them")
    })
}

/// All of them.
pub(super) async fn list() -> Html<String> {
    let mut rows = String::new();
    for code in Code::ALL {
        let (name, status, title) = (code.name(), code.status(), code.title());
        let _infallible = write!(
            rows,
            "<tr><td><a href=\"/docs/errors/{name}.md\">{name}</a></td><td>{status}</td>\
             <td>{title}</td></tr>"
        );
    }
    Html(framed("errors", &format!("<h1>Errors</h1><table>{rows}</table>")))
}

fn framed(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>{title} - Windrow</title>\
         <style>body{{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:45rem;\
         padding:0 1rem}}td{{padding:.2rem .8rem .2rem 0}}</style>{body}\
         <p><a href=\"/docs/errors\">All errors</a>, <a href=\"/docs\">the API</a></p></html>"
    )
}

/// A text in Markdown as HTML: headings and paragraphs.
fn written(text: &str) -> String {
    let mut html = String::new();
    for block in text.split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
        let (tag, block) = match block.strip_prefix("# ") {
            Some(heading) => ("h1", heading),
            None => ("p", block),
        };
        let _infallible = write!(html, "<{tag}>{}</{tag}>", inline(block));
    }
    html
}

/// Code, bold words and links.
fn inline(mut text: &str) -> String {
    let mut html = String::new();
    while let Some(at) = text.find(['`', '*', '[']) {
        html.push_str(&escaped(&text[..at]));
        text = &text[at..];
        let marked = [("`", "`", "code"), ("**", "**", "b"), ("[", "]", "")];
        let found = marked.into_iter().find_map(|(begins, ends, tag)| {
            let (inside, rest) = text.strip_prefix(begins)?.split_once(ends)?;
            Some((inside, rest, tag))
        });
        let Some((inside, rest, tag)) = found else {
            html.push_str(&escaped(&text[..1]));
            text = &text[1..];
            continue;
        };
        text = rest;
        if tag.is_empty() {
            html.push_str(&linked(inside, &mut text));
        } else {
            let _infallible = write!(html, "<{tag}>{}</{tag}>", escaped(inside));
        }
    }
    html + &escaped(text)
}

/// A link, if it leads to a page that is served.
fn linked(inside: &str, rest: &mut &str) -> String {
    let target = rest.strip_prefix('(').and_then(|after| after.split_once(')'));
    let Some((target, after)) = target else { return format!("[{}]", escaped(inside)) };
    *rest = after;
    let name = target.strip_suffix(".md").unwrap_or(target);
    if PAGES.iter().any(|(page, _)| *page == name) {
        return format!("<a href=\"/docs/errors/{name}.md\">{}</a>", escaped(inside));
    }
    escaped(inside)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        let mut codes: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        let mut pages: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        codes.sort_unstable();
        pages.sort_unstable();
        assert_eq!(pages, codes);
    }

    #[test]
    fn a_text_is_readable_in_a_browser() {
        let text = "# invalid\n\nHTTP 422. `a < b`\nis **not** so, see [why](lease_lost.md) and \
                    [more](../reference/auth.md); 2 * 3 [x";
        assert_eq!(
            written(text),
            "<h1>invalid</h1><p>HTTP 422. <code>a &lt; b</code>\nis <b>not</b> so, see \
             <a href=\"/docs/errors/lease_lost.md\">why</a> and more; 2 * 3 [x</p>"
        );
        for (name, text) in PAGES {
            let html = written(text);
            assert!(!html.contains("**") && !html.contains('`'), "{name}: {html}");
        }
    }
}
