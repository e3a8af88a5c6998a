//! A store that this process holds for as long as a command takes.
//!
//! The same app and the same router as a server's, without a socket, and a caller who may do
//! everything. Nothing happens by itself unless the command asks for it: a command that looks does
//! not give leases more time, and one that claims does not take back what a worker holds that could
//! not renew while no server was there, but what has run out.

use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use tokio::task::JoinHandle;
use tower_service::Service as _;
use windrow_core::command::{Answer, Command};
use windrow_core::limits::COMMAND_ITEMS_MAX;
use windrow_core::ports::Store as _;
use windrow_engine::Clock as _;

use super::Ask;
use crate::auth::{Caller, Entry, Outcome};
use crate::bulk;
use crate::cli::exit::{Exit, Stop};
use crate::cli::place::Place;
use crate::cli::serve;
use crate::config::Config;
use crate::health::Watch;
use crate::http::{Access, App, ByHand, router};
use crate::store::{AnyStore, Open, Queue};

/// Bytes of an answer that are read.
const ANSWER_MAX: usize = 256 * 1024 * 1024;

pub(crate) struct Here {
    shown: String,
    router: Router,
    app: Arc<App>,
    beside: Mutex<Vec<JoinHandle<()>>>,
    // Last, so that everything that uses it goes first.
    open: Open,
}

impl Here {
    pub(super) async fn begin(place: Place, config: &Config) -> anyhow::Result<Here> {
        must_be_ours(&place)?;
        let shown = serve::shown(&place)?;
        let open = Open::at(place).await?;
        let queue = Arc::clone(&open.queue);
        config.newcomers.clone().into_iter().for_each(|settings| queue.assume(settings));
        let watch = Arc::new(Watch::new(Arc::clone(&queue), config.health));
        let beside = (watch, config.webhooks.clone());
        let app = App::open(Arc::clone(&queue), Access::default(), beside).await?;
        // What became due while nobody was there is in line.
        queue.store().advance(queue.clock().now()).await?;
        let router = router(Arc::clone(&app));
        Ok(Here { shown, router, app, beside: Mutex::default(), open })
    }

    /// Where the store is, without a password.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.open.queue
    }

    /// Whether nobody else can use the store meanwhile.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.open.queue.store(), AnyStore::Embedded(..))
    }

    /// Takes all tokens away as if there had never been one. How many there were.
    pub(crate) async fn clear_tokens(&self) -> anyhow::Result<usize> {
        let gone = self.app.book.clear().await?;
        let entry = Entry {
            at_ms: 0,
            caller: Caller::by_hand().name,
            token: None,
            tenant: None,
            operation: "DELETE /tokens/{token}".to_owned(),
            targets: vec!["(all)".to_owned()],
            outcome: Outcome::Done,
        };
        self.app.audit.record(entry).await;
        Ok(gone)
    }

    async fn open_answer(&self, ask: Ask) -> Result<axum::response::Response, Stop> {
        let wrong = |error: axum::http::Error| Stop::usage(error.to_string());
        let mut request = ask.request().map_err(wrong)?;
        request.extensions_mut().insert(ByHand);
        match self.router.clone().call(request).await {
            Ok(response) => Ok(response),
            Err(never) => match never {},
        }
    }

    pub(super) async fn open(&self, ask: Ask) -> Result<(u16, Body), Stop> {
        let (head, body) = self.open_answer(ask).await?.into_parts();
        Ok((head.status.as_u16(), body))
    }

    pub(super) async fn ask(&self, ask: Ask) -> Result<(u16, Bytes), Stop> {
        let (status, body) = self.open(ask).await?;
        let body = axum::body::to_bytes(body, ANSWER_MAX).await;
        let body = body.map_err(|error| Stop::new(Exit::Failed, error.to_string()))?;
        Ok((status, body))
    }

    fn beside(&self, task: JoinHandle<()>) {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    pub(super) fn runs_operations(&self) {
        self.beside(tokio::spawn(bulk::run(Arc::clone(&self.app))));
    }

    pub(super) fn keeps_time(&self) {
        let queue = Arc::clone(&self.open.queue);
        self.beside(tokio::spawn(async move {
            let _stopped = queue.run().await;
        }));
    }

    /// Takes back what leases held that have run out.
    pub(crate) async fn reclaim(&self) -> anyhow::Result<()> {
        loop {
            let limit = COMMAND_ITEMS_MAX / 10;
            let answer = self.open.queue.submit(Command::Reclaim { limit }).await?;
            match answer {
                Answer::Reclaimed(reclaimed) if reclaimed.more => {}
                _ => return Ok(()),
            }
        }
    }

    pub(super) async fn close(self) {
        self.app.stop();
        let beside =
            std::mem::take(&mut *self.beside.lock().unwrap_or_else(PoisonError::into_inner));
        for task in beside {
            task.abort();
            let _ended = task.await;
        }
    }
}

/// What another user would make in a directory its server could not open afterwards.
fn must_be_ours(place: &Place) -> anyhow::Result<()> {
    let Place::Directory(path) = place else { return Ok(()) };
    let Ok(found) = std::fs::metadata(path) else { return Ok(()) };
    let (owner, we) = (found.uid(), rustix::process::geteuid().as_raw());
    anyhow::ensure!(
        owner == we,
        "{} belongs to user {owner}, and this runs as user {we}; run it as that user, or ask its \
         server",
        path.display()
    );
    Ok(())
}
