//! The gate: every request passes here, and nothing passes that no table names.
//!
//! Which role a route needs is looked up by its path and method in what the tables of operations
//! and of plain routes said. A route that stands in neither is answered as if it were not there,
//! whoever asks. Whoever may not, learns nothing but that.

use std::collections::HashMap;
use std::sync::Arc;

use axum::RequestExt as _;
use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::header::{ACCEPT, ALLOW, AUTHORIZATION, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use windrow_wire::problem::Code;

use super::App;
use super::reply::Failed;
use crate::auth::{Caller, Denied, Entry, Outcome, Role, Scoped, Targets};
use crate::console;

/// What routes need, by path as the router has it.
#[derive(Debug, Default)]
pub(super) struct Rules(HashMap<String, Vec<Rule>>);

#[derive(Clone, Debug)]
pub(super) struct Rule {
    method: Method,
    /// None if everybody may, without a token too.
    role: Option<Role>,
    pub(super) lets_in: LetsIn,
    /// It is for people.
    pub(super) is_page: bool,
    /// It changes nothing, and is no action.
    pub(super) only_looks: bool,
    /// What the audit calls it.
    operation: String,
}

/// Whom a route lets in, besides asking for their role.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum LetsIn {
    /// Whoever has a token, as it is now.
    #[default]
    Callers,
    /// Also whoever has the workers' secret.
    Schedulers,
    /// Whoever had a token when the tokens could last be read.
    Watchers,
}

impl Rules {
    pub(super) fn add(
        &mut self,
        path: &str,
        method: Method,
        role: Option<Role>,
        named: &str,
    ) -> &mut Rule {
        let operation = format!("{method} {named}");
        let (lets_in, is_page, only_looks) = (LetsIn::default(), false, method.is_safe());
        let rule = Rule { method, role, lets_in, is_page, only_looks, operation };
        self.0.entry(path.to_owned()).or_default().push_mut(rule)
    }

    fn of(&self, request: &Request) -> Found<'_> {
        let Some(path) = request.extensions().get::<MatchedPath>() else { return Found::NoPath };
        let Some(rules) = self.0.get(path.as_str()) else { return Found::NoPath };
        // The router answers HEAD as it does GET.
        let method = match request.method() {
            &Method::HEAD => &Method::GET,
            method => method,
        };
        match rules.iter().find(|rule| rule.method == *method) {
            Some(rule) => Found::Rule(rule),
            None => Found::NoMethod(rules),
        }
    }
}

#[derive(Clone, Copy)]
enum Found<'a> {
    NoPath,
    NoMethod(&'a [Rule]),
    Rule(&'a Rule),
}

/// The gate of a server.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) app: Arc<App>,
    pub(super) rules: Rules,
}

/// Marks a request that a page of the console makes for whoever looks at it and was let in.
#[derive(Clone, Debug)]
pub(crate) struct For(pub(crate) Caller);

/// Marks a request that came over no wire: whoever made it has the store itself in hand, and may do
/// everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByHand;

pub(super) async fn check(
    State(gate): State<Arc<Gate>>,
    mut request: Request,
    next: Next,
) -> Response {
    let found = gate.rules.of(&request);
    match found {
        Found::Rule(rule) if rule.is_page => return for_people(&gate, rule, request, next).await,
        Found::Rule(Rule { role: None, .. }) => return next.run(request).await,
        Found::NoPath if is_of_browser(&request) => return lost(&gate, request).await,
        _ => {}
    }
    let lets_in = if let Found::Rule(rule) = found { rule.lets_in } else { LetsIn::default() };
    let caller = match Shown::by(&request, false).who(&gate.app, lets_in).await {
        Ok(caller) => caller,
        Err(denied) => return Failed::from(denied).into_response(),
    };
    let rule = match found {
        Found::Rule(rule) => rule,
        Found::NoMethod(rules) => return no_method(rules),
        Found::NoPath => return nowhere(),
    };
    let needed = rule.role.map_or(Ok(()), |role| caller.must_be(role));
    if let Err(denied) = needed {
        return Failed::from(denied).into_response();
    }
    request.extensions_mut().insert(caller.clone());
    if rule.role.is_some_and(Role::is_audited) && !rule.only_looks {
        return audited(&gate, rule, caller, request, next).await;
    }
    next.run(request).await
}

fn nowhere() -> Response {
    Failed::new(Code::NotFound, "there is no such path; see /docs").into_response()
}

