//! One item: what it is, what happened to it, why it is where it is, and what to do about it.

use std::collections::HashMap;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::draw::{
    age_ms, badge, bar, copied, head, json, list, missing, number, short, text, when,
};
use super::overview::filtered;
use super::page::Page;
use super::queue::{acts, named, result};
use super::view::{View, time};
use super::way;
use super::way::items;
use crate::ask::Ask;
use crate::auth::Role;
use crate::cli::show::{now, span};
use crate::http::{Asked, Failed, Named};

/// Children that are shown on the page of their parent.
const CHILDREN: &str = "50";

#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Wanted {
    tab: String,
}

/// What was sent, and what came of it.
const RAW: [&str; 4] = ["payload", "payload_base64", "payload_ref", "metadata"];
const EXTRACTED: [&str; 4] = ["result", "output", "progress", "reason"];

const TABS: [(&str, &str); 4] =
    [("raw", "Raw"), ("extracted", "Extracted"), ("error", "Error"), ("events", "Events")];

pub(super) async fn page(
    view: View,
    Named(id): Named,
    Asked(wanted): Asked<Wanted>,
) -> Result<Page, Failed> {
    let body = view.ask(Ask::get(&["queue", &id])).await?;
    let item: Value = serde_json::from_slice(&body).unwrap_or_default();
    // As it was said, digit by digit.
    let exact: HashMap<&str, &RawValue> = serde_json::from_slice(&body).unwrap_or_default();
    let page = view.page(short(&named(&item), 80)).beside(badge(text(&item, "status")));
    let page = page
        .part("explain", explain(&view, &id, &item).await)
        .part("facts", facts(&view, &item))
        .part("timeline", timeline(&item));
    let page = match item["children"].is_object() {
        true => page.part("below", below(&view, &id, &item).await),
        false => page,
    };
    Ok(page
        .part("tabs", tabs(&view, &id, &item, &exact, &wanted.tab).await)
        .part("by-hand", by_hand(&view, &id, text(&item, "status"))))
}

/// Why it is where it is, and what would move it.
async fn explain(view: &View, id: &str, item: &Value) -> Markup {
    let explained = match view.see(Ask::get(&["queue", id, "explain"])).await {
        Ok(explained) => explained,
        Err(failed) => return missing("Why it is where it is", &failed),
    };
    html! {
        section.explain aria-label="Explain" {
            h2 { "Why it is " (text(&explained, "status")) }
            @if let Some(said) = said_last(item) { p.error { (short(said, 1_000)) } }
            ul {
                @for reason in list(&explained, "reasons") {
                    li {
                        b { (text(reason, "code").replace('_', " ")) }
                        @for (name, value) in facts_of(reason) { " · " (name) " " (value) }
                        @let unblocked = text(reason, "unblocked_by");
                        @if !unblocked.is_empty() { br; span.remedy { "→ " (unblocked) } }
                    }
                }
            }
            @if view.may(Role::Operator) {
                div.actions {
                    @for act in acts(id, text(&explained, "status")) { (act.button(view)) }
                }
            }
        }
    }
}

/// What went wrong last, or why it ended as it did.
fn said_last(item: &Value) -> Option<&str> {
    let failed = list(item, "stages").iter().rev();
    let mut failed = failed.filter_map(|stage| stage["error"]["message"].as_str());
    item["error"]["message"].as_str().or_else(|| failed.next()).or(item["reason"].as_str())
}

/// What else a reason says.
fn facts_of(reason: &Value) -> Vec<(String, Markup)> {
    let fields = reason.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, _)| !matches!(name.as_str(), "code" | "unblocked_by"));
    let shown = |value: &Value| match (time(value), value) {
        (Some(_), value) => when(value),
        (None, Value::String(text)) => html! { (short(text, 300)) },
        (None, other) => html! { (short(&other.to_string(), 300)) },
    };
    fields.filter(|(_, v)| !v.is_null()).map(|(n, v)| (n.replace('_', " "), shown(v))).collect()
}

