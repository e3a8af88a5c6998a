//! Sources that cannot be watched.

use super::Wants::Problem;
use super::{Class, Draw, class};

const BAD: super::Wants = Problem(400, "malformed");
const INVALID: super::Wants = Problem(422, "invalid");

fn put(d: &Draw<'_>, name: &str, body: &str) -> Vec<u8> {
    d.json(&format!("PUT /api/v1/sources/{name} HTTP/1.1"), body)
}

pub(crate) const CLASSES: &[Class] = &[
    class("a source with a field that there is not", BAD, "`collection`", |d| {
        let wrong = d.pick(&["collections", "Collection", "colection"]);
        put(d, &d.word(1, 9), &format!(r#"{{"path":"/tmp","{wrong}":"c"}}"#))
    }),
    class("a source without a path", BAD, "path", |d| put(d, &d.word(1, 9), "{}")),
    class("a path that begins nowhere", INVALID, "must begin with a slash", |d| {
        let path = d.pick(&["tmp", "./tmp", "~/tmp", "file:///tmp", "C:/tmp"]);
        put(d, &d.word(1, 9), &format!(r#"{{"path":"{path}"}}"#))
    }),
    class("a path that leads out of itself", INVALID, "must not have . or ..", |d| {
        let path = d.pick(&["/tmp/..", "/tmp/../etc", "/./tmp", "/tmp/.."]);
        put(d, &d.word(1, 9), &format!(r#"{{"path":"{path}"}}"#))
    }),
    class("a path where nothing is", INVALID, "cannot be read here", |d| {
        put(d, &d.word(1, 9), &format!(r#"{{"path":"/nowhere/{}"}}"#, d.word(1, 9)))
    }),
    class("a path that is longer than any", INVALID, "at most 1000", |d| {
        let length = d.number(1_001, 5_000) as usize;
        put(d, &d.word(1, 9), &format!(r#"{{"path":"/{}"}}"#, "a".repeat(length)))
    }),
    class("a source with an odd name", INVALID, "name", |d| {
        let name = d.pick(&["a%20b", "%C3%BC", "a@b", "a%2Fb"]);
        put(d, name, r#"{"path":"/tmp"}"#)
    }),
    class("a word for what is missing that there is not", BAD, "`keep`", |d| {
        let word = d.pick(&["delete", "Remove", "drop", ""]);
        put(d, &d.word(1, 9), &format!(r#"{{"path":"/tmp","on_missing":"{word}"}}"#))
    }),
    class("paths where names are left out", INVALID, "no paths", |d| {
        let name = d.pick(&["a/b", "/tmp", "./a", "."]);
        put(d, &d.word(1, 9), &format!(r#"{{"path":"/tmp","ignore":["{name}"]}}"#))
    }),
    class("a verb on a source that there is not", Problem(404, "not_found"), "source", |d| {
        let (name, verb) = (d.word(1, 9), d.pick(&["pause", "resume", "rescan"]));
        d.json(&format!("POST /api/v1/sources/{name}/{verb} HTTP/1.1"), "")
    }),
];
