//! The canary: a secret goes into every place where a caller can put one, through every operation
//! that there is, and comes out in no log line, metric, trace or error.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[cfg(feature = "otel")]
mod collector;
mod rig;

use rig::{Data, Reply, Server};
use serde_json::{Map, Value, json};
use windrow_testkit::servers::postgres::{Durability, Postgres, Version};

const SECRET: &str = "hunter2canary7f3a9";
/// The same as base64, at each of the three places where it may begin.
const ENCODED: [&str; 3] =
    ["aHVudGVyMmNhbmFyeTdmM2E5", "h1bnRlcjJjYW5hcnk3ZjNhO", "odW50ZXIyY2FuYXJ5N2YzYT"];

/// Where a text holds the secret.
fn leaks(text: &str) -> Vec<String> {
    let shapes = [SECRET, ENCODED[0], ENCODED[1], ENCODED[2]];
    let is_leak = |line: &&str| shapes.iter().any(|shape| line.contains(shape));
    text.lines().filter(is_leak).map(str::to_owned).collect()
}

/// Everything that was said and must not hold the secret.
#[derive(Default)]
struct Heard {
    errors: String,
    answers: usize,
    refused: usize,
}

impl Heard {
    /// Keeps what an answer says of an error, of the whole or of one item.
    fn hear(&mut self, what: &str, reply: &Reply) {
        self.answers += 1;
        assert!(reply.status < 500, "{what}: {} {}", reply.status, reply.text);
        if reply.status >= 400 {
            self.refused += 1;
            self.errors.push_str(&format!("{what}: {}\n", reply.text));
        } else if let Ok(answer) = serde_json::from_str(&reply.text) {
            self.details(what, &answer);
        }
    }

    fn details(&mut self, what: &str, answer: &Value) {
        match answer {
            Value::Array(each) => each.iter().for_each(|one| self.details(what, one)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    if name == "detail" {
                        self.errors.push_str(&format!("{what}: {value}\n"));
                    }
                    self.details(what, value);
                }
            }
            _ => {}
        }
    }
}

/// Headers in which a secret may come: a token, a cookie, an id, a context, a type's parameter.
fn headers() -> [String; 6] {
    [
        format!("authorization: Bearer {SECRET}"),
        format!("cookie: session={SECRET}"),
        format!("x-api-key: {SECRET}"),
        format!("traceparent: {SECRET}"),
        format!("user-agent: {SECRET}"),
        format!("content-type: application/json; version={SECRET}"),
    ]
}

fn send(server: &Server, method: &str, path: &str, body: &str) -> Reply {
    let headers = headers();
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    server.send(method, path, &headers, body)
}

/// An item with the secret wherever a producer may write.
fn item() -> Value {
    json!({
        "key": SECRET, "payload": {SECRET: SECRET}, "metadata": {"m": SECRET},
        "source_info": SECRET, "ref": SECRET, "group": SECRET, "collection": SECRET,
    })
}

/// Works on items as a worker does, saying the secret at every step; gives an item and a lease.
fn live(server: &Server, heard: &mut Heard) -> (String, String) {
    let items: Vec<Value> = (0..6)
        .map(|number| {
            let mut item = item();
            item["key"] = json!(format!("{SECRET}{number}"));
            item["group"] = Value::Null;
            item
        })
        .collect();
    let body = Value::Array(items).to_string();
    heard.hear("enqueue", &send(server, "POST", "/api/v1/queues/q/items", &body));
    let claim = json!({"queues": ["q"], "worker": SECRET, "max": 6}).to_string();
    let granted = send(server, "POST", "/api/v1/claims", &claim);
    assert!(!leaks(&granted.text).is_empty(), "the worker gets it, and it is found there");
    let grant = granted.json();
    let lease = grant["lease"].as_str().unwrap().to_owned();
    let ids: Vec<&str> =
        grant["items"].as_array().unwrap().iter().map(|i| i["id"].as_str().unwrap()).collect();
    let told = json!({"items": [{"id": ids[0], "current": 1, "total": 2, "message": SECRET}]});
    let path = format!("/api/v1/leases/{lease}/progress");
    heard.hear("progress", &send(server, "POST", &path, &told.to_string()));
    let child = json!({"ordinal": 0, "kind": "page", "payload": SECRET, "metadata": SECRET});
    let outcomes = json!({"items": [
        {"id": ids[0], "outcome": "complete", "result": SECRET, "output": SECRET,
         "spawn": [{"queue": "q", "payload": SECRET}]},
        {"id": ids[1], "outcome": "fail", "error": SECRET},
        {"id": ids[2], "outcome": "retry", "error": SECRET},
        {"id": ids[3], "outcome": "skip", "reason": SECRET},
        {"id": ids[4], "outcome": "split", "children": [child]},
        {"id": SECRET, "outcome": "complete"},
    ]});
    let path = format!("/api/v1/leases/{lease}/settle");
    heard.hear("settle", &send(server, "POST", &path, &outcomes.to_string()));
    heard.hear("settle again", &send(server, "POST", &path, &outcomes.to_string()));
    (ids[5].to_owned(), lease)
}

