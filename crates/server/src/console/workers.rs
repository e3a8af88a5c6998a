//! Workers: who is there, and what each runs now.

use maud::{Markup, html};
use serde_json::Value;

use super::act::Act;
use super::draw::{head, list, number, short, text, when};
use super::page::Page;
use super::view::View;
use super::way;
use crate::ask::Ask;
use crate::auth::Role;
use crate::http::Failed;

pub(super) async fn page(view: View) -> Result<Page, Failed> {
    let workers = view.see(Ask::get(&["workers"])).await?;
    let all = workers.as_array().map_or(&[][..], Vec::as_slice);
    let html = html! {
        @if all.is_empty() {
            p.note { "Nobody is here. A worker is anybody who claims: "
                code { "windrow work --queue thumbs -- ./make-thumbnail.sh" } }
        } @else {
            div.scrolls {
                table.rows {
                    (head(&["Worker", "Does", "#Holds", "Runs now", "Last seen", "~Drain"]))
                    tbody { @for worker in all { (row(&view, worker)) } }
                }
            }
        }
    };
    Ok(view.page("Workers").part("workers", html))
}

fn row(view: &View, worker: &Value) -> Markup {
    let name = text(worker, "name");
    let is_drained = worker["drained"] == true;
    let words = |field: &str| {
        let words: Vec<&str> = list(worker, field).iter().filter_map(Value::as_str).collect();
        words.join(", ")
    };
    let drain = match is_drained {
        true => Act::post("Resume", &["workers", name, "resume"])
            .says(format!("Worker {name} gets work again.")),
        false => Act::post("Drain", &["workers", name, "drain"])
            .says(format!("Worker {name} gets no more work, and finishes what it has.")),
    };
    html! {
        tr data-key=(name) {
            th scope="row" {
                (name)
                @if is_drained { " " span.badge.paused { "‖ drained" } }
            }
            td {
                @if worker["asked"] == false && number(worker, "leases") > 0 {
                    span.none title="Has not asked for work since the server started." { "?" }
                }
                (words("queues"))
                @if !list(worker, "stages").is_empty() { div.minor { (words("stages")) } }
            }
            td.number { (number(worker, "leases")) }
            td.wide {
                @for run in list(worker, "runs") {
                    div {
                        a.open href=(view.to(way(&["queue", text(run, "item")]))) {
                            (short(text(run, "queue"), 40)) " · " (text(run, "stage"))
                        }
                        " " (when(&run["since"]))
                    }
                }
                @if list(worker, "runs").is_empty() {
                    span.none {
                        @if number(worker, "waiting") > 0 { "waits for work" } @else { "–" }
                    }
                }
            }
            td { (when(&worker["last_seen"])) }
            td.acts { @if view.may(Role::Operator) { (drain.button(view)) } }
        }
    }
}
