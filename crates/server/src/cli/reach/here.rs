//! A store that this process holds for as long as a command takes.
//!
//! The same app and the same router as a server's, without a socket, and a caller who may do
//! everything. Nothing happens by itself unless the command asks for it: a command that looks does
//! not give leases more time, and one that claims does not take back what a worker holds that could
//! not renew while no server was there, but what has run out.

use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinHandle;
use windrow_core::command::{Answer, Command};
use windrow_core::limits::COMMAND_ITEMS_MAX;
use windrow_core::ports::Store as _;
use windrow_engine::Clock as _;
use windrow_store::postgres::Postgres;

use super::Hand;
use crate::auth::{Caller, Entry, Outcome};
use crate::bulk;
use crate::cli::place::Place;
use crate::cli::serve;
use crate::config::Config;
use crate::documents::{self, Beside, Documents};
use crate::health::Watch;
use crate::http::{Access, App};
use crate::store::{Open, Queue};

pub(crate) struct Here {
    shown: String,
    hand: Hand,
    app: Arc<App>,
    beside: Mutex<Vec<JoinHandle<()>>>,
    // Last, so that everything that uses it goes first.
    open: Open,
}

impl Here {
    /// Opens a store. With `create` there need be none yet.
    pub(super) async fn begin(place: Place, config: &Config, create: bool) -> anyhow::Result<Here> {
        must_be_ours(&place)?;
        let place = unmigrated(place, create).await?;
        let shown = serve::shown(&place)?;
        let beside = Beside::from(&place);
        let open = Open::at(place).await?;
        let queue = Arc::clone(&open.queue);
        let documents = Documents::new(config.documents.clone(), beside, Arc::clone(&queue));
        config.newcomers.clone().into_iter().for_each(|settings| queue.assume(settings));
        let is_alone = queue.store().is_alone();
        let watch = Watch::new(Arc::clone(&queue), config.health).without_server(is_alone);
        let watch = Arc::new(watch);
        let beside = (watch, config.webhooks.clone(), Arc::new(documents));
        // Only to know that there is one: nobody is asked for it here.
        let given = config.token_file.as_deref().and_then(|path| serve::given(path).ok());
        let access = Access { is_by_hand: true, given, ..Access::default() };
        let app = App::open(Arc::clone(&queue), access, beside).await?;
        // What became due while nobody was there is in line.
        queue.store().advance(queue.clock().now()).await?;
        let hand = Hand::of(&app);
        Ok(Here { shown, hand, app, beside: Mutex::default(), open })
    }

    /// Where the store is, without a password.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.open.queue
    }

    /// Whether the configuration has a token, which no list shows.
    pub(crate) fn has_given_token(&self) -> bool {
        self.app.book.has_given()
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

    pub(in crate::cli) fn hand(&self) -> &Hand {
        &self.hand
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

    /// Reads documents, for as long as this command lasts. False if that is switched off.
    pub(super) fn reads_documents(&self) -> bool {
        self.beside(tokio::spawn(documents::run(Arc::clone(&self.app), 0)));
        self.app.documents.is_enabled()
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
        self.app.documents.stop().await;
        self.app.stop();
        let beside =
            std::mem::take(&mut *self.beside.lock().unwrap_or_else(PoisonError::into_inner));
        for task in beside {
            task.abort();
            let _ended = task.await;
        }
    }
}

/// A database whose schema is not brought up to date by whoever only passes by: servers of another
/// version may be at it. Where there is none at all, one may be made.
async fn unmigrated(place: Place, create: bool) -> anyhow::Result<Place> {
    let Place::Database(mut options) = place else { return Ok(place) };
    options.migrate = create && Postgres::schema(&options).await?.applied.is_empty();
    Ok(Place::Database(options))
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
