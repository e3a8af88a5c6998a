//! Claims, renewals, progress and settles that cannot be.

use super::Wants::{Accepted, Each, Problem};
use super::{Class, class};

const BAD: super::Wants = Problem(400, "malformed");
const INVALID: super::Wants = Problem(422, "invalid");
const NOBODY: &str = "01a1e554-9c99-7001-b210-29840971dd42";

pub(crate) const CLASSES: &[Class] = &[
    class("a claim of nothing, or of too much", INVALID, "max", |d| {
        let max = d.pick(&[0, 1_001, 5_000, 4_294_967_295_u64]);
        d.claim(&format!(r#"{{"queues":["none"],"max":{max}}}"#))
    }),
    class("a lease of no length, or of days", INVALID, "lease_ms", |d| {
        let ms = d.pick(&[0, 43_200_001, 864_000_000, u64::MAX]);
        d.claim(&format!(r#"{{"queues":["none"],"lease_ms":{ms}}}"#))
    }),
    class("a claim that would wait too long", INVALID, "60000", |d| {
        let ms = d.pick(&[60_001, 90_000, 3_600_000, u64::MAX]);
        d.claim(&format!(r#"{{"queues":["none"],"wait_ms":{ms}}}"#))
    }),
    class("a number of a claim that is none", BAD, "", |d| {
        let field = d.pick(&["max", "lease_ms", "wait_ms"]);
        let wrong = d.pick(&["-1", "\"5\"", "1.5", "true", "[]", "99999999999999999999999"]);
        d.claim(&format!(r#"{{"queues":["none"],"{field}":{wrong}}}"#))
    }),
    class("a claim with a field that there is not", BAD, "`queues`", |d| {
        let wrong = d.pick(&["queue", "Queues", "queus", "quees"]);
        d.claim(&format!(r#"{{"{wrong}":["none"]}}"#))
    }),
    class("a claim of queues that are no list of names", BAD, "queues", |d| {
        let wrong = d.pick(&["\"none\"", "7", "[7]", "[[]]", "{}", "[null]"]);
        d.claim(&format!(r#"{{"queues":{wrong}}}"#))
    }),
    class("a claim with a name that is too long or has a NUL", INVALID, "", |d| {
        let (field, long) = (d.pick(&["queues", "stages", "kinds", "tenants"]), d.word(129, 900));
        let name = d.pick(&["a\\u0000", &long, "a\\nb"]);
        d.claim(&format!(r#"{{"{field}":["{name}"]}}"#))
    }),
    class("a worker whose name is too long or has a NUL", INVALID, "worker", |d| {
        let long = d.word(129, 900);
        let name = d.pick(&["a\\u0000", &long, "a\\u001b[31m"]);
        d.claim(&format!(r#"{{"queues":["none"],"worker":"{name}"}}"#))
    }),
    class("a renewal of no length, or of days", INVALID, "lease_ms", |d| {
        let ms = d.pick(&[0, 43_200_001, 864_000_000, u64::MAX]);
        d.json(&d.lease("renew"), &format!(r#"{{"lease_ms":{ms}}}"#))
    }),
    class("a lease that nobody holds", Problem(409, "lease_lost"), "", |d| {
        let body = d.pick(&["{}", r#"{"lease_ms":1000}"#]);
        d.json(&format!("POST /api/v1/leases/{NOBODY}/renew HTTP/1.1"), body)
    }),
    class("a settle without items", BAD, "items", |d| {
        let wrong = d.pick(&["{}", r#"{"items":null}"#, r#"{"items":{}}"#, r#"{"items":"x"}"#]);
        let verb = d.pick(&["settle", "progress"]);
        d.json(&d.lease(verb), wrong)
    }),
    class("a settle of nothing", Accepted(200, 0), "", |d| {
        let verb = d.pick(&["settle", "progress"]);
        d.json(&d.lease(verb), r#"{"items":[]}"#)
    }),
    class("a settle of more than one request may have", INVALID, "1000", |d| {
        let item = format!(r#"{{"id":"{}","outcome":"complete"}}"#, d.bed.held);
        let many = vec![item; d.number(1_001, 1_050) as usize];
        d.json(&d.lease("settle"), &format!(r#"{{"items":[{}]}}"#, many.join(",")))
    }),
    class("a settle of an id that is none", Each("invalid"), "id", |d| {
        let id = d.word(0, 40);
        let item = format!(r#"{{"id":"{id}","outcome":"complete"}}"#);
        d.json(&d.lease("settle"), &format!(r#"{{"items":[{item}]}}"#))
    }),
    class("a settle of an item that nobody has", Each("not_found"), "", |d| {
        let word = d.pick(&["complete", "release"]);
        let item = format!(r#"{{"id":"{NOBODY}","outcome":"{word}"}}"#);
        d.json(&d.lease("settle"), &format!(r#"{{"items":[{item}]}}"#))
    }),
    class("a settle of an item that the lease does not hold", Each("lease_lost"), "", |d| {
        let word = d.pick(&["complete", "release"]);
        let item = format!(r#"{{"id":"{}","outcome":"{word}"}}"#, d.bed.waiting);
        d.json(&d.lease("settle"), &format!(r#"{{"items":[{item}]}}"#))
    }),
    class("an outcome that there is not", BAD, "outcome", |d| {
        let word = d.pick(&["done", "Complete", "completed", "failed", "", "ok"]);
        d.settle(&format!(r#""outcome":"{word}""#))
    }),
    class("an outcome without what it needs", Each("invalid"), "needs", |d| {
        let word = d.pick(&["retry", "fail", "skip", "snooze"]);
        d.settle(&format!(r#""outcome":"{word}""#))
    }),
    class("a field that does not belong to its outcome", Each("invalid"), "outcome", |d| {
        d.settle(d.pick(&[
            r#""outcome":"complete","error":"e""#,
            r#""outcome":"complete","delay_ms":5"#,
            r#""outcome":"complete","children":[{"ordinal":0,"kind":"page"}]"#,
            r#""outcome":"fail","error":"e","result":1"#,
            r#""outcome":"fail","error":"e","delay_ms":5"#,
            r#""outcome":"retry","error":"e","reason":"r""#,
            r#""outcome":"release","error":"e""#,
            r#""outcome":"release","until":"2030-01-01T00:00:00Z""#,
            r#""outcome":"skip","reason":"r","output":1"#,
            r#""outcome":"split","children":[],"result":1"#,
            r#""outcome":"snooze","until":"2027-01-01T00:00:00Z","class":"gone""#,
            r#""outcome":"complete","more":true"#,
        ]))
    }),
    class("an item that sleeps until a time that has passed", Each("invalid"), "until", |d| {
        let until = d.pick(&["\"2020-01-01T00:00:00Z\"", "0", "1000", "\"1999-12-31T23:59:59Z\""]);
        d.settle(&format!(r#""outcome":"snooze","until":{until}"#))
    }),
    class("an item that sleeps for longer than ten years", Each("invalid"), "until", |d| {
        let until = d.pick(&["\"9999-01-01T00:00:00Z\"", "18446744073709551615"]);
        d.settle(&format!(r#""outcome":"snooze","until":{until}"#))
    }),
    class("a delay of more than ten years", Each("invalid"), "delay_ms", |d| {
        let word = d.pick(&[r#""outcome":"retry","error":"e""#, r#""outcome":"release""#]);
        let ms = d.number(320_000_000_000, u64::MAX >> 1);
        d.settle(&format!(r#"{word},"delay_ms":{ms}"#))
    }),
    class("a class of error that there is not", BAD, "class", |d| {
        let class = d.pick(&["internal", "children", "lease_expired", "x", "", "Gone"]);
        d.settle(&format!(r#""outcome":"fail","error":"e","class":"{class}""#))
    }),
    class("a result twice over", Each("invalid"), "result", |d| {
        let result = d.number(0, 9_999);
        d.settle(&format!(r#""outcome":"complete","result":{result},"result_base64":"AA==""#))
    }),
    class("a result or output that is too long", Each("invalid"), "65536", |d| {
        let (field, text) =
            (d.pick(&["result", "output"]), "x".repeat(d.number(65_535, 90_000) as usize));
        d.settle(&format!(r#""outcome":"complete","{field}":"{text}""#))
    }),
    class("a child without its number or kind", BAD, "children", |d| {
        let child = d.pick(&[r#"{"kind":"page"}"#, r#"{"ordinal":0}"#, "{}", "7", "[]", "null"]);
        d.settle(&format!(r#""outcome":"split","children":[{child}]"#))
    }),
    class("a child that cannot be", Each("invalid"), "", |d| {
        let child = d.pick(&[
            r#"{"ordinal":4294967295,"kind":"page"}"#,
            r#"{"ordinal":0,"kind":""}"#,
            r#"{"ordinal":0,"kind":"page","priority":11}"#,
            r#"{"ordinal":0,"kind":"page","payload":1,"payload_base64":"AA=="}"#,
            r#"{"ordinal":0,"kind":"page","route":[]}"#,
            r#"{"ordinal":0,"kind":"a\u0000"}"#,
        ]);
        d.settle(&format!(r#""outcome":"split","children":[{child}]"#))
    }),
    class("two children with one number", Each("invalid"), "children: the ordinal", |d| {
        let (one, other) = (d.number(0, 99), d.number(100, 199));
        let child = |ordinal: u64| format!(r#"{{"ordinal":{ordinal},"kind":"page"}}"#);
        let children = [child(one), child(other), child(one)].join(",");
        d.settle(&format!(r#""outcome":"split","children":[{children}]"#))
    }),
    class("something spawned without a queue", Each("invalid"), "queue", |d| {
        let payload = d.number(0, 99);
        d.settle(&format!(r#""outcome":"complete","spawn":[{{"payload":{payload}}}]"#))
    }),
    class("progress that is none", BAD, "", |d| {
        let wrong = d.pick(&[
            r#""current":-1,"total":2"#,
            r#""current":1"#,
            r#""total":1"#,
            r#""current":"1","total":2"#,
            r#""current":1,"total":2,"message":7"#,
            r#""current":1,"total":2,"percent":50"#,
        ]);
        let body = format!(r#"{{"items":[{{"id":"{}",{wrong}}}]}}"#, d.bed.held);
        d.json(&d.lease("progress"), &body)
    }),
    class("progress of an item that is none", Each("invalid"), "id", |d| {
        let id = d.word(0, 40);
        let body = format!(r#"{{"items":[{{"id":"{id}","current":1,"total":2}}]}}"#);
        d.json(&d.lease("progress"), &body)
    }),
    class("a cancel of what has ended", Problem(409, "already_done"), "ended", |d| {
        let body = d.pick(&["", "{}"]);
        d.json(&format!("POST /api/v1/queue/{}/cancel HTTP/1.1", d.bed.failed), body)
    }),
    class("a removal of what has not ended", Problem(409, "still_live"), "cancel it", |d| {
        let id = d.pick(&[d.bed.held.as_str(), d.bed.waiting.as_str()]);
        d.request(&format!("DELETE /api/v1/queue/{id} HTTP/1.1"), &[], b"")
    }),
    class("a retry of what has not ended", Problem(409, "still_live"), "", |d| {
        let body = d.pick(&["{}", "", r#"{"mode":"reset"}"#, r#"{"mode":"clone"}"#]);
        d.json(&format!("POST /api/v1/queue/{}/retry HTTP/1.1", d.bed.waiting), body)
    }),
    class("a retry that says two things", INVALID, "mode", |d| {
        let (query, body) = d.pick(&[("reset", "clone"), ("clone", "reset")]);
        let line = format!("POST /api/v1/queue/{}/retry?mode={query} HTTP/1.1", d.bed.failed);
        d.json(&line, &format!(r#"{{"mode":"{body}"}}"#))
    }),
    class("a retry in a way that there is not", BAD, "mode", |d| {
        let mode = d.pick(&["again", "Reset", "", "copy"]);
        let body = format!(r#"{{"mode":"{mode}"}}"#);
        d.json(&format!("POST /api/v1/queue/{}/retry HTTP/1.1", d.bed.failed), &body)
    }),
    class("a job that is no longer to be cancelled", Problem(400, "wrong_status"), "failed", |d| {
        let id = &d.bed.failed;
        let line = format!("POST /api/v1/admin/queue/cancel?jobId={id} HTTP/1.1");
        d.json(&line, d.pick(&["{}", ""]))
    }),
    class("a job that did not fail", Problem(400, "wrong_status"), "only a failed job", |d| {
        let id = d.pick(&[&*d.bed.waiting, &*d.bed.held]);
        d.json("POST /api/admin/queue/retry HTTP/1.1", &format!(r#"{{"jobId":"{id}"}}"#))
    }),
    class("a job that nobody has", Problem(404, "not_found"), "", |d| {
        let word = d.word(1, 40);
        let id = d.pick(&[NOBODY, "0", "null", &word]);
        let verb = d.pick(&["cancel", "retry"]);
        let line = format!("POST /api/v1/admin/queue/{verb} HTTP/1.1");
        d.json(&line, &format!(r#"{{"jobId":"{id}"}}"#))
    }),
    class("no job at all", INVALID, "jobId", |d| {
        let verb = d.pick(&["cancel", "retry"]);
        d.json(&format!("POST /api/v1/admin/queue/{verb} HTTP/1.1"), d.pick(&["{}", ""]))
    }),
    class("a retry from a stage that there is not", Problem(422, "no_such_stage"), "stage", |d| {
        let stage = d.word(1, 9);
        let body = format!(r#"{{"mode":"reset","from_stage":"x{stage}"}}"#);
        d.json(&format!("POST /api/v1/queue/{}/retry HTTP/1.1", d.bed.failed), &body)
    }),
];
