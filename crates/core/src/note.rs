//! Notes: small named documents that a server keeps beside the items, for itself.
//!
//! A token, a schedule, where a long operation stands: each is a note on a shelf of its kind. What
//! stands in one is the server's affair; the queue keeps it as durably as items, with a version.
//! Whoever changes a note may say which version it read, so that two servers cannot undo each
//! other.

use std::sync::Arc;

use crate::change::{Change, Changes};
use crate::ledger::Ledger;
use crate::limits::{NOTE_MAX, NOTE_NAME_MAX};
use crate::refusal::Refusal;
use crate::rules::Decision;
use crate::text;
use crate::time::Timestamp;

/// The shelf and the name of the one note that every store makes for itself: the secret that ids
/// are mixed with. A store that has nothing else is empty.
pub const OWN: (&str, &str) = ("keys", "ids");

/// A note as it lies on its shelf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    pub name: Arc<str>,
    /// Rises with every change, also when the note was away in between.
    pub version: u64,
    pub body: Arc<[u8]>,
}

/// What is to become of a note.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WriteNote {
    pub shelf: Arc<str>,
    pub name: Arc<str>,
    pub expects: Expects,
    /// None takes it away.
    pub body: Option<Arc<[u8]>>,
}

/// What whoever writes a note believes of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Expects {
    Anything,
    /// There is none yet.
    Nothing,
    Version(u64),
}

pub(crate) fn check(write: &WriteNote) -> Result<(), Refusal> {
    text::name("shelf", &write.shelf, true)?;
    text::required("name", &write.name, NOTE_NAME_MAX)?;
    match &write.body {
        Some(body) if body.len() > NOTE_MAX => {
            let why = format!("a note of {} bytes; at most {NOTE_MAX}", body.len());
            Err(Refusal::invalid("note", why))
        }
        _ => Ok(()),
    }
}

/// Writes a note or takes it away; answers with its new version.
pub(crate) fn write<L: Ledger>(ledger: &L, write: WriteNote, now: Timestamp) -> Decision<u64> {
    let WriteNote { shelf, name, expects, body } = write;
    let was = ledger.note(&shelf, &name);
    let is_as_expected = match expects {
        Expects::Anything => true,
        Expects::Nothing => was.is_none(),
        Expects::Version(version) => was == Some(version),
    };
    if !is_as_expected {
        return Err(Refusal::Changed { version: was.unwrap_or(0) });
    }
    // The time as well: one that was taken away and comes back must not look like the one before.
    let version = was.map_or(0, |was| was + 1).max(now.0).max(1);
    let mut changes = Changes::default();
    changes.push(Change::Note { shelf, name, version, body });
    Ok((version, changes))
}
