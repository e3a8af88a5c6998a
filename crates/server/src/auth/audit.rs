//! The audit: who did what an operator or an admin may do, to what, and when.
//!
//! An entry is a note of its own on the shelf `audit`, named by its time, so that servers that
//! share a store never write the same one. It is written after the action and before its answer.
//! The other order, an intent first, would cost every action two writes and forbid mending while
//! the audit cannot be written; and as both lie in one store, an action that succeeds has its entry
//! refused only if the store fails between the two. Then the action has happened all the same: its
//! answer says so, and the server says aloud what it could not write down. An action goes on to its
//! entry when its caller hangs up in between.
//!
//! No payload, no body and no secret is in an entry. The newest [`KEPT`] stay.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use windrow_core::note::{Expects, WriteNote};
use windrow_core::ports::{Store as _, StoreError};
use windrow_engine::{Clock as _, Failure};

use super::token::{hex, random};
use crate::logs;
use crate::store::Queue;

const SHELF: &str = "audit";
/// Entries that are kept.
pub(crate) const KEPT: usize = 10_000;
/// How many are written before old ones are looked for.
const TRIM_EVERY: usize = 100;
/// Targets that one entry names at most, and bytes of each: a note has a limit.
const TARGETS_MAX: usize = 100;
const TARGET_MAX: usize = 512;

/// One action.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, Debug)]
pub(crate) struct Entry {
    pub(crate) at_ms: u64,
    /// The name of the token, and its id if it has one.
    pub(crate) caller: Arc<str>,
    pub(crate) token: Option<Arc<str>>,
    pub(crate) tenant: Option<Arc<str>>,
    /// As the table of operations has it, such as `POST /queue/{id}/cancel`.
    pub(crate) operation: String,
    /// Ids and names of what it was done to.
    pub(crate) targets: Vec<String>,
    pub(crate) outcome: Outcome,
}

/// How an action ended.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Done,
    /// The store did not say whether it was written.
    Unknown,
}

/// Writes and reads entries.
#[derive(Debug)]
pub(crate) struct Audit {
    queue: Arc<Queue>,
    kept: usize,
    written: AtomicUsize,
    /// Tells the entries of this server from those of others.
    server: String,
}

impl Audit {
    pub(crate) fn new(queue: Arc<Queue>) -> Audit {
        // Without random bytes there are no tokens either, and one server's entries do not clash.
        let server = random::<6>().map(|bytes| hex(&bytes)).unwrap_or_default();
        Audit { queue, kept: KEPT, written: AtomicUsize::new(0), server }
    }

    /// Writes an entry. If it cannot, it says so where the operator of the server reads.
    pub(crate) async fn record(&self, mut entry: Entry) {
        entry.at_ms = self.queue.clock().now().0;
        entry.targets.truncate(TARGETS_MAX);
        for target in &mut entry.targets {
            target.truncate(target.floor_char_boundary(TARGET_MAX));
        }
        if let Err(failure) = self.write(&entry).await {
            logs::not_audited(&entry.operation, &failure);
        }
    }

    async fn write(&self, entry: &Entry) -> Result<(), Failure> {
        let body = serde_json::to_vec(entry).unwrap_or_default();
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let name = format!("{:013}-{number:08x}-{}", entry.at_ms, self.server);
        self.put(name.into(), Some(body.into())).await?;
        if number.is_multiple_of(TRIM_EVERY) {
            self.trim().await?;
        }
        Ok(())
    }

    async fn trim(&self) -> Result<(), Failure> {
        let notes = self.queue.store().notes(SHELF).await?;
        let old = notes.len().saturating_sub(self.kept);
        // Another server may take them away at the same moment, which does no harm.
        for note in notes.into_iter().take(old) {
            self.put(note.name, None).await?;
        }
        Ok(())
    }

    async fn put(&self, name: Arc<str>, body: Option<Arc<[u8]>>) -> Result<(), Failure> {
        let write = WriteNote { shelf: SHELF.into(), name, expects: Expects::Anything, body };
        self.queue.note(write).await.map(drop)
    }

    /// Entries about one target.
    pub(crate) async fn of(&self, target: &str) -> Result<Vec<Entry>, StoreError> {
        let mut notes = self.queue.store().notes(SHELF).await?;
        // Most are about something else, which is seen faster than they are read.
        notes.retain(|note| note.body.windows(target.len()).any(|part| part == target.as_bytes()));
        let entries = notes.iter().filter_map(|note| serde_json::from_slice(&note.body).ok());
        Ok(entries.filter(|entry: &Entry| entry.targets.iter().any(|of| of == target)).collect())
    }

    /// Entries with their names, newest first, before a given one.
    pub(crate) async fn entries(
        &self,
        before: Option<&str>,
    ) -> Result<impl Iterator<Item = (Arc<str>, Entry)> + use<>, StoreError> {
        let mut notes = self.queue.store().notes(SHELF).await?;
        if let Some(before) = before {
            notes.retain(|note| *note.name < *before);
        }
        let read = |note: windrow_core::note::Note| {
            // One that cannot be read was written by a newer server.
            serde_json::from_slice(&note.body).ok().map(|entry| (note.name, entry))
        };
        Ok(notes.into_iter().rev().filter_map(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Open;

    #[tokio::test]
    async fn only_the_newest_entries_stay() {
        let dir = std::env::temp_dir().join(format!("windrow-audit-{}", std::process::id()));
        let open = Open::at(crate::cli::place::Place::Directory(dir.clone())).await;
        let queue = Arc::clone(&open.as_ref().expect("it opens").queue);
        let audit = Audit { kept: 20, ..Audit::new(queue) };
        for number in 0..=TRIM_EVERY {
            let entry = Entry {
                at_ms: 0,
                caller: "somebody".into(),
                token: None,
                tenant: None,
                operation: "POST /queue/{id}/cancel".into(),
                targets: vec![number.to_string(), "é".repeat(TARGET_MAX)],
                outcome: Outcome::Done,
            };
            audit.record(entry).await;
        }
        let left: Vec<_> = audit.entries(None).await.expect("they are read").collect();
        assert_eq!(left.len(), 20);
        assert_eq!(left[0].1.targets[0], TRIM_EVERY.to_string());
        let oldest: usize = left[19].1.targets[0].parse().expect("a number");
        assert_eq!(oldest, TRIM_EVERY - 19);
        let older: Vec<_> = audit.entries(Some(&left[5].0)).await.expect("read").collect();
        assert_eq!(older, left[6..]);
        drop((audit, open));
        std::fs::remove_dir_all(dir).expect("it is there");
    }
}
