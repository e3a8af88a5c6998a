//! Bodies read from JSON, and what is said when one cannot be: where, what, and what was meant.
//!
//! Reads first as fast as it goes. Only what cannot be read is read once more, to find the place.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::object::Object;
use crate::unread::{shortened, unread};

/// What some programs put before a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An object of a known shape, or what is wrong with it.
pub fn object<T: DeserializeOwned + JsonSchema>(bytes: &[u8]) -> Result<T, String> {
    any::<Object<T>>(bytes).map(|Object(read)| read)
}

/// A list of such objects.
pub fn list<T: DeserializeOwned + JsonSchema>(bytes: &[u8]) -> Result<Vec<T>, String> {
    let list = any::<Vec<Object<T>>>(bytes)?;
    Ok(list.into_iter().map(|Object(read)| read).collect())
}

/// What is wrong with a text that should be JSON, whatever it says; nothing if it is.
pub fn syntax(bytes: &[u8]) -> Option<String> {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).err().map(|error| unread(&error))
}

fn any<T: DeserializeOwned + JsonSchema>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| said::<T>(bytes, &error))
}

fn said<T: DeserializeOwned + JsonSchema>(bytes: &[u8], error: &serde_json::Error) -> String {
    if bytes.starts_with(BYTE_ORDER_MARK) {
        return "the body begins with a byte order mark; send UTF-8 without one".to_owned();
    }
    if bytes.trim_ascii().is_empty() {
        return "the body is empty, and JSON is expected".to_owned();
    }
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let found = serde_path_to_error::deserialize::<_, T>(&mut from).err();
    let (path, text) = match &found {
        Some(found) => (found.path().to_string(), unread(found.inner())),
        // All of it was read, and there is more.
        None => (String::new(), unread(error)),
    };
    let path = if path == "." { String::new() } else { path };
    let path = if path.is_empty() { within::<T>(bytes, &text).unwrap_or_default() } else { path };
    let path = shortened(&path);
    let text = meant::<T>(&text).unwrap_or(text);
    if path.is_empty() { text } else { format!("{path}: {text}") }
}

/// Fields that are tried alone to find the one that is wrong.
const TRIED_MAX: usize = 100;

/// The field in which something is wrong, where what is flattened hides its place: the one that is
/// as wrong alone.
fn within<T: DeserializeOwned>(bytes: &[u8], text: &str) -> Option<String> {
    // What is missing is missing in each of them.
    if !text.starts_with("expected ") && !text.starts_with("unknown field ") {
        return None;
    }
    let without_place = |text: &str| text.split(" at line ").next().map(str::to_owned);
    let is_it = |(name, value): &(String, Value)| {
        let alone = Value::from_iter([(name.clone(), value.clone())]).to_string();
        let wrong = serde_json::from_str::<T>(&alone).err().map(|error| unread(&error));
        wrong.is_some_and(|wrong| without_place(&wrong) == without_place(text))
    };
    let fields: serde_json::Map<String, Value> = serde_json::from_slice(bytes).ok()?;
    let (name, _) = fields.into_iter().take(TRIED_MAX).find(is_it)?;
    // An unknown field is named by what is said of it.
    (!text.contains(&format!("`{name}`"))).then_some(name)
}

/// The same about an unknown field, with the one that was probably meant.
fn meant<T: JsonSchema>(text: &str) -> Option<String> {
    let mut quoted = text.strip_prefix("unknown field `")?.split('`').step_by(2);
    let unknown = quoted.next()?;
    let mut known: BTreeSet<String> = quoted.map(str::to_owned).collect();
    // What is flattened does not list its fields when it refuses one.
    known.retain(|name| !name.is_empty() && !name.contains(' '));
    if known.is_empty() {
        fields(schemars::schema_for!(T).as_value(), &mut known);
    }
    if let Some(near) = nearest(unknown, known.iter().map(String::as_str)) {
        return Some(format!("unknown field `{unknown}`; `{near}` is meant, perhaps"));
    }
    // What is flattened breaks off here.
    let breaks_off = text.split(" at line ").next().is_some_and(|said| said.ends_with("expected "));
    let schema = schemars::schema_for!(T);
    let all = schema.as_value()["properties"].as_object().filter(|_| breaks_off)?;
    let all = all.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    Some(format!("unknown field `{unknown}`, expected one of {all}"))
}

