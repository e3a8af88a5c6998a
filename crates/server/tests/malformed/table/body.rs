//! Bodies as bytes: their type, their encoding, and JSON that is none.

use super::Wants::Problem;
use super::{Class, class};

const BAD: super::Wants = Problem(400, "malformed");
const TYPE: super::Wants = Problem(415, "unsupported_type");
const ITEMS: &str = "POST /api/v1/queues/q/items HTTP/1.1";

pub(crate) const CLASSES: &[Class] = &[
    class("a content type that is not JSON", TYPE, "application/json", |d| {
        let kind = d.pick(&[
            "text/plain",
            "text/csv",
            "application/xml",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/jsonp",
            "application/json2",
            "json",
            "*/*",
            "",
        ]);
        let path = d.pick(&["queues/q/items", "claims", "queues/q/pause"]);
        let line = format!("POST /api/v1/{path} HTTP/1.1");
        d.request(&line, &[&format!("content-type: {kind}")], b"{}")
    }),
    class("settings with a content type that is not JSON", TYPE, "application/json", |d| {
        let kind = d.pick(&["text/plain", "application/toml", "application/yaml"]);
        let line = "PUT /api/v1/queues/unused/settings HTTP/1.1";
        d.request(line, &[&format!("content-type: {kind}")], b"{}")
    }),
    class("a charset that is not UTF-8", TYPE, "utf-8", |d| {
        let charset = d.pick(&["latin1", "utf-16", "iso-8859-1", "\"utf-7\"", "x", ""]);
        let kind = d.pick(&["application/json", "application/x-ndjson"]);
        d.request(ITEMS, &[&format!("content-type: {kind}; charset={charset}")], b"{}")
    }),
    class("two content types", TYPE, "content-type", |d| {
        let other = d.pick(&["text/plain", "application/json", "application/x-ndjson"]);
        let both = ["content-type: application/json", &*format!("content-type: {other}")];
        d.request(ITEMS, &both, b"{}")
    }),
    class("an encoding that is not spoken", TYPE, "content-encoding", |d| {
        let coding = d.pick(&["gzip", "br", "zstd", "deflate", "gzip, br", "x", "compress"]);
        let path = d.pick(&["queues/q/items", "claims"]);
        let line = format!("POST /api/v1/{path} HTTP/1.1");
        let coding = format!("content-encoding: {coding}");
        d.request(&line, &["content-type: application/json", &coding], b"\x1f\x8b\x08\0\0\0\0\0")
    }),
    class("nothing where an item should be", BAD, "", |d| {
        let nothing = " ".repeat(d.number(0, 90) as usize);
        d.enqueue(&nothing)
    }),
    class("nothing where settings should be", BAD, "", |d| {
        let nothing = "\n".repeat(d.number(0, 90) as usize);
        d.settings(&nothing)
    }),
    class("JSON that breaks off", BAD, "line 1", |d| {
        let whole = r#"{"key":"a","payload":{"n":[1,2,{"x":null}]},"priority":5}"#;
        d.enqueue(&whole[..d.number(1, whole.len() as u64 - 1) as usize])
    }),
    class("something behind the JSON", BAD, "more behind the end", |d| {
        let more = d.word(1, 20);
        let item = d.pick(&["{}", "[{}]", r#"{"key":"a"}"#]);
        d.enqueue(&format!("{item} {more}"))
    }),
    class("JSON as JavaScript has it", BAD, "line ", |d| {
        let wrong = d.pick(&[
            "{'key':'a'}",
            "{key:\"a\"}",
            "{\"key\":\"a\",}",
            "{\"payload\":NaN}",
            "{\"payload\":Infinity}",
            "{\"payload\":undefined}",
            "{\"payload\":0x10}",
            "{\"payload\":+1}",
            "{\"payload\":.5}",
            "{\"payload\":01}",
            "// one\n{}",
            "{\"key\":\"a\nb\"}",
            "{\"payload\":\"\\x41\"}",
        ]);
        d.enqueue(wrong)
    }),
    class("a string that is not UTF-8", BAD, "", |d| {
        let wrong: &[u8] =
            d.pick(&[b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\x80", b"\xf4\x90\x80\x80"]);
        let body = [br#"{"key":"a"#, wrong, br#""}"#].concat();
        d.request(ITEMS, &["content-type: application/json"], &body)
    }),
    class("a payload that is not UTF-8", BAD, "", |d| {
        let wrong: &[u8] = d.pick(&[b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\x80"]);
        let body = [br#"{"payload":["x"#, wrong, br#""]}"#].concat();
        d.request(ITEMS, &["content-type: application/json"], &body)
    }),
    class("a lone surrogate", BAD, "", |d| {
        let wrong = d.pick(&["\\ud800", "\\udfff", "\\ud800\\u0041", "\\udc00\\ud800"]);
        d.enqueue(&format!(r#"{{"key":"{wrong}"}}"#))
    }),
    class("a byte order mark", BAD, "byte order mark", |d| {
        let item = format!("\u{feff}{{\"key\":\"{}\"}}", d.word(1, 9));
        d.enqueue(&item)
    }),
    class("UTF-16", BAD, "", |d| {
        let order = d.number(0, 1);
        let item = format!("{{\"key\":\"{}\"}}", d.word(1, 9));
        let bytes: Vec<u8> = item
            .encode_utf16()
            .flat_map(|unit| if order == 0 { unit.to_le_bytes() } else { unit.to_be_bytes() })
            .collect();
        d.request(ITEMS, &["content-type: application/json"], &bytes)
    }),
    class("nested deeper than anybody reads", BAD, "64", |d| {
        let depth = d.number(65, 4_000) as usize;
        let (open, close) = d.pick(&[("[", "]"), ("{\"a\":", "}")]);
        let middle = if open == "[" { "" } else { "1" };
        let field = d.pick(&["payload", "metadata"]);
        let deep = format!("{}{middle}{}", open.repeat(depth), close.repeat(depth));
        d.enqueue(&format!(r#"{{"{field}":{deep}}}"#))
    }),
    class("nested and never closed", BAD, "", |d| {
        let open = d.pick(&["[", "{\"payload\":", "[[", "{\"payload\":["]);
        d.enqueue(&open.repeat(d.number(200, 20_000) as usize))
    }),
    class("a list or a plain value where an object should be", BAD, "", |d| {
        let wrong = d.pick(&["[]", "7", "\"x\"", "null", "true", "[{}]"]);
        let line = d.pick(&["POST /api/v1/claims", "PUT /api/v1/queues/unused/settings"]);
        d.json(&format!("{line} HTTP/1.1"), wrong)
    }),
];
