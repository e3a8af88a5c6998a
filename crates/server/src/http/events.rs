//! Events: what happens, as it happens, by server-sent events.
//!
//! A client reads straight from the ring and keeps nothing here but its place in it: one that is
//! too slow, or was away for too long, finds its place gone and is told to read everything again.
//! Events have ids `epoch:seq`; a client that comes back says the last one that it saw.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::time::Instant;
use windrow_core::ports::Happened;
use windrow_core::{ItemId, Status, Timestamp};
use windrow_engine::events::{Event, EventId, Resumed};
use windrow_wire::event::{Changed, Moment, history};
use windrow_wire::problem::Code;
use windrow_wire::time::Time;

use super::App;
use super::reply::{Asked, Failed, Named, item_id};
use crate::auth::{Entry, Role, Scoped};

/// A client hears something at least this often. Whoever hears nothing for twice as long has lost
/// the connection.
const BEAT: Duration = Duration::from_secs(4);
/// Events that are written at once.
const PAGE: usize = 500;

/// Which events are wanted. Several of a kind are separated by commas.
#[derive(Default, Deserialize, Debug)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Wanted {
    queue: Option<String>,
    #[serde(alias = "user_id")]
    tenant: Option<String>,
    status: Option<String>,
    item: Option<String>,
    /// Where a browser cannot send the header.
    last_event_id: Option<String>,
}

/// The same, read. An empty list is no filter.
#[derive(Default, Debug)]
struct Filter {
    queues: Vec<String>,
    tenants: Vec<String>,
    statuses: Vec<Status>,
    items: Vec<ItemId>,
}

impl Filter {
    fn new(wanted: &Wanted) -> Result<Filter, Failed> {
        let words = |said: &Option<String>| -> Vec<String> {
            let said = said.as_deref().unwrap_or_default();
            said.split(',').map(str::trim).filter(|word| !word.is_empty()).map(Into::into).collect()
        };
        let status = |word: &String| {
            let detail = "status: pending, processing, completed, failed, cancelled or skipped";
            let unknown = || Failed::new(Code::Malformed, detail);
            Status::parse(word).ok_or_else(unknown)
        };
        Ok(Filter {
            queues: words(&wanted.queue),
            tenants: words(&wanted.tenant),
            statuses: words(&wanted.status).iter().map(status).collect::<Result<_, _>>()?,
            items: words(&wanted.item).iter().map(|id| item_id(id)).collect::<Result<_, _>>()?,
        })
    }

    fn admits(&self, of: &Happened) -> bool {
        let among = |words: &[String], word: &str| {
            words.is_empty() || words.iter().any(|wanted| wanted == word)
        };
        among(&self.queues, &of.queue)
            && among(&self.tenants, &of.tenant)
            && (self.statuses.is_empty() || self.statuses.contains(&of.status))
            && (self.items.is_empty() || self.items.contains(&of.id))
    }
}

pub(super) async fn stream(
    State(app): State<Arc<App>>,
    queue: Scoped,
    Asked(wanted): Asked<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let filter = Filter::new(&wanted)?;
    let said = match headers.get("last-event-id") {
        Some(value) => Some(value.to_str().unwrap_or("?").to_owned()),
        None => wanted.last_event_id,
    };
    let last = said.filter(|said| !said.is_empty()).map(|said| said.parse()).transpose();
    let last = last.map_err(|_| {
        Failed::new(Code::Malformed, "last-event-id: expected epoch:seq, as an event's id is")
    })?;
    follow(app, queue, filter, last).await
}

/// The life of one item: as a list, or, to whoever accepts a stream, as it goes on.
pub(super) async fn of_item(
    State(app): State<Arc<App>>,
    queue: Scoped,
    Named(id): Named,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let id = item_id(&id)?;
    let seen = queue.inspect(id).await?;
    let seen = seen.ok_or_else(|| Failed::not_found("such item"))?;
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accepts.contains("text/event-stream") {
        let done = by_operators(&app, &queue, id).await?;
        return Ok(axum::Json(history(&seen, done)).into_response());
    }
    let filter = Filter { items: vec![id], ..Filter::default() };
    follow(app, queue, filter, None).await
}

/// What operators did to one item, as far as the audit goes back. Whoever did something to many by
/// a filter named none of them.
async fn by_operators(app: &App, queue: &Scoped, id: ItemId) -> Result<Vec<Moment>, Failed> {
    // Who it was stands in the audit, which is for admins.
    let may_know_who = queue.caller().must_be(Role::Admin).is_ok() && queue.whole().is_ok();
    let deed = |entry: Entry| {
        let verb = entry.operation.rsplit(['/', ' ']).next()?;
        let event = ["cancel", "retry", "prioritise"].into_iter().find(|name| *name == verb)?;
        let by = may_know_who.then(|| entry.caller.to_string());
        Some(Moment { by, ..Moment::new(Time(Timestamp(entry.at_ms)), event) })
    };
    Ok(app.audit.of(&id.to_string()).await?.into_iter().filter_map(deed).collect())
}

/// A stream from an event on, or from now.
async fn follow(
    app: Arc<App>,
    queue: Scoped,
    filter: Filter,
    last: Option<EventId>,
) -> Result<Response, Failed> {
    // First of all other servers must know that somebody listens.
    queue.watch().await?;
    let place = last.unwrap_or_else(|| queue.events().latest());
    // Its place is said before anything happened, so that it can resume from here.
    let beats_at = Instant::now() + BEAT;
    let reader = Reader { app, queue, filter, place, beats_at, said: Some(at(place)) };
    let body = futures_util::stream::unfold(reader, |mut reader| async {
        let words = reader.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(words)), reader))
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// One client.
struct Reader {
    app: Arc<App>,
    queue: Scoped,
    filter: Filter,
    place: EventId,
    /// When it is told next that somebody is there.
    beats_at: Instant,
    /// What is to be said first.
    said: Option<String>,
}

