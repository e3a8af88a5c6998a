//! Blobs: the bytes of payloads that are kept apart, beside the queue that counts who refers to
//! them.
//!
//! [`Blobs`] keeps the bytes; `embedded::blobs` as files, `postgres::blobs` as rows. The queue says
//! how many items refer to a blob. Whoever stores one goes in this order, by which nothing that
//! can be referred to is ever without its bytes:
//!
//! 1. the bytes become durable ([`Blobs::append`], [`Blobs::finish`], which compares the hash);
//! 2. the queue is told (`Command::Blob`), from when on items may refer to it;
//! 3. [`Blobs::touch`] finds the bytes still there. If somebody removed them between the two, the
//!    answer is [`BlobError::Gone`], and they are sent again.
//!
//! The bytes go after the commit that drops the last reference ([`collect_dropped`]). A removal
//! looks at when the bytes were touched, then asks the queue, then removes them unless they were
//! touched since: so it never takes what somebody has just stored again. What a crash leaves behind
//! is garbage, which [`collect_old`] finds after a day.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use windrow_core::command::{Answer, Command};
use windrow_core::item::BlobRef;
use windrow_core::ports::{Now, Store, StoreError};
use windrow_core::{RequestId, Timestamp};

/// Bytes that are read or hashed at once.
pub const PIECE: usize = 256 * 1024;
/// How long an upload that nobody goes on with is kept, and a blob that nothing refers to.
pub const UNUSED_KEPT_MS: u64 = 24 * 3_600_000;

/// Names an upload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UploadId(pub u128);

impl UploadId {
    pub(crate) fn random() -> UploadId {
        use rand::RngExt as _;
        UploadId(rand::make_rng::<rand::rngs::StdRng>().random())
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        RequestId(self.0).fmt(f)
    }
}

impl FromStr for UploadId {
    type Err = BlobError;

    fn from_str(text: &str) -> Result<UploadId, BlobError> {
        text.parse().map(|RequestId(id)| UploadId(id)).map_err(|_| BlobError::NotFound)
    }
}

/// What is to be uploaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewUpload {
    pub tenant: Arc<str>,
    pub len: u64,
    /// What the bytes must hash to, if whoever sends them knows.
    pub hash: Option<[u8; 32]>,
}

/// An upload, as far as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Upload {
    pub new: NewUpload,
    /// So many bytes are here, durably.
    pub offset: u64,
    /// When it was last gone on with.
    pub since: Timestamp,
}

/// Bytes that are all here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    pub tenant: Arc<str>,
    pub blob: BlobRef,
    /// When they were last stored. Rises with every touch.
    pub since: Timestamp,
}

/// Why bytes were not kept or found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BlobError {
    #[error("there is no such upload or blob")]
    NotFound,
    #[error("the upload stands at byte {offset}; go on from there")]
    WrongOffset { offset: u64 },
    #[error("another request goes on with this upload; ask where it stands")]
    Busy,
    #[error("the upload has {len} bytes and no more")]
    TooLong { len: u64 },
    #[error("{missing} bytes of the upload are missing")]
    Incomplete { missing: u64 },
    #[error("the bytes hash to {}; they were thrown away, send them again", Hex(.is))]
    WrongHash { is: [u8; 32] },
    #[error("the bytes were removed while they were stored again; send them again")]
    Gone,
    #[error("there is no room for the bytes; nothing of them was kept")]
    Full,
    #[error("the bytes were not kept or read: {0}")]
    Failed(String),
}

