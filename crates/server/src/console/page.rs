//! A page: its frame, and the parts that it is made of.

use std::sync::Arc;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::act::back;
use super::assets;
use super::view::{SAID, Theme, View, root};
use crate::auth::Role;

/// What a browser may do with a page: nothing that is not ours, and nothing that stands in it.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                                 img-src 'self'; connect-src 'self'; form-action 'self'; \
                                 frame-ancestors 'none'; base-uri 'none'";

/// A page by its way, its name, and the role that it takes.
type Place = (&'static str, &'static str, Role);

/// Where one can go, with the role that it takes. What comes later finds its place here.
const PLACES: [(&str, &[Place]); 3] = [
    (
        "Work",
        &[
            ("", "Overview", Role::Viewer),
            ("queue", "Queue", Role::Viewer),
            ("workers", "Workers", Role::Viewer),
            ("schedules", "Schedules", Role::Viewer),
        ],
    ),
    (
        "Content",
        &[
            ("documents", "Documents", Role::Viewer),
            ("search", "Search", Role::Viewer),
            ("sources", "Sources", Role::Viewer),
        ],
    ),
    (
        "Admin",
        &[
            ("admin/queue-monitor", "Monitor", Role::Operator),
            ("admin/system", "System", Role::Operator),
            ("admin/settings", "Settings", Role::Operator),
        ],
    ),
];

/// What can be pressed anywhere, with what it does. The script knows the same keys.
const KEYS: [(&str, &str); 10] = [
    ("?", "show or hide this"),
    ("/", "go to the filter or the search"),
    ("g o", "go to the overview"),
    ("g q", "go to the queue"),
    ("g d", "go to the documents"),
    ("g s", "go to the search"),
    ("g w", "go to the workers"),
    ("j, k", "next and previous row"),
    ("x", "select the row"),
    ("p", "pause or go on with live updates"),
];

/// The part that stands beside the title.
const BESIDE: &str = "beside";

/// One part of a page.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) id: &'static str,
    pub(super) html: Markup,
}

/// A page.
#[derive(Debug)]
pub(super) struct Page {
    view: View,
    title: String,
    /// What stands beside the title.
    beside: Option<Markup>,
    parts: Vec<Part>,
    is_live: bool,
}

/// The parts of a page, for whoever asked for nothing else.
#[derive(Clone, Debug)]
pub(super) struct Parts(pub(super) Arc<Vec<Part>>);

impl View {
    /// A page of this title.
    pub(super) fn page(&self, title: impl Into<String>) -> Page {
        let (view, title) = (self.clone(), title.into());
        Page { view, title, beside: None, parts: Vec::new(), is_live: true }
    }
}

impl Page {
    /// With another part below. Its name tells the live stream which one changed.
    pub(super) fn part(mut self, id: &'static str, html: Markup) -> Page {
        self.parts.push(Part { id, html });
        self
    }

    /// With something beside the title.
    pub(super) fn beside(self, html: Markup) -> Page {
        Page { beside: Some(html), ..self }
    }

    /// It stays as it is.
    pub(super) fn still(self) -> Page {
        Page { is_live: false, ..self }
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        if self.view.only_parts {
            let mut response = StatusCode::OK.into_response();
            let beside = self.beside.map(|html| Part { id: BESIDE, html });
            let parts = beside.into_iter().chain(self.parts).collect();
            response.extensions_mut().insert(Parts(Arc::new(parts)));
            return response;
        }
        let view = &self.view;
        let body = html! {
            header.head {
                h1 { (self.title) }
                @if let Some(beside) = &self.beside { div id=(BESIDE) data-part { (beside) } }
                @if self.is_live {
                    button.quiet #live type="button" hidden aria-pressed="true"
                        title="Live updates (p)" { "Live" }
                }
            }
            @if let Some(said) = &view.said { p.said role="status" { (said) } }
            @for part in &self.parts {
                div.part id=(part.id) data-part { (part.html) }
            }
        };
        let live = self.is_live.then(|| view.here());
        let frame = Frame {
            title: &self.title,
            path: view.path(),
            theme: view.theme,
            live: live.as_deref(),
            nav: Some(nav(view)),
        };
        let mut response = frame.around(&body).into_response();
        if view.said.is_some() {
            let gone = HeaderValue::from_static("windrow_said=; Path=/; Max-Age=0");
            response.headers_mut().append(SET_COOKIE, gone);
        }
        response
    }
}

