//! Cron expressions: which seconds of which days are meant.
//!
//! Five fields (minute, hour, day of the month, month, day of the week) or six, with seconds first.
//! Sees local time only; what a time zone makes of it is decided in [`super::zone`]. Leaves out `W`
//! and years on purpose: what is rarely right is better refused than half understood.

use std::str::FromStr;

use jiff::civil::{Date, DateTime, Time};

/// How far ahead a run is looked for. Everything that ever comes, comes within 40 years: a 29th of
/// February on a given day of the week, around 2100.
const YEARS_AHEAD: i16 = 100;

/// A parsed expression: a bit for every value that a field allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    /// The last day of the month is meant as well.
    last_day: bool,
    months: u64,
    /// 0 is Sunday.
    weekdays: u64,
    /// Such as the second Tuesday.
    nth: Vec<(u8, Nth)>,
    /// Whether a day may be either: neither of its two fields begins with a star.
    either: bool,
}

/// Which of the same weekdays of a month.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Nth {
    From1(i8),
    Last,
}

/// What is wrong with an expression, in words.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotCron(String);

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// What a field may hold.
struct Field {
    name: &'static str,
    least: u64,
    most: u64,
    names: &'static [&'static str],
}

const fn field(name: &'static str, least: u64, most: u64, names: &'static [&'static str]) -> Field {
    Field { name, least, most, names }
}

const SECOND: Field = field("second", 0, 59, &[]);
const MINUTE: Field = field("minute", 0, 59, &[]);
const HOUR: Field = field("hour", 0, 23, &[]);
const DAY: Field = field("day of the month", 1, 31, &[]);
const MONTH: Field = field("month", 1, 12, &MONTHS);
const WEEKDAY: Field = field("day of the week", 0, 7, &WEEKDAYS);

impl FromStr for Cron {
    type Err = NotCron;

    fn from_str(text: &str) -> Result<Cron, NotCron> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let (second, rest) = match fields.as_slice() {
            rest if rest.len() == 5 => ("0", rest),
            [second, rest @ ..] if rest.len() == 5 => (*second, rest),
            _ => {
                let why = "expected five fields (minute, hour, day, month, weekday), or six with \
                     seconds first";
                return Err(NotCron(format!("{why}; got {}", fields.len())));
            }
        };
        let (day, weekday) = (rest[2], rest[4]);
        let mut cron = Cron {
            seconds: SECOND.bits(second)?,
            minutes: MINUTE.bits(rest[0])?,
            hours: HOUR.bits(rest[1])?,
            days: 0,
            last_day: false,
            months: MONTH.bits(rest[3])?,
            weekdays: 0,
            nth: Vec::new(),
            either: !day.starts_with(['*', '?']) && !weekday.starts_with(['*', '?']),
        };
        for part in day.split(',') {
            match part {
                "L" | "l" => cron.last_day = true,
                part => cron.days |= DAY.part(part)?,
            }
        }
        for part in weekday.split(',') {
            cron.weekday(part)?;
        }
        Ok(cron)
    }
}

impl Field {
    fn bits(&self, text: &str) -> Result<u64, NotCron> {
        text.split(',').try_fold(0, |bits, part| Ok(bits | self.part(part)?))
    }

    /// One of a list: `*`, `7`, `1-5`, any of them with `/2`.
    fn part(&self, text: &str) -> Result<u64, NotCron> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (text, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (self.least, self.most),
            Some((from, to)) => (self.value(from)?, self.value(to)?),
            // `5/10` is from 5 on.
            None if step.is_some() => (self.value(range)?, self.most),
            None => (self.value(range)?, self.value(range)?),
        };
        if from > to {
            return Err(self.wrong(text, "ends before it begins; write it as two, with a comma"));
        }
        let values = (from..=to).step_by(step.unwrap_or(1));
        Ok(values.fold(0, |bits, value| bits | 1 << value))
    }

    fn step(&self, text: &str) -> Result<usize, NotCron> {
        let step = text.parse().ok().filter(|step| (1..=self.most as usize).contains(step));
        step.ok_or_else(|| self.wrong(text, "is not a step that ever comes"))
    }

    fn value(&self, text: &str) -> Result<u64, NotCron> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let value = match named {
            Some(at) => at as u64 + self.least,
            None if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().unwrap_or(u64::MAX)
            }
            None => return Err(self.wrong(text, "is not understood")),
        };
        if !(self.least..=self.most).contains(&value) {
            let why = format!("must lie between {} and {}", self.least, self.most);
            return Err(self.wrong(text, &why));
        }
        Ok(value)
    }

    fn wrong(&self, text: &str, why: &str) -> NotCron {
        NotCron(format!("{}: {text:?} {why}", self.name))
    }
}

