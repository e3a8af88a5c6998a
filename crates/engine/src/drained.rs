//! Drained workers: those that are handed nothing new until they are resumed.
//!
//! Who is drained is kept by whoever tells the engine; here it only holds. A claim of a drained
//! worker waits as long as any other, so that the worker does not ask again and again, but in no
//! line, so that nobody is called in vain. When its worker is resumed it takes its place.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

/// Workers by name.
pub type Names = Arc<BTreeSet<Arc<str>>>;

/// Which workers are drained.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    known: watch::Sender<Known>,
}

#[derive(Debug, Default)]
struct Known {
    names: Names,
    /// Nobody waits any more.
    is_closed: bool,
}

impl Drained {
    pub(crate) fn set(&self, names: Names) {
        self.known.send_if_modified(|known| {
            let is_new = known.names != names;
            known.names = names;
            is_new
        });
    }

    pub(crate) fn names(&self) -> Names {
        Arc::clone(&self.known.borrow().names)
    }

    pub(crate) fn has(&self, worker: &str) -> bool {
        self.known.borrow().names.contains(worker)
    }

    /// Waits until a worker is drained, or is not any more, or nobody waits any more.
    pub(crate) async fn until(&self, worker: &str, is_drained: bool) {
        let mut known = self.known.subscribe();
        let is_so = |known: &Known| known.is_closed || known.names.contains(worker) == is_drained;
        // The sender lives as long as the engine, so this ends only when it is so.
        let _so = known.wait_for(is_so).await;
    }

    /// Sends everybody home.
    pub(crate) fn close(&self) {
        self.known.send_modify(|known| known.is_closed = true);
    }
}
