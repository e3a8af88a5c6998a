//! The overview: is it healthy, what waits, what failed, and what to press.

use std::collections::BTreeSet;
use std::sync::Arc;

use maud::{Markup, html};
use serde_json::Value;
use windrow_core::command::Claim;
use windrow_wire::filter::written;
use windrow_wire::list::Filter;

use super::draw::{
    Line, age_ms, chart, class, copied, counted, grouped, head, list, missing, number, short,
    spark, text, when,
};
use super::operations;
use super::page::Page;
use super::view::View;
use super::way;
use super::way::items;
use crate::ask::Ask;
use crate::auth::Role;
use crate::http::Failed;

/// Minutes that a sparkline shows, and a rate is taken over.
const SPARK: usize = 30;
const RATE: usize = 5;

/// Who waits longer than this is late.
const LATE_MS: u64 = 60_000;

/// Groups of failures that are shown.
const GROUPS: usize = 12;

pub(super) async fn page(view: View) -> Result<Page, Failed> {
    let queues = view.see(Ask::get(&["queues"])).await?;
    let page = view.page("Overview");
    let health = health(&view).await;
    if queues.as_array().is_none_or(Vec::is_empty) {
        return Ok(page.part("health", health).part("queues", nothing_yet(&view)));
    }
    // These are about all tenants; whoever is of one sees the rest.
    let flow = view.may_see(Ask::get(&["flow"])).await?.unwrap_or_default();
    let stages = view.may_see(Ask::get(&["stages"])).await?.unwrap_or_default();
    let workers = view.see(Ask::get(&["workers"])).await?;
    let around = Around { flow: &flow, stages: &stages, workers: &workers };
    Ok(page
        .part("health", health)
        .part("queues", self::queues(&view, &queues, &around))
        .part("charts", charts(&flow))
        .part("failures", failures(&view).await))
}