impl Cron {
    /// A day of the week: also `2#3`, the third Tuesday, and `5L`, the last Friday.
    fn weekday(&mut self, part: &str) -> Result<(), NotCron> {
        if let Some((day, nth)) = part.split_once('#') {
            let nth = nth.parse().ok().filter(|nth| (1..=5).contains(nth));
            let nth = nth.ok_or_else(|| WEEKDAY.wrong(part, "counts from #1 to #5"))?;
            self.nth.push((WEEKDAY.value(day)? as u8 % 7, Nth::From1(nth)));
        } else if let Some(day) = part.strip_suffix(['L', 'l']).filter(|day| !day.is_empty()) {
            self.nth.push((WEEKDAY.value(day)? as u8 % 7, Nth::Last));
        } else {
            let bits = WEEKDAY.part(part)?;
            // Sunday is 0 and 7.
            self.weekdays |= (bits | bits >> 7) & 0x7f;
        }
        Ok(())
    }

    /// Whether every hour is meant: then it runs by time that passes and not by the clock on the
    /// wall.
    pub(super) fn is_every_hour(&self) -> bool {
        self.hours == (1 << 24) - 1
    }

    /// The first local time that is meant, from this one on.
    pub(super) fn at_or_after(&self, from: DateTime) -> Option<DateTime> {
        let from = match from.subsec_nanosecond() {
            0 => from,
            nanos => from
                .checked_add(jiff::SignedDuration::from_nanos(1_000_000_000 - i64::from(nanos)))
                .ok()?,
        };
        if self.is_day(from.date())
            && let Some(time) = self.time_from(from.time())
        {
            return Some(from.date().to_datetime(time));
        }
        let first = self.time_from(Time::midnight())?;
        let last_year = from.year().saturating_add(YEARS_AHEAD);
        let mut day = from.date();
        loop {
            day = if self.months & 1 << day.month() == 0 {
                day.last_of_month().tomorrow().ok()?
            } else {
                day.tomorrow().ok()?
            };
            if day.year() > last_year {
                return None;
            }
            if self.is_day(day) {
                return Some(day.to_datetime(first));
            }
        }
    }

    fn is_day(&self, day: Date) -> bool {
        if self.months & 1 << day.month() == 0 {
            return false;
        }
        let of_month =
            self.days & 1 << day.day() != 0 || self.last_day && day.day() == day.days_in_month();
        let weekday = day.weekday().to_sunday_zero_offset();
        let counted = |nth: Nth| match nth {
            Nth::From1(nth) => (day.day() - 1) / 7 + 1 == nth,
            Nth::Last => day.day() + 7 > day.days_in_month(),
        };
        let of_week = self.weekdays & 1 << weekday != 0
            || self.nth.iter().any(|(on, nth)| *on == weekday as u8 && counted(*nth));
        if self.either { of_month || of_week } else { of_month && of_week }
    }

