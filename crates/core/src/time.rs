//! Time as the rules see it: milliseconds since 1970 in UTC, always passed in, never read.

use std::fmt;
use std::str::FromStr;

/// A moment, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The earliest moment; as `not_before` it means "at once".
    pub const ZERO: Timestamp = Timestamp(0);
    /// Later than anything that happens.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);
    /// The end of the year 9999: until somebody says otherwise, where a time is written down.
    pub const FOR_EVER: Timestamp = Timestamp(253_402_300_799_999);

    /// This moment plus `ms`, saturating.
    pub const fn plus(self, ms: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(ms))
    }

    /// The end of the second in which it lies. Keeping is reckoned in whole seconds, so that a
    /// store may keep little about each of very many ended items.
    pub const fn end_of_second(self) -> Timestamp {
        Timestamp(self.0.div_ceil(1_000).saturating_mul(1_000))
    }

    /// Milliseconds from `earlier` to this moment, zero if it lies ahead.
    pub const fn since(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

/// RFC 3339 in UTC with milliseconds.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = civil(days as i64);
        let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{:03}Z", ms % 1_000)
    }
}

/// The text was not a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a time: expected one like 2026-11-16T08:30:00Z, from 1970 on")]
pub struct NotATime;

/// Reads RFC 3339 with any offset; what is finer than a millisecond is dropped.
impl FromStr for Timestamp {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Timestamp, NotATime> {
        let (day, time) = text.split_once(['T', 't', ' ']).ok_or(NotATime)?;
        let end = time.find(['Z', 'z', '+', '-']).ok_or(NotATime)?;
        let (clock, offset) = time.split_at(end);
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
        let [year, month, day] = numbers(day, '-', [4, 2, 2])?;
        let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
        let days = days_since_1970(year, month, day);
        // A leap second is the last moment of its minute.
        let fits = civil(days) == (year, month as u32, day as u32) && hour < 24 && minute < 60;
        if !fits || second > 60 || fraction.is_empty() || !fraction.bytes().all(is_digit) {
            return Err(NotATime);
        }
        let ms = format!("{fraction:0<3}")[..3].parse::<i64>().map_err(|_| NotATime)?;
        let minutes = (days * 24 + hour) * 60 + minute - offset_minutes(offset)?;
        let moment = (minutes * 60 + second.min(59)) * 1_000 + ms;
        u64::try_from(moment).map(Timestamp).map_err(|_| NotATime)
    }
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

/// Three numbers of so many digits each.
fn numbers(text: &str, between: char, digits: [usize; 3]) -> Result<[i64; 3], NotATime> {
    let mut parts = text.split(between);
    let mut next = |digits: usize| {
        let part = parts.next().filter(|part| part.len() == digits && part.bytes().all(is_digit));
        part.and_then(|part| part.parse::<i64>().ok()).ok_or(NotATime)
    };
    let all = [next(digits[0])?, next(digits[1])?, next(digits[2])?];
    if parts.next().is_some() { Err(NotATime) } else { Ok(all) }
}

/// How far a clock is ahead of UTC.
fn offset_minutes(text: &str) -> Result<i64, NotATime> {
    if text.eq_ignore_ascii_case("z") {
        return Ok(0);
    }
    let (sign, clock) = match text.split_at_checked(1) {
        Some(("+", clock)) => (1, clock),
        Some(("-", clock)) => (-1, clock),
        _ => return Err(NotATime),
    };
    let [hours, minutes, _] = numbers(&format!("{clock}:00"), ':', [2, 2, 2])?;
    if hours > 23 || minutes > 59 { Err(NotATime) } else { Ok(sign * (hours * 60 + minutes)) }
}

/// The reverse of [`civil`], for days that exist.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a count of days since 1970, in the Gregorian calendar.
///
/// Years are counted from March, so that the leap day is the last of its year.
fn civil(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * march_month + 2) / 5 + 1) as u32;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 } as u32;
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_prints_as_rfc_3339() {
        let check = |ms: u64, want: &str| assert_eq!(Timestamp(ms).to_string(), want);
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(1_794_700_799_999, "2026-11-14T23:59:59.999Z");
        check(4_102_444_800_001, "2100-01-01T00:00:00.001Z");
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        for day in (0..60_000).step_by(7) {
            let moment = Timestamp(day * 86_400_000 + day % 86_400_000);
            assert_eq!(moment.to_string().parse(), Ok(moment));
        }
    }

    #[test]
    fn a_time_is_read_with_any_offset() {
        let check = |text: &str, want: &str| {
            let read = text.parse::<Timestamp>().map(|time| time.to_string());
            assert_eq!(read.as_deref(), Ok(want), "{text}");
        };
        check("2026-11-16T08:30:00Z", "2026-11-16T08:30:00.000Z");
        check("2026-11-16t08:30:00.5z", "2026-11-16T08:30:00.500Z");
        check("2026-11-16 08:30:00.123999+01:00", "2026-11-16T07:30:00.123Z");
        check("2024-02-29T23:30:00-00:45", "2024-03-01T00:15:00.000Z");
        check("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.000Z");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "soon",
            "2026-11-16",
            "2026-11-16T08:30:00",
            "2026-11-16T08:30Z",
            "2026-02-30T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-11-16T24:00:00Z",
            "2026-11-16T08:60:00Z",
            "2026-11-16T08:30:61Z",
            "2026-11-16T08:30:00.Z",
            "2026-11-16T08:30:00.5.5Z",
            "2026-11-16T08:30:00+1:00",
            "2026-11-16T08:30:00+24:00",
            "2026-11-16T08:30:00+01:00:00",
            "2026-11-16T08:30:00Zulu",
            "26-11-16T08:30:00Z",
            "+026-11-16T08:30:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-16T08:30:00.\u{661}Z",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(NotATime), "{text}");
        }
    }
}
