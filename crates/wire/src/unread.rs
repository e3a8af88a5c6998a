//! What is said of a body that cannot be read: where, and what was expected, but nothing of what
//! stood there. A body may hold what its sender would not want in a log, theirs or a proxy's. Names
//! of fields are told, so that a slip is found.

/// Longest name of a field that is told.
const NAME_MAX: usize = 64;

/// Why JSON was not of the expected shape.
pub(crate) fn unread(error: &serde_json::Error) -> String {
    let text = error.to_string();
    // What follows the last of these is ours: names of types and fields, and the place.
    let expected = text.rfind(", expected ").map_or("", |at| &text[at..]);
    let place = format!(" at line {} column {}", error.line(), error.column());
    let kind_of = |rest: &str| {
        let kind = rest.split(['"', '`']).next().unwrap_or_default().trim();
        let kind = kind.split(", expected").next().unwrap_or_default();
        // Numbers are written without quotation marks after some kinds.
        let is_word = |word: &&str| word.chars().all(char::is_alphabetic);
        kind.split(' ').filter(is_word).collect::<Vec<_>>().join(" ")
    };
    if let Some(rest) = text.strip_prefix("invalid type: ") {
        return format!("invalid type: {}{expected}", kind_of(rest));
    }
    if let Some(rest) = text.strip_prefix("invalid value: ") {
        return format!("invalid value: {}{expected}", kind_of(rest));
    }
    if text.starts_with("unknown variant ") {
        return format!("unknown variant{expected}");
    }
    if let Some(rest) = text.strip_prefix("unknown field `") {
        let name = rest.split('`').next().unwrap_or_default();
        let name: String = name.chars().take(NAME_MAX).collect();
        return format!("unknown field `{name}`{expected}");
    }
    let known =
        ["missing field", "duplicate field", "not base64", "invalid length", "nested more than"];
    if error.is_data() && !known.iter().any(|known| text.starts_with(known)) {
        return format!("not of the expected form{place}");
    }
    text
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
    }

    #[derive(Deserialize, Debug)]
    enum Word {
        A,
        B,
    }

    fn said(body: &str) -> String {
        unread(&serde_json::from_str::<Shape>(body).expect_err("it is wrong"))
    }

    #[test]
    fn the_place_and_the_expected_are_told_and_the_value_is_not() {
        for (body, want) in [
            (r#"{"number":"hunter2"}"#, "invalid type: string, expected u8 at line 1"),
            (r#"{"number":[4711]}"#, "invalid type: sequence, expected u8 at line 1"),
            (r#"{"number":4711}"#, "invalid value: integer, expected u8 at line 1"),
            (r#"{"text":47.11}"#, "invalid type: floating point, expected a string at line 1"),
            (r#"{"word":"hunter2"}"#, "unknown variant, expected `A` or `B` at line 1"),
            (r#"{"flag":"x, expected hunter2"}"#, "invalid type: string, expected a boolean at"),
            (r#"{"flg":"hunter2"}"#, "unknown field `flg`, expected one of"),
            (r#"{"flag":true,"flag":true}"#, "duplicate field `flag` at line 1"),
            (r#"{"hunter2"#, "EOF while parsing a string at line 1"),
            ("hunter2", "expected value at line 1"),
        ] {
            let said = said(body);
            assert!(said.starts_with(want), "{body}: {said}");
            assert!(!said.contains("hunter2") && !said.contains("4711"), "{body}: {said}");
        }
    }
}
