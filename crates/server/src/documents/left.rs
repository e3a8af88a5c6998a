//! What a server held when it was killed.
//!
//! Its workers have names that the next process has again, so that what they held is known to be
//! nobody's: it is handed back at the start, at once and without the cost of an attempt, instead of
//! when its lease runs out.

use std::collections::HashMap;
use std::sync::Arc;

use windrow_core::command::Outcome;
use windrow_core::find::Filter;
use windrow_core::item::Status;
use windrow_core::limits::COMMAND_ITEMS_MAX;
use windrow_core::ports::Store as _;
use windrow_core::{ItemId, LeaseId};
use windrow_pipelines::documents::QUEUE;

use crate::store::Queue;

/// Items that are looked at together.
const SLICE: usize = 500;

/// Hands back what workers of a name held that nobody has any more. Says how many items that were.
pub(super) async fn take_back(queue: &Arc<Queue>, name: &str) -> anyhow::Result<usize> {
    let prefix = format!("{name}/");
    let leases = queue.store().leases().await?;
    let ours = leases.iter().filter(|lease| lease.worker.starts_with(&prefix));
    let mut held: HashMap<LeaseId, Vec<(ItemId, Outcome)>> =
        ours.map(|lease| (lease.id, Vec::new())).collect();
    if held.is_empty() {
        return Ok(0);
    }
    let filter = Filter {
        queue: Some(QUEUE.into()),
        statuses: vec![Status::Processing],
        split_is_processing: false,
        ..Filter::default()
    };
    let mut after = None;
    loop {
        let page = queue.store().find(&filter, after, SLICE, &|| false).await?;
        for listed in &page.items {
            if let Some(items) = listed.item.lease().and_then(|lease| held.get_mut(&lease)) {
                items.push((listed.item.id, Outcome::Release { delay_ms: 0 }));
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let mut returned = 0;
    for (lease, items) in held {
        for slice in items.chunks(COMMAND_ITEMS_MAX) {
            // Whatever was settled meanwhile is not ours to hand back.
            let each = queue.settle(lease, slice.to_vec()).await?;
            returned += each.iter().filter(|each| each.is_ok()).count();
        }
    }
    Ok(returned)
}
