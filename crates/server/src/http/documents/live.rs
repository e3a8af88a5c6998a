//! Documents as they go on: by server-sent events for one, by a WebSocket for many.
//!
//! Both read what happens in the queue from the ring of events, let a moment's events gather, and
//! look again at what they watch. Whoever is slow therefore misses steps on the way and never the
//! end. The words of the WebSocket are those of the system behind seed 001.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;
use windrow_core::Timestamp;
use windrow_core::item::Status;
use windrow_engine::Clock as _;
use windrow_engine::events::{EventId, Resumed};
use windrow_pipelines::catalog::{Document, DocumentFilter, DocumentState};
use windrow_pipelines::documents::QUEUE;

use super::super::App;
use super::super::reply::{Asked, Failed};
use super::super::websocket::{Close, Heard, Socket, accept};
use super::progress::{shown, task};
use super::{Known, tenant};
use crate::auth::{Denied, Scoped};
use crate::documents::progress::PHASES;

/// How long events gather before anybody looks again.
const GATHER: Duration = Duration::from_millis(200);
/// A client hears something at least this often.
const BEAT: Duration = Duration::from_secs(4);
/// What a client hears of a stream that has nothing to say.
const BEATEN: &str = ": windrow\n\n";
/// Events that are read at once.
const PAGE: usize = 500;
/// Documents that one client watches at most, and that are asked of the catalog together.
const WATCHED_MAX: usize = 200;
/// So much later than it happened a change may come to be seen.
const LATE_MS: u64 = 60_000;

/// Somebody who watches documents.
struct Watching {
    app: Arc<App>,
    scoped: Scoped,
    place: EventId,
    /// Something happened, and nobody has been told.
    is_owed: bool,
}

/// What waiting came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum News {
    /// Something happened to documents.
    Some,
    None,
    /// The server stops, or the token is gone.
    Over,
}

impl Watching {
    async fn new(app: Arc<App>, scoped: Scoped) -> Result<Watching, Denied> {
        // First of all other servers must know that somebody listens.
        scoped.watch().await?;
        let place = scoped.events().latest();
        Ok(Watching { app, scoped, place, is_owed: false })
    }

    /// Waits until something happens to documents, at most for a while. May be given up at any
    /// moment, and loses nothing.
    async fn news(&mut self) -> News {
        if self.app.is_stopping() {
            return News::Over;
        }
        let until = tokio::time::Instant::now() + BEAT;
        loop {
            // There may be no end of events, and then nobody waits below.
            if self.scoped.has_ended() {
                return News::Over;
            }
            if self.is_owed {
                tokio::select! {
                    () = tokio::time::sleep(GATHER) => {}
                    () = self.app.stops() => return News::Over,
                    () = self.scoped.ended() => return News::Over,
                }
                self.is_owed = false;
                return News::Some;
            }
            match self.scoped.events().page(self.place, PAGE) {
                Resumed::Reset { now } => {
                    self.place = now;
                    return News::Some;
                }
                Resumed::Events(events) if events.is_empty() => {
                    tokio::select! {
                        () = self.scoped.events().beyond(self.place.seq) => {}
                        () = self.app.stops() => return News::Over,
                        () = self.scoped.ended() => return News::Over,
                        () = tokio::time::sleep_until(until) => {
                            // A database that is away for a moment is no reason to end.
                            let _told_later = self.scoped.watch().await;
                            return News::None;
                        }
                    }
                }
                Resumed::Events(events) => {
                    self.place = events.last().map_or(self.place, |event| event.id);
                    let is_about = |event: &windrow_engine::events::Event| {
                        *event.happened.queue == *QUEUE && self.scoped.sees(&event.happened.tenant)
                    };
                    self.is_owed = events.iter().any(is_about);
                }
            }
        }
    }
}

