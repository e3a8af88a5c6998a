//! Claims that may wait for work.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use windrow_core::command::{Answer, Claim, Command, Grant, Request};
use windrow_core::limits::RETRY_AFTER_MS;
use windrow_core::ports::{Store, Work};
use windrow_core::{RequestId, Timestamp};

use crate::clock::{Clock, before};
use crate::engine::{Engine, Failure};

/// A worker that does not say who it is.
const UNNAMED: &str = "unnamed";

impl<S: Store, C: Clock> Engine<S, C> {
    /// Takes work, waiting up to `wait_ms` for some to arrive. None if none did.
    pub async fn claim(
        &self,
        claim: Claim,
        wait_ms: u64,
        request: Option<RequestId>,
    ) -> Result<Option<Grant<Work>>, Failure> {
        self.claim_unless(claim, wait_ms, request, std::future::pending()).await
    }

    /// The same for a caller who may go away. Dropping a claim while work is being taken loses that
    /// work until its lease ends; this one stops waiting when the caller is `gone`, and what it has
    /// taken by then it gives, to be handed back.
    pub async fn claim_unless(
        &self,
        claim: Claim,
        wait_ms: u64,
        request: Option<RequestId>,
        gone: impl Future<Output = ()>,
    ) -> Result<Option<Grant<Work>>, Failure> {
        let mut claim = claim;
        if claim.worker.is_empty() {
            claim.worker = UNNAMED.into();
        }
        let claim = Arc::new(claim);
        let now = self.clock().now();
        let _open = self.presence().claiming(&claim, now);
        if wait_ms == 0 {
            return self.try_claim(&claim, request).await;
        }
        self.claim_waiting(&claim, now.plus(wait_ms), request, pin!(gone)).await
    }

    async fn try_claim(
        &self,
        claim: &Arc<Claim>,
        request: Option<RequestId>,
    ) -> Result<Option<Grant<Work>>, Failure> {
        if self.waiters().is_closed() || self.drains().has(&claim.worker) {
            return Ok(None);
        }
        let command = Command::Claim(Claim::clone(claim));
        match self.submit(Request { id: request, command }).await? {
            Answer::Claimed(grant) => Ok(grant),
            _ => Ok(None),
        }
    }

    async fn claim_waiting(
        &self,
        claim: &Arc<Claim>,
        deadline: Timestamp,
        request: Option<RequestId>,
        mut gone: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Option<Grant<Work>>, Failure> {
        let full = Failure::Overloaded { retry_after_ms: RETRY_AFTER_MS };
        let _pass = self.waiting.enter().ok_or(full)?;
        loop {
            if self.drains().has(&claim.worker) {
                let resumed = self.drains().until(&claim.worker, false);
                let resumed = unless(resumed, gone.as_mut());
                if before(self.clock(), deadline, resumed).await != Some(true) {
                    return Ok(None);
                }
            }
            let waited = self.claim_in_line(claim, deadline, request, gone.as_mut()).await?;
            if let Waited::Over(claimed) = waited {
                return Ok(claimed);
            }
        }
    }

    async fn claim_in_line(
        &self,
        claim: &Arc<Claim>,
        deadline: Timestamp,
        request: Option<RequestId>,
        mut gone: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Waited, Failure> {
        let ticket = self.waiters().take_ticket(claim);
        loop {
            let mut call = ticket.answer();
            let claimed = self.try_claim(claim, request).await?;
            let is_over = self.waiters().is_closed() || self.clock().now() >= deadline;
            if claimed.is_none() && !is_over && self.drains().has(&claim.worker) {
                // It did not look, so the call that it may have got goes to the next in line.
                return Ok(Waited::Drained);
            }
            if let Some(call) = &mut call {
                call.got(claimed.as_ref());
            }
            if claimed.is_some() || is_over {
                return Ok(Waited::Over(claimed));
            }
            let drained = self.drains().until(&claim.worker, true);
            let called = unless(either(ticket.called(), drained), gone.as_mut());
            match before(self.clock(), deadline, called).await {
                Some(true) => {}
                Some(false) => return Ok(Waited::Over(None)),
                None => return self.try_claim(claim, request).await.map(Waited::Over),
            }
        }
    }
}

/// How waiting in line ended.
enum Waited {
    /// With work, or without any.
    Over(Option<Grant<Work>>),
    /// The worker was drained.
    Drained,
}

/// Whether something happens before somebody is gone.
async fn unless(
    happens: impl Future<Output = ()>,
    mut gone: Pin<&mut impl Future<Output = ()>>,
) -> bool {
    let mut happens = pin!(happens);
    std::future::poll_fn(|cx| match gone.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(false),
        Poll::Pending => happens.as_mut().poll(cx).map(|()| true),
    })
    .await
}

/// Until one of two things happens.
async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    std::future::poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => other.as_mut().poll(cx),
    })
    .await;
}