impl Reader {
    /// What the client is told next; none when the server stops, or the token is gone.
    async fn next(&mut self) -> Option<String> {
        if let Some(said) = self.said.take() {
            return Some(said);
        }
        loop {
            // There may be no end of events, and then nobody waits below.
            if self.queue.has_ended() {
                return None;
            }
            // However much happens that the client does not want.
            if Instant::now() >= self.beats_at {
                return Some(self.beat().await);
            }
            match self.queue.events().page(self.place, PAGE) {
                Resumed::Reset { now } => {
                    self.place = now;
                    return Some(format!("event: reset\nid: {now}\ndata: {{}}\n\n"));
                }
                Resumed::Events(events) if events.is_empty() => self.wait().await?,
                Resumed::Events(events) => {
                    self.place = events.last().map_or(self.place, |event| event.id);
                    let words = self.written(&events);
                    if !words.is_empty() {
                        return Some(words);
                    }
                }
            }
        }
    }

    /// What of some events the client may know and wants to.
    fn written(&self, events: &[Event]) -> String {
        let mut words = String::new();
        for Event { id, happened } in events {
            if !self.queue.sees(&happened.tenant) || !self.filter.admits(happened) {
                continue;
            }
            let data = serde_json::to_string(&Changed::from(happened)).unwrap_or_default();
            // Writing to a text cannot fail.
            let _written = write!(words, "event: item\nid: {id}\ndata: {data}\n\n");
        }
        words
    }

    /// Says that it is still there, to the client and to other servers.
    async fn beat(&mut self) -> String {
        self.beats_at = Instant::now() + BEAT;
        // A database that is away for a moment is no reason to end the stream.
        let _told_later = self.queue.watch().await;
        at(self.place)
    }

    /// Waits for news, or until it is time to say something. None when the server stops.
    async fn wait(&self) -> Option<()> {
        if self.app.is_stopping() {
            return None;
        }
        tokio::select! {
            () = self.queue.events().beyond(self.place.seq) => Some(()),
            () = self.app.stops() => None,
            () = self.queue.ended() => None,
            () = tokio::time::sleep_until(self.beats_at) => Some(()),
        }
    }
}

/// A comment, and where the client is: events that it did not want are behind it.
fn at(place: EventId) -> String {
    format!(": windrow\nid: {place}\n\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use windrow_core::command::NewItem;
    use windrow_core::item::Body as ItemBody;

    use super::*;
    use crate::auth::Wanted as Token;
    use crate::cli::place::Place;
    use crate::store::Open;

    /// Whether that was so was asked only when there was nothing to tell.
    #[tokio::test(flavor = "multi_thread")]
    async fn whoever_may_come_in_no_more_is_told_nothing_more_however_much_happens() {
        let dir = std::env::temp_dir().join(format!("windrow-told-{}", std::process::id()));
        let open = Open::at(Place::Directory(dir.clone())).await.unwrap();
        let app = App::alone(Arc::clone(&open.queue)).await;
        let anybody = app.book.authenticate(None).await.unwrap();
        let queue = Scoped::new(&app.queue, &app.book, anybody);
        let place = queue.events().latest();
        let reader = |queue: &Scoped| {
            let (app, queue, filter) = (Arc::clone(&app), queue.clone(), Filter::default());
            let beats_at = Instant::now() + BEAT;
            Reader { app, queue, filter, place, beats_at, said: None }
        };
        queue.enqueue(vec![NewItem::new(ItemBody::new("t", "q"))], None).await.unwrap();
        let told = reader(&queue).next().await.unwrap();
        assert!(told.contains("event: item"), "{told}");
        // From the first token on nobody comes in without one.
        let (name, role) = ("first".to_owned(), Role::Admin);
        app.book.create(Token { name, role, tenant: None, expires: None }).await.unwrap();
        assert_eq!(reader(&queue).next().await, None);
        drop((app, queue, open));
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// As long as something happened every now and then that it did not want, nothing was said, and
    /// it took the server for gone.
    #[tokio::test(flavor = "multi_thread")]
    async fn whoever_wants_nothing_of_what_happens_hears_that_somebody_is_there() {
        let dir = std::env::temp_dir().join(format!("windrow-beats-{}", std::process::id()));
        let open = Open::at(Place::Directory(dir.clone())).await.unwrap();
        let app = App::alone(Arc::clone(&open.queue)).await;
        let anybody = app.book.authenticate(None).await.unwrap();
        let queue = Scoped::new(&app.queue, &app.book, anybody);
        let place = queue.events().latest();
        let filter = Filter { queues: vec!["other".into()], ..Filter::default() };
        let beats_at = Instant::now() + Duration::from_millis(200);
        let (app_of_it, queue_of_it) = (Arc::clone(&app), queue.clone());
        let mut reader =
            Reader { app: app_of_it, queue: queue_of_it, filter, place, beats_at, said: None };
        let busy = async {
            loop {
                queue.enqueue(vec![NewItem::new(ItemBody::new("t", "q"))], None).await.unwrap();
            }
        };
        let told = tokio::select! {
            told = reader.next() => told.unwrap(),
            () = busy => unreachable!("it has no end"),
        };
        assert!(told.starts_with(": windrow\nid: ") && reader.place.seq > place.seq, "{told}");
        drop((reader, app, queue, open));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
