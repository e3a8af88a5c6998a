//! What a server held when it was killed.
//!
//! Its workers have names that the next process has again, so that what they held is known to be
//! nobody's: it is handed back without the cost of an attempt, and before its lease runs out. With
//! an embedded store that is so at once. On a database another server may have the same name, as
//! containers do that are made alike; there only what is not renewed any more is nobody's, by two
//! looks and no clock but our own, which holds through a pooler too.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use windrow_core::change::Lease;
use windrow_core::command::Outcome;
use windrow_core::find::Filter;
use windrow_core::item::Status;
use windrow_core::limits::COMMAND_ITEMS_MAX;
use windrow_core::ports::Store as _;
use windrow_core::{ItemId, LeaseId};
use windrow_pipelines::documents::QUEUE;

use crate::logs;
use crate::store::Queue;

/// Items that are looked at together.
const SLICE: usize = 500;

/// The leases that workers of a name have or had.
pub(super) async fn leases(queue: &Queue, name: &str) -> anyhow::Result<Vec<Lease>> {
    let prefix = format!("{name}/");
    let mut leases = queue.store().leases().await?;
    leases.retain(|lease| lease.worker.starts_with(&prefix));
    Ok(leases)
}

/// Hands back what was held under some leases, once it is clear that nobody renews them.
pub(super) async fn take_back_later(queue: Arc<Queue>, name: String, before: Vec<Lease>) {
    // Whoever has one renews it after a third of its time.
    let longest = before.iter().map(|lease| lease.lease_ms).max();
    let Some(lease_ms) = longest else { return };
    tokio::time::sleep(Duration::from_millis(lease_ms / 2)).await;
    // If that fails, leases run out.
    let Ok(now) = leases(&queue, &name).await else { return };
    if let Ok(returned @ 1..) = take_back(&queue, &idle(&before, now)).await {
        logs::documents_taken_back(returned);
    }
}

/// Those that nobody has renewed between two looks.
fn idle(before: &[Lease], now: Vec<Lease>) -> Vec<Lease> {
    let is_like =
        |one: &Lease| before.iter().any(|was| was.id == one.id && was.renewed == one.renewed);
    now.into_iter().filter(is_like).collect()
}

/// Hands back what was held under leases that nobody has any more. Says how many items that were.
pub(super) async fn take_back(queue: &Queue, leases: &[Lease]) -> anyhow::Result<usize> {
    let mut held: HashMap<LeaseId, Vec<(ItemId, Outcome)>> =
        leases.iter().map(|lease| (lease.id, Vec::new())).collect();
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

#[cfg(test)]
mod tests {
    use windrow_core::Timestamp;

    use super::*;

    /// A server of the same name took what another one was working on.
    #[test]
    fn what_somebody_renews_is_somebodys() {
        let lease = |id: u128, renewed: u64| Lease {
            id: LeaseId(id),
            worker: "host:7117/ocr".into(),
            granted: Timestamp(1),
            renewed: Timestamp(renewed),
            expires: Timestamp(renewed + 120_000),
            lease_ms: 120_000,
            items: 1,
        };
        let before = [lease(1, 5), lease(2, 6), lease(3, 7)];
        // The first was renewed, the third has ended, and the fourth is new.
        let now = vec![lease(1, 40_005), lease(2, 6), lease(4, 50_000)];
        assert_eq!(idle(&before, now), [lease(2, 6)]);
    }
}
