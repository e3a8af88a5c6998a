//! Times in JSON: RFC 3339, or milliseconds since 1970 when they come in.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use windrow_core::Timestamp;

/// A moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Time(pub Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
        from.deserialize_any(Reading)
    }
}

struct Reading;

impl Visitor<'_> for Reading {
    type Value = Time;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time like 2026-11-16T08:30:00Z, or milliseconds since 1970")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Time, E> {
        let read = text.parse().ok().map(Time).or_else(|| before_all(text));
        read.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: Error>(self, ms: u64) -> Result<Time, E> {
        Ok(Time(Timestamp(ms)))
    }
}

/// A time before 1970 has passed, and that is all there is to know about it.
fn before_all(text: &str) -> Option<Time> {
    let (year, rest) = text.split_at_checked(4)?;
    let is_before = year.parse::<u16>().is_ok_and(|year| year <= 1970);
    // Any leap year will do to see whether the rest is a time.
    let at: Result<Timestamp, _> = format!("1972{rest}").parse();
    (is_before && at.is_ok()).then_some(Time(Timestamp::ZERO))
}

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "description": "RFC 3339; where one is asked for, milliseconds since 1970 do as well.",
            "anyOf": [
                { "type": "string", "format": "date-time" },
                { "type": "integer", "format": "uint64", "minimum": 0 },
            ],
        })
    }
}

impl From<Timestamp> for Time {
    fn from(at: Timestamp) -> Time {
        Time(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_a_text_and_read_as_either() {
        let read = |text: &str| serde_json::from_str::<Time>(text).ok();
        let at = Time(Timestamp(1_794_700_799_999));
        assert_eq!(
            serde_json::to_string(&at).expect("it is written"),
            "\"2026-11-14T23:59:59.999Z\""
        );
        assert_eq!(read("\"2026-11-14T23:59:59.999Z\""), Some(at));
        assert_eq!(read("1794700799999"), Some(at));
        assert_eq!(read("\"0006-02-29T00:00:00Z\""), Some(Time(Timestamp::ZERO)));
        assert_eq!(read("\"1970-01-01T00:00:00+01:00\""), Some(Time(Timestamp::ZERO)));
        assert_eq!(read("\"0006-13-01T00:00:00Z\""), None);
        assert_eq!(read("-1"), None);
        assert_eq!(read("\"tomorrow\""), None);
    }
}