/// What is around everything.
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    pub(super) path: &'a str,
    pub(super) theme: Theme,
    /// The page whose parts are sent as they change.
    pub(super) live: Option<&'a str>,
    pub(super) nav: Option<Markup>,
}

impl Frame<'_> {
    pub(super) fn around(&self, body: &Markup) -> impl IntoResponse + use<> {
        let root = root(self.path);
        let page = html! {
            (DOCTYPE)
            html lang="en" data-theme=(self.theme.name()) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · Windrow" }
                    link rel="icon" href={ (root) (assets::way("mark.svg")) };
                    link rel="stylesheet" href={ (root) (assets::way("console.css")) };
                    script defer src={ (root) (assets::way("console.js")) } {}
                }
                body data-root=(root) data-live=[self.live] {
                    a.skip href="#main" { "Skip to the page" }
                    @if let Some(nav) = &self.nav { (nav) }
                    main #main tabindex="-1" { (body) }
                    (keys())
                    (sure())
                }
            }
        };
        let headers = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CACHE_CONTROL, "no-store"),
            (HeaderName::from_static("content-security-policy"), POLICY),
            (HeaderName::from_static("x-content-type-options"), "nosniff"),
            (HeaderName::from_static("referrer-policy"), "same-origin"),
        ];
        (headers, page.into_string())
    }
}

/// Where one can go, and who one is.
fn nav(view: &View) -> Markup {
    let here = view.path().trim_start_matches('/');
    let is_here = |place: &str| match place {
        "" => here.is_empty(),
        place => here == place || here.strip_prefix(place).is_some_and(|at| at.starts_with('/')),
    };
    html! {
        nav.side aria-label="Console" {
            a.brand href=(view.to("")) {
                img src=(view.to(assets::way("mark.svg"))) alt="" width="22" height="22";
                "Windrow"
            }
            @for (group, places) in PLACES {
                @if places.iter().any(|(_, _, role)| view.may(*role)) {
                    p.group { (group) }
                    ul {
                        @for (place, name, role) in places {
                            @if view.may(*role) {
                                li {
                                    a href=(view.to(place))
                                        aria-current=[is_here(place).then_some("page")] { (name) }
                                }
                            }
                        }
                    }
                }
            }
            div.foot {
                form method="post" action=(view.to("theme")) {
                    (back(view))
                    label for="theme" { "Look" }
                    select #theme name="theme" data-submits {
                        @for theme in Theme::ALL {
                            option value=(theme.name()) selected[theme == view.theme] {
                                (theme.name())
                            }
                        }
                    }
                    button.quiet data-hides type="submit" { "Set" }
                }
                p.who { (view.caller().name) " · " (view.caller().role.name()) }
                @if let Some(tenant) = &view.caller().tenant { p.who { "tenant " (tenant) } }
                @if view.has_tokens {
                    form method="post" action=(view.to("sign-out")) {
                        button.quiet type="submit" { "Sign out" }
                    }
                }
                p {
                    a href=(view.to("docs")) { "API" }
                    " "
                    button.quiet #keys-open type="button" hidden { "Keys" }
                }
            }
        }
    }
}

fn keys() -> Markup {
    html! {
        dialog #keys aria-label="Keys" {
            h2 { "Keys" }
            table {
                @for (key, does) in KEYS {
                    tr {
                        th scope="row" { kbd { (key) } }
                        td { (does) }
                    }
                }
            }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}

/// What is asked before something is done that cannot be undone.
fn sure() -> Markup {
    html! {
        dialog #sure aria-label="Are you sure?" {
            p {}
            form method="dialog" {
                button.strong type="submit" value="yes" { "Yes" }
                " "
                button type="submit" value="" autofocus { "No" }
            }
        }
    }
}

/// To another page, after something was done.
pub(super) fn see_other(to: &str) -> Response {
    // What we made ourselves is ASCII without controls.
    match HeaderValue::from_str(to) {
        Ok(to) => (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response(),
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

/// Has something said on the next page.
pub(super) fn say(headers: &mut HeaderMap, said: &str) {
    let mut encoded = String::new();
    let most = said.char_indices().nth(600).map_or(said, |(at, _)| &said[..at]);
    crate::ask::encode(most, &mut encoded);
    let cookie = format!("{SAID}={encoded}; Path=/; Max-Age=30; HttpOnly; SameSite=Strict");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        headers.append(SET_COOKIE, cookie);
    }
}
