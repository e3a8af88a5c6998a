//! Bytes in JSON: what is JSON stays as it is, digit by digit; anything else is base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// How deeply JSON may be nested: what reads it later may not expect more.
const DEPTH_MAX: usize = 64;

/// JSON that is passed on as it was written: large numbers and the order of keys stay.
#[derive(Clone, Debug)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Bytes, if they are JSON and nothing else, not even space around it.
    pub fn read(bytes: &[u8]) -> Option<Json> {
        let json = serde_json::from_slice::<Box<RawValue>>(bytes).ok().map(Json);
        json.filter(|json| json.text().len() == bytes.len())
    }

    /// A text that is JSON as such, any other as a string.
    pub fn of(text: &str) -> Option<Json> {
        let string = || serde_json::value::to_raw_value(text).ok().map(Json);
        Json::read(text.as_bytes()).or_else(string)
    }

    pub fn text(&self) -> &str {
        self.0.get()
    }

    pub fn into_bytes(self) -> Vec<u8> {
        String::from(Box::<str>::from(self.0)).into_bytes()
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.text() == other.text()
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Json, D::Error> {
        let json = Box::<RawValue>::deserialize(from).map(Json)?;
        if depth(json.text()) > DEPTH_MAX {
            return Err(D::Error::custom(format!("nested more than {DEPTH_MAX} deep")));
        }
        Ok(json)
    }
}

/// How deeply JSON is nested.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth -= 1,
            _ => {}
        }
    }
    deepest
}

impl JsonSchema for Json {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AnyJson".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "description": "Any JSON, passed on as it was written." })
    }
}

/// Bytes as base64, with padding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Base64(pub Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Base64, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(from)?;
        STANDARD.decode(&*text).map(Base64).map_err(|_| D::Error::custom("not base64 with padding"))
    }
}

impl JsonSchema for Base64 {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Base64".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let padded = "[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=";
        let pattern = format!("^([A-Za-z0-9+/]{{4}})*({padded})?$");
        schemars::json_schema!({
            "type": "string",
            "contentEncoding": "base64",
            "pattern": pattern,
        })
    }
}

/// Bytes as a body shows them: in one of two fields.
pub(crate) fn shown(bytes: Vec<u8>) -> (Option<Json>, Option<Base64>) {
    match Json::read(&bytes) {
        Some(json) => (Some(json), None),
        None => (None, Some(Base64(bytes))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_as_it_was_written() {
        let text = r#"{"b":12345678901234567890123,"a":1.10}"#;
        let json = Json::read(text.as_bytes()).expect("it is JSON");
        assert_eq!(serde_json::to_string(&json).expect("it is written"), text);
        assert_eq!(json.into_bytes(), text.as_bytes());
    }

    #[test]
    fn json_that_is_nested_too_deep_is_not_taken_and_what_is_kept_is_shown() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let read = |text: &str| serde_json::from_str::<Json>(text).is_ok();
        assert!(read(&nested(64)) && !read(&nested(65)));
        assert!(read(&format!(r#""\"{}""#, "[".repeat(99))), "these are letters of a text");
        assert!(Json::read(nested(99).as_bytes()).is_some());
    }

    #[test]
    fn what_is_not_json_is_base64() {
        assert_eq!(shown(vec![0xff, 0]), (None, Some(Base64(vec![0xff, 0]))));
        assert_eq!(
            serde_json::to_string(&Base64(vec![0xff, 0])).expect("it is written"),
            r#""/wA=""#
        );
        let read = |text: &str| serde_json::from_str::<Base64>(text).ok().map(|bytes| bytes.0);
        assert_eq!(read(r#""/wA=""#), Some(vec![0xff, 0]));
        assert_eq!(read(r#""/wA""#), None);
        assert_eq!(read("7"), None);
    }
}
