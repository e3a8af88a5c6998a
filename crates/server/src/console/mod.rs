//! The console: what a person sees of a server, and what they press.
//!
//! It is a client of the API in the same process. Every page asks [`View`] for what it shows, as
//! whoever looks at it, through the same gate as anybody else: nothing is shown or done here that
//! the API would not show or do, and what an operator does by a button stands in the audit as what
//! they do by `curl`. No rule is here.
//!
//! A page is made of [`page::Page::part`]s, each by one function. [`live`] makes the same page
//! again when something happened and sends the parts that changed; without JavaScript the page is
//! read as it was sent. Links lead from where a page is (`../queue`), so that it works below any
//! path.
//!
//! # For whoever adds a page
//!
//! 1. A file with a handler that takes [`View`] and gives a `Page`, and a line in [`routes`].
//! 2. Text goes through `maud`, which escapes it; there is no inline script and no inline style,
//!    because the browser is told to run neither ([`page::POLICY`]).
//! 3. What is pressed is an [`act::Act`]: an operation of the API with its body.
//! 4. A test in `crates/server/tests/console`, which opens it in a browser.

mod act;
mod assets;
mod documents;
mod draw;
mod item;
mod live;
mod monitor;
mod operations;
mod overview;
mod page;
mod queue;
mod refused;
mod schedules;
mod search;
mod session;
mod settings;
mod sources;
mod system;
mod view;
mod way;
mod workers;

use std::sync::Arc;

use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};

pub(crate) use live::Pages;
pub(crate) use refused::{Asked, refused, shown};
pub(crate) use session::kept as session;
pub(crate) use view::Api;
use view::View;
use way::way;

use crate::auth::Role;
use crate::http::App;

/// A page, or what is pressed on one.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// None if everybody may, without a token too.
    pub(crate) role: Option<Role>,
    pub(crate) handler: MethodRouter<Arc<App>>,
}

/// Every page. A path that is not here does not exist.
pub(crate) fn routes() -> Vec<Route> {
    let page = |path, role, handler| Route { method: Method::GET, path, role, handler };
    let press = |path, role, handler| Route { method: Method::POST, path, role, handler };
    let viewer = Some(Role::Viewer);
    vec![
        page("/", viewer, get(overview::page)),
        page("/queue", viewer, get(queue::page)),
        page("/queue/{id}", viewer, get(item::page)),
        page("/workers", viewer, get(workers::page)),
        page("/schedules", viewer, get(schedules::page)),
        page("/documents", viewer, get(documents::list::page)),
        page("/documents/graph", viewer, get(documents::graph::page)),
        page("/documents/{id}", viewer, get(documents::document::page)),
        page("/documents/{id}/pages/{number}", viewer, get(documents::page::page)),
        page("/search", viewer, get(search::page)),
        page("/sources", viewer, get(sources::page)),
        page("/admin/queue-monitor", Some(Role::Operator), get(monitor::page)),
        press("/admin/rate", Some(Role::Operator), post(monitor::rate)),
        page("/admin/system", Some(Role::Operator), get(system::page)),
        press("/admin/tokens", Some(Role::Admin), post(settings::make_token)),
        page("/admin/settings", Some(Role::Operator), get(settings::page)),
        page("/history", viewer, get(async |view: View| moved(&view, "queue"))),
        page("/scan-history", viewer, get(async |view: View| moved(&view, "queue"))),
        page("/operations/{id}", viewer, get(operations::page)),
        press("/operations", Some(Role::Operator), post(operations::begin)),
        press("/schedules/turn", Some(Role::Operator), post(schedules::turned)),
        press("/operations/confirm", Some(Role::Operator), post(operations::confirm)),
        press("/act", viewer, post(act::act)),
        press("/theme", None, post(session::theme)),
        page("/sign-in", None, get(session::page)),
        press("/sign-in", None, post(session::begin)),
        press("/sign-out", None, post(session::end)),
        page("/live", viewer, get(live::stream)),
        page("/assets/{file}", None, get(assets::file)),
    ]
}

/// Keys whose values nobody is shown, unless the configuration names others.
const REDACTED: [&str; 10] = [
    "password",
    "passwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "authorization",
    "cookie",
    "private_key",
    "credential",
];

/// What the configuration says of them, in the case in which they are compared.
pub(crate) fn redacted(said: Vec<String>) -> Arc<[String]> {
    match said.is_empty() {
        true => REDACTED.iter().map(|word| (*word).to_owned()).collect(),
        false => said.iter().map(|word| word.to_lowercase()).collect(),
    }
}

/// A page that lies elsewhere now, with what was asked of it.
fn moved(view: &View, to: &str) -> Response {
    let to = match view.query() {
        "" => to.to_owned(),
        query => format!("{to}?{query}"),
    };
    page::see_other(&view.to(&to)).into_response()
}
