//! The store in a data directory: whether it opens, or who has it open, and what it has seen.

use std::path::Path;
use std::sync::Arc;

use windrow_store::embedded::overlay::Overlay;
use windrow_store::embedded::{Embedded, Options};

use super::{Finding, failed, machine, ok, warn};
use crate::cli::data_dir::{Locked, holds_a_store, not_opened, to_read, to_use};
use crate::cli::reach::server_of;
use crate::cli::show::now;

/// Opens it over its files without a write: the format is known, the snapshot is whole and the log
/// behind it too.
pub(super) fn examine(dir: &Path) -> Vec<Finding> {
    match holds_a_store(dir) {
        Ok(true) => {}
        Ok(false) => return vec![none(dir)],
        Err(error) => return vec![failed("store", &error)],
    }
    let opened = to_read(dir).and_then(|disk| {
        let opened = Embedded::open(Arc::new(Overlay::over(disk)), Options::default());
        opened.map_err(|error| not_opened(dir, &error))
    });
    match opened {
        Ok(store) => {
            let said = format!("{} opens: its format is known, its log is whole", dir.display());
            vec![ok("store", said), machine::jumped(store.latest(), now())]
        }
        Err(error) => match error.downcast_ref::<Locked>() {
            Some(locked) => vec![in_use(dir, &locked.by)],
            None => vec![failed("store", &error)],
        },
    }
}

/// Somebody has it open: a server, which can be asked, or a command, which cannot.
fn in_use(dir: &Path, by: &str) -> Finding {
    let said = format!("{} is in use by {by}", dir.display());
    match server_of(dir, by) {
        Some(_) => ok("store", said),
        None => {
            let fix = "wait until it ends; or stop it and run `windrow serve`, which many can use";
            warn("store", format!("{said}, which is no server: nobody else can use it"), fix)
        }
    }
}

/// There is none yet: a server would make one, if it can.
fn none(dir: &Path) -> Finding {
    match to_use(dir) {
        Ok(()) => {
            let said = format!("there is no queue in {} yet", dir.display());
            let fix = "`windrow serve` makes one; or say where it is with --data-dir";
            warn("store", said, fix)
        }
        Err(error) => failed("store", &error),
    }
}
