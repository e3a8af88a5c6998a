//! Search: what one would find, and why.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::draw::{list, number, text};
use super::page::Page;
use super::view::View;
use super::way::passage;
use crate::ask::Ask;
use crate::http::{Asked, Failed};

#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Wanted {
    q: String,
    collection: String,
    tenant: String,
}

pub(super) async fn page(view: View, Asked(wanted): Asked<Wanted>) -> Result<Page, Failed> {
    let form = html! {
        form.filter role="search" method="get" action=(view.to("search")) {
            label for="q" { "Look for" }
            input #q type="search" name="q" value=(wanted.q) data-focus="/"
                autofocus[wanted.q.is_empty()];
            label for="collection" { "in collection" }
            input #collection name="collection" value=(wanted.collection) placeholder="any";
            label for="tenant" { "of tenant" }
            input #tenant name="tenant" value=(wanted.tenant) placeholder="default";
            button.strong type="submit" { "Search" }
        }
    };
    let page = view.page("Search").still().part("question", form);
    if wanted.q.trim().is_empty() {
        return Ok(page);
    }
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let ask = Ask::get(&["search"]).with("q", Some(&wanted.q));
    let ask = ask.with("collection", some(&wanted.collection)).with("tenant", some(&wanted.tenant));
    Ok(match view.see(ask).await {
        Ok(found) => page.part("hits", hits(&view, &found)),
        Err(failed) => page.part("hits", html! { p.wrong { (failed.detail()) } }),
    })
}

fn hits(view: &View, found: &Value) -> Markup {
    let hits = list(found, "hits");
    html! {
        @if hits.is_empty() { p.note { "Nothing was found." } }
        ol.hits {
            @for hit in hits {
                @let page = number(hit, "page").to_string();
                li {
                    h2 {
                        a.open href=(view.to(passage(hit))) {
                            (text(hit, "name")) ", page " (page)
                        }
                    }
                    p.snippet { (snippet(&hit["snippet"])) }
                    p.minor {
                        "score " (format!("{:.4}", hit["score"].as_f64().unwrap_or_default()))
                        @for part in list(hit, "parts") {
                            " · " (text(part, "list")) " rank " (number(part, "rank"))
                            " (" (format!("{:.3}", part["score"].as_f64().unwrap_or_default())) ")"
                        }
                        " · " (text(hit, "collection"))
                    }
                }
            }
        }
    }
}

/// A passage with what was looked for marked. Marks are counted in bytes.
pub(super) fn snippet(of: &Value) -> Markup {
    let said = text(of, "text");
    let (mut rest, mut at) = (Vec::new(), 0);
    for mark in list(of, "marks") {
        let place = |end: usize| mark[end].as_u64().and_then(|place| usize::try_from(place).ok());
        let (Some(from), Some(to)) = (place(0), place(1)) else { continue };
        let (Some(before), Some(marked)) = (said.get(at..from), said.get(from..to)) else {
            continue;
        };
        rest.push((before, marked));
        at = to;
    }
    html! {
        @if of["is_cut_before"] == true { "… " }
        @for (before, marked) in rest { (before) mark { (marked) } }
        (said.get(at..).unwrap_or_default())
        @if of["is_cut_after"] == true { " …" }
    }
}
