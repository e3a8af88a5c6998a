//! Connections: accepted, bounded in time, size and number, and let go when the server stops.
//!
//! While a stopping server has something under way, it answers whoever comes, each for the last
//! time on that connection. Then it closes: what is idle goes at once, what has begun to arrive
//! gets a moment.
//!
//! There is no limit by address, because behind a proxy all clients have the same one. When there
//! are as many connections as there may be, those that have waited longest without asking for
//! anything make room, then those whose body arrives slowly; one that is being worked on never
//! does. So a crowd of slow and idle clients locks nobody out.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Request, Response, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::get;
use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tower_service::Service as _;
use windrow_wire::problem::Code;

use super::gate::{self, Gate, Rules};
use super::link::{HEAD_WITHIN, Link, Why};
use super::pages as errors;
use super::pulse::{Arriving, Leaving, Phase, Pulse};
use super::reply::{BODY_MAX, Failed};
use super::table::{self, LetsIn, Plain, Role};
use super::websocket::{Socket, Upgrade};
use super::{App, docs, documents, host, operations, status, strict};
use crate::console::{self, Api, Pages};
use crate::logs;
use crate::tls::{Tls, is_plain};

/// How many connections make room at once, in parts of all.
const ROOM: usize = 100;
/// How long a request that has begun may take to arrive when the server closes.
pub(super) const MOMENT: Duration = Duration::from_millis(250);
/// How often a stopping server looks whether anything is under way.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Routes that are no operations.
fn plain() -> Vec<Plain> {
    let of = Plain::new;
    let viewer = Some(Role::Viewer);
    vec![
        of("/api/v1/openapi.json", viewer, get(docs::document)),
        of("/docs", viewer, get(docs::page)),
        of("/docs/errors", viewer, get(errors::list)),
        of("/docs/errors/{page}", viewer, get(errors::page)),
        of("/ws/document-status", viewer, get(documents::socket)),
        of("/healthz", None, get(status::healthz)),
        of("/readyz", None, get(status::readyz)),
        of("/metrics", viewer, get(status::metrics)).lets_in(LetsIn::Watchers),
    ]
}

/// All routes, behind the gate.
pub(crate) fn router(app: Arc<App>) -> Router {
    router_with(app, |routes| routes)
}

/// The routes of the console's pages. They ask an API of their own, and a live page asks the pages,
/// each without a socket: nobody holds a router that holds itself.
fn pages(app: &Arc<App>, routes: Router<Arc<App>>) -> Router<Arc<App>> {
    let gated = |(routes, rules): (Router<Arc<App>>, Rules)| {
        let gate = Arc::new(Gate { app: Arc::clone(app), rules });
        routes.layer(DefaultBodyLimit::max(BODY_MAX)).layer(from_fn_with_state(gate, gate::check))
    };
    let shown = || console::routes().into_iter().map(Plain::from).collect();
    let api = gated(table::routes(operations::all(), plain())).with_state(Arc::clone(app));
    let pages = gated(table::routes(Vec::new(), shown())).layer(Extension(Api(api.clone())));
    let pages = pages.with_state(Arc::clone(app));
    routes.layer(Extension(Api(api))).layer(Extension(Pages(pages)))
}

/// The same after somebody changed the routes, which the gate then does not know.
pub(super) fn router_with(
    app: Arc<App>,
    change: impl FnOnce(Router<Arc<App>>) -> Router<Arc<App>>,
) -> Router {
    let all = plain().into_iter().chain(console::routes().into_iter().map(Plain::from)).collect();
    let (routes, rules) = table::routes(operations::all(), all);
    let hosts = Arc::clone(&app.hosts);
    let gate = Arc::new(Gate { app: Arc::clone(&app), rules });
    let router = change(pages(&app, routes))
        .fallback(async || Failed::new(Code::NotFound, "there is no such path; see /docs"))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(from_fn_with_state(gate, gate::check))
        .layer(from_fn_with_state(hosts, host::check))
        .layer(from_fn(strict::check))
        .layer(from_fn(logs::request));
    #[cfg(feature = "otel")]
    let router = router.layer(from_fn(crate::otel::within));
    router.with_state(app)
}

/// Who is connected.
#[derive(Debug, Default)]
pub(super) struct Crowd(Mutex<HashMap<u64, Arc<Pulse>>>);

