//! Payloads as handlers want them.
//!
//! What is not understood is said by its place alone: a payload may hold what no log should.

use serde::de::DeserializeOwned;
use serde_json::error::Category;

/// What a handler may take: anything that serde reads from JSON, or [`Raw`].
pub trait FromPayload: Sized {
    /// Whether a payload that is kept apart from its item is read for it.
    const IS_FETCHED: bool = true;

    /// Reads a payload. One without bytes is `null`.
    fn read(bytes: Vec<u8>) -> Result<Self, NotUnderstood>;
}

/// Where a payload is not as it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}, at line {line}, column {column}")]
pub struct NotUnderstood {
    what: &'static str,
    line: usize,
    column: usize,
}

/// A payload as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Raw(pub Vec<u8>);

/// A payload that stays where it is, for handlers that do without it or fetch it themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unread;

impl<T: DeserializeOwned> FromPayload for T {
    fn read(bytes: Vec<u8>) -> Result<T, NotUnderstood> {
        json(&bytes)
    }
}

impl FromPayload for Raw {
    fn read(bytes: Vec<u8>) -> Result<Raw, NotUnderstood> {
        Ok(Raw(bytes))
    }
}

impl FromPayload for Unread {
    const IS_FETCHED: bool = false;

    fn read(_: Vec<u8>) -> Result<Unread, NotUnderstood> {
        Ok(Unread)
    }
}

/// Reads JSON.
pub(super) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, NotUnderstood> {
    let bytes = if bytes.is_empty() { b"null" } else { bytes };
    serde_json::from_slice(bytes).map_err(|error| {
        let what = match error.classify() {
            Category::Eof => "it ends too early",
            Category::Data => "it is not what was expected",
            Category::Syntax | Category::Io => "it is not JSON",
        };
        NotUnderstood { what, line: error.line(), column: error.column() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, PartialEq, Debug)]
    #[serde(deny_unknown_fields)]
    struct File {
        path: String,
        kind: Kind,
    }

    #[derive(serde::Deserialize, PartialEq, Debug)]
    enum Kind {
        Text,
    }

    #[test]
    fn what_is_not_understood_is_said_without_repeating_it() {
        let check = |payload: &str, want: &str| {
            let why = File::read(payload.into()).expect_err(payload).to_string();
            assert_eq!(why, want);
            assert!(!why.contains("hunter2"), "{why}");
        };
        check(r#"{"path": hunter2"#, "it is not JSON, at line 1, column 10");
        check(r#"{"path": "hunter2"#, "it ends too early, at line 1, column 17");
        let unexpected = "it is not what was expected, at line";
        check(r#"{"hunter2": 1}"#, &format!("{unexpected} 1, column 10"));
        check("{\n\"path\": \"x\", \"kind\": \"hunter2\"}", &format!("{unexpected} 2, column 30"));
        check(r#""hunter2""#, &format!("{unexpected} 1, column 9"));
    }

    #[test]
    fn nothing_is_null_and_bytes_may_stay_bytes() {
        assert_eq!(Option::<File>::read(Vec::new()), Ok(None));
        <()>::read(Vec::new()).expect("nothing is wanted");
        assert_eq!(Raw::read(vec![0xff]), Ok(Raw(vec![0xff])));
        let file = File::read(br#"{"path": "a", "kind": "Text"}"#.to_vec());
        assert_eq!(file, Ok(File { path: "a".into(), kind: Kind::Text }));
    }
}
