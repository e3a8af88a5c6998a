//! The API described: as OpenAPI for programs, as a page for people. Both are made from the table
//! of operations and need nothing from outside.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use windrow_core::limits::BLOB_MAX;
use windrow_pipelines::catalog::AROUND_MAX;
use windrow_wire::problem::Problem;

use super::table::{BASE, Operation, shape};
use super::{operations, views};

/// Every operation, by its path.
fn described() -> Vec<Operation> {
    let mut all = operations::all();
    all.sort_by_key(|operation| (operation.path, operation.method.to_string()));
    all
}

/// The OpenAPI 3.1 document.
pub(crate) fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let problem = shape::<Problem>(&mut generator);
    let mut paths = serde_json::Map::new();
    for operation in described() {
        let described = describe(&operation, &mut generator);
        let path = paths.entry(format!("{BASE}{}", operation.path)).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_ascii_lowercase()] = described;
    }
    let schemas = generator.take_definitions(true);
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windrow",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable ingestion queue. Errors are application/problem+json.",
        },
        "paths": paths,
        "security": [{ "token": [] }],
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "responses": { "Problem": {
                "description": "What went wrong, and what to do.",
                "content": { "application/problem+json": { "schema": problem } },
            } },
        },
    });
    bound(&mut document);
    document
}

fn describe(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let mut described = json!({
        "operationId": name(operation),
        "summary": operation.summary,
        "description": format!("Role: {}.", operation.role.name()),
        "x-windrow-role": operation.role.name(),
        "parameters": parameters(operation),
        "responses": responses(operation, generator),
    });
    if operation.gives_bytes {
        let content = json!({ "*/*": { "schema": { "type": "string", "format": "binary" } } });
        described["responses"]["200"]["content"] = content.clone();
        described["responses"]["206"] = json!({ "description": "A range.", "content": content });
        described["responses"]["304"] = json!({ "description": "It is the same." });
    }
    let mut content = serde_json::Map::new();
    let first = operation.takes.map(|takes| ("application/json", takes));
    for (kind, takes) in first.into_iter().chain(operation.also_takes.iter().copied()) {
        or(&mut content, kind, takes(generator).into());
    }
    if !content.is_empty() {
        let required = operation.needs_body;
        described["requestBody"] = json!({ "required": required, "content": content });
    }
    described
}