/// What is not as it should be, each with its remedy.
async fn health(view: &View) -> Markup {
    let health = match view.may_see(Ask::get(&["health"])).await {
        Ok(Some(health)) => health,
        // It is about all tenants.
        Ok(None) => return html! {},
        Err(failed) => return missing("The health of the server", &failed),
    };
    let checks = list(&health, "checks");
    let (status, bad): (_, Vec<&Value>) =
        (text(&health, "status"), checks.iter().filter(|c| text(c, "status") != "green").collect());
    let (sign, says) = match status {
        "green" => ("✓", "All is well"),
        "yellow" => ("!", "Something wants attention"),
        _ => ("✕", "Something is wrong"),
    };
    html! {
        section.health.(class(status)) aria-label="Health" {
            p.state role="status" {
                span aria-hidden="true" { (sign) } " " (says)
                @if bad.is_empty() { " · " (checks.len()) " checks" }
            }
            @if !bad.is_empty() {
                ul {
                    @for check in &bad {
                        li {
                            b { (text(check, "check").replace('_', " ")) }
                            (about(view, check)) ": " (text(check, "says"))
                            @let remedy = text(check, "remedy");
                            @if !remedy.is_empty() { br; span.remedy { "→ " (remedy) } }
                        }
                    }
                }
            }
            details {
                summary { "All checks" }
                table {
                    tbody {
                        @for check in checks {
                            tr {
                                th scope="row" {
                                    (text(check, "check").replace('_', " ")) (about(view, check))
                                }
                                td {
                                    span.dot.(class(text(check, "status"))) {
                                        (text(check, "status"))
                                    }
                                }
                                td { (text(check, "says")) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What a check is about, if it is about one thing: most often a queue.
fn about(view: &View, check: &Value) -> Markup {
    html! {
        @if let Some(of) = check["of"].as_str() {
            " of " a href=(view.to(items(&filtered("", of, "")))) { (of) }
        }
    }
}

/// What is known of queues besides their counts.
struct Around<'a> {
    flow: &'a Value,
    stages: &'a Value,
    workers: &'a Value,
}

/// Every queue, and every stage in which something is or was lately.
fn queues(view: &View, queues: &Value, around: &Around<'_>) -> Markup {
    let all = queues.as_array().map_or(&[][..], Vec::as_slice);
    html! {
        section aria-labelledby="queues-title" {
            h2 #queues-title { "Queues" }
            div.scrolls {
                table.queues {
                    thead {
                        tr {
                            th scope="col" { "Queue" }
                            th.number scope="col" { "Waiting" }
                            th.number scope="col" { "Running" }
                            th.number scope="col" { "Failed" }
                            th.number scope="col" { "Done" }
                            th.number scope="col" title="On average, over the last full minutes" {
                                "Done/min, " (RATE) " min"
                            }
                            th scope="col" { "Oldest waiting" }
                            th.number scope="col" { "Workers" }
                            th scope="col" { "Last " (SPARK) " min" }
                        }
                    }
                    tbody {
                        @for queue in all {
                            (of_queue(view, queue, around))
                            (of_stages(view, text(queue, "queue"), around))
                        }
                    }
                }
            }
        }
    }
}

fn of_queue(view: &View, queue: &Value, around: &Around<'_>) -> Markup {
    let name = text(queue, "queue");
    let filter = |status: &str| items(&filtered(status, name, ""));
    let waiting = &queue["waiting_since"];
    let is_late = age_ms(waiting).is_some_and(|ms| ms > LATE_MS);
    let flow = flow_of(around.flow, name);
    let workers = works_on(around.workers, name);
    html! {
        tr data-key=(name) {
            th scope="row" {
                a href=(view.to(filter(""))) { (name) }
                @if !list(queue, "paused").is_empty() { " " span.badge.paused { "‖ paused" } }
            }
            td.number { (counted(view, number(queue, "pending"), filter("pending"))) }
            td.number { (counted(view, number(queue, "processing"), filter("processing"))) }
            td.number.bad[number(queue, "failed") > 0] {
                (counted(view, number(queue, "failed"), filter("failed")))
            }
            td.number { (counted(view, number(queue, "completed"), filter("completed"))) }
            td.number { (per_minute(flow)) }
            td.late[is_late] { (when(waiting)) }
            td.number {
                a.count.zero[workers == 0] href=(view.to("workers")) { (workers) }
                @if workers == 0 && number(queue, "pending") > 0 {
                    " " span.hint title="Nobody claims from this queue" { "!" }
                }
            }
            td { (spark(&lately(flow, "went_well"), &format!("done per minute in {name}"))) }
        }
    }
}

/// What happened in a queue lately.
fn flow_of<'a>(flow: &'a Value, queue: &str) -> &'a Value {
    let found = list(flow, "queues").iter().find(|flow| text(flow, "queue") == queue);
    found.unwrap_or(&Value::Null)
}

/// The stages of a queue, if it has more than one.
fn of_stages(view: &View, queue: &str, around: &Around<'_>) -> Markup {
    let flows = list(flow_of(around.flow, queue), "stages");
    let now = around.stages.as_array().into_iter().flatten();
    let now: Vec<&Value> = now.filter(|stage| text(stage, "queue") == queue).collect();
    let names: BTreeSet<&str> =
        flows.iter().chain(now.iter().copied()).map(|stage| text(stage, "stage")).collect();
    html! {
        @if names.len() > 1 {
            @for name in names {
                @let flow = flows.iter().find(|flow| text(flow, "stage") == name);
                @let flow = flow.unwrap_or(&Value::Null);
                @let stage = now.iter().find(|stage| text(stage, "stage") == name);
                @let stage = stage.copied().unwrap_or(&Value::Null);
                @let filter = |status| items(&filtered(status, queue, name));
                tr.stage data-key={ (queue) "/" (name) } {
                    th scope="row" { a href=(view.to(filter(""))) { (name) } }
                    td.number {
                        (counted(view, number(stage, "waiting"), filter("pending")))
                        @if stage["capped"] == true { "+" }
                    }
                    td.number { (counted(view, number(stage, "running"), filter("processing"))) }
                    td.number { a.count href=(view.to(filter("failed"))) { "show" } }
                    td {}
                    td.number { (per_minute(flow)) }
                    td { (when(&stage["waiting_since"])) }
                    td.number { @if stage.is_object() { (number(stage, "workers")) } }
                    td {
                        @let says = format!("done per minute in {queue}, {name}");
                        (spark(&lately(flow, "went_well"), &says))
                    }
                }
            }
        }
    }
}

/// Workers that take from a queue.
fn works_on(workers: &Value, queue: &str) -> usize {
    let asks = |worker: &&Value| {
        // One that is drained, or away, takes nothing; of one that has not asked nobody knows.
        if worker["drained"] == true || worker["asked"] != true {
            return false;
        }
        let queues = list(worker, "queues").iter().filter_map(Value::as_str);
        Claim::takes_from(&queues.map(Arc::from).collect::<Vec<_>>(), queue)
    };
    workers.as_array().map_or(0, |workers| workers.iter().filter(asks).count())
}

/// A filter in the grammar that people write; what is empty is not asked for.
pub(super) fn filtered(status: &str, queue: &str, stage: &str) -> String {
    let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (status, queue, stage) = (said(status), said(queue), said(stage));
    written(&Filter { status, queue, stage, ..Filter::default() })
}

/// The last minutes of something that is counted by the minute.
fn lately(of: &Value, field: &str) -> Vec<f64> {
    let all = list(of, field);
    let all = &all[all.len().saturating_sub(SPARK)..];
    all.iter().map(|count| count.as_f64().unwrap_or_default()).collect()
}

/// What is done in a minute, on average over the last full ones.
fn per_minute(of: &Value) -> String {
    let all = lately(of, "went_well");
    let Some((_, full)) = all.split_last() else { return "–".to_owned() };
    let last = &full[full.len().saturating_sub(RATE)..];
    match last.len() {
        0 => "–".to_owned(),
        count => grouped((last.iter().sum::<f64>() / count as f64).round() as u64),
    }
}

/// How it went in the last hour.
fn charts(flow: &Value) -> Markup {
    let minutes: Vec<String> =
        list(flow, "at").iter().map(|at| short_time(at.as_str().unwrap_or_default())).collect();
    if minutes.is_empty() {
        return html! {};
    }
    let of = |field: &str| -> Vec<Option<f64>> {
        list(&flow["all"], field).iter().map(Value::as_f64).collect()
    };
    let (enqueued, done, failed) = (of("enqueued"), of("went_well"), of("failed"));
    let (wait, run) = (of("wait_ms"), of("run_ms"));
    html! {
        section.charts aria-label="The last hour" {
            (chart("Throughput", "/min", &minutes, &[
                Line { name: "enqueued", class: "second", values: &enqueued },
                Line { name: "done", class: "first", values: &done },
            ]))
            (chart("Failed attempts", "/min", &minutes, &[
                Line { name: "failed", class: "bad", values: &failed },
            ]))
            @if wait.iter().chain(&run).any(Option::is_some) {
                (chart("Latency", "ms", &minutes, &[
                    Line { name: "waited", class: "second", values: &wait },
                    Line { name: "ran", class: "first", values: &run },
                ]))
            }
        }
    }
}

/// The hours and minutes of a time.
fn short_time(at: &str) -> String {
    at.split_once('T').map_or(at, |(_, time)| time.get(..5).unwrap_or(time)).to_owned()
}

/// What failed, the same together.
async fn failures(view: &View) -> Markup {
    let failures = match view.see(Ask::get(&["failures"])).await {
        Ok(failures) => failures,
        Err(failed) => return missing("Failures", &failed),
    };
    let groups = list(&failures, "groups");
    html! {
        section aria-labelledby="failures-title" {
            h2 #failures-title { "Failures" }
            @if groups.is_empty() { p.note { "Nothing has failed that is still kept." } }
            @else {
                div.scrolls {
                    table {
                        (head(&["#Items", "What", "Where", "Last", "Mend"]))
                        tbody {
                            @for group in groups.iter().take(GROUPS) {
                                @let filter = text(group, "filter");
                                tr {
                                    td.number {
                                        (counted(view, number(group, "items"), items(filter)))
                                    }
                                    td.wide {
                                        a href=(view.to(way(&["queue", text(group, "example")]))) {
                                            (short(text(group, "says"), 160))
                                        }
                                    }
                                    td { (text(group, "queue")) " · " (text(group, "stage")) }
                                    td { (when(&group["last_at"])) }
                                    td {
                                        @if view.may(Role::Operator) {
                                            (operations::button(view, "retry", "Retry all", filter))
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
                @if failures["partial"] == true {
                    p.note {
                        "Of the newest " (grouped(number(&failures, "looked_at"))) " failed items."
                    }
                }
            }
        }
    }
}

/// A server that has nothing yet teaches how to give it something.
fn nothing_yet(view: &View) -> Markup {
    html! {
        section.teaches aria-label="Begin" {
            h2 { "Nothing is here yet" }
            p { "Three ways to put something in. Each line can be pasted as it is." }
            h3 { "A folder of documents" }
            (copied("", &view.command("add", "./papers")))
            p.note { "Reads, cuts, embeds and links them; " a href=(view.to("search")) { "search" }
                " finds what they say. A folder that is a " a href=(view.to("sources")) { "source" }
                " is kept an eye on." }
            h3 { "Work for a queue" }
            (copied("", &view.command("enqueue", "thumbs '{\"path\":\"a.png\"}'")))
            (copied("", &view.command("work", "--queue thumbs -- cat")))
            p.note { "Any command is a worker: it gets the payload, and what it prints is the \
                result. " code { "cat" } " stands for yours." }
            h3 { "From any program" }
            @let items = format!("{}/api/v1/queues/thumbs/items", view.address());
            (copied("", &format!("curl -X POST {items} -H 'content-type: application/json' \
                -d '{{\"payload\":{{\"path\":\"a.png\"}}}}'")))
            p.note { "All of it is described under " a href=(view.to("docs")) { "API" } "." }
        }
    }
}
