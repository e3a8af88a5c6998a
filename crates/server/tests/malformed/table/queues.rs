//! Settings that make no sense, and queues that nobody uses.

use super::Wants::{Accepted, Problem};
use super::{Class, class};

const BAD: super::Wants = Problem(400, "malformed");
const INVALID: super::Wants = Problem(422, "invalid");

pub(crate) const CLASSES: &[Class] = &[
    class("settings with a field that there is not", BAD, "`max_attempts`", |d| {
        let wrong = d.pick(&["max_attempt", "max_attemptss", "max_atempts", "maxAttempts"]);
        let said = format!(r#"{{"{wrong}":3}}"#);
        let said = match d.number(0, 1) {
            0 => said,
            _ => format!(r#"{{"stages":[{{"stage":"ocr","{wrong}":3}}]}}"#),
        };
        d.settings(&said)
    }),
    class("a setting twice", BAD, "duplicate", |d| {
        let field = d.pick(&["lease_ms", "live_max", "max_attempts"]);
        d.settings(&format!(r#"{{"{field}":5000,"{field}":6000}}"#))
    }),
    class("a setting of the wrong type", BAD, "", |d| {
        let field =
            d.pick(&["lease_ms", "max_attempts", "retention", "backoff", "stages", "ordered"]);
        let wrong = d.pick(&["\"5\"", "-1", "1.5", "\"\""]);
        d.settings(&format!(r#"{{"{field}":{wrong}}}"#))
    }),
    class("a lease that is over at once, or never", INVALID, "lease_ms", |d| {
        let ms = d.pick(&[0, 43_200_001, u64::MAX]);
        let said = format!(r#""lease_ms":{ms}"#);
        let said = match d.number(0, 2) {
            0 => format!("{{{said}}}"),
            1 => format!(r#"{{"stages":[{{"stage":"ocr",{said}}}]}}"#),
            _ => format!(r#"{{"kinds":[{{"kind":"page",{said}}}]}}"#),
        };
        d.settings(&said)
    }),
    class("a wait that may not even reach its beginning", INVALID, "backoff", |d| {
        let base = d.number(2, 9_999);
        let cap = base - 1;
        let said = match d.number(0, 1) {
            0 => format!(r#""backoff":{{"base_ms":{base},"cap_ms":{cap}}}"#),
            _ => format!(r#""backoff":{{"slow_base_ms":{base},"slow_cap_ms":{cap}}}"#),
        };
        d.settings(&format!("{{{said}}}"))
    }),
    class("a wait of more than ten years", INVALID, "backoff", |d| {
        let cap = d.number(320_000_000_000, u64::MAX >> 1);
        d.settings(&format!(r#"{{"backoff":{{"cap_ms":{cap}}}}}"#))
    }),
    class("a group that may do nothing", INVALID, "group_limit", |d| {
        let attempts = d.number(1, 99);
        d.settings(&format!(r#"{{"group_limit":0,"max_attempts":{attempts}}}"#))
    }),
    class("two settings for the same stage or kind", INVALID, "twice", |d| {
        let name = d.word(1, 9);
        let stage = format!(r#"{{"stage":"{name}"}}"#);
        let kind = format!(r#"{{"kind":"{name}","lease_ms":1000}}"#);
        let said = match d.number(0, 1) {
            0 => format!(r#"{{"stages":[{stage},{stage}]}}"#),
            _ => format!(r#"{{"kinds":[{kind},{kind}]}}"#),
        };
        d.settings(&said)
    }),
    class("settings for a stage without a name", INVALID, "stage", |d| {
        let attempts = d.number(1, 99);
        d.settings(&format!(r#"{{"stages":[{{"stage":"","max_attempts":{attempts}}}]}}"#))
    }),
    class("a word that is no policy", BAD, "", |d| {
        let (field, word) = (d.pick(&["on_expiry", "unique"]), d.word(1, 9));
        d.settings(&format!(r#"{{"{field}":"x{word}"}}"#))
    }),
    class("a pause of a stage or tenant without a name", INVALID, "empty", |d| {
        let (verb, field) = (d.pick(&["pause", "resume"]), d.pick(&["stage", "tenant"]));
        let line = format!("POST /api/v1/queues/q/{verb} HTTP/1.1");
        d.json(&line, &format!(r#"{{"{field}":""}}"#))
    }),
    class("a pause with a field that there is not", BAD, "`stage`", |d| {
        let (verb, field) = (d.pick(&["pause", "resume"]), d.pick(&["stages", "Stage", "stge"]));
        let line = format!("POST /api/v1/queues/q/{verb} HTTP/1.1");
        d.json(&line, &format!(r#"{{"{field}":"ocr"}}"#))
    }),
    // A queue is there as soon as it is named, so it can be paused before its first item comes;
    // the answer says that none is here, in case the name is a slip.
    class("a pause of a queue that nobody uses", Accepted(200, 0), "", |d| {
        let (name, verb) = (d.word(1, 9), d.pick(&["pause", "resume"]));
        d.json(&format!("POST /api/v1/queues/unused-{name}/{verb} HTTP/1.1"), "{}")
    }),
    class("keeping nothing, or for ever", INVALID, "must lie between 1 and", |d| {
        let body = d.pick(&[
            r#"{"max_age_days":0}"#,
            r#"{"max_age_days":36501}"#,
            r#"{"max_per_user":0}"#,
            r#"{"max_age_days":7,"max_per_user":4294967295}"#,
        ]);
        d.json("PATCH /api/v1/admin/settings/queue HTTP/1.1", body)
    }),
    class("something to keep that there is not", BAD, "", |d| {
        let name = d.pick(&["max_age", "max_age_day", "max_age_ms", "retention"]);
        d.json("PATCH /api/v1/admin/settings/queue HTTP/1.1", &format!(r#"{{"{name}":1}}"#))
    }),
    class("settings of every queue as if it were one", INVALID, "is no queue", |d| {
        let name = d.pick(&["*", "%2A", "%2a"]);
        d.json(&format!("PUT /api/v1/queues/{name}/settings HTTP/1.1"), "{}")
    }),
];
