//! The bytes of blobs, for commands that look at a store or move it.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use windrow_core::Timestamp;
use windrow_core::item::BlobRef;
use windrow_store::blobs::{self, BlobError, Blobs, Hex};
use windrow_store::embedded::blobs::{DIRECTORY, Files};
use windrow_store::embedded::disk::RealDisk;
use windrow_store::moving::{Export, Record};

use super::counted;

/// The blobs beside the store in a directory, to read. A store that never had any has no place for
/// them, and then none is found.
pub(super) fn to_read(path: &Path) -> anyhow::Result<Files> {
    let apart = path.join(DIRECTORY);
    let disk = RealDisk::open_to_read(if apart.is_dir() { &apart } else { path })?;
    Ok(Files::on(Arc::new(disk)))
}

/// What a store knows of blobs: whose they are, and how many items refer to each.
async fn known<S: Export>(store: &S) -> anyhow::Result<Vec<(Arc<str>, BlobRef, u32)>> {
    let blobs = store.around().await?.into_iter().filter_map(|record| match record {
        Record::Blob { tenant, blob, references } => Some((tenant, blob, references)),
        _ => None,
    });
    Ok(blobs.collect())
}

/// Reads every blob and compares it with its hash. Says what is wrong.
pub(super) async fn verify<S: Export, B: Blobs>(
    store: &S,
    bytes: &B,
) -> anyhow::Result<Vec<String>> {
    let Compared { right, missing, mut faults } = compare(store, bytes).await?;
    faults.extend(missing.iter().map(|(tenant, blob)| self::missing(tenant, *blob)));
    let blobs = counted(right, "blob");
    writeln!(std::io::stdout().lock(), "{blobs}: every hash is right")?;
    Ok(faults)
}

/// How the bytes of blobs compare with what a store knows of them.
#[derive(Default)]
pub(super) struct Compared {
    pub(super) right: u64,
    /// Those that items refer to and nobody has.
    pub(super) missing: Vec<(Arc<str>, BlobRef)>,
    pub(super) faults: Vec<String>,
}

pub(super) async fn compare<S: Export, B: Blobs>(store: &S, bytes: &B) -> anyhow::Result<Compared> {
    let mut compared = Compared::default();
    for (tenant, blob, references) in known(store).await? {
        let wrong = match blobs::hash_of(bytes, &tenant, blob).await {
            Ok(hash) if hash == blob.hash => {
                compared.right += 1;
                continue;
            }
            Err(BlobError::NotFound) => {
                if references > 0 {
                    compared.missing.push((tenant, blob));
                }
                continue;
            }
            Ok(hash) => format!("its bytes hash to {}", Hex(&hash)),
            Err(error) => error.to_string(),
        };
        compared.faults.push(format!("{}: {wrong}", named(&tenant, blob)));
    }
    Ok(compared)
}

/// What is wrong with a blob that something refers to and nobody has.
pub(super) fn missing(tenant: &str, blob: BlobRef) -> String {
    format!("{}: its bytes are missing", named(tenant, blob))
}

fn named(tenant: &str, blob: BlobRef) -> String {
    format!("blob {} of tenant {tenant}", Hex(&blob.hash))
}

/// Copies the files of documents, whether an item still refers to them or not. One that the source
/// does not have cannot move, and its document is known without it.
pub(super) async fn copy_files<F: Blobs, T: Blobs>(
    files: Vec<(String, [u8; 32], u64)>,
    from: &F,
    to: &T,
    now: Timestamp,
) -> anyhow::Result<()> {
    for (tenant, hash, len) in files {
        match blobs::copy(from, to, &tenant.into(), BlobRef { hash, len }, now).await {
            Ok(()) | Err(BlobError::NotFound) => {}
            Err(error) => anyhow::bail!("the file {} of a document: {error}", Hex(&hash)),
        }
    }
    Ok(())
}

/// Copies the bytes of every blob that a store knows. What the source does not have cannot move;
/// how many items miss theirs is said.
pub(super) async fn copy<S: Export, F: Blobs, T: Blobs>(
    store: &S,
    from: &F,
    to: &T,
    now: Timestamp,
) -> anyhow::Result<()> {
    let mut missing = 0;
    for (tenant, blob, references) in known(store).await? {
        match blobs::copy(from, to, &tenant, blob, now).await {
            Ok(()) => {}
            Err(BlobError::NotFound) => missing += u64::from(references > 0),
            Err(error) => anyhow::bail!("blob {} of tenant {tenant}: {error}", Hex(&blob.hash)),
        }
    }
    if missing > 0 {
        let blobs = counted(missing, "blob");
        eprintln!(
            "windrow: the source has no bytes of {blobs}; `windrow check --blobs` names what is \
             missing"
        );
    }
    Ok(())
}
