//! Calls of stages that are done elsewhere, as no worker would send them.

use super::Wants::Problem;
use super::{Class, Draw, class};

const BAD: super::Wants = Problem(400, "malformed");
const INVALID: super::Wants = Problem(422, "invalid");

fn call(d: &Draw<'_>, query: &str, body: &str) -> Vec<u8> {
    d.json(&format!("POST /api/v1/documents/stage-calls{query} HTTP/1.1"), body)
}

/// A call that could be read, but for what stands in the middle of it.
fn read(d: &Draw<'_>, reading: &str) -> Vec<u8> {
    let body = format!(r#"{{"tenant":"default","call":{{"read":{reading}}}}}"#);
    call(d, "?version=1", &body)
}

pub(crate) const CLASSES: &[Class] = &[
    class("a stage call of another version", INVALID, "the same windrow", |d| {
        let version = d.pick(&["0", "2", "99999999999", "1.0", "one", "-1"]);
        call(d, &format!("?version={version}"), "what nobody could read")
    }),
    class("a stage call that does not say its version", INVALID, "must be said", |d| {
        call(d, d.pick(&["", "?"]), r#"{"tenant":"default","call":{"read":{}}}"#)
    }),
    class("a stage call with a parameter that there is not", BAD, "unknown field", |d| {
        call(d, &format!("?version=1&{}=1", d.word(4, 9)), "{}")
    }),
    class("a stage call that there is not", BAD, "expected", |d| {
        read(d, &format!(r#"{{"{}":{{}}}}"#, d.word(3, 12)))
    }),
    class("a stage call without what it is about", BAD, "missing field", |d| {
        let verb = d.pick(&["content", "markdown", "pages_read", "pieces", "piece", "remembered"]);
        read(d, &format!(r#"{{"{verb}":{{}}}}"#))
    }),
    class("a chunk whose id is none", BAD, "32 small hexadecimal digits", |d| {
        let id = d.pick(&["", "00", "ABCDEFABCDEFABCDEFABCDEFABCDEFAB", "zz"]);
        read(d, &format!(r#"{{"piece":{{"chunk":"{id}"}}}}"#))
    }),
    class("a stage call of a tenant whose name is none", INVALID, "tenant", |d| {
        let tenant = d.pick(&["", "a\\u0000b"]);
        let chunk = "0".repeat(32);
        let body = format!(
            r#"{{"tenant":"{tenant}","call":{{"read":{{"piece":{{"chunk":"{chunk}"}}}}}}}}"#
        );
        call(d, "?version=1", &body)
    }),
];
