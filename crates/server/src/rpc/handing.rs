//! Handing out: work goes to a caller, or back in line if the caller has gone away.
//!
//! A call is dropped when its connection ends or its caller gives it up. Taking work must not be
//! dropped halfway, so it goes on as a task of its own, which stops waiting when the call is gone;
//! what it took by then is released at once, at no attempt's cost.

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use windrow_core::RequestId;
use windrow_core::command::{Claim, Grant, Outcome};
use windrow_core::ports::{StoreError, Work};
use windrow_engine::Failure;

use super::Shared;
use crate::auth::{Denied, Scoped};

/// Takes work, waiting for some.
pub(super) async fn claim(
    shared: &Shared,
    queue: Scoped,
    claim: Claim,
    wait_ms: u64,
    request: Option<RequestId>,
) -> Result<Option<Handing>, Denied> {
    let (mut tell, told) = oneshot::channel();
    let runtime = shared.runtime.clone();
    tokio::task::spawn_local(async move {
        let granted = queue.claim_unless(claim, wait_ms, request, tell.closed()).await;
        let granted = granted.map(|grant| {
            grant.map(|grant| Handing {
                queue,
                runtime,
                // Whoever repeats the request gets the same answer, and must find it true.
                comes_back: request.is_some(),
                grant: Some(grant),
            })
        });
        // If nobody hears it, it is dropped, and then released.
        let _heard = tell.send(granted);
    });
    let lost = Failure::Store(StoreError::OutcomeUnknown("the claim was lost".into()));
    told.await.unwrap_or(Err(lost.into()))
}

/// Work on its way to whoever asked for it. It goes back in line if it is dropped on the way.
#[derive(Debug)]
pub(super) struct Handing {
    queue: Scoped,
    runtime: Handle,
    comes_back: bool,
    grant: Option<Grant<Work>>,
}

impl Handing {
    /// Whoever asked is there.
    pub(super) fn over(mut self) -> Option<Grant<Work>> {
        self.grant.take()
    }
}

impl Drop for Handing {
    fn drop(&mut self) {
        let Some(grant) = self.grant.take().filter(|_| !self.comes_back) else { return };
        let queue = self.queue.clone();
        self.runtime.spawn(async move {
            let release = |work: &Work| (work.item.id, Outcome::Release { delay_ms: 0 });
            // If this fails, they come back when the lease ends.
            let _released =
                queue.settle(grant.lease, grant.items.iter().map(release).collect(), None).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use tokio::task::LocalSet;
    use windrow_core::command::NewItem;
    use windrow_core::item::{Body, Status};
    use windrow_core::ports::Store as _;
    use windrow_core::{ItemId, RequestId};

    use super::*;
    use crate::cli::place::Place;
    use crate::http::App;
    use crate::store::Open;

    /// Claims as anybody.
    async fn take(shared: &Shared, request: Option<RequestId>) -> Option<Handing> {
        let app = &shared.app;
        let caller = app.book.authenticate(None).await.unwrap();
        let scoped = Scoped::new(&app.queue, &app.book, caller);
        claim(shared, scoped, Claim::new("w", "q", 1), 0, request).await.unwrap()
    }

    /// What became of an item after `test` has seen it handed out: its status and attempts.
    fn after(
        name: &str,
        request: Option<RequestId>,
        test: impl AsyncFnOnce(&Shared, Option<Handing>),
    ) -> (Status, u16) {
        let name = format!("windrow-handing-{name}-{}", std::process::id());
        let path: PathBuf = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let seen = LocalSet::new().block_on(&runtime, async {
            let open = Open::at(Place::Directory(path.clone())).await.unwrap();
            let app = App::alone(Arc::clone(&open.queue)).await;
            let shared = Shared::new(app, "q");
            let added = open.queue.enqueue(vec![NewItem::new(Body::new("t", "q"))], None).await;
            let id: ItemId = added.unwrap()[0].as_ref().unwrap().id;
            let handing = take(&shared, request).await;
            test(&shared, handing).await;
            // Time enough for what was spawned, here where nothing else runs.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            let item = open.queue.store().inspect(id).await.unwrap().unwrap().item;
            (item.status(), item.attempts)
        });
        std::fs::remove_dir_all(path).unwrap();
        seen
    }

    #[test]
    fn what_nobody_got_is_back_in_line_and_costs_no_attempt() {
        let dropped = after("dropped", None, async |_, handing| drop(handing.unwrap()));
        assert_eq!(dropped, (Status::Pending, 0));
        let over = after("over", None, async |_, handing| {
            assert!(handing.unwrap().over().is_some());
        });
        assert_eq!(over, (Status::Processing, 1));
    }

    #[test]
    fn what_can_be_asked_for_again_is_kept_for_whoever_asks() {
        let request = Some(RequestId(7));
        let kept = after("asked", request, async |shared, handing| {
            let lease =
                handing.as_ref().and_then(|one| one.grant.as_ref()).map(|grant| grant.lease);
            drop(handing);
            let again = take(shared, request).await;
            assert_eq!(again.unwrap().over().map(|grant| grant.lease), lease);
        });
        assert_eq!(kept, (Status::Processing, 1));
    }
}
