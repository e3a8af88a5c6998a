//! A view: who looks at which page, and how they ask for what it shows.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST, HeaderName};
use axum::http::request::Parts;
use axum::response::Response;
use serde_json::Value;
use tower_service::Service as _;
use windrow_core::Timestamp;
use windrow_wire::problem::Code;

use super::live::OnlyParts;
use crate::ask::Ask;
use crate::auth::{Caller, Denied, Role};
use crate::http::{App, Failed, For};

/// Bytes of an answer that a page reads.
const ANSWER_MAX: usize = 64 * 1024 * 1024;

/// What was said last, to be shown once.
pub(super) const SAID: &str = "windrow_said";
pub(super) const THEME: &str = "windrow_theme";

/// The API, without a socket.
#[derive(Clone, Debug)]
pub(crate) struct Api(pub(crate) Router);

/// How the console looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Theme {
    #[default]
    System,
    Light,
    Dark,
}

impl Theme {
    pub(super) const ALL: [Theme; 3] = [Theme::System, Theme::Light, Theme::Dark];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Theme::System => "system",
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Theme> {
        Theme::ALL.into_iter().find(|theme| theme.name() == text)
    }
}

/// Who looks at which page.
#[derive(Clone, Debug)]
pub(crate) struct View {
    api: Api,
    caller: Caller,
    path: String,
    query: String,
    pub(super) theme: Theme,
    /// What became of what was pressed last.
    pub(super) said: Option<String>,
    /// Only the parts are wanted, to be compared with those before.
    pub(super) only_parts: bool,
    /// Tokens are wanted here, so that somebody can sign out.
    pub(super) has_tokens: bool,
    /// Keys whose values nobody is shown.
    pub(super) redacted: Arc<[String]>,
    /// Where the server is for whoever looks, such as `http://127.0.0.1:7117`.
    address: String,
}

/// How a proxy was asked.
pub(super) const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Where commands look by themselves.
const BY_ITSELF: [&str; 2] = ["http://127.0.0.1:7117", "http://localhost:7117"];

impl FromRequestParts<Arc<App>> for View {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<View, Failed> {
        // The gate and the router put them there.
        let caller = parts.extensions.get::<Caller>().cloned().ok_or(Denied::NoToken)?;
        let api = parts.extensions.get::<Api>().cloned();
        let api = api.ok_or_else(|| Failed::new(Code::Internal, "a page without an API"))?;
        Ok(View {
            api,
            caller,
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            theme: theme(&parts.headers),
            said: cookie(&parts.headers, SAID).map(|said| decoded(&said)),
            only_parts: parts.extensions.get::<OnlyParts>().is_some(),
            has_tokens: app.book.has_tokens(),
            redacted: Arc::clone(&app.redacted),
            address: address(&parts.headers, app),
        })
    }
}

impl View {
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn query(&self) -> &str {
        &self.query
    }

    /// The page as it was asked for, from the root on, without a slash before it.
    pub(super) fn here(&self) -> String {
        let path = self.path.trim_start_matches('/');
        if self.query.is_empty() { path.to_owned() } else { format!("{path}?{}", self.query) }
    }

    /// Where the server is for whoever looks.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// A command to paste, which asks this server: its verb, and the rest.
    pub(super) fn command(&self, verb: &str, rest: impl std::fmt::Display) -> String {
        let server = match BY_ITSELF.contains(&self.address.as_str()) {
            true => String::new(),
            false => format!(" --server {}", self.address),
        };
        let command = format!("windrow {verb}{server} {rest}");
        // What is taught works: every test of a page tries it.
        debug_assert!(crate::cli::shell::is_command(&command), "no command: {command}");
        command
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(super) fn may(&self, role: Role) -> bool {
        self.caller.role.may(role)
    }

    /// A link from this page to another, which is said from the root on.
    pub(super) fn to(&self, way: impl std::fmt::Display) -> String {
        format!("{}{way}", root(&self.path))
    }

    /// What the API says.
    pub(super) async fn see(&self, ask: Ask) -> Result<Value, Failed> {
        let body = self.ask(ask).await?;
        serde_json::from_slice(&body).map_err(|_| unread())
    }

    /// The same, or nothing if whoever looks may not know it.
    pub(super) async fn may_see(&self, ask: Ask) -> Result<Option<Value>, Failed> {
        match self.see(ask).await {
            Ok(seen) => Ok(Some(seen)),
            Err(failed) if failed.code() == Code::Forbidden => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    /// The same, as it was said.
    pub(super) async fn ask(&self, ask: Ask) -> Result<Bytes, Failed> {
        let mut request = ask.request().map_err(|error| Failed::malformed(error.to_string()))?;
        request.extensions_mut().insert(For(self.caller.clone()));
        let answered: Result<Response, Infallible> = self.api.0.clone().call(request).await;
        let Ok(response) = answered;
        let code = response.extensions().get::<Code>().copied();
        let is_success = response.status().is_success();
        let body = axum::body::to_bytes(response.into_body(), ANSWER_MAX).await;
        let body = body.map_err(|_| unread())?;
        if is_success {
            return Ok(body);
        }
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail = said["detail"].as_str().unwrap_or("the server said no more than that");
        Err(Failed::new(code.unwrap_or(Code::Internal), detail))
    }
}

fn address(headers: &HeaderMap, app: &App) -> String {
    let said = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let is_plain = |host: &&str| {
        host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
    };
    let host = said(HOST).filter(is_plain).unwrap_or("127.0.0.1:7117");
    let forwarded = said(FORWARDED);
    let is_secure = app.is_secure || forwarded == Some("https");
    let scheme = if is_secure { "https" } else { "http" };
    format!("{scheme}://{host}{}", app.base_path.trim_end_matches('/'))
}

fn unread() -> Failed {
    Failed::new(Code::Internal, "an answer of the API could not be read")
}

/// From a page to the console's root.
pub(super) fn root(path: &str) -> String {
    match path.matches('/').count() {
        0 | 1 => "./".to_owned(),
        depth => "../".repeat(depth - 1),
    }
}

pub(super) fn theme(headers: &HeaderMap) -> Theme {
    cookie(headers, THEME).and_then(|name| Theme::parse(&name)).unwrap_or_default()
}

/// The value of a cookie.
pub(super) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(called, _)| called.trim() == name).map(|(_, value)| value.trim().to_owned())
}

/// A text whose bytes stand behind percent signs where they must.
pub(super) fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            (first, _) => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// When a time was that the API says.
pub(super) fn time(of: &Value) -> Option<Timestamp> {
    of.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_finds_the_root_from_where_it_is() {
        assert_eq!(root("/"), "./");
        assert_eq!(root("/queue"), "./");
        assert_eq!(root("/queue/1"), "../");
        assert_eq!(root("/documents/1/pages/2"), "../../../");
    }

    #[test]
    fn what_was_encoded_is_read() {
        assert_eq!(decoded("a%20b%c3%a4%"), "a bä%");
        assert_eq!(decoded("%4"), "%4");
    }
}
