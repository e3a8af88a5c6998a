//! Schedules: what runs by the clock, in plain words.

use axum::http::Method;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::act::Act;
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
            (copied("", "windrow schedule set nightly --cron '0 3 * * *' --queue reports"))
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
                        .says("It ran.").button(view))
                    (Act::new(if is_enabled { "Turn off" } else { "Turn on" }, Method::PUT, &path)
                        .asking("tenant", tenant).with(turned(schedule, !is_enabled)).button(view))
                    (Act::delete("Delete", &path).asking("tenant", tenant)
                        .asks("Delete this schedule?").says("It is deleted.").button(view))
                }
            }
        }
    }
}

/// The same schedule, on or off.
fn turned(schedule: &Value, on: bool) -> Value {
    let mut item = schedule["item"].clone();
    if let Some(fields) = item.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    json!({
        "cron": schedule["cron"], "time_zone": schedule["time_zone"], "item": item,
        "overlap": schedule["overlap"], "missed": schedule["missed"], "enabled": on,
    })
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
            format!("every {} minutes", every(minute).unwrap_or_default())
        }
        _ if is_any(&[hour, day, month, weekday]) && number(minute).is_some() => {
            format!("every hour at :{:02}", number(minute).unwrap_or_default())
        }
        _ if minute == "0" && is_any(&[day, month, weekday]) && every(hour).is_some() => {
            format!("every {} hours", every(hour).unwrap_or_default())
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
