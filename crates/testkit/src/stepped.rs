//! An embedded store without threads: every wait for the disk does one step of it instead.
//!
//! The same inputs give the same run, so suites and simulations can be repeated from a seed.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use windrow_core::item::BlobRef;
use windrow_core::ports::{Listener, Now, Store, StoreError, Work};
use windrow_core::{Answer, Request, Timestamp};
use windrow_store::blobs::References;
use windrow_store::embedded::disk::Disk;
use windrow_store::embedded::{Embedded, OpenError, Options};

/// An embedded store that is driven by whoever waits for it.
#[derive(Clone, Debug)]
pub struct Stepped {
    pub store: Embedded,
}

impl Stepped {
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Stepped, OpenError> {
        Embedded::open(disk, options).map(|store| Stepped { store })
    }

    /// Runs a future of the store to its end, syncing whenever it waits.
    fn drive<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                return done;
            }
            let synced = self.store.sync_step();
            assert!(synced || self.store.poisoned().is_some(), "it waits for nothing");
        }
    }
}

impl Store for Stepped {
    async fn submit(&self, batch: Vec<Request>, now: Now) -> Result<Vec<Answer<Work>>, StoreError> {
        self.drive(self.store.submit(batch, now))
    }

    crate::reads_through!(self, reading of self.store => self.drive(reading));

    async fn advance(&self, now: Timestamp) -> Result<(), StoreError> {
        self.drive(self.store.advance(now))
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        self.store.listen(listener);
    }
}

impl References for Stepped {
    async fn references(&self, tenant: &str, blob: BlobRef) -> Result<Option<u32>, StoreError> {
        self.drive(self.store.references(tenant, blob))
    }

    async fn dropped(&self) -> Result<Vec<(Arc<str>, BlobRef)>, StoreError> {
        self.drive(self.store.dropped())
    }
}
