//! The graph: entities around a chosen one, as a picture that is drawn here, and as a table.

use std::collections::HashMap;
use std::f64::consts::TAU;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::super::draw::{head, list, number, short, text};
use super::super::page::Page;
use super::super::search::snippet;
use super::super::view::View;
use super::super::way;
use super::super::way::passage;
use crate::ask::Ask;
use crate::http::{Asked, Failed};

/// The picture, in units of its own.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 640.0;
/// Names that are written beside their circles.
const NAMED: usize = 60;

#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(in crate::console) struct Wanted {
    entity: String,
    #[serde(rename = "type")]
    kind: String,
    q: String,
    collection: String,
    tenant: String,
}

impl Wanted {
    fn way(&self, entity: &str) -> impl std::fmt::Display + use<> {
        let of = way(&["documents", "graph"]).with("entity", entity).with("type", &self.kind);
        of.with("collection", &self.collection).with("tenant", &self.tenant)
    }
}

pub(in crate::console) async fn page(
    view: View,
    Asked(wanted): Asked<Wanted>,
) -> Result<Page, Failed> {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let ask = Ask::get(&["documents", "graph"]).with("entity", some(&wanted.entity));
    let ask = ask.with("type", some(&wanted.kind)).with("q", some(&wanted.q));
    let ask = ask.with("collection", some(&wanted.collection)).with("tenant", some(&wanted.tenant));
    let graph = view.see(ask).await?;
    let page = view.page("Graph").still().part("filter", filter(&view, &graph, &wanted));
    let page = page.part("picture", picture(&view, &graph, &wanted));
    let chosen = match graph["centre"].as_str() {
        Some(centre) => {
            let ask = Ask::get(&["documents", "graph", "entities", centre]);
            view.see(ask.with("tenant", some(&wanted.tenant))).await.ok()
        }
        None => None,
    };
    Ok(page
        .part("chosen", said(&view, chosen.as_ref()))
        .part("table", table(&view, &graph, &wanted)))
}

fn filter(view: &View, graph: &Value, wanted: &Wanted) -> Markup {
    html! {
        form.filter role="search" method="get" action=(view.to("documents/graph")) {
            label for="q" { "Entity" }
            input #q type="search" name="q" value=(wanted.q) data-focus="/";
            label for="type" { "Type" }
            select #type name="type" data-submits {
                option value="" { "any" }
                @for kind in list(graph, "types") {
                    @let name = text(kind, "type");
                    option value=(name) selected[name == wanted.kind] {
                        (name) " (" (number(kind, "entities")) ")"
                    }
                }
            }
            label for="collection" { "Collection" }
            input #collection name="collection" value=(wanted.collection) placeholder="any";
            label for="tenant" { "Tenant" }
            input #tenant name="tenant" value=(wanted.tenant) placeholder="default";
            button type="submit" { "Show" }
        }
    }
}

/// Where each entity stands: the chosen one in the middle, the others in rings by distance.
fn placed(entities: &[Value]) -> HashMap<&str, (f64, f64)> {
    let mut rings: Vec<Vec<&str>> = Vec::new();
    for entity in entities {
        // What was looked for by name is around nothing, and stands in a ring of its own.
        let ring = match entity["distance"].as_u64() {
            Some(distance) => usize::try_from(distance).unwrap_or_default().min(8),
            None => 1,
        };
        rings.resize_with(rings.len().max(ring + 1), Vec::new);
        rings[ring].push(text(entity, "id"));
    }
    let outer = rings.len().saturating_sub(1).max(1) as f64;
    let mut places = HashMap::new();
    for (ring, ids) in rings.iter().enumerate() {
        let radius = ring as f64 / outer * 0.88;
        for (at, id) in ids.iter().enumerate() {
            // Two rows in a crowded ring, so that names do not lie on each other.
            let radius = if ids.len() > 24 && at % 2 == 1 { radius * 0.82 } else { radius };
            let angle = TAU * at as f64 / ids.len() as f64 + ring as f64 * 0.5;
            let x = WIDTH / 2.0 * (1.0 + radius * angle.cos());
            places.insert(*id, (x, HEIGHT / 2.0 * (1.0 + radius * angle.sin())));
        }
    }
    places
}