/// Adds a shape for a kind of content, beside those that there are.
fn or(content: &mut serde_json::Map<String, Value>, kind: &str, shape: Value) {
    let schema = &mut content.entry(kind).or_insert_with(|| json!({ "schema": {} }))["schema"];
    if let Some(shapes) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        shapes.push(shape);
    } else if schema.as_object().is_some_and(|schema| !schema.is_empty()) {
        *schema = json!({ "anyOf": [schema.take(), shape] });
    } else {
        *schema = shape;
    }
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let in_path = operation.path.split(['{', '}']).skip(1).step_by(2).map(|name| {
        let schema = match operation.path {
            views::PATH => json!({ "type": "string", "enum": views::names() }),
            _ => json!({ "type": "string" }),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    let in_query = operation.parameters.iter().map(|(name, what)| {
        let schema = match *name {
            "limit" if operation.path == "/documents/graph" => {
                json!({ "type": "integer", "minimum": 1, "maximum": AROUND_MAX })
            }
            "limit" => json!({ "type": "integer", "minimum": 1, "maximum": 200 }),
            "mode" => json!({ "type": "string", "enum": ["clone", "reset"] }),
            "count" => json!({ "type": "integer", "minimum": 1, "maximum": 1_000 }),
            "from" | "generation" => {
                json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
            }
            _ => json!({ "type": "string" }),
        };
        json!({ "name": name, "in": "query", "description": what, "schema": schema })
    });
    let key = operation.is_repeatable.then(|| {
        json!({
            "name": "Idempotency-Key",
            "in": "header",
            "description": "A UUID or another text: under one key a request is done once.",
            "schema": { "type": "string", "pattern": "^[!-~]([ -~]{0,253}[!-~])?$" },
        })
    });
    let heads = operation.heads.iter().map(|(name, what)| {
        let schema = json!({ "type": "integer", "minimum": 0, "maximum": BLOB_MAX });
        let required = true;
        json!({
            "name": name, "in": "header", "required": required, "description": what,
            "schema": schema,
        })
    });
    in_path.chain(in_query).chain(key).chain(heads).collect()
}

/// Every answer: what is asked for, and what may be said instead.
fn responses(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let mut responses = serde_json::Map::new();
    let first = (operation.status, operation.gives);
    let more = operation.also_gives.iter().map(|(status, gives)| (*status, Some(*gives)));
    for (status, gives) in std::iter::once(first).chain(more) {
        let answer = responses
            .entry(status.to_string())
            .or_insert_with(|| json!({ "description": "Done.", "content": {} }));
        if let (Some(gives), Some(content)) = (gives, answer["content"].as_object_mut()) {
            or(content, "application/json", gives(generator).into());
        }
    }
    if operation.streams {
        let content = &mut responses[&operation.status.to_string()]["content"];
        content["text/event-stream"] = json!({ "schema": { "type": "string" } });
    }
    let has_body = operation.takes.is_some();
    let names_one = ["{id}", "{lease}"].iter().any(|name| operation.path.contains(name));
    let problems = [
        (400, true),
        (404, names_one),
        (408, has_body),
        (409, names_one || operation.is_repeatable),
        (413, has_body),
        (415, has_body),
        (422, true),
        (429, true),
        (503, true),
    ];
    for (status, _) in problems.into_iter().filter(|(_, may_be)| *may_be) {
        let problem = json!({ "$ref": "#/components/responses/Problem" });
        responses.entry(status.to_string()).or_insert(problem);
    }
    responses.insert("default".into(), json!({ "$ref": "#/components/responses/Problem" }));
    Value::Object(responses)
}

/// Says of every number how large it may be: the formats of Rust's numbers say it only to some.
fn bound(schema: &mut Value) {
    match schema {
        Value::Object(parts) => {
            let most = match parts.get("format").and_then(Value::as_str) {
                Some("uint8") => Some(u64::from(u8::MAX)),
                Some("uint16") => Some(u64::from(u16::MAX)),
                Some("uint32") => Some(u64::from(u32::MAX)),
                Some("uint64" | "uint") => Some(u64::MAX),
                _ => None,
            };
            if let Some(most) = most {
                parts.entry("maximum").or_insert(json!(most));
            }
            parts.values_mut().for_each(bound);
        }
        Value::Array(parts) => parts.iter_mut().for_each(bound),
        _ => {}
    }
}

/// A name for programs: the method and the path's words.
fn name(operation: &Operation) -> String {
    let words = operation.path.split(['/', '{', '}']).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    format!("{}_{}", operation.method.as_str().to_ascii_lowercase(), words.join("_"))
}

pub(super) async fn document() -> impl IntoResponse {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| openapi().to_string());
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.as_str())
}

/// The page for people.
pub(super) async fn page() -> Html<&'static str> {
    static PAGE: LazyLock<String> = LazyLock::new(written);
    Html(&PAGE)
}

fn written() -> String {
    let mut rows = String::new();
    for operation in described() {
        let Operation { method, path, role, summary, parameters, .. } = operation;
        let mut asks = String::new();
        for (name, what) in parameters {
            let _infallible = write!(asks, "<br><code>?{name}</code> {what}");
        }
        let _infallible = write!(
            rows,
            "<tr><td><code>{method}</code></td><td><code>{BASE}{path}</code></td>\
             <td>{summary}{asks}</td><td>{}</td></tr>",
            role.name()
        );
    }
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Windrow API</title>\
         <style>body{{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;\
         padding:0 1rem}}td{{padding:.4rem .8rem .4rem 0;vertical-align:top}}\
         code{{white-space:nowrap}}</style><h1>Windrow API</h1>\
         <p>JSON in, JSON out; errors are <code>application/problem+json</code> with a stable \
         <code>code</code>. A request with an <code>Idempotency-Key</code> is done once, however \
         often it is sent. A server with tokens wants one in <code>Authorization: Bearer</code>; \
         the last column is the role that it needs. For programs: \
         <a href=/api/v1/openapi.json>openapi.json</a>.</p>\
         <table>{rows}</table></html>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_in_the_document_leads_somewhere() {
        let document = openapi();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap_or_default();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
        assert!(document.pointer("/paths/~1api~1v1~1claims/post").is_some());
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let mut names: Vec<String> = described().iter().map(name).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
