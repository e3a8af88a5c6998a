//! Live pages: the parts of a page that changed, as they change.
//!
//! The page is made again when something happened, at most once in [`REST`], by asking the router
//! for it as the browser would; parts that read as before are not sent. So whatever a page shows is
//! live, and nothing is shown that the page would not show.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Request};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use tower_service::Service as _;
use windrow_engine::events::EventId;

use super::page::Parts;
use super::view::FORWARDED;
use crate::auth::Scoped;
use crate::http::{App, Asked, Failed, For};

/// How long a page stays as it is, whatever happens.
const REST: Duration = Duration::from_millis(1_000);
/// How long it stays so when nothing happens: ages and figures per minute go on.
const BEAT: Duration = Duration::from_secs(5);
/// How long a stream lasts. The browser asks again by itself, and shows its session again: one that
/// is over, or was signed out in another tab, sees nothing new any more.
const LASTS: Duration = Duration::from_secs(600);

/// The pages, without a socket.
#[derive(Clone, Debug)]
pub(crate) struct Pages(pub(crate) Router);

/// Marks a request for the parts of a page only.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnlyParts;

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// The page, from the root on.
    page: String,
}

pub(super) async fn stream(
    State(app): State<Arc<App>>,
    Extension(pages): Extension<Pages>,
    queue: Scoped,
    headers: HeaderMap,
    Asked(Wanted { page }): Asked<Wanted>,
) -> Result<Response, Failed> {
    queue.watch().await?;
    let place = queue.events().latest();
    let follower = Follower {
        app,
        queue,
        pages,
        page: format!("/{page}"),
        place,
        sent: HashMap::new(),
        hashes: RandomState::new(),
        is_first: true,
        until: Instant::now() + LASTS,
        place_of: [HOST, FORWARDED].map(|name| headers.get(&name).cloned().map(|is| (name, is))),
    };
    let body = futures_util::stream::unfold(follower, |mut follower| async {
        let words = follower.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(words)), follower))
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// One open page.
struct Follower {
    app: Arc<App>,
    queue: Scoped,
    pages: Pages,
    page: String,
    place: EventId,
    /// What each part was when it was sent.
    sent: HashMap<&'static str, u64>,
    hashes: RandomState,
    is_first: bool,
    until: Instant,
    /// What the browser says of where the server is, which pages tell.
    place_of: [Option<(HeaderName, HeaderValue)>; 2],
}

impl Follower {
    /// What the page is told next; none when the server stops, or whoever looks may no more.
    async fn next(&mut self) -> Option<String> {
        if !self.is_first {
            self.wait().await?;
        }
        self.is_first = false;
        if self.queue.has_ended() || self.app.is_stopping() {
            return None;
        }
        self.place = self.queue.events().latest();
        let mut words = format!(": windrow\nid: {}\n\n", self.place);
        // A page that cannot be made at this moment stays as it is.
        for part in self.parts().await.iter().flat_map(|Parts(parts)| parts.iter()) {
            let hash = self.hashes.hash_one(&part.html.0);
            if self.sent.insert(part.id, hash) != Some(hash) {
                let data = json!({ "part": part.id, "html": part.html.0 });
                words.push_str(&format!("event: part\ndata: {data}\n\n"));
            }
        }
        Some(words)
    }

    async fn parts(&self) -> Option<Parts> {
        let mut request = Request::builder().uri(&self.page).body(Body::empty()).ok()?;
        request.headers_mut().extend(self.place_of.iter().flatten().cloned());
        request.extensions_mut().insert(For(self.queue.caller().clone()));
        request.extensions_mut().insert(OnlyParts);
        let answered: Result<Response, Infallible> = self.pages.0.clone().call(request).await;
        let Ok(mut response) = answered;
        response.extensions_mut().remove::<Parts>()
    }

    /// Waits until the page may have changed. None when the stream is over.
    async fn wait(&self) -> Option<()> {
        let news = async {
            tokio::time::sleep(REST).await;
            tokio::select! {
                () = self.queue.events().beyond(self.place.seq) => {}
                () = tokio::time::sleep(BEAT - REST) => {
                    // A database that is away for a moment is no reason to end the stream.
                    let _told_later = self.queue.watch().await;
                }
            }
        };
        tokio::select! {
            () = news => Some(()),
            () = self.app.stops() => None,
            () = self.queue.ended() => None,
            () = tokio::time::sleep_until(self.until) => None,
        }
    }
}
