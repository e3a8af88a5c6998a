//! Lines about requests: which route, which item or lease, what came of it. The path itself is
//! never written: it may hold anything.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use windrow_core::{ItemId, LeaseId};
use windrow_wire::problem::Code;

pub(crate) async fn request(request: Request, next: Next) -> Response {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return next.run(request).await;
    }
    let method = word(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let (item, lease) = ids(route, request.uri().path());
    let began = Instant::now();
    let response = next.run(request).await;
    tracing::debug!(
        method,
        route,
        item = item.map(|id| id.to_string()),
        lease = lease.map(|id| id.to_string()),
        status = response.status().as_u16(),
        code = response.extensions().get::<Code>().map(|code| code.name()),
        ms = began.elapsed().as_micros() as f64 / 1_000.0,
        "request"
    );
    response
}

/// A method that we know. Others are a text of the caller's.
fn word(method: &Method) -> &'static str {
    let known = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let names = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    let at = known.iter().position(|known| known == method);
    at.map_or("other", |at| names[at])
}

/// What stands in a path where its route says that an item or a lease does, if it is an id.
fn ids(route: &str, path: &str) -> (Option<ItemId>, Option<LeaseId>) {
    let named = |name: &str| {
        let at = route.split('/').position(|part| part == name)?;
        path.split('/').nth(at)
    };
    (
        named("{id}").and_then(|text| text.parse().ok()),
        named("{lease}").and_then(|text| text.parse().ok()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_are_taken_from_a_path() {
        let id = "01a1e54e-ab99-70c0-8368-704973772be1";
        let route = "/api/v1/queue/{id}/retry";
        assert_eq!(ids(route, &format!("/api/v1/queue/{id}/retry")).0, id.parse().ok());
        assert_eq!(ids(route, "/api/v1/queue/hunter2/retry"), (None, None));
        assert_eq!(ids("none", "/hunter2"), (None, None));
        let lease = ids("/api/leases/{lease}/settle", &format!("/api/leases/{id}/settle"));
        assert_eq!(lease, (None, id.parse().ok()));
        assert_eq!(word(&Method::from_bytes(b"HUNTER2").expect("a word")), "other");
    }
}
