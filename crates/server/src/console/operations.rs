//! Doing something to many items: counted first, then done in the background.
//!
//! Pressing a button counts what it would touch (a dry run of the API). The page of that count is
//! the question; pressing again does it, and the same page shows how far it is.

use axum::body::Bytes;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Value, json};
use windrow_wire::filter::written;
use windrow_wire::list::Filter;

use super::act::{Act, Sent, back, quoted};
use super::draw::{badge, bar, class, copied, grouped, number, text, when};
use super::page::{Page, see_other};
use super::view::View;
use super::way;
use super::way::items;
use crate::ask::Ask;
use crate::auth::Role;
use crate::http::{Failed, Named};

/// What can be done to many, as the buttons say it.
pub(super) const VERBS: [(&str, &str); 4] = [
    ("retry", "Retry"),
    ("cancel", "Cancel"),
    ("delete", "Delete"),
    ("prioritise", "Re-prioritise"),
];

/// A button that asks how many it would touch.
pub(super) fn button(view: &View, verb: &str, name: &str, filter: &str) -> Markup {
    html! {
        form.act method="post" action=(view.to("operations")) {
            (back(view))
            input type="hidden" name="verb" value=(verb);
            input type="hidden" name="filter" value=(filter);
            button type="submit" { (name) }
        }
    }
}

/// Counts what would be touched, and shows it; or does it to what was selected, of which everybody
/// saw how many there are.
pub(super) async fn begin(view: View, body: Bytes) -> Result<Response, Failed> {
    let sent = Sent::read(&body);
    let verb = sent.get("verb").unwrap_or_default();
    let filter = match sent.get("which") {
        Some("all") => sent.get("matching"),
        Some(_) => None,
        None => sent.get("filter"),
    };
    let Some(filter) = filter else { return to_selected(&view, &sent, verb).await };
    let mut wanted = json!({ "verb": verb, "filter": filter, "dry_run": true });
    if filter.is_empty() {
        wanted["all"] = json!(true);
    }
    priority(&sent, verb, &mut wanted)?;
    Ok(started(&view, &wanted).await.unwrap_or_else(|failed| sent.back(&view, "", Err(failed))))
}

fn priority(sent: &Sent, verb: &str, wanted: &mut Value) -> Result<(), Failed> {
    if verb == "prioritise" {
        wanted["priority"] = json!(sent.number("priority")?.unwrap_or(8));
    }
    Ok(())
}

/// Does it to each of some items, which are those of one page at most.
async fn to_selected(view: &View, sent: &Sent, verb: &str) -> Result<Response, Failed> {
    let selected: Vec<&str> = sent.all("id").collect();
    let (mut done, mut refused, mut why) = (0, 0, None);
    for id in &selected {
        let ask = match verb {
            "delete" => Ok(Ask::delete(&["queue", id])),
            "prioritise" => {
                let mut body = json!({});
                priority(sent, verb, &mut body)?;
                Ask::post(&["queue", id, "prioritise"]).json(&body)
            }
            "retry" => Ask::post(&["queue", id, "retry"]).json(&json!({ "mode": "reset" })),
            _ => Ok(Ask::post(&["queue", id, "cancel"])),
        };
        match view.ask(ask.map_err(|error| Failed::malformed(error.to_string()))?).await {
            Ok(_) => done += 1,
            Err(failed) => {
                refused += 1;
                why.get_or_insert(failed.detail().to_owned());
            }
        }
    }
    let name = VERBS.iter().find(|(name, _)| *name == verb).map_or("Done", |(_, name)| name);
    let said = match (selected.is_empty(), why) {
        (true, _) => "Nothing is selected.".to_owned(),
        (_, None) => format!("{name}: {done} done."),
        (_, Some(why)) => format!("{name}: {done} done, {refused} not: {why}"),
    };
    Ok(sent.back(view, "queue", Ok(said)))
}

pub(super) async fn page(view: View, Named(id): Named) -> Result<Page, Failed> {
    let operation = view.see(Ask::get(&["operations", &id])).await?;
    let verb = text(&operation, "verb");
    let name = VERBS.iter().find(|(known, _)| *known == verb).map_or("Change", |(_, name)| name);
    let page = view.page(format!("{name} many"));
    Ok(page.part("operation", shown(&view, &operation, name)))
}

