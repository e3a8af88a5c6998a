//! Watching one source: look, take in what is due, wait, and look again.
//!
//! A look costs time that others have a use for: it takes at most a twentieth of all time, however
//! large the folder is. Reading what is new is work, and does not count.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::spawn_blocking;
use windrow_engine::Clock as _;
use windrow_pipelines::catalog::{CatalogError, DocumentFilter, DocumentState, Scope};
use windrow_wire::source::{OnMissing, Problem, Scan, State, Sum};
use windrow_wire::time::Time;

use super::Sources;
use super::kept::Kept;
use super::table::{Document, Due, Table};
use super::take::{Taken, Way};
use super::walk::{self, Found, Walk, Walked};
use crate::named::Name;

/// Between two looks at least.
const EVERY: Duration = Duration::from_secs(2);
/// The same while somebody may be writing a file.
const SOON: Duration = Duration::from_secs(1);
/// So many times as long as a look took nobody looks again.
const REST: u32 = 19;
/// Files that are named of those that were not taken in.
const NAMED: usize = 100;
/// Documents that are asked of the catalog together.
const ASKED: u32 = 1_000;

/// What a source is doing, for whoever asks.
#[derive(Clone, Default, Debug)]
pub(crate) struct Status {
    /// None until the first look begins.
    pub(crate) state: Option<State>,
    pub(crate) last_error: Option<String>,
    pub(crate) last_scan: Option<Time>,
    pub(crate) next_scan: Option<Time>,
    pub(crate) scan: Option<Scan>,
    pub(crate) sum: Sum,
}

/// What stays of a source while it is paused.
#[derive(Default, Debug)]
pub(super) struct Memory {
    status: Mutex<Status>,
    table: tokio::sync::Mutex<Table>,
}

impl Memory {
    pub(super) fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Watches a source until it is dropped.
pub(super) async fn watch(at: Arc<Sources>, name: Name, kept: Kept, memory: Arc<Memory>) {
    let scope = Scope::new(name.tenant.as_str(), kept.collection());
    let way = Way { root: kept.says.path.clone(), scope };
    let mut table = memory.table.lock().await;
    loop {
        memory.tell(|status| {
            status.state = Some(State::Scanning);
            status.next_scan = None;
        });
        let look = Look { at: &at, name: &name, kept: &kept, way: &way, memory: &memory };
        let looked = look.all(&mut table).await;
        let now = at.queue.clock().now();
        let pause = match &looked {
            Ok(took) => pause(*took, memory.status().scan.is_some_and(|scan| scan.unsettled > 0)),
            Err(_) => EVERY,
        };
        let next = now.plus(pause.as_millis() as u64);
        memory.tell(|status| {
            status.state = Some(if looked.is_ok() { State::Watching } else { State::Failed });
            (status.last_scan, status.next_scan) = (Some(Time(now)), Some(Time(next)));
            status.last_error = looked.err();
            status.sum.scans += 1;
        });
        at.queue.clock().sleep_until(next).await;
    }
}

/// How long nobody looks after a look that took so long.
fn pause(took: Duration, is_unsettled: bool) -> Duration {
    (took * REST).max(if is_unsettled { SOON } else { EVERY })
}

/// One look.
struct Look<'a> {
    at: &'a Sources,
    name: &'a Name,
    kept: &'a Kept,
    way: &'a Way,
    memory: &'a Memory,
}

