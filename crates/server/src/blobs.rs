//! Blobs beside the server's store: kept in the order that loses nothing, and collected.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tokio::time::{Instant, MissedTickBehavior};
use windrow_core::Timestamp;
use windrow_core::command::Command;
use windrow_core::item::BlobRef;
use windrow_core::ports::StoreError;
use windrow_engine::{Clock as _, Failure};
use windrow_store::blobs::{
    BlobError, Blobs, CollectError, NewUpload, References, Stored, Upload, UploadId,
    collect_dropped, collect_old, put,
};

use crate::documents::Documents;
use crate::store::{AnyStore, Queue};

/// How often the bytes of blobs that lost their last reference are removed.
const DROPPED_EVERY: Duration = Duration::from_secs(1);
/// How often bytes that nobody needs are looked for.
const OLD_EVERY: Duration = Duration::from_secs(600);

/// Why a blob was not kept.
#[derive(Debug)]
pub(crate) enum NotKept {
    Blobs(BlobError),
    Queue(Failure),
}

impl From<BlobError> for NotKept {
    fn from(error: BlobError) -> NotKept {
        NotKept::Blobs(error)
    }
}

impl From<Failure> for NotKept {
    fn from(failure: Failure) -> NotKept {
        NotKept::Queue(failure)
    }
}

/// Finishes an upload and lets items refer to it.
pub(crate) async fn finish(
    queue: &Queue,
    tenant: &Arc<str>,
    id: UploadId,
) -> Result<BlobRef, NotKept> {
    let blob = queue.store().finish(id, queue.clock().now()).await?;
    known(queue, tenant, blob).await?;
    Ok(blob)
}

/// Stores bytes that are at hand and lets items refer to them.
pub(crate) async fn keep(
    queue: &Queue,
    tenant: &Arc<str>,
    bytes: &[u8],
) -> Result<BlobRef, NotKept> {
    let blob = put(queue.store(), tenant, bytes, queue.clock().now()).await?;
    known(queue, tenant, blob).await?;
    Ok(blob)
}

/// Tells the queue of durable bytes, and looks whether they are still there.
pub(crate) async fn known(queue: &Queue, tenant: &Arc<str>, blob: BlobRef) -> Result<(), NotKept> {
    queue.submit(Command::Blob { tenant: Arc::clone(tenant), blob }).await?;
    match queue.store().touch(tenant, blob, queue.clock().now()).await {
        Err(BlobError::NotFound) => Err(BlobError::Gone.into()),
        touched => Ok(touched?),
    }
}

/// Removes bytes that nobody needs, for as long as the server runs.
pub(crate) async fn collect(queue: Arc<Queue>, keeper: Arc<Documents>) {
    let mut ticks = tokio::time::interval(DROPPED_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut old_at = Instant::now();
    let mut is_well = true;
    loop {
        let now = ticks.tick().await;
        let mut collected = collect_dropped(queue.store(), queue.store(), &*keeper).await.map(drop);
        if collected.is_ok() && now >= old_at {
            old_at = now + OLD_EVERY;
            let time = queue.clock().now();
            let (store, keeper) = (queue.store(), &*keeper);
            collected = collect_old(store, store, keeper, time).await.map(drop);
        }
        // What was not collected now is collected later; it is said once.
        if let (Err(error), true) = (&collected, is_well) {
            eprintln!("windrow: blobs that nobody needs were not removed: {error}");
        }
        is_well = !matches!(collected, Err(CollectError::Store(_) | CollectError::Blobs(_)));
    }
}

/// Asks whichever it is; files are read and written on a thread that may wait.
macro_rules! ask {
    ($self:ident, $blobs:ident => $asked:expr) => {
        match $self {
            AnyStore::Embedded(_, $blobs) => block_in_place(|| Handle::current().block_on($asked)),
            AnyStore::Postgres($blobs) => $asked.await,
        }
    };
}

impl Blobs for AnyStore {
    async fn begin(&self, new: NewUpload, now: Timestamp) -> Result<UploadId, BlobError> {
        ask!(self, blobs => blobs.begin(new, now))
    }

    async fn upload(&self, id: UploadId) -> Result<Upload, BlobError> {
        ask!(self, blobs => blobs.upload(id))
    }

    async fn append(
        &self,
        id: UploadId,
        offset: u64,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<u64, BlobError> {
        ask!(self, blobs => blobs.append(id, offset, bytes, now))
    }

    async fn finish(&self, id: UploadId, now: Timestamp) -> Result<BlobRef, BlobError> {
        ask!(self, blobs => blobs.finish(id, now))
    }

    async fn abandon(&self, id: UploadId) -> Result<(), BlobError> {
        ask!(self, blobs => blobs.abandon(id))
    }

    async fn find(&self, tenant: &str, hash: [u8; 32]) -> Result<Option<Stored>, BlobError> {
        ask!(self, blobs => blobs.find(tenant, hash))
    }

    async fn touch(&self, tenant: &str, blob: BlobRef, now: Timestamp) -> Result<(), BlobError> {
        ask!(self, blobs => blobs.touch(tenant, blob, now))
    }

    async fn read(
        &self,
        tenant: &str,
        blob: BlobRef,
        from: u64,
        len: usize,
    ) -> Result<Vec<u8>, BlobError> {
        ask!(self, blobs => blobs.read(tenant, blob, from, len))
    }

    async fn remove(&self, seen: &Stored) -> Result<bool, BlobError> {
        ask!(self, blobs => blobs.remove(seen))
    }

    async fn older(
        &self,
        than: Timestamp,
        after: Option<&Stored>,
    ) -> Result<Vec<Stored>, BlobError> {
        ask!(self, blobs => blobs.older(than, after))
    }

    async fn idle(&self, since: Timestamp) -> Result<Vec<UploadId>, BlobError> {
        ask!(self, blobs => blobs.idle(since))
    }
}

impl References for AnyStore {
    async fn references(&self, tenant: &str, blob: BlobRef) -> Result<Option<u32>, StoreError> {
        match self {
            AnyStore::Embedded(store, _) => store.references(tenant, blob).await,
            AnyStore::Postgres(store) => store.references(tenant, blob).await,
        }
    }

    async fn dropped(&self) -> Result<Vec<(Arc<str>, BlobRef)>, StoreError> {
        match self {
            AnyStore::Embedded(store, _) => store.dropped().await,
            AnyStore::Postgres(store) => store.dropped().await,
        }
    }
}