impl Crowd {
    fn with<T>(&self, look: impl FnOnce(&mut HashMap<u64, Arc<Pulse>>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes room for one more, if somebody can be sent away for it.
    fn admit(&self, id: u64, pulse: &Arc<Pulse>, max: usize) -> bool {
        self.with(|all| {
            if all.len() >= max {
                let sent = send_away(all, max / ROOM + 1);
                sent.iter().for_each(|id| drop(all.remove(id)));
            }
            let has_room = all.len() < max;
            if has_room {
                all.insert(id, Arc::clone(pulse));
            }
            has_room
        })
    }

    /// Whether anybody waits for an answer, or for the rest of one.
    pub(super) fn is_busy(&self) -> bool {
        self.with(|all| all.values().any(|pulse| !pulse.is_free()))
    }

    fn leave(&self, id: u64) {
        self.with(|all| all.remove(&id));
    }
}

/// Tells so many of those to go who will be missed least, and who they are.
fn send_away(all: &HashMap<u64, Arc<Pulse>>, many: usize) -> Vec<u64> {
    let rank = |pulse: &Pulse| match pulse.phase() {
        Phase::Quiet | Phase::Head => Some(0),
        Phase::Body => Some(1),
        Phase::Work => None,
    };
    let ranked = all.iter().filter_map(|(id, pulse)| Some((rank(pulse)?, pulse.since(), *id)));
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_unstable();
    let sent: Vec<u64> = ranked.into_iter().take(many).map(|(_, _, id)| id).collect();
    sent.iter().filter_map(|id| all.get(id)).for_each(|pulse| pulse.send_away());
    sent
}

/// Takes a connection out of the crowd when it goes.
struct Leaves {
    app: Arc<App>,
    id: u64,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        self.app.crowd.leave(self.id);
    }
}

/// Serves until the server closes, then lets what is under way come to its end, for a while.
pub(crate) async fn serve(
    app: Arc<App>,
    listener: TcpListener,
    tls: Option<Tls>,
    max: usize,
    drain: Duration,
) -> std::io::Result<()> {
    let router = router(Arc::clone(&app));
    let (mut connections, mut id) = (JoinSet::new(), 0);
    loop {
        // Whoever is in line already when the server closes is taken in.
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            () = app.closes() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                id += 1;
                let pulse = Pulse::new();
                let is_admitted = app.crowd.admit(id, &pulse, max);
                let (app, router, tls) = (Arc::clone(&app), router.clone(), tls.clone());
                connections.spawn(async move {
                    // Also if somebody's mistake ends it.
                    let _leaves = Leaves { app: Arc::clone(&app), id };
                    begin(&app, router, stream, tls, pulse, is_admitted).await;
                });
            }
            // Too many open files, most likely: it passes, sooner if somebody leaves.
            Err(_) => {
                app.crowd.with(|all| send_away(all, all.len() / ROOM + 1));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    // What is not done by then was not acknowledged.
    let _in_time = tokio::time::timeout(app.left_of(drain), drained).await;
    Ok(())
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Leaving>, Infallible>> + Send>>;

/// What a connection becomes after an answer that said so.
type Next = Arc<Mutex<Option<Upgrade>>>;

fn answer(
    app: &Arc<App>,
    router: &Router,
    (pulse, next): (&Arc<Pulse>, &Next),
    request: Request<Incoming>,
) -> Answering {
    let mut request = request.map(|body| Arriving::new(body, pulse));
    if let Some(to) = with_slash(request.uri(), &app.base_path) {
        let (moved, pulse) = (Redirect::permanent(&to).into_response(), Arc::clone(pulse));
        return Box::pin(async move { Ok(moved.map(|body| Leaving::new(body, pulse))) });
    }
    if let Some(uri) = below(request.uri(), &app.base_path) {
        *request.uri_mut() = uri;
    }
    let (answered, app, pulse) = (router.clone().call(request), Arc::clone(app), Arc::clone(pulse));
    let next = Arc::clone(next);
    Box::pin(async move {
        let mut response = answered.await?;
        if let Some(upgrade) = response.extensions_mut().remove::<Upgrade>() {
            *next.lock().unwrap_or_else(PoisonError::into_inner) = Some(upgrade);
        } else if app.is_stopping() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response.map(|body| Leaving::new(body, pulse)))
    })
}

/// Where whoever asks for that path itself is led: without its last slash, the links of a page
/// would lead one step too high.
fn with_slash(uri: &Uri, base: &str) -> Option<String> {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    (!base.is_empty() && uri.path() == base).then(|| format!("{base}/{query}"))
}

/// What is asked for below the path that a proxy shows the server under.
fn below(uri: &Uri, base: &str) -> Option<Uri> {
    let asked = uri.path_and_query()?.as_str();
    let rest = asked.strip_prefix(base).filter(|_| !base.is_empty())?;
    let path = match rest.chars().next() {
        Some('/') => rest.to_owned(),
        None | Some('?') => format!("/{rest}"),
        Some(_) => return None,
    };
    path.parse().ok()
}

/// One connection from its beginning, which is a handshake if the server speaks TLS.
async fn begin(
    app: &Arc<App>,
    router: Router,
    stream: TcpStream,
    tls: Option<Tls>,
    pulse: Arc<Pulse>,
    is_admitted: bool,
) {
    // Small answers leave at once; if the socket refuses that, they leave later.
    let _sooner = stream.set_nodelay(true);
    let Some(tls) = tls else { return one(app, router, stream, pulse, is_admitted).await };
    let plain = tokio::select! {
        plain = is_plain(&stream) => plain,
        () = app.closes() => return,
        () = pulse.sent_away() => return,
    };
    let Some(plain) = plain else { return };
    if plain {
        let said = "this server speaks https; say https:// where http:// stands";
        let mut link = Link::new(stream, pulse);
        link.refuse(&Failed::new(Code::Malformed, said).whole()).await;
        return link.close(true).await;
    }
    let encrypted = tokio::select! {
        encrypted = tls.accept(stream) => encrypted,
        () = app.closes() => return,
        () = pulse.sent_away() => return,
    };
    // Whoever does not get through it was told why, as far as TLS has words for it.
    if let Ok(encrypted) = encrypted {
        one(app, router, encrypted, pulse, is_admitted).await;
    }
}

/// One connection, as long as it lasts.
async fn one<S>(app: &Arc<App>, router: Router, stream: S, pulse: Arc<Pulse>, is_admitted: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut link = Link::new(stream, Arc::clone(&pulse));
    if !is_admitted {
        link.refuse(&Failed::crowded().whole()).await;
        link.close(true).await;
        return;
    }
    let next = Next::default();
    let service = hyper::service::service_fn({
        let (app, pulse, next) = (Arc::clone(app), Arc::clone(&pulse), Arc::clone(&next));
        move |request: Request<Incoming>| answer(&app, &router, (&pulse, &next), request)
    });
    let mut connection = hyper::server::conn::http1::Builder::new()
        .max_buf_size(strict::HEADERS_MAX)
        .max_headers(strict::HEADERS_MAX_COUNT)
        .serve_connection(TokioIo::new(link), service);
    let mut must_go = false;
    let ended = loop {
        tokio::select! {
            biased;
            ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => break ended,
            () = app.closes(), if !must_go => {
                let is_new = pulse.phase() == Phase::Quiet && !pulse.was_answered();
                if is_new || pulse.phase() == Phase::Head {
                    let arriving = poll_fn(|cx| connection.poll_without_shutdown(cx));
                    match tokio::time::timeout(MOMENT, arriving).await {
                        Ok(ended) => break ended,
                        Err(_) if pulse.phase() == Phase::Head => return,
                        Err(_) => {}
                    }
                }
            }
            () = pulse.sent_away() => {
                if pulse.phase() == Phase::Body || pulse.is_free() {
                    return;
                }
            }
        }
        must_go = true;
        Pin::new(&mut connection).graceful_shutdown();
    };
    let parts = connection.into_parts();
    let mut link = parts.io.into_inner();
    let next = next.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(begin) = next.filter(|_| ended.is_ok()).and_then(|upgrade| upgrade.take()) {
        // From here on it keeps its own time.
        pulse.enter(Phase::Work);
        return begin(Socket::on(link, &parts.read_buf)).await;
    }
    let error = ended.err();
    let why = link.why(error.as_ref());
    if let Some(why) = why {
        link.refuse(&refusal(why, error.as_ref()).whole()).await;
    }
    link.close(why.is_some() || pulse.phase() == Phase::Body).await;
}

/// What is said of a request that could not be read as one.
fn refusal(why: Why, error: Option<&hyper::Error>) -> Failed {
    match why {
        Why::Late => {
            let within = HEAD_WITHIN.as_secs();
            Failed::new(Code::Timeout, format!("the headers have not arrived within {within} s"))
        }
        Why::TooLarge => strict::too_large(),
        Why::NotHttp => {
            let what = error.map(ToString::to_string).unwrap_or_default();
            Failed::new(Code::Malformed, format!("this is no request of HTTP/1.1: {what}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_by_those_who_ask_for_nothing_and_never_by_work() {
        let crowd = Crowd::default();
        let pulses: Vec<Arc<Pulse>> = (0..4).map(|_| Pulse::new()).collect();
        for (id, (pulse, phase)) in
            pulses.iter().zip([Phase::Work, Phase::Body, Phase::Quiet, Phase::Work]).enumerate()
        {
            pulse.enter(phase);
            assert!(crowd.admit(id as u64, pulse, 4));
        }
        let here = |crowd: &Crowd| {
            let mut ids = crowd.with(|all| all.keys().copied().collect::<Vec<_>>());
            ids.sort_unstable();
            ids
        };
        let next = Pulse::new();
        next.enter(Phase::Work);
        assert!(crowd.admit(4, &next, 4));
        assert_eq!(here(&crowd), [0, 1, 3, 4], "the quiet one went first");
        assert!(crowd.admit(5, &next, 4));
        assert_eq!(here(&crowd), [0, 3, 4, 5], "then the slow one");
        assert!(!crowd.admit(6, &next, 4), "whoever is worked on stays");
        crowd.leave(0);
        assert!(crowd.admit(7, &next, 4));
    }
}
