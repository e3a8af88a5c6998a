//! One document: its phases, what failed of it first, and its pages.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::super::act::Act;
use super::super::draw::{badge, bar, bytes, class, copied, head, list, number, short, text, when};
use super::super::page::Page;
use super::super::view::View;
use super::super::way;
use super::super::way::page as page_of;
use super::phases;
use crate::ask::Ask;
use crate::auth::Role;
use crate::cli::show::span;
use crate::http::{Asked, Failed, Named};

/// Pages that are shown at once, of those that failed and of all.
const FAILED: usize = 20;
const LIMIT: &str = "50";
/// How often it is asked for pages that failed: each time some thousands are looked at.
const LOOKS: usize = 10;

#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(in crate::console) struct Wanted {
    /// The number of the first page that is shown.
    from: String,
}

pub(in crate::console) async fn page(
    view: View,
    Named(id): Named,
    Asked(wanted): Asked<Wanted>,
) -> Result<Page, Failed> {
    let document = view.see(Ask::get(&["documents", &id])).await?;
    let progress = view.see(Ask::get(&["documents", &id, "progress"])).await.unwrap_or_default();
    let manifest = |limit| Ask::get(&["documents", &id, "manifest"]).with("limit", Some(limit));
    let failed = failed(&view, &id).await;
    let from = (!wanted.from.is_empty()).then_some(&wanted.from);
    let pages = view.see(manifest(LIMIT).with("from", from)).await?;
    let state = text(&document, "state");
    Ok(view
        .page(short(text(&document, "name"), 90))
        .beside(html! { span.badge.(class(state)) { (state) } })
        .part("progress", progress_of(&view, &document, &progress))
        .part("failed", failures(&view, &id, &failed.0, failed.1))
        .part("pages", all(&view, &id, &pages, number(&document, "pages"))))
}

fn progress_of(view: &View, document: &Value, progress: &Value) -> Markup {
    let id = text(document, "id");
    let failed = list(progress, "phases").iter().any(|phase| number(phase, "failed") > 0);
    html! {
        @if let Some(failure) = document["failure"].as_str() { p.wrong { (failure) } }
        section.card aria-label="Progress" {
            (phases(list(progress, "phases")))
            p.minor {
                @if let Some(percent) = progress["percent"].as_f64() {
                    (format!("{percent:.0} %")) " done"
                }
                @if let Some(rate) = progress["rate_per_s"].as_f64() {
                    " · " (format!("{rate:.1}")) " per second"
                }
                @if let Some(eta) = progress["eta_ms"].as_u64() { " · about " (span(eta)) " left" }
            }
            dl.facts {
                div { dt { "Collection" } dd {
                    @let collection = text(document, "collection");
                    @let all = way(&["documents"]).with("collection", collection);
                    a href=(view.to(all.with("tenant", text(document, "tenant")))) {
                        (text(document, "collection"))
                    }
                } }
                div { dt { "Source" } dd { (short(text(document, "source"), 200)) } }
                div { dt { "Type" } dd { (text(document, "media_type")) } }
                div { dt { "Size" } dd { (bytes(number(document, "bytes"))) } }
                div { dt { "Version" } dd { (number(document, "generation"))
                    @if let Some(live) = document["live_generation"].as_u64() { ", found: " (live) }
                    } }
                div { dt { "Added" } dd { (when(&document["added_at"])) } }
                div { dt { "Published" } dd { (when(&document["published_at"])) } }
                @if let Some(item) = progress["item"].as_str() {
                    div {
                        dt { "Item" }
                        dd { a href=(view.to(way(&["queue", item]))) { "as an item of the queue" } }
                    }
                }
            }
            @if view.may(Role::Operator) {
                div.actions {
                    @if failed || text(document, "state") == "failed" {
                        (Act::post("Do again what failed", &["documents", id, "recover-failed"])
                            .says("What failed is in line again.").strong().button(view))
                    }
                    (Act::post("Do all again", &["documents", id, "reindex"])
                        .says("A new version is made; the old one is found until then.")
                        .button(view))
                    (Act::delete("Delete", &["documents", id])
                        .asks("Delete this document from everywhere?")
                        .says("The document is being removed.")
                        .then("documents").button(view))
                }
            }
            details.by-hand {
                summary { "Copy as command line" }
                (copied("", &view.command("documents show", id)))
                @let progress = format!("{}/api/v1/documents/{id}/progress", view.address());
                (copied("", &format!("curl {progress}")))
            }
        }
    }
}

