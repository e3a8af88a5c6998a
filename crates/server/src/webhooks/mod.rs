//! Webhooks: others are told when items end.
//!
//! A webhook is a note, and an entry in the settings of the queues that it names: by those the
//! rules leave a delivery in the very commit that ends an item. The note is written first and says
//! which queues must agree with it; whoever dies in between leaves that to the next start.

pub(crate) mod address;
mod courier;
pub(crate) mod kept;
mod send;
mod url;

use windrow_core::note::{Expects, WriteNote};
use windrow_core::ports::Store as _;
use windrow_core::rules::notify::DELIVERIES;
use windrow_engine::Failure;

pub(crate) use courier::{run, settings, tell};
pub(crate) use send::Sender;

use crate::store::Queue;
use kept::{Kept, SHELF};

/// A webhook and the version of its note.
pub(crate) async fn find(queue: &Queue, name: &str) -> Result<Option<(Kept, u64)>, Failure> {
    let notes = queue.store().notes(SHELF).await?;
    let note = notes.into_iter().find(|note| &*note.name == name);
    Ok(note.and_then(|note| Some((Kept::read(&note.body)?, note.version))))
}

pub(crate) async fn write(
    queue: &Queue,
    name: &str,
    expects: Expects,
    kept: Option<&Kept>,
) -> Result<u64, Failure> {
    let body = kept.map(Kept::written);
    queue.note(WriteNote { shelf: SHELF.into(), name: name.into(), expects, body }).await
}

/// Lets the settings of queues agree with a webhook that was written as this version.
pub(crate) async fn agree(
    queue: &Queue,
    name: &str,
    mut kept: Kept,
    version: u64,
) -> Result<(), Failure> {
    for of in kept.concerns() {
        let wants = kept.wants(name, &of);
        queue.notify(of.into(), name.into(), wants).await?;
    }
    let expects = Expects::Version(version);
    if kept.gone {
        write(queue, name, expects, None).await?;
    } else if !kept.leaves.is_empty() {
        kept.leaves.clear();
        write(queue, name, expects, Some(&kept)).await?;
    }
    Ok(())
}

/// The same for all of them, after a start.
async fn agree_all(queue: &Queue) {
    let notes = queue.store().notes(SHELF).await.unwrap_or_default();
    for note in notes {
        if let Some(kept) = Kept::read(&note.body) {
            // Somebody writes it just now, or the next start tries again.
            let _agreed = agree(queue, &note.name, kept, note.version).await;
        }
    }
}

/// Says how deliveries are tried again, before there is the first webhook.
pub(crate) async fn prepare(queue: &Queue) -> Result<(), Failure> {
    if queue.store().notes(SHELF).await?.is_empty() {
        queue.configure(DELIVERIES, settings()).await?;
    }
    Ok(())
}
