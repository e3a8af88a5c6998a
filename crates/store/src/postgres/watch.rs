//! Watching: what happens on one server is told on another, while somebody there wants to know.
//!
//! Whoever watches says so to all servers, and again every few seconds; the others tell what
//! happened by notifications for as long, and nothing at all while nobody watches. Nothing that
//! must happen hangs on it. What is too much to tell is not told, and that is said.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use windrow_core::ports::{Happened, StoreError};
use windrow_core::transitions::Event;
use windrow_core::{Status, Timestamp};

use super::tx::step;
use super::{Error, Postgres, Shared};

pub(super) const WATCH: &str = "windrow_watch";
pub(super) const HAPPENED: &str = "windrow_happened";

/// So long is told what happens after somebody said that they watch.
const WATCHED_FOR: Duration = Duration::from_secs(15);
/// So often is it said.
const SAID_EVERY: Duration = Duration::from_secs(4);
/// Bytes of one notification; PostgreSQL takes 8,000.
const BYTES_MAX: usize = 7_000;
/// How long to wait before what failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// What waits to be told at most.
const WAITING_MAX: usize = 10_000;

/// Who watches, and what they are still to be told.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Until when somebody on another server watches.
    until: Mutex<Option<Instant>>,
    /// When it was last said that somebody here does.
    said: Mutex<Option<Instant>>,
    untold: Mutex<Vec<Happened>>,
    /// Some of it was too much.
    lost: AtomicBool,
    news: tokio::sync::Notify,
}

impl Watch {
    /// Keeps what happened here for whoever watches elsewhere.
    pub(super) fn happened(&self, happened: &[Happened]) {
        let watched = self.until.lock().is_some_and(|until| Instant::now() < until);
        if !watched || happened.is_empty() {
            return;
        }
        let mut untold = self.untold.lock();
        if untold.len() + happened.len() > WAITING_MAX {
            untold.clear();
            self.lost.store(true, Ordering::Relaxed);
        } else {
            untold.extend_from_slice(happened);
        }
        drop(untold);
        self.news.notify_one();
    }
}

/// Tells other servers what happened here, until the store is dropped.
pub(super) async fn tell(store: Weak<Shared>, watch: Arc<Watch>) {
    loop {
        watch.news.notified().await;
        let Some(shared) = store.upgrade() else { return };
        if shared.tell_watchers().await.is_err() {
            // What could not be told is lost to them, which is said as soon as that works.
            watch.lost.store(true, Ordering::Relaxed);
            drop(shared);
            tokio::time::sleep(AGAIN).await;
            watch.news.notify_one();
        }
    }
}

impl Shared {
    async fn tell_watchers(&self) -> Result<(), Error> {
        let happened = std::mem::take(&mut *self.watch.untold.lock());
        let lost = self.watch.lost.swap(false, Ordering::Relaxed);
        if !lost && happened.is_empty() {
            return Ok(());
        }
        let mut says = String::new();
        if lost {
            says.push_str("null");
        }
        let client = self.pool.get().await?;
        for one in &happened {
            let one = written(one).to_string();
            if says.len() + one.len() > BYTES_MAX {
                self.say(&client, HAPPENED, &std::mem::take(&mut says)).await?;
            }
            if !says.is_empty() {
                says.push('\n');
            }
            says.push_str(&one);
        }
        self.say(&client, HAPPENED, &says).await
    }

    async fn say(
        &self,
        client: &super::pool::Used,
        channel: &str,
        words: &str,
    ) -> Result<(), Error> {
        let said = format!("{}|{words}", self.origin);
        client.query(step!("select pg_notify($1, $2)", channel.to_owned(), said)).await?;
        Ok(())
    }

    /// Another server watches.
    pub(super) fn is_watched(&self) {
        *self.watch.until.lock() = Some(Instant::now() + WATCHED_FOR);
    }

    /// What another server says that happened there.
    pub(super) fn heard_happened(&self, words: &str) {
        let Some(listener) = self.listener.read().clone() else { return };
        let mut happened = Vec::new();
        for line in words.lines() {
            match read(line) {
                Some(one) => happened.push(one),
                None => listener.missed(),
            }
        }
        if !happened.is_empty() {
            listener.happened(&happened);
        }
    }

    /// What happened elsewhere meanwhile is not known.
    pub(super) fn heard_nothing(&self) {
        let watches = self.watch.said.lock().is_some_and(|said| said.elapsed() < WATCHED_FOR);
        if let Some(listener) = self.listener.read().clone().filter(|_| watches) {
            listener.missed();
        }
    }
}

impl Postgres {
    /// Says to other servers that somebody here watches, unless that was said just now.
    pub(super) async fn say_watching(&self) -> Result<(), StoreError> {
        let shared = &self.shared;
        let was = *shared.watch.said.lock();
        if was.is_some_and(|said| said.elapsed() < SAID_EVERY) {
            return Ok(());
        }
        let client = shared.pool.get().await?;
        shared.say(&client, WATCH, "").await?;
        *shared.watch.said.lock() = Some(Instant::now());
        Ok(())
    }
}

fn written(of: &Happened) -> Value {
    let (event, since) = (of.event.map(Event::name), of.since.map(|at| at.0));
    let (id, status) = (of.id.to_string(), of.status.name());
    json!([id, of.at.0, *of.queue, *of.tenant, of.stage, status, event, *of.in_stage, since])
}

fn read(line: &str) -> Option<Happened> {
    type Fields = (String, u64, String, String, u8, String, Option<String>, String, Option<u64>);
    let fields: Fields = serde_json::from_str(line).ok()?;
    let (id, at, queue, tenant, stage, status, event, in_stage, since) = fields;
    let event = match event {
        Some(word) => Some(Event::parse(&word)?),
        None => None,
    };
    Some(Happened {
        id: id.parse().ok()?,
        at: Timestamp(at),
        queue: queue.into(),
        tenant: tenant.into(),
        stage,
        status: Status::parse(&status)?,
        event,
        in_stage: in_stage.into(),
        since: since.map(Timestamp),
    })
}

#[cfg(test)]
mod tests {
    use windrow_core::ItemId;
    use windrow_core::id::StoreTag;

    use super::*;

    #[test]
    fn what_is_told_is_what_is_heard() {
        let happened = Happened {
            id: ItemId::from_serial(7, StoreTag::default()),
            at: Timestamp(1_794_700_799_999),
            queue: "a|b\n\"c\"".into(),
            tenant: "ü".into(),
            stage: 3,
            status: Status::Failed,
            event: Some(Event::Expire),
            in_stage: "ocr".into(),
            since: Some(Timestamp(1_794_700_000_000)),
        };
        let line = written(&happened).to_string();
        assert_eq!(line.lines().count(), 1);
        assert_eq!(read(&line), Some(happened.clone()));
        let created = Happened { event: None, since: None, ..happened };
        assert_eq!(read(&written(&created).to_string()), Some(created));
        assert_eq!(read("null"), None);
    }
}