/// The first pages that failed, and whether there may be more.
async fn failed(view: &View, id: &str) -> (Vec<Value>, bool) {
    let (mut pages, mut after) = (Vec::new(), None);
    for _ in 0..LOOKS {
        let limit = (FAILED - pages.len()).to_string();
        let ask = Ask::get(&["documents", id, "manifest"]).with("only", Some("failed"));
        let ask = ask.with("limit", Some(limit)).with("after", after);
        let Ok(found) = view.see(ask).await else { break };
        pages.extend(list(&found, "pages").iter().cloned());
        let Some(next) = found["next"].as_u64() else { return (pages, false) };
        after = Some(next.to_string());
        if pages.len() >= FAILED {
            break;
        }
    }
    (pages, true)
}

/// What failed, before everything else.
fn failures(view: &View, id: &str, pages: &[Value], has_more: bool) -> Markup {
    html! {
        @if !pages.is_empty() {
            section aria-labelledby="failed-title" {
                h2 #failed-title { "Failed pages" }
                (table(view, id, pages))
                @if has_more { p.note { "The first " (pages.len()) " are shown." } }
            }
        }
    }
}

fn all(view: &View, id: &str, manifest: &Value, total: u64) -> Markup {
    let pages = list(manifest, "pages");
    let first = pages.first().map_or(1, |page| number(page, "number"));
    let last = pages.last().map_or(0, |page| number(page, "number"));
    html! {
        section aria-labelledby="pages-title" {
            h2 #pages-title { "Pages " @if total > 0 { (first) "–" (last) " of " (total) } }
            @if pages.is_empty() { p.note { "This document has no pages yet." } }
            @else { (table(view, id, pages)) }
            nav.pages aria-label="Pages" {
                @if first > 1 {
                    a href=(view.to(way(&["documents", id]))) { "« First" }
                    @let before = first.saturating_sub(50).max(1).to_string();
                    a href=(view.to(way(&["documents", id]).with("from", &before))) { "‹ Before" }
                }
                @if last < total && last > 0 {
                    @let next = (last + 1).to_string();
                    a rel="next" href=(view.to(way(&["documents", id]).with("from", &next))) {
                        "Next ›"
                    }
                }
                @if total > 50 {
                    form.act method="get" action=(view.to(way(&["documents", id]))) {
                        label {
                            span { "Page" }
                            input.small type="number" name="from" min="1" max=(total) value=(first);
                        }
                        button type="submit" { "Go" }
                    }
                }
            }
        }
    }
}

fn table(view: &View, id: &str, pages: &[Value]) -> Markup {
    html! {
        div.scrolls {
            table.rows {
                (head(&["Page", "OCR", "Vectors", "Graph", "What happened"]))
                tbody {
                    @for page in pages {
                        @let number_of = number(page, "number").to_string();
                        tr data-key=(number_of) {
                            th scope="row" {
                                a.open href=(view.to(page_of(id, number(page, "number")))) {
                                    "Page " (number_of)
                                }
                            }
                            td {
                                (outcome(page))
                                @if let Some(how) = page["how"].as_str() {
                                    " " span.minor { (how) }
                                }
                            }
                            td { (share(page, "vector")) }
                            td { (share(page, "graph")) }
                            td.wide {
                                @if let Some(reason) = page["reason"].as_str() {
                                    (short(reason, 200))
                                }
                                @if let Some(item) = page["item"]["id"].as_str() {
                                    " " a.minor href=(view.to(way(&["queue", item]))) { "item" }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What became of a page, as a status.
fn outcome(page: &Value) -> Markup {
    match text(page, "outcome") {
        "read" => badge("completed"),
        "empty" | "blank" => badge("skipped"),
        "" | "unread" | "waiting" => badge("pending"),
        // It has no text, and the reason stands beside it.
        "without" => badge("failed"),
        other => badge(other),
    }
}

fn share(page: &Value, phase: &str) -> Markup {
    let (total, done) = (number(&page[phase], "total"), number(&page[phase], "done"));
    html! {
        @if total == 0 { span.none { "–" } }
        @else {
            span.minor { (done) "/" (total) }
            (bar(done, 0, total, &format!("{done} of {total} chunks")))
        }
    }
}