/// Bytes as people write them.
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where the bytes are.
pub trait Blobs: Send + Sync {
    /// Makes room for an upload.
    fn begin(
        &self,
        new: NewUpload,
        now: Timestamp,
    ) -> impl Future<Output = Result<UploadId, BlobError>> + Send;
    /// How far an upload is.
    fn upload(&self, id: UploadId) -> impl Future<Output = Result<Upload, BlobError>> + Send;
    /// Adds bytes at the end, which must be at `offset`. When it returns, they are durable.
    fn append(
        &self,
        id: UploadId,
        offset: u64,
        bytes: &[u8],
        now: Timestamp,
    ) -> impl Future<Output = Result<u64, BlobError>> + Send;
    /// Compares length and hash. From then on the bytes are known by their hash. Those of a wrong
    /// hash are thrown away.
    fn finish(
        &self,
        id: UploadId,
        now: Timestamp,
    ) -> impl Future<Output = Result<BlobRef, BlobError>> + Send;
    /// Throws an upload away, if it is there.
    fn abandon(&self, id: UploadId) -> impl Future<Output = Result<(), BlobError>> + Send;
    /// What a tenant has with this hash.
    fn find(
        &self,
        tenant: &str,
        hash: [u8; 32],
    ) -> impl Future<Output = Result<Option<Stored>, BlobError>> + Send;
    /// Says that the bytes are wanted, if they are here.
    fn touch(
        &self,
        tenant: &str,
        blob: BlobRef,
        now: Timestamp,
    ) -> impl Future<Output = Result<(), BlobError>> + Send;
    /// Some of the bytes, from there on: at most so many, and fewer only at the end.
    fn read(
        &self,
        tenant: &str,
        blob: BlobRef,
        from: u64,
        len: usize,
    ) -> impl Future<Output = Result<Vec<u8>, BlobError>> + Send;
    /// Removes bytes, unless they were touched since they were seen.
    fn remove(&self, seen: &Stored) -> impl Future<Output = Result<bool, BlobError>> + Send;
    /// What was last touched before a moment, from the beginning or from after the last that was
    /// given; none at the end. What items refer to may be left out.
    fn older(
        &self,
        than: Timestamp,
        after: Option<&Stored>,
    ) -> impl Future<Output = Result<Vec<Stored>, BlobError>> + Send;
    /// Uploads that nobody has gone on with since a moment.
    fn idle(
        &self,
        since: Timestamp,
    ) -> impl Future<Output = Result<Vec<UploadId>, BlobError>> + Send;
}

/// A queue, as whoever collects bytes asks it.
pub trait References: Send + Sync {
    /// How many items refer to a blob; none if it is not known. What it says is durable.
    fn references(
        &self,
        tenant: &str,
        blob: BlobRef,
    ) -> impl Future<Output = Result<Option<u32>, StoreError>> + Send;
    /// Blobs that lost their last reference since this was last asked. Some may be missing.
    fn dropped(&self) -> impl Future<Output = Result<Vec<(Arc<str>, BlobRef)>, StoreError>> + Send;
}

/// Somebody beside the queue who may need bytes that no item refers to any more.
pub trait Keeper: Send + Sync {
    /// Whether these bytes are needed.
    fn keeps(
        &self,
        tenant: &str,
        blob: BlobRef,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// Nobody: what no item refers to is not needed.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Keeper for Nobody {
    async fn keeps(&self, _tenant: &str, _blob: BlobRef) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// Stores bytes that are at hand, and says what they are.
pub async fn put<B: Blobs>(
    blobs: &B,
    tenant: &Arc<str>,
    bytes: &[u8],
    now: Timestamp,
) -> Result<BlobRef, BlobError> {
    let (tenant, hash) = (Arc::clone(tenant), Some(Sha256::digest(bytes).into()));
    let id = blobs.begin(NewUpload { tenant, len: bytes.len() as u64, hash }, now).await?;
    let stored = async {
        let mut offset = 0;
        for piece in bytes.chunks(4 * PIECE) {
            offset = blobs.append(id, offset, piece, now).await?;
        }
        blobs.finish(id, now).await
    };
    let stored = stored.await;
    if stored.is_err() {
        // If it stays, it is found after a day.
        let _thrown_away = blobs.abandon(id).await;
    }
    stored
}

/// Copies what is stored in one place to another, unless it is there already, and compares it.
pub async fn copy<F: Blobs, T: Blobs>(
    from: &F,
    to: &T,
    tenant: &Arc<str>,
    blob: BlobRef,
    now: Timestamp,
) -> Result<(), BlobError> {
    if to.find(tenant, blob.hash).await?.is_some_and(|there| there.blob == blob) {
        return Ok(());
    }
    let new = NewUpload { tenant: Arc::clone(tenant), len: blob.len, hash: Some(blob.hash) };
    let mut piece = from.read(tenant, blob, 0, 4 * PIECE).await?;
    let (id, mut at) = (to.begin(new, now).await?, 0);
    loop {
        at = to.append(id, at, &piece, now).await?;
        if at == blob.len {
            break;
        }
        piece = from.read(tenant, blob, at, 4 * PIECE).await?;
    }
    to.finish(id, now).await.map(drop)
}

/// The hash of what is stored.
pub async fn hash_of<B: Blobs>(
    blobs: &B,
    tenant: &str,
    blob: BlobRef,
) -> Result<[u8; 32], BlobError> {
    let (mut sum, mut from) = (Sha256::new(), 0);
    while from < blob.len {
        let piece = blobs.read(tenant, blob, from, PIECE).await?;
        if piece.is_empty() {
            return Err(BlobError::Failed("the bytes end too early".into()));
        }
        from += piece.len() as u64;
        sum.update(&piece);
    }
    Ok(sum.finalize().into())
}

/// What was collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Collected {
    pub blobs: u64,
    pub uploads: u64,
}

/// Why nothing was collected. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Blobs(#[from] BlobError),
}

