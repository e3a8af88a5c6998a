//! What is said of a body that cannot be read: where, and what was expected, but nothing of what
//! stood there. A body may hold what its sender would not want in a log, theirs or a proxy's. Names
//! of fields are told, so that a slip is found.

/// Longest name of a field that is told.
const NAME_MAX: usize = 64;

/// Why JSON was not of the expected shape.
pub(crate) fn unread(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    if error.is_eof() {
        return format!("it ends too early: a quote, a bracket or a brace is not closed{place}");
    }
    if error.is_syntax() {
        return format!("{}{place}", not_json(&text));
    }
    // What follows the last of these is ours: names of types and fields, and the place.
    let expected = text.rfind(", expected ").map_or("", |at| &text[at + ", expected ".len()..]);
    let expected = expected.strip_suffix(&place).unwrap_or(expected);
    if let Some(rest) = text.strip_prefix("invalid type: ") {
        let (expected, found) = (in_words(expected), found(rest));
        return format!("expected {expected}, and it is {found}{place}");
    }
    if text.starts_with("invalid value: ") {
        return format!("expected {}, and it is something else{place}", in_words(expected));
    }
    if text.starts_with("unknown variant ") {
        return format!("expected {expected}, and it is something else{place}");
    }
    if let Some(rest) = text.strip_prefix("unknown field `") {
        let name = rest.split('`').next().unwrap_or_default();
        let name = shortened(name);
        return format!("unknown field `{name}`, expected {expected}{place}");
    }
    let known =
        ["missing field", "duplicate field", "not base64", "invalid length", "nested more than"];
    if error.is_data() && !known.iter().any(|known| text.starts_with(known)) {
        return format!("not of the expected form{place}");
    }
    text
}

/// What is wrong with a text that is no JSON.
fn not_json(text: &str) -> &'static str {
    match text {
        _ if text.starts_with("trailing characters") => "there is more behind the end of the JSON",
        _ if text.starts_with("trailing comma") => "there is a comma behind the last value",
        _ if text.starts_with("control character") => {
            "expected \\n for a line break in a text, and it is a line break or the like"
        }
        _ if text.starts_with("key must be a string") => {
            "expected a name in double quotes, as in {\"key\": \"a\"}, and it is none"
        }
        _ => "expected JSON, such as {\"key\": \"a\"}, and it is none",
    }
}

/// The beginning of a name that may have any length.
pub(crate) fn shortened(name: &str) -> String {
    name.chars().take(NAME_MAX).collect()
}

/// A type that was expected, in words.
fn in_words(expected: &str) -> &str {
    match expected {
        // Names of our types tell nobody anything.
        _ if expected.starts_with("struct ") => "an object in braces",
        _ if expected.contains("tagged enum ") => "an object in braces",
        "f32" | "f64" => "a number",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "a string" => "a text in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list in brackets",
        "a map" => "an object in braces",
        other => other,
    }
}

/// What stood there, by its kind alone.
fn found(rest: &str) -> &'static str {
    match rest.split(['"', '`', ',']).next().unwrap_or_default().trim() {
        "string" | "character" => "a text",
        "integer" => "a whole number",
        "floating point" => "a number with a point",
        "boolean" => "true or false",
        "sequence" => "a list",
        "map" => "an object",
        "null" | "unit value" => "null",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Shape {
        number: Option<u8>,
        word: Option<Word>,
        flag: Option<bool>,
        text: Option<String>,
        inner: Option<Inner>,
    }

    #[derive(Deserialize, Debug)]
    enum Word {
        A,
        B,
    }

    #[derive(Deserialize, Debug)]
    #[expect(dead_code, reason = "only read")]
    struct Inner {
        number: Option<u8>,
    }

    fn said(body: &str) -> String {
        unread(&serde_json::from_str::<Shape>(body).expect_err("it is wrong"))
    }

    #[test]
    fn the_place_and_the_expected_are_told_and_the_value_is_not() {
        let number = "expected a whole number from 0 to 255, and it is";
        for (body, want) in [
            (r#"{"number":"hunter2"}"#, &*format!("{number} a text at line 1")),
            (r#"{"number":[4711]}"#, &format!("{number} a list at line 1")),
            (r#"{"number":4711}"#, &format!("{number} something else at line 1")),
            (r#"{"number":-4711}"#, &format!("{number} something else at line 1")),
            (r#"{"text":47.11}"#, "expected a text in quotes, and it is a number with a point at"),
            (r#"{"text":{"hunter2":1}}"#, "expected a text in quotes, and it is an object at"),
            (r#"{"word":"hunter2"}"#, "expected `A` or `B`, and it is something else at line 1"),
            (r#"{"inner":4711}"#, "expected an object in braces, and it is a whole number at"),
            (r#"{"flag":"x, expected hunter2"}"#, "expected true or false, and it is a text at"),
            (r#"{"flg":"hunter2"}"#, "unknown field `flg`, expected one of"),
            (r#"{"flag":true,"flag":true}"#, "duplicate field `flag` at line 1"),
            (r#"{"hunter2"#, "it ends too early: a quote, a bracket or a brace is not closed at"),
            (
                r#"{hunter2: 1}"#,
                "expected a name in double quotes, as in {\"key\": \"a\"}, and it is none at",
            ),
            (r#"{"flag":true,}"#, "there is a comma behind the last value at line 1"),
            ("{} hunter2", "there is more behind the end of the JSON at line 1"),
            ("hunter2", "expected JSON, such as {\"key\": \"a\"}, and it is none at line 1"),
        ] {
            let said = said(body);
            assert!(said.starts_with(want), "{body}: {said}");
            assert!(!said.contains("hunter2") && !said.contains("4711"), "{body}: {said}");
        }
    }
}