fn shown(view: &View, operation: &Value, name: &str) -> Markup {
    let state = text(operation, "state");
    let (matched, done) = (number(operation, "matched"), number(operation, "done"));
    let refused = number(operation, "refused");
    let is_count = operation["dry_run"] == true;
    let is_over = !operation["ended_at"].is_null();
    let filter = said(&operation["filter"]);
    let (count, verb) = (grouped(matched), text(operation, "verb"));
    html! {
        section.operation {
            p.big {
                @if is_count && !is_over { "Counting… " b { (count) } " so far" }
                @else if is_count { b { (count) } " items match"
                    @if refused > 0 { ", " b { (grouped(refused)) } " would be refused" } }
                @else if is_over { b { (grouped(done)) } " done"
                    @if refused > 0 { ", " b { (grouped(refused)) } " not" } }
                @else { b { (grouped(done)) } " of " (count) " so far" }
            }
            p { "Filter: "
                a href=(view.to(items(&filter))) {
                    @if filter.is_empty() { "everything" } @else { code { (filter) } }
                }
                @if let Some(priority) = operation["priority"].as_u64() {
                    " · priority " (priority)
                }
                @for key in ["mode", "from_stage"] {
                    @if let Some(said) = operation[key].as_str() { " · " (key) " " (said) }
                }
            }
            @if !is_count { (bar(done, refused, matched.max(1), &format!("{done} of {matched}"))) }
            p {
                @if is_count && is_over { "Counted; nothing is changed yet." }
                @else {
                    span.badge.(class(state)) { (state) } " begun " (when(&operation["started_at"]))
                }
            }
            @if let Some(message) = operation["message"].as_str() { p.wrong { (message) } }
            @if let Some(refusals) = operation["refusals"].as_object().filter(|r| !r.is_empty()) {
                h2 { @if is_count { "Would be refused" } @else { "Not done" } }
                table {
                    tbody {
                        @for (code, count) in refusals {
                            tr {
                                th scope="row" {
                                    a href=(view.to(format!("docs/errors/{code}.md"))) { (code) }
                                }
                                td.number { (count) }
                            }
                        }
                    }
                }
            }
            @if view.may(Role::Operator) {
                @if is_count && is_over && matched > 0 { (again(view, operation, name, matched)) }
                @if !is_over {
                    (Act::post("Stop", &["operations", text(operation, "id"), "cancel"])
                        .says("The operation stops; what is done stays done.").button(view))
                }
            }
            @if is_count && is_over && matched == 0 { p.note { "Nothing is to be done." } }
            p { a href=(view.to("queue")) { "To the queue" } }
            (copied("By hand", &by_hand(view, operation, &filter)))
            @if verb == "retry" && !is_count {
                p.note { "Each failed item is in line again: " (badge("pending")) }
            }
        }
    }
}

/// The same from a shell. Without `--yes` it counts first, as here.
fn by_hand(view: &View, operation: &Value, filter: &str) -> String {
    let mut words = Vec::new();
    if let Some(priority) = operation["priority"].as_u64() {
        words.push(format!("--priority {priority}"));
    }
    if operation["mode"] == "clone" {
        words.push("--clone".to_owned());
    }
    if let Some(stage) = operation["from_stage"].as_str() {
        words.push(format!("--from-stage='{}'", quoted(stage)));
    }
    words.push(match filter {
        "" => "--all".to_owned(),
        // Whatever it begins with, it is no flag.
        filter => format!("-- '{}'", quoted(filter)),
    });
    view.command(text(operation, "verb"), words.join(" "))
}

/// The button that does what was counted.
fn again(view: &View, operation: &Value, name: &str, matched: u64) -> Markup {
    html! {
        form.act method="post" action=(view.to("operations/confirm")) {
            input type="hidden" name="of" value=(text(operation, "id"));
            button.strong type="submit" { (name) " " (grouped(matched)) " items" }
        }
    }
}

/// Does what was counted, to what the count says that it was about and to nothing else.
pub(super) async fn confirm(view: View, body: Bytes) -> Result<Response, Failed> {
    let sent = Sent::read(&body);
    let of = sent.get("of").ok_or_else(|| Failed::malformed("the form names no count"))?;
    let counted = view.see(Ask::get(&["operations", of])).await?;
    let mut wanted = json!({ "verb": counted["verb"], "filter": counted["filter"] });
    if counted["filter"].as_object().is_some_and(serde_json::Map::is_empty) {
        wanted["all"] = json!(true);
    }
    for key in ["priority", "mode", "from_stage"] {
        if !counted[key].is_null() {
            wanted[key] = counted[key].clone();
        }
    }
    started(&view, &wanted).await
}

/// Begins an operation, and leads to its page.
async fn started(view: &View, wanted: &Value) -> Result<Response, Failed> {
    let ask = Ask::post(&["operations"]).json(wanted);
    let begun = view.see(ask.map_err(|error| Failed::malformed(error.to_string()))?).await?;
    Ok(see_other(&view.to(way(&["operations", text(&begun, "id")]))))
}

/// A filter by its fields, as people write it.
fn said(filter: &Value) -> String {
    serde_json::from_value::<Filter>(filter.clone())
        .map_or_else(|_| filter.to_string(), |filter| written(&filter))
}
