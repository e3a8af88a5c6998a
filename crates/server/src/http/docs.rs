//! The API described: as OpenAPI for programs, as a page for people. Both are made from the table
//! of operations and need nothing from outside.

use std::fmt::Write as _;

use axum::response::{Html, IntoResponse};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use windrow_wire::problem::Problem;

use super::operations;
use super::table::{BASE, Operation, shape};

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
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windrow",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable ingestion queue. Errors are application/problem+json.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": { "Problem": {
                "description": "What went wrong, and what to do.",
                "content": { "application/problem+json": { "schema": problem } },
            } },
        },
    })
}

fn describe(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let in_path = operation.path.split(['{', '}']).skip(1).step_by(2);
    let in_path = in_path.map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
    });
    let in_query = operation.parameters.iter().map(|(name, what)| {
        let schema = json!({ "type": "string" });
        json!({ "name": name, "in": "query", "description": what, "schema": schema })
    });
    let parameters: Vec<Value> = in_path.chain(in_query).collect();
    let mut answer = json!({ "description": "Done." });
    if let Some(gives) = operation.gives {
        answer["content"] = json!({ "application/json": { "schema": gives(generator) } });
    }
    let mut described = json!({
        "operationId": name(operation),
        "summary": operation.summary,
        "description": format!("Role: {}.", operation.role.name()),
        "parameters": parameters,
        "responses": {
            operation.status.to_string(): answer,
            "default": { "$ref": "#/components/responses/Problem" },
        },
    });
    if let Some(takes) = operation.takes {
        let content = json!({ "application/json": { "schema": takes(generator) } });
        described["requestBody"] = json!({ "content": content });
    }
    described
}

/// A name for programs: the method and the path's words.
fn name(operation: &Operation) -> String {
    let words = operation.path.split(['/', '{', '}']).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    format!("{}_{}", operation.method.as_str().to_ascii_lowercase(), words.join("_"))
}

pub(super) async fn document() -> impl IntoResponse {
    axum::Json(openapi())
}

/// The page for people.
pub(super) async fn page() -> Html<String> {
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
    Html(format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Windrow API</title>\
         <style>body{{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;\
         padding:0 1rem}}td{{padding:.4rem .8rem .4rem 0;vertical-align:top}}\
         code{{white-space:nowrap}}</style><h1>Windrow API</h1>\
         <p>JSON in, JSON out; errors are <code>application/problem+json</code> with a stable \
         <code>code</code>. A request with an <code>Idempotency-Key</code> is done once, however \
         often it is sent. For programs: <a href=/api/v1/openapi.json>openapi.json</a>.</p>\
         <table>{rows}</table></html>"
    ))
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