impl Look<'_> {
    /// Looks at everything, and takes in what is due. Says how long the looking took.
    async fn all(&self, table: &mut Table) -> Result<Duration, String> {
        let unread = |error: CatalogError| format!("the catalog cannot be read: {error}");
        let rivalry = self.at.rivalry(self.name, self.kept).await;
        let unknown = |error| format!("the other sources cannot be read: {error}");
        if let Some(why) = rivalry.map_err(unknown)? {
            return Err(why);
        }
        let (walked, took) = self.walk().await?;
        if let Some(why) = self.kept.mistaken(walked.root) {
            return Err(format!("{}: {why}", self.way.root));
        }
        if table.is_new() {
            self.remember(table).await.map_err(unread)?;
        }
        let Walked { root: _, found, left_out, problems } = walked;
        let left_out: std::collections::BTreeMap<String, u64> =
            left_out.into_iter().map(|(why, count)| (why.to_owned(), count)).collect();
        let mut scan = Scan {
            files: (found.len() + problems.len()) as u64 + left_out.values().sum::<u64>(),
            left_out,
            ..Scan::default()
        };
        problems.into_iter().for_each(|(path, why)| self.problem(&mut scan, &path, why));
        let Due { files, unchanged, unsettled, refused, missing, orphans } = table.look(found);
        (scan.unchanged, scan.unsettled) = (unchanged, unsettled);
        refused.into_iter().for_each(|(path, why)| self.problem(&mut scan, &path, why));
        if orphans > 0 && self.kept.says.on_missing == OnMissing::Remove {
            let why = format!(
                "there is no file at all, so that {orphans} documents stay; delete \
                 them if that is meant"
            );
            self.problem(&mut scan, "", why);
        }
        self.memory.tell(|status| status.scan = Some(scan.clone()));
        for file in files {
            self.take(table, &mut scan, &file).await;
            self.memory.tell(|status| status.scan = Some(scan.clone()));
        }
        for (path, document) in missing {
            self.missing(table, &mut scan, &path, document).await;
        }
        self.memory.tell(|status| status.scan = Some(scan));
        Ok(took)
    }

    async fn walk(&self) -> Result<(Walked, Duration), String> {
        let (root, ignore) = (PathBuf::from(&self.way.root), self.kept.says.ignore.clone());
        let places = self.at.documents.places();
        let over = Over::default();
        let is_over = Arc::clone(&over.0);
        let begun = tokio::time::Instant::now();
        let walk = move || {
            let own: Vec<_> = places.iter().filter_map(|place| walk::id_of(place)).collect();
            Walk { root: &root, ignore: &ignore, own: &own, is_over: &is_over }.all()
        };
        let walked = spawn_blocking(walk).await.map_err(|_| "looking was given up".to_owned())?;
        let walked = walked.map_err(|error| format!("{}: {}", self.way.root, walk::said(&error)));
        Ok((walked?, begun.elapsed()))
    }

    /// Learns which documents there are of files here.
    async fn remember(&self, table: &mut Table) -> Result<(), CatalogError> {
        if !self.at.documents.is_begun().await? {
            return Ok(());
        }
        let (catalog, root) = (&self.at.documents.opened().await?.catalog, &self.way.root);
        let scope = &self.way.scope;
        let filter = DocumentFilter {
            collection: Some(scope.collection.clone()),
            ..DocumentFilter::of(scope.tenant.as_str())
        };
        let mut after = None;
        loop {
            let documents = catalog.documents(filter.clone(), after, ASKED).await?;
            let Some(last) = documents.last() else { return Ok(()) };
            after = Some(last.cursor());
            for document in documents {
                let Some(below) = below(root, &document.source) else { continue };
                let Some(newest) = &document.newest else { continue };
                // To add what is being read would begin it again.
                let has_ended =
                    matches!(document.state, DocumentState::Live | DocumentState::Failed);
                let is_begun = has_ended || newest.item.is_some();
                if document.state != DocumentState::Deleting {
                    let (id, hash) = (document.id, newest.content.hash);
                    table.know(below.to_owned(), Document { id, hash, is_begun });
                }
            }
        }
    }

    async fn take(&self, table: &mut Table, scan: &mut Scan, file: &Found) {
        match self.at.take(self.way, file, table.document(&file.path)).await {
            Taken::Added(document) => {
                scan.added += 1;
                self.memory.tell(|status| status.sum.added += 1);
                table.taken(&file.path, document);
            }
            Taken::Changed(document) => {
                scan.changed += 1;
                self.memory.tell(|status| status.sum.changed += 1);
                table.taken(&file.path, document);
            }
            Taken::Unchanged(document) => {
                scan.unchanged += 1;
                table.taken(&file.path, document);
            }
            Taken::Unsettled => {
                scan.unsettled += 1;
                table.unsettled(&file.path);
            }
            Taken::Later(why) => self.problem(scan, &file.path, why),
            Taken::Never(why) => {
                table.refused(&file.path, why.clone());
                self.problem(scan, &file.path, why);
            }
        }
    }

    /// A file was not found that a document is of.
    async fn missing(&self, table: &mut Table, scan: &mut Scan, path: &str, id: uuid::Uuid) {
        let full = walk::full_path(&self.way.root, path);
        // What is only left out now, or out of reach, is not gone. Nor is anything if the folder
        // went since it was walked over.
        let is_gone =
            walk::is_gone(&full) && !path.is_empty() && Path::new(&self.way.root).is_dir();
        if !is_gone {
            return;
        }
        if self.kept.says.on_missing == OnMissing::Remove {
            match self.at.documents.remove(&self.way.scope.tenant, id).await {
                Ok(_) => {
                    scan.removed += 1;
                    self.memory.tell(|status| status.sum.removed += 1);
                }
                Err(error) => {
                    // It is missing at the next look too.
                    return self.problem(scan, path, format!("it cannot be let go: {error}"));
                }
            }
        }
        table.forget(path);
    }

    fn problem(&self, scan: &mut Scan, path: &str, reason: String) {
        scan.not_taken += 1;
        if scan.problems.len() < NAMED {
            scan.problems.push(Problem { path: walk::full_path(&self.way.root, path), reason });
        }
    }
}

/// Where a document's file is below a root, if it is.
fn below<'a>(root: &str, source: &'a str) -> Option<&'a str> {
    match source.strip_prefix(root)? {
        "" => Some(""),
        rest => rest.strip_prefix('/'),
    }
}

/// Says that nobody waits any more when it is dropped.
#[derive(Default)]
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_takes_at_most_a_twentieth_of_all_time() {
        assert_eq!(pause(Duration::from_millis(3), false), EVERY);
        assert_eq!(pause(Duration::from_millis(3), true), SOON);
        for took in [100, 1_000, 60_000].map(Duration::from_millis) {
            for is_unsettled in [false, true] {
                assert!(took * 20 <= took + pause(took, is_unsettled), "{took:?}");
            }
        }
    }

    #[test]
    fn a_document_is_of_a_source_if_its_file_is_below_the_folder() {
        assert_eq!(below("/srv/in", "/srv/in/a/b.md"), Some("a/b.md"));
        assert_eq!(below("/srv/in", "/srv/in"), Some(""));
        assert_eq!(below("/srv/in", "/srv/inbox/a.md"), None);
        assert_eq!(below("/srv/in", "a.md"), None);
    }
}