/// A value of the described shape, with the secret for every text.
fn sample(document: &Value, shape: &Value, depth: usize) -> Value {
    if let Some(pointer) = shape["$ref"].as_str() {
        return sample(document, document.pointer(&pointer[1..]).unwrap(), depth);
    }
    for several in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = shape[several].as_array().and_then(|each| each.first()) {
            return sample(document, first, depth);
        }
    }
    if let Some(word) = shape["enum"].as_array().and_then(|words| words.first()) {
        return word.clone();
    }
    let kind = match &shape["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
        kind => kind.as_str().unwrap_or_default(),
    };
    match kind {
        "integer" | "number" => json!(1),
        "boolean" => json!(true),
        "array" if depth < 5 => json!([sample(document, &shape["items"], depth + 1)]),
        "array" => json!([]),
        "object" if depth < 5 => {
            let none = Map::new();
            let fields = shape["properties"].as_object().unwrap_or(&none).iter();
            fields.map(|(name, of)| (name.clone(), sample(document, of, depth + 1))).collect()
        }
        _ => json!(SECRET),
    }
}

/// Bodies to send: as described, each field alone, each field a text, and no JSON at all.
fn bodies(document: &Value, operation: &Value) -> Vec<String> {
    let shape = &operation["requestBody"]["content"]["application/json"]["schema"];
    let mut bodies = vec![
        String::new(),
        SECRET.to_owned(),
        json!(SECRET).to_string(),
        json!([SECRET]).to_string(),
        format!("{{\"a\":\"{SECRET}"),
    ];
    if shape.is_null() {
        return bodies;
    }
    let whole = sample(document, shape, 0);
    let fields = whole.as_object().cloned().unwrap_or_default();
    bodies.extend(fields.iter().map(|(name, value)| json!({name: value}).to_string()));
    bodies.extend(fields.keys().map(|name| json!({name: SECRET}).to_string()));
    bodies.extend(fields.keys().map(|name| json!({name: {"x": [SECRET]}}).to_string()));
    bodies.push(whole.to_string());
    // The names of queues are labels of metrics, and no place for a secret.
    let (secret, plain) = (format!("\"queue\":\"{SECRET}\""), "\"queue\":\"q\"");
    bodies.into_iter().map(|body| body.replace(&secret, plain)).collect()
}

/// Asks for everything that the document describes, with every body that fits and many that do not.
fn ask_for_everything(server: &Server, heard: &mut Heard, id: &str, lease: &str) -> usize {
    let document = server.get("/api/v1/openapi.json").json();
    let mut operations = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            operations += 1;
            let path = path.replace("{id}", id).replace("{lease}", lease);
            // Names in paths are the caller's own, and may be told.
            let mut parts = path.split(['{', '}']).enumerate();
            let path: String =
                parts.by_ref().map(|(at, part)| if at % 2 == 0 { part } else { "q" }).collect();
            let asked = operation["parameters"].as_array().into_iter().flatten();
            let asked = asked.filter(|parameter| parameter["in"] == "query");
            let asked: Vec<String> =
                asked.map(|of| format!("{}={SECRET}", of["name"].as_str().unwrap())).collect();
            let method = method.to_ascii_uppercase();
            for body in bodies(&document, operation) {
                // A claim that waits would wait for as long as it may.
                if body.contains("wait_ms") && !body.contains("\"wait_ms\":1") {
                    continue;
                }
                heard.hear(&format!("{method} {path}"), &send(server, &method, &path, &body));
            }
            if !asked.is_empty() {
                let path = format!("{path}?{}", asked.join("&"));
                heard.hear(&method, &send(server, &method, &path, ""));
            }
        }
    }
    operations
}

