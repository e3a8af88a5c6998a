//! All documents, with a bar for each phase.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::super::draw::{bytes, class, copied, grouped, head, list, number, short, text, when};
use super::super::page::Page;
use super::super::view::View;
use super::super::way;
use super::phases;
use crate::ask::Ask;
use crate::http::{Asked, Failed};

/// Documents on a page.
const LIMIT: &str = "25";

#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(in crate::console) struct Wanted {
    q: String,
    state: String,
    collection: String,
    tenant: String,
    cursor: String,
}

impl Wanted {
    fn way(&self, state: &str, cursor: &str) -> impl std::fmt::Display + use<> {
        let of = way(&["documents"]).with("q", &self.q).with("state", state);
        of.with("collection", &self.collection).with("tenant", &self.tenant).with("cursor", cursor)
    }
}

pub(in crate::console) async fn page(
    view: View,
    Asked(wanted): Asked<Wanted>,
) -> Result<Page, Failed> {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let ask = Ask::get(&["documents"]).with("with", Some("progress")).with("limit", Some(LIMIT));
    let ask = ask.with("q", some(&wanted.q)).with("state", some(&wanted.state));
    let ask = ask.with("collection", some(&wanted.collection)).with("tenant", some(&wanted.tenant));
    let found = view.see(ask.with("cursor", some(&wanted.cursor))).await?;
    let counts = Ask::get(&["documents", "counts"]).with("tenant", some(&wanted.tenant));
    let counts = view.see(counts).await.unwrap_or_default();
    let beside = html! { a href=(view.to("documents/graph")) { "Graph" } };
    let page = view.page("Documents");
    // Who looks for a name looks at all documents, which is once enough.
    let page = if wanted.q.is_empty() { page } else { page.still() };
    Ok(page
        .beside(beside)
        .part("filter", filter(&view, &wanted, &counts))
        .part("documents", documents(&view, &found, &wanted)))
}

fn filter(view: &View, wanted: &Wanted, counts: &Value) -> Markup {
    let counts = counts.as_array().map_or(&[][..], Vec::as_slice);
    html! {
        ul.counts aria-label="Documents by state" {
            li {
                @let is_any = wanted.state.is_empty().then_some("true");
                a href=(view.to(wanted.way("", ""))) aria-current=[is_any] {
                    "any state"
                }
            }
            @for count in counts {
                @let state = text(count, "state");
                li aria-current=[(state == wanted.state).then_some("true")] {
                    a href=(view.to(wanted.way(state, ""))) {
                        span.badge.(class(state)) { (state) }
                        // Only what the links lead to is counted.
                        @if wanted.q.is_empty() && wanted.collection.is_empty() {
                            " " (grouped(number(count, "documents")))
                            @if count["is_capped"] == true { "+" }
                        }
                    }
                }
            }
        }
        form.filter role="search" method="get" action=(view.to("documents")) {
            label for="q" { "Name" }
            input #q type="search" name="q" value=(wanted.q) data-focus="/";
            label for="collection" { "Collection" }
            input #collection name="collection" value=(wanted.collection) placeholder="any";
            label for="tenant" { "Tenant" }
            input #tenant name="tenant" value=(wanted.tenant) placeholder="default";
            @if !wanted.state.is_empty() { input type="hidden" name="state" value=(wanted.state); }
            button type="submit" { "Filter" }
        }
    }
}

fn documents(view: &View, found: &Value, wanted: &Wanted) -> Markup {
    let documents = list(found, "documents");
    html! {
        @if documents.is_empty() {
            p.note { "No document matches." }
            (copied("Add some", &view.command("add", "./papers")))
        } @else {
            div.scrolls {
                table.rows {
                    (head(&["Document", "State", "#Pages", "Phases", "Changed"]))
                    tbody { @for document in documents { (row(view, document)) } }
                }
            }
        }
        nav.pages aria-label="Pages" {
            @if !wanted.cursor.is_empty() {
                a href=(view.to(wanted.way(&wanted.state, ""))) { "« Newest" }
            }
            @if let Some(next) = found["next"].as_str() {
                a rel="next" href=(view.to(wanted.way(&wanted.state, next))) { "Older »" }
            }
        }
    }
}

fn row(view: &View, document: &Value) -> Markup {
    let (id, state) = (text(document, "id"), text(document, "state"));
    html! {
        tr data-key=(id) {
            td.wide {
                a.open href=(view.to(way(&["documents", id]))) {
                    (short(text(document, "name"), 120))
                }
                div.minor {
                    (text(document, "collection")) " · " (bytes(number(document, "bytes")))
                }
                @if let Some(failure) = document["failure"].as_str() {
                    div.minor.bad { (short(failure, 160)) }
                }
            }
            td { span.badge.(class(state)) { (state) } }
            td.number { (number(document, "pages")) }
            td { (phases(list(document, "phases"))) }
            td { (when(&document["changed_at"])) }
        }
    }
}