    /// The first time of a day that is meant, from this one on.
    fn time_from(&self, from: Time) -> Option<Time> {
        let next = |bits: u64, from: i8| {
            let left = bits.checked_shr(from as u32).unwrap_or(0);
            (left != 0).then(|| from + left.trailing_zeros() as i8)
        };
        let first = |bits: u64| bits.trailing_zeros() as i8;
        let (hour, minute) = (from.hour(), from.minute());
        let time = |h, m, s| Time::new(h, m, s, 0).ok();
        if self.hours & 1 << hour != 0 {
            if self.minutes & 1 << minute != 0
                && let Some(second) = next(self.seconds, from.second())
            {
                return time(hour, minute, second);
            }
            if let Some(minute) = next(self.minutes, minute + 1) {
                return time(hour, minute, first(self.seconds));
            }
        }
        let hour = next(self.hours, hour + 1)?;
        time(hour, first(self.minutes), first(self.seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(cron: &str, from: &str) -> String {
        let cron: Cron = cron.parse().unwrap_or_else(|error| panic!("{cron}: {error}"));
        let from: DateTime = from.parse().expect("a local time");
        cron.at_or_after(from).map_or_else(|| "never".into(), |at| at.to_string())
    }

    #[test]
    fn the_next_run_by_the_calendar() {
        for (cron, from, expected) in [
            ("* * * * *", "2026-11-16T08:30:01", "2026-11-16T08:31:00"),
            ("* * * * *", "2026-11-16T08:30:00", "2026-11-16T08:30:00"),
            ("* * * * *", "2026-11-16T08:30:00.001", "2026-11-16T08:31:00"),
            ("*/15 * * * * *", "2026-11-16T08:30:01", "2026-11-16T08:30:15"),
            ("59 59 23 31 12 *", "2026-11-16T00:00:00", "2026-12-31T23:59:59"),
            ("0 9-17/4 * * mon-fri", "2026-11-13T17:01:00", "2026-11-16T09:00:00"),
            ("5/20 3 * * *", "2026-11-16T03:06:00", "2026-11-16T03:25:00"),
            ("0 0 31 * *", "2026-04-01T00:00:00", "2026-05-31T00:00:00"),
            ("0 0 L * *", "2026-02-01T00:00:00", "2026-02-28T00:00:00"),
            ("0 0 L * *", "2028-02-01T00:00:00", "2028-02-29T00:00:00"),
            ("0 0 29 2 *", "2026-03-01T00:00:00", "2028-02-29T00:00:00"),
            ("0 0 29 2 *", "2096-03-01T00:00:00", "2104-02-29T00:00:00"),
            ("0 0 1 1 *", "2026-01-01T00:00:01", "2027-01-01T00:00:00"),
            // Either of the two days, unless one begins with a star.
            ("0 0 13 * fri", "2026-11-14T00:00:00", "2026-11-20T00:00:00"),
            ("0 0 */2 * 1", "2026-11-16T00:00:01", "2026-11-23T00:00:00"),
            ("0 0 * * 2#3", "2026-11-18T00:00:00", "2026-12-15T00:00:00"),
            ("0 0 * * 5L", "2026-11-16T00:00:00", "2026-11-27T00:00:00"),
            ("0 0 * * mon#5", "2026-12-01T00:00:00", "2027-03-29T00:00:00"),
            ("0 0 * * 7", "2026-11-16T00:00:00", "2026-11-22T00:00:00"),
            ("0 0 * * 5-7", "2026-11-14T12:00:00", "2026-11-15T00:00:00"),
            ("@daily", "2026-11-16T00:00:01", "2026-11-17T00:00:00"),
            ("@hourly", "2026-11-16T23:00:01", "2026-11-17T00:00:00"),
            ("0 0 ? jan,JUL ?", "2026-02-01T00:00:00", "2026-07-01T00:00:00"),
            // What never comes.
            ("0 0 30 2 *", "2026-01-01T00:00:00", "never"),
            ("0 0 31 4,6,9,11 *", "2026-01-01T00:00:00", "never"),
            // At the end of time there is no next.
            ("* * * * *", "9999-12-31T23:59:01", "never"),
        ] {
            assert_eq!(next(cron, from), expected, "{cron} from {from}");
        }
    }

    #[test]
    fn what_is_not_an_expression_is_said_with_its_field() {
        for (cron, why) in [
            ("", "expected five fields"),
            ("* * * *", "got 4"),
            ("* * * * * * *", "got 7"),
            ("60 * * * *", "minute: \"60\" must lie between 0 and 59"),
            ("* 24 * * *", "hour"),
            ("* * 0 * *", "day of the month"),
            ("* * * 13 *", "month"),
            ("* * * * 8", "day of the week"),
            ("* * * * mon#6", "counts from #1 to #5"),
            ("5-1 * * * *", "ends before it begins"),
            ("*/0 * * * *", "is not a step"),
            ("*/99 * * * *", "is not a step"),
            ("1,,2 * * * *", "is not understood"),
            ("+5 * * * *", "is not understood"),
            ("99999999999999999999999 * * * *", "must lie between"),
            ("* * 15W * *", "is not understood"),
            ("@reboot", "got 1"),
        ] {
            let error = cron.parse::<Cron>().expect_err(cron).to_string();
            assert!(error.contains(why), "{cron}: {error}");
        }
    }
}
