//! Traces: the context that an item keeps, and what a collector gets from a server that works. Most
//! of it needs the feature `otel`, with which `cargo xtask test` runs this file once more.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[cfg(feature = "otel")]
mod collector;
mod rig;

#[cfg(feature = "otel")]
use collector::Collector;
use rig::{Data, Server};
#[cfg(feature = "otel")]
use serde_json::Value;
use serde_json::json;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PRODUCER: &str = "b7ad6b7169203331";
const WORKER: &str = "00f067aa0ba902b7";

fn traced(span: &str) -> String {
    format!("traceparent: 00-{TRACE}-{span}-01")
}

#[cfg(feature = "otel")]
fn start(test: &str) -> (Data, Collector, Server) {
    let (data, collector) = (Data::new(test), Collector::start());
    let endpoint = collector.endpoint();
    let server = Server::start(&data.place(), &[("WINDROW_OTEL__ENDPOINT", &endpoint)]);
    (data, collector, server)
}

#[cfg(feature = "otel")]
fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a str> {
    let attributes = span["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == key)?;
    found["value"]["stringValue"].as_str().or(found["value"]["intValue"].as_str())
}

#[cfg(feature = "otel")]
#[test]
fn the_life_of_an_item_is_one_trace() {
    let (_data, collector, server) = start("otel-life");
    let json = "content-type: application/json";
    let body = json!({"payload": 1, "metadata": {"a": 1}}).to_string();
    let headers = [json, &traced(PRODUCER)];
    let added = server.send("POST", "/api/v1/queues/mail/items", &headers, &body).json();
    let id = added["id"].as_str().unwrap();
    let claim = json!({"queues": ["mail"], "worker": "w"});
    let grant = server.post("/api/v1/claims", &claim).json();
    let lease = grant["lease"].as_str().unwrap();
    let done = json!({"items": [{"id": id, "outcome": "complete"}]}).to_string();
    let path = format!("/api/v1/leases/{lease}/settle");
    let settled = server.send("POST", &path, &[json, &traced(WORKER)], &done);
    assert_eq!(settled.status, 200);
    server.stop();

    let spans = collector.spans();
    let named = |name: &str| {
        let mut found = spans.iter().filter(|span| span["name"] == name);
        let span = found.next().unwrap_or_else(|| panic!("no {name} in {spans:#?}"));
        assert_eq!(found.next(), None);
        span.clone()
    };
    for (name, kind, of, parent) in [
        ("enqueue mail", 4, "send", PRODUCER),
        ("claim mail", 5, "receive", PRODUCER),
        ("settle mail", 3, "settle", WORKER),
    ] {
        let span = named(name);
        assert_eq!((&span["traceId"], &span["kind"]), (&json!(TRACE), &json!(kind)), "{span}");
        assert_eq!(span["parentSpanId"], parent, "{span}");
        assert_eq!(attribute(&span, "messaging.system"), Some("windrow"));
        assert_eq!(attribute(&span, "messaging.operation.type"), Some(of));
        assert_eq!(attribute(&span, "messaging.destination.name"), Some("mail"));
        assert_eq!(attribute(&span, "messaging.message.id"), Some(id));
        let nanos = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"));
    }
    assert_eq!(attribute(&named("claim mail"), "windrow.attempt"), Some("1"));
    assert_eq!(attribute(&named("settle mail"), "windrow.outcome"), Some("completed"));
    assert_eq!(attribute(&named("settle mail"), "windrow.lease.id"), Some(lease));
}

#[cfg(feature = "otel")]
#[test]
fn without_a_context_a_settle_follows_its_claim_and_a_refusal_is_an_error() {
    let (_data, collector, server) = start("otel-root");
    server.enqueue("mail", &json!([{}]));
    let (lease, ids) = server.claim("mail", 1);
    server.settle(&lease, &ids, &json!({"outcome": "complete"}));
    let absent = "01a1e554-9c99-7001-b210-29840971dd42";
    server.settle(absent, &ids, &json!({"outcome": "complete"}));
    // A producer that is traced and not recorded is not recorded here either.
    let unsampled = format!("traceparent: 00-{TRACE}-{PRODUCER}-00");
    let headers = ["content-type: application/json", &unsampled];
    server.send("POST", "/api/v1/queues/quiet/items", &headers, "{}");
    let metrics = server.get("/metrics").text;
    assert!(metrics.contains("windrow_spans_dropped_total 0"), "{metrics}");
    server.stop();
    let spans = collector.spans();
    let named =
        |name: &str| -> Vec<&Value> { spans.iter().filter(|span| span["name"] == name).collect() };
    let (enqueue, claim) = (named("enqueue mail")[0], named("claim mail")[0]);
    assert_eq!(enqueue.get("parentSpanId"), None, "it is where a trace begins");
    assert_ne!(enqueue["traceId"], claim["traceId"], "nothing was kept to join them");
    let settle = named("settle mail")[0];
    assert_eq!(settle["traceId"], claim["traceId"]);
    assert_eq!(settle["parentSpanId"], claim["spanId"]);
    let refused = named("settle")[0];
    assert_eq!(attribute(refused, "error.type"), Some("lease_lost"), "{refused}");
    assert_eq!(refused["status"]["code"], 2);
    assert!(named("enqueue quiet").is_empty());
}

#[test]
fn the_producers_context_is_kept_and_a_repeat_from_another_span_is_the_same_request() {
    let data = Data::new("otel-repeat");
    let server = Server::start(&data.place(), &[]);
    let send = |headers: &[&str]| {
        let both = ["content-type: application/json", "idempotency-key: one"];
        let headers = [&both, headers].concat();
        server.send("POST", "/api/v1/queues/mail/items", &headers, r#"{"metadata":{"a":1}}"#)
    };
    let first = send(&[&traced(PRODUCER)]);
    assert_eq!(first.status, 201, "{}", first.text);
    assert_eq!(send(&[&traced(WORKER)]).text, first.text);
    assert_eq!(send(&[]).text, first.text);
    let claim = json!({"queues": ["mail"], "worker": "w"});
    let grant = server.post("/api/v1/claims", &claim).json();
    let kept = format!("00-{TRACE}-{PRODUCER}-01");
    assert_eq!(grant["items"][0]["metadata"], json!({"traceparent": kept, "a": 1}));
}

#[cfg(feature = "otel")]
#[test]
fn a_collector_that_is_away_costs_nothing_but_its_spans() {
    let data = Data::new("otel-away");
    let away = ("WINDROW_OTEL__ENDPOINT", "http://127.0.0.1:1");
    let server = Server::start(&data.place(), &[away]);
    server.enqueue("mail", &json!({"payload": "hunter2"}));
    let said = server.stop();
    assert!(said.contains("traces not exported spans=1"), "{said}");
    assert!(!said.contains("hunter2"));
}
