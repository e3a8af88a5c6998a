//! The engine as a [`Queue`]: what a pipeline in the same process programs against.

use std::sync::Arc;

use windrow_core::command::{
    Answer, Cancelled, Claim, Command, Enqueued, Grant, NewItem, Outcome, Renewed, Request,
    Retried, RetryMode, Scope, Settled,
};
use windrow_core::ports::{Count, Store};
use windrow_core::queue::{Answered, Each, Error, Explained, Page, Queue, Seen, Work};
use windrow_core::settings::Settings;
use windrow_core::trail::Progress;
use windrow_core::{ItemId, LeaseId, Refusal, RequestId};

use crate::clock::Clock;
use crate::engine::{Engine, Failure};

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::Store(error) => error.into(),
            Failure::Overloaded { retry_after_ms } => Error::Overloaded { retry_after_ms },
        }
    }
}

/// What was told to each, as the port says it.
fn each<T>(answers: Vec<Result<T, Refusal>>) -> Vec<Each<T>> {
    answers.into_iter().map(|answer| answer.map_err(Into::into)).collect()
}

/// The one answer of a command that names one item.
fn only<T>(mut answers: Vec<Result<T, Refusal>>, item: ItemId) -> Answered<T> {
    Ok(answers.pop().unwrap_or(Err(Refusal::NotFound { item }))?)
}

fn unexpected<T>() -> Answered<T> {
    Err(Error::OutcomeUnknown("an unexpected answer".into()))
}

impl<S: Store, C: Clock> Queue for Engine<S, C> {
    async fn enqueue(
        &self,
        items: Vec<NewItem>,
        request: Option<RequestId>,
    ) -> Answered<Vec<Each<Enqueued>>> {
        Ok(each(Engine::enqueue(self, items, request).await?))
    }

    async fn claim(
        &self,
        claim: Claim,
        wait_ms: u64,
        request: Option<RequestId>,
    ) -> Answered<Option<Grant<Work>>> {
        let granted = Engine::claim(self, claim, wait_ms, request).await?;
        Ok(granted.map(|Grant { lease, expires_at, items }| {
            let items = items.into_iter().map(Work::from).collect();
            Grant { lease, expires_at, items }
        }))
    }

    async fn renew(&self, lease: LeaseId, lease_ms: Option<u64>) -> Answered<Renewed> {
        Ok(Engine::renew(self, lease, lease_ms).await?)
    }

    async fn progress(
        &self,
        lease: LeaseId,
        items: Vec<(ItemId, Progress)>,
    ) -> Answered<Vec<Each<()>>> {
        Ok(each(Engine::progress(self, lease, items).await?))
    }

    async fn settle(
        &self,
        lease: LeaseId,
        items: Vec<(ItemId, Outcome)>,
        request: Option<RequestId>,
    ) -> Answered<Vec<Each<Settled>>> {
        let command = Command::Settle { lease, items };
        match self.submit(Request { id: request, command }).await? {
            Answer::Settled(settled) => Ok(each(settled)),
            _ => unexpected(),
        }
    }

    async fn cancel(&self, item: ItemId, request: Option<RequestId>) -> Answered<Cancelled> {
        let command = Command::Cancel { items: vec![item] };
        match self.submit(Request { id: request, command }).await? {
            Answer::Cancelled(cancelled) => only(cancelled, item),
            _ => unexpected(),
        }
    }

    async fn retry(
        &self,
        item: ItemId,
        mode: RetryMode,
        from_stage: Option<Arc<str>>,
        request: Option<RequestId>,
    ) -> Answered<Retried> {
        let is_child = match mode {
            RetryMode::Clone => {
                let seen = self.store().inspect(item).await?;
                seen.is_some_and(|seen| !seen.item.is_root())
            }
            RetryMode::Reset => false,
        };
        let mode = if is_child { RetryMode::Reset } else { mode };
        Ok(Engine::retry(self, item, mode, from_stage, request).await?)
    }

    async fn delete(&self, item: ItemId, request: Option<RequestId>) -> Answered<u32> {
        Ok(Engine::delete(self, item, request).await?.removed)
    }

    async fn prioritise(&self, item: ItemId, priority: u8) -> Answered<()> {
        only(Engine::prioritise(self, vec![item], priority).await?, item)
    }

    async fn pause(&self, scope: Scope) -> Answered<()> {
        Ok(Engine::pause(self, scope).await?)
    }

    async fn resume(&self, scope: Scope) -> Answered<()> {
        Ok(Engine::resume(self, scope).await?)
    }

    async fn configure(&self, queue: Arc<str>, settings: Settings) -> Answered<()> {
        Ok(Engine::configure(self, queue, settings).await?)
    }

    async fn inspect(&self, item: ItemId) -> Answered<Option<Seen>> {
        let mut seen: Vec<_> = self.store().inspect(item).await?.into_iter().collect();
        self.show_attempts(&mut seen).await?;
        Ok(seen.pop().map(Seen::from))
    }

    async fn explain(&self, item: ItemId) -> Answered<Option<Explained>> {
        Ok(Engine::explain(self, item).await?.map(Explained::from))
    }

    async fn children(&self, item: ItemId, from: u32, limit: usize) -> Answered<Option<Page>> {
        if self.store().inspect(item).await?.is_none() {
            return Ok(None);
        }
        let ids = self.store().children(item, from, limit).await?;
        // One that went since the list was made is not there any more.
        let mut children = self.store().inspect_all(&ids).await?;
        self.show_attempts(&mut children).await?;
        let last = children.last().and_then(|child| child.item.place);
        let next = last.filter(|_| ids.len() == limit).map(|last| last.ordinal + 1);
        Ok(Some(Page { items: children.into_iter().map(Seen::from).collect(), next }))
    }

    async fn counts(&self) -> Answered<Vec<Count>> {
        let counts = self.store().counts().await?;
        Ok(counts.into_iter().filter(|count| count.items > 0).collect())
    }
}
