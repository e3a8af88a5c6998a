//! Schedules: what runs by the clock, in plain words.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::http::Method;
use axum::response::Response;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::act::{Act, Sent, back};
use super::draw::{copied, head, list, text, when};
use super::page::Page;
use super::view::View;
use crate::ask::Ask;
use crate::auth::Role;
use crate::http::Failed;

pub(super) async fn page(view: View) -> Result<Page, Failed> {
    let schedules = view.see(Ask::get(&["schedules"])).await?;
    let all = schedules.as_array().map_or(&[][..], Vec::as_slice);
    let html = html! {
        @if all.is_empty() {
            p { "Nothing runs by the clock yet." }
            @let nightly = "nightly --cron '0 3 * * *' --queue reports";
            (copied("", &view.command("schedule put", nightly)))
        } @else {
            div.scrolls {
                table.rows {
                    (head(&["Name", "When", "What", "Last run", "Next run", "~Do"]))
                    tbody { @for schedule in all { (row(&view, schedule)) } }
                }
            }
        }
    };
    Ok(view.page("Schedules").part("schedules", html))
}

fn row(view: &View, schedule: &Value) -> Markup {
    let (name, tenant) = (text(schedule, "name"), text(schedule, "tenant"));
    let is_enabled = schedule["enabled"] == true;
    let path = ["schedules", name];
    html! {
        tr data-key={ (tenant) "/" (name) } {
            th scope="row" {
                (name)
                @if !is_enabled { " " span.badge.paused { "‖ off" } }
                div.minor { (tenant) }
            }
            td {
                (plainly(text(schedule, "cron")))
                div.minor { code { (text(schedule, "cron")) } " · " (text(schedule, "time_zone")) }
            }
            td { "into " (text(&schedule["item"], "queue"))
                div.minor {
                    "overlap: " (text(schedule, "overlap")) ", missed: " (text(schedule, "missed"))
                }
                }
            td {
                @let last = &schedule["last_run"];
                @if last.is_object() { (when(&last["run_at"])) } @else { (when(last)) }
            }
            td {
                @match list(schedule, "next_runs").first() {
                    Some(next) if is_enabled => (when(next)),
                    _ => span.none { "–" },
                }
            }
            td.acts {
                @if view.may(Role::Operator) {
                    (Act::post("Run now", &["schedules", name, "run"]).asking("tenant", tenant)
                        .says(format!("Schedule {name} ran.")).button(view))
                    (turn(view, name, tenant, !is_enabled))
                    (Act::delete("Delete", &path).asking("tenant", tenant)
                        .asks("Delete this schedule?")
                        .says(format!("Schedule {name} is deleted.")).button(view))
                }
            }
        }
    }
}

/// The button that turns a schedule on or off.
fn turn(view: &View, name: &str, tenant: &str, on: bool) -> Markup {
    html! {
        form.act method="post" action=(view.to("schedules/turn"))
            data-key={ "turn " (on) " " (name) " " (tenant) } {
            (back(view))
            input type="hidden" name="name" value=(name);
            input type="hidden" name="tenant" value=(tenant);
            input type="hidden" name="on" value=(on);
            button type="submit" { @if on { "Turn on" } @else { "Turn off" } }
        }
    }
}

/// What is said of a schedule when it is put, letter by letter: its payload is nobody's to change.
#[derive(Deserialize, Serialize, Debug)]
struct Said {
    cron: Box<RawValue>,
    time_zone: Box<RawValue>,
    item: BTreeMap<String, Box<RawValue>>,
    overlap: Box<RawValue>,
    missed: Box<RawValue>,
    enabled: bool,
}

/// Turns a schedule on or off, and says what became of it.
pub(super) async fn turned(view: View, body: Bytes) -> Response {
    let sent = Sent::read(&body);
    let became = put_turned(&view, &sent).await;
    sent.back(&view, "schedules", became)
}

/// The rest of the schedule stays as it is.
async fn put_turned(view: &View, sent: &Sent) -> Result<String, Failed> {
    let of = |method| {
        let ask = Ask::new(method, &["schedules", sent.get("name").unwrap_or_default()]);
        ask.with("tenant", sent.get("tenant"))
    };
    let unread = |error: serde_json::Error| Failed::malformed(error.to_string());
    let known = view.ask(of(Method::GET)).await?;
    let mut said: Said = serde_json::from_slice(&known).map_err(unread)?;
    said.item.retain(|_, value| value.get() != "null");
    said.enabled = sent.get("on") == Some("true");
    let put = of(Method::PUT).json(&said).map_err(|error| Failed::malformed(error.to_string()))?;
    view.ask(put).await?;
    let name = sent.get("name").unwrap_or_default();
    Ok(format!("Schedule {name} is {}.", if said.enabled { "on" } else { "off" }))
}

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A cron in plain words, where there are plain words for it.
fn plainly(cron: &str) -> String {
    let fields: Vec<&str> = cron.split_whitespace().collect();
    let &[minute, hour, day, month, weekday] = fields.as_slice() else { return cron.to_owned() };
    let number = |field: &str| field.parse::<u8>().ok();
    let every = |field: &str| field.strip_prefix("*/").and_then(|n| n.parse::<u8>().ok());
    let is_any = |fields: &[&str]| fields.iter().all(|field| *field == "*");
    let time = number(hour).zip(number(minute)).map(|(h, m)| format!("{h:02}:{m:02}"));
    let named = number(weekday).and_then(|day| DAYS.get(usize::from(day % 7)));
    match (minute, time) {
        ("*", None) if is_any(&[hour, day, month, weekday]) => "every minute".to_owned(),
        _ if is_any(&[hour, day, month, weekday]) && every(minute).is_some() => {
            match every(minute).unwrap_or_default() {
                1 => "every minute".to_owned(),
                minutes => format!("every {minutes} minutes"),
            }
        }
        _ if is_any(&[hour, day, month, weekday]) && number(minute).is_some() => {
            format!("every hour at :{:02}", number(minute).unwrap_or_default())
        }
        _ if minute == "0" && is_any(&[day, month, weekday]) && every(hour).is_some() => {
            match every(hour).unwrap_or_default() {
                1 => "every hour".to_owned(),
                hours => format!("every {hours} hours"),
            }
        }
        (_, Some(time)) if is_any(&[day, month, weekday]) => format!("daily at {time}"),
        (_, Some(time)) if is_any(&[day, month]) && weekday == "1-5" => {
            format!("on weekdays at {time}")
        }
        (_, Some(time)) if is_any(&[day, month]) && named.is_some() => {
            format!("on {}s at {time}", named.unwrap_or(&""))
        }
        (_, Some(time)) if is_any(&[month, weekday]) && number(day).is_some() => {
            format!("on day {day} of each month at {time}")
        }
        _ => format!("by {cron}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cron_is_said_as_people_say_it() {
        let said = [
            ("* * * * *", "every minute"),
            ("*/5 * * * *", "every 5 minutes"),
            ("15 * * * *", "every hour at :15"),
            ("0 */6 * * *", "every 6 hours"),
            ("0 3 * * *", "daily at 03:00"),
            ("30 8 * * 1-5", "on weekdays at 08:30"),
            ("0 9 * * 1", "on Mondays at 09:00"),
            ("0 0 1 * *", "on day 1 of each month at 00:00"),
            ("0 0 1 1 *", "by 0 0 1 1 *"),
            ("@daily", "@daily"),
        ];
        for (cron, plain) in said {
            assert_eq!(plainly(cron), plain, "{cron}");
        }
    }
}
