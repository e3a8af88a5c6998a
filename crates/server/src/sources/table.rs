//! What is known of the files of a source, so that nothing is read that has not changed.
//!
//! Decides at each look which files are to be read: those that are new or changed, and that stayed
//! as they are between two looks, because somebody may be writing them. Does no I/O.

use std::collections::HashMap;

use uuid::Uuid;
use windrow_pipelines::catalog::Hash;

use super::walk::{Found, Stat};

/// Looks in a row that must have missed a file before it counts as gone: what is being moved or
/// mounted may not be there for a moment.
const MISSED: u32 = 2;

/// The files of a source.
#[derive(Default, Debug)]
pub(super) struct Table {
    files: HashMap<String, File>,
    looks: u64,
}

#[derive(Debug)]
struct File {
    /// None until it was looked at.
    stat: Option<Stat>,
    /// The last look that found it.
    seen: u64,
    /// Looks since then that found others and not this one.
    missed: u32,
    document: Option<Document>,
    is: Is,
}

impl File {
    /// One of which nothing is known.
    fn new() -> File {
        File { stat: None, seen: 0, missed: 0, document: None, is: Is::Settling }
    }
}

/// The document of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Document {
    pub(super) id: Uuid,
    pub(super) hash: Hash,
    /// Whether an item reads it or did; if not, that may have been lost before it was enqueued.
    pub(super) is_begun: bool,
}

#[derive(Debug)]
enum Is {
    /// Somebody may be writing it.
    Settling,
    /// Its document has this content.
    Taken,
    /// It cannot be a document, as long as it is as it is.
    Refused(String),
}

/// What is to be done after a look.
#[derive(PartialEq, Eq, Default, Debug)]
pub(super) struct Due {
    /// Files to read.
    pub(super) files: Vec<Found>,
    pub(super) unchanged: u64,
    /// Files to look at again.
    pub(super) unsettled: u64,
    /// Files that were refused before and have not changed.
    pub(super) refused: Vec<(String, String)>,
    /// Files that were not found for several looks, with their documents.
    pub(super) missing: Vec<(String, Uuid)>,
    /// Documents that are known although there is no file at all, as in a folder where nothing is
    /// mounted. None of them is missing.
    pub(super) orphans: u64,
}

impl Table {
    /// Whether nobody has looked yet.
    pub(super) fn is_new(&self) -> bool {
        self.looks == 0
    }

    /// Remembers a document that is known from before.
    pub(super) fn know(&mut self, path: String, document: Document) {
        self.files.insert(path, File { document: Some(document), ..File::new() });
    }

    /// The document of a file, if there is one.
    pub(super) fn document(&self, path: &str) -> Option<Document> {
        self.files.get(path)?.document
    }

    /// Compares what was found with what is known.
    pub(super) fn look(&mut self, found: Vec<Found>) -> Due {
        self.looks += 1;
        let (looks, mut due, is_bare) = (self.looks, Due::default(), found.is_empty());
        for found in found {
            let file = self.files.entry(found.path.clone()).or_insert_with(File::new);
            (file.seen, file.missed) = (looks, 0);
            if file.stat.replace(found.stat) != Some(found.stat) {
                file.is = Is::Settling;
                due.unsettled += 1;
                continue;
            }
            match &file.is {
                Is::Settling => due.files.push(found),
                Is::Taken => due.unchanged += 1,
                Is::Refused(why) => due.refused.push((found.path, why.clone())),
            }
        }
        self.files.retain(|_, file| file.seen == looks || file.document.is_some());
        if is_bare {
            due.orphans = self.files.len() as u64;
            return due;
        }
        for (path, file) in self.files.iter_mut().filter(|(_, file)| file.seen != looks) {
            file.missed += 1;
            let document = file.document.filter(|_| file.missed >= MISSED);
            due.missing.extend(document.map(|document| (path.clone(), document.id)));
        }
        due
    }

    /// A file was read, and this is its document.
    pub(super) fn taken(&mut self, path: &str, document: Document) {
        if let Some(file) = self.files.get_mut(path) {
            (file.is, file.document) = (Is::Taken, Some(document));
        }
    }

    /// A file cannot be a document.
    pub(super) fn refused(&mut self, path: &str, why: String) {
        if let Some(file) = self.files.get_mut(path) {
            file.is = Is::Refused(why);
        }
    }

    /// A file changed while it was read.
    pub(super) fn unsettled(&mut self, path: &str) {
        if let Some(file) = self.files.get_mut(path) {
            file.stat = None;
        }
    }

