//! What pages are drawn with: badges, numbers, times, bars, charts and JSON.

mod chart;
mod json;

use maud::{Markup, html};
use serde_json::Value;
use windrow_core::item::Status;

use super::view::{View, time};
use crate::cli::show::{moment, now};
use crate::http::Failed;

pub(super) use chart::{Line, chart, spark};
pub(super) use json::json;

/// The text of a field; nothing if there is none.
pub(super) fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_default()
}

pub(super) fn number(of: &Value, field: &str) -> u64 {
    of[field].as_u64().unwrap_or_default()
}

pub(super) fn list<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of[field].as_array().map_or(&[], Vec::as_slice)
}

/// A number as people read it: in groups of three.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut said = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            said.push('\u{202f}');
        }
        said.push(digit);
    }
    said
}

/// A status: a sign, a word and a colour.
pub(super) fn badge(status: &str) -> Markup {
    let sign = match Status::parse(status) {
        Some(Status::Pending) => "○",
        Some(Status::Processing) => "◐",
        Some(Status::Completed) => "✓",
        Some(Status::Failed) => "✕",
        Some(Status::Cancelled) => "⊘",
        Some(Status::Skipped) => "–",
        None => "·",
    };
    html! { span.badge.(class(status)) { span aria-hidden="true" { (sign) } " " (status) } }
}

/// A word that may be a class: nothing that somebody else wrote.
pub(super) fn class(word: &str) -> &'static str {
    const KNOWN: [&str; 20] = [
        "pending",
        "processing",
        "completed",
        "failed",
        "cancelled",
        "skipped",
        "green",
        "yellow",
        "red",
        "live",
        "superseded",
        "deleting",
        "watching",
        "paused",
        "missing",
        "running",
        "disabled",
        "done",
        "counting",
        "stopped",
    ];
    KNOWN.into_iter().find(|known| *known == word).unwrap_or("other")
}

/// A time, as long ago as it is, and exactly for whoever points at it.
pub(super) fn when(of: &Value) -> Markup {
    match of.as_str() {
        Some(at) => html! { time datetime=(at) title=(at) { (moment(of)) } },
        None => html! { span.none { "–" } },
    }
}

/// Milliseconds from a time to now; none if it lies ahead or there is none.
pub(super) fn age_ms(of: &Value) -> Option<u64> {
    let at = time(of)?;
    let now = now();
    (at <= now).then(|| now.since(at))
}

/// How much of a whole is done, and how much of it went wrong.
pub(super) fn bar(done: u64, failed: u64, total: u64, says: &str) -> Markup {
    let share = |part: u64| match total {
        0 => 0.0,
        total => (part as f64 / total as f64 * 100.0).clamp(0.0, 100.0),
    };
    let (well, badly) = (share(done), share(failed));
    html! {
        svg.bar viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=(says) {
            rect.rest width="100" height="6" {}
            rect.done width=(format!("{well:.1}")) height="6" {}
            rect.lost x=(format!("{well:.1}")) width=(format!("{badly:.1}")) height="6" {}
        }
    }
}

/// A number that leads to what it counts.
pub(super) fn counted(view: &View, count: u64, way: impl std::fmt::Display) -> Markup {
    html! { a.count.zero[count == 0] href=(view.to(way)) { (grouped(count)) } }
}

/// The head of a table. `#` stands before columns of numbers, `~` before names that are only said.
pub(super) fn head(names: &[&str]) -> Markup {
    html! {
        thead {
            tr {
                @for name in names {
                    @match (name.strip_prefix('#'), name.strip_prefix('~')) {
                        (Some(name), _) => th.number scope="col" { (name) },
                        (_, Some(name)) => th scope="col" { span.unseen { (name) } },
                        _ => th scope="col" { (name) },
                    }
                }
            }
        }
    }
}

/// What could not be shown, and why; the rest of the page is there all the same.
pub(super) fn missing(what: &str, why: &Failed) -> Markup {
    html! { p.wrong { (what) " cannot be shown: " (why.detail()) } }
}

/// A text that is cut where it is longer than so many letters.
pub(super) fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

/// Bytes in their largest unit.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut size, mut unit) = (count as f64, 0);
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{size:.1} {}", UNITS[unit]) }
}

/// Lines to copy: a label, and what to paste.
pub(super) fn copied(label: &str, text: &str) -> Markup {
    html! {
        div.copied {
            span { (label) }
            code { (text) }
            button.quiet type="button" hidden data-copies=(text) { "Copy" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_in_groups_of_three() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(grouped).join(" ").replace('\u{202f}', "_"),
            "0 999 1_000 1_234_567"
        );
        assert_eq!([0, 1_023, 1_536, 3 << 30].map(bytes), ["0 B", "1023 B", "1.5 KiB", "3.0 GiB"]);
    }

    #[test]
    fn what_somebody_wrote_is_no_class() {
        assert_eq!((class("failed"), class("x\" onclick=\"")), ("failed", "other"));
    }
}
