//! Items that cannot be, one by one and in batches.

use super::Wants::{Accepted, Each, Problem};
use super::{Class, Draw, class};

const BAD: super::Wants = Problem(400, "malformed");
const INVALID: super::Wants = Problem(422, "invalid");

fn lines(d: &Draw<'_>, body: &[u8]) -> Vec<u8> {
    let line = "POST /api/v1/queues/lines/items HTTP/1.1";
    d.request(line, &["content-type: application/x-ndjson"], body)
}

pub(crate) const CLASSES: &[Class] = &[
    class("a plain value where an item should be", BAD, "object", |d| {
        d.enqueue(d.pick(&["7", "\"x\"", "null", "true", "[7]", "[null]", "[[]]", "[{},[]]"]))
    }),
    class("a field that there is not", BAD, "`payload`", |d| {
        let wrong = d.pick(&["paylod", "payloads", "Payload", "playload", "paiload", "pay_load"]);
        let item = format!(r#"{{"{wrong}":{}}}"#, d.number(0, 99));
        let item = if d.number(0, 1) == 0 { item } else { format!("[{{}},{item}]") };
        d.enqueue(&item)
    }),
    class("a field twice", BAD, "duplicate", |d| {
        let twice = d.pick(&[
            r#""key":"a","key":"b""#,
            r#""payload":1,"payload":2"#,
            r#""tenant":"a","user_id":"b""#,
            r#""kind":"a","item_type":"a""#,
            r#""priority":1,"priority":1"#,
        ]);
        d.enqueue(&format!("{{{twice}}}"))
    }),
    class("a field of the wrong type", BAD, "priority", |d| {
        let wrong = d.pick(&["\"5\"", "true", "[]", "{}", "5.5", "1e1", "-1", "256", "1e400"]);
        d.enqueue(&format!(r#"{{"priority":{wrong}}}"#))
    }),
    class("a text of the wrong type", BAD, "key", |d| {
        let wrong = d.pick(&["7", "true", "[]", "{}", "5.5", "[\"a\"]"]);
        let item = format!(r#"{{"key":{wrong}}}"#);
        let item = if d.number(0, 1) == 0 { item } else { format!("[{{}},{item}]") };
        d.enqueue(&item)
    }),
    class("a word that is none of those that are meant", BAD, "on_", |d| {
        let (field, word) = (d.pick(&["on_duplicate", "on_split"]), d.word(1, 9));
        d.enqueue(&format!(r#"{{"{field}":"x{word}"}}"#))
    }),
    class("a number beyond all numbers", BAD, "delay_ms", |d| {
        let number = "9".repeat(d.number(21, 400) as usize);
        d.enqueue(&format!(r#"{{"delay_ms":{number}}}"#))
    }),
    class("a priority above the highest", INVALID, "priority", |d| {
        let priority = d.number(11, 255);
        d.enqueue(&format!(r#"{{"priority":{priority}}}"#))
    }),
    class("a time that is none", BAD, "not_before", |d| {
        let wrong = d.pick(&[
            "\"tomorrow\"",
            "\"2026-13-01T00:00:00Z\"",
            "\"2026-02-30T00:00:00Z\"",
            "\"2026-11-16\"",
            "\"2026-11-16T25:00:00Z\"",
            "\"\"",
            "-1",
            "1.5",
            "true",
            "[]",
            "\"16/11/2026\"",
        ]);
        d.enqueue(&format!(r#"{{"not_before":{wrong}}}"#))
    }),
    class("a time that is too far away", INVALID, "not_before", |d| {
        let wrong =
            d.pick(&["\"9999-01-01T00:00:00Z\"", "18446744073709551615", "9000000000000000"]);
        d.enqueue(&format!(r#"{{"not_before":{wrong}}}"#))
    }),
    class("a delay that is too long", INVALID, "", |d| {
        let delay = d.number(320_000_000_000, u64::MAX >> 1);
        d.enqueue(&format!(r#"{{"delay_ms":{delay}}}"#))
    }),
    class("a time and a delay", INVALID, "delay_ms", |d| {
        let delay = d.number(0, 9_999);
        d.enqueue(&format!(r#"{{"not_before":"2026-11-16T08:30:00Z","delay_ms":{delay}}}"#))
    }),
    class("base64 that is none", BAD, "payload_base64", |d| {
        let wrong = d.pick(&[
            "\"A\"", "\"AA\"", "\"AAA\"", "\"A===\"", "\"AA=A\"", "\"!!!!\"", "\"-_==\"", "7",
        ]);
        d.enqueue(&format!(r#"{{"payload_base64":{wrong}}}"#))
    }),
    class("a payload twice over", INVALID, "payload_base64", |d| {
        let payload = d.number(0, 9_999);
        d.enqueue(&format!(r#"{{"payload":{payload},"payload_base64":"AA=="}}"#))
    }),
    class("a key that is too long", INVALID, "key", |d| {
        let key = d.word(513, 3_000);
        d.enqueue(&format!(r#"{{"key":"{key}"}}"#))
    }),
    class("metadata that is too long", INVALID, "metadata", |d| {
        let metadata = "x".repeat(d.number(4_095, 60_000) as usize);
        d.enqueue(&format!(r#"{{"metadata":"{metadata}"}}"#))
    }),
    class("a name that is too long", INVALID, "128", |d| {
        let (field, name) = (named(d), d.word(129, 900));
        d.enqueue(&format!(r#"{{"{field}":"{name}"}}"#))
    }),
    class("a NUL in a name", INVALID, "NUL", |d| {
        let field = named(d);
        d.enqueue(&format!(r#"{{"{field}":"a\u0000b"}}"#))
    }),
    class("a NUL in a key or a text", INVALID, "NUL", |d| {
        let field = d.pick(&["key", "source_info", "ref"]);
        d.enqueue(&format!(r#"{{"{field}":"a\u0000b"}}"#))
    }),
    class("a control character in a name", INVALID, "control", |d| {
        let (field, byte) =
            (named(d), d.pick(&["\\n", "\\r", "\\t", "\\u001b", "\\u007f", "\\u0085"]));
        d.enqueue(&format!(r#"{{"{field}":"a{byte}b"}}"#))
    }),
    class("a name that is empty", INVALID, "empty", |d| {
        let field = d.pick(&["tenant", "kind", "op"]);
        d.enqueue(&format!(r#"{{"{field}":""}}"#))
    }),
    class("a queue that is not the one of the path", INVALID, "queue", |d| {
        let queue = d.word(2, 9);
        d.enqueue(&format!(r#"{{"queue":"{queue}"}}"#))
    }),
    class("a route of nothing, of too much, or twice the same", INVALID, "route", |d| {
        let many: Vec<String> = (0..d.number(17, 40)).map(|at| format!("\"s{at}\"")).collect();
        let many = many.join(",");
        let route = d.pick(&["", "\"a\",\"a\"", &many, "\"\""]);
        d.enqueue(&format!(r#"{{"route":[{route}]}}"#))
    }),
    class("a route that is none", BAD, "route", |d| {
        let route = d.pick(&["7", "\"a\"", "[7]", "{}", "[null]", "[{\"name\":\"a\"}]"]);
        d.enqueue(&format!(r#"{{"route":{route}}}"#))
    }),
    class("no items", Accepted(200, 0), "", |d| {
        let space = " ".repeat(d.number(0, 30) as usize);
        d.enqueue(&format!("[{space}]"))
    }),
    class("more items than one request may have", INVALID, "1000", |d| {
        let many = vec!["{}"; d.number(1_001, 1_100) as usize];
        d.enqueue(&format!("[{}]", many.join(",")))
    }),
    class("a batch of which every item is wrong", Each("invalid"), "priority", |d| {
        let (one, two) = (d.number(11, 255), d.number(11, 255));
        d.enqueue(&format!(r#"[{{"priority":{one}}},{{"priority":{two}}}]"#))
    }),
    class("a batch with a time and a delay", Each("invalid"), "delay_ms", |d| {
        let delay = d.number(0, 9_999);
        d.enqueue(&format!(r#"[{{"not_before":0,"delay_ms":{delay}}}]"#))
    }),
    class("lines of which one is not JSON", BAD, "line 3", |d| {
        let wrong = d.pick(&["{", "x", "[]", "7", "{}{}", "{\"a\":1}", "null"]);
        lines(d, format!("{{}}\n\n{wrong}\n{{}}\n").as_bytes())
    }),
    class("a line that is not UTF-8", BAD, "line 1", |d| {
        let wrong: &[u8] = d.pick(&[b"\xff", b"\xc0\xaf", b"\x80"]);
        lines(d, &[b"{\"key\":\"", wrong, b"\"}\n"].concat())
    }),
    class("lines that are blank, or end with none", Accepted(200, 1), "", |d| {
        let (before, after) = (d.pick(&["", "\n", "\r\n \n"]), d.pick(&["", "\n", "\r\n\r\n"]));
        lines(d, format!("{before}{{\"payload\":{}}}{after}", d.number(0, 99)).as_bytes())
    }),
    class("no lines", Accepted(200, 0), "", |d| {
        let blank = "\n".repeat(d.number(0, 30) as usize);
        lines(d, blank.as_bytes())
    }),
    class("too many lines", INVALID, "1000", |d| {
        lines(d, "{}\n".repeat(d.number(1_001, 1_100) as usize).as_bytes())
    }),
];

fn named(d: &Draw<'_>) -> &'static str {
    d.pick(&[
        "tenant",
        "kind",
        "op",
        "group",
        "collection",
        "branch",
        "source_type",
        "content_type",
    ])
}
