//! Time zones: when a cron expression comes, at places where the clock is moved.
//!
//! An expression that names hours goes by the clock on the wall. A time that the clock jumps over
//! comes at the end of the jump, once; one that the clock shows twice comes the first time only. An
//! expression for every hour goes by the time that passes: nothing comes for what was jumped over,
//! and what is shown twice comes twice.

use jiff::SignedDuration;
use jiff::tz::{AmbiguousOffset, TimeZone};
use windrow_core::Timestamp;

use super::cron::Cron;

/// How often the clock may be moved before a run that is looked for comes: twice a year.
const MOVES_MAX: usize = 250;

/// The zone of a name, such as Europe/Berlin.
pub(crate) fn named(name: &str) -> Option<TimeZone> {
    // Anything else that the database has, `posixrules` for one, is no place.
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte));
    TimeZone::get(name).ok().filter(|_| is_name)
}

/// The first run after a moment.
pub(crate) fn next(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let after = jiff::Timestamp::from_millisecond(i64::try_from(after.0).ok()?).ok()?;
    let at = if cron.is_every_hour() {
        by_time_that_passes(cron, zone, after)
    } else {
        by_the_clock(cron, zone, after)
    };
    at.and_then(|at| u64::try_from(at.as_millisecond()).ok()).map(Timestamp)
}

/// The next runs after a moment, at most `count`.
pub(crate) fn upcoming(
    cron: &Cron,
    zone: &TimeZone,
    after: Timestamp,
    count: usize,
) -> Vec<Timestamp> {
    let first = next(cron, zone, after);
    std::iter::successors(first, |last| next(cron, zone, *last)).take(count).collect()
}

fn by_the_clock(cron: &Cron, zone: &TimeZone, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
    // No earlier local time comes later than this one: the times only ever rise.
    let mut local = zone.to_datetime(after);
    loop {
        local = cron.at_or_after(local)?;
        let at = match zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset }
            | AmbiguousOffset::Fold { before: offset, .. } => offset.to_timestamp(local).ok()?,
            AmbiguousOffset::Gap { before, .. } => {
                // Before the jump it would have been this; the jump itself lies before that.
                let within = before.to_timestamp(local).ok()?;
                zone.preceding(within.checked_add(SignedDuration::from_nanos(1)).ok()?)
                    .next()?
                    .timestamp()
            }
        };
        if at > after {
            return Some(at);
        }
        local = local.checked_add(SignedDuration::from_secs(1)).ok()?;
    }
}

fn by_time_that_passes(
    cron: &Cron,
    zone: &TimeZone,
    after: jiff::Timestamp,
) -> Option<jiff::Timestamp> {
    let mut from = after.checked_add(SignedDuration::from_nanos(1)).ok()?;
    let mut moves = zone.following(after);
    for _ in 0..MOVES_MAX {
        let until = moves.next().map(|moved| moved.timestamp());
        let offset = zone.to_offset(from);
        let at = cron.at_or_after(offset.to_datetime(from))?;
        match (offset.to_timestamp(at).ok()?, until) {
            (at, Some(until)) if at >= until => from = until,
            (at, _) => return Some(at),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(zone: &str, cron: &str, after: &str, expected: &[&str]) {
        let cron_of: Cron = cron.parse().expect(cron);
        let of = named(zone).expect(zone);
        let after: Timestamp = after.parse().expect("a time");
        let runs = upcoming(&cron_of, &of, after, expected.len());
        let shown: Vec<String> = runs.iter().map(Timestamp::to_string).collect();
        let expected: Vec<String> = expected
            .iter()
            .map(|at| at.parse::<Timestamp>().expect("a time").to_string())
            .collect();
        assert_eq!(shown, expected, "{cron} in {zone} after {after}");
    }

    #[test]
    fn a_time_that_is_jumped_over_comes_at_the_end_of_the_jump() {
        // Berlin, 29 March 2026: 02:00 is 03:00, at 01:00 UTC.
        let before = "2026-03-28T12:00:00Z";
        let runs = ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
        check("Europe/Berlin", "30 2 * * *", before, &runs);
        // Six that do not exist are one.
        let runs = ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z", "2026-03-30T00:10:00Z"];
        check("Europe/Berlin", "*/10 2 * * *", before, &runs);
        let runs = ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"];
        check("Europe/Berlin", "*/30 * * * *", "2026-03-29T00:00:00Z", &runs);
        // What is there after the jump is not taken for it.
        let runs = ["2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"];
        check("Europe/Berlin", "0 3 * * *", before, &runs);
        // Two reasons for one moment are one run.
        check(
            "Europe/Berlin",
            "0 2,3 * * *",
            before,
            &["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"],
        );
        // Half an hour, on Lord Howe Island: 02:00 is 02:30, at 15:30 UTC the day before.
        check(
            "Australia/Lord_Howe",
            "15 2 * * *",
            "2026-10-03T12:00:00Z",
            &["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"],
        );
        // A whole day: Samoa had no 30 December 2011.
        check(
            "Pacific/Apia",
            "0 12 30 12 *",
            "2011-12-01T00:00:00Z",
            &["2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"],
        );
    }

    #[test]
    fn a_time_that_is_shown_twice_comes_once_by_the_clock_and_twice_by_time() {
        // Berlin, 25 October 2026: 03:00 is 02:00 again, at 01:00 UTC.
        let runs = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
        check("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z", &runs);
        let runs = ["2026-10-26T01:30:00Z"];
        check("Europe/Berlin", "30 2 * * *", "2026-10-25T00:45:00Z", &runs);
        check("Europe/Berlin", "30 2 * * *", "2026-10-25T01:15:00Z", &runs);
        let runs = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"];
        check("Europe/Berlin", "30 * * * *", "2026-10-25T00:00:00Z", &runs);
        // New York, 1 November 2026: 02:00 is 01:00 again, at 06:00 UTC.
        let runs = ["2026-11-01T05:59:59Z", "2026-11-02T06:59:59Z"];
        check("America/New_York", "59 59 1 * * *", "2026-11-01T00:00:00Z", &runs);
    }

    #[test]
    fn days_are_the_zones_own() {
        check("Asia/Tokyo", "0 0 1 * *", "2026-11-16T00:00:00Z", &["2026-11-30T15:00:00Z"]);
        check(
            "UTC",
            "0 0 29 2 *",
            "2026-11-16T00:00:00Z",
            &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"],
        );
        check("America/New_York", "0 * 29 2 *", "2026-11-16T00:00:00Z", &["2028-02-29T05:00:00Z"]);
        check("Asia/Kathmandu", "0 0 * * *", "2026-11-16T00:00:00Z", &["2026-11-16T18:15:00Z"]);
        check("Europe/Berlin", "0 12 1 7 *", "2099-11-16T00:00:00Z", &["2100-07-01T10:00:00Z"]);
        check("Europe/Berlin", "0 0 31 2 *", "2026-11-16T00:00:00Z", &[]);
        let never: Cron = "0 * 30 2 *".parse().expect("it is written well");
        assert_eq!(next(&never, &TimeZone::UTC, Timestamp(0)), None);
    }

    #[test]
    fn only_places_are_zones() {
        for name in ["Europe/Berlin", "UTC", "Etc/GMT+5", "America/Argentina/Buenos_Aires"] {
            assert!(named(name).is_some(), "{name}");
        }
        for name in ["", "Berlin", "../../etc/passwd", "EST5EDT,M3.2.0,M11.1.0", "Europe/Berlin "] {
            assert!(named(name).is_none(), "{name}");
        }
    }
}