/// Somebody came by a link that leads nowhere, and gets a page that leads back.
async fn lost(gate: &Gate, request: Request) -> Response {
    let asked = console::Asked::from(&request);
    match Shown::by(&request, true).who(&gate.app, LetsIn::default()).await {
        Ok(_) => console::shown(&asked, nowhere()).await,
        Err(denied) => console::refused(&asked, denied),
    }
}

fn is_of_browser(request: &Request) -> bool {
    let accepts = request.headers().get(ACCEPT).and_then(|accepts| accepts.to_str().ok());
    let is_of_api = request.uri().path().starts_with("/api");
    request.method().is_safe() && !is_of_api && accepts.is_some_and(|of| of.contains("text/html"))
}

/// What a request shows of who asks.
enum Shown {
    /// Who it is was found out before.
    Known(Caller),
    Session(String),
    Token(Option<String>),
}

impl Shown {
    /// A browser that signed in may look by its session, and press what stands on a page.
    fn by(request: &Request, is_page: bool) -> Shown {
        if request.extensions().get::<ByHand>().is_some() {
            return Shown::Known(Caller::by_hand());
        }
        if let Some(For(caller)) = request.extensions().get() {
            return Shown::Known(caller.clone());
        }
        let token = bearer(request.headers());
        let by_session = token.is_none() && (is_page || request.method().is_safe());
        match console::session(request.headers()).filter(|_| by_session) {
            Some(session) => Shown::Session(session),
            None => Shown::Token(token.map(str::to_owned)),
        }
    }

    async fn who(self, app: &App, lets_in: LetsIn) -> Result<Caller, Denied> {
        let token = match self {
            Shown::Known(caller) => return Ok(caller),
            Shown::Session(session) => {
                return app.book.authenticate_session(&app.queue, &session).await;
            }
            Shown::Token(token) => token,
        };
        match lets_in {
            LetsIn::Callers => app.book.authenticate(token.as_deref()).await,
            LetsIn::Schedulers => app.book.authenticate_worker(token.as_deref()).await,
            LetsIn::Watchers => app.book.authenticate_watcher(token.as_deref()),
        }
    }
}

/// A page, or what is pressed on one. What it does for whoever looks at it, it asks of the API,
/// where it is audited.
async fn for_people(gate: &Gate, rule: &Rule, mut request: Request, next: Next) -> Response {
    let asked = console::Asked::from(&request);
    // A form of another site would act for whoever is signed in here.
    if !request.method().is_safe() && !is_from_here(request.headers()) {
        let detail = "this form was not sent by a page of this server";
        return console::shown(&asked, Failed::new(Code::Forbidden, detail).into_response()).await;
    }
    if let Some(role) = rule.role {
        let caller = Shown::by(&request, true).who(&gate.app, rule.lets_in).await;
        match caller.and_then(|caller| caller.must_be(role).map(|()| caller)) {
            Ok(caller) => drop(request.extensions_mut().insert(caller)),
            Err(denied) => return console::refused(&asked, denied),
        }
    }
    console::shown(&asked, next.run(request).await).await
}

/// Whether a browser says that a page of ours sent it. That an origin is ours was looked at before
/// (`host.rs`).
fn is_from_here(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    match site {
        Some(site) => site == b"same-origin",
        None => headers.contains_key(ORIGIN),
    }
}

