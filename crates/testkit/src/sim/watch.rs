//! `Watched`: the store as the engine sees it, with the ledger looking over its shoulder.

use std::sync::Arc;

use parking_lot::Mutex;
use windrow_core::ports::{Happened, Listener, Now, Ready, Store, StoreError, Work};
use windrow_core::transitions::Event;
use windrow_core::{Answer, Request, Timestamp};
use windrow_store::embedded::Embedded;

use super::ledger::{Ledger, Ticket};

/// A ledger that clients, store and simulator share.
pub(crate) type Shared = Arc<Mutex<Ledger>>;

/// An embedded store that enters everything into a ledger.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) store: Embedded,
    pub(crate) ledger: Shared,
}

impl Store for Watched {
    async fn submit(&self, batch: Vec<Request>, now: Now) -> Result<Vec<Answer<Work>>, StoreError> {
        let at = match now {
            Now::Given(at) => at,
            Now::Database => Timestamp::ZERO,
        };
        // The store decides in the first poll of its future, which is right here: the order of
        // tickets is the order of decisions.
        let first = self.ledger.lock().asked(&batch, at);
        let mut asked = Asked { ledger: &self.ledger, first, count: batch.len(), open: true };
        let answered = self.store.submit(batch, now).await;
        asked.open = false;
        let mut ledger = self.ledger.lock();
        ledger.sometimes.answered += u64::from(answered.is_ok());
        ledger.answered(first, &answered);
        drop(ledger);
        answered
    }

    crate::reads_through!(self, reading of self.store => reading.await);

    async fn advance(&self, now: Timestamp) -> Result<(), StoreError> {
        self.ledger.lock().told_time(now);
        self.store.advance(now).await
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        self.store.listen(Arc::new(Ears { listener, ledger: Arc::clone(&self.ledger) }));
    }
}

/// A batch that was asked; if whoever asked goes away, its answers are lost.
struct Asked<'a> {
    ledger: &'a Mutex<Ledger>,
    first: Ticket,
    count: usize,
    open: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.open {
            self.ledger.lock().lost(self.first, self.count);
        }
    }
}

/// Counts what the store tells, and passes it on.
struct Ears {
    listener: Arc<dyn Listener>,
    ledger: Shared,
}

impl Listener for Ears {
    fn ready(&self, ready: &[Ready]) {
        self.listener.ready(ready);
    }

    fn happened(&self, happened: &[Happened]) {
        let seen = &mut self.ledger.lock().sometimes;
        for one in happened {
            match one.event {
                Some(Event::Promote) => seen.promoted += 1,
                Some(Event::Join) => seen.joined += 1,
                Some(Event::Reopen) => seen.reopened += 1,
                Some(Event::Cancel) => seen.cancelled += 1,
                Some(Event::Reset) => seen.reset += 1,
                Some(Event::Restart) => seen.restarted += 1,
                Some(Event::Replace) => seen.replaced += 1,
                _ => {}
            }
        }
        self.listener.happened(happened);
    }
}