/// How far a document is: now, or, to whoever accepts a stream, as it goes on.
pub(super) async fn progress(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    known: Known,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let first = shown(&app, &known.document).await?;
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accepts.contains("text/event-stream") {
        return Ok(axum::Json(first).into_response());
    }
    let said = serde_json::to_string(&first).unwrap_or_default();
    let watching = Watching::new(app, scoped).await?;
    let (document, is_over) = (known.document, false);
    let stream = Stream { watching, document, said: String::new(), next: Some(said), is_over };
    let body = futures_util::stream::unfold(stream, |mut stream| async {
        let words = stream.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(words)), stream))
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// One client of a document.
struct Stream {
    watching: Watching,
    document: Document,
    /// What was said last, and what is to be said first.
    said: String,
    next: Option<String>,
    /// It was said that the document is gone.
    is_over: bool,
}

impl Stream {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(next) = self.next.take() {
                let words = format!("event: progress\ndata: {next}\n\n");
                self.said = next;
                return Some(words);
            }
            if self.is_over {
                return None;
            }
            match self.watching.news().await {
                News::Over => return None,
                News::None => return Some(BEATEN.to_owned()),
                News::Some => {
                    let now = match self.now().await {
                        Ok(Some(now)) => now,
                        Ok(None) => {
                            self.is_over = true;
                            return Some("event: gone\ndata: {}\n\n".to_owned());
                        }
                        // What cannot be read at this moment can at the next, also if nothing
                        // happens any more.
                        Err(_) => {
                            self.watching.is_owed = true;
                            return Some(BEATEN.to_owned());
                        }
                    };
                    self.next = Some(now).filter(|now| *now != self.said);
                }
            }
        }
    }

    /// How far it is now; None if it is gone.
    async fn now(&mut self) -> Result<Option<String>, Failed> {
        let app = &self.watching.app;
        let catalog = &app.documents.opened().await?.catalog;
        let found = catalog.document(&self.document.scope.tenant, self.document.id).await?;
        let Some(document) = found else { return Ok(None) };
        let now = shown(app, &document).await?;
        self.document = document;
        Ok(Some(serde_json::to_string(&now).unwrap_or_default()))
    }
}

/// Whose documents are watched.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Whose {
    #[serde(alias = "user_id")]
    tenant: Option<String>,
}

/// The WebSocket.
pub(in super::super) async fn socket(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Asked(whose): Asked<Whose>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let tenant = tenant(whose.tenant.as_deref(), &scoped)?;
    let watching = Watching::new(app, scoped).await?;
    let (only, known, looked) = (BTreeSet::new(), HashMap::new(), Timestamp::ZERO);
    let client = Client { watching, tenant, only, known, looked };
    accept(&headers, move |socket| client.serve(socket))
}

/// One client of the WebSocket.
struct Client {
    watching: Watching,
    tenant: Arc<str>,
    /// The documents it wants to hear of; all if none.
    only: BTreeSet<Uuid>,
    /// How they stood when they were last looked at, and when that was.
    known: HashMap<Uuid, Stand>,
    looked: Timestamp,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stand {
    phases: [Status; 3],
    state: DocumentState,
}

impl Stand {
    /// One that was added a moment ago.
    const NEW: Stand = Stand { phases: [Status::Pending; 3], state: DocumentState::Building };

    fn has_ended(&self) -> bool {
        matches!(self.state, DocumentState::Live | DocumentState::Failed)
    }
}

impl Client {
    async fn serve(mut self, mut socket: Socket) {
        let _heard = socket.send(&json!({"event": "connected"}).to_string()).await;
        self.look_around().await;
        loop {
            let sent = tokio::select! {
                heard = socket.receive() => match heard {
                    Heard::Gone => return,
                    Heard::Close(why) => return socket.close(why).await,
                    Heard::Ping(payload) => socket.pong(&payload).await,
                    Heard::Text(asked) => {
                        let answers = self.answers(&asked).await;
                        send_all(&mut socket, answers).await
                    }
                },
                news = self.watching.news() => match news {
                    News::Over => return socket.close(Close::GoingAway).await,
                    News::None => socket.ping().await,
                    News::Some => {
                        let told = self.look().await;
                        send_all(&mut socket, told).await
                    }
                },
            };
            if sent.is_err() {
                return;
            }
        }
    }

