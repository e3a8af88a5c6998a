//! The queue monitor of seed 004: live figures, recent jobs, the oldest that waits, and the levers.

use axum::body::Bytes;
use axum::http::Method;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::act::{Act, Kind, Sent, back};
use super::draw::{age_ms, badge, counted, head, list, number, short, text, when};
use super::overview::filtered;
use super::page::Page;
use super::queue::is_over;
use super::view::View;
use super::way;
use super::way::items;
use crate::ask::Ask;
use crate::cli::show::span;
use crate::http::Failed;

/// What a minute is for a rate.
const MINUTE_MS: u64 = 60_000;

pub(super) async fn page(view: View) -> Result<Page, Failed> {
    let stats = view.see(Ask::get(&["admin", "queue", "stats"])).await?;
    let queues = view.see(Ask::get(&["queues"])).await?;
    // Who sees one tenant sees no resources, which all share.
    let resources = view.may_see(Ask::get(&["resources"])).await?;
    Ok(view
        .page("Queue monitor")
        .part("figures", figures(&view, &stats, &queues))
        .part("levers", levers(&view, &queues, resources.as_ref()))
        .part("recent", recent(&view, &stats)))
}

fn figures(view: &View, stats: &Value, queues: &Value) -> Markup {
    html! {
        ul.counts aria-label="Items by status" {
            @for name in ["pending", "processing", "completed", "failed", "cancelled", "skipped"] {
                li { (badge(name)) " "
                    @let count = number(&stats["queueStats"], name);
                    (counted(view, count, items(&filtered(name, "", ""))))
                }
            }
        }
        p { "Oldest pending: " (oldest(view, &stats["oldestPendingJob"], queues)) }
    }
}

/// Of those that wait, the one that was created first, and for how long the first in line of its
/// queue waits. That may be another one, because what is older may be put off.
fn oldest(view: &View, job: &Value, queues: &Value) -> Markup {
    let Some(id) = job["id"].as_str() else { return html! { "nothing waits" } };
    let queue = text(job, "queue");
    let mut queues = queues.as_array().into_iter().flatten();
    let its = queues.find(|one| text(one, "queue") == queue);
    let waits_ms = its.and_then(|its| age_ms(&its["waiting_since"]));
    html! {
        a href=(view.to(way(&["queue", id]))) { (text(job, "job_type")) " in " (queue) }
        ", created " (when(&job["created_at"]))
        @if let Some(ms) = waits_ms {
            "; the first in line there has been waiting for " (span(ms))
        }
    }
}

/// Pause, rate and concurrency of every queue.
fn levers(view: &View, queues: &Value, resources: Option<&Value>) -> Markup {
    let all = queues.as_array().map_or(&[][..], Vec::as_slice);
    html! {
        h2 { "Queues" }
        div.scrolls {
            table {
                (head(&[
                    "Queue",
                    "#Waiting",
                    "#Running",
                    "Hand-out",
                    "At once in a group",
                    "At most in a minute",
                ]))
                tbody { @for queue in all { (lever(view, queue, resources)) } }
            }
        }
    }
}

fn lever(view: &View, queue: &Value, resources: Option<&Value>) -> Markup {
    let (name, settings) = (text(queue, "queue"), &queue["settings"]);
    let is_paused =
        list(queue, "paused").iter().any(|p| p["stage"].is_null() && p["tenant"].is_null());
    let group = settings["group_limit"].as_u64().map(|n| n.to_string()).unwrap_or_default();
    let resource = text(settings, "resource");
    let known = resources.and_then(Value::as_array).into_iter().flatten();
    let known = known.filter(|known| text(known, "name") == resource && !resource.is_empty());
    let rate = known.map(|known| &known["limits"]["rate"]).next();
    let per_minute = rate.filter(|rate| rate.is_object()).map(|rate| {
        (number(rate, "count") * MINUTE_MS / number(rate, "per_ms").max(1)).to_string()
    });
    let pause = match is_paused {
        true => Act::post("Resume", &["queues", name, "resume"])
            .with(json!({}))
            .says(format!("Queue {name} hands out work again.")),
        false => Act::post("Pause", &["queues", name, "pause"])
            .with(json!({}))
            .says(format!("Queue {name} hands out nothing; what runs goes on.")),
    };
    html! {
        tr data-key=(name) {
            th scope="row" {
                a href=(view.to(items(&filtered("", name, "")))) { (name) }
            }
            td.number { (number(queue, "pending")) }
            td.number { (number(queue, "processing")) }
            td {
                @if is_paused { span.badge.paused { "‖ paused" } " " }
                (pause.button(view))
            }
            td {
                (Act::new("Set", Method::PUT, &["queues", name, "settings"]).with(settings.clone())
                    .field(("group_limit", "items"), Kind::Number, group)
                    .says(format!("The limit of queue {name} holds from the next claim on."))
                    .button(view))
            }
            td {
                @if resources.is_some() {
                    form.act method="post" action=(view.to("admin/rate")) {
                        (back(view))
                        input type="hidden" name="queue" value=(name);
                        label { span { "items" }
                            input type="number" min="1" name="per_minute" value=[per_minute]; }
                        button type="submit" { "Set" }
                    }
                }
            }
        }
    }
}