/// Drives a server through everything, and looks at all that it said.
fn nothing_leaks(flags: &[&str], settings: &[(&str, &str)]) -> String {
    let server = Server::start(flags, settings);
    let mut heard = Heard::default();
    let (id, lease) = live(&server, &mut heard);
    let operations = ask_for_everything(&server, &mut heard, &id, &lease);
    for path in ["/healthz", "/readyz", "/docs", "/nothing", "/api/v1/nothing"] {
        heard.hear(path, &send(&server, "GET", path, SECRET));
    }
    let charset = format!("content-type: application/json; charset={SECRET}");
    heard.hear("odd charset", &server.send("POST", "/api/v1/claims", &[&charset], "{}"));
    heard.hear("odd method", &send(&server, "HUNTER", "/api/v1/claims", SECRET));
    let metrics = loop {
        let metrics = server.get("/metrics").text + &server.get("/api/v1/health").text;
        // What the store says is kept for a second.
        if metrics.contains("windrow_items{queue=\"q\"") {
            break metrics;
        }
    };
    let said = server.stop();
    assert!(operations >= 16, "the document describes {operations} operations");
    assert!(heard.refused > 100 && heard.answers > heard.refused, "{} refused", heard.refused);
    assert_eq!(leaks(&heard.errors), Vec::<String>::new(), "in errors");
    assert_eq!(leaks(&metrics), Vec::<String>::new(), "in metrics");
    assert_eq!(leaks(&said), Vec::<String>::new(), "in the log");
    // It is worth nothing that nothing is found in nothing.
    assert!(said.lines().count() > heard.answers, "{said}");
    assert!(said.contains(&id) && said.contains(&lease), "ids are logged");
    said
}

#[test]
fn the_scanner_finds_a_planted_leak() {
    let lines = |text: &str| leaks(text).len();
    assert_eq!(lines(&format!("fine\nkey={SECRET}\nfine")), 1);
    assert_eq!(lines(&format!("{{\"a\":\"{}\"}}", ENCODED[0])), 1);
    let mut heard = Heard::default();
    let text = json!({"items": [{"detail": SECRET}]}).to_string();
    heard.hear("planted", &Reply { status: 200, text });
    assert_eq!(lines(&heard.errors), 1);
    // In the middle of something that was encoded.
    assert_eq!(lines("a2h1bnRlcjJjYW5hcnk3ZjNhOXk="), 1);
    assert_eq!(lines("YWJodW50ZXIyY2FuYXJ5N2YzYTk="), 1);
    assert_eq!(lines("nothing here"), 0);
}

#[test]
fn a_secret_comes_out_nowhere_with_a_data_directory_and_json() {
    let data = Data::new("canary");
    let [flag, place] = data.place();
    let flags = [flag, place, "--log-format", "json", "--log-level", "debug"];
    #[cfg(feature = "otel")]
    let collector = collector::Collector::start();
    #[cfg(feature = "otel")]
    let endpoint = collector.endpoint();
    #[cfg(feature = "otel")]
    let settings = [("WINDROW_OTEL__ENDPOINT", &*endpoint)];
    #[cfg(not(feature = "otel"))]
    let settings = [];
    let said = nothing_leaks(&flags, &settings);
    for line in said.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
    #[cfg(feature = "otel")]
    {
        assert!(collector.spans().len() > 10);
        assert_eq!(leaks(&collector.text()), Vec::<String>::new(), "in traces");
    }
}

#[test]
fn a_secret_comes_out_nowhere_with_a_database_and_text() {
    let postgres = Postgres::start(Version::V15, Durability::Real).unwrap();
    postgres.create_database("queue").unwrap();
    // Nobody asks for the password, and nobody may show it.
    let url = format!("postgres://postgres:{SECRET}@127.0.0.1:{}/queue", postgres.port());
    let said = nothing_leaks(&["--store", &url, "--log-level", "debug"], &[]);
    assert!(said.contains(" INFO stopped "), "{said}");
    let refused = std::process::Command::new(env!("CARGO_BIN_EXE_windrow"))
        .args(["serve", "--log-format", "json", "--listen", "127.0.0.1:0", "--store"])
        .arg(format!("postgres://postgres:{SECRET}@127.0.0.1:1/queue"))
        .output()
        .unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    let line: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said:?}"));
    assert_eq!((&line["level"], &line["message"]), (&json!("ERROR"), &json!("gave up")));
    assert_eq!(leaks(&said), Vec::<String>::new());
}