    /// What a client asks for: subscribe, unsubscribe, ping.
    async fn answers(&mut self, asked: &str) -> Vec<Value> {
        let wrong = |detail: &str| vec![json!({"event": "error", "detail": detail})];
        let Ok(asked) = serde_json::from_str::<Value>(asked) else {
            return wrong("send JSON with an `action`: subscribe, unsubscribe or ping");
        };
        let one = asked["document_id"].as_str().into_iter();
        let many = asked["document_ids"].as_array().into_iter().flatten();
        let ids = one.chain(many.filter_map(Value::as_str)).map(str::parse::<Uuid>);
        let ids: Result<Vec<Uuid>, _> = ids.collect();
        match (asked["action"].as_str(), ids) {
            (Some("ping"), _) => vec![json!({"event": "pong"})],
            (Some("subscribe"), Ok(ids)) if !ids.is_empty() => {
                if self.only.len() + ids.len() > WATCHED_MAX {
                    return wrong("that are too many; a connection watches 200 documents");
                }
                self.only.extend(&ids);
                // How far they came before that is told too: nobody waits for what has been.
                ids.iter().for_each(|id| {
                    self.known.remove(id);
                });
                let standing = self.look().await;
                let subscribed = |id| json!({"event": "subscribed", "document_id": id});
                ids.iter().map(subscribed).chain(standing).collect()
            }
            (Some("unsubscribe"), Ok(ids)) if ids.is_empty() => {
                self.only.clear();
                self.look_around().await;
                vec![json!({"event": "unsubscribed"})]
            }
            (Some("unsubscribe"), Ok(ids)) => {
                ids.iter().for_each(|id| {
                    self.only.remove(id);
                });
                if self.only.is_empty() {
                    self.look_around().await;
                }
                ids.iter().map(|id| json!({"event": "unsubscribed", "document_id": id})).collect()
            }
            (Some("subscribe" | "unsubscribe"), _) => wrong("document_id: must be a document's id"),
            _ => wrong("action: must be subscribe, unsubscribe or ping"),
        }
    }

    /// Looks at everything for the first time: how it stands is no news.
    async fn look_around(&mut self) {
        let _known = self.look().await;
    }

    /// Looks at all that is watched, and says what is new.
    async fn look(&mut self) -> Vec<Value> {
        let mut told = Vec::new();
        let began = self.watching.scoped.clock().now();
        // What cannot be read at this moment can at the next.
        let Ok(Watched { listed, others }) = self.watched().await else {
            self.watching.is_owed = true;
            return told;
        };
        let lasting: BTreeSet<Uuid> = listed.iter().map(|document| document.id).collect();
        let mut seen = BTreeSet::new();
        for document in listed.into_iter().chain(others) {
            seen.insert(document.id);
            let Ok(Some(progress)) = self.watching.app.documents.progress(&document).await else {
                continue;
            };
            let phases = progress.phases.map(|phase| phase.status);
            let now = Stand { phases, state: document.state };
            let before = self.known.insert(document.id, now);
            let is_wanted = self.only.contains(&document.id);
            // One that was not known yet is news as far as it has come since it was added; but not
            // if it only came to be among the last, because later ones were deleted.
            let is_old = !is_wanted && document.changed_at.plus(LATE_MS) < self.looked;
            let unknown = if is_old && now.has_ended() { now } else { Stand::NEW };
            told.extend(changes(&document, before.unwrap_or(unknown), now, progress.percent));
        }
        self.known.retain(|id, stand| {
            // Whatever has ended and is looked at no more was told.
            seen.contains(id) && (lasting.contains(id) || !stand.has_ended())
        });
        self.looked = began;
        told
    }

