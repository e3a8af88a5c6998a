//! Forgetting: what the catalog remembers, and nobody needs any more.
//!
//! Decides how long that is. A memo goes when nobody has used it for a season. That something was
//! removed is told to the indexes of all servers on the catalog, which look every now and then;
//! who has not looked for longer than it is kept makes its index anew. What could not be forgotten
//! now is forgotten later.

use std::collections::VecDeque;
use std::time::Duration;

use windrow_core::Timestamp;
use windrow_pipelines::catalog::Catalog;

/// How often it is done. As often each server's index follows the catalog.
pub(super) const EVERY: Duration = Duration::from_secs(3_600);
/// How long a memo is kept that nobody uses.
const MEMOS_KEPT_MS: u64 = 90 * 24 * 3_600_000;
/// For so many rounds removals are kept: an index that missed a few still catches up.
const ROUNDS_KEPT: usize = 6;
/// Rows that are forgotten at once.
const AT_ONCE: u32 = 1_000;

/// Forgets memos that nobody has used for long.
pub(super) async fn memos(catalog: &dyn Catalog, now: Timestamp) {
    let before = Timestamp(now.0.saturating_sub(MEMOS_KEPT_MS));
    while let Ok(forgotten) = catalog.sweep_memos(before, AT_ONCE).await
        && forgotten == u64::from(AT_ONCE)
    {}
}

/// What was removed, by the rounds in which this server learnt of it.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The newest change of each of the last rounds, the oldest first.
    newest: VecDeque<u64>,
}

impl Changes {
    /// Forgets what was removed so many rounds ago.
    pub(super) async fn forget(&mut self, catalog: &dyn Catalog) {
        let Ok(newest) = catalog.newest_change().await else { return };
        let Some(old) = self.noted(newest) else { return };
        while let Ok(forgotten) = catalog.sweep_changes(old + 1, AT_ONCE).await
            && forgotten == u64::from(AT_ONCE)
        {}
    }

    /// Notes the newest change of a round, and says which was that of the last round whose
    /// removals are not kept.
    fn noted(&mut self, newest: u64) -> Option<u64> {
        self.newest.push_back(newest);
        if self.newest.len() > ROUNDS_KEPT { self.newest.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use std::sync::Arc;

    use uuid::Uuid;
    use windrow_pipelines::catalog::{
        Content, NewDocument, Scope, Sqlite, VectorCursor, VectorsSince,
    };

    use super::*;

    /// A document that comes and goes: one removal.
    async fn come_and_go(catalog: &dyn Catalog, n: u64) {
        let id = Uuid::from_u128(u128::from(n));
        let content = Content {
            hash: [0; 32],
            media_type: "text/plain".into(),
            bytes: 0,
            place: String::new(),
        };
        let (scope, source, name) = (Scope::new("t", "c"), n.to_string(), n.to_string());
        let new = NewDocument { id, scope, source, name, content, again: false };
        catalog.add_document(new, Timestamp(n)).await.unwrap();
        assert!(catalog.begin_delete("t", id, Vec::new(), Timestamp(n)).await.unwrap());
    }

    async fn removals(catalog: &dyn Catalog) -> usize {
        match catalog.vectors_since(VectorCursor::default(), 10_000).await.unwrap() {
            VectorsSince::Changes { changes, .. } => changes.len(),
            VectorsSince::BeginAgain => panic!("who begins misses nothing"),
        }
    }

    /// Nobody ever swept them, and each stayed for good.
    #[tokio::test]
    async fn removals_are_kept_for_some_rounds_and_then_forgotten() {
        let dir = std::env::temp_dir().join(format!("windrow-forget-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let catalog = Arc::new(Sqlite::open(&dir.join("catalog.db")).unwrap());
        let mut changes = Changes::default();
        for n in 0..20 {
            come_and_go(&*catalog, n).await;
        }
        changes.forget(&*catalog).await;
        come_and_go(&*catalog, 20).await;
        for round in 1..ROUNDS_KEPT {
            changes.forget(&*catalog).await;
            assert_eq!(removals(&*catalog).await, 21, "round {round}");
        }
        changes.forget(&*catalog).await;
        assert_eq!(removals(&*catalog).await, 1, "what came after the first round");
        changes.forget(&*catalog).await;
        assert_eq!(removals(&*catalog).await, 0);
        drop(catalog);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
