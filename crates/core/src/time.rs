//! Time as the rules see it: milliseconds since 1970 in UTC, always passed in, never read.

use std::fmt;

/// A moment, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The earliest moment; as `not_before` it means "at once".
    pub const ZERO: Timestamp = Timestamp(0);
    /// Later than anything that happens.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);

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
}
