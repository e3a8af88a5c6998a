//! HTTP: the queue for any program in any language.
//!
//! [`operations`] is the table of everything that can be asked; router, authorisation and the
//! OpenAPI document are made from it. Handlers translate: bodies of `windrow-wire` become commands
//! of the core, answers become bodies, refusals become problems. No rule is here.

mod answers;
mod blobs;
mod bulk;
mod claims;
mod connection;
mod docs;
mod events;
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
mod table;
mod webhooks;

use std::sync::Arc;

use crate::bulk::Bulk;
use crate::health::Watch;
use crate::store::Queue;
use crate::webhooks::Sender;

pub(crate) use connection::serve;
pub(crate) use items::Mode;
pub(crate) use list::search;

/// The tenant of whoever names none.
const TENANT: &str = "default";

/// What every handler sees.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) queue: Arc<Queue>,
    pub(crate) bulk: Bulk,
    pub(crate) watch: Arc<Watch>,
    /// How webhooks are sent.
    pub(crate) sender: Sender,
    /// Set once the server shuts down: no new work is handed out.
    stopping: tokio::sync::watch::Sender<bool>,
}

impl App {
    pub(crate) fn new(queue: Arc<Queue>, watch: Arc<Watch>, sender: Sender) -> Arc<App> {
        let stopping = tokio::sync::watch::Sender::new(false);
        Arc::new(App { queue, bulk: Bulk::new(), watch, sender, stopping })
    }

    /// Waits until the server stops.
    pub(crate) async fn stops(&self) {
        let mut stopping = self.stopping.subscribe();
        // It fails only if nobody can say so any more.
        let _stopping = stopping.wait_for(|stopping| *stopping).await;
    }

    /// Hands out nothing any more, and takes no connections.
    pub(crate) fn stop(&self) {
        self.queue.close();
        self.watch.stop();
        self.stopping.send_replace(true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }
}
