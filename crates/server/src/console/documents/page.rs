//! One page of a document: how it looks, what it says, and the chunks it was cut into.

use std::sync::Arc;

use axum::extract::Path;
use maud::{Markup, html};
use serde_json::{Value, json};
use windrow_wire::problem::Code;

use super::super::act::Act;
use super::super::draw::{list, number, short, text};
use super::super::page::Page;
use super::super::view::View;
use super::super::way;
use super::super::way::page as page_of;
use crate::ask::Ask;
use crate::auth::Role;
use crate::http::Failed;

pub(in crate::console) async fn page(
    view: View,
    Path((id, number_of)): Path<(Arc<str>, Arc<str>)>,
) -> Result<Page, Failed> {
    let document = view.see(Ask::get(&["documents", &id])).await?;
    let page = view.see(Ask::get(&["documents", &id, "pages", &number_of])).await;
    let page = match page {
        Ok(page) => page,
        Err(failed) if failed.code() == Code::NotFound => Value::Null,
        Err(failed) => return Err(failed),
    };
    let total = number(&document, "pages");
    let at: u64 = number_of.parse().unwrap_or(1);
    let beside = html! {
        nav aria-label="Pages" {
            a href=(view.to(way(&["documents", &id]))) { "All pages" }
            @if at > 1 {
                " · "
                a rel="prev" href=(view.to(page_of(&id, at - 1))) {
                    "‹ " (at - 1)
                }
            }
            @if at < total {
                " · "
                a rel="next" href=(view.to(page_of(&id, at + 1))) {
                    (at + 1) " ›"
                }
            }
        }
    };
    let title = format!("{}, page {at}", short(text(&document, "name"), 80));
    let manifest = Ask::get(&["documents", &id, "manifest"]);
    let manifest = manifest.with("from", Some(&*number_of)).with("limit", Some("1"));
    let manifest = view.see(manifest).await.unwrap_or_default();
    let item = list(&manifest, "pages").first().and_then(|page| page["item"]["id"].as_str());
    Ok(view
        .page(title)
        .beside(beside)
        .part("state", state(&view, &document, &page, item))
        .part("panes", panes(&view, &id, &document, &page, at)))
}

fn state(view: &View, document: &Value, page: &Value, item: Option<&str>) -> Markup {
    let reason = page["reason"].as_str().or_else(|| document["failure"].as_str());
    html! {
        @if let Some(reason) = reason { p.wrong { (reason) } }
        @if page.is_null() { p.note { "This page is not read yet." } }
        @if let Some(item) = item {
            div.actions {
                a href=(view.to(way(&["queue", item]))) { "Why it is where it is" }
                @if view.may(Role::Operator) {
                    @for (name, stage) in [("Read again", "ocr"), ("Cut again", "chunk")] {
                        " "
                        (Act::post(name, &["queue", item, "retry"])
                            .with(json!({ "from_stage": stage, "mode": "reset" }))
                            .says("The page is in line again.").button(view))
                    }
                }
            }
        }
    }
}

/// The picture on one side, the text and its chunks on the other.
fn panes(view: &View, id: &str, document: &Value, page: &Value, at: u64) -> Markup {
    let kind = text(document, "media_type");
    let has_picture = kind == "application/pdf" || kind.starts_with("image/");
    let chunks = list(page, "chunks");
    let image = way(&["api", "v1", "documents", id, "pages", &at.to_string(), "image"]);
    html! {
        div.panes {
            div {
                @if has_picture {
                    img src=(view.to(image)) alt={ "Page " (at) } loading="lazy";
                } @else { p.note { "This file has no pictures of its pages." } }
                h2 { "Text" }
                div.text { (places(text(page, "markdown"), chunks)) }
            }
            div {
                h2 { "Chunks" }
                @if chunks.is_empty() { p.note { "This page is not cut yet." } }
                @for chunk in chunks { (chunk_of(chunk)) }
            }
        }
    }
}

fn chunk_of(chunk: &Value) -> Markup {
    let id = text(chunk, "id");
    let path: Vec<&str> =
        list(&chunk["metadata"], "heading_path").iter().filter_map(Value::as_str).collect();
    html! {
        article.chunk id={ "c-" (id) } {
            h3 {
                a href={ "#p-" (id) } { "Chunk " (number(chunk, "index") + 1) }
                @if !path.is_empty() { " " span.minor { (path.join(" › ")) } }
            }
            p.snippet { (short(text(chunk, "text"), 1_500)) }
            p.minor {
                (text(chunk, "kind")) " · " (number(chunk, "tokens")) " tokens · "
                @match chunk["embedded_by"].as_str() {
                    Some(by) => { "vector by " (by) },
                    None => "no vector yet",
                }
                " · " @if chunk["is_linked"] == true { "in the graph" } @else { "not in the graph" }
            }
        }
    }
}

/// The text of a page in which each chunk has its place, which leads to it and is led to.
fn places(said: &str, chunks: &[Value]) -> Markup {
    let mut at = 0;
    let mut pieces: Vec<(&str, Option<(&str, &str)>)> = Vec::new();
    for chunk in chunks {
        let place = |field: &str| usize::try_from(number(chunk, field)).unwrap_or(usize::MAX);
        let (begins, ends) = (place("begins").max(at), place("ends"));
        // What overlaps with the chunk before is shown once.
        let (Some(before), Some(inside)) = (said.get(at..begins), said.get(begins..ends)) else {
            continue;
        };
        pieces.push((before, Some((text(chunk, "id"), inside))));
        at = ends;
    }
    pieces.push((said.get(at..).unwrap_or_default(), None));
    html! {
        @for (before, place) in pieces {
            @if !before.trim().is_empty() { span.place { (before) } }
            @if let Some((id, inside)) = place {
                a.place id={ "p-" (id) } href={ "#c-" (id) } { (inside) }
            }
        }
    }
}