fn facts(view: &View, item: &Value) -> Markup {
    let lease = &item["expires_at"];
    let left = time(lease).filter(|at| *at > now()).map(|at| span(at.since(now())));
    let plain = [
        ("Kind", text(item, "kind")),
        ("Tenant", text(item, "tenant")),
        ("Collection", text(item, "collection")),
        ("Branch", text(item, "branch")),
        ("Source", text(item, "source_type")),
        ("Info", text(item, "source_info")),
        ("Key", text(item, "key")),
        ("Group", text(item, "group")),
        ("Worker", text(item, "worker")),
    ];
    html! {
        section aria-label="Facts" {
            dl.facts {
                div { dt { "Id" } dd { code { (text(item, "id")) } } }
                div { dt { "Queue" } dd {
                    a href=(view.to(items(&filtered("", text(item, "queue"), "")))) {
                        (text(item, "queue"))
                    }
                } }
                div { dt { "Stage" } dd { (text(item, "stage")) } }
                @for (name, value) in plain {
                    @if !value.is_empty() { div { dt { (name) } dd { (short(value, 300)) } } }
                }
                div { dt { "Priority" } dd { (number(item, "priority")) } }
                div { dt { "Attempts" } dd { (number(item, "attempts")) } }
                div { dt { "Created" } dd { (when(&item["created_at"])) } }
                @if !item["finished_at"].is_null() {
                    div { dt { "Finished" } dd { (when(&item["finished_at"])) } }
                }
                @if !item["not_before"].is_null() {
                    div { dt { "Not before" } dd { (when(&item["not_before"])) } }
                }
                @if let Some(left) = left {
                    div { dt { "Lease" } dd data-until=[lease.as_str()] { "ends in " (left) } }
                }
                @if item["ref"].is_string() { div { dt { "Result" } dd { (result(view, item)) } } }
                @if let Some(parent) = item["parent"].as_str() {
                    div {
                        dt { "Part of" }
                        dd { a href=(view.to(way(&["queue", parent]))) { (parent) } }
                    }
                }
                @if let Some(from) = item["cloned_from"].as_str() {
                    div {
                        dt { "Clone of" } dd { a href=(view.to(way(&["queue", from]))) { (from) } }
                    }
                }
            }
        }
    }
}

