//! Methods, paths, names in paths, and what stands after the question mark.

use super::Wants::{Accepted, Problem};
use super::{Class, class};

const BAD: super::Wants = Problem(400, "malformed");
const ABSENT: super::Wants = Problem(404, "not_found");
const METHOD: super::Wants = Problem(405, "method_not_allowed");
const INVALID: super::Wants = Problem(422, "invalid");
/// Well made, and nobody has it.
const NOBODY: &str = "01a1e554-9c99-7001-b210-29840971dd42";

pub(crate) const CLASSES: &[Class] = &[
    class("a method that is not for this path", METHOD, "Allow", |d| {
        let line = d.pick(&[
            "GET /api/v1/claims",
            "PUT /api/v1/queues/q/items",
            "DELETE /api/v1/queue/stats",
            "PATCH /api/v1/queues/q/settings",
            "POST /healthz",
            "PUT /api/claims",
            "DELETE /docs",
            "POST /api/v1/openapi.json",
        ]);
        d.request(&format!("{line} HTTP/1.1"), &[], b"")
    }),
    class("a method that nobody knows", METHOD, "Allow", |d| {
        let (method, path) =
            (d.word(1, 20).to_uppercase(), d.pick(&["/healthz", "/api/v1/claims"]));
        d.request(&format!("X{method} {path} HTTP/1.1"), &[], b"")
    }),
    class("a method in small letters", METHOD, "Allow", |d| {
        let method = d.pick(&["get", "Get", "gET", "post"]);
        d.request(&format!("{method} /healthz HTTP/1.1"), &[], b"")
    }),
    class("TRACE and OPTIONS", METHOD, "Allow", |d| {
        let method = d.pick(&["TRACE", "OPTIONS"]);
        let path = d.pick(&["/healthz", "/api/v1/claims", "/api/v1/queue/stats", "/docs"]);
        d.request(&format!("{method} {path} HTTP/1.1"), &[], b"")
    }),
    class("a tunnel", Problem(421, "misdirected_host"), "localhost", |d| {
        let port = d.number(1, 65_535);
        d.raw(&format!("CONNECT example.com:{port} HTTP/1.1"), &[], b"")
    }),
    class("a path that there is not", ABSENT, "/docs", |d| {
        let word = d.word(1, 12);
        let path = d.pick(&["/", "/api/v2/", "/api/v1/x", "/api/v1/queues/q/items/", "/admin/x"]);
        d.request(&format!("GET {path}{word} HTTP/1.1"), &[], b"")
    }),
    class("a path that climbs", ABSENT, "/docs", |d| {
        let path = d.pick(&[
            "/api/v1/../../etc/passwd",
            "/../healthz",
            "/docs/../../x",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/docs/..%2f..%2fetc",
            "/..%5c..%5cwindows",
            "//healthz",
            "/docs/.",
        ]);
        let method = d.pick(&["GET", "POST"]);
        d.request(&format!("{method} {path} HTTP/1.1"), &[], b"")
    }),
    class("a percent sign that encodes nothing", BAD, "percent", |d| {
        let wrong = d.pick(&["%", "%1", "%zz", "%%", "%u0041", "%-1", "a%2", "%0g"]);
        let verb = d.pick(&["items", "pause", "resume"]);
        d.json(&format!("POST /api/v1/queues/{wrong}/{verb} HTTP/1.1"), "{}")
    }),
    class("an encoded name that is not UTF-8", BAD, "UTF-8", |d| {
        let wrong = d.pick(&["%ff", "a%fe", "%c0%af", "%ed%a0%80", "%80", "%f8%88%80%80%80"]);
        let verb = d.pick(&["items", "pause", "resume"]);
        d.json(&format!("POST /api/v1/queues/{wrong}/{verb} HTTP/1.1"), "{}")
    }),
    class("a NUL in the name of a queue", INVALID, "queue", |d| {
        let (word, verb) = (d.word(0, 5), d.pick(&["items", "pause", "resume"]));
        d.json(&format!("POST /api/v1/queues/a%00{word}/{verb} HTTP/1.1"), "{}")
    }),
    class("a control character in the name of a queue", INVALID, "queue", |d| {
        let byte = d.pick(&["%01", "%0a", "%0d%0a", "%1b%5b31m", "%7f", "%09", "%c2%85"]);
        let verb = d.pick(&["items", "pause", "resume"]);
        d.json(&format!("POST /api/v1/queues/a{byte}/{verb} HTTP/1.1"), "{}")
    }),
    class("the name of a queue is too long", INVALID, "queue", |d| {
        let (name, verb) = (d.word(129, 900), d.pick(&["items", "pause", "resume"]));
        d.json(&format!("POST /api/v1/queues/{name}/{verb} HTTP/1.1"), "{}")
    }),
    class("no name of a queue", INVALID, "queue", |d| {
        let verb = d.pick(&["items", "pause", "resume"]);
        d.json(&format!("POST /api/v1/queues//{verb} HTTP/1.1"), "{}")
    }),
    class("an id that is none", ABSENT, "id", |d| {
        let word = d.word(1, 40);
        let id = d.pick(&["0", "-1", "null", "..", "%27", "01a1e554-9c99-7001-b210", &word]);
        let (method, rest) = d.pick(&[
            ("GET", ""),
            ("DELETE", ""),
            ("GET", "/explain"),
            ("GET", "/tree"),
            ("POST", "/cancel"),
            ("POST", "/retry"),
        ]);
        d.request(&format!("{method} /api/v1/queue/{id}{rest} HTTP/1.1"), &[], b"")
    }),
    class("an id that nobody has", ABSENT, "", |d| {
        let (method, rest) = d.pick(&[
            ("GET", ""),
            ("DELETE", ""),
            ("GET", "/explain"),
            ("GET", "/tree"),
            ("POST", "/cancel"),
            ("POST", "/retry"),
        ]);
        d.request(&format!("{method} /api/v1/queue/{NOBODY}{rest} HTTP/1.1"), &[], b"")
    }),
    class("a lease that is none", ABSENT, "lease", |d| {
        let word = d.word(1, 40);
        let lease = d.pick(&["0", "null", "%27%20or%201=1", &word]);
        let items = r#"{"items":[]}"#;
        let (verb, body) = d.pick(&[("renew", "{}"), ("settle", items), ("progress", items)]);
        d.json(&format!("POST /api/v1/leases/{lease}/{verb} HTTP/1.1"), body)
    }),
    class("a parameter that there is not", BAD, "", |d| {
        let word = d.word(1, 9);
        let path = d.pick(&["/api/v1/queue/stats", "/api/queue/stats"]);
        d.request(&format!("GET {path}?x{word}=1 HTTP/1.1"), &[], b"")
    }),
    class("a parameter twice", BAD, "", |d| {
        let (one, two) = (d.word(1, 9), d.word(1, 9));
        d.request(&format!("GET /api/v1/queue/stats?queue={one}&queue={two} HTTP/1.1"), &[], b"")
    }),
    class("a parameter that is no number", BAD, "", |d| {
        let wrong =
            d.pick(&["-1", "x", "1.5", "", "99999999999999999999999", "0x10", "1e3", "%00"]);
        let name = d.pick(&["from", "limit"]);
        let id = &d.bed.waiting;
        d.request(&format!("GET /api/v1/queue/{id}/tree?{name}={wrong} HTTP/1.1"), &[], b"")
    }),
    class("a page that is too large, or nothing", INVALID, "limit", |d| {
        let limit = d.pick(&[0_u64, 201, 1_000, 4_000_000_000]);
        let id = &d.bed.waiting;
        d.request(&format!("GET /api/v1/queue/{id}/tree?limit={limit} HTTP/1.1"), &[], b"")
    }),
    class("a view that there is not", ABSENT, "unified_queue, stale_items, job_queue", |d| {
        let word = d.word(1, 40);
        let name = d.pick(&["job_queues", "JOB_QUEUE", "every", "windrow.documents", "%27", &word]);
        d.request(&format!("GET /api/v1/views/{name} HTTP/1.1"), &[], b"")
    }),
    class("a view narrowed by what it has not", INVALID, "is not narrowed by it", |d| {
        let view = d.pick(&[
            "documents?page_id",
            "job_queue?document_id",
            "queue_stats?collection",
            "stale_items?status",
            "task_queue_page?kind",
        ]);
        d.request(&format!("GET /api/v1/views/{view}={} HTTP/1.1", d.word(1, 9)), &[], b"")
    }),
    class("a view with a page or a place that is none", INVALID, "", |d| {
        let wrong = d.pick(&[
            "limit=0",
            "limit=201",
            "cursor=1",
            "cursor=..",
            "status=lost",
            "status=failed,lost",
        ]);
        d.request(&format!("GET /api/v1/views/job_queue?{wrong} HTTP/1.1"), &[], b"")
    }),
    class("a parameter that is not encoded as one", BAD, "percent", |d| {
        let wrong = d.pick(&["%", "%z1", "a%2", "%%20"]);
        d.request(&format!("GET /api/v1/queue/stats?queue={wrong} HTTP/1.1"), &[], b"")
    }),
    class("a body where none is read", Accepted(200, 0), "", |d| {
        let body = d.word(1, 9_000);
        d.request("GET /api/v1/queue/stats HTTP/1.1", &[], body.as_bytes())
    }),
];
