//! Connections: accepted, bounded in time and size, and let go when the server stops.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Request;
use axum::response::Redirect;
use axum::routing::get;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower_service::Service as _;
use windrow_wire::problem::Code;

use super::reply::{BODY_MAX, Failed};
use super::{App, docs, host, operations, status, table};

/// Connections at once.
const CONNECTIONS_MAX: usize = 10_000;
/// How long the headers of a request may take, also those of the next one on a connection.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
/// Bytes of headers that are read.
const HEADERS_MAX: usize = 32 * 1024;

/// All routes.
pub(super) fn router(app: Arc<App>) -> Router {
    table::routes(operations::all())
        .route("/api/v1/openapi.json", get(docs::document))
        .route("/docs", get(docs::page))
        .route("/", get(async || Redirect::to("/docs")))
        .route("/healthz", get(status::healthz))
        .route("/readyz", get(status::readyz))
        .fallback(async || Failed::new(Code::NotFound, "there is no such path; see /docs"))
        .method_not_allowed_fallback(async || {
            Failed::new(Code::MethodNotAllowed, "the Allow header names what can be done here")
        })
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(axum::middleware::from_fn(host::check))
        .with_state(app)
}

/// Serves until the server stops, then lets what is under way come to its end, for a while.
pub(crate) async fn serve(
    app: Arc<App>,
    listener: TcpListener,
    drain: Duration,
) -> std::io::Result<()> {
    let router = router(Arc::clone(&app));
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = app.stops() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let serving = one(Arc::clone(&app), router.clone(), stream);
                connections.spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            // Too many open files, most likely: it passes.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
    let drained = async { while connections.join_next().await.is_some() {} };
    // What is not done by then was not acknowledged.
    let _in_time = tokio::time::timeout(drain, drained).await;
    Ok(())
}

/// One connection, as long as it lasts.
async fn one(app: Arc<App>, router: Router, stream: TcpStream) {
    // Small answers leave at once; if the socket refuses that, they leave later.
    let _sooner = stream.set_nodelay(true);
    let service =
        hyper::service::service_fn(move |request: Request<Incoming>| router.clone().call(request));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // What a connection dies of is its client's to know.
    let _ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = app.stops() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
}
