//! Sources: folders that are watched for documents.

use maud::{Markup, html};
use serde_json::Value;

use super::act::Act;
use super::draw::{class, copied, grouped, list, number, short, text, when};
use super::page::Page;
use super::view::View;
use super::way;
use crate::ask::Ask;
use crate::auth::Role;
use crate::http::Failed;

pub(super) async fn page(view: View) -> Result<Page, Failed> {
    let sources = view.see(Ask::get(&["sources"])).await?;
    let all = sources.as_array().map_or(&[][..], Vec::as_slice);
    let html = html! {
        @if all.is_empty() {
            p { "No folder is watched yet." }
            @let papers = format!("{}/api/v1/sources/papers", view.address());
            (copied("", &format!("curl -X PUT {papers} -H 'content-type: application/json' \
                -d '{{\"path\":\"/srv/papers\"}}'")))
            p.note { "Or let a server of your own read it and watch it: "
                code { "windrow up ./papers" } }
        }
        @for source in all { (shown(&view, source)) }
    };
    Ok(view.page("Sources").part("sources", html))
}

fn shown(view: &View, source: &Value) -> Markup {
    let (name, tenant, state) =
        (text(source, "name"), text(source, "tenant"), text(source, "state"));
    let scan = &source["scan"];
    let collection = text(source, "collection");
    let documents = way(&["documents"]).with("collection", collection).with("tenant", tenant);
    let act = |label: &'static str, verb: &str| {
        Act::post(label, &["sources", name, verb]).asking("tenant", tenant)
    };
    html! {
        section.card {
            h2 { (name) " " span.badge.(class(state)) { (state) } }
            p { code { (text(source, "path")) } " on " (text(source, "host")) }
            @if let Some(error) = source["last_error"].as_str() { p.wrong { (short(error, 400)) } }
            dl.facts {
                div { dt { "Collection" } dd {
                    a href=(view.to(documents)) {
                        (collection)
                    }
                } }
                div { dt { "Files" } dd { (grouped(number(scan, "files"))) } }
                div { dt { "Looked" } dd { (when(&source["last_scan"])) } }
                div { dt { "Looks again" } dd { (when(&source["next_scan"])) } }
                div { dt { "What is gone" } dd { (text(source, "on_missing")) } }
                div { dt { "Not taken" } dd { (number(scan, "not_taken")) } }
            }
            @if !list(scan, "problems").is_empty() {
                details {
                    summary { "Problems" }
                    ul { @for problem in list(scan, "problems") {
                        li {
                            @let said = problem.as_str().map(str::to_owned);
                            (short(&said.unwrap_or_else(|| problem.to_string()), 300))
                        }
                    } }
                }
            }
            @if view.may(Role::Admin) {
                div.actions {
                    (act("Rescan", "rescan")
                        .says(format!("Source {name} is looked at again.")).button(view))
                    @if state == "paused" { (act("Resume", "resume").button(view)) }
                    @else { (act("Pause", "pause").button(view)) }
                    (Act::delete("Forget", &["sources", name]).asking("tenant", tenant)
                        .asks("Watch this folder no more? Its documents stay.").button(view))
                }
            }
        }
    }
}
