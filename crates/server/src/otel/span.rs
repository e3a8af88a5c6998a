//! Spans, and how OTLP writes them as JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};

use super::context::Context;

/// What a span is to its trace, as OTLP numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Client = 3,
    Producer = 4,
    Consumer = 5,
}

impl Kind {
    /// What OpenTelemetry calls this kind of operation.
    const fn operation(self) -> &'static str {
        match self {
            Kind::Client => "settle",
            Kind::Producer => "send",
            Kind::Consumer => "receive",
        }
    }
}

/// A value of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Value {
    Text(String),
    Number(u64),
}

impl Value {
    fn json(&self) -> Json {
        match self {
            Value::Text(text) => json!({ "stringValue": text }),
            // 64-bit numbers are texts in OTLP's JSON.
            Value::Number(number) => json!({ "intValue": number.to_string() }),
        }
    }
}

/// One thing that was done.
#[derive(Debug)]
pub(super) struct Span {
    context: Context,
    parent: Option<u64>,
    name: String,
    kind: Kind,
    times: (SystemTime, SystemTime),
    attributes: Vec<(&'static str, Value)>,
    failed: Option<&'static str>,
}

impl Span {
    /// A span of a verb on a queue; the beginning of a trace if it has no parent.
    pub(super) fn new(
        verb: &'static str,
        queue: &str,
        kind: Kind,
        parent: Option<Context>,
        times: (SystemTime, SystemTime),
    ) -> Span {
        let context = parent.map_or_else(Context::root, Context::child);
        let name = if queue.is_empty() { verb.to_owned() } else { format!("{verb} {queue}") };
        let parent = parent.map(|parent| parent.span);
        let mut span =
            Span { context, parent, name, kind, times, attributes: Vec::new(), failed: None };
        let text = |text: &str| Value::Text(text.to_owned());
        span.set("messaging.system", text("windrow"));
        span.set("messaging.operation.name", text(verb));
        span.set("messaging.operation.type", text(kind.operation()));
        if !queue.is_empty() {
            span.set("messaging.destination.name", text(queue));
        }
        span
    }

    pub(super) fn context(&self) -> Context {
        self.context
    }

    pub(super) fn is_sampled(&self) -> bool {
        self.context.is_sampled
    }

    pub(super) fn set(&mut self, name: &'static str, value: Value) {
        self.attributes.push((name, value));
    }

    /// It went wrong; the code says how.
    pub(super) fn fail(&mut self, code: &'static str) {
        self.failed = Some(code);
        self.set("error.type", Value::Text(code.to_owned()));
    }

    fn json(&self) -> Json {
        let nanos = |at: SystemTime| {
            at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
        };
        let mut span = json!({
            "traceId": format!("{:032x}", self.context.trace),
            "spanId": format!("{:016x}", self.context.span),
            "name": self.name,
            "kind": self.kind as u8,
            "startTimeUnixNano": nanos(self.times.0),
            "endTimeUnixNano": nanos(self.times.1),
            "attributes": attributes(&self.attributes),
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = format!("{parent:016x}").into();
        }
        if let Some(code) = self.failed {
            span["status"] = json!({ "code": 2, "message": code });
        }
        span
    }
}

fn attributes(attributes: &[(&'static str, Value)]) -> Vec<Json> {
    let each = attributes.iter();
    each.map(|(key, value)| json!({ "key": key, "value": value.json() })).collect()
}

/// A request that brings spans.
pub(super) fn request(spans: &[Span]) -> Json {
    let version = env!("CARGO_PKG_VERSION");
    let service = [
        ("service.name", Value::Text("windrow".to_owned())),
        ("service.version", Value::Text(version.to_owned())),
    ];
    let spans: Vec<Json> = spans.iter().map(Span::json).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": attributes(&service) },
        "scopeSpans": [{ "scope": { "name": "windrow", "version": version }, "spans": spans }],
    }] })
}