    /// A file is gone for good.
    pub(super) fn forget(&mut self, path: &str) {
        self.files.remove(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, size: u64, seconds: i64) -> Found {
        Found { path: path.into(), stat: Stat { size, written: (seconds, 0) } }
    }

    fn document(number: u8) -> Document {
        Document { id: Uuid::from_u128(number.into()), hash: [number; 32], is_begun: true }
    }

    fn paths(due: &Due) -> Vec<&str> {
        due.files.iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn a_file_is_read_once_it_stayed_as_it_is_between_two_looks() {
        let mut table = Table::default();
        let due = table.look(vec![found("a", 1, 1)]);
        assert_eq!((paths(&due), due.unsettled), (vec![], 1));
        // Somebody is still writing.
        let due = table.look(vec![found("a", 2, 1)]);
        assert_eq!((paths(&due), due.unsettled), (vec![], 1));
        let due = table.look(vec![found("a", 2, 2)]);
        assert_eq!((paths(&due), due.unsettled), (vec![], 1));
        let due = table.look(vec![found("a", 2, 2)]);
        assert_eq!((paths(&due), due.unsettled), (vec!["a"], 0));
        table.taken("a", document(1));
        let due = table.look(vec![found("a", 2, 2)]);
        assert_eq!((paths(&due), due.unchanged), (vec![], 1));
        assert_eq!(table.look(vec![found("a", 3, 3)]).unsettled, 1);
        assert_eq!(paths(&table.look(vec![found("a", 3, 3)])), ["a"]);
        table.unsettled("a");
        assert_eq!(table.look(vec![found("a", 3, 3)]).unsettled, 1, "it changed meanwhile");
    }

    #[test]
    fn a_file_that_could_not_be_read_is_tried_again_and_one_that_was_refused_is_not() {
        let mut table = Table::default();
        let files = || vec![found("a", 1, 1), found("b", 1, 1)];
        table.look(files());
        assert_eq!(paths(&table.look(files())), ["a", "b"]);
        table.refused("b", "its name".into());
        let due = table.look(files());
        assert_eq!(paths(&due), ["a"]);
        assert_eq!(due.refused, [("b".to_owned(), "its name".to_owned())]);
        let changed = || vec![found("b", 2, 1)];
        assert_eq!(table.look(changed()).unsettled, 1);
        assert_eq!(paths(&table.look(changed())), ["b"], "it may be another now");
    }

    #[test]
    fn what_is_known_and_not_found_is_missing_until_it_is_forgotten() {
        let mut table = Table::default();
        assert!(table.is_new());
        table.know("old".into(), document(1));
        table.know("here".into(), document(2));
        let here = || vec![found("here", 1, 1)];
        let due = table.look(here());
        assert_eq!(due.missing, [], "it may be on its way");
        assert_eq!(due.unsettled, 1, "what is known is read once all the same");
        let due = table.look(here());
        assert_eq!(due.missing, [("old".to_owned(), document(1).id)]);
        assert_eq!(paths(&due), ["here"]);
        assert_eq!(table.look(here()).missing.len(), 1, "until it is forgotten");
        table.forget("old");
        assert_eq!(table.look(here()).missing, []);
        assert_eq!(table.document("here"), Some(document(2)));
        table.taken("here", document(3));
        let other = || vec![found("other", 1, 1)];
        assert_eq!(table.look(other()).missing, []);
        assert_eq!(table.look(here()).missing, [], "it came back");
        assert_eq!(table.look(other()).missing, []);
        assert_eq!(table.look(other()).missing, [("here".to_owned(), document(3).id)]);
        assert!(!table.is_new());
    }

    /// A server that began before its folder was mounted saw an empty one, and let everything go.
    #[test]
    fn nothing_is_missing_where_there_is_no_file_at_all() {
        let mut table = Table::default();
        table.know("a".into(), document(1));
        table.know("b".into(), document(2));
        for _ in 0..5 {
            let due = table.look(vec![]);
            assert_eq!((due.missing.len(), due.orphans), (0, 2));
        }
        // Those looks say nothing of what is gone.
        let due = table.look(vec![found("a", 1, 1)]);
        assert_eq!((due.missing.len(), due.orphans), (0, 0));
        assert_eq!(table.look(vec![found("a", 1, 1)]).missing.len(), 1);
        assert_eq!(Table::default().look(vec![]).orphans, 0, "nothing is known of it");
    }
}