fn picture(view: &View, graph: &Value, wanted: &Wanted) -> Markup {
    let entities = list(graph, "entities");
    let places = placed(entities);
    let centre = text(graph, "centre");
    let named = |of: f64| format!("{of:.1}");
    let most = entities.iter().map(|entity| number(entity, "mentions")).max().unwrap_or(1).max(1);
    html! {
        @if entities.is_empty() {
            p.note {
                @if wanted.q.is_empty() {
                    "Nothing is known here yet. The graph is made of what documents mention."
                } @else { "No entity has " b { (short(&wanted.q, 100)) } " in its name." }
            }
        }
        @else {
            svg.graph viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="group"
                aria-label={
                    "Entities and how they belong together, " (entities.len())
                    " of them; the table below says the same"
                } {
                @for said in list(graph, "relationships") {
                    @let ends = ["from", "to"].map(|end| places.get(text(said, end)));
                    @if let [Some((x1, y1)), Some((x2, y2))] = ends {
                        line x1=(named(*x1)) y1=(named(*y1)) x2=(named(*x2)) y2=(named(*y2)) {
                            title { (text(said, "kind")) }
                        }
                    }
                }
                @for (at, entity) in entities.iter().enumerate() {
                    @let id = text(entity, "id");
                    @if let Some((x, y)) = places.get(id) {
                        @let class = (id == centre).then_some("centre");
                        a href=(view.to(wanted.way(id))) class=[class] {
                            title {
                                (text(entity, "name")) " · " (text(entity, "type")) " · "
                                (number(entity, "mentions")) " mentions"
                            }
                            circle cx=(named(*x)) cy=(named(*y))
                                r=(named(radius(number(entity, "mentions"), most))) {
                                }
                            @if at < NAMED {
                                text x=(named(*x)) y=(named(y - 12.0)) {
                                    (short(text(entity, "name"), 22))
                                }
                            }
                        }
                    }
                }
            }
            @if graph["is_cut"] == true { p.note { "The nearest " (entities.len()) " are shown." } }
        }
    }
}

/// How large a circle is: its area says how often something is mentioned.
fn radius(mentions: u64, most: u64) -> f64 {
    5.0 + 9.0 * (mentions as f64 / most as f64).sqrt()
}

/// Where the chosen one is mentioned.
fn said(view: &View, chosen: Option<&Value>) -> Markup {
    let Some(chosen) = chosen else { return html! {} };
    let entity = if chosen["entity"].is_object() { &chosen["entity"] } else { chosen };
    html! {
        section aria-labelledby="chosen-title" {
            h2 #chosen-title { (text(entity, "name")) " " span.minor { (text(entity, "type")) } }
            @let description = text(entity, "description");
            @if !description.is_empty() { p { (short(description, 400)) } }
            ul {
                @for chunk in list(chosen, "chunks") {
                    @let page = number(chunk, "page").to_string();
                    li {
                        a href=(view.to(passage(chunk))) {
                            (text(chunk, "name")) ", page " (page)
                        }
                        " " div.minor.snippet { (snippet(&chunk["snippet"])) }
                    }
                }
            }
        }
    }
}

fn table(view: &View, graph: &Value, wanted: &Wanted) -> Markup {
    let entities = list(graph, "entities");
    let names: HashMap<&str, &str> =
        entities.iter().map(|entity| (text(entity, "id"), text(entity, "name"))).collect();
    html! {
        details open {
            summary { "As a table" }
            div.scrolls {
                table.rows {
                    (head(&["Entity", "Type", "#Mentions"]))
                    tbody {
                        @for entity in entities {
                            tr {
                                th scope="row" {
                                    a.open href=(view.to(wanted.way(text(entity, "id")))) {
                                        (text(entity, "name"))
                                    }
                                }
                                td { (text(entity, "type")) }
                                td.number { (number(entity, "mentions")) }
                            }
                        }
                    }
                }
                table {
                    (head(&["From", "Is", "To", "Said in"]))
                    tbody {
                        @for said in list(graph, "relationships").iter().take(200) {
                            tr {
                                td { (names.get(text(said, "from")).unwrap_or(&"")) }
                                td { (text(said, "kind")) }
                                td { (names.get(text(said, "to")).unwrap_or(&"")) }
                                td {
                                    @for chunk in list(said, "chunks") {
                                        @let page = number(chunk, "page").to_string();
                                        a href=(view.to(passage(chunk))) {
                                            (short(text(chunk, "name"), 40)) " p. " (page)
                                        }
                                        " "
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