/// Removes the bytes of blobs that lost their last reference.
pub async fn collect_dropped<S: References, B: Blobs, K: Keeper>(
    store: &S,
    blobs: &B,
    keeper: &K,
) -> Result<u64, CollectError> {
    let mut removed = 0;
    for (tenant, blob) in store.dropped().await? {
        let Some(seen) = blobs.find(&tenant, blob.hash).await? else { continue };
        removed += u64::from(remove_unused(store, blobs, keeper, &seen).await?);
    }
    Ok(removed)
}

/// Removes what nobody has used for a day: uploads that stopped half way, and blobs that nothing
/// refers to.
pub async fn collect_old<S: Store + References, B: Blobs, K: Keeper>(
    store: &S,
    blobs: &B,
    keeper: &K,
    now: Timestamp,
) -> Result<Collected, CollectError> {
    let mut collected = Collected::default();
    let limit = Timestamp(now.0.saturating_sub(UNUSED_KEPT_MS));
    for id in blobs.idle(limit).await? {
        blobs.abandon(id).await?;
        collected.uploads += 1;
    }
    let mut slice = blobs.older(limit, None).await?;
    while let Some(last) = slice.last().cloned() {
        for seen in slice {
            collected.blobs += u64::from(collect_one(store, blobs, keeper, &seen, now).await?);
        }
        slice = blobs.older(limit, Some(&last)).await?;
    }
    Ok(collected)
}

/// Removes a blob that nothing refers to, and lets the queue forget it first.
async fn collect_one<S: Store + References, B: Blobs, K: Keeper>(
    store: &S,
    blobs: &B,
    keeper: &K,
    seen: &Stored,
    now: Timestamp,
) -> Result<bool, CollectError> {
    if store.references(&seen.tenant, seen.blob).await? == Some(0) {
        let (tenant, blob) = (Arc::clone(&seen.tenant), seen.blob);
        let forget = Command::ForgetBlob { tenant, blob };
        let time = if store.keeps_time() { Now::Database } else { Now::Given(now) };
        let answers = store.submit(vec![forget.into()], time).await?;
        debug_assert!(matches!(answers[..], [Answer::Done]), "{answers:?}");
    }
    remove_unused(store, blobs, keeper, seen).await
}

/// Removes bytes as they were seen, if the queue does not know them and nobody else needs them.
async fn remove_unused<S: References, B: Blobs, K: Keeper>(
    store: &S,
    blobs: &B,
    keeper: &K,
    seen: &Stored,
) -> Result<bool, CollectError> {
    if store.references(&seen.tenant, seen.blob).await?.is_some()
        || keeper.keeps(&seen.tenant, seen.blob).await?
    {
        return Ok(false);
    }
    Ok(blobs.remove(seen).await?)
}
