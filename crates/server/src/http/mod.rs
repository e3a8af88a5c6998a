//! HTTP: the queue for any program in any language.
//!
//! [`operations`] is the table of everything that can be asked; router, authorisation and the
//! OpenAPI document are made from it. Handlers translate: bodies of `windrow-wire` become commands
//! of the core, answers become bodies, refusals become problems. No rule is here.

mod admin;
mod answers;
mod audit;
mod blobs;
mod bulk;
mod claims;
mod connection;
mod docs;
mod events;
mod gate;
mod host;
mod items;
mod link;
mod list;
mod operations;
mod pulse;
mod queues;
mod reply;
mod resources;
mod schedules;
mod status;
mod strict;
mod sweep;
mod system;
mod table;
pub(crate) mod tokens;
mod views;
mod webhooks;
mod workers;

use std::sync::Arc;

use crate::auth::{Audit, Book, Denied, Guarded};
use crate::bulk::Bulk;
use crate::health::Watch;
use crate::store::Queue;
use crate::webhooks::Sender;
use crate::workers::{Plan, Workers};

pub(crate) use connection::{router, serve};
pub(crate) use gate::ByHand;
pub(crate) use host::Hosts;
pub(crate) use items::Mode;
pub(crate) use list::search;

/// What every handler sees.
#[derive(Debug)]
pub(crate) struct App {
    /// Handlers take `Scoped` instead.
    pub(crate) queue: Guarded,
    pub(crate) book: Arc<Book>,
    pub(crate) audit: Audit,
    hosts: Arc<Hosts>,
    pub(crate) bulk: Bulk,
    pub(crate) watch: Arc<Watch>,
    /// How webhooks are sent.
    pub(crate) sender: Sender,
    /// The workers that the configuration declares.
    pub(crate) workers: Workers,
    /// Set once the server shuts down: no new work is handed out.
    stopping: tokio::sync::watch::Sender<bool>,
}

/// Who may reach a server, and how they call it.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// An admin's token that the operator brought along.
    pub(crate) given: Option<String>,
    /// Whether other machines can reach it.
    pub(crate) is_exposed: bool,
    /// Names by which it may be called, besides those of its own machine.
    pub(crate) hosts: Vec<String>,
    /// The workers it has, and the secret that lets somebody call them.
    pub(crate) workers: Plan,
}

impl App {
    pub(crate) async fn open(
        queue: Arc<Queue>,
        access: Access,
        (watch, sender): (Arc<Watch>, Sender),
    ) -> Result<Arc<App>, Denied> {
        let Access { given, is_exposed, hosts, workers } = access;
        let (shared, secret) = (Arc::clone(&queue), workers.secret.as_deref());
        let book = Book::open(shared, given.as_deref(), secret, is_exposed).await?;
        let stopping = tokio::sync::watch::Sender::new(false);
        Ok(Arc::new(App {
            workers: Workers::new(workers, Arc::clone(&queue), stopping.subscribe()),
            audit: Audit::new(Arc::clone(&queue)),
            queue: Guarded::open(queue).await?,
            book: Arc::new(book),
            bulk: Bulk::new(),
            watch,
            sender,
            hosts: Arc::new(Hosts::new(is_exposed, hosts)),
            stopping,
        }))
    }

    /// On a server that asks nobody who they are, and tells nobody anything.
    #[cfg(test)]
    pub(crate) async fn alone(queue: Arc<Queue>) -> Arc<App> {
        let thresholds = crate::health::Thresholds::new(3_600, 60);
        let watch = Arc::new(Watch::new(Arc::clone(&queue), thresholds));
        let sender = Sender::silent();
        App::open(queue, Access::default(), (watch, sender)).await.expect("it is read")
    }

    /// Waits until the server stops.
    pub(crate) async fn stops(&self) {
        let mut stopping = self.stopping.subscribe();
        // It fails only if nobody can say so any more.
        let _stopping = stopping.wait_for(|stopping| *stopping).await;
    }

    /// Hands out nothing any more, and takes no connections.
    pub(crate) fn stop(&self) {
        self.queue.for_the_server().close();
        self.watch.stop();
        self.stopping.send_replace(true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }
}
