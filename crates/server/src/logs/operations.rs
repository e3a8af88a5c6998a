//! Lines about what the queue was asked to do.

use std::fmt;

use windrow_core::command::Answer;
use windrow_core::{ItemId, LeaseId};
use windrow_engine::Failure;
use windrow_engine::observe::{Ending, Observer, Operation};

use super::{code, did_not_tick};

/// Longer than this is worth a line by itself. A claim's wait for work does not count.
const SLOW_MICROS: u64 = 1_000_000;
/// Ids in one line at most.
const IDS_MAX: usize = 10;

/// Whoever observes the engine to write lines.
#[derive(Debug)]
pub(crate) struct Lines;

impl Observer for Lines {
    fn ended(&self, operation: &Operation<'_>) {
        let (level, what) = match operation.ending {
            Ending::Failed => (tracing::Level::WARN, "operation failed"),
            _ if operation.micros >= SLOW_MICROS => (tracing::Level::WARN, "slow operation"),
            _ => (tracing::Level::DEBUG, "operation"),
        };
        if level == tracing::Level::WARN {
            let Said { verb, outcome, ms, lease, items, count } = Said::of(operation);
            tracing::warn!(verb, outcome, ms, lease, items, count, "{what}");
        } else if tracing::enabled!(tracing::Level::DEBUG) {
            let Said { verb, outcome, ms, lease, items, count } = Said::of(operation);
            tracing::debug!(verb, outcome, ms, lease, items, count, "{what}");
        }
    }

    fn did_not_tick(&self, failure: &Failure) {
        did_not_tick(failure);
    }
}

/// What a line says of a command: words of ours, numbers and ids.
struct Said {
    verb: &'static str,
    /// `ok`, or the code of what went wrong.
    outcome: &'static str,
    ms: f64,
    lease: Option<String>,
    items: Option<String>,
    count: usize,
}

impl Said {
    fn of(operation: &Operation<'_>) -> Said {
        let (lease, items) = ids(operation);
        Said {
            verb: operation.verb,
            outcome: operation.answered.as_ref().map_or_else(code, |_| "ok"),
            ms: operation.micros as f64 / 1_000.0,
            lease: lease.map(|lease| lease.to_string()),
            items: (!items.is_empty()).then(|| Ids(&items).to_string()),
            count: items.len(),
        }
    }
}

/// The lease and the items that a command was about.
fn ids(operation: &Operation<'_>) -> (Option<LeaseId>, Vec<ItemId>) {
    let asked = operation.asked;
    match operation.answered {
        Ok(Answer::Enqueued(each)) => {
            (None, each.iter().flatten().map(|enqueued| enqueued.id).collect())
        }
        Ok(Answer::Claimed(Some(grant))) => {
            (Some(grant.lease), grant.items.iter().map(|work| work.item.id).collect())
        }
        Ok(Answer::Renewed(renewed)) => (asked.lease, renewed.held.clone()),
        _ => (asked.lease, asked.items.clone()),
    }
}

/// The first of some ids.
struct Ids<'a>(&'a [ItemId]);

impl fmt::Display for Ids<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, id) in self.0.iter().take(IDS_MAX).enumerate() {
            write!(f, "{}{id}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}
