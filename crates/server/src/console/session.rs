//! Signing in with a token, and how the console looks to whoever did.
//!
//! A browser keeps no token. It keeps a session (`auth/session.rs`): which token it was, until when
//! it is good, and a seal that only servers of this store can make. Scripts cannot read it, other
//! sites cannot send it, and it ends with its token.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::act::Sent;
use super::page::{Frame, see_other};
use super::view::{THEME, Theme, cookie, theme as theme_of};
use crate::auth::{Denied, SESSION_FOR_S};
use crate::http::{App, Asked, Failed};

const SESSION: &str = "windrow_session";
/// Over TLS a browser sends it there and nowhere else.
const SECURE_SESSION: &str = "__Host-windrow_session";
/// What is said of a token that opens nothing; what to do stands above it.
const WRONG: &str = "This token is not known here, or has expired or was revoked.";

/// The session that a browser sends.
pub(crate) fn kept(headers: &HeaderMap) -> Option<String> {
    cookie(headers, SECURE_SESSION).or_else(|| cookie(headers, SESSION))
}

#[derive(Deserialize, Default, Debug)]
pub(super) struct Wanted {
    /// Where to go afterwards.
    #[serde(default)]
    to: String,
}

pub(super) async fn page(headers: HeaderMap, Asked(wanted): Asked<Wanted>) -> Response {
    form(&headers, &wanted.to, None).into_response()
}

fn form(headers: &HeaderMap, to: &str, wrong: Option<&str>) -> Response {
    let body: Markup = html! {
        div.sign-in {
            h1 { "Windrow" }
            p { "This server asks who you are. Sign in with a token; an admin makes one with "
                code { "windrow token create" } "." }
            @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
            form method="post" action="./sign-in" {
                input type="hidden" name="to" value=(to);
                label for="token" { "Token" }
                input #token type="password" name="token" required autofocus
                    autocomplete="current-password" spellcheck="false";
                button.strong type="submit" { "Sign in" }
            }
        }
    };
    let theme = theme_of(headers);
    let frame = Frame { title: "Sign in", path: "/sign-in", theme, live: None, nav: None };
    frame.around(&body).into_response()
}

/// Begins a session with a token.
pub(super) async fn begin(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failed> {
    let sent = Sent::read(&body);
    let token = sent.get("token").unwrap_or_default().trim();
    let begun = app.book.begin_session(&app.queue, token).await;
    let session = match begun {
        Ok(session) => session,
        Err(Denied::NoToken | Denied::WrongToken) => {
            let to = sent.get("to").unwrap_or_default();
            let mut response = form(&headers, to, Some(WRONG));
            *response.status_mut() = StatusCode::UNAUTHORIZED;
            return Ok(response);
        }
        Err(denied) => return Err(denied.into()),
    };
    let mut response = see_other(&format!("./{}", sent.page("to").unwrap_or_default()));
    keep(&mut response, &session, SESSION_FOR_S, app.is_secure);
    Ok(response)
}

/// Ends a session. The token stays good.
pub(super) async fn end(State(app): State<Arc<App>>) -> Response {
    let mut response = see_other("./sign-in");
    keep(&mut response, "", 0, app.is_secure);
    response
}

fn keep(response: &mut Response, session: &str, seconds: u64, is_secure: bool) {
    let (name, secure) = match is_secure {
        true => (SECURE_SESSION, "; Secure"),
        false => (SESSION, ""),
    };
    let cookie =
        format!("{name}={session}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// Remembers how the console is to look.
pub(super) async fn theme(uri: Uri, body: Bytes) -> Response {
    let sent = Sent::read(&body);
    let theme = sent.get("theme").and_then(Theme::parse).unwrap_or_default();
    let root = super::view::root(uri.path());
    let mut response = see_other(&format!("{root}{}", sent.page("back").unwrap_or_default()));
    let cookie = format!("{THEME}={}; Path=/; Max-Age=31536000; SameSite=Strict", theme.name());
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}