/// Says how many items of a queue may be handed out in a minute, and what became of it.
pub(super) async fn rate(view: View, body: Bytes) -> Response {
    let sent = Sent::read(&body);
    let became = set_rate(&view, &sent).await;
    sent.back(&view, "admin/queue-monitor", became)
}

/// The rate is that of a resource of the queue's own, or of the one that it needs already, of which
/// whatever else it bears stays as it is.
async fn set_rate(view: &View, sent: &Sent) -> Result<String, Failed> {
    let (queue, wanted) = (sent.get("queue").unwrap_or_default(), sent.number("per_minute")?);
    let mut settings = view.see(Ask::get(&["queues", queue, "settings"])).await?;
    let resource = match text(&settings, "resource") {
        "" => format!("queue.{queue}"),
        known => known.to_owned(),
    };
    let known = view.see(Ask::get(&["resources", &resource])).await.unwrap_or_default();
    let mut limits = known["limits"].as_object().cloned().unwrap_or_default();
    limits.retain(|name, limit| name != "rate" && !limit.is_null());
    let Some(count) = wanted else {
        put(view, &["resources", &resource], &json!(limits)).await?;
        return Ok(format!("{queue}: as many as workers take."));
    };
    limits.insert("rate".into(), json!({ "count": count, "per_ms": MINUTE_MS }));
    put(view, &["resources", &resource], &json!(limits)).await?;
    settings["resource"] = json!(resource);
    put(view, &["queues", queue, "settings"], &settings).await?;
    Ok(format!("{queue}: at most {count} in a minute from now on."))
}

async fn put(view: &View, path: &[&str], body: &Value) -> Result<(), Failed> {
    let ask = Ask::put(path).json(body).map_err(|error| Failed::malformed(error.to_string()))?;
    view.ask(ask).await.map(drop)
}

fn recent(view: &View, stats: &Value) -> Markup {
    html! {
        h2 { "Recent jobs" }
        div.scrolls {
            table.rows {
                (head(&["Created", "Job", "Status", "#Attempts", "Error", "~Do"]))
                tbody {
                    @for job in list(stats, "recentJobs") {
                        @let status = text(job, "status").to_lowercase();
                        @let id = text(job, "id");
                        tr data-key=(id) {
                            td { (when(&job["created_at"])) }
                            td {
                                a.open href=(view.to(way(&["queue", id]))) {
                                    (text(job, "job_type")) " " (number(job, "serial"))
                                }
                                div.minor { (text(job, "queue")) " · " (text(job, "stage")) }
                            }
                            td { (badge(&status)) }
                            td.number {
                                (number(job, "attempts")) "/" (number(job, "max_attempts"))
                            }
                            td.wide { (short(text(job, "error_message"), 160)) }
                            td.acts {
                                @if is_over(&status) {
                                    (Act::post("Retry", &["queue", id, "retry"])
                                        .with(json!({ "mode": "reset" }))
                                        .says("The job is in line again.").button(view))
                                } @else {
                                    (Act::post("Cancel", &["queue", id, "cancel"])
                                        .asks("Cancel this job?")
                                        .says("The job is cancelled.")
                                        .button(view))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