/// The names of all fields in a schema.
fn fields(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(parts) => {
            if let Some(Value::Object(named)) = parts.get("properties") {
                into.extend(named.keys().cloned());
            }
            parts.values().for_each(|part| fields(part, into));
        }
        Value::Array(parts) => parts.iter().for_each(|part| fields(part, into)),
        _ => {}
    }
}

/// The name that is nearest to another, if it is near enough to be meant.
pub fn nearest<'a>(name: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distances = among.map(|other| (distance(name, other), other));
    let (distance, nearest) = distances.min()?;
    (distance <= 3 && distance < nearest.chars().count()).then_some(nearest)
}

/// How many letters must be added, removed or changed to make one text of the other.
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, letter) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (of, other) in b.iter().enumerate() {
            let changed = before + usize::from(letter != *other);
            before = row[of + 1];
            row[of + 1] = changed.min(before + 1).min(row[of] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Claim;
    use crate::new::NewItem;
    use crate::settings::Settings;
    use crate::settle::Settle;

    #[test]
    fn what_cannot_be_read_is_said_with_its_place_and_what_was_meant() {
        let item = |text: &str| object::<NewItem>(text.as_bytes()).expect_err(text);
        let meant = "unknown field `paylod`; `payload` is meant, perhaps";
        assert!(item(r#"{"paylod":1}"#).ends_with(meant));
        assert!(item(r#"{"zzzzzzzz":1}"#).contains("unknown field `zzzzzzzz`, expected one of"));
        let wrong = item(r#"{"priority":"5"}"#);
        assert!(
            wrong.starts_with("priority: expected a whole number from 0 to 255, and it is a text"),
            "{wrong}"
        );
        let at = item(r#"{"not_before":"tomorrow"}"#);
        let time = "not_before: expected a time like 2026-11-16T08:30:00Z, or milliseconds";
        assert!(at.starts_with(time) && !at.contains("tomorrow"), "{at}");
        assert!(item("{} x").contains("more behind the end"));
        assert!(item("\u{feff}{}").contains("byte order mark"));
        assert!(item(" ").contains("empty"));
        let items = list::<NewItem>(br#"[{},{"key":7}]"#).expect_err("a number");
        assert!(items.starts_with("[1].key: expected a text in quotes"), "{items}");
    }

    #[test]
    fn places_are_found_in_depth_and_in_what_is_flattened() {
        let settle = object::<Settle>(br#"{"items":[{"id":"x","outcome":"done"}]}"#);
        assert!(settle.expect_err("no outcome").starts_with("items[0].outcome: expected one of"));
        let settings = |text: &str| object::<Settings>(text.as_bytes()).expect_err(text);
        let meant = "unknown field `max_atempts`; `max_attempts` is meant, perhaps";
        assert!(settings(r#"{"max_atempts":1}"#).ends_with(meant));
        let none = settings(r#"{"bogus":1}"#);
        assert!(none.starts_with("unknown field `bogus`, expected one of `"), "{none}");
        assert!(none.contains(", `max_attempts`") && !none.contains("base_ms"), "{none}");
        let lease = settings(r#"{"max_attempts":5,"lease_ms":"5m"}"#);
        assert!(lease.starts_with("lease_ms: expected a whole number"), "{lease}");
        let backoff = settings(r#"{"backoff":{"bas_ms":1}}"#);
        assert!(backoff.starts_with("backoff: unknown field `bas_ms`; `base_ms`"), "{backoff}");
        let staged = settings(r#"{"stages":[{"stage":"ocr","max_atempts":1}]}"#);
        assert!(staged.ends_with(meant), "{staged}");
        let claim = object::<Claim>(br#"{"queue":["a"]}"#).expect_err("no such field");
        assert!(claim.contains("`queues` is meant"), "{claim}");
    }

    #[test]
    fn what_is_missing_is_not_looked_for_in_what_is_there() {
        #[derive(serde::Deserialize, JsonSchema, Debug)]
        #[expect(dead_code, reason = "only read")]
        struct Both {
            one: u8,
            other: u8,
        }
        let missing = object::<Both>(br#"{"one":1}"#).expect_err("one alone");
        assert!(missing.starts_with("missing field `other`"), "{missing}");
    }

    #[test]
    fn a_distance_is_a_number_of_letters() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(nearest("x", ["ab"].into_iter()), None);
    }
}
