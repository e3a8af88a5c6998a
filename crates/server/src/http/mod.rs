//! HTTP: the queue for any program in any language.
//!
//! [`operations`] is the table of everything that can be asked; router, authorisation and the
//! OpenAPI document are made from it. Handlers translate: bodies of `windrow-wire` become commands
//! of the core, answers become bodies, refusals become problems. No rule is here.

mod admin;
mod answers;
mod audit;
pub(crate) mod backups;
mod blobs;
mod bulk;
mod bytes;
mod claims;
mod connection;
mod docs;
mod documents;
mod drains;
mod events;
mod failures;
mod flow;
mod gate;
mod host;
mod items;
mod link;
mod list;
mod operations;
mod pages;
mod pulse;
mod queues;
mod reply;
mod resources;
mod schedules;
mod sources;
mod stages;
mod status;
mod strict;
mod sweep;
mod system;
mod table;
pub(crate) mod tokens;
mod views;
mod webhooks;
mod websocket;
mod workers;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::auth::{Audit, Book, Denied, Guarded};
use crate::backups::Backups;
use crate::bulk::Bulk;
use crate::console;
use crate::documents::Documents;
use crate::drained::Drained;
use crate::health::Watch;
use crate::sources::Sources;
use crate::store::Queue;
use crate::webhooks::Sender;
use crate::workers::{Plan, Workers};

pub(crate) use connection::{router, serve};
pub(crate) use gate::{ByHand, For};
pub(crate) use host::Hosts;
pub(crate) use items::Mode;
pub(crate) use list::search;
pub(crate) use reply::{Asked, Failed, Named};

/// What every handler sees.
#[derive(Debug)]
pub(crate) struct App {
    /// Handlers take `Scoped` instead.
    pub(crate) queue: Guarded,
    pub(crate) book: Arc<Book>,
    pub(crate) audit: Audit,
    hosts: Arc<Hosts>,
    pub(crate) base_path: String,
    /// Whether the server speaks TLS.
    pub(crate) is_secure: bool,
    /// Keys whose values the console shows to nobody.
    pub(crate) redacted: Arc<[String]>,
    pub(crate) bulk: Bulk,
    /// Copies that are being made of the store.
    backups: Backups,
    pub(crate) watch: Arc<Watch>,
    /// How webhooks are sent.
    pub(crate) sender: Sender,
    /// The workers that the configuration declares.
    pub(crate) workers: Workers,
    /// Workers that are handed nothing new.
    pub(crate) drained: Drained,
    pub(crate) documents: Arc<Documents>,
    pub(crate) sources: Arc<Sources>,
    /// Set once the server shuts down: no new work is taken in or handed out.
    stopping: tokio::sync::watch::Sender<bool>,
    stopped_at: OnceLock<Instant>,
    /// Set when nothing is under way any more, or has been for too long: nobody is answered then.
    closing: tokio::sync::watch::Sender<bool>,
    /// Who is connected over HTTP.
    crowd: connection::Crowd,
}

/// Who may reach a server, and how they call it.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// Whether nobody does but who has the store in hand, and is of no tenant.
    pub(crate) is_by_hand: bool,
    /// An admin's token that the operator brought along.
    pub(crate) given: Option<String>,
    /// Whether other machines can reach it.
    pub(crate) is_exposed: bool,
    /// Names by which it may be called, besides those of its own machine.
    pub(crate) hosts: Vec<String>,
    /// The path below which a proxy shows it.
    pub(crate) base_path: String,
    /// Whether it speaks TLS.
    pub(crate) is_secure: bool,
    /// Keys whose values the console shows to nobody; its own if none.
    pub(crate) redacted: Vec<String>,
    /// The workers it has, and the secret that lets somebody call them.
    pub(crate) workers: Plan,
}

impl App {
    pub(crate) async fn open(
        queue: Arc<Queue>,
        access: Access,
        (watch, sender, documents): (Arc<Watch>, Sender, Arc<Documents>),
    ) -> Result<Arc<App>, Denied> {
        let Access { given, is_exposed, hosts, base_path, is_secure, redacted, workers, .. } =
            access;
        let (shared, secret) = (Arc::clone(&queue), workers.secret.as_deref());
        let book = Book::open(shared, given.as_deref(), secret, is_exposed).await?;
        let stopping = tokio::sync::watch::Sender::new(false);
        Ok(Arc::new(App {
            workers: Workers::new(workers, Arc::clone(&queue), stopping.subscribe()),
            audit: Audit::new(Arc::clone(&queue)),
            drained: Drained::open(Arc::clone(&queue)).await?,
            sources: Sources::new(Arc::clone(&queue), Arc::clone(&documents)),
            queue: Guarded::open(queue, !access.is_by_hand).await?,
            book: Arc::new(book),
            bulk: Bulk::new(),
            backups: Backups::default(),
            watch,
            sender,
            documents,
            hosts: Arc::new(Hosts::new(is_exposed, hosts)),
            base_path,
            is_secure,
            redacted: console::redacted(redacted),
            stopping,
            stopped_at: OnceLock::new(),
            closing: tokio::sync::watch::Sender::new(false),
            crowd: connection::Crowd::default(),
        }))
    }

    /// On a server that asks nobody who they are, and tells nobody anything.
    #[cfg(test)]
    pub(crate) async fn alone(queue: Arc<Queue>) -> Arc<App> {
        let thresholds = crate::health::Thresholds::new(3_600, 60);
        let watch = Arc::new(Watch::new(Arc::clone(&queue), thresholds));
        let sender = Sender::silent();
        let documents = Arc::new(Documents::nowhere(Arc::clone(&queue)));
        App::open(queue, Access::default(), (watch, sender, documents)).await.expect("it is read")
    }

    /// Waits until the server stops.
    pub(crate) async fn stops(&self) {
        let mut stopping = self.stopping.subscribe();
        // It fails only if nobody can say so any more.
        let _stopping = stopping.wait_for(|stopping| *stopping).await;
    }

    /// Takes nothing in and hands nothing out any more. Whoever has work may still report on it,
    /// also on a new connection, until the server closes.
    pub(crate) fn stop(&self) {
        // It stops only once.
        let _stopped = self.stopped_at.set(Instant::now());
        self.queue.for_the_server().close();
        self.watch.stop();
        self.stopping.send_replace(true);
    }

    /// Waits until no request over HTTP is under way.
    pub(crate) async fn quiet(&self) {
        while self.crowd.is_busy() {
            tokio::time::sleep(connection::LOOK_EVERY).await;
        }
    }

    /// Takes no connections any more, and lets go of those that are idle.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Waits until the server closes.
    pub(crate) async fn closes(&self) {
        let mut closing = self.closing.subscribe();
        // It fails only if nobody can say so any more.
        let _closing = closing.wait_for(|closing| *closing).await;
    }

    /// What is left of the time that a stop may take.
    pub(crate) fn left_of(&self, drain: Duration) -> Duration {
        let gone = self.stopped_at.get().map_or(Duration::ZERO, Instant::elapsed);
        drain.saturating_sub(gone).max(connection::MOMENT)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopped_at.get().is_some()
    }
}
