//! What somebody sees who got no page.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use maud::html;
use serde_json::Value;
use windrow_wire::problem::Code;

use super::page::{Frame, see_other};
use super::view::{Theme, root, theme};
use super::way;
use crate::auth::Denied;
use crate::http::Failed;

/// Bytes of a problem that are read.
const PROBLEM_MAX: usize = 64 * 1024;

/// Who was asked for, as far as an answer needs it.
#[derive(Debug)]
pub(crate) struct Asked {
    path: String,
    here: String,
    theme: Theme,
    is_read: bool,
}

impl From<&Request> for Asked {
    fn from(request: &Request) -> Asked {
        let path = request.uri().path().to_owned();
        let here = request.uri().path_and_query().map_or("/", |here| here.as_str());
        Asked {
            here: here.trim_start_matches('/').to_owned(),
            path,
            theme: theme(request.headers()),
            is_read: request.method().is_safe(),
        }
    }
}

/// Whoever may not come in is asked who they are; whoever may not do it is told so.
pub(crate) fn refused(asked: &Asked, denied: Denied) -> Response {
    if matches!(denied, Denied::NoToken | Denied::WrongToken) {
        let to = if asked.is_read { asked.here.as_str() } else { "" };
        let way = way(&["sign-in"]).with("to", to);
        return see_other(&format!("{}{way}", root(&asked.path)));
    }
    let failed = Failed::from(denied);
    let code = failed.code();
    said(asked, code, code.status(), failed.detail())
}

/// An answer of a page, in which problems are for people.
pub(crate) async fn shown(asked: &Asked, response: Response) -> Response {
    let Some(code) = response.extensions().get::<Code>().copied() else { return response };
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), PROBLEM_MAX).await.unwrap_or_default();
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    said(asked, code, status, problem["detail"].as_str().unwrap_or_default())
}

fn said(asked: &Asked, code: Code, status: u16, detail: &str) -> Response {
    let root = root(&asked.path);
    let body = html! {
        header.head { h1 { (code.title()) } }
        p { (detail) }
        p {
            a href=(root) { "To the overview" }
            " · "
            a href={ (root) "docs/errors/" (code.name()) ".md" } { "About this error" }
        }
    };
    let title = code.title();
    let frame = Frame { title, path: &asked.path, theme: asked.theme, live: None, nav: None };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, frame.around(&body)).into_response();
    response.extensions_mut().insert(code);
    response
}