    async fn watched(&self) -> Result<Watched, Failed> {
        let mut watched = Watched::default();
        let documents = &self.watching.app.documents;
        if !documents.is_begun().await? {
            return Ok(watched);
        }
        let catalog = &documents.opened().await?.catalog;
        if !self.only.is_empty() {
            for id in &self.only {
                watched.listed.extend(catalog.document(&self.tenant, *id).await?);
            }
            return Ok(watched);
        }
        // What was added last is looked at too: it may be done between two looks.
        let filter = DocumentFilter::of(&*self.tenant);
        watched.listed = catalog.documents(filter.clone(), None, WATCHED_MAX as u32).await?;
        for state in [DocumentState::Building, DocumentState::Updating] {
            let (filter, mut after) =
                (DocumentFilter { state: Some(state), ..filter.clone() }, None);
            loop {
                let slice = catalog.documents(filter.clone(), after, WATCHED_MAX as u32).await?;
                let Some(last) = slice.last() else { break };
                after = Some(last.cursor());
                watched.listed.extend(slice);
            }
        }
        let mut seen = BTreeSet::new();
        watched.listed.retain(|document: &Document| seen.insert(document.id));
        for id in self.known.keys().filter(|id| !seen.contains(id)) {
            watched.others.extend(catalog.document(&self.tenant, *id).await?);
        }
        Ok(watched)
    }
}

/// The documents that a client is told of.
#[derive(Default)]
struct Watched {
    /// Those that it named; or all that are being built, and those that were added last.
    listed: Vec<Document>,
    /// Those that were among them at the last look.
    others: Vec<Document>,
}

/// What a client is told about a document that stands otherwise than before.
fn changes(document: &Document, before: Stand, now: Stand, percent: f64) -> Vec<Value> {
    let (id, filename) = (document.id, &document.name);
    let mut told = Vec::new();
    for (at, (phase, _)) in PHASES.iter().enumerate() {
        let status = now.phases[at];
        let is_news = status != before.phases[at];
        if is_news && matches!(status, Status::Completed | Status::Failed | Status::Processing) {
            let word = match status {
                Status::Completed => "completed",
                Status::Failed => "failed",
                _ => "processing",
            };
            told.push(json!({
                "event": format!("{phase}_{word}"), "document_id": id, "filename": filename,
                "phase": phase, "status": task(status), "percent": percent,
            }));
        }
    }
    let ended = match now.state {
        _ if now.state == before.state => None,
        DocumentState::Live => Some("indexing_completed"),
        DocumentState::Failed => Some("indexing_failed"),
        _ => None,
    };
    told.extend(ended.map(|event| {
        json!({"event": event, "document_id": id, "filename": filename, "percent": percent})
    }));
    told
}

async fn send_all(socket: &mut Socket, all: Vec<Value>) -> std::io::Result<()> {
    for one in all {
        socket.send(&one.to_string()).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use windrow_core::command::NewItem;
    use windrow_core::item::Body as ItemBody;

    use super::*;
    use crate::auth::{Role, Wanted as Token};
    use crate::cli::place::Place;
    use crate::store::Open;

    /// Whether that was so was asked only when nothing happened.
    #[tokio::test(flavor = "multi_thread")]
    async fn whoever_may_come_in_no_more_hears_nothing_more_however_much_happens() {
        let dir = std::env::temp_dir().join(format!("windrow-news-{}", std::process::id()));
        let open = Open::at(Place::Directory(dir.clone())).await.unwrap();
        let app = App::alone(Arc::clone(&open.queue)).await;
        let anybody = app.book.authenticate(None).await.unwrap();
        let scoped = Scoped::new(&app.queue, &app.book, anybody);
        let mut watching = Watching::new(Arc::clone(&app), scoped.clone()).await.unwrap();
        let item = || vec![NewItem::new(ItemBody::new("t", QUEUE))];
        scoped.enqueue(item(), None).await.unwrap();
        assert_eq!(watching.news().await, News::Some);
        scoped.enqueue(item(), None).await.unwrap();
        // From the first token on nobody comes in without one.
        let (name, role) = ("first".to_owned(), Role::Admin);
        app.book.create(Token { name, role, tenant: None, expires: None }).await.unwrap();
        assert_eq!(watching.news().await, News::Over);
        watching.is_owed = true;
        assert_eq!(watching.news().await, News::Over, "also while events gather");
        drop((app, scoped, watching, open));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
