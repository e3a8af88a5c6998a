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
        if self.waiters().is_closed() {
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
        let ticket = self.waiters().take_ticket(claim);
        loop {
            let mut call = ticket.answer();
            let claimed = self.try_claim(claim, request).await?;
            if let Some(call) = &mut call {
                call.got(claimed.as_ref());
            }
            let is_over = self.waiters().is_closed() || self.clock().now() >= deadline;
            if claimed.is_some() || is_over {
                return Ok(claimed);
            }
            match before(self.clock(), deadline, called(ticket.called(), gone.as_mut())).await {
                Some(true) => {}
                Some(false) => return Ok(None),
                None => return self.try_claim(claim, request).await,
            }
        }
    }
}

/// Whether somebody is called before they are gone.
async fn called(
    call: impl Future<Output = ()>,
    mut gone: Pin<&mut impl Future<Output = ()>>,
) -> bool {
    let mut call = pin!(call);
    std::future::poll_fn(|cx| match gone.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(false),
        Poll::Pending => call.as_mut().poll(cx).map(|()| true),
    })
    .await
}