/// What happened, stage by stage and attempt by attempt.
fn timeline(item: &Value) -> Markup {
    let stages = list(item, "stages");
    html! {
        section aria-labelledby="timeline-title" {
            h2 #timeline-title { "Timeline" }
            ol.timeline {
                li { span.what { "enqueued" } " " (when(&item["created_at"])) }
                @for attempt in list(item, "log") {
                    li.(super::draw::class(ending(attempt))) {
                        span.what {
                            (text(attempt, "stage")) " · attempt " (number(attempt, "number"))
                            ": " (text(attempt, "ending"))
                        }
                        " " (when(&attempt["started_at"]))
                        @if let Some(took) = took(attempt) { span.minor { " took " (took) } }
                        @if let Some(worker) = attempt["worker"].as_str() {
                            span.minor { " by " (worker) }
                        }
                        @let error = text(&attempt["error"], "message");
                        @if !error.is_empty() { p.error { (short(error, 2_000)) } }
                    }
                }
                @for stage in stages.iter().filter(|stage| text(stage, "status") == "processing") {
                    li.processing {
                        span.what { (text(stage, "name")) " runs" } " " (when(&stage["started_at"]))
                        @if let Some(worker) = stage["worker"].as_str() {
                            span.minor { " by " (worker) }
                        }
                    }
                }
                @if !item["finished_at"].is_null() {
                    li.(super::draw::class(text(item, "status"))) {
                        span.what { (text(item, "status")) } " " (when(&item["finished_at"]))
                    }
                }
            }
            @if stages.len() > 1 {
                table {
                    (head(&["Stage", "Status", "#Attempts", "Error"]))
                    tbody {
                        @for stage in stages {
                            tr {
                                th scope="row" { (text(stage, "name")) }
                                td { (badge(text(stage, "status"))) }
                                td.number { (number(stage, "attempts")) }
                                td.wide { (short(text(&stage["error"], "message"), 300)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// How an attempt ended, as a status whose colour it has.
fn ending(attempt: &Value) -> &str {
    match text(attempt, "ending") {
        "failed" | "expired" | "lost" => "failed",
        "completed" | "split" | "advanced" => "completed",
        other => other,
    }
}

fn took(attempt: &Value) -> Option<String> {
    let (from, to) = (age_ms(&attempt["started_at"])?, age_ms(&attempt["ended_at"])?);
    let ms = from.saturating_sub(to);
    Some(if ms < 1_000 { format!("{ms} ms") } else { span(ms) })
}

/// What it was split into.
async fn below(view: &View, id: &str, item: &Value) -> Markup {
    let children = &item["children"];
    let total = number(children, "total");
    let tree = view.see(Ask::get(&["queue", id, "tree"]).with("limit", Some(CHILDREN))).await;
    html! {
        section aria-labelledby="below-title" {
            h2 #below-title { "Below it" }
            (bar(number(children, "completed"), number(children, "failed"), total.max(1),
                &format!("{} of {total} done", number(children, "completed"))))
            @match tree {
                Err(failed) => (missing("The tree", &failed)),
                Ok(tree) => {
                    table.rows {
                        tbody {
                            @for child in list(&tree, "children") {
                                @let child = if child["item"].is_object() { &child["item"] }
                                else { child }
                                ;
                                tr {
                                    td { (badge(text(child, "status"))) }
                                    td.wide {
                                        a.open href=(view.to(way(&["queue", text(child, "id")]))) {
                                            (named(child))
                                        }
                                    }
                                    td { (text(child, "stage")) }
                                    td { (when(&child["created_at"])) }
                                }
                            }
                        }
                    }
                    @if !tree["next"].is_null() { p.note { "The first " (CHILDREN) " are shown." } }
                }
            }
        }
    }
}

/// What was sent, what came out of it, what went wrong, and what happened, exactly.
async fn tabs(
    view: &View,
    id: &str,
    item: &Value,
    exact: &HashMap<&str, &RawValue>,
    tab: &str,
) -> Markup {
    let has_error = item["error"].is_object();
    let tab = match tab {
        "" if has_error => "error",
        "" => "raw",
        tab => tab,
    };
    html! {
        section aria-label="Exactly" {
            nav.tabs aria-label="What is shown" {
                @for (name, label) in TABS {
                    a href=(view.to(format!("{}#tabs", way(&["queue", id]).with("tab", name))))
                        aria-current=[(name == tab).then_some("true")] { (label) }
                }
            }
            @match tab {
                "extracted"
                => (exactly(view, exact, &EXTRACTED, "No result yet.")),
                "error" => (exactly(view, exact, &["error", "reason"], "Nothing went wrong.")),
                "events" => (events(view, id).await),
                _ => (exactly(view, exact, &RAW, "This item has no payload.")),
            }
        }
    }
}

fn exactly(view: &View, exact: &HashMap<&str, &RawValue>, names: &[&str], none: &str) -> Markup {
    let some: Vec<_> = names.iter().filter_map(|name| Some((*name, *exact.get(name)?))).collect();
    html! {
        @if some.is_empty() { p.note { (none) } }
        @for (name, raw) in some {
            h3 { (name.replace('_', " ")) }
            (json(raw.get(), &view.redacted))
        }
    }
}

async fn events(view: &View, id: &str) -> Markup {
    let events = match view.see(Ask::get(&["queue", id, "events"])).await {
        Ok(events) => events,
        Err(failed) => return missing("What happened", &failed),
    };
    html! {
        div.scrolls {
            table {
                (head(&["When", "What", "Stage", "Worker", "By"]))
                tbody {
                    @for event in events.as_array().into_iter().flatten() {
                        tr {
                            td { (when(&event["at"])) }
                            td {
                                (text(event, "event")) " " (text(event, "status"))
                                @let why = [&event["reason"], &event["error"]["message"]];
                                @if let Some(why) = why.iter().find_map(|why| why.as_str()) {
                                    div.minor { (short(why, 300)) }
                                }
                            }
                            td { (text(event, "stage")) }
                            td { (text(event, "worker")) }
                            td { (text(event, "by")) }
                        }
                    }
                }
            }
        }
    }
}

/// The same from a shell.
fn by_hand(view: &View, id: &str, status: &str) -> Markup {
    html! {
        details.by-hand {
            summary { "Copy as curl and as command line" }
            (copied("Show", &view.command("show", id)))
            (copied("Explain", &view.command("explain", id)))
            (copied("Show", &format!("curl {}/api/v1/queue/{id}", view.address())))
            @for act in acts(id, status) { (copied(act.name(), &act.as_curl(view))) }
        }
    }
}