/// What stands after `Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let said = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = said.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn no_method(rules: &[Rule]) -> Response {
    let detail = "the Allow header names what can be done here";
    let mut response = Failed::new(Code::MethodNotAllowed, detail).into_response();
    let methods: Vec<&str> = rules.iter().map(|rule| rule.method.as_str()).collect();
    if let Ok(allow) = HeaderValue::try_from(methods.join(",")) {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

/// Runs an operation and writes down what it did. A task of its own goes on when the caller hangs
/// up, so that nobody does something and leaves before it is written.
async fn audited(
    gate: &Arc<Gate>,
    rule: &Rule,
    caller: Caller,
    mut request: Request,
    next: Next,
) -> Response {
    let token = caller.token().cloned();
    let mut entry = Entry {
        at_ms: 0,
        caller: caller.name,
        token,
        tenant: caller.tenant,
        operation: rule.operation.clone(),
        targets: named(&mut request).await,
        outcome: Outcome::Done,
    };
    let app = Arc::clone(&gate.app);
    let doing = tokio::spawn(async move {
        let response = next.run(request).await;
        let code = response.extensions().get::<Code>().copied();
        entry.outcome = match code {
            None if response.status().is_success() => Outcome::Done,
            Some(Code::OutcomeUnknown) => Outcome::Unknown,
            // It was refused, and nothing happened.
            _ => return response,
        };
        if let Some(Targets(more)) = response.extensions().get() {
            entry.targets.extend(more.iter().cloned());
        }
        app.audit.record(entry).await;
        response
    });
    doing.await.unwrap_or_else(|_| Failed::new(Code::Internal, "a bug of ours").into_response())
}

/// What the path names: what is in braces in the table.
async fn named(request: &mut Request) -> Vec<String> {
    let named = request.extract_parts::<RawPathParams>().await;
    let named = named.iter().flatten().map(|(_, value)| value.to_owned());
    named.collect()
}

impl FromRequestParts<Arc<App>> for Scoped {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Scoped, Failed> {
        // The gate puts it there; without one nobody asks for anything.
        let caller = parts.extensions.get::<Caller>().cloned().ok_or(Denied::NoToken)?;
        Ok(Scoped::new(&app.queue, &app.book, caller))
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use tower_service::Service as _;

    use super::*;
    use crate::http::connection;
    use crate::store::Open;

    async fn ask(router: &Router, method: &str, path: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.body(Body::empty()).expect("a request");
        let response = router.clone().call(request).await.expect("it answers");
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    /// The negative control of the authorisation matrix: a route that somebody forgot to put into
    /// a table is not reached, also on a server that is open to everybody.
    #[tokio::test]
    async fn a_planted_route_that_no_table_names_is_not_there() {
        let dir = std::env::temp_dir().join(format!("windrow-gate-{}", std::process::id()));
        let place = crate::cli::place::Place::Directory(dir.clone());
        let open = Open::at(place).await.expect("it opens");
        let app = App::alone(Arc::clone(&open.queue)).await;
        let planted = |router: Router<Arc<App>>| {
            router
                .route("/api/v1/planted", get(async || "planted"))
                .route("/api/v1/claims", get(async || "planted"))
        };
        let router = connection::router_with(Arc::clone(&app), planted);
        for (path, status) in [("/api/v1/planted", 404), ("/api/v1/claims", 405)] {
            let (got, body) = ask(&router, "GET", path).await;
            assert!(got == status && !body.contains("planted\""), "{path}: {got} {body}");
            assert_ne!(body, "planted");
        }
        // So that the test could fail: what is in the table is reached.
        assert_eq!(ask(&router, "GET", "/api/v1/queue/stats").await.0, 200);
        assert_eq!(ask(&router, "GET", "/healthz").await.0, 200);
        drop((router, app, open));
        std::fs::remove_dir_all(dir).expect("it is there");
    }

    /// Whoever serves a caller takes `Scoped`. The bare queue is for what the server does itself.
    #[test]
    fn only_what_serves_no_caller_takes_the_bare_queue() {
        const MAY: [&str; 9] = [
            "auth/guarded.rs",
            "auth/mod.rs",
            "auth/scoped.rs",
            "bulk/run.rs",
            // Documents of operations, each of which it checks for the caller.
            "http/bulk.rs",
            "http/gate.rs",
            "http/mod.rs",
            // The queue of the plain calls is set up.
            "rpc/mod.rs",
            "webhooks/courier.rs",
        ];
        let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let (mut places, mut found) = (vec![source.clone()], Vec::new());
        while let Some(place) = places.pop() {
            for file in std::fs::read_dir(place).expect("it is there") {
                let path = file.expect("a file").path();
                if path.is_dir() {
                    places.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).expect("it is read");
                if text.contains("for_the_server") {
                    found.push(path.strip_prefix(&source).expect("below").display().to_string());
                }
            }
        }
        found.sort();
        assert_eq!(found, MAY, "take Scoped instead, or say here that it serves no caller");
    }

    #[test]
    fn a_token_is_read_whatever_the_case_of_its_scheme() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(text));
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(of("Bearer wr_1_2").as_deref(), Some("wr_1_2"));
        assert_eq!(of("bearer  wr_1_2 ").as_deref(), Some("wr_1_2"));
        assert_eq!((of("Basic wr_1_2"), of("wr_1_2")), (None, None));
    }
}
