//! Times as people say them.

use windrow_core::Timestamp;
use windrow_core::limits::LEASE_MAX_MS;

const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];

/// The time, by this machine's clock.
pub(crate) fn now() -> Timestamp {
    Timestamp(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default())
}

/// How long ago a time is that the API says, in its largest unit: `3s`, `5m`, `2d`.
pub(crate) fn age(time: &serde_json::Value) -> String {
    let at = time.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    at.map(|at| span(now().since(at))).unwrap_or_default()
}

/// The same for times that may lie ahead: `in 5m`.
pub(crate) fn moment(time: &serde_json::Value) -> String {
    let Some(at) = time.as_str().and_then(|text| text.parse::<Timestamp>().ok()) else {
        return String::new();
    };
    let now = now();
    if at > now { format!("in {}", ahead(at.since(now))) } else { format!("{} ago", age(time)) }
}

/// A number of milliseconds that are still to come, to the nearest in its largest unit: a lease of
/// five minutes that was granted a moment ago ends in 5m.
fn ahead(ms: u64) -> String {
    // Half a second is nothing that anybody waits for.
    let smallest = UNITS.len() - 1;
    let at = UNITS.iter().position(|(length, _)| ms >= *length).unwrap_or(smallest);
    let (length, name) = UNITS[at];
    let count = (ms + length / 2) / length;
    match at.checked_sub(1).map(|above| UNITS[above]) {
        Some((larger, its)) if count * length == larger => format!("1{its}"),
        _ => format!("{count}{name}"),
    }
}

/// A number of milliseconds in its largest unit.
pub(crate) fn span(ms: u64) -> String {
    let unit = UNITS.iter().find(|(length, _)| ms >= *length);
    unit.map_or_else(|| "0s".to_owned(), |(length, name)| format!("{}{name}", ms / length))
}

/// A number with its unit: `500ms`, `30s`, `5m`, `2h`, `30d`, `1w`.
pub(crate) fn duration_ms(text: &str) -> Result<u64, String> {
    let wrong = || "write a number with ms, s, m, h, d or w, such as 30s or 5m".to_owned();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let length = match unit {
        "ms" => 1,
        "w" => 7 * 86_400_000,
        unit => UNITS.iter().find(|(_, name)| *name == unit).ok_or_else(wrong)?.0,
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number
        .checked_mul(length)
        .filter(|ms| *ms <= 100 * 366 * 86_400_000)
        .ok_or_else(|| "is more than a hundred years; leave it out instead".to_owned())
}

/// How long a lease lasts.
pub(crate) fn lease_ms(text: &str) -> Result<u64, String> {
    match duration_ms(text)? {
        0 => Err("is no time at all".to_owned()),
        ms if ms > LEASE_MAX_MS => Err(format!("is longer than {}", span(LEASE_MAX_MS))),
        ms => Ok(ms),
    }
}

/// The same of one that is renewed by whoever has it: long enough for that.
pub(crate) fn renewed_lease_ms(text: &str) -> Result<u64, String> {
    match lease_ms(text)? {
        ..1_000 => Err("is shorter than 1s, in which nobody can renew it".to_owned()),
        ms => Ok(ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_with_its_unit() {
        assert_eq!(duration_ms("30d"), Ok(30 * 86_400_000));
        assert_eq!((duration_ms("1s"), duration_ms("2w")), (Ok(1_000), Ok(14 * 86_400_000)));
        assert_eq!((duration_ms("250ms"), duration_ms("0s")), (Ok(250), Ok(0)));
        for wrong in ["", "d", "30", "30y", "-1d", "1.5d", "99999999999999999w", "1000000w"] {
            assert!(duration_ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_lease_is_neither_nothing_nor_for_ever() {
        assert_eq!((lease_ms("1ms"), lease_ms("12h")), (Ok(1), Ok(LEASE_MAX_MS)));
        assert_eq!(lease_ms("99d"), Err("is longer than 12h".to_owned()));
        assert!(lease_ms("0s").is_err());
        assert_eq!(renewed_lease_ms("1s"), Ok(1_000));
        assert!(renewed_lease_ms("999ms").is_err());
    }

    #[test]
    fn a_span_is_said_in_its_largest_unit() {
        let said = [0, 999, 1_000, 59_999, 60_000, 7_200_000, 90_000_000].map(span);
        assert_eq!(said, ["0s", "0s", "1s", "59s", "1m", "2h", "1d"]);
    }

    /// A lease of five minutes was said to end in four, a moment after it was granted.
    #[test]
    fn what_is_ahead_is_said_to_the_nearest() {
        let said = [1, 700, 25_400, 59_700, 299_990, 599_000, 3_599_900, 86_399_000].map(ahead);
        assert_eq!(said, ["0s", "1s", "25s", "1m", "5m", "10m", "1h", "1d"]);
        assert_eq!([89_000, 95_000, 5_500_000].map(ahead), ["1m", "2m", "2h"]);
    }
}
