//! The system: workers together, what runs by the clock, figures, and how the store is.

use maud::{Markup, html};
use serde_json::Value;

use super::draw::{class, counted, head, list, number, text, when};
use super::overview::filtered;
use super::page::Page;
use super::view::View;
use super::way::items;
use crate::ask::Ask;
use crate::cli::show::span;
use crate::http::Failed;

pub(super) async fn page(view: View) -> Result<Page, Failed> {
    let status = view.see(Ask::get(&["system", "status"])).await?;
    let health = view.may_see(Ask::get(&["health"])).await?.unwrap_or_default();
    Ok(view
        .page("System")
        .part("cards", cards(&view, &status))
        .part("jobs", jobs(&status))
        .part("checks", checks(&health)))
}

fn cards(view: &View, status: &Value) -> Markup {
    let worker = &status["queue_worker"];
    let stats = &status["queue_stats"];
    let jobs = list(status, "scheduled_jobs");
    let retention =
        jobs.iter().find(|job| text(job, "name") == "retention").unwrap_or(&Value::Null);
    let of = |name: &str| {
        let to = items(&filtered(name, "", ""));
        counted(view, number(stats, name), to)
    };
    html! {
        div.cards {
            section.card {
                h2 { "Queue worker" }
                p { span.badge.(class(text(worker, "status"))) { (text(worker, "status")) } }
                p { "Last run " (when(&worker["last_run"])) }
                p { "Next run: at once, when something waits" }
                p { a href=(view.to("workers")) { (list(status, "workers").len()) " workers" } }
            }
            section.card {
                h2 { "Queue figures" }
                p { (of("pending")) " queued · " (of("processing")) " running" }
                p { (of("completed")) " completed · " (of("failed")) " failed" }
            }
            section.card {
                h2 { "Retention" }
                p { "Last run " (when(&retention["last_run"])) }
                p { "Next run " (when(&retention["next_run"])) }
                p { a href=(view.to("admin/settings")) { "What is kept" } }
            }
        }
    }
}

fn jobs(status: &Value) -> Markup {
    html! {
        h2 { "By the clock" }
        div.scrolls {
            table {
                (head(&["Name", "State", "When", "Last run", "Next run", "#Handled"]))
                tbody {
                    @for job in list(status, "scheduled_jobs") {
                        tr {
                            th scope="row" { (text(job, "name")) }
                            td { span.badge.(class(text(job, "status"))) { (text(job, "status")) } }
                            td {
                                @if let Some(ms) = job["every_ms"].as_u64() { "every " (span(ms)) }
                                @else { code { (text(job, "cron")) } }
                            }
                            td { (when(&job["last_run"])) }
                            td { (when(&job["next_run"])) }
                            td.number {
                                @if let Some(handled) = job["handled"].as_u64() { (handled) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn checks(health: &Value) -> Markup {
    html! {
        @if !list(health, "checks").is_empty() {
            h2 { "Checks" }
            div.scrolls {
                table {
                    tbody {
                        @for check in list(health, "checks") {
                            tr {
                                th scope="row" { (text(check, "check").replace('_', " ")) }
                                td {
                                    span.badge.(class(text(check, "status"))) {
                                        (text(check, "status"))
                                    }
                                }
                                td.wide { (text(check, "says"))
                                    @let remedy = text(check, "remedy");
                                    @if !remedy.is_empty() { div.remedy { "→ " (remedy) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}
